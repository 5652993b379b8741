"""Labels: the question's choices as written there, or the task's own labels in lowercase.

A label is found with any signs between its words, in any verb form, unless it is denied. An unmarked text gives one in
its claims ("the evidence supports the claim"), or implies it.
"""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import bracketed, unmarked
from sottovoce.prompts.kinds.prose import (
    CLAUSE,
    CONCLUDES,
    claims,
    first,
    is_whole,
    plain,
    sentences,
    unfinished,
    without_reason,
)
from sottovoce.prompts.kinds.question_words import restated

DENIED = re.compile(
    r"(?:\bnot|\bno|n't|\bneither|\bnor|\brather than|\binstead of)\s+(?:(?!but\b)\w+\s+){0,2}\Z", re.IGNORECASE
)


def is_verb(label: str) -> bool:
    """Return whether a label is a verb such as "supports"."""
    return bool(re.match(r"(?:support|refute|contradict)s\Z", label, re.IGNORECASE))


def plain_words(label: str) -> str:
    """Return a label's words in lowercase."""
    return re.sub(r"[\W_]+", " ", label.casefold()).strip()


def labels_in(said: str, choices: Choices, *, at_start: bool = False) -> list[str]:
    """Return the labels in a text in order, without denied ones."""
    words = {plain_words(choice): choice for choice in choices}
    order = sorted(words, key=len, reverse=True)
    alternatives = "|".join(f"({pattern_of(word)})" for word in order)
    pattern = re.compile(rf"(?<![^\W_])(?:{alternatives})(?![^\W_])", re.IGNORECASE)
    begin = len(said) - len(said.lstrip("[(*_\"' "))
    matches = [pattern.match(said, begin)] if at_start else [*pattern.finditer(said)]
    own = [m for m in matches if m and not DENIED.search(said[max(0, m.start() - 40) : m.start()])]
    return [words[order[(match.lastindex or 1) - 1]] for match in own]


def pattern_of(word: str) -> str:
    """Return a pattern of a label with any signs between its words, and other forms: "supported", "information"."""
    form = re.sub(r"\\?\s", r"[\\W_]{1,3}", re.escape(word))
    if is_verb(word):
        return form[:-1] + "(?:s|d|ed)"
    return form + r"(?:rmation)?" if word.endswith("info") else form


BRIEF = 12  # words of a reply in which a verb counts as the similar label, whatever else is said
SHORT = 6  # words of a claim that only states a label
VERB = re.compile(
    r"\b(?:supports|refutes|contradicts)\s(?:it|(?:the|this|that|a)\s(?:\w+\s){0,2}?(?:claim|label|statement|idea))\b"
    r"|(?<!\bthat )\b(?:is|are|was|were|be|been)\s(?:\w+\s)?(?:supported|refuted|contradicted)\b",
    re.IGNORECASE,
)
PLAINLY = re.compile(r"\bevidence (?:\w+ly )?(?:supports|refutes|contradicts) (?:the|this) claim\b", re.IGNORECASE)
"""The full verdict, whatever follows it."""
LACKING = re.compile(
    r"\b(?:not|n't)\s(?:\w+\s)?(?:provid|giv|contain|hav)\w*\s(?:enough|sufficient)\sinfo|\binsufficient\s(?:info|evid)"
    r"|\bnot enough (?:info|evid)",
    re.IGNORECASE,
)
"""A claim that the evidence is not sufficient."""
LIMITED = re.compile(
    r"\b(?:not|n't|cannot)\s(?:\w+\s){0,2}(?:provid|support|prov|confirm|refut)|\bhowever\b|\brefut|\bdebunk|\bcontradict",
    re.IGNORECASE,
)
"""Words that make it unclear whether a label's verb in a text is its verdict."""
FINDS = re.compile(
    r"\bevidence(?: that supports the claim)?\s(?:suggests|shows|indicates|says|states|confirms|is)\s(?:that\s)?",
    re.IGNORECASE,
)
OTHERWISE = re.compile(r"\b(?:refut|support|debunk|not enough|info)", re.IGNORECASE)
"""Other words about a claim's verdict."""
ASIDE = re.compile(r"\bnot \w+ refuted\b|\bevidence that supports the claim\b|\brefutation\b", re.IGNORECASE)
LEADING_CLAUSE = re.compile(
    r"\W*(?:since|because|as|although|though|while|given that|if)\b[^\n]{1,300},", re.IGNORECASE
)
QUESTION_CLAIM = re.compile(r"\bclaim:\s*([^\n]{1,300}?[.!])(?:\s|\Z)", re.IGNORECASE)


def claimed_label(body: str, choices: Choices) -> str | None:
    """Return the only label that an unmarked text claims, or the one in its conclusion."""
    lines = sentences(body)
    if unfinished(body):
        return None
    if len(lines) == len(choices) > 1 and [labels_in(line, choices)[:1] for line in lines] == [
        [line] for line in choices
    ]:
        return None  # a repetition of the list
    is_plain = not LIMITED.search(body) or len(body.split()) <= BRIEF
    lines = [_main(line, choices) for line in claims(_without_cut_end(body))]
    said = [(line, labels) for line in lines if (labels := _predicated(line, choices, is_plain))]
    concluding = [labels for line, labels in said if CONCLUDES.match(line)]
    labels_found = concluding[-1] if concluding else [label for _, labels in said for label in labels]
    return labels_found[0] if len({*labels_found}) == 1 else None


