"""A form as a grammar over one vocabulary: what is refused before decoding begins, and what room it needs."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from textwrap import shorten

from llguidance import LLMatcher
from transformers import PreTrainedTokenizerBase

from sottovoce.errors import UsageError
from sottovoce.form import Form, Schema
from sottovoce.models.engine.ending import EMPTY, Endings
from sottovoce.models.engine.request import Stop
from sottovoce.models.engine.vocabulary import Vocabulary

LONGEST = 4096  # tokens: what takes more is not looked for
ROOM = (
    16  # tokens that each field of an answer has at the end of a reply, beyond the shortest; at most a quarter of all
)
SHOWN = 80  # characters of a form in a message
JSON = {  # no spaces but those of `json.dumps`: a model could go on with them for ever
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    # Half of a surrogate pair would be no text, and models write \boxed and \frac.
    "json_allowed_escapes": '"\\nrt',
}


@dataclass(frozen=True, eq=False)
class Grammar:
    """One form for one vocabulary; whoever asks for an equal form gets the same."""

    form: Form
    vocabulary: Vocabulary
    endings: Endings

    @cached_property
    def start(self) -> LLMatcher:
        """Where the form begins; to be copied, never fed or asked: threads that did so would meet in it.

        Raises:
            UsageError: llguidance takes no such schema or pattern.
        """
        try:
            return self.vocabulary.matcher(_grammar(self.form))
        except UsageError as error:
            what = "schema" if self.form.schema is not None else "pattern"
            raise UsageError(f"a reply cannot be held to this {what}: {error}") from error

    @cached_property
    def path(self) -> tuple[int, ...]:
        """A short way to write it.

        Raises:
            UsageError: there is none.
        """
        path = self.ending(self.start, LONGEST)
        if path is None:
            raise UsageError(f"no text was found in this form: {_shown(self.form)}; ask for another, or without one")
        return path

    def ending(self, matcher: LLMatcher, most: int) -> tuple[int, ...] | None:
        """A short way to complete it from there, of at most so many tokens; None where none was found."""
        return self.endings.find(matcher, most, json=self.form.schema is not None)

    @cached_property
    def least(self) -> int:
        """Tokens that it takes at least: of choices the longest, so that none is out of reach."""
        return max(map(self._written, self.form.choices), default=len(self.path))

    def fields(self, path: Sequence[int]) -> int:
        """Texts that a short way to the end leaves empty."""
        return self.vocabulary.text(path).count(EMPTY)

    def marker(self, before: str) -> tuple[int, ...]:
        """What brings a free reply to its form, on a line of its own."""
        return self.vocabulary.ids(self.form.after if before[-1:] in ("", "\n") else "\n" + self.form.after)

    def room(self, max_new: int) -> int:
        """Tokens that are kept free for marker and form: the free part of a reply of `max_new` is no longer."""
        wanted = len(self.path) + ROOM * max(self.fields(self.path), 1)
        marker = max(len(self.marker(before)) for before in ("", "?"))
        return marker + max(self.least, min(wanted, max_new // 4))

    def check(self, stop: Stop) -> None:
        """Refuse a form that the reply cannot hold, or that a stop string keeps from being written.

        Raises:
            UsageError: says how many tokens it takes, and of which choice; or which string.
        """
        form, before = self.form, f"\n{self.form.after} "
        marker = len(self.marker("")) if form.after else 0
        if marker + self.least > stop.max_new:
            what = f"the choice {shorten(self._longest, SHOWN)!r}" if form.choices else f"the form, {self._shortest},"
            behind = f" behind {form.after!r}" if marker else ""
            raise UsageError(
                f"{what}{behind} takes {marker + self.least} tokens, but max_tokens is {stop.max_new}; raise it"
            )
        if form.after and (cut := next((text for text in stop.texts if text in before), None)):
            raise UsageError(f"the stop string {cut!r} would end the reply before its form, {before!r}; leave it out")

    @property
    def _shortest(self) -> str:
        """What is written in it if tokens run out, as a reader knows it: a pattern of many actions fills screens."""
        text = self.vocabulary.text(self.path).decode(errors="replace").strip()
        return f"at its shortest {shorten(text, SHOWN)}"

    @property
    def _longest(self) -> str:
        return max(self.form.choices, key=self._written)

    def _written(self, choice: str) -> int:
        """Tokens of one choice."""
        alone = self.vocabulary.matcher(_lark(json.dumps(choice), self.form))
        path = self.ending(alone, LONGEST)
        if path is None:
            raise UsageError(f"the model's tokenizer cannot write the choice {choice!r}; say it otherwise")
        return len(path)


class Grammars:
    """The grammars over one tokenizer's vocabulary."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Read the tokenizer; takes up to 2 s. Errors: see `Vocabulary`."""
        vocabulary = Vocabulary(tokenizer)
        self._parts = vocabulary, Endings(vocabulary)
        self.of = lru_cache(64)(self._of)
        """By the key of a form."""

    def _of(self, key: str) -> Grammar:
        return Grammar(Form(**json.loads(key)), *self._parts)


_known: weakref.WeakKeyDictionary[PreTrainedTokenizerBase, Grammars] = weakref.WeakKeyDictionary()
_reading = threading.Lock()


def grammar_of(form: Form, tokenizer: PreTrainedTokenizerBase) -> Grammar:
    """The grammar of a form, "unknown" offered where it does not refuse that; the same one for equal forms.

    Raises:
        UsageError: the tokenizer is none of those whose tokens are known as bytes.
    """
    with _reading:
        if tokenizer not in _known:
            _known[tokenizer] = Grammars(tokenizer)
    return _known[tokenizer].of(form.offered.key)


def _grammar(form: Form) -> str:
    """As llguidance takes it."""
    if form.pattern is not None:
        space = " " if _spaced(form) else ""
        grammar = LLMatcher.grammar_from_regex(f"{space}(?:{form.pattern})")
    elif form.schema is not None:
        grammar = _lark(f"%json {json.dumps(_compact(form.schema))}", form)
    else:
        grammar = _lark(" | ".join(map(json.dumps, form.choices)), form)
    return str(grammar)


def _lark(rule: str, form: Form) -> str:
    return str(LLMatcher.grammar_from_lark(f'start: " " body\nbody: {rule}' if _spaced(form) else f"start: {rule}"))


def _spaced(form: Form) -> bool:
    return form.spaced or bool(form.after)


def _compact(schema: Schema) -> Schema:
    return {**schema, "x-guidance": {**JSON, **schema.get("x-guidance", {})}}


def _shown(form: Form) -> str:
    """A form in a message, shortened."""
    shown = json.dumps(form.schema) if form.schema is not None else f"'{form.pattern}'"
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]} ..."
