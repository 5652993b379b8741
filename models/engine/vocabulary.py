"""A tokenizer's tokens as bytes, for constrained decoding: the allowed next tokens, and a short completion of a format.

llguidance compiles a response format and follows a reply byte by byte; a mask has the tokens that may come next.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import chain, takewhile, zip_longest

import numpy as np
from llguidance import LLMatcher
from llguidance.hf import from_tokenizer
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.models.huggingface.text import BROKEN

FOUND = "failed to compile JSON schema: "  # precedes llguidance's reason for refusing a schema
Mask = NDArray[np.bool_]
"""(V,): True for tokens that may come next."""
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
FILLS = b"n", b"0", b'"', b"\x80", b"\x80\x80", b"\xa0\x80", b"\x80\x80\x80", b"\x90\x80\x80"
"""Possible ends of an escape, a number, and a character of UTF-8; and the beginning of a text."""
State = tuple[tuple[int, ...], LLMatcher]
"""Some tokens, and the matcher after them."""
Ids = NDArray[np.int64]
LONGEST = 4096  # tokens; longer completions are not searched for
JSON = {  # no spaces but those of `json.dumps`: a model could repeat them forever
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    # Half of a surrogate pair is not valid text, and models write \boxed and \frac.
    "json_allowed_escapes": '"\\nrt',
}


class Vocabulary:
    """The tokens of one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Read the tokenizer; takes up to 2 s.

        Raises:
            UsageError: the bytes of this kind of tokenizer's tokens are unknown.
        """
        try:
            self._own = from_tokenizer(tokenizer)  # type: ignore[arg-type]  # it checks the kind itself
        except Exception as error:  # llguidance raises plain ones
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UsageError(f"the model's tokenizer does not support a response format: {why}; use none") from error
        self.size = int(self._own.vocab_size)
        self._eos = int(self._own.eos_token)
        self.matcher = lru_cache(64)(self._matcher)
        """Returns a matcher at the beginning of a grammar; copy it, never feed it."""
        self.said = lru_cache(None)(lambda id: self.text((id,)).decode(errors="replace"))
        """Returns the text of one token, with U+FFFD for incomplete characters."""
        unpack = partial(np.unpackbits, count=self.size, bitorder="little")
        self._unpacked = lru_cache(64)(lambda bits: unpack(np.frombuffer(bits, np.uint8)).view(np.bool_))
        self._fills = [self.ids(text) for text in FILLS]

    def _matcher(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._own, grammar, log_level=0)
        if matcher.is_error():
            raise UsageError(_said(matcher.get_error()))
        return matcher

    def ids(self, text: str | bytes) -> tuple[int, ...]:
        """Return a text as tokens; special tokens in it are read as plain characters."""
        return tuple(self._own.tokenize_bytes(text if isinstance(text, bytes) else text.encode()))

    def text(self, ids: Sequence[int]) -> bytes:
        """Return the bytes that tokens write."""
        return bytes(self._own.decode_bytes(list(ids)))

    def mask(self, matcher: LLMatcher) -> Mask:
        """Return the tokens that may come next in a format that is not complete."""
        return self._unpacked(matcher.compute_bitmask())

    def after(self, matcher: LLMatcher, ids: Sequence[int]) -> LLMatcher | None:
        """Return the matcher after more tokens; None if they may not come next."""
        if self._eos in ids:
            return None
        behind = matcher.deep_copy()
        return behind if behind.try_consume_tokens(list(ids)) == len(ids) else None

    def ends(self, matcher: LLMatcher, path: Sequence[int]) -> bool:
        """Return True if the format is complete after these tokens."""
        return matcher.validate_tokens([*path, self._eos]) == len(path) + 1

    def completion(self, matcher: LLMatcher, most: int, *, closes_json: bool) -> tuple[int, ...] | None:
        """Return a completion of at most `most` tokens, () if the format is complete; None if none was found.

        A beam search that tries tokens that close JSON first, so that it always finds a completion of a schema. Other
        single characters are tried only if `closes_json` is false. It fails for a pattern that requires certain letters
        after any number of others.
        """
        beam: list[State] = [((), matcher.deep_copy())]
        best: tuple[int, ...] | None = None
        for _ in range(STEPS):
            for path, at in beam:
                if at.is_accepting() and len(path) <= most:
                    best, most = path, len(path) - 1
            rows = [self._behind(*state, most, closes_json) for state in beam if not state[1].is_accepting()]
            # The best step of each state, then the second best: the most direct way to the end stays first.
            alike: dict[tuple[bytes, int], State] = {}  # by the tokens allowed next, and the number of newlines so far:
            for path, at in (state for row in zip_longest(*rows) for state in row if state is not None):
                lines = self.text(path).count(b"\n")  # free text allows the same tokens on every line
                alike.setdefault((bytes(at.compute_bitmask()), lines), (path, at))
            beam = list(alike.values())[:BEAM]
        return best

    def length(self, choice: str, form: Form) -> int:
        """Return the number of tokens that a choice of a format needs."""
        path = self.completion(self.matcher(_lark(json.dumps(choice), form)), LONGEST, closes_json=False)
        if path is None:
            raise UsageError(f"the model's tokenizer cannot write the choice {choice!r}; reword it")
        return len(path)

    def rest_of(self, path: tuple[int, ...], id: int, matcher: LLMatcher) -> tuple[int, ...] | None:
        """Return the rest of a completion after a token: all of it, or the part after the token; None if neither fits.

        After `."`, the rest of `", "x": ""}` is `, "x": ""}`; after `"A`, the rest of `"", ...` is `", ...`. Behind a
        backslash, a sign or the first bytes of a character, the rest is what they lack and the whole completion.
        """
        if path[:1] == (id,):
            return path[1:]
        if self.ends(matcher, path):
            return path
        text, said = self.text(path), self.text((id,))
        begun = [len(said) - i for i in range(len(said)) if text.startswith(said[i:])]
        begun.append(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, said, strict=False))))
        rests = chain(
            (self.ids(text[n:]) for n in begun if n),
            (path[n:] for n in (1, 2, 3)),  # another byte of a character, or another escape
            ((*fill, *path) for fill in self._fills),
        )
        return next((rest for rest in rests if self.ends(matcher, rest)), None)

    def _behind(self, path: tuple[int, ...], matcher: LLMatcher, most: int, closes_json: bool) -> list[State]:
        """Return the possible next states, the most promising first."""
        steps = (step for step in self._steps(matcher, closes_json) if len(path) + len(step) <= most)
        behind = ((step, self.after(matcher, step)) for step in steps)
        return [((*path, *step), at) for step, at in behind if at is not None]

    def _steps(self, matcher: LLMatcher, closes_json: bool) -> Iterator[Sequence[int]]:
        """Yield the steps to try next: the forced tokens, all tokens if there are few, or a selection of many."""
        forced = matcher.compute_ff_tokens()
        if forced and matcher.validate_tokens(forced) == len(forced):  # it may force tokens that cannot be written
            yield forced
            return
        mask = self.mask(matcher)
        open = int(mask.sum())
        in_text = 2 * open > len(mask)  # a quote closes a text, and a bracket closes brackets
        closing, longest = (ids[mask[ids]] for ids in (self._quotes if in_text else self._brackets, self._longest))
        signs = self._signs[mask[self._signs]] if in_text and not closes_json else self._signs[:0]
        tried = np.concatenate([closing[:CLOSERS], longest[: FEW if open <= FEW else SOME], signs])
        for id in dict.fromkeys(tried.tolist()):
            yield (id,)

    @cached_property
    def _texts(self) -> list[bytes]:
        return [self.text((id,)) for id in range(self.size)]

    @cached_property
    def plain(self) -> frozenset[int]:
        """Tokens of whole characters without quotes and backslashes, which alone change the state of a JSON text."""
        texts = (text.decode(errors="replace") for text in self._texts)
        return frozenset(id for id, text in enumerate(texts) if text and not {*text} & {'"', "\\", BROKEN})

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
        return np.array([id for id, text in enumerate(self._texts) if len(text) == 1 and text in SIGNS], dtype=np.int64)


def _said(error: str) -> str:
    """Return the reason from an error message that also prints the grammar."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return told[0] if told else lines[0].rpartition(FOUND)[2].rpartition(" (in regex): ")[2]


def grammar_text(form: Form) -> str:
    """Return a response format as llguidance's grammar."""
    if form.pattern is not None:
        space = " " if _spaced(form) else ""
        grammar = LLMatcher.grammar_from_regex(f"{space}(?:{form.pattern})")
    elif form.schema is not None:
        compact = {**form.schema, "x-guidance": {**JSON, **form.schema.get("x-guidance", {})}}
        grammar = _lark(f"%json {json.dumps(compact)}", form)
    else:
        grammar = _lark(" | ".join(map(json.dumps, form.choices)), form)
    return str(grammar)


def _lark(rule: str, form: Form) -> str:
    return str(LLMatcher.grammar_from_lark(f'start: " " body\nbody: {rule}' if _spaced(form) else f"start: {rule}"))


def _spaced(form: Form) -> bool:
    return form.spaced or bool(form.after)
