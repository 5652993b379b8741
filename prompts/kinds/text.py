"""Free text of a few words, as written: "Paris", "Letters of Clay", "Argentina, Brazil".

Reasons, sources and remarks in brackets are not part of an answer. A statement of a whole sentence of more than eight
words states no answer. `same` says when two answers agree.
"""

import re
from collections.abc import Mapping
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import BLANK, normalise
from sottovoce.prompts.kinds.sentences import ABOUT, UNKNOWN, VERB, affirmed, first

LONGEST = 8  # words of an answer that agrees with a part of it
SOURCE = re.compile(r"\s+\[[^\[\]\n]{0,80}\]|\s+\((?!\d{4}\))[^()\n]{0,120}\)[\s.]*\Z")
QUOTES = "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb\u300c\u300d*` "


def read(said: str, choices: Choices) -> str | None:
    """Return the phrase that a statement names; empty if it says that there is none."""
    inner = re.fullmatch(r"\W*\[([^\[\]]+)\]\W*", said)
    stated = affirmed(first(inner[1] if inner else said))
    if UNKNOWN.match(stated) or (said.strip() and not stated):
        return ""
    stated = stated if inner else SOURCE.sub("", stated)
    items = [line.strip() for line in stated.split("\n") if line.strip()]
    phrase = _ended(", ".join(item.rstrip(".,;") if len(items) > 1 else item for item in items).strip(QUOTES))
    if (BLANK.fullmatch(phrase) and not re.search(r"[+#]", phrase)) or ABOUT.match(phrase):
        return None
    return "" if len(phrase.split()) > LONGEST and VERB.search(phrase) else phrase


def _ended(phrase: str) -> str:
    """Return a phrase without its final punctuation; the dots of "J. R. R." and "U.S." stay."""
    bare = phrase.rstrip(" .,;:!\u3002").rstrip(QUOTES.replace("'", ""))
    return bare + "." if re.search(r"\b[A-Z]\.[A-Z]\Z", bare) and phrase[len(bare) : len(bare) + 1] == "." else bare


def key(answer: str) -> list[str]:
    """Return the words that are compared: SQuAD's, or as written if it leaves none; "C++" is not "C#"."""
    spelled = re.sub(r"(?<=\w)\+", "plus", re.sub(r"(?<=\w)#", "sharp", re.sub(r"(?<!\w)-(?=\d)", "minus", answer)))
    return (normalise(re.sub(r"(?<=\d)\.(?=\d)", "point", spelled)) or answer.strip()).split()


def stands_in(part: str, text: str) -> bool:
    """Return whether a part stands in a text as whole words."""
    inner = " ".join(key(part))
    return bool(inner) and f" {inner} " in f" {' '.join(key(text))} "


def same(left: str, right: str) -> bool:
    """Return whether two texts are equal by SQuAD's rules, or neither has over eight words and one is in the other."""
    is_short = max(len(left.split()), len(right.split())) <= LONGEST
    return key(left) == key(right) or (is_short and (stands_in(left, right) or stands_in(right, left)))


def is_right(answer: str, target: str) -> bool:
    """Return whether an answer is the target, or has at most eight words and names it."""
    return key(answer) == key(target) or (len(answer.split()) <= LONGEST and stands_in(target, answer))


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target without a letter, figure or sign."""
    text = str(question.get("target", "x"))
    if not text.strip():
        raise UsageError(f"target is {text!r}; expected a few words")


TEXT = Kind("text", "answers/text", "a few words", read, same=same, right=is_right, check=check)
