r"""Kinds of answers by name: request, parse and compare answers.

A reply is parsed in the same way for every kind (`reading`):

1. Stated: a line `Answer: X`, "the answer is X", a box, the field "answer" of a JSON object, brackets. The last
   statement in the text counts, also if a line and a box disagree; within a statement its result counts
   ("495 * $15 = $7425" is 7425). A statement of "unknown", or a line without an answer of the kind, is an abstention,
   and so is a statement that is retracted ("Wait, ...") without another.
2. Bare: the reply is nothing but the answer. Otherwise it has none, and whoever needs one asks for it.

A short stated answer is not changed; only a whole sentence is shortened with the help of its question.
A reply that cannot be parsed gives None, an abstention: it is never counted as right and never pooled as a vote.

A kind is one file (see `Kind`), which registers itself when imported or is declared as an entry point of the group
`sottovoce.kinds`. Edge cases follow the evaluation code of Du et al. (2023), CIPHER (arXiv 2310.06272) and SDE (arXiv
2506.19209), without their errors (lost minus signs, thousands commas, a digit of the prompt taken for an answer).
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from sottovoce.core.registry import Registry
from sottovoce.prompts.kinds.choices import bare
from sottovoce.prompts.kinds.kind import Kind as Kind
from sottovoce.prompts.kinds.marks import How, Mark, bracketed, is_taken_back, marks
from sottovoce.prompts.kinds.marks import normalise as normalise
from sottovoce.prompts.kinds.number import may_be_cut
from sottovoce.prompts.kinds.prose import LONGEST, OPEN_MARK, UNKNOWN, plain, sentences
from sottovoce.prompts.kinds.question_words import is_sentence
from sottovoce.prompts.kinds.question_words import kind_of as kind_of
from sottovoce.prompts.structured import read_json

OURS = ("number", "option", "yes_no", "label", "text")
KINDS = Registry[Kind](
    "kind of answer", "sottovoce.kinds", {name: f"sottovoce.prompts.kinds.{name}:{name.upper()}" for name in OURS}
)
KindName = Annotated[
    str,
    AfterValidator(lambda name: KINDS[name] and name),  # raises the registry's UsageError
    Field(json_schema_extra=lambda schema: schema.update(enum=[*KINDS.names()])),
]
"""The name of a kind in settings and questions."""
MOST_CHOICES = len(string.ascii_uppercase)
_ALONE = re.compile(r"(?:\A|\n)[ \t]*\{[^{}]*+\}\Z")
"""An object at the beginning of a line, not one quoted within a sentence."""


@dataclass(frozen=True)
class Reading:
    """A parsed answer, and how it was found."""

    answer: str | None
    """The answer in canonical form; None for an abstention."""
    how: How | None
    """How the answer was found; None for an abstention."""


ABSTENTION = Reading(None, None)


def reading(text: str, question: Mapping[str, Any], *, cut: bool = False) -> Reading:  # Any: see is_open
    """Read the answer that a reply states, or that it consists of.

    Args:
        text: The reply.
        question: Its question, whose kind and choices say what can be an answer.
        cut: True if the reply ended at the token limit or at a server's stop. Then a bare answer is not read, nor a
            statement in which the text ends.
    """
    kind, choices = KINDS[kind_of(question)], question.get("choices") or []
    statement = _stated(_finished(text) if cut else text, kind, tuple(choices))
    if statement is not None:
        return Reading(_short(statement.answer, question), statement.how)
    answer = None if cut else kind.read(text, choices)
    return Reading(answer, "bare") if answer and normalise(plain(text)) == normalise(answer) else ABSTENTION


def _finished(text: str) -> str:
    """Return a text without its last sentence or line, in which it was cut off."""
    ends = [match.end() for match in re.finditer(r"[.!?][\"')*]*\s|\n", text[:-1])]
    return text[: ends[-1]] if ends else ""


def read_reply(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """Return the answer of `reading`."""
    return reading(text, question).answer


def stated_beside(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """Return the answer of a reply that should be an object but has no such field; truncated objects are not mined."""
    return reading(text, question).answer


def read(text: str, kind: str, choices: list[str] | None = None) -> str | None:
    """Return the answer in canonical form if the question is unknown, or None if none can be parsed."""
    statement = _stated(text, KINDS[kind], tuple(choices or ()))
    return KINDS[kind].read(text, choices or []) if statement is None else statement.answer


def read_value(field: str, kind: str, choices: list[str] | None = None) -> str | None:
    """Return the answer in a field of a form, where the whole text is the answer and no mark is needed."""
    return KINDS[kind].read_value(" ".join(field.split()), choices or [])


def read_field(field: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """Return the answer in a field, as `read_value`, or None for the form's own placeholder, which models copy."""
    if normalise(field) == normalise(placeholder(question)):
        return None
    return _short(read_value(field, kind_of(question), question.get("choices")), question)