def _main(claim: str, choices: Choices) -> str:
    """Return a claim without its introductory clause and the remark after a colon: "Since ..., it was Milo"."""
    if LEADING_CLAUSE.match(claim):
        claim = claim[claim.rfind(",") + 1 :]
    before = claim.partition(": ")[0]
    return before if labels_in(before, choices) else claim


def _without_cut_end(body: str) -> str:
    """Return the text without a last sentence that is cut off, if it has others."""
    lines = sentences(body)
    return body if is_whole(body) or len(lines) < 2 else body[: body.rindex(lines[-1])]


def _predicated(claim: str, choices: Choices, is_plain: bool) -> list[str]:
    """Return the labels that a claim gives: as written in the list, as a verb with its object, or at its end."""
    labels = labels_in(claim, choices)
    exact = [label for label in labels if not label.islower() and label in claim]
    lacks = [label for label in choices if label.casefold().endswith("info") and _says_insufficient(claim)]
    if exact or len(claim.split()) <= SHORT:
        return [*exact, *lacks] or labels
    by_verb = [
        label
        for label in labels
        if is_verb(label) and (VERB if is_plain or CONCLUDES.match(claim) else PLAINLY).search(claim)
    ]
    at_end = [
        label
        for label in dict.fromkeys(labels)
        if re.search(rf"{pattern_of(plain_words(label))}\W*\Z", claim, re.IGNORECASE)
    ]
    is_quoted = re.search(r"[\"\u201d]\W*\Z", claim)
    return by_verb or lacks or [label for label in at_end if is_quoted or not is_verb(label)]


def _says_insufficient(claim: str) -> bool:
    """Return whether a claim says, without denying it, that the evidence is not sufficient."""
    lacking = LACKING.search(claim)
    before = claim[: lacking.start()] if lacking else ""
    return bool(lacking) and not re.search(r"(?:\bnot\b|n't\b)[^,;]{0,200}\Z", before)


def implied_label(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Return the label for "the evidence suggests that ..." if that repeats or denies the question's claim."""
    verdicts = {"supports": "yes", "refutes": "no"}
    labels = {verdicts.get(label.casefold()): label for label in question.get("choices") or []}
    claim, evidence = QUESTION_CLAIM.search(str(question.get("question", ""))), FINDS.search(text)
    if not claim or not evidence or unfinished(text) or OTHERWISE.search(ASIDE.sub(" ", text)):
        return None
    return labels.get(restated(first(text[evidence.end() :]), claim[1]) or "")


NOUNS = "answer|label|verdict|classification|decision"
LONGEST = 60  # characters of a label without a list


def read(text: str, choices: Choices) -> str | None:
    """Return the label of the list that the text's claims give; without a list, prose is not parsed."""
    return claimed_label(plain(text), choices) if choices else None


def read_value(field: str, choices: Choices) -> str | None:
    """Return the whole text, which must be in the list if there is one."""
    said = (unmarked(field) or "").strip(" .*\"'")
    return (_of(said, choices) if choices else said.lower()) or None


def _of(source: str, choices: Choices) -> str | None:
    """Return the label that a mark names; empty if it names several, None if it names none."""
    if not choices:
        return _own(source)
    if leads := labels_in(first(source), choices, at_start=True):
        others = labels_in(without_reason(first(source), CLAUSE).partition(";")[0], choices)
        return "" if len({*others}) > 1 else leads[0]
    labels = {*labels_in(without_reason(source, CLAUSE), choices)}
    if not labels and (letter := re.match(r"\W*([A-Z])\W*\Z", source)):  # as choices are shown
        place = string.ascii_uppercase.index(letter[1])
        return choices[place] if place < len(choices) else None
    return None if not labels else labels.pop() if len(labels) == 1 else ""


def _own(source: str) -> str | None:
    """Return the label that a mark names without a list: the text in brackets, or a few words."""
    said = without_reason(first(source), CLAUSE).strip(" .*\"'")
    label = (bracketed(said) or said).lower()
    return label if len(label) <= LONGEST else None


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse an unusable list of labels, and a target that is not in it."""
    choices, target = question.get("choices") or [], known.target_of(question)
    if not choices:
        return
    known.check(choices, "labels")
    if target is not None and target.casefold().split() not in [label.casefold().split() for label in choices]:
        raise UsageError(f"target is {target!r}; expected one of the labels: {', '.join(map(repr, choices))}")


def grammar(choices: Choices) -> Form | None:
    """Return a format with the labels of a list."""
    return Form(choices=tuple(choices)) if choices else None


LABEL = Kind(
    "label",
    "answers/label",
    "a label",
    read,
    read_value,
    grammar=grammar,
    check=check,
    named=_of,
    nouns=NOUNS,
    takes_brackets=True,
    implied=implied_label,
    unknown_is_an_answer=True,
)
