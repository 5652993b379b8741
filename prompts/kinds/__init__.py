r"""Kinds of answers by name: request, read and compare answers.

A reply is read in the same way for every kind (`reading`): it states its answer by a line `Answer: X`, "the answer is
X", a box, the field "answer" of a JSON object, `<answer>` tags or brackets at the end; or it is nothing but the answer.
Quoted, reported, conditional and denied statements do not count (`prompts.own`). A reply that was cut has no statement.
Two different statements count as none, unless the later one corrects the earlier. Other prose is not read: a scheme
that needs an answer asks for it. A statement of "unknown", a line without an answer of the kind and a retracted
statement are abstentions. An abstention is None: it is never counted as right and never pooled as a vote.

A kind is one object (see `Kind`). Its file registers it when imported, or an entry point of the group `sottovoce.kinds`
declares it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from sottovoce.channels.message import Message
from sottovoce.core.any_types import Unimported
from sottovoce.core.registry import Registry
from sottovoce.prompts.kinds.kind import DOUBTFUL, UNKNOWN, first, sentences, without_reason
from sottovoce.prompts.kinds.kind import Kind as Kind
from sottovoce.prompts.kinds.marks import (
    CITED,
    CORRECTED,
    ITEM,
    LONGEST,
    MINUS,
    TOOL_CALL,
    How,
    Mark,
    marks,
    own_boxes,
    plain,
)
from sottovoce.prompts.kinds.marks import normalise as normalise
from sottovoce.prompts.kinds.number import target as number_in
from sottovoce.prompts.kinds.option import bare
from sottovoce.prompts.own import is_own
from sottovoce.prompts.structured import read_json

OURS = ("number", "option", "yes_no", "label", "text")
KINDS = Registry[Kind](
    "kind of answer",
    "sottovoce.kinds",
    {
        name: f"sottovoce.prompts.kinds.{name if name in ('number', 'option') else 'words'}:{name.upper()}"
        for name in OURS
    },
)
KindName = Annotated[
    str,
    AfterValidator(lambda name: KINDS[name] and name),  # raises the registry's UsageError
    Field(json_schema_extra=lambda schema: schema.update(enum=[*KINDS.names()])),
]
"""The name of a kind in settings and questions."""
BOLD = re.compile(r"\n[ \t]{0,9}\*\*([^*\n]{1,100})\*\*[ \t.!]{0,9}\s*\Z")
"""A last line in bold."""
LONGEST_BARE = 200  # characters of a reply that is only an answer
MOST_CHOICES = len(string.ascii_uppercase)
LONGEST_QUESTION = 2000  # characters of a question that are examined, from its end
EXPRESSION = re.compile(
    r"(?<![\w.])(?:\d+(?:[.,]\d+)*|[a-z])\s*(?:[-+*/×÷^]|\\times|times|plus|minus)\s*\(?\s*(?:\d|[a-z]\b)", re.I
)
ASKS_WORDS = re.compile(r"\W*(?:which|who|where|when|why|how|explain|describe)\b", re.IGNORECASE)
COMPUTES = re.compile(
    r"\W*(?:please\s+)?(?:compute|calculate|evaluate|simplify|solve|add|multiply|subtract|divide)\b", re.I
)
COUNTS = re.compile(r"\bhow (?:many|much)\b|\bwhat (?:is|was|are|will be|would be) the (?:number|count) of\b", re.I)
QUANTITY = re.compile(
    r"\b(?:what|find)\b.{0,40}\b(?:sum|product|difference|total|average|mean|amount|percent(?:age)?|probability|value"
    r"|area|volume|perimeter|length|distance|speed|cost|price|profit|age|weight|height|remainder)\b",
    re.IGNORECASE,
)
YES_NO = re.compile(
    r"\W*(?:(?:and|but|so|then|also|now)\W+)?(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would"
    r"|shall|should|may|might|must)(?:n't)?\s",
    re.IGNORECASE,
)
ALTERNATIVES = re.compile(r"\bor\b(?!\s+(?:not|more|less|fewer|so)\b)", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """A parsed answer, and how it was found."""

    answer: str | None
    """The answer in canonical form; None for an abstention."""
    how: How | None
    """How the answer was found; None for an abstention."""


ABSTENTION = Reading(None, None)


def kind_of(question: Mapping[str, Unimported]) -> str:
    """Return the kind that a question sets, else the kind of its choices or target, else of its wording."""
    if kind := question.get("kind"):
        return str(kind)
    if question.get("choices"):
        return "option"
    target = question.get("target")
    if isinstance(target, str) and target.strip().lower() in ("yes", "no", "true", "false"):
        return "yes_no"
    if isinstance(target, str) and number_in(target, ()):
        return "number"
    return _of_wording(str(question.get("question", "")), target is not None)


@lru_cache(1024)  # it is asked for with every message
def _of_wording(question: str, has_target: bool) -> str:
    """Return the kind that a question clearly asks for, else `text`; with a phrase as target only if it computes."""
    lines = sentences(question[-LONGEST_QUESTION:])
    asks = ([line for line in lines if line.endswith("?") and len(line.split()) > 2] or lines or [""])[-1]
    if COMPUTES.match(asks) or (EXPRESSION.search(asks) and not YES_NO.match(asks) and not ASKS_WORDS.match(asks)):
        return "number"
    if has_target or (YES_NO.match(asks) and ALTERNATIVES.search(asks)):
        return "text"
    is_quantity = QUANTITY.search(asks) and len(re.findall(r"\d", question)) > 1
    return "number" if COUNTS.search(asks) else "yes_no" if YES_NO.match(asks) else "number" if is_quantity else "text"


def reading(message: Message, question: Mapping[str, Any]) -> Reading:  # Any: see is_open
    """Read the answer that a reply states, or that is the whole reply; a reply that was cut has no answer."""
    return _read(message.whole_text, kind_of(question), tuple(question.get("choices") or ()))


def read_reply(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """Return the answer that `reading` finds in the text of a complete reply."""
    return _read(text, kind_of(question), tuple(question.get("choices") or ())).answer


def boxed(message: Message, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    r"""Return the content of a reply's own boxes, "the Orla" of `\boxed{\text{the Orla}}`; None without any."""
    body = plain(message.whole_text)
    settled = _settled([(box, box.text.strip()) for box in own_boxes(body)], body, str.__eq__)
    return None if settled is None or is_open(settled[1], question) else settled[1]