def same(left: str | None, right: str | None, kind: str, question: str = "") -> bool:
    """Return whether two canonical answers agree, given the question if known; abstentions agree with nothing."""
    if left is None or right is None:
        return False
    agree = KINDS[kind].agree
    return KINDS[kind].same(left, right) if agree is None else agree(left, right, question)


def right(answer: str | None, question: Mapping[str, Any]) -> bool:  # Any: see is_open
    """Return whether a canonical answer is the question's target, or one of its aliases."""
    kind, choices = KINDS[kind_of(question)], question.get("choices") or []
    others = [kind.target(alias, choices) for alias in question.get("aliases") or []]
    return any(_is_target(answer, target, question) for target in [target_of(question), *others])


def target_of(question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """Return the target in canonical form: a choice's letter if the target is its text; None if there is none."""
    target = question.get("target")
    return None if target is None else KINDS[kind_of(question)].target(target, question.get("choices") or [])


def named(kind: str) -> str:
    """Return a kind in words: "yes or no"."""
    return KINDS[kind].words


def placeholder(question: Mapping[str, Any]) -> str:  # Any: see is_open
    """Return the placeholder of the answer in a JSON form: the task's own words, or the kind's."""
    own = question.get("answer_description") or KINDS[kind_of(question)].placeholder
    return " ".join(own.split()).replace('"', "'")


def is_open(field: str, question: Mapping[str, Any]) -> bool:  # Any: a Question; its module imports this one
    """Return whether a field that may be empty has no answer yet; "unknown" may be a task's own label."""
    is_answer = KINDS[kind_of(question)].unknown_is_an_answer
    return not re.search(r"\w", field) or bool(not is_answer and UNKNOWN.match(field))


def declines(text: str) -> bool:
    """Return whether a text states that the answer is unknown, an abstention after which nobody asks again."""
    body = plain(text)
    return any(UNKNOWN.match(said) for said in [mark.text for mark in marks(body)] or sentences(body)[-1:])


def lettered(choices: list[str]) -> list[str]:
    """Return choices as agents read them, "(A) red"; answers name the letters."""
    letters = zip(string.ascii_uppercase, bare(choices), strict=False)
    return [f"({letter}) {choice}" for letter, choice in letters]


@lru_cache(1024)  # a reply is parsed as soon as it comes, for the votes, and for the record
def _stated(text: str, kind: Kind, choices: tuple[str, ...]) -> Reading | None:
    """Return the last statement that names an answer or denies one; None if nothing is stated."""
    field = _field(text)
    if field is not None:
        return _as_read(kind.read_value(" ".join(field.split()), choices), "boxed")
    body, named = plain(text), kind.named or kind.read
    stated = [(mark, named(mark.text, choices)) for mark in marks(body, kind.nouns)]
    for place, (mark, answer) in enumerate(stated):
        if _is_cut_short(place, stated, body):
            continue
        if answer is not None or mark.is_line:
            is_retracted = is_taken_back(mark, body) or may_be_cut(mark.text, body)
            is_retracted = is_retracted or kind.contradicts([each for _, each in stated], body, choices)
            return ABSTENTION if is_retracted else _as_read(answer, mark.how)
    brackets = bracketed(body) if kind.takes_brackets else None
    if brackets and (answer := named(f"[{brackets}]", choices)) is not None:
        return _as_read(answer, "boxed")
    return ABSTENTION if OPEN_MARK.search(text) else None  # it ends before its answer


def _is_cut_short(place: int, stated: list[tuple[Mark, str | None]], body: str) -> bool:
    """Return whether a text ends inside a number that it stated in full before: "... 540. The answer is 54"."""
    mark, answer = stated[place]
    before = next((earlier for _, earlier in stated[place + 1 :] if earlier), "") or ""
    at_end = body.endswith(mark.text) and bool(re.search(r"\d\Z", mark.text))
    return at_end and not mark.is_line and before != answer and before.startswith(answer or " ")


def _as_read(answer: str | None, how: How) -> Reading:
    return Reading(answer, how) if answer else ABSTENTION


def _is_target(answer: str | None, target: str | None, question: Mapping[str, Any]) -> bool:  # Any: see is_open
    kind = KINDS[kind_of(question)]
    if answer is None or target is None or kind.is_target is None:
        return same(answer, target, kind_of(question), question.get("question", ""))
    return kind.is_target(answer, target, question.get("question", ""))


def _short(answer: str | None, question: Mapping[str, Any]) -> str | None:
    """Shorten a stated answer that is a whole sentence; a few words stay unchanged."""
    text = str(question.get("question", ""))
    return KINDS[kind_of(question)].short(answer, text) if answer and is_sentence(answer, text) else answer


def _field(text: str) -> str | None:
    """Return the field "answer" of an object at the end of a text, or on its own lines before prose without marks."""
    text = text[-LONGEST:].rstrip("` \n")
    end = text.rfind("}") + 1
    prose = text[end:]
    if not end or (prose and (marks(plain(prose)) or not _ALONE.search(text[:end]))):
        return None
    return read_json(text[:end], ("answer",), may_be_empty=("answer",)).values.get("answer")
