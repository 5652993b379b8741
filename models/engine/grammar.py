"""A response format as a grammar over one vocabulary: its validation before decoding, and the tokens it needs."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from textwrap import shorten

from llguidance import LLMatcher
from transformers import PreTrainedTokenizerBase

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.models.engine.request import Stop
from sottovoce.models.engine.vocabulary import EMPTY, Vocabulary

LONGEST = 4096  # tokens; longer completions are not searched for
# Tokens that each field of an answer has at the end of a reply, beyond the shortest; at most a quarter of all
FIELD_TOKENS = 16
SHOWN = 80  # characters of a format in a message
JSON = {  # no spaces but those of `json.dumps`: a model could repeat them forever
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    # Half of a surrogate pair is not valid text, and models write \boxed and \frac.
    "json_allowed_escapes": '"\\nrt',
}


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
            return self.vocabulary.matcher(_grammar(self.form))
        except UsageError as error:
            what = "schema" if self.form.schema is not None else "pattern"
            raise UsageError(f"a reply cannot be constrained to this {what}: {error}") from error

    @cached_property
    def path(self) -> tuple[int, ...]:
        """A short text in the format, as tokens."""
        path = self.completion(self.start, LONGEST)
        if path is None:
            raise UsageError(f"no text of this format was found: {_shown(self.form)}; use another format or none")
        return path

    def completion(self, matcher: LLMatcher, most: int) -> tuple[int, ...] | None:
        """Return a short completion of at most `most` tokens from a matcher; None if none was found."""
        return self.vocabulary.completion(matcher, most, json=self.form.schema is not None)

    @cached_property
    def least(self) -> int:
        """The number of tokens that the format needs: for choices that of the longest, so that all can be written."""
        return max(map(self._length, self.form.choices), default=len(self.path))

    def fields(self, path: Sequence[int]) -> int:
        """Return the number of texts that a completion leaves empty."""
        return self.vocabulary.text(path).count(EMPTY)

    def in_text(self, path: Sequence[int]) -> bool:
        """Return True if a state with this completion is within a free text of a flat object, after a whole character.

        The completion tells: it closes the text and writes all later fields. From there, whole characters other than
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
        """Return the tokens that lead from a free reply to its format, on a line of their own."""
        return self.vocabulary.ids(self.form.after if before[-1:] in ("", "\n") else "\n" + self.form.after)

    def reserved(self, max_new: int) -> int:
        """Return the tokens reserved for marker and format at the end of a reply of `max_new` tokens."""
        wanted = len(self.path) + FIELD_TOKENS * max(self.fields(self.path), 1)
        marker = max(len(self.marker(before)) for before in ("", "?"))
        return marker + max(self.least, min(wanted, max_new // 4))

    def check(self, stop: Stop) -> None:
        """Refuse a format that does not fit in the reply, or that a stop string prevents."""
        form, before = self.form, f"\n{self.form.after} "
        marker = len(self.marker("")) if form.after else 0
        if marker + self.least > stop.max_new:
            if form.choices:
                what = f"the choice {shorten(max(form.choices, key=self._length), SHOWN)!r}"
            else:  # shortened: a pattern of many actions would fill screens
                shortest = self.vocabulary.text(self.path).decode(errors="replace").strip()
                what = f"the format, at its shortest {shorten(shortest, SHOWN)},"
            behind = f" after {form.after!r}" if marker else ""
            raise UsageError(
                f"{what}{behind} takes {marker + self.least} tokens, but max_tokens is {stop.max_new}; raise it"
            )
        if form.after and (cut := next((text for text in stop.texts if text in before), None)):
            raise UsageError(f"the stop string {cut!r} would end the reply before its format, {before!r}; leave it out")

    def _length(self, choice: str) -> int:
        alone = self.vocabulary.matcher(_lark(json.dumps(choice), self.form))
        path = self.completion(alone, LONGEST)
        if path is None:
            raise UsageError(f"the model's tokenizer cannot write the choice {choice!r}; reword it")
        return len(path)


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


def _grammar(form: Form) -> str:
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


def _shown(form: Form) -> str:
    shown = json.dumps(form.schema) if form.schema is not None else f"'{form.pattern}'"
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]} ..."
