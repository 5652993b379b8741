"""How one reply is kept to its form: free first where the form says so, then token by token.

A guide is a value. What a pass chose makes the next one, which the sequence takes once the pass is over: a pass
that breaks, and a request that begins anew, leave nothing behind.

    Free    -> Marker   at a stop id, or when the tokens that are left are needed, if the form is forced
            -> Guided   as soon as the marker stands at a line's beginning
    Marker  -> Guided   once it is written, whatever the model would say
    Guided  -> the end  when the form is complete, and the model or the form goes on no further

Until the form is complete, only tokens that lead there are written, and only those behind which enough are left to
get there. From then on the model is free again: its first token that the form does not take ends the reply, where
the form was last complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from llguidance import LLMatcher

from sottovoce.models.engine.ending import EMPTY
from sottovoce.models.engine.grammar import ROOM, Grammar
from sottovoce.models.engine.vocabulary import Mask
from sottovoce.models.huggingface.text import BROKEN

BEFORE = r"^[ \t*_#>-]*"
"""What may stand before the marker on its line, as in "**Answer:"."""
Finish = Literal["stop", "stop_text", "length"]


@dataclass(frozen=True)
class Chosen:
    """What a pass chose for one sequence, and where it stands."""

    token: int
    """The drawn token; under a mean feed the likeliest that the form takes."""
    nearest: int | None
    """Of the mean; None where no mean was made."""
    stops: bool
    """Whether the choice is a stop."""
    ids: Sequence[int]
    """The reply so far."""
    left: int
    """Tokens that may be written, this one among them."""

    @property
    def freely(self) -> int:
        """What is said without a form."""
        return self.token if self.nearest is None else self.nearest


@dataclass(frozen=True)
class Written:
    """What becomes of it."""

    then: Guide
    id: int | None
    """The token that is written; None ends the reply before it."""
    as_token: bool = True
    """Whether it is fed as a token, under a mean feed too."""
    ends: bool = False
    """Whether the reply ends behind it."""

    @property
    def finish(self) -> Finish | None:
        """How the reply ends with it, if it does."""
        if self.id is not None and not self.ends:
            return None
        return "length" if self.then.short else "stop"


@dataclass(frozen=True, eq=False)
class Guide:
    """How far a reply is with its form."""

    grammar: Grammar
    short: bool = False
    """Whether anything was cut short because few tokens were left."""
    complete: int | None = None
    """At how many tokens of the reply the form was last complete."""

    @property
    def forced(self) -> bool:
        """Whether the next token is known, so that none needs to be chosen."""
        return False

    def mask(self) -> Mask | None:
        """The tokens that may be chosen; None where all may."""
        return None

    def next(self, chosen: Chosen) -> Written:
        """What a pass's choice becomes."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class Free(Guide):
    """Before the marker."""

    room: int
    """Tokens that marker and form need."""
    decode: Callable[[Sequence[int]], str]

    def next(self, chosen: Chosen) -> Written:
        """The choice; where the reply would end, or its one line, the marker."""
        over, freely = chosen.stops or self._breaks(chosen), Written(self, chosen.freely, as_token=False)
        if over or chosen.left <= self.room:
            if not self.grammar.form.forced:
                return Written(self, None) if over else freely
            return self._write(self.grammar.marker(self.decode(chosen.ids)), chosen, short=not over)
        if not self._may_close(chosen.freely):
            return freely
        before, text = self.decode(chosen.ids), self.decode([*chosen.ids, chosen.freely])
        found = re.search(BEFORE + re.escape(self.grammar.form.after), text, re.MULTILINE | re.IGNORECASE)
        if found is None:
            return freely
        vocabulary = self.grammar.vocabulary
        behind = vocabulary.after(self.grammar.start, vocabulary.ids(text[found.end() :]))
        begun = None if behind is None else begin(self.grammar, behind, chosen, short=False)
        if begun is None:  # the token goes on in a way that the form does not
            return self._write(vocabulary.ids(text[len(before) : found.end()]), chosen, short=False)
        return replace(freely, then=begun)

    def _breaks(self, chosen: Chosen) -> bool:
        """Whether this choice ends the line that the reply is free for; lines before the first word do not count."""
        if not self.grammar.form.one_line or "\n" not in self.decode([chosen.freely]):
            return False
        return bool(self.decode(chosen.ids).strip())

    def _write(self, marker: tuple[int, ...], chosen: Chosen, *, short: bool) -> Written:
        return Marker(self.grammar, short, queue=marker).next(chosen)

    def _may_close(self, id: int) -> bool:
        """Whether the marker may end with this token: the whole text is decoded for no other."""
        said = self.decode([id])
        return self.grammar.form.after[-1].casefold() in said.casefold() or BROKEN in said


