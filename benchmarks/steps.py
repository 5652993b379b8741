"""A decoding step: the host's share of its time, and the model's share compared with `transformers.generate`.

The host's share is measured with a forward pass that costs nothing. On a GPU this time is added to the device's, or
hidden behind it. These figures include the device's work on the logits (drawing, means, statistics), measured on a CPU
with few tokens. For the model's step, time and bandwidth are measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import torch
from transformers import PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer

from benchmarks.decoding import generate, sde, spoken
from benchmarks.measuring import Options, Table, as_published, percent, times
from sottovoce.channels import create
from sottovoce.channels.protocol import Protocol
from sottovoce.core.any_types import Untyped
from sottovoce.core.response_format import Form
from sottovoce.models import Ids, LoadedModel, Request, Stop
from sottovoce.models.engine import sequence
from sottovoce.models.engine.cache import Limits
from sottovoce.models.engine.grammar import grammar_of
from sottovoce.models.engine.lookup import MAX_PROPOSED, Costs
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
    """A network whose passes cost nothing: they return random logits and states made in advance."""

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
    """A protocol, and the records requested besides its replies."""

    protocol: Protocol
    temperature: float = 0.0
    stats: bool = False
    form: bool = False
    stream: bool = False
    lookup: bool = False
    """Look proposals up, of which none is checked."""


def cases(loaded: LoadedModel) -> dict[str, Case]:
    """Return the measured cases by name."""
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
    plain["`nl`, proposals looked up"] = Case(nl, lookup=True)
    return plain | with_stats | with_form | streamed


def host(options: Options) -> Iterator[Table]:
    """Yield the milliseconds of a step by the number of rows."""
    network = Free(options.loaded.model, len(options.loaded.table))
    loaded, rows = replace(options.loaded, network=network), options.batches or options.some(*ROWS)
    table = Table()
    clock = "CPU ms" if network.device.type == "cpu" else "ms"
    table.add(f"host, {len(loaded.table)} tokens, {clock} a step", *(f"{n} rows" for n in rows))
    for name, case in cases(loaded).items():
        found = []
        for n in rows:
            network.prepare(n, loaded.tokenizer)
            found.append(median(_step(loaded, case, n, options.most(STEPS, 2)) for _ in range(options.repeats)))
        table.add(name, *map("{:.2f}".format, found))
    yield table


def decoding_loop(loaded: LoadedModel, case: Case, rows: int, steps: int, prompt: int, warm: int) -> Loop:
    """Return a loop that has read all prompts and made `warm` steps; `steps` more are left."""
    memory = (1 if loaded.network.device.type == "cpu" else 24) << 30
    loop = Loop(loaded.network, Limits(rows, memory=memory, reuse=False, lookup=case.lookup), Statistics())
    loop.scheduler.costs = Costs((1, 0), (MAX_PROPOSED + 2, 0, 0), rows * (MAX_PROPOSED + 1))
    loop.scheduler.waiting.extend(_sequence(loaded, case, i, prompt, steps + 3 * warm) for i in range(rows))
    while loop.scheduler.waiting or loop.scheduler.decoding < len(loop.scheduler.running):
        loop.step()
    for _ in range(warm):
        loop.step()
    return loop


def now(loaded: LoadedModel) -> float:
    """Return the seconds of a clock: this thread's CPU time, or on a GPU the time after it has finished its work."""
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


LARGE_ROWS = (1, 32, 128)
PROMPTS = (150, 900)  # tokens, so that steps attend to 256 and 1,024 columns on a GPU
LARGE_STEPS, CAPTURED = 48, 12  # measured steps, and those before them, in which a step is captured
CASES = ("`nl`", "`cipher` at 0.35", "`cipher` at 0.7", "`kv`")


def tables(options: Options) -> Iterator[Table]:
    """Yield the time of steps."""
    loaded, rows = options.loaded, options.batches or options.some(*LARGE_ROWS)
    prompts, steps = [options.most(n, 8) for n in PROMPTS], options.most(LARGE_STEPS, 2)
    for prompt in prompts:
        yield _steps(loaded, prompt, rows, steps)


def rivals(options: Options) -> Iterator[Table]:
    """Yield our steps and those of `transformers.generate`; compiling its static cache takes a minute or more."""
    for prompt in PROMPTS:
        for n in reversed((options.batches or options.some(*LARGE_ROWS))[:2]):
            yield _theirs(options.loaded, options.most(prompt, 8), n, options.most(LARGE_STEPS, 2))


