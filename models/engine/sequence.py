"""One request on its way through the engine: its prompt, its records, its stop conditions, and its reply."""

from __future__ import annotations

import traceback
from bisect import bisect_left, bisect_right
from collections import abc
from concurrent.futures import Future
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedTokenizerBase

from sottovoce.core.errors import EngineError, SottovoceError
from sottovoce.models.engine.cache import KVCache
from sottovoce.models.engine.lookup import MAX_PROPOSED, Draft, Lookup
from sottovoce.models.engine.recorder import Pending, Recorder
from sottovoce.models.engine.request import Cached, Finish, KeysValues, Origin, Reply, Request, Usage, id_keys, row_keys
from sottovoce.models.engine.sampling import Chosen, Uniforms
from sottovoce.models.huggingface.text import Detokenizer, TextStream, first_stop, overlapping, partial_stop, settled

if TYPE_CHECKING:
    from sottovoce.models.engine.grammar import Effect, Grammar


class Sequence:
    """A request and the future of its reply; it may be started several times."""

    def __init__(
        self,
        request: Request,
        tokenizer: PreTrainedTokenizerBase,
        keys: abc.Sequence[bytes] = (),
        blocks: abc.Sequence[bytes] = (),
        grammar: Grammar | None = None,
        on_text: abc.Callable[[str], None] | None = None,
    ) -> None:
        """Keep the request; `start` begins it.

        Args:
            request: The request.
            tokenizer: Decodes the reply.
            keys: Keys of the prompt's positions, for the prefix cache.
            blocks: Digests of the prompt's blocks before its last position, which is never taken from the cache.
            grammar: The grammar of the response format.
            on_text: Called from the engine's thread with the reply's text so far whenever it grows.
        """
        self.request, self.length = request, request.length
        self.future: Future[Reply] = Future()
        self.prompt_keys, self.blocks, self._grammar, self._on_text = keys, blocks, grammar, on_text
        self._detokenizer = Detokenizer(tokenizer, special=request.stop.special)
        self._stop_ids, self._by_argmax = frozenset(request.stop.ids), request.stop.by == "argmax"
        self.reads_along = on_text is not None or bool(request.stop.texts) or grammar is not None
        """True if its text is needed at every step: for streaming, stop strings or a response format."""

    def start(self, pending: Pending, last_layer: int) -> None:
        """Start or restart; `pending` takes means until their nearest tokens are looked up."""
        self.ahead: abc.Sequence[int] = ()
        """Positions of the prompt that the next pass reads."""
        self.to_paste: list[tuple[int, Cached, int]] = []
        """Cached pieces that the next pass pastes: from which column, and from which of their positions on."""
        self.filled = self.reused = 0
        """Columns in use in its slot, and how many of the prompt's columns came from the prefix cache."""
        self.private = False
        """True if the model changed or had others' hooks while it was read: its keys and values are not shared."""
        self.n = self.passes = 0
        """Number of reply tokens so far, and of the passes that they were chosen from, or that came after the last."""
        self.next_id = -1
        self.next_row: torch.Tensor | None = None
        """The next input: a token, or in its place a mean or a thought (E,)."""
        self.thoughts: list[torch.Tensor] = []
        """The inputs (E,) of the latent steps so far."""
        self._cache: KeysValues | None = None
        self.finish: Finish | None = None
        self.error: SottovoceError | None = None
        self._uniforms, self._text = Uniforms(self.request.sampling.seed), TextStream(self._detokenizer)
        grammar, record, feed = self._grammar, self.request.record, self.request.feed
        most, decode = self.request.stop.max_new, self._detokenizer.text
        self.constraint = grammar.begin(most, decode) if grammar else None
        """The state of constrained decoding; None without a response format."""
        self._completed = [] if self.constraint is None or self.constraint.complete is None else [0]  # after n tokens
        self._own_table, self._shown = pending.table, 0
        self._prefixes = [(0, 0)]
        """For each number of streamed tokens: the longest length of the text so far, and that of its settled part."""
        tables = (pending.table.key, *(each.key for each in feed.tables)) if feed.kind == "mean" else ()
        self.recorder = Recorder(record, pending, last_layer if record.final_norm else None, tables)
        self.lookup = Lookup(self.request.prompt)

    def settle(self, ended: Reply | SottovoceError | None) -> None:
        """Set the future's result, or notify callers that wait for several futures that it was cancelled."""
        future = self.future
        if (future.done() and not future.cancelled()) or not future.set_running_or_notify_cancel():
            return
        if isinstance(ended, Reply):
            future.set_result(ended)
        else:
            future.set_exception(ended or EngineError("the request was cancelled"))

    def take_chunk(self, most: int, block: int = 0) -> int:
        """Set the next part of the prompt to read, with the cached pieces before and between; return its positions.

        With a `block`, it reads no further than a multiple of it, and only up to the next cached piece. Positions that
        see later ones are read in one pass.
        """
        if self.request.sight:
            most, block = self.length, 0
        filled, to_read = self.filled, self.request.to_read
        first = bisect_left(to_read, filled)
        self.ahead = to_read[first : first + most]
        if block:
            start = self.ahead[0]
            ahead = to_read[first : first + block - start % block]
            self.ahead = [at for i, at in enumerate(ahead, start) if at == i]
        end = self.ahead[-1]
        self.to_paste = [
            (max(start, filled), piece, max(filled - start, 0))
            for start, piece in self.request.cached
            if start < end and filled < start + len(piece)
        ]
        return len(self.ahead)

    @property
    def pasted(self) -> int:
        """Number of positions that the next pass pastes."""
        return sum(len(piece) - first for _, piece, first in self.to_paste)

    def after(self, n: int) -> int:
        """Return the filled columns after a pass over n positions."""
        return self.filled + n if self.filled >= self.length else self.ahead[-1] + 1

    @property
    def thinks(self) -> bool:
        """True if a latent step comes next."""
        return len(self.thoughts) < self.request.steps

    @property
    def ids(self) -> list[int]:
        """The tokens of the reply so far; for means the nearest tokens, and their lookup takes time."""
        return self.recorder.known_ids(self.n)

    @property
    def ended(self) -> bool:
        """True once it needs no further forward pass."""
        if self.error is not None:
            return True
        needs_state = bool(self.request.record.layers) and self.passes < self.n + 1
        filled = self.length + len(self.thoughts) + self.n
        needs_cache = "words" in self.request.record.cache and self.filled < filled
        return self.finish is not None and not needs_state and not needs_cache

    @property
    def goes_on(self) -> bool:
        """True if it decodes for two more passes at least, unless it stops."""
        return self.finish is None and self.n + 1 < self.request.stop.max_new and not self.future.done()

    def uniform(self, ahead: int = 0) -> float:
        """Return the uniform number for drawing the next token, or the token `ahead` places after it."""
        return self._uniforms.at(self.n + ahead) if self.request.sampling.temperature > 0 else 0.0

    def propose(self) -> tuple[abc.Sequence[int], float]:
        """Return tokens that may come next, without the last that it has room for, and the chance of each."""
        room = 0 if self._by_argmax or self.finish else self.request.stop.max_new - self.n - 1
        return self.lookup.propose(self.recorder.ids, min(room, MAX_PROPOSED))

    def follow(self, ids: abc.Sequence[int]) -> Draft:
        """Return proposed tokens before the first one that would end the reply, or that its format does not allow."""
        state, states = self.constraint, [self.constraint]
        for n, id in enumerate(ids):
            if id in self._stop_ids:
                break
            if state is not None:
                left = self.request.stop.max_new - self.n - n
                effect = state.next(Chosen(id, None, False, [*self.ids, *ids[:n]], left))
                if effect.id != id or effect.finish:
                    break
                state = effect.then
            states.append(state)
        return Draft(tuple(ids[: len(states) - 1]), states)

    @property
    def complete(self) -> int | None:
        """The number of its tokens at which its format was last complete; None if never, or without a format."""
        before = bisect_right(self._completed, self.n)
        return self._completed[before - 1] if before else None

    def write(self, id: int, best: int, *, averaged: bool) -> Effect:
        """Return the format's effect on a pass's choice; if `averaged`, its token is the nearest one to a mean.

        The sequence itself does not change.
        """
        assert self.constraint is not None, "asked only within a format"
        token = best if self.request.feed.kind == "mean" else id
        left, stops = self.request.stop.max_new - self.n, self._stops(id, best)
        return self.constraint.next(Chosen(token, id if averaged else None, stops, self.ids, left))

    def _stops(self, id: int, best: int) -> bool:
        return (best if self._by_argmax else id) in self._stop_ids

    def read(self, n: int) -> None:
        """Note that n more positions were read, of the prompt or of the reply."""
        if self.filled < self.length:
            self.reused += self.pasted
            self.filled = self.after(n)
            self.to_paste.clear()
        else:
            self.filled += n

    def keys(self) -> list[bytes]:
        """Return the keys of all positions read so far."""
        fed = max(self.filled - self.length, 0)
        thoughts = self.thoughts[:fed]
        keys, n = [*self.prompt_keys, *(row_keys(torch.stack(thoughts)) if thoughts else ())], fed - len(thoughts)
        if self.request.feed.kind == "token":
            return [*keys, *id_keys(self.recorder.ids[:n])]
        means = self.recorder.mean_rows(n)  # each is recorded before it is read
        return [*keys, *(row_keys(means[self._own_table.key]) if means else ())]

    def think(self, thought: torch.Tensor) -> None:
        """Take the input (E,) of a latent step."""
        self.thoughts.append(thought)
        self.next_row = thought

    def keep(self, id: int, best: int = -1, effect: Effect | None = None) -> None:
        """Append the token of a pass (LATER if it is not looked up), and set `finish` if the reply ends with it.

        `best` is the argmax of the logits, and `effect` the effect of the response format.
        """
        self.passes += 1
        if self.finish is not None:  # it only waited for its last state
            return
        if self.request.stop.max_new == 0:
            self.finish = "stop"
            return
        self.next_id, self.next_row = id, None
        if effect is not None:
            self.constraint, self.next_id = effect.then, id if effect.id is None else effect.id
            kept, self.finish = effect.id is not None, effect.finish
            if (complete := effect.then.complete) is not None and complete not in self._completed[-1:]:
                self._completed.append(complete)
        elif self._stops(id, best):
            kept, self.finish = self.request.stop.keep, "stop"
        else:
            kept = True
        if kept:
            self.n += 1
            self.recorder.ids.append(self.next_id)
        if self.reads_along and (self.finish is None or effect is not None):
            self.finish = self._cut() or self.finish  # a stop string ends a format earlier
        if self.finish is None and self.n >= self.request.stop.max_new:
            self.finish = "length"
        if self.finish and self.complete is not None:
            self.n = self.complete
        if self._on_text is not None:
            self._show(self._on_text)

    def fail(self, error: Exception) -> None:
        """End without a reply; the values read may not be finite."""
        self.finish, self.error = None, failure(error)

    def take_cache(self, kv: KVCache, slot: int) -> None:
        """Copy the keys and values that are recorded of its slot."""
        counts: list[tuple[Origin, int]] = [(piece.origin, len(piece)) for piece in self.request.prompt]
        counts += [("thoughts", len(self.thoughts)), ("words", self.n)]
        origins = [origin for origin, n in counts for _ in range(n)]
        wanted = self.request.record.cache
        if wanted:
            kept = kv.keys_values(slot, [at for at, origin in enumerate(origins) if origin in wanted])
            masked = torch.zeros(len(kept.values), len(origins), dtype=torch.bool)
            for layer, ranges in self.request.hidden.items():
                for start, end in ranges:
                    masked[layer, start:end] = True
            masked = masked[:, kept.at]
            known = tuple(each for each in wanted if each in origins)
            ids = [*self.request.inputs, *[0] * len(self.thoughts), *self.recorder.known_ids(self.n)]
            text = [id if origin in ("text", "words") else -1 for id, origin in zip(ids, origins, strict=True)]
            keys = kept.keys if self.request.record.keys else kept.keys[:, :, :0]
            self._cache = replace(
                kept,
                keys=keys,
                origins=known,
                masked=masked if masked.any() else None,
                text=torch.tensor(text)[kept.at],
            )

    def _cut(self) -> Finish | None:
        """Cut the reply before the first token that overlaps a stop string."""
        stops = self.request.stop.texts
        if not stops:
            return None
        at = first_stop(self._text.text(self.ids), stops)
        if at is None:
            return None
        self.n, _ = overlapping(self._detokenizer.spans(self.ids), (at, at + 1))
        return "stop_text"

    def _show(self, on_text: abc.Callable[[str], None]) -> None:
        text = self._text.text(self.ids)
        if len(self._prefixes) == self.n:
            self._prefixes.append((max(len(text), self._prefixes[-1][0]), len(settled(text))))
        end = len(text)
        if self.finish is None:
            end = self._settled(settled(text))
            if self.complete not in (None, self.n):  # what is kept if the format is never completed again
                end = min(end, len(self._detokenizer.text(self.ids[: self.complete])))
        if end > self._shown:
            on_text(text[:end])
            self._shown = end

    def _settled(self, text: str) -> int:
        """Return the length of text that no later token can remove: a stop string removes tokens that it overlaps."""
        partial = partial_stop(text, self.request.stop.texts)
        if not partial:
            return len(text)
        before = bisect_right(self._prefixes, len(text) - partial, key=itemgetter(0)) - 1  # tokens that end before it
        return self._prefixes[before][1]

    def reply(self) -> Reply | SottovoceError | None:
        """Return the reply, with tensors on the CPU, or the error; None if the request was cancelled."""
        if self.error or self.finish is None:
            return self.error
        n, kept = self.n, self.recorder
        try:
            return Reply(
                ids=tuple(self.ids),
                finish=self.finish,
                usage=Usage(self.length, n, self.reused),
                complete=self.complete is not None,
                rows={key: means.cpu() for key, means in kept.mean_rows(n).items()},
                states=kept.states(n + 1),
                stats=kept.stats(n),
                sparse=kept.sparse(n),
                cache=self._cache,
                thoughts=torch.stack(self.thoughts).cpu() if self.thoughts else None,
            )
        except Exception as error:  # memory may be too short even for this
            return failure(error)


def failure(error: BaseException) -> SottovoceError:
    """Return an error of ours unchanged, and any other as the cause of an EngineError."""
    let_go(error)
    if isinstance(error, SottovoceError):
        return error
    wrapped = EngineError(f"the model failed on this request: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def let_go(error: BaseException) -> None:
    """Replace an error's tracebacks with notes, since a traceback's frames keep the engine's memory alive."""
    seen: BaseException | None = error
    while seen is not None:
        if seen.__traceback__ is not None:
            seen.add_note("".join(traceback.format_tb(seen.__traceback__)))
            seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
