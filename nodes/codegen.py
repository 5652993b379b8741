"""The acts and prompts of CodeGen (Barbi et al., arXiv 2502.05986, after DyLAN): coders write, judges review.

Solutions and reviews, which are parts of replies, are heard by the protocol; the rules' findings (if a solution runs,
which tests it passes) are text. Nothing here runs a program: separate nodes in `codegen_tests.py` do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Annotated

from typing_extensions import TypedDict

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.core.response_format import Form
from sottovoce.environments.codegen import (
    HIGHEST,
    LOWEST,
    MOST_TESTS,
    agreeing,
    assertions,
    code,
    scores,
    solution_span,
    statements,
)
from sottovoce.environments.problems import Problem
from sottovoce.graphs.codegen import PASSER, REFLECTOR, TESTER, CodeGen
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.say import say
from sottovoce.nodes.state import RESTORED, Discussion, Update, Vote, current_messages, rounds_of, said

SCORED = (PASSER, TESTER, REFLECTOR)
"""The judges whose help coders score, in this order."""
ANYTHING = r"(?:\n(?s:.*))?"
CODE = r"\n(?:[ \t]*(?:(?:[^` \t\n]|``?[^`\n])[^\n]*)?\n)+[ \t]*```[^\n]*"
"""A code block after its opening: lines that do not begin with a fence, and the fence."""
SCORE = f"[{LOWEST}-{HIGHEST}]"
SCORES = rf"\[\[{', '.join([SCORE] * len(SCORED))}\]\]"
NOTHING = "(nothing)"
ASSERTIONS = Form(pattern=rf"[^\n]+{ANYTHING}", after="assert", unknown=False)
"""The form of at least one line with an assertion, followed by anything."""
REFLECTIONS = Form(pattern=rf"[^\n]*{ANYTHING}", after="[reflection 1]:", unknown=False)
"""The form of reviews: free text that contains at least the beginning of the first one."""


class Review(TypedDict):
    """The judges' findings about a solution."""

    agent: str
    """Its author."""
    error: str
    """Why it does not run at all; empty if it runs."""
    passed: list[str]
    failed: list[list[str]]
    """Pairs of a test and the solution's result."""
    reflection: list[int] | None
    """The span of its review in the Reflector's reply, in characters; None if none could be read."""


# Prompts


def later_turns(
    builder: PromptBuilder, name: str, solutions: Sequence[tuple[Review, Message]], reflected: Message
) -> tuple[Turn, ...]:
    """Return the two best solutions of the round before with their reviews, and the problem."""
    feedback = list[list[object]]()
    for review, answer in solutions:
        start, end = review["reflection"] or (0, 0)
        reflection = MessageRef(reflected, ((start, end),)) if start < end else ""
        feedback.append([solution(builder, answer), review["error"], review["passed"], review["failed"], reflection])
    heard = builder.prompts.render("codegen/feedback", others=feedback)
    solve = words(builder.prompts.render("codegen/solve", function=name))
    improve = words(builder.prompts.render("codegen/improve", judges=SCORED))
    asked = blocks(builder.known([]), heard, builder.question_of(f"{solve} {improve}"))
    return (*_role(builder, "coder"), Turn("user", asked))


def judge_turns(builder: PromptBuilder, solutions: Sequence[Message], request: Sequence[Part]) -> tuple[Turn, ...]:
    """Return the solutions with their numbers, the problem, and the request to a judge."""
    heard = builder.prompts.render("codegen/solutions", others=[solution(builder, said) for said in solutions])
    asked = blocks(builder.known([]), heard, builder.question_of(words(request)))
    return (*_role(builder, "judge"), Turn("user", asked))


def solution(builder: PromptBuilder, said: Message) -> MessageRef | str:
    """Return the solution in a reply, as others hear it."""
    start, end = solution_span(said.text)
    inside = said.text[start:end]
    begin = start + len(inside) - len(inside.lstrip("\n"))  # not spaces: the first line may be indented
    span = (begin, start + len(inside.rstrip()))
    return MessageRef(said, (span,), own=said.agent == builder.agent) if span[0] < span[1] else NOTHING


def _role(builder: PromptBuilder, kind: str) -> list[Turn]:
    return builder.system_turn(*builder.prompts.render(f"codegen/{kind}", role=builder.agent))


# Forms of replies


def code_form(*, scored: bool) -> Form:
    """Return the form of a Python block after free reasoning; if `scored`, only that of the judges' scores.

    Only one part of a reply can have a form, and monitors read the scores.
    """
    if scored:
        return Form(pattern=SCORES, after="Help:", unknown=False)
    return Form(pattern=f"{CODE}{ANYTHING}", after="```python", unknown=False)


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


async def write(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return one coder's solution."""
    builder, name = agent.prompt_builder(state), entry_point(state)
    if state["round"] == 0:
        asked = words(builder.prompts.render("codegen/solve", function=name))
        turns = (*_role(builder, "coder"), Turn("user", blocks(builder.known([]), builder.question_of(asked))))
        return {"board": await say(run, state, agent, Ask("answer", turns, code_form(scored=False)))}
    spoken, reviews = replies_of(run, state), {review["agent"]: review for review in state["reviews"]}
    reflected = said(state, REFLECTOR, state["round"], (REVIEW,))
    assert reflected is not None, "judges speak before coders"
    best = [(reviews[who], spoken[who]) for who in state["ranked"]]
    ask = Ask("revise", later_turns(builder, name, best, reflected), code_form(scored=True))
    (message,) = await say(run, state, agent, ask)
    found = scores(message.full_text, len(SCORED))  # how helpful it found the judges, for display and for monitors
    helped = f"no scores of {', '.join(SCORED)} could be read"
    if found is not None:
        helped = f"helped by {', '.join(f'{name} {score}' for name, score in zip(SCORED, found, strict=True))}"
    return {"board": [replace(message, notes=(*message.notes, helped))]}


async def test(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return the Tester's tests."""
    name = entry_point(state)
    request = run.prompts.render("codegen/test", function=name, most=MOST_TESTS)
    return await _judge(run, state, agent, Ask(TEST, (), ASSERTIONS, protocol=WORDS), request)


async def reflect(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return the Reflector's reviews, which use the protocol, since coders hear them."""
    count = len(run.settings.speakers())
    request = run.prompts.render("codegen/reflect", count=count)
    return await _judge(run, state, agent, Ask(REVIEW, (), REFLECTIONS), request)


async def rank(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return the Ranker's best two."""
    count = len(run.settings.speakers())
    request = run.prompts.render("codegen/rank", count=count)
    rankings = tuple(f"[{first}, {second}]" for first, second in permutations(range(1, count + 1), 2))
    form = Form(choices=rankings, after="Best:", unknown=False)
    return await _judge(run, state, agent, Ask(RANK, (), form, protocol=WORDS), request)


async def _judge(run: RunContext[CodeGen], state: Coding, agent: Agent, ask: Ask, request: Sequence[Part]) -> Update:
    replies = replies_of(run, state)
    turns = judge_turns(agent.prompt_builder(state), list(replies.values()), request)
    return {"board": await say(run, state, agent, replace(ask, turns=turns))}


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


def hand_in(run: RunContext[CodeGen], state: Coding) -> Update:
    """Count the round's solutions; no reset goes back before this step."""
    spoken = rounds_of(state, run.answers)[-1]
    votes = [vote_of(spoken[coder], state) for coder in run.settings.speakers()]
    return {"votes": votes, "marks": []}
