"""Kinds of answers by name, and what is done with them: ask for an answer, read it, compare it.

A kind is one file (see `Kind`), which registers itself when imported or is named as an entry point of
the group `sottovoce.kinds`. What cannot be read is None, an abstention: it is never counted as right
and never pooled as a vote. Order of the readers and their edge cases follow the evaluation code of Du
et al. (2023), CIPHER (arXiv 2310.06272) and SDE (arXiv 2506.19209), without their misreadings (lost
minus signs, thousands commas, a digit of the prompt taken for an answer).
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from sottovoce.prompts.kinds.choices import bare
from sottovoce.prompts.kinds.kind import Kind as Kind
from sottovoce.prompts.kinds.marks import normalise as normalise
from sottovoce.prompts.kinds.marks import sources
from sottovoce.prompts.kinds.nothing import OPEN_MARK, UNKNOWN
from sottovoce.prompts.kinds.prose import LONGEST, plain
from sottovoce.prompts.kinds.recognise import kind_of as kind_of
from sottovoce.prompts.kinds.sentences import sentences
from sottovoce.prompts.structured import read_json
from sottovoce.registry import Registry

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
"""An object that begins its line: not one that is quoted within a sentence."""


def read(text: str, kind: str, choices: list[str] | None = None) -> str | None:
    """Return the answer in canonical form, or None where none can be read.

    An answer that is stated to be unknown is an abstention, whatever numbers stand around it. Of a text
    that ends with a JSON object, or with one and prose that marks no answer, the field "answer" is read (CMD's form
    for GSM8K).
    """
    field = _field(text)
    if field is not None:
        return read_value(field, kind, choices)
    if cut := OPEN_MARK.search(text):  # before its answer: what was marked earlier may count
        text = text[: cut.start()]
        return KINDS[kind].read(text, choices or []) if any(sources(plain(text))) else None
    return KINDS[kind].read(text, choices or [])


def read_value(given: str, kind: str, choices: list[str] | None = None) -> str | None:
    """Return the answer that a field of a form holds, where no mark is needed: all of it is the answer."""
    return KINDS[kind].read_value(" ".join(given.split()), choices or [])


def read_reply(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """`read` for a question: without the question's own words, where a free question is answered in a sentence.

    A text without a mark may still say what was asked: "18 + 40 is 58" is a yes to "Is 18 + 40 equal to 58?".
    """
    kind, body = KINDS[kind_of(question)], plain(text)
    found = read(text, kind_of(question), question.get("choices"))
    if found is None and not any(sources(body)) and not OPEN_MARK.search(body) and not declines(text):
        found = kind.implied(body, question)
    found = _short(found, question)
    is_marked = found is None or _field(text) is not None or any(sources(body))
    return found if is_marked or kind.suits(str(found), str(question.get("question", ""))) else None


def read_line(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """The answer of a reply that was begun with "Answer:", with this beginning or without: its first line is all."""
    begun = re.sub(r"\A[\W_]*(?:(?:the )?(?:final )?answer(?: is)?\W*[:=]?)?\s*", "", plain(text), flags=re.IGNORECASE)
    return _short(read_value(begun.partition("\n")[0], kind_of(question), question.get("choices")), question)


def read_field(given: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """`read_value` for a question, but for the form's own words, which say nothing: models copy them."""
    if normalise(given) == normalise(placeholder(question)):
        return None
    return _short(read_value(given, kind_of(question), question.get("choices")), question)


def same(left: str | None, right: str | None, kind: str, question: str = "") -> bool:
    """Tell whether two canonical answers agree, to a question where it is given; an abstention agrees with nothing."""
    if left is None or right is None:
        return False
    agree = KINDS[kind].agree
    return KINDS[kind].same(left, right) if agree is None else agree(left, right, question)


def right(answer: str | None, question: Mapping[str, Any]) -> bool:  # Any: see is_open
    """Tell whether a canonical answer is the question's target, or one of its aliases."""
    kind, choices = KINDS[kind_of(question)], question.get("choices") or []
    others = [kind.target(each, choices) for each in question.get("aliases") or []]
    return any(_is_target(answer, target, question) for target in [target_of(question), *others])


def target_of(question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """The right answer as answers are read: a choice's letter, where the target is its text; None for none."""
    target = question.get("target")
    return None if target is None else KINDS[kind_of(question)].target(target, question.get("choices") or [])


def named(kind: str) -> str:
    """A kind in words: "yes or no"."""
    return KINDS[kind].words


def placeholder(question: Mapping[str, Any]) -> str:  # Any: see is_open
    """What stands in the place of the answer in a JSON form: the task's own words for it, or the kind's."""
    own = question.get("answer_description") or KINDS[kind_of(question)].placeholder
    return " ".join(own.split()).replace('"', "'")


def is_open(given: str, question: Mapping[str, Any]) -> bool:  # Any: a Question, which stands above this module
    """Tell whether a field that may stay empty says nothing yet; "unknown" may be a task's own label."""
    is_answer = KINDS[kind_of(question)].unknown_is_an_answer
    return not re.search(r"\w", given) or bool(not is_answer and UNKNOWN.match(given))


def declines(text: str) -> bool:
    """Tell whether a text states that the answer is unknown: an abstention that needs no asking again."""
    body = plain(text)
    return any(UNKNOWN.match(source) for source in [*sources(body)] or sentences(body)[-1:])


def lettered(choices: list[str]) -> list[str]:
    """Choices as agents read them, "(A) red": the letters are what an answer names."""
    letters = zip(string.ascii_uppercase, bare(choices), strict=False)
    return [f"({letter}) {choice}" for letter, choice in letters]


def _is_target(answer: str | None, target: str | None, question: Mapping[str, Any]) -> bool:  # Any: see is_open
    kind = KINDS[kind_of(question)]
    if answer is None or target is None or kind.is_target is None:
        return same(answer, target, kind_of(question), question.get("question", ""))
    return kind.is_target(answer, target, question.get("question", ""))


def _short(answer: str | None, question: Mapping[str, Any]) -> str | None:
    return None if answer is None else KINDS[kind_of(question)].short(answer, str(question.get("question", "")))


def _field(text: str) -> str | None:
    """The field "answer" of an object at the end of a text, or on its own lines before prose that marks no answer."""
    text = text[-LONGEST:].rstrip("` \n")
    end = text.rfind("}") + 1
    prose = text[end:]
    if not end or (prose and (next(sources(plain(prose)), None) is not None or not _ALONE.search(text[:end]))):
        return None
    return read_json(text[:end], ("answer",), may_be_empty=("answer",)).found.get("answer")
