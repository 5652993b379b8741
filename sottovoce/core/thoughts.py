"""Thoughts of models that think before they answer: how families mark them, and the split of a reply's text.

A reply is split where it enters. Its thoughts are kept and shown; nobody reads, hears or sends them back.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from sottovoce.core.any_types import Untyped


class Markers(NamedTuple):
    """The markers of a block of thoughts of a family of models, as its chat template writes them."""

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
    """Return the markers of the first family in a chat template's text; None without any."""
    text = str(template or "")
    for markers in FAMILIES:
        opened, (first, _, rest) = markers.open.strip(), markers.close.strip().partition(markers.end_marker)
        if markers.skip:  # "<|end|>" alone marks other families' turns
            is_in = opened.partition("<|message|>")[0] in text
        else:  # a text that follows the closing marker must be there too
            is_in = (opened in text or markers.end_marker in text) and (first + rest).strip() in text
        if is_in:
            return markers
    return None


def most_thoughts(wish: bool | int | None) -> int:
    """Return the tokens of thoughts that a setting allows; for None, the tokens of a model that thinks by default."""
    return THOUGHTS if wish is None or wish is True else int(wish)  # 1 == True


_BEGIN = "<[◁&"
"""The characters with which markers begin."""
LONGEST_MARK = 120
"""Characters of a marker of thoughts in a stream."""
_LT, _GT = "(?:<|&lt;)", "(?:>|&gt;)"
_TAG = "(?:think|thinking|thought|reasoning|seed:think)"
_JSON = r"[^<\n]{0,80}(?:<\|constrain\|>\w{0,20}\s?)?<\|message\|>"


class _Pair(NamedTuple):
    """Patterns of the markers of a block of thoughts in a text."""

    open: str
    close: str
    alone: bool = True
    """True if the closing marker alone ends thoughts that the prompt opened."""


