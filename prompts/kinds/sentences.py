"""Sentences as models write them: their ends, reasons and denials."""

import re

ENDS = re.compile(r"(?<![.!?])[.!?]++[\"'\u201d)\]]*(?=\s+[^\sa-z]|\s*\Z)|\n\s*")
SHORT = re.compile(
    r"(?:\b(?:[A-Z]|St|Mt|Dr|Mr|Mrs|Ms|Prof|Jr|Sr|No|Nr|vs|etc|Inc|Ltd|Co|Gen|Lt|Col|Rev|Fr|Ave|e\.g|i\.e|approx|ca)"
    r"|\A\W*\w{1,2})\.\Z"
)
"""A dot that does not end a sentence: after an initial, an abbreviation or a list number."""
SHORTEST = 8  # characters before a dot that are examined for an abbreviation
_BEGINS = (
    r"(?<=\S)[,;]?\s+(?:because|since(?!\s+\d)|due to|owing to|given that|even though|although|though"
    r"|as (?:it|he|she|they|we|there))\b|(?<=\S),\s+as (?:the|this|that|in|stated|mentioned|shown|per)\b"
)
CLAUSE = re.compile(_BEGINS, re.IGNORECASE)
REASON = re.compile(
    rf"{_BEGINS}|(?<=\S);\s+see\b"
    r"|(?<=\S),\s+(?:where|which|whose|who|but|so|based on|see|cf|and (?:it|this|that|he|she|they))\b"
    r"|(?<=\S)\s+[\u2013\u2014]\s",
    re.IGNORECASE,
)
"""The beginning of a reason or a remark; `CLAUSE` has only reasons, since "which" may belong to an answer."""
INSERTED = re.compile(r",\s(?:which|where|who|whose)\b(?:(?!,\s)[^\n]){1,120},(?=\s)")
"""A clause in the middle of a sentence."""
DENIED = re.compile(
    r"[\W_]*(?:not|neither)\s+[^\n]{1,200}?(?:,?\s+but\s+(?:rather\s+)?|[,;.]\s*(?:it's|it is|but|rather|instead)\s+)"
    r"(?:it's |it is )?(?P<instead>\S[^\n]*)",
    re.IGNORECASE,
)
CONCLUDES = re.compile(
    r"\W*(?:so|therefore|thus|hence|overall|in total|altogether|finally|in conclusion)\b"
    r"|[^\n]{0,80}\b(?:can|may|must|to) conclude\b",
    re.IGNORECASE,
)
BEHIND = re.compile(r"\s*,\s*(?:and\s+)?not\s|\s+(?:rather than|instead of|as opposed to)\s", re.IGNORECASE)


REPORTED = re.compile(
    r"\W*(?:one|the other|the first|the second|another|some)(?: agents?)?\s(?:holds?|says?|thinks?|argues?|claims?"
    r"|believes?|maintains?)\b[^\n]{1,400}",
    re.IGNORECASE,
)
"""A sentence that reports somebody else's claim."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, stripped; a line break also ends a sentence."""
    found, start = list[str](), 0
    for end in ENDS.finditer(text):
        near = text[max(start, end.start() + 1 - SHORTEST) : end.start() + 1]
        if end[0][0] == "." and SHORT.search(near if len(near) == SHORTEST else text[start : end.start() + 1]):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    return [each for each in (*found, text[start:].strip()) if re.search(r"\w", each)]


def is_whole(text: str) -> bool:
    """Return whether a text ends with the end of a sentence."""
    shown = text.rstrip()
    return shown.endswith(tuple(".!?)]}\"'*|$\u201d")) or "\n" in text[len(shown) :]


def unfinished(text: str) -> str:
    """Return the conclusion in which a text is cut off: "So, the answer is 1" of 18; empty if there is none."""
    last = "" if is_whole(text) else next(reversed(sentences(text)), "")
    return last if CONCLUDES.match(last) else ""


def first(source: str) -> str:
    """Return the first sentence of the text after a mark."""
    return next(iter(sentences(source)), source)


def without_reason(sentence: str, reason: re.Pattern[str] = REASON) -> str:
    """Return the text before "because", "since" or a dash: "Paris" of "Paris since it is large"."""
    found = reason.search(sentence.lstrip())
    return sentence.lstrip()[: found.start()] if found else sentence


def affirmed(source: str) -> str:
    """Return the affirmed part of a denial: "6" of "not 5 but 6", "B" of "B, not C"; empty for "not 5"."""
    if instead := DENIED.match(source):
        return affirmed_behind(instead["instead"])
    return "" if re.match(r"[\W_]*(?:not|neither)\s", source, re.IGNORECASE) else affirmed_behind(source)


def affirmed_behind(source: str) -> str:
    """Return the text before ", not ..." and "rather than ..."."""
    return BEHIND.split(source, maxsplit=1)[0]


def claims(text: str) -> list[str]:
    """Return the sentences that make a claim, without their reasons; questions and reports of others are left out."""
    own = [each for each in sentences(text) if not REPORTED.match(each)]
    return [without_reason(each, CLAUSE) for each in own if not each.rstrip("\"')\u201d").endswith("?")]