@dataclass(frozen=True, eq=False, kw_only=True)
class Marker(Guide):
    """While the marker is written."""

    queue: tuple[int, ...]

    @property
    def forced(self) -> bool:
        """Always."""
        return True

    def next(self, chosen: Chosen) -> Written:
        """The next of its tokens."""
        id, rest = self.queue[0], self.queue[1:]
        begun = None if rest else begin(self.grammar, self.grammar.start, chosen, short=self.short)
        return Written(begun or replace(self, queue=rest), id)


@dataclass(frozen=True, eq=False, kw_only=True)
class Guided(Guide):
    """In the form."""

    matcher: LLMatcher
    path: tuple[int, ...]
    """A short way to complete it; () once it was complete."""
    room: int
    """Tokens that are kept for each text that the path leaves empty."""
    queue: int = 0
    """How many tokens of the path are written next."""

    @property
    def forced(self) -> bool:
        """While a text, or all, is closed."""
        return self.queue > 0

    def mask(self) -> Mask | None:
        """What leads on, until the form is complete."""
        if self.forced or self.complete is not None:
            return None
        mask = self.grammar.vocabulary.mask(self.matcher)
        return mask if mask.any() else None  # a limit of llguidance's: the path is left

    def next(self, chosen: Chosen) -> Written:
        """The choice where it leads on and leaves enough tokens, else the next of the path."""
        if self.forced:
            return self._close(chosen, self.queue)
        if chosen.nearest is not None and (after := self._behind(chosen.nearest, chosen)):
            return Written(after, chosen.nearest, as_token=False, ends=after.matcher.is_stopped())
        if after := self._behind(chosen.token, chosen):
            return Written(after, chosen.token, ends=after.matcher.is_stopped())
        return Written(self, None) if self.complete is not None else self._close(chosen, self._to_close())

    def _behind(self, id: int, chosen: Chosen) -> Guided | None:
        """Behind one more token; None where it does not lead on, or leaves too few."""
        matcher = self.grammar.vocabulary.after(self.matcher, (id,))
        if matcher is None:
            return None
        if matcher.is_accepting():
            return replace(self, matcher=matcher, path=(), complete=len(chosen.ids) + 1)
        if self.complete is not None:
            return replace(self, matcher=matcher)
        left, grammar = chosen.left - 1, self.grammar
        path = grammar.endings.onward(self.path, id, matcher) or grammar.ending(matcher, left)
        if path is None or len(path) + self.room * grammar.fields(path) > left:
            return None
        return replace(self, matcher=matcher, path=path)

    def _to_close(self) -> int:
        """How much of the path leads to the next text, for which tokens were kept; all of it where there is none."""
        text = b""
        for i, id in enumerate(self.path):
            text += self.grammar.vocabulary.text((id,))
            if EMPTY in text:
                return i or len(self.path)
        return len(self.path)

    def _close(self, chosen: Chosen, queue: int) -> Written:
        id, path = self.path[0], self.path[1:]
        matcher = self.grammar.vocabulary.after(self.matcher, (id,))
        assert matcher is not None, "a path leads on"
        complete = None if path else len(chosen.ids) + 1
        after = replace(self, matcher=matcher, path=path, queue=queue - 1, complete=complete, short=True)
        return Written(after, id, ends=not path)


def begin(grammar: Grammar, matcher: LLMatcher, chosen: Chosen, *, short: bool) -> Guided | None:
    """In the form, behind what this choice writes; None where too few tokens are left for it."""
    return guided(grammar, matcher, len(chosen.ids) + 1, chosen.left - 1, short=short)


def guided(grammar: Grammar, matcher: LLMatcher, at: int, left: int, *, short: bool = False) -> Guided | None:
    """In the form, with `at` tokens written and so many left."""
    path = grammar.path if matcher is grammar.start else grammar.ending(matcher, left)
    if path is None or len(path) > left:
        return None
    room = min(ROOM, (left - len(path)) // (grammar.fields(path) + 1))
    complete = at if matcher.is_accepting() else None
    return Guided(grammar, short, complete, matcher=matcher.deep_copy(), path=path, room=room)


def guide_of(grammar: Grammar, max_new: int, decode: Callable[[Sequence[int]], str]) -> Guide:
    """The guide of a reply that begins."""
    if grammar.form.after:
        return Free(grammar, room=grammar.room(max_new), decode=decode)
    begun = guided(grammar, grammar.start, 0, max_new)
    assert begun is not None, "checked when it was asked for"
    return begun
