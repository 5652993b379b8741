"""How a prompt is read: its positions in chunks, with cached pieces pasted before and between them."""

from __future__ import annotations

from bisect import bisect_left
from collections import abc
from functools import cached_property
from itertools import accumulate

from sottovoce.models.engine.request import Cached, Ids, Request


class PromptReading:
    """One prompt, and what the next pass reads and pastes of it."""

    def __init__(self, request: Request) -> None:
        self.pieces, self.length = request.prompt, request.length
        self.ahead: abc.Sequence[int] = ()
        """Positions that the next pass reads."""
        self.to_paste: list[tuple[int, Cached, int]] = []
        """Cached pieces that the next pass pastes: from which column, and from which of their positions on."""

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The token ids of the prompt, without its latent pieces."""
        return tuple(id for piece in self.pieces if isinstance(piece, Ids) for id in piece.ids)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """A prompt without rows as one id for each position, which is 0 where keys and values are pasted."""
        pieces = self.pieces
        return tuple(id for each in pieces for id in (each.ids if isinstance(each, Ids) else (0,) * len(each)))

    @cached_property
    def cached(self) -> list[tuple[int, Cached]]:
        """The cached pieces of the prompt, each with its first position."""
        starts = accumulate(map(len, self.pieces), initial=0)
        placed = zip(starts, self.pieces, strict=False)
        return [(start, piece) for start, piece in placed if isinstance(piece, Cached) and len(piece)]

    @cached_property
    def hidden(self) -> abc.Mapping[int, tuple[tuple[int, int], ...]]:
        """Ranges of columns that a layer must not see, by layer."""
        found: dict[int, tuple[tuple[int, int], ...]] = {}
        for start, piece in self.cached:
            for layer in range(len(piece.layers) + len(piece.first_keys)):
                if layer not in piece.layers:
                    found[layer] = (*found.get(layer, ()), (start + 1, start + len(piece)))
        return found

    @cached_property
    def to_read(self) -> abc.Sequence[int]:
        """The positions of the prompt that are in no cached piece."""
        ends = [0, *(start + len(piece) for start, piece in self.cached)]
        starts = [*(start for start, _ in self.cached), self.length]
        gaps = [range(*gap) for gap in zip(ends, starts, strict=True)]
        return gaps[0] if len(gaps) == 1 else [at for gap in gaps for at in gap]

    def take_chunk(self, filled: int, most: int, block: int = 0) -> int:
        """Set what the next pass reads of the prompt, with the cached pieces before and between; return the positions.

        With a `block`, it reads no further than a multiple of it, and only up to the next cached piece.
        """
        first = bisect_left(self.to_read, filled)
        self.ahead = self.to_read[first : first + most]
        if block:
            start = self.ahead[0]
            ahead = self.to_read[first : first + block - start % block]
            self.ahead = [at for i, at in enumerate(ahead, start) if at == i]
        end = self.ahead[-1]
        self.to_paste = [
            (max(start, filled), piece, max(filled - start, 0))
            for start, piece in self.cached
            if start < end and filled < start + len(piece)
        ]
        return len(self.ahead)

    @property
    def pasted(self) -> int:
        """Number of positions that the next pass pastes."""
        return sum(len(piece) - first for _, piece, first in self.to_paste)
