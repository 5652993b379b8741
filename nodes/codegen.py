"""The acts of CodeGen (Barbi et al., arXiv 2502.05986, after DyLAN): coders write, judges review; the end of a round.

Nothing here runs a program: separate nodes in `codegen_tests.py` do.
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
from sottovoce.environments.bleu import agreeing
from sottovoce.environments.codegen import MOST_TESTS, assertions, code, scores, statements
from sottovoce.environments.problems import Problem
from sottovoce.nodes.codegen_prompts import (
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
from sottovoce.nodes.state import RESTORED, Discussion, Update, Vote, current_messages, rounds_of, said
from sottovoce.settings import CodeGen
from sottovoce.settings.codegen import REFLECTOR

TEST, REVIEW, RANK, RUN = "test", "review", "rank", "run"


class Coding(Discussion):
    """The state of CodeGen."""

    errors: Annotated[dict[str, str], RESTORED]
    """By coder: why the last round's solution does not run at all; empty if it runs."""
    reviews: Annotated[list[Review], RESTORED]
    """The reviews of the last round's solutions, in the order in which judges read them."""
    ranked: Annotated[list[str], RESTORED]
    """The authors of the two solutions that coders are shown, the best first."""
    passed: dict[str, int]
    """By coder: number of tests that the last solution passes."""


# Acts


def write(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """Return one coder's solution."""
    builder, name = run.prompt_builder(state, agent), entry_point(state)
    if state["round"] == 0:
        ask = Ask(agent, "answer", first_turns(builder, name), code_form(scored=False))
        return {"board": say(run, state, ask)}
    spoken, reviews = replies_of(run, state), {review["agent"]: review for review in state["reviews"]}
    reflected = said(state, REFLECTOR, state["round"], (REVIEW,))
    assert reflected is not None, "judges speak before coders"
    best = [(reviews[who], spoken[who]) for who in state["ranked"]]
    ask = Ask(agent, "revise", later_turns(builder, name, best, reflected), code_form(scored=True))
    (message,) = say(run, state, ask)
    return {"board": [replace(message, notes=(*message.notes, _helped(message)))]}


def effect(update: Update) -> str:
    """Return the effect of a solution: its program is run."""
    return RUN


def test(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """Return the Tester's tests."""
    name = entry_point(state)
    request = run.prompts.render("codegen/test", function=name, most=MOST_TESTS)
    return _judge(run, state, Ask(agent, TEST, (), assertions_form(), protocol=WORDS), request)


def reflect(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """Return the Reflector's reviews, which use the protocol, since coders hear them."""
    count = len(run.settings.speakers())
    request = run.prompts.render("codegen/reflect", count=count)
    return _judge(run, state, Ask(agent, REVIEW, (), reflections_form()), request)


def rank(run: RunContext[CodeGen], state: Coding, agent: str) -> Update:
    """Return the Ranker's best two."""
    count = len(run.settings.speakers())
    request = run.prompts.render("codegen/rank", count=count)
    return _judge(run, state, Ask(agent, RANK, (), rank_form(count), protocol=WORDS), request)


def _judge(run: RunContext[CodeGen], state: Coding, ask: Ask, request: Sequence[Part]) -> Update:
    replies = replies_of(run, state)
    turns = judge_turns(run.prompt_builder(state, ask.agent), list(replies.values()), request)
    return {"board": say(run, state, replace(ask, turns=turns))}


def _helped(message: Message) -> str:
    """Return a note on how helpful a coder found the judges, for display and for monitors."""
    found = scores(message.full_text, len(SCORED))
    if found is None:
        return f"no scores of {', '.join(SCORED)} could be read"
    return f"helped by {', '.join(f'{name} {score}' for name, score in zip(SCORED, found, strict=True))}"


# Problem and solutions


def problem_of(state: Discussion) -> Problem | None:
    """Return the question's problem, whose tests no agent sees; None without one.

    Raises:
        UsageError: its `game` is not a problem.
    """
    given = state.get("game")
    return None if given is None else Problem.model_validate(given)


def entry_point(state: Discussion) -> str:
    """Return the name of the required function; empty if it is not known."""
    problem = problem_of(state)
    return problem.entry_point if problem else ""


def replies_of(run: RunContext[CodeGen], state: Discussion) -> dict[str, Message]:
    """Return the coders' replies of the round before, in judges' order, which is shuffled in each round."""
    round = state["round"] - 1
    spoken = rounds_of(state, run.answers)[round]
    coders = run.settings.speakers()
    random.Random(run.seed(state, "", "order")).shuffle(coders)
    return {coder: spoken[coder] for coder in coders}


def solution_of(message: Message, state: Discussion) -> str:
    """Return the program in a reply."""
    return code(message.full_text, state["question"])


def tests_of(state: Discussion) -> list[str]:
    """Return all of the Tester's tests, each once."""
    replies = [message.full_text for message in current_messages(state) if message.act == TEST]
    return list(dict.fromkeys(test for reply in replies for test in assertions(reply)))


# The end of a round


def vote_of(message: Message, state: Discussion) -> Vote:
    """Return a coder's solution as a vote; a solution that is not Python is an abstention."""
    solution = solution_of(message, state)
    answer = solution if statements(solution) else None
    return {"agent": message.agent, "answer": answer, "counts": answer is not None}


def agreed(state: Discussion) -> list[str]:
    """Return the coders with similar solutions if they are more than two thirds of all (rounded down), else []."""
    spoken = [(vote["agent"], vote["answer"]) for vote in state["votes"] if vote["answer"] is not None]
    alike = agreeing([solution for _, solution in spoken])
    return [spoken[at][0] for at in alike] if len(alike) > 2 * len(state["votes"]) // 3 else []


def hand_in(contexts: Contexts[CodeGen]) -> RunnableLambda[Coding, Update]:
    """Return the node that counts the round's solutions; no reset goes back before it."""

    def hand_in(state: Coding) -> Update:
        run = contexts.of(state)
        spoken = rounds_of(state, run.answers)[-1]
        votes = [vote_of(spoken[coder], state) for coder in run.settings.speakers()]
        return {"votes": votes, "marks": []}

    return RunnableLambda(hand_in, name="hand_in")
