"""Free text of a few words, as written: a phrase, or a short sentence that answers.

A marked answer counts ("Answer: X", a box, brackets, "the answer is X"). In an unmarked reply of few sentences one
sentence answers: the only one, the one that concludes ("So ..."), or the first if the others continue it ("It is
..."). A longer unmarked text has no answer. Reasons, sources and remarks in brackets are not part of an answer.
"""

import re
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.prompts.kinds import about, shorten
from sottovoce.prompts.kinds.about import SHORTEST, VERB
from sottovoce.prompts.kinds.expected import is_expected
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import normalise
from sottovoce.prompts.kinds.nothing import BLANK, SAYS_NOTHING, UNKNOWN
from sottovoce.prompts.kinds.places import same_place
from sottovoce.prompts.kinds.prose import LONGEST as LONGEST_TEXT
from sottovoce.prompts.kinds.prose import plain
from sottovoce.prompts.kinds.sentences import (
    CLAUSE,
    CONCLUDES,
    INSERTED,
    REASON,
    affirmed,
    affirmed_behind,
    first,
    sentences,
    without_reason,
)

FACTS = re.compile(r"\bfacts?\b[^\n]{0,60}:\s{0,9}\n")
"""The heading of a list of facts, which are not an answer."""
BOLD = re.compile(r"\*\*([^*\n]{1,80})\*\*")
LONGEST = 300  # characters of an unmarked answer's sentence
FEW = 4  # sentences of an unmarked reply that is parsed
TALK = re.compile(
    r"[^\w\"\u201c]*(?:(?:i am|i'm) (?:sorry|afraid|unable|not able)|sorry|unfortunately|as an ai|i|we|let|let's|here"
    r"|hm+|well|ok(?:ay)?|sure|hello|hi|yes please|think it through|thank you|thanks|please|that(?: is|'s) an? (?:great"
    r"|good|interesting)|answer in (?:one|a)|first|to|if|note|given|based on|according to)\b",
    re.IGNORECASE,
)
"""The beginning of a sentence about the task, not an answer to it."""
COURTESY = re.compile(
    r"(?:sure|of course|certainly|great question|okay|ok|hello|thank you|i hope|let me know)\b", re.IGNORECASE
)
HEDGE = re.compile(
    r"\W*(?:(?:i am|i'm) not (?:entirely |completely )?sure,? but\s+|in my opinion,?\s+"
    r"|i (?:think|believe|guess|suppose|know)(?: that)?\s+|i(?: would|'d) (?:say|guess|answer)(?: that)?\s+"
    r"|(?:so|therefore|thus|hence|clearly|we know that),?\s+)+",
    re.IGNORECASE,
)
LEAD = re.compile(
    r"(?:it|that|this|the (?:final |correct )?answer)(?: is|'s| was| would be)\s+"
    r"(?:actually\s+|indeed\s+|probably\s+)?(?=\S)",
    re.IGNORECASE,
)
CORRECTS = re.compile(r"\b(?:actually|rather|correction)\b", re.IGNORECASE)
GOES_ON = re.compile(r"(?:it|its|he|she|his|her|they|their|this|that|these|the (?:city|river|town))\b", re.IGNORECASE)
CUT = re.compile(r"\b(?:is|are|was|were|the|a|an|of|in|on|by|to|and|or|called|named)[\s,]*\Z", re.IGNORECASE)
SOURCE = re.compile(r"\s+\[[^\[\]\n]{0,80}\]|\s+\((?!\d{4}\))[^()\n]{0,120}\)\s*\Z")
QUOTES = "\"'\u201c\u201d\u2018\u2019*` "


def read(text: str, choices: Choices) -> str | None:
    """Return the only bold text if the reply ends with it, or else the sentence that answers."""
    bold = BOLD.findall(text[-LONGEST_TEXT:])
    is_last = len(bold) == 1 and text.rstrip(" .\n").endswith(f"**{bold[0]}**")
    return phrase(bold[0]) or None if is_last else _answering(plain(text))


def read_value(given: str, choices: Choices) -> str | None:
    """Return the text of a field without a reason; None for an abstention."""
    return phrase(plain(given)) or None


