"""What coders and judges of CodeGen are told, what they hear, and the forms of their replies.

Solutions and reviews are heard by the protocol, where they stand in a reply; what the rules found out (whether it
runs, which tests it passes) is told in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from typing_extensions import TypedDict

from sottovoce.channels.message import Heard, Message, Part, Turn, words
from sottovoce.environments.codegen import HIGHEST, LOWEST, MOST_TESTS, where
from sottovoce.form import Form
from sottovoce.nodes.settings.codegen import PASSER, REFLECTOR, TESTER
from sottovoce.nodes.views import View, blocks

SCORED = (PASSER, TESTER, REFLECTOR)
"""The judges whose help coders score, in this order."""
BLOCK = r"```python\n[^`]*\n```"
SCORE = f"[{LOWEST}-{HIGHEST}]"
SCORES = rf"\nHelp: \[\[{', '.join([SCORE] * len(SCORED))}\]\]"
LONGEST_REVIEW = 200  # characters of a review that is kept to its form
LONGEST_CALL = 200  # characters of a test, behind the function's name
NOTHING = "(nothing)"


class Review(TypedDict):
    """What judges found out about a solution."""

    agent: str
    """Whose it is."""
    error: str
    """Why it does not run at all; empty where it does."""
    passed: list[str]
    failed: list[list[str]]
    """Test, and what the solution gave instead."""
    reflection: list[int] | None
    """Where in the Reflector's reply its review stands, in characters; None where none could be read."""


# What they are told and hear


def first_turns(view: View, name: str) -> tuple[Turn, ...]:
    """The problem alone."""
    form = words(view.prompts.render("codegen/solve", function=name))
    return (*_role(view, "coder"), Turn("user", blocks(view.known([]), view.question_of(form))))


def later_turns(
    view: View, name: str, solutions: Sequence[tuple[Review, Message]], reflected: Message
) -> tuple[Turn, ...]:
    """The two best solutions of the round before with all that was found out about them, and the problem."""
    feedback = [_feedback(view, review, said, reflected) for review, said in solutions]
    heard = view.prompts.render("codegen/feedback", others=feedback)
    solve = words(view.prompts.render("codegen/solve", function=name))
    improve = words(view.prompts.render("codegen/improve", judges=SCORED))
    asked = blocks(view.known([]), heard, view.question_of(f"{solve} {improve}"))
    return (*_role(view, "coder"), Turn("user", asked))


def judge_turns(view: View, solutions: Sequence[Message], request: Sequence[Part]) -> tuple[Turn, ...]:
    """The solutions by their numbers, the problem, and what a judge is asked for."""
    heard = view.prompts.render("codegen/solutions", others=[solution(view, said) for said in solutions])
    asked = blocks(view.known([]), heard, view.question_of(words(request)))
    return (*_role(view, "judge"), Turn("user", asked))


def solution(view: View, said: Message) -> Heard | str:
    """The solution that a reply holds, as others hear it."""
    start, end = where(said.text)
    inside = said.text[start:end]
    begin = start + len(inside) - len(inside.lstrip("\n"))  # not spaces: the first line may be indented
    span = (begin, start + len(inside.rstrip()))
    return Heard(said, (span,), own=said.agent == view.agent) if span[0] < span[1] else NOTHING


def _feedback(view: View, review: Review, said: Message, reflected: Message) -> list[object]:
    start, end = review["reflection"] or (0, 0)
    reflection = Heard(reflected, ((start, end),)) if start < end else ""
    return [solution(view, said), review["error"], review["passed"], review["failed"], reflection]


def _role(view: View, kind: str) -> list[Turn]:
    return view.system_turn(*view.prompts.render(f"codegen/{kind}", role=view.agent))


# What replies are kept to


def code_form(*, scored: bool) -> Form:
    """A block of Python, and where judges spoke before, how much each of them helped."""
    return Form(pattern=f"{BLOCK}{SCORES if scored else ''}", unknown=False)


def tests_form(name: str) -> Form:
    """Lines that each assert something of the function."""
    test = rf"assert (?:not |abs\()?{name or '[a-z]'}[^\n]{{1,{LONGEST_CALL}}}\n"
    return Form(pattern=rf"(?:{test}){{1,{MOST_TESTS}}}", unknown=False)


def reflections_form(count: int) -> Form:
    """A review of each solution."""
    each = (rf"\[reflection {n}\]: [^\n\[\]]{{1,{LONGEST_REVIEW}}}" for n in range(1, count + 1))
    return Form(pattern=r"\n".join(each), unknown=False)


def pairs(count: int) -> tuple[str, ...]:
    """All that a Ranker can reply."""
    return tuple(f"[{first}, {second}]" for first, second in permutations(range(1, count + 1), 2))