_PAIRS = (
    _Pair(f"{_LT}{_TAG}{_GT}", f"{_LT}/{_TAG}{_GT}"),
    *(_Pair(f"{_LT}{tag}{_GT}", f"{_LT}/{tag}{_GT}", alone=False) for tag in ("scratchpad", "reflection")),
    _Pair(r'<details type="reasoning"[^>\n]{0,200}>', "</details>", alone=False),  # Open WebUI
    _Pair(r"\[THINK\]", r"\[/THINK\]"),
    _Pair("◁think▷", "◁/think▷"),
    _Pair(r"<\|channel>thought\n", r"<channel\|>"),
    _Pair(r"<\|START_THINKING\|>", r"<\|(?:END_THINKING|START_RESPONSE)\|>"),  # Cohere
    _Pair(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    _Pair(r"<\|begin_of_thought\|>", r"<\|(?:end_of_thought|begin_of_solution)\|>"),  # OpenThinker
    _Pair(
        rf"(?:<\|start\|>assistant[^<\n]{{0,80}})?<\|channel\|>(?:analysis|commentary){_JSON}",
        rf"(?:<\|end\|>|<\|call\|>)?(?:<\|start\|>assistant)?<\|channel\|>final{_JSON}",
    ),
    _Pair("(?!)", r"\[BEGIN FINAL RESPONSE\]"),  # Apriel, whose prompt opens the thoughts
    # Words without special tokens are markers at the beginning of a reply, and only both together.
    _Pair(
        r"\A\s{0,9}Here(?:'s| is) my thought process:(?=(?s:.*)Here(?:'s| is) my response:)",  # Granite 3.2
        "Here(?:'s| is) my response:",
        alone=False,
    ),
    _Pair(  # harmony, whose special tokens the server dropped
        r"\A\s{0,9}(?-i:analysis(?=(?s:.*)assistant(?:final|commentary to=))|(?=assistantfinal))",
        "(?-i:assistantfinal)",
        alone=False,
    ),
)
AROUND = re.compile(
    r"\A(?:<response>|<output>)|(?:</response>|</output>|"
    r"\[END FINAL RESPONSE\]|<\|END_RESPONSE\|>|<\|end_of_solution\|>|<\|(?:return|end|call|assistant_end)\|>)\Z",
    re.IGNORECASE,
)
"""Marks of the text itself, and of the end of a turn."""
MOST_AROUND = 4
"""The number of such marks that a text may have."""
FENCE = re.compile(r"^[ \t]*(?:```[^`\n]*|~~~.*)$", re.MULTILINE)
NEAR = 400
"""Characters of a line around a marker that tell whether it is quoted."""
_WORDS = re.compile(r"[a-z,][ \t]+\Z"), re.compile(r"[ \t]+[a-z]|[.,;:)](?:\s|\Z)")
"""The text before and behind a marker that a sentence mentions."""
_QUOTES = "\"'“”\u2018\u2019«»"
_UNKNOWN = re.compile(r"\s{0,9}<([a-z][\w:.-]{0,30})>", re.IGNORECASE)
_OF_TEXT = re.compile(
    r".*(?:answer|respon|final|output|result|solution|tool|function|call|action|code|json|message|vote|summary).*|"
    r"[abipsu]|h[1-6]|[ou]l|li|t[rdh]|em|br|hr|sup|sub|pre|div|span|strong|table|html|body|head|details|blockquote|"
    r"section|article|center|font|math|svg|xml|root|example|evidence|explanation|confidence|document|quote|passage",
    re.IGNORECASE,
)
"""Names of tags that do not mark thoughts."""


class Said(NamedTuple):
    """A reply: its thoughts, and its text."""

    thoughts: str
    text: str


Own = tuple[str, str] | None
"""The markers of a family that is not known, as `thinking_markers` names them."""


@cache
def _patterns(own: Own) -> tuple[re.Pattern[str], tuple[re.Pattern[str], ...], re.Pattern[str]]:
    """Return patterns of all markers (groups o0, c0, ...), of each closing marker, and of lone closing markers."""
    own_pairs = [_Pair(re.escape(own[0].strip()), re.escape(own[1].strip()))] if own else []
    pairs = [*own_pairs, *_PAIRS]
    groups = [f"(?P<o{i}>{pair.open})" for i, pair in enumerate(pairs)]
    groups += [f"(?P<c{i}>{pair.close})" for i, pair in enumerate(pairs) if pair.alone]
    begins = "" if own else rf"(?=[{re.escape(_BEGIN)}]|\A)"  # scanning is ten times as fast
    closing = tuple(re.compile(pair.close, re.IGNORECASE) for pair in pairs)
    alone = re.compile("|".join(pair.close for pair in pairs if pair.alone), re.IGNORECASE)
    return re.compile(f"{begins}(?:{'|'.join(groups)})", re.IGNORECASE), closing, alone


def split(reply: str, own: Own = None) -> Said:
    """Return the thoughts and the text of a reply; the text of a reply without markers is unchanged.

    A closing marker alone ends thoughts that the prompt opened; an opening marker alone, at the beginning of a line,
    begins thoughts that were cut, after which there is no text. Markers in code outside the thoughts, and those that a
    sentence mentions, are text. `own` are the markers of an unknown family.

    >>> split("<think>12 * 8 = 96</think>The answer is 96.")
    Said(thoughts='12 * 8 = 96', text='The answer is 96.')
    >>> split("so 96.</think>96"), split("<think>12 * 8")
    (Said(thoughts='so 96.', text='96'), Said(thoughts='12 * 8', text=''))
    """
    marks, closing, _ = _patterns(own)
    if (found := marks.search(reply)) is None:
        return Said("", reply)
    thoughts, texts, unclosed = list[str](), list[str](), set[int]()
    at = counted = fences = 0
    while found is not None:
        start, end = found.span()
        opens, family = _kind(found)
        fences, counted = fences + len(FENCE.findall(reply, counted, start)), start
        before = reply[max(at, start - NEAR) : start].rpartition("\n")[2]
        if fences % 2 or _is_mentioned(before, reply[end : end + NEAR].partition("\n")[0]):
            found = marks.search(reply, end)
            continue
        if not opens:
            thoughts.append(reply[at:start])
            at = end
        else:
            closed = None if family in unclosed else closing[family].search(reply, end)
            if closed is None:
                unclosed.add(family)
                if before.strip():
                    found = marks.search(reply, end)
                    continue
            texts.append(reply[at:start])
            thoughts.append(reply[end : closed.start() if closed else len(reply)])
            at = closed.end() if closed else len(reply)
        counted, fences, found = at, 0, marks.search(reply, at)
    if not at:
        return Said("", reply)
    text = "".join([*texts, reply[at:]]).strip()
    for _ in range(MOST_AROUND):
        text = AROUND.sub("", text).strip()
    return Said("\n\n".join(each for part in thoughts if (each := part.strip())), text)


def _kind(marker: re.Match[str]) -> tuple[bool, int]:
    """Return whether a marker opens a block, and the number of its family."""
    name = str(marker.lastgroup)
    return name[0] == "o", int(name[1:])


def _is_mentioned(before: str, after: str) -> bool:
    """Return True if a sentence mentions a marker: within its words, in quotation marks, or in code."""
    if before[-1:] and after[:1] and before[-1] in _QUOTES and after[0] in _QUOTES:
        return True
    in_words = _WORDS[0].search(before[-9:]) and _WORDS[1].match(after[:9])
    return bool(in_words) or (len(re.findall("`+", before)) % 2 == 1 and "`" in after)


def is_opened_by_prompt(reply: str, own: Own = None) -> bool:
    """Return True if a reply has thoughts without an opening marker, since the prompt ends with that marker."""
    first = _patterns(own)[0].search(reply)
    return first is not None and not _kind(first)[0] and bool(split(reply, own).thoughts)


def unknown_tag(text: str) -> str:
    """Return the name of the tags around the beginning of a text if they may mark thoughts; empty if they do not.

    >>> unknown_tag("<muse>so 96</muse>It is 96."), unknown_tag("<answer>96</answer>It is.")
    ('muse', '')
    """
    found = _UNKNOWN.match(text)
    if found is None or _OF_TEXT.fullmatch(found[1]):
        return ""
    _, closing, rest = text[found.end() :].partition(f"</{found[1]}>")
    return found[1] if closing and rest.strip() else ""


_UNSTREAMED = re.compile("here|analysis|assistant", re.IGNORECASE)


class Parts:
    """The split of a reply that arrives in pieces: its blocks of thoughts before the text.

    Markers that are words (Granite 3.2, harmony without its special tokens) are left in the text, since they are only
    recognized at the end of a reply.
    """

    def __init__(self, own: Own = None, *, opened: bool = False) -> None:
        """Begin a reply; `opened` says that its prompt opens the thoughts."""
        self._marks, self._closing, alone = _patterns(own)
        self._close = alone if opened else None
        self._own = own[0].strip().casefold() if own else ""
        self._begins = f"[{re.escape(''.join([_BEGIN, *(marker.strip()[:1] for marker in own or ())]))}]"
        self._rest, self._is_text, self._had_thoughts = "", False, opened

    def add(self, piece: str, *, last: bool = False) -> Said:
        """Return the additions of a piece to the thoughts and to the text; a possible part of a marker is withheld."""
        self._rest += piece
        thoughts = ""
        while not self._is_text:
            if self._close is None:
                begun = self._rest.lstrip()
                found = None if _UNSTREAMED.match(begun) else self._marks.match(begun)
                if found:
                    opens, family = _kind(found)
                    self._close, self._had_thoughts = self._closing[family] if opens else None, True
                    self._rest = begun[found.end() :]
                elif not last and len(self._rest) <= LONGEST_MARK and self._may_open(begun):
                    break
                else:
                    self._rest = AROUND.sub("", begun) if self._had_thoughts else self._rest
                    self._is_text = True
            elif found := self._close.search(self._rest):
                thoughts, self._rest = thoughts + self._rest[: found.start()], self._rest[found.end() :]
                self._close = None
            else:
                end = len(self._rest)
                begins = re.search(self._begins, self._rest[-LONGEST_MARK:], re.IGNORECASE)
                end -= 0 if last or begins is None else min(end, LONGEST_MARK) - begins.start()
                thoughts, self._rest = thoughts + self._rest[:end], self._rest[end:]
                break
        text, self._rest = (self._rest, "") if self._is_text else ("", self._rest)
        return Said(thoughts, text)

    def _may_open(self, start: str) -> bool:
        """Return True if more of a reply may make its beginning an opening marker."""
        if self._own.startswith(start.casefold()):
            return True
        if start and start[0] not in _BEGIN:
            return False
        ends = r"<\|message\|>|\n" if start.startswith(("<|ch", "<|start|")) else r"&gt;|[>\]▷]"
        return not re.search(ends, start)
