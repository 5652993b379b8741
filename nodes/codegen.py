"""The acts of CodeGen (Barbi et al., arXiv 2502.05986, after DyLAN): coders write, judges look; and how it ends.

Nothing here runs a program: `codegen_trials.py` has nodes of their own for that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from langchain_core.runnables import RunnableLambda

from sottovoce.agents.ask import Ask
from sottovoce.agents.hooked import WORDS
from sottovoce.channels.message import Message, Part
from sottovoce.environments.alike import agreeing
from sottovoce.environments.codegen import MOST_TESTS, assertions, code, scores, statements
from sottovoce.environments.problem import Problem
from sottovoce.nodes.codegen_views import (
    SCORED,
    Review,
    assertions_form,
    code_form,
    first_turns,
    judge_turns,
    later_turns,
    rank_form,
    reflections_form,
)
from sottovoce.nodes.context import Contexts, RunContext
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import CodeGen
from sottovoce.nodes.settings.codegen import REFLECTOR
from sottovoce.nodes.state import RESTORED, Discussion, Update, Vote, heard, rounds_of, said

TEST, REVIEW, RANK, RUN = "test", "review", "rank", "run"


class Coding(Discussion):
    """The state of CodeGen."""

    errors: Annotated[dict[str, str], RESTORED]
    """By coder: why the last round's solution does not run at all, or nothing."""
    reviews: Annotated[list[Review], RESTORED]
    """What judges found out about the last round's solutions, in the order in which they read them."""
    ranked: Annotated[list[str], RESTORED]
    """Whose two solutions coders are shown, the best first."""
    passed: dict[str, int]
    """By coder: how many of all tests the last solution passes."""


# What agents do


async def write(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """One coder's solution."""
    view, name = run.view(state, agent), entry_point(state)
    if state["round"] == 0:
        ask = Ask(agent, "answer", first_turns(view, name), code_form(scored=False))
        return {"board": await say(run, state, ask)}
    spoken, reviews = replies_of(run, state), {review["agent"]: review for review in state["reviews"]}
    reflected = said(state, REFLECTOR, state["round"], (REVIEW,))
    assert reflected is not None, "judges speak before coders"
    best = [(reviews[who], spoken[who]) for who in state["ranked"]]
    ask = Ask(agent, "revise", later_turns(view, name, best, reflected), code_form(scored=True))
    (message,) = await say(run, state, ask)
    return {"board": [replace(message, notes=(*message.notes, _helped(message)))]}


def deed(update: Update) -> str:
    """Of a solution: its program is run."""
    return RUN


async def test(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """The Tester's tests."""
    name = entry_point(state)
    request = run.prompts.render("codegen/test", function=name, most=MOST_TESTS)
    return await _judge(run, state, Ask(agent, TEST, (), assertions_form(), protocol=WORDS), request)


async def reflect(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """The Reflector's reviews; they are heard, and so said by the protocol."""
    count = len(run.settings.speakers())
    request = run.prompts.render("codegen/reflect", count=count)
    return await _judge(run, state, Ask(agent, REVIEW, (), reflections_form()), request)


async def rank(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """The Ranker's best two."""
    count = len(run.settings.speakers())
    request = run.prompts.render("codegen/rank", count=count)
    return await _judge(run, state, Ask(agent, RANK, (), rank_form(count), protocol=WORDS), request)


async def _judge(run: RunContext[CodeGen], state: Coding, ask: Ask, request: Sequence[Part]) -> Update:
    replies = replies_of(run, state)
    turns = judge_turns(run.view(state, ask.agent), list(replies.values()), request)
    return {"board": await say(run, state, replace(ask, turns=turns))}


def _helped(message: Message) -> str:
    """How helpful the judges were to a coder, for a reader and for monitors."""
    found = scores(message.whole, len(SCORED))
    if found is None:
        return f"no scores of {', '.join(SCORED)} could be read"
    return f"helped by {', '.join(f'{name} {score}' for name, score in zip(SCORED, found, strict=True))}"


# What they have before them


def problem_of(state: Discussion) -> Problem | None:
    """The tests of the question, which nobody reads; a question may have none.

    Raises:
        UsageError: its `game` is no problem.
    """
    given = state.get("game")
    return None if given is None else Problem.model_validate(given)


def entry_point(state: Discussion) -> str:
    """The name of the function that is asked for; empty where it is not known."""
    problem = problem_of(state)
    return problem.entry_point if problem else ""


def replies_of(run: RunContext[CodeGen], state: Discussion) -> dict[str, Message]:
    """What coders said in the round before, in the order in which judges read it: a new one in each round."""
    round = state["round"] - 1
    spoken = rounds_of(state, run.answers)[round]
    coders = run.settings.speakers()
    random.Random(run.seed(state, "", "order")).shuffle(coders)
    return {coder: spoken[coder] for coder in coders}


def solution_of(message: Message, state: Discussion) -> str:
    """The program that a reply holds."""
    return code(message.whole, state["question"])


def tests_of(state: Discussion) -> list[str]:
    """All that the Tester wrote, each once."""
    replies = [message.whole for message in heard(state) if message.act == TEST]
    return list(dict.fromkeys(test for reply in replies for test in assertions(reply)))


# How a round ends


def vote_of(message: Message, state: Discussion) -> Vote:
    """A coder's solution; what is no Python abstains."""
    solution = solution_of(message, state)
    answer = solution if statements(solution) else None
    return {"agent": message.agent, "answer": answer, "counts": answer is not None}


def agreed(state: Discussion) -> list[str]:
    """Who wrote alike, where that is more than two thirds of the coders (rounded down); else nobody."""
    spoken = [(vote["agent"], vote["answer"]) for vote in state["votes"] if vote["answer"] is not None]
    alike = agreeing([solution for _, solution in spoken])
    return [spoken[at][0] for at in alike] if len(alike) > 2 * len(state["votes"]) // 3 else []


def hand_in(contexts: Contexts[CodeGen]) -> RunnableLambda[Coding, Update]:
    """The node in which the round's solutions are counted; no reset goes back behind it."""

    def hand_in(state: Coding) -> Update:
        run = contexts.of(state)
        spoken = rounds_of(state, run.answers)[-1]
        votes = [vote_of(spoken[coder], state) for coder in run.settings.speakers()]
        return {"votes": votes, "marks": []}

    return RunnableLambda(hand_in, name="hand_in")
