"""Replies as plain text, its sentences with their reasons and denials, and patterns of text in place of an answer."""

import re
from functools import lru_cache

LONGEST = 20_000  # characters; only the end of a longer text is read, where an answer is

FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
RESULT = re.compile(r"^#{4}[ \t]{1,9}(?=[-$\d])", re.MULTILINE)
"""GSM8K's own answer mark."""
HEADING = re.compile(r"^[ \t]*(?:#{1,6}|>)[ \t]+", re.MULTILINE)
STARS = re.compile(r"(?<![\w)*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w(*])")  # not those of 2**3 and 5 * 4
STRUCK = re.compile(r"~~[^~\n]{1,200}~~")
"""Struck-out words, which are retracted."""
SLANTED = re.compile(r"(?<!\w)_{1,2}([^_\n]{1,200})_{1,2}(?!\w)")
TAGS = re.compile(r"</?(?:b|i|u|em|strong|code|p|br)\s?/?>", re.IGNORECASE)
ANSWER_TAG = re.compile(r"<(?:final[_ ]?)?answer>\s{0,9}", re.IGNORECASE)
TAGGED = re.compile(r"</(?:final[_ ]?)?answer>", re.IGNORECASE)
WORDS = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|operatorname)\s*\{([^{}]{0,400})\}"
)
MATHS = re.compile(r"\\[()\[\]]|(?<!\\)\$(?=\s*\\)|(?<=\})\$|\$(?=[^$\n]{1,200}\$(?!\d))|(?<=[^\s$])\$(?!\d)")
"""Delimiters of LaTeX; a dollar before a figure is money."""
ECHO = re.compile(
    r"(?:^|(?<=[.!?]\s))(?:show your steps and )?(?:end|finish|close|conclude|reply|respond|answer)\s+with\b[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
"""A request that a model repeats; an example in it is not an answer."""
GOES_ON = re.compile(
    r"\banswer\W{0,6}(?:is\b\W{0,3})?[^\n]{1,400}(\n\s{0,80}(?:question|problem|claim|user|human|q)\s*:)", re.IGNORECASE
)
"""An answer, after which the model asks and answers further questions of its own."""


@lru_cache(maxsize=256)  # a reply is parsed several times
def plain(text: str) -> str:
    """Return a reply as plain text; line breaks stay."""
    text = text[-LONGEST:].replace("\uff1a", ":").replace("\u2019", "'")
    text = HEADING.sub("", FENCE.sub("", RESULT.sub("Answer: ", text))).replace("`", "")
    text = TAGGED.sub("\n", TAGS.sub("", ANSWER_TAG.sub("\nAnswer: ", text)))
    text = SLANTED.sub(r"\1", STARS.sub("", STRUCK.sub("", text)))
    text = WORDS.sub(r"\1", WORDS.sub(r"\1", text))  # bold text within a box's text
    text = MATHS.sub("", ECHO.sub("", text))
    further = GOES_ON.search(text)
    return text[: further.start(1)] if further else text


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
DENIED_BEHIND = re.compile(r"\s*,\s*(?:and\s+)?not\s|\s+(?:rather than|instead of|as opposed to)\s", re.IGNORECASE)


REPORTED = re.compile(
    r"\W*(?:one|the other|the first|the second|another|some)(?: agents?)?\s(?:holds?|says?|thinks?|argues?|claims?"
    r"|believes?|maintains?)\b[^\n]{1,400}",
    re.IGNORECASE,
)
"""A sentence that reports somebody else's claim."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, stripped; a line break also ends a sentence."""
    ended, start = list[str](), 0
    for end in ENDS.finditer(text):
        near = text[max(start, end.start() + 1 - SHORTEST) : end.start() + 1]
        if end[0][0] == "." and SHORT.search(near if len(near) == SHORTEST else text[start : end.start() + 1]):
            continue
        ended.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*ended, text[start:].strip()) if re.search(r"\w", sentence)]


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
    match = reason.search(sentence.lstrip())
    return sentence.lstrip()[: match.start()] if match else sentence


def affirmed(source: str) -> str:
    """Return the affirmed part of a denial: "6" of "not 5 but 6", "B" of "B, not C"; empty for "not 5"."""
    if instead := DENIED.match(source):
        return affirmed_behind(instead["instead"])
    return "" if re.match(r"[\W_]*(?:not|neither)\s", source, re.IGNORECASE) else affirmed_behind(source)


def affirmed_behind(source: str) -> str:
    """Return the text before ", not ..." and "rather than ..."."""
    return DENIED_BEHIND.split(source, maxsplit=1)[0]


def claims(text: str) -> list[str]:
    """Return the sentences that make a claim, without their reasons; questions and reports of others are left out."""
    own = [sentence for sentence in sentences(text) if not REPORTED.match(sentence)]
    return [without_reason(sentence, CLAUSE) for sentence in own if not sentence.rstrip("\"')\u201d").endswith("?")]


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
