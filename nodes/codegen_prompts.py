"""The prompts of CodeGen's coders and judges, and the forms of their replies.

Solutions and reviews, which are parts of replies, are heard by the protocol; the rules' findings (if a solution runs,
which tests it passes) are text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from typing_extensions import TypedDict

from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.core.response_format import Form
from sottovoce.environments.codegen import HIGHEST, LOWEST, solution_span
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.settings.codegen import PASSER, REFLECTOR, TESTER

SCORED = (PASSER, TESTER, REFLECTOR)
"""The judges whose help coders score, in this order."""
ANYTHING = r"(?:\n(?s:.*))?"
CODE = r"\n(?:[ \t]*(?:(?:[^` \t\n]|``?[^`\n])[^\n]*)?\n)+[ \t]*```[^\n]*"
"""A code block after its opening: lines that do not begin with a fence, and the fence."""
SCORE = f"[{LOWEST}-{HIGHEST}]"
SCORES = rf"\[\[{', '.join([SCORE] * len(SCORED))}\]\]"
NOTHING = "(nothing)"


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


def first_turns(builder: PromptBuilder, name: str) -> tuple[Turn, ...]:
    """Return the prompt with the problem alone."""
    form = words(builder.prompts.render("codegen/solve", function=name))
    return (*_role(builder, "coder"), Turn("user", blocks(builder.known([]), builder.question_of(form))))


def later_turns(
    builder: PromptBuilder, name: str, solutions: Sequence[tuple[Review, Message]], reflected: Message
) -> tuple[Turn, ...]:
    """Return the two best solutions of the round before with their reviews, and the problem."""
    feedback = [_feedback(builder, review, said, reflected) for review, said in solutions]
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


def _feedback(builder: PromptBuilder, review: Review, said: Message, reflected: Message) -> list[object]:
    start, end = review["reflection"] or (0, 0)
    reflection = MessageRef(reflected, ((start, end),)) if start < end else ""
    return [solution(builder, said), review["error"], review["passed"], review["failed"], reflection]


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


def assertions_form() -> Form:
    """Return the form of at least one line with an assertion, followed by anything."""
    return Form(pattern=rf"[^\n]+{ANYTHING}", after="assert", unknown=False)


def reflections_form() -> Form:
    """Return the form of reviews: free text that contains at least the beginning of the first one."""
    return Form(pattern=rf"[^\n]*{ANYTHING}", after="[reflection 1]:", unknown=False)


def rank_form(count: int) -> Form:
    """Return the form of the line that names the two best solutions, after free reasoning."""
    return Form(choices=pairs(count), after="Best:", unknown=False)


def pairs(count: int) -> tuple[str, ...]:
    """Return every ranking that a Ranker can choose."""
    return tuple(f"[{first}, {second}]" for first, second in permutations(range(1, count + 1), 2))
