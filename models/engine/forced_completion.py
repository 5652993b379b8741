"""Short completions of a response format from any point of a reply: how many tokens are needed, and which ones."""

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
"""An empty text in JSON."""
CLOSING = frozenset(b'"}], :')
"""The characters of tokens that bring JSON closer to its end."""
SIGNS = string.punctuation.encode() + b"\n"
"""Characters that may end any other format."""
FEW = 32  # if at most so many tokens may come next, all are tried
SOME = 4  # if more, so many of the longest are tried: they write what must have a length
CLOSERS = 12  # and so many of those that close JSON
BEAM, STEPS = 16, 512  # states that the search continues from, and its maximum depth
State = tuple[tuple[int, ...], LLMatcher]
"""Some tokens, and the matcher after them."""
Ids = NDArray[np.int64]


class Completions:
    """The search for short completions over one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def find(self, matcher: LLMatcher, most: int, *, json: bool) -> tuple[int, ...] | None:
        """Return a completion of at most `most` tokens, () if the format is complete; None if none was found.

        A beam search that tries tokens that close JSON first, so that it always finds a completion of a schema. Other
        single characters are tried only if `json` is false. It fails for a pattern that requires certain letters after
        any number of others.
        """
        beam: list[State] = [((), matcher.deep_copy())]
        best: tuple[int, ...] | None = None
        for _ in range(STEPS):
            for path, at in beam:
                if at.is_accepting() and len(path) <= most:
                    best, most = path, len(path) - 1
            rows = [self._behind(*state, most, json) for state in beam if not state[1].is_accepting()]
            # The best step of each state, then the second best: the most direct way to the end stays first.
            alike: dict[tuple[bytes, int], State] = {}
            for state in (state for row in zip_longest(*rows) for state in row if state is not None):
                alike.setdefault(self._standing(*state), state)
            beam = list(alike.values())[:BEAM]
        return best

    def onward(self, path: Sequence[int], id: int, matcher: LLMatcher) -> tuple[int, ...] | None:
        """Return the rest of a completion after a token: all of it or what the token leaves; None if neither fits.

        After `."`, the rest of `", "x": ""}` is `, "x": ""}`; after `"A`, the rest of `"", ...` is `", ...`.
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
        """Return a key that is equal for similar states: the tokens allowed next, and the number of newlines so far.

        Newlines count because free text allows the same tokens on every line.
        """
        return bytes(matcher.compute_bitmask()), self._vocabulary.text(path).count(b"\n")

    def _behind(self, path: tuple[int, ...], matcher: LLMatcher, most: int, json: bool) -> list[State]:
        """Return the possible next states, the most promising first."""
        steps = (step for step in self._steps(matcher, json) if len(path) + len(step) <= most)
        behind = ((step, self._vocabulary.after(matcher, step)) for step in steps)
        return [((*path, *step), at) for step, at in behind if at is not None]

    def _steps(self, matcher: LLMatcher, json: bool) -> Iterator[Sequence[int]]:
        """Yield the steps to try next: the forced tokens, all tokens if there are few, or a selection of many."""
        forced = matcher.compute_ff_tokens()
        if forced and matcher.validate_tokens(forced) == len(forced):  # it may force tokens that cannot be written
            yield forced
            return
        mask = self._vocabulary.mask(matcher)
        open = int(mask.sum())
        in_text = 2 * open > len(mask)  # a quote closes a text, and a bracket closes brackets
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
        """All tokens, longest first."""
        return np.argsort(-np.array(list(map(len, self._texts))), kind="stable")

    @cached_property
    def _brackets(self) -> Ids:
        """Tokens that consist of closing characters: the most closing brackets first, then the most empty texts."""
        found = {id: text for id, text in enumerate(self._texts) if text and CLOSING.issuperset(text)}

        def closes(id: int) -> tuple[int, int, int]:
            text = found[id]
            return text.count(b"]") + text.count(b"}"), text.count(EMPTY), len(text)

        return np.array(sorted(found, key=closes, reverse=True), dtype=np.int64)

    @cached_property
    def _quotes(self) -> Ids:
        """The tokens of `_brackets` that begin with a quote."""
        return np.array([id for id in self._brackets.tolist() if self._texts[id][:1] == EMPTY[:1]], dtype=np.int64)

    @cached_property
    def _signs(self) -> Ids:
        """Tokens of a single character."""
        return np.array([id for id, text in enumerate(self._texts) if len(text) == 1 and text in SIGNS], dtype=np.int64)
