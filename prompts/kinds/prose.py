"""Replies as plain text: without Markdown, LaTeX's marks, an echo of the request, and further invented questions."""

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
