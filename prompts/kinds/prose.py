"""A reply as plain text: without Markdown, LaTeX's marks, an echo of its request, and what a model goes on to say."""

import re
from functools import lru_cache

LONGEST = 20_000  # characters; of a longer text the end is read, where an answer stands

FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
RESULT = re.compile(r"^#{4}[ \t]{1,9}(?=[-$\d])", re.MULTILINE)
"""GSM8K's own mark."""
HEADING = re.compile(r"^[ \t]*(?:#{1,6}|>)[ \t]+", re.MULTILINE)
STARS = re.compile(r"(?<![\w)*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w(*])")  # not those of 2**3 and 5 * 4
STRUCK = re.compile(r"~~[^~\n]{1,200}~~")
"""Words that are struck out, and so taken back."""
SLANTED = re.compile(r"(?<!\w)_{1,2}([^_\n]{1,200})_{1,2}(?!\w)")
TAGS = re.compile(r"</?(?:b|i|u|em|strong|code|p|br)\s?/?>", re.IGNORECASE)
ANSWER_TAG = re.compile(r"<(?:final[_ ]?)?answer>\s{0,9}", re.IGNORECASE)
TAGGED = re.compile(r"</(?:final[_ ]?)?answer>", re.IGNORECASE)
WORDS = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|operatorname)\s*\{([^{}]{0,400})\}"
)
MATHS = re.compile(r"\\[()\[\]]|(?<!\\)\$(?=\s*\\)|(?<=\})\$|\$(?=[^$\n]{1,200}\$(?!\d))|(?<=[^\s$])\$(?!\d)")
"""Where LaTeX begins and ends; a dollar before a figure is money."""
ECHO = re.compile(
    r"(?:^|(?<=[.!?]\s))(?:show your steps and )?(?:end|finish|close|conclude|reply|respond|answer)\s+with\b[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
"""A request, as models repeat it: what stands in it as an example is no answer."""
GOES_ON = re.compile(
    r"\banswer\W{0,6}(?:is\b\W{0,3})?[^\n]{1,400}(\n\s{0,80}(?:question|problem|claim|user|human|q)\s*:)", re.IGNORECASE
)
"""After its answer a model may ask and answer further questions of its own."""


@lru_cache(maxsize=256)  # a reply is looked at several times
def plain(text: str) -> str:
    """The text as it is read; its lines stay lines."""
    text = text[-LONGEST:].replace("\uff1a", ":").replace("\u2019", "'")
    text = HEADING.sub("", FENCE.sub("", RESULT.sub("Answer: ", text))).replace("`", "")
    text = TAGGED.sub("\n", TAGS.sub("", ANSWER_TAG.sub("\nAnswer: ", text)))
    text = SLANTED.sub(r"\1", STARS.sub("", STRUCK.sub("", text)))
    text = WORDS.sub(r"\1", WORDS.sub(r"\1", text))  # bold text within a box's text
    text = MATHS.sub("", ECHO.sub("", text))
    further = GOES_ON.search(text)
    return text[: further.start(1)] if further else text