def phrase(source: str, reason: re.Pattern[str] = REASON) -> str | None:
    """Return the phrase that a mark names; empty if it says there is none, None if it is about something else."""
    inner = re.fullmatch(r"\W*\[([^\[\]]+)\]\W*", source) or re.match(r"[^\[\]]{0,60}:\s*\[([^\[\]]+)\]\W*\Z", source)
    whole = inner[1] if inner else first(source)
    said = without_reason(whole, reason)
    if (len(said.split()) >= SHORTEST and VERB.search(said)) or INSERTED.search(
        whole
    ):  # the answer may be in the clause after it
        said = without_reason(whole, CLAUSE)
    said = affirmed(said)
    if UNKNOWN.match(said) or (source.strip() and not said):
        return ""
    said = said.rstrip() if inner else SOURCE.sub("", said).rstrip()
    said = LEAD.sub("", HEDGE.sub("", said, count=1), count=1) if not inner else said
    said = _ended(said.strip(QUOTES))
    if BLANK.fullmatch(said) and not re.search(r"[+#]", said):
        return None
    return None if SAYS_NOTHING.fullmatch(said) else said


def _answering(body: str) -> str | None:
    """Return the sentence of a short reply that answers; None if it is long, a question, cut off, or about the task."""
    if FACTS.search(body):
        return None
    every = [each for each in sentences(body) if not COURTESY.match(each) and not each.endswith(":")]
    if not every or len(every) > FEW:
        return None
    said = _chosen(every)
    if said is None or len(said) > LONGEST or said.endswith("?") or CUT.search(said):
        return None
    said = HEDGE.sub("", said, count=1)
    if yes := re.match(r"(yes|no)\b(?=[,.!]|\Z)", said, re.IGNORECASE):
        return yes[1]
    denies = re.search(r"\b(?:or|not|never|neither)\b|n't\b", affirmed_behind(said))  # what may be, or is not
    return None if TALK.match(said) or denies else phrase(said, CLAUSE) or None


def _chosen(every: list[str]) -> str | None:
    if len(every) > 1 and (CONCLUDES.match(every[-1]) or CORRECTS.search(every[-1])):
        return every[-1]
    return every[0] if all(GOES_ON.match(each) for each in every[1:]) else None


def _ended(said: str) -> str:
    """Return a phrase without its final punctuation; the dots of "J. R. R." and "U.S." stay."""
    bare = said.rstrip(" .,;:!").rstrip(QUOTES.replace("'", ""))
    return bare + "." if re.search(r"\b[A-Z]\.[A-Z]\Z", bare) and said[len(bare) : len(bare) + 1] == "." else bare


def same(left: str, right: str) -> bool:
    """Return whether two texts are equal after SQuAD's normalization, with equal signs ("C++" is not "C#")."""
    plain = normalise(left)
    return plain == normalise(right) and _signs(left) == _signs(right) if plain else left.strip() == right.strip()


def _signs(text: str) -> list[str]:
    """Return the signs that have a meaning, not those between letters, as in "Jean-Paul"."""
    return re.findall(r"[-+#*/<>=^%]", re.sub(r"(?<=[^\W\d_])[-+#*/](?=[^\W\d_])", "", text))


def agree(left: str, right: str, question: str) -> bool:
    """Return whether answers are the `same`, also without the question's words ("the river Orn"), or name one place."""
    if same(left, right) or same_place(left, right, question):
        return True
    is_alike = bool(question) and _signs(left) == _signs(right)
    return is_alike and about.key(left, question) == about.key(right, question)


def is_target(answer: str, target: str, question: str) -> bool:
    """Return whether an answer agrees with the target, or is a sentence that names it, not denied or one of several."""
    return agree(answer, target, question) or (bool(question) and shorten.names(answer, target, question))


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target without a letter, figure or sign."""
    target = str(question.get("target", "x"))
    if not target.strip():
        raise UsageError(f"target is {target!r}; expected a few words")


TEXT = Kind(
    "text",
    "answers/text",
    "a few words",
    read,
    read_value,
    same,
    check=check,
    named=lambda source, choices: phrase(source),
    takes_brackets=True,
    short=shorten.short,
    suits=lambda answer, question: is_expected(answer, question) and not shorten.leaves_open(answer, question),
    implied=lambda text, question: shorten.implied(text, str(question.get("question", ""))),
    agree=agree,
    is_target=is_target,
)
