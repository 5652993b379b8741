"""Thoughts of models that think before they answer: how families mark them, and the split of a reply's text.

A reply is split where it enters. Its thoughts are kept and shown; nobody reads, hears or sends them back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sottovoce.core.any_types import Untyped


class Markers(NamedTuple):
    """How a family of models marks a block of thoughts, as its chat template writes it."""

    open: str
    """What begins the block, with the line break after it."""
    close: str
    """What ends it, with all that stands before the text."""
    end: str = ""
    """The part of `close` that the model writes first; empty for `close` without white space."""
    skip: str = ""
    """What stands in place of a block; empty for an empty block."""
    ends_text: str = ""
    """A marker that ends the text too, if the family has one."""

    @property
    def end_marker(self) -> str:
        """The text at which thoughts end."""
        return self.end or self.close.strip()

    @property
    def empty(self) -> str:
        """The text in place of a block."""
        return self.skip or f"{self.open}{self.gap}{self.close}"

    @property
    def gap(self) -> str:
        """The white space before the closing marker: as after the opening one."""
        return self.open[len(self.open.rstrip()) :]


THOUGHTS = 1024
"""The default limit of thoughts, in tokens; most questions take fewer, and a laptop writes them in a minute or two."""
THINK = Markers("<think>\n", "</think>\n\n")
FAMILIES = (
    Markers(
        "<|channel|>analysis<|message|>",  # harmony: gpt-oss
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        end="<|end|>",
        skip="<|channel|>final<|message|>",
        ends_text="<|end|>",
    ),
    Markers("<|channel>thought\n", "<channel|>"),  # Gemma 4
    Markers("<seed:think>", "</seed:think>\n"),  # Seed-OSS
    Markers("[THINK]", "[/THINK]"),  # Magistral
    Markers("◁think▷", "◁/think▷"),  # the first Kimi models that think
    Markers("<think>", "</think><response>", end="</think>", ends_text="</response>"),  # Granite 3.3
    THINK,  # Qwen3, QwQ, DeepSeek-R1, GLM, MiniMax, Hunyuan, SmolLM3 and most others
)
"""The markers of known families; of several that a template has, the first counts."""


def family_of(template: Untyped) -> Markers | None:
    """Return the markers of the first family that a chat template's text has; None if it has none."""
    text = str(template or "")
    return next((each for each in FAMILIES if _is_in(text, each)), None)


def _is_in(template: str, markers: Markers) -> bool:
    """Return True if a template has a family's markers; a text that follows the closing one must be there too."""
    first, _, rest = markers.close.strip().partition(markers.end_marker)
    marked = markers.open.strip() in template or markers.end_marker in template
    if markers.skip:  # "<|end|>" alone marks other families' turns
        return markers.open.strip().partition("<|message|>")[0] in template
    return marked and (first + rest).strip() in template


_OPEN = (
    r"<(?:think|thinking|thought|reasoning|seed:think)>|\[THINK\]|◁think▷|<\|channel>thought\n"
    r"|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)[^<\n]{0,80}<\|message\|>"
)
_CLOSE = (
    r"</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]|◁/think▷|<channel\|>"
    r"|(?:<\|end\|>)?(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>"
)
MARK = re.compile(f"(?P<open>{_OPEN})|{_CLOSE}", re.IGNORECASE)
CLOSE = re.compile(_CLOSE, re.IGNORECASE)
AROUND = re.compile(r"\A\s*<response>|</response>\s*\Z|<\|(?:return|end)\|>\s*\Z")
"""Marks of the text itself: Granite's, and the end of a turn in harmony."""
CODE = re.compile(
    r"^[ \t]*(```+|~~~+)[^\n]*\n.*?^[ \t]*\1[ \t]*$|(?<!`)(`+)(?!`)[^`\n]+\2(?!`)", re.DOTALL | re.MULTILINE
)
"""A block of code, or code within a line: markers in it are quoted."""


class Said(NamedTuple):
    """A reply: its thoughts, and its text."""

    thoughts: str
    text: str


def split(reply: str) -> Said:
    """Return the thoughts and the text of a reply; the text of a reply without markers is unchanged.

    A closing marker alone ends thoughts that the prompt opened; an opening marker alone begins thoughts that were cut,
    after which there is no text. Markers in code outside the thoughts are text.

    >>> split("<think>12 * 8 = 96</think>The answer is 96.")
    Said(thoughts='12 * 8 = 96', text='The answer is 96.')
    >>> split("so 96.</think>96"), split("<think>12 * 8")
    (Said(thoughts='so 96.', text='96'), Said(thoughts='12 * 8', text=''))
    """
    thoughts, texts, at = list[str](), list[str](), 0
    while found := _marker(reply, at):
        before, at = reply[at : found.start()], found.end()
        if not found["open"]:
            thoughts.append(before)
            continue
        closed = CLOSE.search(reply, at)
        texts.append(before)
        thoughts.append(reply[at : closed.start() if closed else len(reply)])
        at = closed.end() if closed else len(reply)
    if not at:
        return Said("", reply)
    text = "".join([*texts, reply[at:]]).strip()
    while AROUND.search(text):
        text = AROUND.sub("", text).strip()
    return Said("\n\n".join(each for part in thoughts if (each := part.strip())), text)


def _marker(reply: str, at: int) -> re.Match[str] | None:
    """Return the first marker at or after a position that is not in code."""
    if MARK.search(reply, at) is None:
        return None
    code = [each.span() for each in CODE.finditer(reply, at)]
    found = MARK.finditer(reply, at)
    return next((each for each in found if not any(start <= each.start() < end for start, end in code)), None)
