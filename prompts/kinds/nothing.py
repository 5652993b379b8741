"""Patterns of text in place of an answer: abstentions, placeholders, remarks about the answer."""

import re

UNKNOWN = re.compile(
    r"[\W_]{0,20}(?:that )?(?:(?:it|this|that|the answer)(?: is|'s)? )?(?:still |simply |currently )?(?:"
    r"(?:unknown|unclear|uncertain|unsure|undetermined|indeterminate|indeterminable|undecidable|inconclusive"
    r"|unanswerable|impossible)\b(?! (?-i:[A-Z]))"
    r"|not (?:\w+ )?(?:known|clear|sure|certain|given|stated|specified|provided|mentioned|available|possible|determined"
    r"|determinable|answerable)\b"
    r"|(?:can ?not|can't|could not|couldn't) (?:be|say|tell|know|answer|determine|give|find)\b"
    r"|(?:can ?not|can't)\W{0,9}\Z"
    r"|(?:i |we )?(?:do not|don't|cannot|can't) (?:know|tell|say|have|answer)\b"
    r"|(?:there is )?not enough (?:info|data|evidence)|(?:there is )?insufficient|no (?:answer|one knows)\b"
    r"|(?:the |these )?(?:\w+ ){0,2}(?:do not|does not|don't|doesn't) (?:say|mention|state|tell|specify|contain)\b"
    r"|none\b|n/a\b|\?{1,9}\W{0,9}\Z)",
    re.IGNORECASE,
)
"""An abstention at the beginning of a statement."""
OPEN = re.compile(
    r"\b(?:do not|don't|cannot|can't|could not) (?:know|tell|say|answer|determine)\b"
    r"|\b(?:can ?not|can't|could not) be (?:known|told|said|answered|determined|calculated|found|inferred)\b",
    re.IGNORECASE,
)
"""Words after a number that deny that it is the answer."""
SAYS_NOTHING = re.compile(
    r"[\W_]{0,20}(?:correct|right|wrong|incorrect|clear|obvious|reasonable|simple|easy|as follows|below|above|found"
    r"|given|based|determined|straightforward|indeed|therefore|that it)\b",
    re.IGNORECASE,
)
"""A remark about the answer instead of the answer."""
BLANK = re.compile(
    r"\W*(?:[NX]|(?:your|the|my)(?: final)? answer(?: here)?|answer|letter|l?dots|\.{2,}|\u2026)?\W*", re.IGNORECASE
)
"""A placeholder for the answer in a request."""
OPEN_MARK = re.compile(
    r"(?:\banswer(?:\s+is\s{0,9}:?|\s{0,9}:)|(?:^|[.!?]\s+)the (?:final |correct )?answer)\W*\Z",
    re.IGNORECASE | re.MULTILINE,
)
"""The end of a text that stops before its answer."""
