"""Parser of the label that an unmarked text gives: in its claims ("the evidence supports the claim"), or implied."""

import re
from collections.abc import Mapping
from typing import Any

from sottovoce.prompts.kinds.about import restated
from sottovoce.prompts.kinds.kind import Choices
from sottovoce.prompts.kinds.sentences import CONCLUDES, claims, first, is_whole, sentences, unfinished
from sottovoce.prompts.kinds.wording import forms, is_verb, named, simple

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
LEADS = re.compile(r"\W*(?:since|because|as|although|though|while|given that|if)\b[^\n]{1,300},", re.IGNORECASE)
CLAIM = re.compile(r"\bclaim:\s*([^\n]{1,300}?[.!])(?:\s|\Z)", re.IGNORECASE)


def claimed(body: str, choices: Choices) -> str | None:
    """Return the only label that an unmarked text claims, or the one in its conclusion."""
    every = sentences(body)
    if unfinished(body):
        return None
    if len(every) == len(choices) > 1 and [named(each, choices)[:1] for each in every] == [[each] for each in choices]:
        return None  # a repetition of the list
    is_plain = not LIMITED.search(body) or len(body.split()) <= BRIEF
    every = [_main(each, choices) for each in claims(_told(body))]
    said = [(each, labels) for each in every if (labels := _predicated(each, choices, is_plain))]
    concluding = [labels for each, labels in said if CONCLUDES.match(each)]
    found = concluding[-1] if concluding else [label for _, labels in said for label in labels]
    return found[0] if len({*found}) == 1 else None


def _main(claim: str, choices: Choices) -> str:
    """Return a claim without its introductory clause and the remark after a colon: "Since ..., it was Milo"."""
    if LEADS.match(claim):
        claim = claim[claim.rfind(",") + 1 :]
    before = claim.partition(": ")[0]
    return before if named(before, choices) else claim


def _told(body: str) -> str:
    """Return the text without a last sentence that is cut off, if it has others."""
    every = sentences(body)
    return body if is_whole(body) or len(every) < 2 else body[: body.rindex(every[-1])]


def _predicated(claim: str, choices: Choices, is_plain: bool) -> list[str]:
    """Return the labels that a claim gives: as written in the list, as a verb with its object, or at its end."""
    found = named(claim, choices)
    exact = [label for label in found if not label.islower() and label in claim]
    lacks = [label for label in choices if label.casefold().endswith("info") and _lacks(claim)]
    if exact or len(claim.split()) <= SHORT:
        return [*exact, *lacks] or found
    given = [
        label
        for label in found
        if is_verb(label) and (VERB if is_plain or CONCLUDES.match(claim) else PLAINLY).search(claim)
    ]
    at_end = [
        label for label in dict.fromkeys(found) if re.search(rf"{forms(simple(label))}\W*\Z", claim, re.IGNORECASE)
    ]
    is_quoted = re.search(r"[\"\u201d]\W*\Z", claim)
    return given or lacks or [label for label in at_end if is_quoted or not is_verb(label)]


def _lacks(claim: str) -> bool:
    """Return whether a claim says, without denying it, that the evidence is not sufficient."""
    found = LACKING.search(claim)
    return bool(found) and not re.search(r"(?:\bnot\b|n't\b)[^,;]{0,200}\Z", claim[: found.start() if found else 0])


def implied(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Return the label for "the evidence suggests that ..." if that repeats or denies the question's claim."""
    verdicts = {"supports": "yes", "refutes": "no"}
    labels = {verdicts.get(each.casefold()): each for each in question.get("choices") or []}
    claim, found = CLAIM.search(str(question.get("question", ""))), FINDS.search(text)
    if not claim or not found or unfinished(text) or OTHERWISE.search(ASIDE.sub(" ", text)):
        return None
    return labels.get(restated(first(text[found.end() :]), claim[1]) or "")
