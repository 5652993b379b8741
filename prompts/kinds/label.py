"""Labels: those of the question's choices as they stand there, else the task's own in small letters."""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import bracketed, sources, unmarked
from sottovoce.prompts.kinds.prose import plain
from sottovoce.prompts.kinds.sentences import CLAUSE, affirmed, claims, first, sentences, without_reason

NOUNS = "answer|label|verdict|classification"
LONGEST = 60  # characters of a label that no list names
SHORT = 6  # words of a claim that is a label's own
CONCLUDES = re.compile(r"\W*(?:so|therefore|thus|hence|overall|in conclusion)\b", re.IGNORECASE)
VERB = re.compile(
    r"\b(?:supports|refutes|contradicts)\s(?:the|this|that|it)\b|\b(?:is|are|was|were|be)\s(?:\w+\s)?"
    r"(?:supported|refuted|contradicted)\b",
    re.IGNORECASE,
)
LACKING = re.compile(
    r"\b(?:not|n't)\s(?:\w+\s)?(?:provid|giv|contain|hav|mention|includ)\w*\s(?:\w+\s){0,2}info|\binsufficient\s(?:info|evid)"
    r"|\bnot enough (?:info|evid)",
    re.IGNORECASE,
)
"""A claim that what is known does not suffice."""
DENIED = re.compile(r"(?:\bnot|\bno|n't|\bneither|\bnor|\brather than|\binstead of)\s+(?:\w+\s+)?\Z", re.IGNORECASE)


def read(text: str, choices: Choices) -> str | None:
    """Of a list: what is marked or bracketed, else what the last claim names which names any. Else see `_own`."""
    body = plain(text)
    if not choices:
        return _own(body)
    for source in filter(None, (*sources(body, NOUNS), bracketed(body))):
        if (found := _of(source, choices)) is not None:
            return found or None
    return _claimed(body, choices)


def read_value(given: str, choices: Choices) -> str | None:
    """All of it, which must be one of the list where there is one."""
    said = (unmarked(given) or "").strip(" .*\"'")
    return (_of(said, choices) if choices else said.lower()) or None


def _of(source: str, choices: Choices) -> str | None:
    """The label that a mark names; empty where it names several, None where it names none."""
    if leads := _named(first(source), choices, at_start=True):
        others = _named(without_reason(affirmed(first(source)), CLAUSE), choices)
        return "" if len({*others}) > 1 else leads[0]
    found = {*_named(without_reason(affirmed(source), CLAUSE), choices)}
    if not found and (letter := re.match(r"\W*([A-Z])\W*\Z", source)):  # as choices are shown
        place = string.ascii_uppercase.index(letter[1])
        return choices[place] if place < len(choices) else None
    return None if not found else found.pop() if len(found) == 1 else ""


def _claimed(body: str, choices: Choices) -> str | None:
    """The only label that a text without a mark claims, or the one that it concludes with."""
    every = sentences(body)
    if len(every) == len(choices) > 1 and [_named(each, choices)[:1] for each in every] == [[each] for each in choices]:
        return None  # the list said again
    said = [(each, _predicated(each, choices)) for each in claims(body)]
    found = [labels for _, labels in said if labels]
    concluding = [labels for each, labels in said if labels and CONCLUDES.match(each)]
    last = (
        concluding[-1]
        if concluding
        else [label for labels in found for label in labels]
        if len(every) > 1
        else found[-1]
        if found
        else []
    )
    return last[0] if len({*last}) == 1 else None


def _predicated(claim: str, choices: Choices) -> list[str]:
    """The labels that a claim gives: as the list writes them, of a verb with its object, or at the claim's end."""
    found = _named(claim, choices)
    exact = [label for label in found if not label.islower() and label in claim]
    if exact or len(claim.split()) <= SHORT:
        return exact or found
    given = [label for label in found if _is_verb(label) and VERB.search(claim)]
    lacks = [label for label in choices if label.casefold().endswith("info") and LACKING.search(claim)]
    at_end = [label for label in found if re.search(rf"{_forms(_plain(label))}\W*\Z", claim, re.IGNORECASE)]
    return given or lacks or [label for label in at_end if not _is_verb(label)]


def _is_verb(label: str) -> bool:
    return bool(re.match(r"(?:support|refute|contradict)s\Z", label, re.IGNORECASE))


def _plain(label: str) -> str:
    return re.sub(r"[\W_]+", " ", label.casefold()).strip()


def _named(said: str, choices: Choices, *, at_start: bool = False) -> list[str]:
    """The labels in a text in their order, without those that are denied."""
    words = {_plain(choice): choice for choice in choices}
    order = sorted(words, key=len, reverse=True)
    each = "|".join(f"({_forms(word)})" for word in order)
    pattern = re.compile(rf"(?<![^\W_])(?:{each})(?![^\W_])", re.IGNORECASE)
    begin = len(said) - len(said.lstrip("[(*_\"' "))
    found = [pattern.match(said, begin)] if at_start else [*pattern.finditer(said)]
    named = [one for one in found if one and not DENIED.search(said[max(0, one.start() - 40) : one.start()])]
    return [words[order[(one.lastindex or 1) - 1]] for one in named]


def _forms(word: str) -> str:
    """A label with any signs between its words, and as a claim's verb is turned: "supported", "information"."""
    form = re.sub(r"\\?\s", r"[\\W_]{1,3}", re.escape(word))
    if _is_verb(word):
        return form[:-1] + "(?:s|d|ed)"
    return form + r"(?:rmation)?" if word.endswith("info") else form


def _own(body: str) -> str | None:
    """What is bracketed last, else what a mark names that is no sentence."""
    marked = next(sources(body, NOUNS), "")
    said = without_reason(first(marked), CLAUSE).strip(" .*\"'")
    if marked and not bracketed(said) and re.search(rf"(?:{NOUNS})\W*:", body, re.IGNORECASE) and len(said) <= LONGEST:
        return said.lower() or None
    found = bracketed(without_reason(marked, CLAUSE)) or bracketed(body)
    return found.lower() if found and len(found) <= LONGEST else None


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a list of labels that nobody could choose from, and a target that is none of them."""
    choices, target = question.get("choices") or [], known.target_of(question)
    if not choices:
        return
    known.check(choices, "labels")
    if target is not None and target.casefold().split() not in [each.casefold().split() for each in choices]:
        raise UsageError(f"target is {target!r}; expected one of the labels: {', '.join(map(repr, choices))}")


LABEL = Kind("label", "answers/label", "a label", read, read_value, check=check, unknown_is_an_answer=True)