def _steps(loaded: LoadedModel, prompt: int, rows: tuple[int, ...], steps: int) -> Table:
    table, nl, known = Table(), "`nl`", cases(loaded)
    table.add(f"prompts of {prompt} tokens, milliseconds a step", *(f"{n} rows" for n in rows))
    found = {name: [_step(loaded, known[name], n, steps, prompt, CAPTURED) for n in rows] for name in CASES}
    for name, each in found.items():
        table.add(name, *map("{:.2f}".format, each))
    for name in CASES[1:]:
        table.add(f"{name} against {nl}", *(times(a / b) for a, b in zip(found[nl], found[name], strict=True)))
    rates = [_bytes(loaded, prompt, n) / each / 1e6 for n, each in zip(rows, found[nl], strict=True)]
    table.add(f"GB/s of weights, keys and values, {nl}", *map("{:.0f}".format, rates))
    size = 1 << (32 if loaded.network.device.type == "cuda" else 26)  # more than a cache holds
    copied = torch.empty(size, dtype=torch.uint8, device=loaded.network.device)
    most = 2 * copied.numel() / _timed(loaded, copied.clone) / 1e6
    table.add(f"of what a copy reaches ({most:.0f} GB/s)", *(percent(rate / most) for rate in rates))
    return table


def _step(loaded: LoadedModel, case: Case, rows: int, steps: int, prompt: int = PROMPT, warm: int = WARM) -> float:
    """Return the milliseconds of a step, over many steps of one batch: CPU time, or on a GPU all of it."""
    loop = decoding_loop(loaded, case, rows, steps, prompt, warm)
    milliseconds = _timed(loaded, lambda: [loop.step() for _ in range(steps)], repeats=1) / steps
    assert loop.scheduler.decoding == rows, f"all rows still decode under {case}"
    return milliseconds


def _bytes(loaded: LoadedModel, prompt: int, rows: int) -> float:
    """Return the bytes that a step reads: weights without rows of other tokens, and keys and values so far."""
    own: Untyped = loaded.network.embedding.weight
    tied = own is getattr(loaded.network.head, "weight", None)
    weights: int = sum(each.nbytes for each in loaded.model.parameters()) - (0 if tied else own.nbytes)
    return weights + rows * (prompt + CAPTURED + LARGE_STEPS / 2) * sum(kind.nbytes for kind in loaded.network.kinds)


def _timed(loaded: LoadedModel, run: Callable[[], object], repeats: int = 7) -> float:
    """Return the median milliseconds of a run, until the device is done; repeated ones are warmed up."""
    found = []
    for _ in range(repeats + (repeats > 1)):
        start = now(loaded)
        run()
        found.append(1000 * (now(loaded) - start))
    return median(found[repeats > 1 :])


class _Gaps(BaseStreamer):
    """Times between the tokens of `generate`."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded, self.seen = loaded, list[float]()

    def put(self, value: torch.Tensor) -> None:
        self.seen.append(now(self.loaded))

    def end(self) -> None:
        """Do nothing."""


def _theirs(loaded: LoadedModel, prompt: int, rows: int, steps: int) -> Table:
    """Return the milliseconds of a token of `generate`, as the median over the later half of one call."""
    asked = [
        Request((Ids(tuple((i + 7 * j) % 400 for j in range(prompt))),), Stop(steps + CAPTURED)) for i in range(rows)
    ]
    table, published = Table(), as_published(loaded)
    own = _step(loaded, cases(loaded)["`nl`"], rows, steps, prompt, CAPTURED)
    table.add(f"{rows} rows after {prompt} tokens", "ms a step", "`nl` against it")
    table.add("`nl`", f"{own:.2f}")
    for name, cache in {"`generate`": None, "`generate`, static cache, compiled": "static"}.items():
        gaps = _Gaps(loaded)
        torch.compiler.reset()
        try:
            generate(published, asked, cache, gaps)
        except Exception as error:  # a compiler may be missing
            table.add(name, f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
            continue
        found = 1000 * median(b - a for a, b in pairwise(gaps.seen[len(gaps.seen) // 2 :]))
        print(f"{rows} rows after {prompt} tokens, {name}: {found:.2f} ms a step", file=sys.stderr, flush=True)
        table.add(name, f"{found:.2f}", times(found / own))
    return table
