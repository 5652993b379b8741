"""Labels: those of the question's choices as they stand there, else the task's own in small letters."""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds.about import restated
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import bracketed, sources, unmarked
from sottovoce.prompts.kinds.prose import plain
from sottovoce.prompts.kinds.sentences import CLAUSE, affirmed, claims, first, sentences, without_reason

NOUNS = "answer|label|verdict|classification"
LONGEST = 60  # characters of a label that no list names
BRIEF = 12  # words of a reply in which a verb is the label that it is like, whatever is said beside
SHORT = 6  # words of a claim that is a label's own
CONCLUDES = re.compile(r"\W*(?:so|therefore|thus|hence|overall|in conclusion)\b", re.IGNORECASE)
VERB = re.compile(
    r"\b(?:supports|refutes|contradicts)\s(?:the|this|that|a|it)\b(?:\s\w+){0,2}?\s?(?:claim|label|statement|it)?"
    r"|\b(?:is|are|was|were|be|been)\s(?:\w+\s)?(?:supported|refuted|contradicted)\b",
    re.IGNORECASE,
)
LACKING = re.compile(
    r"\b(?:not|n't)\s(?:\w+\s)?(?:provid|giv|contain|hav)\w*\s(?:enough|sufficient)\sinfo|\binsufficient\s(?:info|evid)"
    r"|\bnot enough (?:info|evid)",
    re.IGNORECASE,
)
"""A claim that what is known does not suffice."""
LIMITED = re.compile(
    r"\b(?:not|n't|cannot)\s(?:\w+\s){0,2}(?:provid|support|prov|confirm|refut)|\bhowever\b|\brefut|\bdebunk|\bcontradict",
    re.IGNORECASE,
)
"""What leaves it open whether the verb that a text has for a label is its verdict."""
FINDS = re.compile(
    r"\bevidence(?: that supports the claim)?\s(?:suggests|shows|indicates|says|states|confirms|is)\s(?:that\s)?",
    re.IGNORECASE,
)
OTHERWISE = re.compile(r"\b(?:refut|support|debunk|not enough|info)", re.IGNORECASE)
"""What a text says of a claim beside that."""
ASIDE = re.compile(r"\bnot \w+ refuted\b|\bevidence that supports the claim\b|\brefutation\b", re.IGNORECASE)
CLAIM = re.compile(r"\bclaim:\s*([^\n]{1,300}?[.!])(?:\s|\Z)", re.IGNORECASE)
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
    is_plain = not LIMITED.search(body) or len(body.split()) <= BRIEF
    said = [(each, labels) for each in claims(body) if (labels := _predicated(each, choices, is_plain))]
    concluding = [labels for each, labels in said if CONCLUDES.match(each)]
    found = concluding[-1] if concluding else [label for _, labels in said for label in labels]
    return found[0] if len({*found}) == 1 else None


def _predicated(claim: str, choices: Choices, is_plain: bool) -> list[str]:
    """The labels that a claim gives: as the list writes them, of a verb with its object, or at the claim's end."""
    found = _named(claim, choices)
    exact = [label for label in found if not label.islower() and label in claim]
    if exact or len(claim.split()) <= SHORT:
        return exact or found
    given = [label for label in found if is_plain and _is_verb(label) and VERB.search(claim)]
    lacks = [label for label in choices if label.casefold().endswith("info") and LACKING.search(claim)]
    at_end = [
        label for label in dict.fromkeys(found) if re.search(rf"{_forms(_plain(label))}\W*\Z", claim, re.IGNORECASE)
    ]
    return given or lacks or [label for label in at_end if not _is_verb(label)]


def implied(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Whether "the evidence suggests that ..." says the claim of the question again, or denies it."""
    verdicts = {"supports": "yes", "refutes": "no"}
    labels = {verdicts.get(each.casefold()): each for each in question.get("choices") or []}
    claim, found = CLAIM.search(str(question.get("question", ""))), FINDS.search(text)
    if not claim or not found or OTHERWISE.search(ASIDE.sub(" ", text)):
        return None
    return labels.get(restated(first(text[found.end() :]), claim[1]) or "")


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


def grammar(choices: Choices) -> Form | None:
    """The labels of a list."""
    return Form(choices=tuple(choices)) if choices else None


LABEL = Kind(
    "label",
    "answers/label",
    "a label",
    read,
    read_value,
    grammar=grammar,
    check=check,
    implied=implied,
    unknown_is_an_answer=True,
)
