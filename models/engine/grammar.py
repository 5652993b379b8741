"""Constrained decoding of one reply: free text first if the format allows it, then token by token.

A `Grammar` is a response format over one vocabulary. A `Constraint` is an immutable value. A sampled token gives the
next one, which the sequence adopts after the pass, so a failed pass or a restarted request leaves nothing behind.

    Free    -> Marker   at a stop id, or when the remaining tokens are needed, if the format is forced
            -> Constrained   as soon as the marker stands at the beginning of a line
    Marker  -> Constrained   once it is written, whatever the model prefers
    Constrained  -> the end  when the format is complete and neither the model nor the format continues

Until the format is complete, a token is written only if it leads there and leaves enough tokens to get there. After
that the model is free again: its first token that the format does not accept ends the reply, at the point where the
format was last complete.
"""

from __future__ import annotations

import json
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from textwrap import shorten
from typing import NamedTuple

import numpy as np
from llguidance import LLMatcher
from transformers import PreTrainedTokenizerBase

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.models.engine.request import Finish, Stop
from sottovoce.models.engine.sampling import Chosen
from sottovoce.models.engine.vocabulary import EMPTY, LONGEST, Mask, Vocabulary, grammar_text
from sottovoce.models.huggingface.text import BROKEN

# Tokens that each field of an answer has at the end of a reply, beyond the shortest; at most a quarter of all
FIELD_TOKENS = 16
SHOWN = 80  # characters of a format in a message
BEFORE = r"^[ \t*_#>-]*"
"""The characters allowed before the marker on its line, as in "**Answer:"."""


