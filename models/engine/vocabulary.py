"""A tokenizer's tokens as bytes, and what may be written with them: matchers of forms, and short ways to their end.

llguidance compiles a form and follows a reply byte by byte; the tokens that may come next are a mask.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import takewhile, zip_longest

import numpy as np
from llguidance import LLMatcher
from llguidance.hf import from_tokenizer
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from sottovoce.errors import UsageError

CLOSING = frozenset(b'"}], :')
"""What tokens that bring a JSON text nearer to its end consist of."""
SIGNS = string.punctuation.encode() + b"\n"
"""What may end anything else."""
FEW = 32  # tokens that may come next: so few are all tried for a short end
SOME = 4  # of more, so many of the longest: they write what must have a length
BEAM, STEPS = 8, 512  # of a search for a short end: states that it goes on from, and how far
FOUND = "failed to compile JSON schema: "  # before what llguidance says of a schema
Mask = NDArray[np.bool_]
"""(V,): which tokens may come next."""
_State = tuple[tuple[int, ...], LLMatcher]
"""Some tokens, and the matcher behind them."""


class Vocabulary:
    """The tokens of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Read the tokenizer; takes up to 2 s.

        Raises:
            UsageError: it is none of those whose tokens are known as bytes.
        """
        try:
            self._own = from_tokenizer(tokenizer)  # type: ignore[arg-type]  # it checks the kind, and says what it wants
        except Exception as error:  # llguidance's are plain ones
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UsageError(f"the model's tokenizer cannot be held to a form: {why}; ask without one") from error
        self.size = int(self._own.vocab_size)
        self._eos = int(self._own.eos_token)
        self.matcher = lru_cache(64)(self._matcher)
        """A matcher at the beginning of a grammar; to be copied, never fed."""

    def _matcher(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._own, grammar, log_level=0)
        if matcher.is_error():
            raise UsageError(_said(matcher.get_error()))
        return matcher

    def ids(self, text: str) -> tuple[int, ...]:
        """A text as the tokenizer has it, special tokens in it read as plain characters."""
        return tuple(self._own.tokenize_str(text))

    def text(self, ids: Sequence[int]) -> bytes:
        """What tokens write."""
        return bytes(self._own.decode_bytes(list(ids)))

    def mask(self, matcher: LLMatcher) -> Mask:
        """The tokens that may come next, of a form that is not complete."""
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        return np.unpackbits(bits, count=self.size, bitorder="little").view(np.bool_)

    def after(self, matcher: LLMatcher, ids: Sequence[int]) -> LLMatcher | None:
        """The matcher behind more tokens, or None where they may not come next."""
        if self._eos in ids:
            return None
        behind = matcher.deep_copy()
        return behind if behind.try_consume_tokens(list(ids)) == len(ids) else None

    def rest(self, path: Sequence[int], id: int) -> tuple[int, ...]:
        """What is left to write of a path behind a token that begins as its text does."""
        text, begun = self.text(path), self.text((id,))
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(text, begun, strict=False))
        return tuple(self._own.tokenize_bytes(text[len([*alike]) :]))

    def ends(self, matcher: LLMatcher, path: Sequence[int]) -> bool:
        """Whether the form is complete behind these tokens."""
        return matcher.validate_tokens([*path, self._eos]) == len(path) + 1

    def ending(self, matcher: LLMatcher, most: int) -> tuple[int, ...] | None:
        """A short way to complete a form, of at most so many tokens; None where none was found.

        A beam search in which what closes JSON comes first, so that a schema always has one. Of a pattern that
        asks for certain letters after any number of others, it finds none.
        """
        beam: list[_State] = [((), matcher)]
        best: tuple[int, ...] | None = None
        for _ in range(STEPS):
            for path, at in beam:
                if at.is_accepting() and len(path) <= most:
                    best, most = path, len(path) - 1
            rows = [self._behind(*state, most) for state in beam if not state[1].is_accepting()]
            # The best of each, then the second best: what goes straight to the end stays the first.
            found = [state for row in zip_longest(*rows) for state in row if state is not None]
            beam = list({bytes(at.compute_bitmask()): (path, at) for path, at in reversed(found)}.values())[
                : -BEAM - 1 : -1
            ]
        return best

    def _behind(self, path: tuple[int, ...], matcher: LLMatcher, most: int) -> list[_State]:
        """What may come next, the most promising first."""
        found = []
        for step in self._steps(matcher):
            behind = self.after(matcher, step) if len(path) + len(step) <= most else None
            if behind is not None:
                found.append(((*path, *step), behind))
        return found

    def _steps(self, matcher: LLMatcher) -> Iterator[Sequence[int]]:
        """What is tried next: what is forced, all of a few tokens, or some of many."""
        forced = matcher.compute_ff_tokens()
        if forced and matcher.validate_tokens(forced) == len(forced):  # not all it names can be written
            yield forced
            return
        mask = self.mask(matcher)
        open = mask.nonzero()[0]
        in_text = 2 * len(open) > self.size
        signs = self._signs[in_text][mask[self._signs[in_text]]]
        longest = open[np.argsort(-self._lengths[open], kind="stable")[: FEW if len(open) <= FEW else SOME]]
        for id in dict.fromkeys([*signs.tolist(), *longest.tolist()]):
            yield (id,)

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """Bytes of each token."""
        return np.array([len(self.text((id,))) for id in range(self.size)])

    @cached_property
    def _signs(self) -> dict[bool, NDArray[np.int64]]:
        """Tokens that may close something: one sign, or closing signs of JSON; by whether that is within a text.

        A text is closed by a quote, and brackets by brackets: they come first, the longer ones before the others.
        """
        texts = {id: self.text((id,)) for id in range(self.size)}
        found = [id for id, text in texts.items() if text and (text in SIGNS if len(text) == 1 else CLOSING >= {*text})]

        def order(id: int) -> tuple[bool, int, int]:
            text = texts[id]
            return text[:1] == b'"', text.count(b"]") + text.count(b"}"), len(text)

        quotes = sorted(found, key=order, reverse=True)
        brackets = sorted(found, key=lambda id: order(id)[1:], reverse=True)
        return {True: np.array(quotes, dtype=np.int64), False: np.array(brackets, dtype=np.int64)}


def _said(error: str) -> str:
    """What is wrong, out of a message that shows the grammar too."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return told[0] if told else lines[0].rpartition(FOUND)[2].rpartition(" (in regex): ")[2]
