"""Sentences as models write them: where they end, where a reason begins, what is denied."""

import re

ENDS = re.compile(r"(?<![.!?])[.!?]++[\"'\u201d)\]]*(?=\s+[^\sa-z]|\s*\Z)|\n\s*")
SHORT = re.compile(
    r"(?:\b(?:[A-Z]|St|Mt|Dr|Mr|Mrs|Ms|Prof|Jr|Sr|No|Nr|vs|etc|Inc|Ltd|Co|Gen|Lt|Col|Rev|Fr|Ave|e\.g|i\.e|approx|ca)"
    r"|\A\W*\w{1,2})\.\Z"
)
"""What ends with a dot and no sentence with it: an initial, an abbreviation, a number of a list."""
SHORTEST = 8  # characters before a dot that are looked at for an abbreviation
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
"""What begins a reason or a remark; the first of the two wherever it stands, since "which" may belong to an answer."""
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
"""A sentence that reports what somebody else says."""


def sentences(text: str) -> list[str]:
    """The sentences of a text, each without spaces around it; a line ends one too."""
    found, start = list[str](), 0
    for end in ENDS.finditer(text):
        near = text[max(start, end.start() + 1 - SHORTEST) : end.start() + 1]
        if end[0][0] == "." and SHORT.search(near if len(near) == SHORTEST else text[start : end.start() + 1]):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    return [each for each in (*found, text[start:].strip()) if re.search(r"\w", each)]


def is_whole(text: str) -> bool:
    """Whether a text ends where its last sentence does."""
    shown = text.rstrip()
    return shown.endswith(tuple(".!?)]}\"'*|$\u201d")) or "\n" in text[len(shown) :]


def unfinished(text: str) -> str:
    """The conclusion that a text breaks off in: "So, the answer is 1" of 18; empty where there is none."""
    last = "" if is_whole(text) else next(reversed(sentences(text)), "")
    return last if CONCLUDES.match(last) else ""


def first(source: str) -> str:
    """The first sentence of what stands after a mark."""
    return next(iter(sentences(source)), source)


def without_reason(sentence: str, reason: re.Pattern[str] = REASON) -> str:
    """What is said before "because", "since", a dash: "Paris since it is large" is "Paris"."""
    found = reason.search(sentence.lstrip())
    return sentence.lstrip()[: found.start()] if found else sentence


def affirmed(source: str) -> str:
    """What is said instead of what is denied: "not 5 but 6" is "6", "B, not C" is "B"; "not 5" is empty."""
    if instead := DENIED.match(source):
        return affirmed_behind(instead["instead"])
    return "" if re.match(r"[\W_]*(?:not|neither)\s", source, re.IGNORECASE) else affirmed_behind(source)


def affirmed_behind(source: str) -> str:
    """What stands before ", not ..." and "rather than ..."."""
    return BEHIND.split(source, maxsplit=1)[0]


def claims(text: str) -> list[str]:
    """The sentences that claim something: no questions, nothing that others say, and without their reasons."""
    own = [each for each in sentences(text) if not REPORTED.match(each)]
    return [without_reason(each, CLAUSE) for each in own if not each.rstrip("\"')\u201d").endswith("?")]