def read_field(field: str, question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """Return the answer in a field of a form; None for the form's own placeholder, which models copy."""
    if normalise(field) == normalise(placeholder(question)):
        return None
    said = plain(" ".join(field.split()))
    stated = [box.text for box in own_boxes(said)] or [said]
    return KINDS[kind_of(question)].read(stated[-1], question.get("choices") or []) or None


def same(left: str | None, right: str | None, kind: str) -> bool:
    """Return whether two canonical answers agree; abstentions agree with nothing."""
    return left is not None and right is not None and KINDS[kind].same(left, right)


def right(answer: str | None, question: Mapping[str, Any]) -> bool:  # Any: see is_open
    """Return whether a canonical answer is the question's target, or one of its aliases."""
    kind, choices = KINDS[kind_of(question)], question.get("choices") or []
    targets = [target_of(question), *(kind.target(alias, choices) for alias in question.get("aliases") or [])]
    is_right = kind.right or kind.same
    return answer is not None and any(target is not None and is_right(answer, target) for target in targets)


def target_of(question: Mapping[str, Any]) -> str | None:  # Any: see is_open
    """Return the target in canonical form, for a choice's text its letter; None without a target."""
    target = question.get("target")
    return None if target is None else KINDS[kind_of(question)].target(target, question.get("choices") or [])


def placeholder(question: Mapping[str, Any]) -> str:  # Any: see is_open
    """Return the placeholder of the answer in a JSON form: the task's own words, or the kind's."""
    own = question.get("answer_description") or KINDS[kind_of(question)].placeholder
    return " ".join(own.split()).replace('"', "'")


def is_open(field: str, question: Mapping[str, Unimported]) -> bool:
    """Return whether a field that may be empty has no answer yet; "unknown" may be a task's own label."""
    is_answer = KINDS[kind_of(question)].unknown_is_an_answer
    return not re.search(r"\w", field) or bool(not is_answer and UNKNOWN.match(field))


def declines(text: str, question: Mapping[str, Any]) -> bool:  # Any: see is_open
    """Return whether a text states that the answer is unknown, an abstention after which nobody asks again.

    It does not where a label of the question says so too, which the agent may mean.
    """
    if any(UNKNOWN.match(choice) for choice in question.get("choices") or []):
        return False
    body = plain(text)
    return any(UNKNOWN.match(said) for said in [mark.text for mark in marks(body)][-1:] or sentences(body)[-1:])


def lettered(choices: list[str]) -> list[str]:
    """Return choices as agents read them, "(A) red"; answers name the letters."""
    letters = zip(string.ascii_uppercase, bare(choices), strict=False)
    return [f"({letter}) {choice}" for letter, choice in letters]


@lru_cache(1024)  # a reply is parsed as soon as it comes, for the votes, and for the record
def _read(text: str, name: str, choices: tuple[str, ...]) -> Reading:
    """Return the answer of a reply's own statements, except corrected ones; without any, the bare answer."""
    kind, text = KINDS[name], TOOL_CALL.sub("", text[-LONGEST:])
    found = read_json(text, ("answer",), may_be_empty=("answer",))
    if (field := found.values.get("answer")) == "":
        return ABSTENTION
    if field is not None:  # an object states what a box would
        text = f"{text[: found.span[0]]}\n\\boxed{{{' '.join(field.split())}}}\n{text[found.span[1] :]}"
    body = plain(text)
    read = [(mark, _value(kind, mark.text, choices)) for mark in marks(body, kind.nouns)]
    stated = [(mark, answer) for mark, answer in read if answer or (answer == "" and not mark.text.startswith("not "))]
    if stated or (read and read[-1][0].is_line):
        settled = None if read[-1][1] is None and read[-1][0].is_line else _settled(stated, body, kind.same)
        if settled is None or not settled[1] or kind.is_unclear(settled[0].text, body):
            return ABSTENTION
        return Reading(settled[1], settled[0].how)
    if (bold := BOLD.search(text)) and is_own(text, bold.start(1)):
        body = bold[1]
    line = CITED.sub("", body).strip().strip("\"'\u201c\u201d")
    line = line if MINUS.match(line) else ITEM.sub("", line)
    if len(line) > LONGEST_BARE or not re.search(r"\w", line) or re.search(r"\n|\A(?:[{<]|[-\u2013]\s)", line):
        return ABSTENTION
    answer = kind.read(line, choices) if kind.bare(line, choices) and not kind.is_unclear(line, body) else None
    return Reading(answer, "bare") if answer else ABSTENTION


def _value(kind: Kind, said: str, choices: tuple[str, ...]) -> str | None:
    """Return the answer that a kind reads from a statement, or "" if it has a word of doubt that no choice has."""
    answer = kind.read(said, choices)
    doubt = DOUBTFUL.search(re.sub(r"\([^()\s]*\s[^()\s]+\s[^()]*\)", "", first(without_reason(said))))
    is_own_word = doubt and any(doubt[0].casefold() in choice.casefold() for choice in choices)
    return "" if answer and doubt and not is_own_word else answer


def _settled(
    stated: Sequence[tuple[Mark, str]], body: str, same: Callable[[str, str], bool]
) -> tuple[Mark, str] | None:
    """Return the last statement, or None if there is none, later words retract it, or it differs from an earlier one.

    It may differ from one that it corrects: it calls itself final, or words between them say that they correct.
    """
    if not stated or CORRECTED.search(body, stated[-1][0].at):
        return None
    last, answer = stated[-1]
    for earlier, other in stated[:-1]:
        is_corrected = (last.is_final and not earlier.is_final) or CORRECTED.search(body, earlier.at, last.at)
        if not is_corrected and not (other and same(other, answer)):
            return None
    return last, answer
