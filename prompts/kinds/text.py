"""Free text of a few words, as written: a phrase, or a short sentence that answers.

A marked answer counts ("Answer: X", a box, brackets, "the answer is X"). In an unmarked reply of few sentences one
sentence answers: the only one, the one that concludes ("So ..."), or the first if the others continue it ("It is
..."). A longer unmarked text has no answer. Reasons, sources and remarks in brackets are not part of an answer.

Two answers with different qualifiers, such as "Los Angeles, California" and "Los Angeles, USA", agree if the text
before the comma is equal and the qualifiers are compatible: one answer has none, one's qualifiers are among the
other's, or one qualifier is a known part of the other (a state of a country). "Portland, Oregon" is not "Portland,
Maine". A comma may also separate the items of a list, so a qualifier counts only if it is a known country or state, or
if the question asks for a place.
"""

import re
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.prompts.kinds import shorten
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import normalise
from sottovoce.prompts.kinds.prose import (
    BLANK,
    CLAUSE,
    CONCLUDES,
    INSERTED,
    REASON,
    SAYS_NOTHING,
    UNKNOWN,
    affirmed,
    affirmed_behind,
    first,
    plain,
    sentences,
    without_reason,
)
from sottovoce.prompts.kinds.prose import LONGEST as LONGEST_TEXT
from sottovoce.prompts.kinds.question_words import SHORTEST, VERB, answer_key, is_expected

_STATES = {
    "United States": "Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Georgia Hawaii"
    " Idaho Illinois Indiana Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan Minnesota Mississippi"
    " Missouri Montana Nebraska Nevada New_Hampshire New_Jersey New_Mexico New_York North_Carolina North_Dakota Ohio"
    " Oklahoma Oregon Pennsylvania Rhode_Island South_Carolina South_Dakota Tennessee Texas Utah Vermont Virginia"
    " Washington West_Virginia Wisconsin Wyoming D.C.",
    "United Kingdom": "England Scotland Wales Northern_Ireland",
    "Canada": "Alberta British_Columbia Manitoba New_Brunswick Newfoundland Nova_Scotia Ontario Quebec Saskatchewan",
    "Australia": "New_South_Wales Queensland South_Australia Tasmania Victoria Western_Australia",
}
LIES_IN = {
    normalise(state.replace("_", " ")): normalise(country)
    for country, many in _STATES.items()
    for state in many.split()
}
"""The country of each state, in the normal form of answers."""
SYNONYMS = {
    "usa": "united states",
    "us": "united states",
    "united states of america": "united states",
    "america": "united states",
}
SYNONYMS |= {"uk": "united kingdom", "great britain": "united kingdom", "britain": "united kingdom"}
COUNTRIES = frozenset(LIES_IN.values()) | frozenset(
    "afghanistan albania algeria argentina armenia austria bangladesh belarus belgium bolivia bosnia brazil"
    " bulgaria cambodia chile china colombia croatia cuba cyprus denmark ecuador egypt estonia ethiopia finland"
    " france georgia germany ghana greece greenland hungary iceland india indonesia iran iraq ireland israel italy"
    " jamaica japan jordan kenya kuwait latvia lebanon libya lithuania luxembourg malaysia malta mexico moldova"
    " monaco mongolia morocco nepal netherlands nicaragua nigeria norway pakistan panama paraguay peru philippines"
    " poland portugal qatar romania russia serbia singapore slovakia slovenia spain sudan sweden switzerland syria"
    " taiwan thailand tunisia turkey uganda ukraine uruguay venezuela vietnam zambia zimbabwe".split()
)
ASKS_PLACE = re.compile(
    r"\bwhere\b|\b(?:what|which)\s(?:\w+\s){0,2}?(?:city|town|village|place|location|county|region|neighbou?rhood|suburb"
    r"|venue|area|birthplace|hometown)\b|\bbirthplace\b",
    re.IGNORECASE,
)
BEFORE_PLACE = re.compile(
    r"^\W*(?:(?:it|they|he|she)\s)?(?:(?:is|was|are|were)\s)?(?:held|hosted|located|based|situated|born|headquartered"
    r"|took place|takes place)?\s?(?:in|at|near)\s",
    re.IGNORECASE,
)
"""Words before a place that are not part of it: "held in"."""


def same_place(left: str, right: str, question: str) -> bool:
    """Return whether two answers name the same thing, one or both with a qualifier after a comma."""
    (name, *lefts), (other_name, *rights) = _parts(left), _parts(right)
    if not name or name != other_name or not (lefts or rights):
        return False
    is_place = bool(ASKS_PLACE.search(question)) or all(map(_is_known, (*lefts, *rights)))
    return is_place and (_is_within({*lefts}, {*rights}) or _is_within({*rights}, {*lefts}))


def _parts(answer: str) -> list[str]:
    """Return the name and its qualifiers, in normal form."""
    parts = [normalise(part) for part in BEFORE_PLACE.sub("", answer).split(",")]
    return [parts[0], *(SYNONYMS.get(part, part) for part in parts[1:])]


def _is_known(qualifier: str) -> bool:
    return qualifier in COUNTRIES or qualifier in LIES_IN


def _is_within(wide: set[str], narrow: set[str]) -> bool:
    """Return whether each wide qualifier is among the narrow ones, or is the country of one of them."""
    return all(qualifier in narrow or qualifier in {LIES_IN.get(state) for state in narrow} for qualifier in wide)


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


def read_value(field: str, choices: Choices) -> str | None:
    """Return the text of a field without a reason; None for an abstention."""
    return phrase(plain(field)) or None


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
    lines = [line for line in sentences(body) if not COURTESY.match(line) and not line.endswith(":")]
    if not lines or len(lines) > FEW:
        return None
    said = _chosen(lines)
    if said is None or len(said) > LONGEST or said.endswith("?") or CUT.search(said):
        return None
    said = HEDGE.sub("", said, count=1)
    if yes := re.match(r"(yes|no)\b(?=[,.!]|\Z)", said, re.IGNORECASE):
        return yes[1]
    denies = re.search(r"\b(?:or|not|never|neither)\b|n't\b", affirmed_behind(said))  # what may be, or is not
    return None if TALK.match(said) or denies else phrase(said, CLAUSE) or None


def _chosen(said: list[str]) -> str | None:
    if len(said) > 1 and (CONCLUDES.match(said[-1]) or CORRECTS.search(said[-1])):
        return said[-1]
    return said[0] if all(GOES_ON.match(line) for line in said[1:]) else None


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
    return is_alike and answer_key(left, question) == answer_key(right, question)


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
