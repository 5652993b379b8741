"""Decoding of token ids to text, with the characters of each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

BROKEN = "\ufffd"  # a tokenizer's output for bytes that do not (yet) form a character
Span = tuple[int, int]
PLAINLY = {"clean_up_tokenization_spaces": False}


class Detokenizer:
    """Decodes ids to text; one object for each treatment of special tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, special: bool = False) -> None:
        """`special` keeps special tokens (EOS, role marks) as text."""
        kind, fast = type(tokenizer), PreTrainedTokenizerFast
        plain = isinstance(tokenizer, fast) and kind.decode is fast.decode and kind._decode is fast._decode
        # The core makes no checks of each id, which take four times as long.
        decode = tokenizer.backend_tokenizer.decode if plain else partial(tokenizer.decode, **PLAINLY)
        self._decode = partial(decode, skip_special_tokens=not special)

    def text(self, ids: Sequence[int]) -> str:
        """Return the whole text."""
        text = self._decode(list(ids))
        assert isinstance(text, str), "one list of ids decodes to one text"
        return text

    def spans(self, ids: Sequence[int]) -> list[Span]:
        """Return half-open character spans of the text, one per token; tokens that share a character overlap."""
        whole, stream = self.text(ids), TextStream(self)
        prefixes = [stream.text(ids[:n]) for n in range(len(ids) + 1)]
        starts = [min(len(prefix.rstrip(BROKEN)), len(whole)) for prefix in prefixes]
        ends = [min(len(prefix), len(whole)) for prefix in prefixes]
        return [(min(start, end), end) for (start, _), (_, end) in pairwise(zip(starts, ends, strict=True))]


TAIL, KEPT = 64, 8  # tokens that are decoded again: at most, and at least, because a character may span several


@dataclass(eq=False)
class TextStream:
    """The text of a growing reply, without decoding its beginning again for every token."""

    detokenizer: Detokenizer
    _head: str = ""
    """The text of the first tokens."""
    _done: int = 0
    """Their number."""

    def text(self, ids: Sequence[int]) -> str:
        """Return the whole text of ids; they extend the previous call's ids, or are a prefix of them."""
        if len(ids) < self._done:
            self._head, self._done = "", 0
        before, tail = self._head, self.detokenizer.text(ids[self._done :])
        if len(ids) - self._done > TAIL:
            cut = len(ids) - KEPT
            head = self.detokenizer.text(ids[self._done : cut])
            # Move the cut on if both parts decode to the whole text; some tokenizers drop a leading space.
            if head + self.detokenizer.text(ids[cut:]) == tail and not head.endswith(BROKEN):
                self._head, self._done = self._head + head, cut
        return before + tail


def settled(text: str) -> str:
    """Return the part of a text that later tokens cannot change: all but the bytes of an unfinished character."""
    return text.rstrip(BROKEN)


def overlapping(spans: Sequence[Span], part: Span) -> Span:
    """Return the token span of all tokens that overlap a character span; empty spans give (k, k)."""
    start, end = part
    inside = [i for i, (left, right) in enumerate(spans) if start < end and left < end and right > start]
    if not inside:
        before = sum(right <= start for _, right in spans)
        return (before, before)
    return (inside[0], inside[-1] + 1)


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Return the position of the earliest stop string, or None."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return min(found) if found else None


def partial_stop(text: str, stops: Sequence[str]) -> int:
    """Return the number of final characters that are withheld because they may become a stop string."""
    longest = max((len(stop) for stop in stops), default=0)
    for size in range(min(longest - 1, len(text)), 0, -1):
        if any(stop.startswith(text[-size:]) for stop in stops):
            return size
    return 0
