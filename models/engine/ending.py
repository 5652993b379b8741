"""Short ways to complete a form from where a reply stands: how many tokens it needs, and which, if they run out."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import takewhile, zip_longest

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from sottovoce.models.engine.vocabulary import Vocabulary

EMPTY = b'""'
"""A text that is left empty."""
CLOSING = frozenset(b'"}], :')
"""What tokens that bring JSON nearer to its end consist of."""
SIGNS = string.punctuation.encode() + b"\n"
"""What may end anything else."""
FEW = 32  # tokens that may come next: so few are all tried
SOME = 4  # of more, so many of the longest are: they write what must have a length
CLOSERS = 12  # and so many of those that close JSON
BEAM, STEPS = 16, 512  # states that the search goes on from, and how far
State = tuple[tuple[int, ...], LLMatcher]
"""Some tokens, and the matcher behind them."""
Ids = NDArray[np.int64]


class Endings:
    """The search for them over one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def find(self, matcher: LLMatcher, most: int, *, json: bool) -> tuple[int, ...] | None:
        """One of at most so many tokens, none where it is complete; None where none was found.

        A beam search in which what closes JSON comes first, so that a schema always has one; other signs are
        tried where the form is no `json`. Of a pattern that asks for certain letters after any number of others,
        it finds none.
        """
        beam: list[State] = [((), matcher.deep_copy())]
        best: tuple[int, ...] | None = None
        for _ in range(STEPS):
            for path, at in beam:
                if at.is_accepting() and len(path) <= most:
                    best, most = path, len(path) - 1
            rows = [self._behind(*state, most, json) for state in beam if not state[1].is_accepting()]
            # The best of each, then the second best: what goes straight to the end stays the first.
            alike: dict[tuple[bytes, int], State] = {}
            for state in (state for row in zip_longest(*rows) for state in row if state is not None):
                alike.setdefault(self._standing(*state), state)
            beam = list(alike.values())[:BEAM]
        return best

    def onward(self, path: Sequence[int], id: int, matcher: LLMatcher) -> tuple[int, ...] | None:
        """The same way behind a token: all of it, or what is left where the token begins it; None where neither is one.

        What is left of `", "x": ""}` behind `."` is `, "x": ""}`, and of `"", ...` behind `"A` it is `", ...`.
        """
        vocabulary = self._vocabulary
        if vocabulary.ends(matcher, path):
            return tuple(path)
        text, said = vocabulary.text(path), vocabulary.text((id,))
        begun = [len(said) - i for i in range(len(said)) if text.startswith(said[i:])]
        begun.append(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, said, strict=False))))
        rests = (vocabulary.ids(text[n:]) for n in begun)
        return next((rest for rest in rests if vocabulary.ends(matcher, rest)), None)

    def _standing(self, path: tuple[int, ...], matcher: LLMatcher) -> tuple[bytes, int]:
        """By what states are alike: what may follow, and how many lines were ended; in free text all may, in each."""
        return bytes(matcher.compute_bitmask()), self._vocabulary.text(path).count(b"\n")

    def _behind(self, path: tuple[int, ...], matcher: LLMatcher, most: int, json: bool) -> list[State]:
        """What may come next, the most promising first."""
        steps = (step for step in self._steps(matcher, json) if len(path) + len(step) <= most)
        behind = ((step, self._vocabulary.after(matcher, step)) for step in steps)
        return [((*path, *step), at) for step, at in behind if at is not None]

    def _steps(self, matcher: LLMatcher, json: bool) -> Iterator[Sequence[int]]:
        """What is tried next: what is forced, all of a few tokens, or some of many."""
        forced = matcher.compute_ff_tokens()
        if forced and matcher.validate_tokens(forced) == len(forced):  # it may name what cannot be written
            yield forced
            return
        mask = self._vocabulary.mask(matcher)
        open = int(mask.sum())
        in_text = 2 * open > len(mask)  # a text is closed by a quote, and brackets by brackets
        closing, longest = (ids[mask[ids]] for ids in (self._quotes if in_text else self._brackets, self._longest))
        signs = self._signs[mask[self._signs]] if in_text and not json else self._signs[:0]
        tried = np.concatenate([closing[:CLOSERS], longest[: FEW if open <= FEW else SOME], signs])
        for id in dict.fromkeys(tried.tolist()):
            yield (id,)

    @cached_property
    def _texts(self) -> list[bytes]:
        return [self._vocabulary.text((id,)) for id in range(self._vocabulary.size)]

    @cached_property
    def _longest(self) -> Ids:
        """All tokens, the longest first."""
        return np.argsort(-np.array(list(map(len, self._texts))), kind="stable")

    @cached_property
    def _brackets(self) -> Ids:
        """Tokens of closing signs alone: those first that close most, then those that leave a text empty."""
        found = {id: text for id, text in enumerate(self._texts) if text and CLOSING.issuperset(text)}

        def closes(id: int) -> tuple[int, int, int]:
            text = found[id]
            return text.count(b"]") + text.count(b"}"), text.count(EMPTY), len(text)

        return np.array(sorted(found, key=closes, reverse=True), dtype=np.int64)

    @cached_property
    def _quotes(self) -> Ids:
        """Of these, the ones that begin with a quote."""
        return np.array([id for id in self._brackets.tolist() if self._texts[id][:1] == EMPTY[:1]], dtype=np.int64)

    @cached_property
    def _signs(self) -> Ids:
        """Tokens of one sign."""
        return np.array([id for id, text in enumerate(self._texts) if len(text) == 1 and text in SIGNS], dtype=np.int64)
