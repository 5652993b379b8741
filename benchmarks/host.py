"""The host's share of a decoding step: all but the forward pass, which costs nothing here.

On a GPU this time is spent one after another with the device, or hidden behind it; the device's own work on the
logits (drawing, means, statistics) is in these figures too, on a CPU and with few tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import torch
from transformers import PreTrainedTokenizerBase

from benchmarks.decoding import sde, spoken
from benchmarks.measuring import Options, Table
from sottovoce.channels import create
from sottovoce.channels.protocol import Protocol
from sottovoce.core.response_format import Form
from sottovoce.models import Ids, LoadedModel, Request, Stop
from sottovoce.models.engine import sequence
from sottovoce.models.engine.cache import Limits
from sottovoce.models.engine.grammar import grammar_of
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.huggingface.layers import Change
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.passes import FINAL, Pass, Reading

ROWS = (1, 8, 32, 128, 256)
PROMPT, STEPS, WARM = 16, 32, 4  # positions of a prompt, measured steps, and steps before them
SHARP = 4.0  # scale of the random logits: a few tokens have most of the mass, as with a model
FORM = Form.of_object("reasoning", "answer")


class Free(Network):
    """A network whose passes cost nothing: they return random logits and states that were made before."""

    def prepare(self, rows: int, tokenizer: PreTrainedTokenizerBase) -> None:
        """Draw the logits and states of a few passes; no token has a quote, so that no text in JSON ends."""
        random, device = torch.Generator(self.device).manual_seed(0), self.device
        shape = rows, len(self.table)
        self._logits = [SHARP * torch.randn(shape, generator=random, device=device) for _ in range(7)]
        quotes = [id for id in range(len(self.table)) if '"' in str(tokenizer.decode([id]))]
        for logits in self._logits:
            logits[:, quotes] = -30.0
        self._states = torch.randn(rows, self.hidden, generator=random, device=device)
        self._count = 0

    def forward(self, reading: Reading, layers: Sequence[int] = (), edits: Mapping[int, Change] | None = None) -> Pass:
        """Return the next prepared results."""
        self._count += 1
        rows = reading.inputs.shape[0]
        return Pass(self._logits[self._count % 7][:rows], {layer: self._states[:rows] for layer in (*layers, FINAL)})

    def step(self, reading: Reading, layers: Sequence[int] = ()) -> Pass:
        """Return the next prepared results; nothing is captured."""
        return self.forward(reading, layers)


@dataclass(frozen=True)
class Case:
    """A protocol, and what is asked for besides its replies."""

    protocol: Protocol
    temperature: float = 0.0
    stats: bool = False
    form: bool = False
    stream: bool = False


def cases(loaded: LoadedModel) -> dict[str, Case]:
    """Return what is measured, by name."""
    nl, cipher, states = create("nl"), create("cipher"), sde(loaded)
    plain = {
        "`nl`": Case(nl),
        "`nl` at 0.7": Case(nl, 0.7),
        "`cipher` at 0.35": Case(cipher, 0.35),
        "`cipher` at 0.7": Case(cipher, 0.7),
        "`sde`": Case(states),
        "`hidden`": Case(create("hidden")),
        "`kv`": Case(create("kv")),
        "`thoughts`": Case(create("thoughts", latent_steps=STEPS + 2 * WARM)),
        "`graft`": Case(create("graft")),
    }
    some = ("`nl`", "`cipher` at 0.35", "`sde`")
    with_stats = {f"{name}, statistics": replace(plain[name], stats=True) for name in some}
    with_form = {"`nl`, a form": replace(plain["`nl`"], form=True)}  # a mean's nearest token may have a quote
    streamed = {f"{name}, streamed": replace(plain[name], stream=True) for name in some[:2]}
    return plain | with_stats | with_form | streamed


def tables(options: Options) -> Iterator[Table]:
    """Yield the milliseconds of a step by the number of rows."""
    network = Free(options.loaded.model, len(options.loaded.table))
    loaded, rows = replace(options.loaded, network=network), options.batches or options.some(*ROWS)
    table = Table()
    clock = "CPU ms" if network.device.type == "cpu" else "ms"
    table.add(f"host, {len(loaded.table)} tokens, {clock} a step", *(f"{n} rows" for n in rows))
    for name, case in cases(loaded).items():
        found = [_milliseconds(network, loaded, case, n, options) for n in rows]
        table.add(name, *map("{:.2f}".format, found))
    yield table


def _milliseconds(network: Free, loaded: LoadedModel, case: Case, rows: int, options: Options) -> float:
    network.prepare(rows, loaded.tokenizer)
    steps = options.most(STEPS, 2)
    return 1000 * median(_seconds(loaded, case, rows, steps) for _ in range(options.repeats))


def _seconds(loaded: LoadedModel, case: Case, rows: int, steps: int) -> float:
    """Return the seconds of a step, over many steps of one batch: CPU time, or on a GPU all of it."""
    loop = decoding_loop(loaded, case, rows)
    start = now(loaded)
    for _ in range(steps):
        loop.step()
    seconds = (now(loaded) - start) / steps
    assert loop.scheduler.decoding == rows, f"all rows still decode under {case}"
    return seconds


def decoding_loop(
    loaded: LoadedModel, case: Case, rows: int, *, prompt: int = PROMPT, warm: int = WARM, steps: int = STEPS
) -> Loop:
    """Return a loop that has read all prompts and made `warm` steps; `steps` more are left."""
    memory = (1 if loaded.network.device.type == "cpu" else 24) << 30
    loop = Loop(loaded.network, Limits(rows, memory=memory, reuse=False), Statistics())
    loop.scheduler.waiting.extend(_sequence(loaded, case, i, prompt, steps + 3 * warm) for i in range(rows))
    while loop.scheduler.waiting or loop.scheduler.decoding < len(loop.scheduler.running):
        loop.step()
    for _ in range(warm):
        loop.step()
    return loop


def now(loaded: LoadedModel) -> float:
    """Return the seconds of a clock: of this thread's CPU time, or on a GPU of all that it has done."""
    if loaded.network.device.type == "cpu":
        return time.thread_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def _sequence(loaded: LoadedModel, case: Case, i: int, prompt: int, new: int) -> sequence.Sequence:
    ids = Ids(tuple((i + 7 * j) % 400 for j in range(prompt + i % 3)))
    bare = Request((ids,), Stop(new + 128 * case.form))
    (asked,) = spoken(case.protocol, [bare], loaded, case.temperature)
    record = replace(asked.record, stats=case.stats, top=3 if case.stats else 0)
    asked = replace(asked, record=record, form=FORM if case.form else None)
    grammar = grammar_of(FORM, loaded.tokenizer) if case.form else None
    on_text = (lambda _: None) if case.stream else None
    return sequence.Sequence(asked, loaded.tokenizer, grammar=grammar, on_text=on_text)
