"""From token ids to text and back to spans: which characters each token became."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from transformers import PreTrainedTokenizerBase

BROKEN = "\ufffd"  # what a tokenizer puts for bytes that do not (yet) form a character
Span = tuple[int, int]


class Detokenizer:
    """Decodes ids into text; one for each way of treating special tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, special: bool = False) -> None:
        """`special` keeps special tokens (EOS, role marks) as text."""
        self._tokenizer, self._special = tokenizer, special

    def text(self, ids: Sequence[int]) -> str:
        """The whole text."""
        text = self._tokenizer.decode(
            list(ids), skip_special_tokens=not self._special, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str), "one list of ids decodes to one text"
        return text

    def settled(self, ids: Sequence[int]) -> str:
        """The text that later tokens cannot change: without the bytes of an unfinished character."""
        return self.text(ids).rstrip(BROKEN)

    def spans(self, ids: Sequence[int]) -> list[Span]:
        """Half-open character spans of the text, one a token; tokens that share a character overlap."""
        whole = self.text(ids)
        prefixes = [self.text(ids[:n]) for n in range(len(ids) + 1)]
        starts = [min(len(prefix.rstrip(BROKEN)), len(whole)) for prefix in prefixes]
        ends = [min(len(prefix), len(whole)) for prefix in prefixes]
        return [(min(start, end), end) for (start, _), (_, end) in pairwise(zip(starts, ends, strict=True))]


def overlapping(spans: Sequence[Span], part: Span) -> Span:
    """The token span of every token that overlaps a character span; empty spans give (k, k)."""
    start, end = part
    inside = [i for i, (left, right) in enumerate(spans) if start < end and left < end and right > start]
    if not inside:
        before = sum(right <= start for _, right in spans)
        return (before, before)
    return (inside[0], inside[-1] + 1)


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the earliest of the stop strings begins, or None."""
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return min(found) if found else None


def held_back(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end may yet become a stop string, and so are not shown yet."""
    longest = max((len(stop) for stop in stops), default=0)
    for size in range(min(longest - 1, len(text)), 0, -1):
        if any(stop.startswith(text[-size:]) for stop in stops):
            return size
    return 0
