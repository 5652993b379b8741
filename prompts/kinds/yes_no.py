"""Yes-or-no answers; true and false count as yes and no."""

import re
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.prose import CLAUSE, UNKNOWN, affirmed, claims, plain, without_reason
from sottovoce.prompts.kinds.question_words import restated

MEANING = dict.fromkeys(["yes", "yeah", "yep", "yup", "affirmative", "true"], "yes")
MEANING |= dict.fromkeys(["no", "nope", "nah", "false"], "no")
WORDS = re.compile(
    r"\b(?:(?:yes|yeah|yep|yup|affirmative)\b|(?:no|nope|nah)\b(?=\s{0,9}(?:[,;:!?(\"')\]}*\n\u2013\u2014-]|\.(?!\s?\d)|\Z"
    r"|(?:it|this|that|they|he|she|there|we|i|you|the answer)\b)))",
    re.IGNORECASE,
)
"""Yes and no as answers, not the no of "no doubt", "no one", "No. 5"."""
BOTH = re.compile(r"\b(?:yes\W{0,3}(?:\s(?:or|and)\s|/)\W?no|no\W{0,3}(?:\s(?:or|and)\s|/)\W?yes)\b", re.IGNORECASE)
ASIDE = re.compile(r"\b(?:maybe|perhaps|whether|if|said|says|either|there (?:is|are|was|were))\s\W?\Z", re.IGNORECASE)
"""Words before a yes or no that is not an answer."""
BEGINS = re.compile(r"(?:\A|[.!?:;,\n\u2013\u2014]|\b(?:so|thus|hence|therefore|is|actually))\W*\Z", re.IGNORECASE)
TRUTH = re.compile(
    r"\b(?:statement|claim|this|that|it|equation|proposition|answer)(?: is|'s)( not)?(?: \w{1,12}ly)? "
    r"(true|false|correct|incorrect|right|wrong)\b"
    r"|\A\W*(?P<untrue>not )?(?P<alone>true|false|correct|incorrect)[.!*]*(?=\s*(?:\Z|\n|[A-Z]))",
    re.IGNORECASE,
)
SUPPOSED = re.compile(r"\b(?:whether|if|to (?:determine|check|see|verify|decide))\b", re.IGNORECASE)
CHANGES = re.compile(
    r"\b(?:wait|actually|second thought|so|therefore|thus|hence|correction|rather)\b|[?=:]", re.IGNORECASE
)
"""Words that retract a first answer or introduce a last one."""
TAKEN_BACK = re.compile(
    r"\b(?:the|this|that|my) (?:(?:above|previous|first) )?answer (?:is|was) (?:wrong|incorrect|not correct)\b",
    re.IGNORECASE,
)
"""Words that retract everything before them."""
MARKED = re.compile(r"\b(yes|yeah|yep|nope|no|true|false|affirmative)\b", re.IGNORECASE)


def read(text: str, choices: Choices) -> str | None:
    """Return the answer of an unmarked text: its last yes or no that begins a clause."""
    return _claimed(BOTH.sub(" ", TAKEN_BACK.split(plain(text))[-1]))


def read_value(field: str, choices: Choices) -> str | None:
    """Return the answer of a field; None if it has both words."""
    answers = {MEANING[word.lower()] for word in MARKED.findall(affirmed(plain(field)))}
    return answers.pop() if len(answers) == 1 and not UNKNOWN.match(field) else None


def _of(source: str) -> str | None:
    """Return the answer of a mark; empty if it says both or unknown, None if it says neither."""
    if denied := re.match(r"\W*not (?:\w+ )?(true|correct|right|false)\b", source, re.IGNORECASE):
        return "yes" if denied[1].lower() == "false" else "no"
    if re.match(r"\W*no way\b", source, re.IGNORECASE):
        return "no"
    said = affirmed(without_reason(source, CLAUSE))
    if UNKNOWN.match(source) or not said or BOTH.search(said):
        return ""
    lead = re.match(
        r"[\W_]*(?:(?:a|an|that|definite|definitely|clearly|simply|clear|still)\s){0,3}\W?", said, re.IGNORECASE
    )
    if lead and (leads := re.compile(r"true\b|false\b", re.IGNORECASE).match(said, lead.end())):
        return MEANING[leads[0].lower()]
    first = next(
        (word for word in WORDS.finditer(said) if not ASIDE.search(said[max(0, word.start() - 20) : word.start()])),
        None,
    )
    return MEANING[first[0].lower()] if first else None


def _claimed(body: str) -> str | None:
    said = "\n".join(claims(body))
    said = said if WORDS.search(said) else body  # "Is it so? Yes."
    answers = list[tuple[str, bool]]()
    for word in WORDS.finditer(said):
        before = said[max(0, word.start() - 20) : word.start()]
        if not ASIDE.search(before) and not UNKNOWN.match(said, word.start()):
            answers.append((MEANING[word[0].lower()], bool(BEGINS.search(before) or word.start() == 0)))
    strong = [meaning for meaning, begins in answers if begins] or [meaning for meaning, _ in answers]
    if len({*strong}) > 1 and not CHANGES.search(said):  # "1. Yes ... 2. No ..."
        return strong[0] if WORDS.match(said.lstrip("\"'( ")) else None
    return strong[-1] if strong else _truth(said)


def _truth(said: str) -> str | None:
    """Return the answer of the last "the statement is true" or "that is incorrect"."""
    matches = [
        match for match in TRUTH.finditer(said) if not SUPPOSED.search(said[max(0, match.start() - 40) : match.start()])
    ]
    if not matches:
        return None
    said_so = matches[0] if matches[0]["alone"] else matches[-1]
    is_true = (said_so["alone"] or said_so[2]).lower() in ("true", "correct", "right")
    return "yes" if is_true != bool(said_so[1] or said_so["untrue"]) else "no"


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is neither yes nor no."""
    target = str(question.get("target", "yes"))
    if target.strip().lower() not in ("yes", "no"):
        raise UsageError(f"target is {target!r}; expected yes or no")


EITHER = Form(choices=("yes", "no"))
YES_NO = Kind(
    "yes or no",
    "answers/yes_no",
    "yes or no",
    read,
    read_value,
    grammar=lambda choices: EITHER,
    check=check,
    named=lambda source, choices: _of(source),
    takes_brackets=True,
    implied=lambda text, question: restated(text, str(question.get("question", ""))),
)