@dataclass(frozen=True, eq=False)
class Grammar:
    """One response format for one vocabulary; equal formats share one object."""

    form: Form
    vocabulary: Vocabulary

    @cached_property
    def start(self) -> LLMatcher:
        """The matcher at the beginning of the format. Copy it; never feed or query it, because threads share it.

        Raises:
            UsageError: llguidance does not support the schema or pattern.
        """
        try:
            return self.vocabulary.matcher(grammar_text(self.form))
        except UsageError as error:
            what = "schema" if self.form.schema is not None else "pattern"
            raise UsageError(f"a reply cannot be constrained to this {what}: {error}") from error

    @cached_property
    def path(self) -> tuple[int, ...]:
        """A short text in the format, as tokens."""
        path = self.completion(self.start, LONGEST)
        if path is None:
            shown = json.dumps(self.form.schema) if self.form.schema is not None else f"'{self.form.pattern}'"
            shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]} ..."
            raise UsageError(f"no text of this format was found: {shown}; use another format or none")
        return path

    def completion(self, matcher: LLMatcher, most: int) -> tuple[int, ...] | None:
        """Return a short completion of at most `most` tokens from a matcher; None if none was found."""
        return self.vocabulary.completion(matcher, most, closes_json=self.form.schema is not None)

    @cached_property
    def least(self) -> int:
        """The number of tokens that the format needs; for choices, the tokens of the longest one."""
        return max((self.vocabulary.length(each, self.form) for each in self.form.choices), default=len(self.path))

    def fields(self, path: Sequence[int]) -> int:
        """Return the number of texts that a completion leaves empty."""
        return self.vocabulary.text(path).count(EMPTY)

    def in_text(self, path: Sequence[int]) -> bool:
        """Return True if a state with this completion is within a free text of a flat object, after a whole character.

        The completion shows it: it closes the text and writes all later fields. From there, whole characters other than
        quotes and backslashes lead to an equal state, with the same mask and completion.
        """
        text = self.vocabulary.text(path) if self._free else b""
        if text[:1] != b'"':  # anything else would first end an escape or a character
            return False
        try:
            (_, *later) = json.loads(b'{"": "' + text, object_pairs_hook=list)
        except ValueError:
            return False
        names, n = list(self._free), len(self._free) - len(later)
        return n > 0 and self._free[names[n - 1]] and names[n:] == [name for name, _ in later]

    @cached_property
    def _free(self) -> dict[str, bool]:
        """The fields of an object that has all of them and no others, with True for free text; {} for other formats."""
        schema = self.form.schema or {}
        fields = schema.get("properties", {})
        flat = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        return {name: field == {"type": "string"} for name, field in fields.items()} if schema == flat else {}

    def marker(self, before: str) -> tuple[int, ...]:
        """Return the tokens of the marker between a free reply and its format, at the beginning of a line."""
        return self.vocabulary.ids(self.form.after if before[-1:] in ("", "\n") else "\n" + self.form.after)

    def check(self, stop: Stop) -> None:
        """Refuse a format that does not fit in the reply, or that a stop string prevents."""
        form, before = self.form, f"\n{self.form.after} "
        marker = len(self.marker("")) if form.after else 0
        if marker + self.least > stop.max_new:
            if form.choices:
                longest = max(form.choices, key=lambda choice: self.vocabulary.length(choice, form))
                what = f"the choice {shorten(longest, SHOWN)!r}"
            else:  # shortened: a pattern of many actions would fill screens
                shortest = self.vocabulary.text(self.path).decode(errors="replace").strip()
                what = f"the format, at its shortest {shorten(shortest, SHOWN)},"
            behind = f" after {form.after!r}" if marker else ""
            raise UsageError(
                f"{what}{behind} takes {marker + self.least} tokens, but max_tokens is {stop.max_new}; raise it"
            )
        if form.after and (cut := next((text for text in stop.texts if text in before), None)):
            raise UsageError(f"the stop string {cut!r} would end the reply before its format, {before!r}; leave it out")

    def begin(self, max_new: int, decode: Callable[[Sequence[int]], str]) -> Constraint:
        """Return the constraint at the beginning of a reply."""
        if self.form.after:
            return Free(self, reserved=self.reserved(max_new), decode=decode)
        start = constrained(self, 0, max_new)
        assert start is not None, "the engine checked the request"
        return start

    def reserved(self, max_new: int) -> int:
        """Return the tokens reserved for marker and format at the end of a reply of `max_new` tokens."""
        wanted = len(self.path) + FIELD_TOKENS * max(self.fields(self.path), 1)
        marker = max(len(self.marker(before)) for before in ("", "?"))
        return marker + max(self.least, min(wanted, max_new // 4))


_known: weakref.WeakKeyDictionary[PreTrainedTokenizerBase, Callable[[str], Grammar]] = weakref.WeakKeyDictionary()
"""For each tokenizer, a function that returns the grammar for a format's key."""
_reading = threading.Lock()


def grammar_of(form: Form, tokenizer: PreTrainedTokenizerBase) -> Grammar:
    """Return the grammar of a format, with "unknown" as an option unless it refuses that; equal formats share one."""
    with _reading:
        if tokenizer not in _known:
            vocabulary = Vocabulary(tokenizer)
            _known[tokenizer] = lru_cache(64)(lambda key: Grammar(Form(**json.loads(key)), vocabulary))
    return _known[tokenizer](form.offered.key)


class Effect(NamedTuple):
    """The effect of a choice on the reply."""

    then: Constraint
    id: int | None
    """The token to write; None ends the reply before it."""
    as_token: bool = True
    """True if it is fed as a token, even with a mean feed."""
    ends: bool = False
    """True if the reply ends after it."""

    @property
    def finish(self) -> Finish | None:
        """The reason why the reply ends with it; None if it does not end."""
        if self.id is not None and not self.ends:
            return None
        return "length" if self.then.short else "stop"


@dataclass(frozen=True, eq=False)
class Constraint:
    """The progress of a reply through its format."""

    grammar: Grammar
    short: bool = False
    """True if anything was cut short because few tokens were left."""
    complete: int | None = None
    """The number of reply tokens at which the format was last complete."""

    @property
    def forced(self) -> bool:
        """True if the next token is known, so that none needs to be chosen."""
        return False

    def mask(self) -> Mask | None:
        """Return the tokens that may be chosen; None if all may."""
        return None

    def may_average(self, mask: Mask | None) -> bool:
        """Return True if a mean may be fed next: within a format only in the middle of a text, by its mask."""
        return False

    def next(self, chosen: Chosen) -> Effect:
        """Return the effect of a pass's choice."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Free(Constraint):
    """The state before the marker."""

    reserved: int
    """Tokens that marker and format need."""
    decode: Callable[[Sequence[int]], str]

    def may_average(self, mask: Mask | None) -> bool:
        """Return True."""
        return True

    def next(self, chosen: Chosen) -> Effect:
        """Return the choice; where the reply or its one free line would end, return the marker."""
        over, freely = chosen.stops or self._breaks(chosen), Effect(self, chosen.freely, as_token=False)
        if over or chosen.left <= self.reserved:
            if not self.grammar.form.forced:
                return Effect(self, None) if over else freely
            return self._write(self.grammar.marker(self.decode(chosen.ids)), chosen, short=not over)
        vocabulary, after = self.grammar.vocabulary, self.grammar.form.after
        said = vocabulary.said(chosen.freely)
        if after[-1].casefold() not in said.casefold() and BROKEN not in said:  # the text need not be decoded
            return freely
        before, text = self.decode(chosen.ids), self.decode([*chosen.ids, chosen.freely])
        match = re.search(BEFORE + re.escape(after), text, re.MULTILINE | re.IGNORECASE)
        if match is None:
            return freely
        start = constrained(self.grammar, len(chosen.ids) + 1, chosen.left - 1)
        for id in vocabulary.ids(text[match.end() :]):
            start = start and start.after(id, chosen)
        if start is None:  # the token continues in a way that the format does not allow
            return self._write(vocabulary.ids(text[len(before) : match.end()]), chosen, short=False)
        return freely._replace(then=start)

    def _breaks(self, chosen: Chosen) -> bool:
        """Return True if this choice ends the one free line; lines before the first word do not count."""
        if not self.grammar.form.one_line or "\n" not in self.grammar.vocabulary.said(chosen.freely):
            return False
        return bool(self.decode(chosen.ids).strip())

    def _write(self, marker: tuple[int, ...], chosen: Chosen, *, short: bool) -> Effect:
        return Marker(self.grammar, short, queue=marker).next(chosen)


@dataclass(frozen=True, eq=False, kw_only=True)
class Marker(Constraint):
    """The state while the marker is written."""

    queue: tuple[int, ...]

    @property
    def forced(self) -> bool:
        """Always True."""
        return True

    def next(self, chosen: Chosen) -> Effect:
        """Return the next token of the marker."""
        id, rest = self.queue[0], self.queue[1:]
        start = None if rest else constrained(self.grammar, len(chosen.ids) + 1, chosen.left - 1, short=self.short)
        return Effect(start or replace(self, queue=rest), id)


@dataclass(frozen=True, eq=False, kw_only=True)
class Constrained(Constraint):
    """The state within the format."""

    matcher: LLMatcher
    """It has read the reply, except for characters of a free text that do not change its state."""
    path: tuple[int, ...]
    """A short completion; () once the format was complete."""
    reserved: int
    """Tokens reserved for each text that the path leaves empty."""
    queue: int = 0
    """The number of tokens of the path to write next."""

    @property
    def forced(self) -> bool:
        """True while a text, or the whole reply, is being closed."""
        return self.queue > 0

    def mask(self) -> Mask | None:
        """Return the tokens that continue the format; None once the format is complete."""
        return None if self.forced or self.complete is not None else self._mask

    def may_average(self, mask: Mask | None) -> bool:
        """Return True if at least half of all tokens may come next."""
        return not self.forced and mask is not None and 2 * int(np.count_nonzero(mask)) >= len(mask)

    @cached_property
    def _mask(self) -> Mask | None:
        mask = self.grammar.vocabulary.mask(self.matcher)
        return mask if mask.any() else None  # llguidance reached one of its limits: only the path remains

    @cached_property
    def _needed(self) -> int:
        """The number of tokens that the path and the reserve take."""
        return len(self.path) + self.reserved * self.grammar.fields(self.path)

    @cached_property
    def _in_text(self) -> bool:
        return self.complete is None and self.grammar.in_text(self.path)

    def next(self, chosen: Chosen) -> Effect:
        """Return the choice if it is allowed and leaves enough tokens, else the next token of the path."""
        if self.forced:
            return self._close(chosen, self.queue)
        if chosen.nearest is not None and (after := self.after(chosen.nearest, chosen)):
            return Effect(after, chosen.nearest, as_token=False, ends=after.matcher.is_stopped())
        if after := self.after(chosen.token, chosen):
            return Effect(after, chosen.token, ends=after.matcher.is_stopped())
        texts = accumulate(self.grammar.vocabulary.text((id,)) for id in self.path)
        to_close = next((i for i, text in enumerate(texts) if EMPTY in text), 0)  # up to the next reserved text
        return Effect(self, None) if self.complete is not None else self._close(chosen, to_close or len(self.path))

    def after(self, id: int, chosen: Chosen) -> Constrained | None:
        """Return the state after one more token, or None if the token is not allowed or leaves too few tokens."""
        left, grammar = chosen.left - 1, self.grammar
        if self._in_text and id in grammar.vocabulary.plain and self._mask is not None and self._mask[id]:
            return self if self._needed <= left else None
        matcher = grammar.vocabulary.after(self.matcher, (id,))
        if matcher is None:
            return None
        if matcher.is_accepting():
            return replace(self, matcher=matcher, path=(), complete=len(chosen.ids) + 1)
        if self.complete is not None:
            return replace(self, matcher=matcher)
        path = grammar.vocabulary.rest_of(self.path, id, matcher) or grammar.completion(matcher, left)
        after = None if path is None else replace(self, matcher=matcher, path=path)
        return after if after and after._needed <= left else None

    def _close(self, chosen: Chosen, queue: int) -> Effect:
        id, path = self.path[0], self.path[1:]
        matcher = self.grammar.vocabulary.after(self.matcher, (id,))
        assert matcher is not None, "a path leads on"
        complete = None if path else len(chosen.ids) + 1
        after = replace(self, matcher=matcher, path=path, queue=queue - 1, complete=complete, short=True)
        return Effect(after, id, ends=not path)


def constrained(grammar: Grammar, at: int, left: int, *, short: bool = False) -> Constrained | None:
    """Return the state at the beginning of the format, after `at` tokens; None if it needs more than `left` tokens."""
    path, matcher = grammar.path, grammar.start.deep_copy()
    if len(path) > left:
        return None
    reserved = min(FIELD_TOKENS, (left - len(path)) // (grammar.fields(path) + 1))
    complete = at if matcher.is_accepting() else None
    return Constrained(grammar, short, complete, matcher=matcher, path=path, reserved=reserved)
