"""Continuous batching: rows take slots, read their prompts in bounded chunks, decode, and leave.

A turn seats waiting requests, reads one chunk of prompts, and makes one step with the rows that
decode: each feeds what it chose, and leaves as soon as it has ended.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import TypeVar

import torch

from sottovoce.errors import EngineError, SottovoceError
from sottovoce.models import reading
from sottovoce.models.decode import choose
from sottovoce.models.memory import amount, out_of_memory
from sottovoce.models.network import Network
from sottovoce.models.passes import Pass
from sottovoce.models.reading import Shape
from sottovoce.models.row import Choice, Job, Row
from sottovoce.models.seats import Limits, Seats
from sottovoce.models.tally import Tally
from sottovoce.models.text import Detokenizer

CHUNK = 1024  # positions of prompts that are read between two steps
CALM = 256  # steps after memory ran out until twice as many rows are tried
UNWATCHED = 4  # times as many while no row decodes, so that none waits for its next step
Result = TypeVar("Result")
Chosen = tuple[list[Choice], torch.Tensor]


class Batch:
    """The requests that are under way on one network, and those that wait. One thread uses it."""

    def __init__(
        self,
        network: Network,
        detokenizers: Mapping[bool, Detokenizer],
        limits: Limits,
        tally: Tally,
        cancels: threading.Event | None = None,
    ) -> None:
        """Start empty; no memory is taken before the first row. `cancels` is set when a job was cancelled."""
        self.waiting: deque[Job] = deque()
        self._network, self._limits, self._tally = network, limits, tally
        self._detokenizers, self._cancels = detokenizers, cancels or threading.Event()
        self._last_layer = len(network.layers) - 1
        self._shape = Shape.EXACT if limits.exact else Shape.STEPPED if network.captures else Shape.FREE
        self._seats = Seats(network, limits)
        self._most = limits.rows
        """Rows at a time: fewer for a while after memory ran out."""
        self._calm = 0
        self._logits = torch.empty(0)
        """Of the rows that decode (ready, V)."""

    @property
    def busy(self) -> bool:
        """True while there is anything to do."""
        return bool(self._seats.rows or self.waiting)

    @torch.inference_mode()
    def turn(self) -> None:
        """Seat, read a chunk, make a step."""
        self._drop_cancelled()
        if self.waiting and len(self._seats.rows) < self._most:
            self._network.renew()
        self._seats.look()
        self._seat()
        self._read_prompts()
        self._step()
        self._tally.hold(self._seats.nbytes)
        self._calm += 1
        if not self.busy:
            self._seats.rest()
            self._most = self._limits.rows
        elif self._calm % CALM == 0:
            self._most = min(2 * self._most, self._limits.rows)

    def take(self, job: Job) -> None:
        """Let a job wait for a seat."""
        self.waiting.append(job)
        if job.cancelled():  # before it came here
            self._cancels.set()

    @torch.inference_mode()
    def fail(self, error: Exception) -> None:
        """End all that is under way with an error, and begin anew without what it may have left."""
        rows = [*self._seats.rows, *map(self._row, self.waiting)]
        self.waiting.clear()
        self._seats = Seats(self._network, self._limits)
        for row in rows:
            self._fail(row, error)

    # Seats

    def _drop_cancelled(self) -> None:
        if not self._cancels.is_set():
            return
        self._cancels.clear()
        gone = {i: row for i, row in enumerate(self._seats.rows) if row.job.cancelled()}
        if gone:
            self._logits = self._logits[self._seats.remove(list(gone))]
        left = dict.fromkeys(job for job in self.waiting if job.cancelled())  # asked once: it may be so any time
        self.waiting = deque(job for job in self.waiting if job not in left)
        for row in [*gone.values(), *map(self._row, left)]:
            self._done(row)

    def _seat(self) -> None:
        """First come, first served; but who shares a beginning with a prompt that is being read waits for it."""
        seats = self._seats
        coming = {digest: row.length - row.filled for row in seats.rows[seats.ready :] for digest in row.job.blocks}
        held: list[Job] = []
        try:
            while self.waiting and len(seats.rows) < self._most and self._seat_first(coming, held):
                pass
        finally:
            self.waiting.extendleft(reversed(held))

    def _seat_first(self, coming: dict[bytes, int], held: list[Job]) -> bool:
        """Seat who waits first, or hold it back, or end it; False where it must wait for room. It waits until then."""
        seats, job = self._seats, self.waiting[0]
        end: Row | None = None
        if job.cancelled():
            end = self._row(job)
        elif self._shares(job, coming):
            held.append(job)
        elif seats.room_for(job, len(self.waiting) - 1):
            row = self._take(job)
            coming |= dict.fromkeys(job.blocks, row.length - row.filled)
        elif seats.rows:
            return False
        else:
            end = self._row(job)
            end.error = self._too_large(job)
        self.waiting.popleft()
        if end is not None:
            self._done(end)
        return True

    def _shares(self, job: Job, coming: Mapping[bytes, int]) -> bool:
        """True where a prompt that is being read will serve this one too, soon or for at least half of its unread part.

        `coming` has the blocks of those prompts, and how many positions are still to be read with each.
        """
        prefix = self._seats.prefix
        known = prefix.known(job.blocks)
        shared = list(takewhile(coming.__contains__, job.blocks[known:]))
        if not shared or not prefix.budget:
            return False
        soon = coming[shared[0]] <= CHUNK
        return soon or 2 * len(shared) * prefix.block >= job.request.length - known * prefix.block

    def _take(self, job: Job) -> Row:
        row = self._row(job)
        self._seats.take(row)
        self._tally.prompt += row.length
        self._tally.reused += row.reused
        return row

    def _row(self, job: Job) -> Row:
        return Row(job, self._detokenizers, self._last_layer)

    def _too_large(self, job: Job) -> EngineError:
        return EngineError(
            f"a prompt of {job.request.length} tokens and a reply of up to {job.request.stop.max_new} need "
            f"{amount(self._seats.alone_takes(job))} for keys and values, but the budget is "
            f"{amount(self._seats.budget)}; shorten the prompt, lower max_tokens, or raise it (`memory`)"
        )

    # Prompts

    def _read_prompts(self) -> None:
        """One chunk of the prompts that are not read yet, shared among them."""
        first, end = self._seats.ready, len(self._seats.rows)
        if first == end:
            return
        if self._limits.exact:
            self._read_safely(first, first + 1, reading.ROUND)
            return
        chunk = CHUNK if first else CHUNK * UNWATCHED
        if self._network.attention.alone:
            end = first + 1
        self._read_safely(first, end, max(chunk // (end - first), 1))

    def _read_safely(self, first: int, end: int, chunk: int) -> None:
        """As `_read`; where it breaks, row by row, so that only the faulty one fails."""
        rows = self._seats.rows[first:end]
        try:
            self._read(first, end, chunk)
        except Exception as error:  # whatever breaks in a model's own code must reach its request
            if self._made_room(error):
                return  # the next turn reads on
            if len(rows) == 1:
                self._end({first: error})
                return
            for row in rows:
                if row in self._seats.rows:  # not sent back, as memory ran out, since
                    at = self._seats.rows.index(row)
                    self._read_safely(at, at + 1, chunk)

    def _read(self, first: int, end: int, chunk: int) -> None:
        seats, rows = self._seats, self._seats.rows[first:end]
        read = reading.prompts(self._network, seats.slots, first, rows, chunk, exact=self._limits.exact)
        layers = reading.recorded(rows, self._last_layer)
        seen = self._network.forward(read, layers, reading.edits(rows, read))
        self._tally.passes += 1
        for i, row in enumerate(rows):
            row.filled = min(row.filled + chunk, row.length)
            if row.filled == row.length:
                row.see(i, seen.states)
                new = seen.logits[i : i + 1]
                self._logits = torch.cat([self._logits, new]) if seats.ready else new
                seats.make_ready(first + i)

    # Steps

    def _step(self) -> None:
        """Choose what each row feeds next, let go of those that end, read the choices of the others."""
        chosen = self._attempt(self._choose, self._choose_apart)
        if chosen is None:
            return
        choices, inputs = chosen
        self._tally.step(len(choices))
        for i, (row, choice) in enumerate(zip(self._seats.rows, choices, strict=False)):
            if not row.ids and choice.id >= 0:  # its prompt left sound numbers, so it may serve others
                self._seats.remember(i, replied=False)
            _keep(row, choice)
        stay = self._leave()
        if stay:
            self._feed(inputs if len(stay) == len(choices) else inputs[stay])

    def _choose(self) -> Chosen:
        ready = self._seats.ready
        return self._choose_for(self._seats.rows[:ready], self._logits[:ready])

    def _choose_for(self, rows: Sequence[Row], logits: torch.Tensor) -> Chosen:
        return choose(self._network, rows, logits, self._limits.rows if self._limits.exact else 0)

    def _choose_apart(self) -> Chosen:
        rows, logits = self._seats.rows[: self._seats.ready], self._logits
        parts = self._apart(lambda i: self._choose_for(rows[i : i + 1], logits[i : i + 1]))
        inputs = [part for _, part in parts]
        if any(part.dim() == 2 for part in inputs):
            inputs = [part if part.dim() == 2 else self._network.embed(part) for part in inputs]
        return [choice for choices, _ in parts for choice in choices], torch.cat(inputs) if inputs else logits[:0]

    def _feed(self, inputs: torch.Tensor) -> None:
        layers = reading.recorded(self._seats.rows[: self._seats.ready], self._last_layer)
        seen = self._attempt(lambda: self._read_step(inputs, layers), lambda: self._read_apart(inputs, layers))
        if seen is None:
            return
        self._logits = seen.logits[: self._seats.ready]
        for i, row in enumerate(self._seats.rows[: self._seats.ready]):
            row.read()
            row.see(i, seen.states)

    def _read_step(self, inputs: torch.Tensor, layers: Sequence[int]) -> Pass:
        ready = self._seats.ready
        return self._read_for(self._seats.rows[:ready], inputs[:ready], layers)

    def _read_for(self, rows: Sequence[Row], inputs: torch.Tensor, layers: Sequence[int]) -> Pass:
        step = reading.step(self._seats.slots, rows, inputs, self._seats.span, self._shape)
        return self._network.step(step, layers)

    def _read_apart(self, inputs: torch.Tensor, layers: Sequence[int]) -> Pass:
        parts = self._apart(lambda i: self._read_first(i, inputs[i : i + 1], layers))
        states = {layer: torch.cat([part.states[layer][:1] for part in parts]) for layer in layers if parts}
        return Pass(torch.cat([part.logits[:1] for part in parts]) if parts else self._logits[:0], states)

    def _read_first(self, i: int, inputs: torch.Tensor, layers: Sequence[int]) -> Pass:
        """Read one row as the first of a step, where it makes the pass that it would make without company."""
        rows, slots = self._seats.rows, self._seats.slots
        written = max(rows[0].filled, rows[i].filled) + 1
        slots.swap(0, i, written)
        try:
            return self._read_for([rows[i]], inputs, layers)
        finally:
            slots.swap(0, i, written)

    def _leave(self) -> list[int]:
        """Let go of the rows that are done; returns the former places of those that stay, in their new order."""
        seats = self._seats
        gone = {i: row for i, row in enumerate(seats.rows[: seats.ready]) if row.left}
        if not gone:
            return list(range(seats.ready))
        for i, row in gone.items():
            if row.finish is not None and not self._limits.exact:
                seats.remember(i, replied=True)
        stay = seats.remove(list(gone))
        for row in gone.values():
            self._done(row)
        return stay

    # What goes wrong

    def _attempt(self, act: Callable[[], Result], apart: Callable[[], Result]) -> Result | None:
        """Do a part of a step with the rows that decode, or where it breaks `apart`; None where no row is left."""
        while self._seats.ready:
            try:
                return act()
            except Exception as error:  # see _read_safely
                if self._made_room(error):
                    continue
            done = apart()
            return done if self._seats.ready else None
        return None

    def _apart(self, act: Callable[[int], Result]) -> list[Result]:
        """Do something row by row: those that break fail; of the others what came of it, in their new order."""
        done: dict[int, Result] = {}
        broken: dict[int, Exception] = {}
        for i in range(self._seats.ready):
            try:
                done[i] = act(i)
            except Exception as error:  # see _read_safely
                broken[i] = error
        order = self._end(broken)
        return [done[i] for i in order]

    def _end(self, broken: Mapping[int, Exception]) -> list[int]:
        """Take out rows that failed; returns the former places of those that decode, in their new order."""
        rows = {i: self._seats.rows[i] for i in broken}
        for row in rows.values():
            row.finish = None
        order = self._seats.remove(list(broken))
        for i, row in rows.items():
            self._fail(row, broken[i])
        return order

    def _made_room(self, error: Exception) -> bool:
        """After memory ran out: give up prefixes; then the later half of the rows begins anew once there is room."""
        seats = self._seats
        if not out_of_memory(error) or not (seats.prefix.nbytes or len(seats.rows) > 1):
            return False
        _let_go(error)
        if seats.prefix.nbytes:
            seats.prefix.shrink(0)
            return True
        self._most, self._calm = -(-len(seats.rows) // 2), 0
        back = seats.rows[self._most :]
        seats.remove(range(self._most, len(seats.rows)))
        self._tally.restarts += len(back)
        self.waiting.extendleft(row.job for row in reversed(back))
        return True

    def _fail(self, row: Row, error: Exception) -> None:
        _let_go(error)
        row.error = error if isinstance(error, SottovoceError) else _engine_error(error)
        self._done(row)

    def _done(self, row: Row) -> None:
        self._tally.requests += 1
        row.job.done(row)


def _keep(row: Row, choice: Choice) -> None:
    try:
        row.keep(choice)
    except Exception as error:  # a listener's own: it ends its own request
        _let_go(error)
        row.finish, row.error = None, _engine_error(error)


def _let_go(error: BaseException) -> None:
    """Whoever keeps an error must not keep the engine's memory by its frames: where it arose becomes a note."""
    seen: BaseException | None = error
    while seen is not None:
        if seen.__traceback__ is not None:
            seen.add_note("".join(traceback.format_tb(seen.__traceback__)))
            seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__


def _engine_error(error: Exception) -> EngineError:
    wrapped = EngineError(f"the model failed on this request: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
