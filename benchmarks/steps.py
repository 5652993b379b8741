"""A decoding step of the model itself: time, bandwidth, kernels, keys handed over, and `transformers.generate`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile
from transformers.generation.streamers import BaseStreamer

from benchmarks.decoding import generate
from benchmarks.host import Case, decoding_loop, now
from benchmarks.measuring import Options, Table, as_published, percent, times
from sottovoce.channels import create
from sottovoce.core.any_types import Untyped
from sottovoce.models import Cached, Ids, LoadedModel, Request, Stop

ROWS = (1, 32, 128)
PROMPTS = (150, 900)  # tokens, so that steps attend to 256 and 1,024 columns on a GPU
STEPS, WARM = 48, 12  # measured steps, and those before them, in which a step is captured
CASES = {
    "`nl`": Case(create("nl")),
    "`cipher` at 0.35": Case(create("cipher"), 0.35),
    "`cipher` at 0.7": Case(create("cipher"), 0.7),
    "`kv`": Case(create("kv")),
}
KERNELS = 14  # lines of a profile


def tables(options: Options) -> Iterator[Table]:
    """Yield the time of steps, what a message of keys and values costs, and the kernels of a step."""
    loaded, rows = options.loaded, options.batches or options.some(*ROWS)
    prompts, steps = [options.most(n, 8) for n in PROMPTS], options.most(STEPS, 2)
    for prompt in prompts:
        yield _steps(loaded, prompt, rows, steps)
    yield _handed_over(loaded, prompts)
    for n in rows[:2]:
        yield _kernels(loaded, prompts[-1], n)


def rivals(options: Options) -> Iterator[Table]:
    """Yield steps beside those of `transformers.generate`, whose static cache is compiled for a minute or more."""
    for prompt in PROMPTS:
        for n in reversed((options.batches or options.some(*ROWS))[:2]):
            yield _theirs(options.loaded, options.most(prompt, 8), n, options.most(STEPS, 2))


def _steps(loaded: LoadedModel, prompt: int, rows: tuple[int, ...], steps: int) -> Table:
    table, nl = Table(), "`nl`"
    table.add(f"prompts of {prompt} tokens, milliseconds a step", *(f"{n} rows" for n in rows))
    found = {name: [_step(loaded, case, prompt, n, steps) for n in rows] for name, case in CASES.items()}
    for name, each in found.items():
        table.add(name, *map("{:.2f}".format, each))
    for name in list(CASES)[1:]:
        table.add(f"{name} against {nl}", *(times(a / b) for a, b in zip(found[nl], found[name], strict=True)))
    rates = [_bytes(loaded, prompt, n) / each / 1e6 for n, each in zip(rows, found[nl], strict=True)]
    table.add(f"GB/s of weights, keys and values, {nl}", *map("{:.0f}".format, rates))
    size = 1 << (32 if loaded.network.device.type == "cuda" else 26)  # more than a cache holds
    copied = torch.empty(size, dtype=torch.uint8, device=loaded.network.device)
    most = 2 * copied.numel() / _timed(loaded, copied.clone) / 1e6
    table.add(f"of what a copy reaches ({most:.0f} GB/s)", *(percent(rate / most) for rate in rates))
    return table


def _step(loaded: LoadedModel, case: Case, prompt: int, rows: int, steps: int) -> float:
    """Return the milliseconds of a step."""
    loop = decoding_loop(loaded, case, rows, prompt=prompt, warm=WARM, steps=steps)
    return _timed(loaded, lambda: [loop.step() for _ in range(steps)], repeats=1) / steps


def _bytes(loaded: LoadedModel, prompt: int, rows: int) -> float:
    """Return what a step must read: weights but the rows of other tokens, and the keys and values so far."""
    own: Untyped = loaded.network.embedding.weight
    tied = own is getattr(loaded.network.head, "weight", None)
    weights: int = sum(each.nbytes for each in loaded.model.parameters()) - (0 if tied else own.nbytes)
    return weights + rows * (prompt + WARM + STEPS / 2) * sum(kind.nbytes for kind in loaded.network.kinds)


def _timed(loaded: LoadedModel, run: Callable[[], object], repeats: int = 7) -> float:
    """Return the median milliseconds of a run, until the device is done; repeated ones are warmed up."""
    found = []
    for _ in range(repeats + (repeats > 1)):
        start = now(loaded)
        run()
        found.append(1000 * (now(loaded) - start))
    return median(found[repeats > 1 :])


@torch.inference_mode()
def _handed_over(loaded: LoadedModel, prompts: list[int]) -> Table:
    """Return the milliseconds of one message's keys and values, by way of the CPU and on the device alone."""
    table, found = Table(), []
    table.add("`kv`, milliseconds a message", *(f"{n} positions" for n in prompts))
    for n in prompts:
        loop = decoding_loop(loaded, CASES["`kv`"], 2, prompt=n, warm=0)
        kv, layers, rotary = loop.scheduler.caches.kv, tuple(range(loaded.layers)), loaded.network.rotary
        kept = kv.keys_values(0, range(n))
        rest = kept.keys[:0, :, :1]
        there = Cached(kept.keys, kept.values, layers, kept.at - 3, rest, rest)
        moved = [each.to(loaded.network.device) for each in (kept.keys, kept.values, rest)]
        here = Cached(moved[0], moved[1], layers, there.at, moved[2], moved[2])
        runs: Mapping[str, Callable[[], object]] = {
            "to the CPU": partial(kv.keys_values, 0, range(n)),
            "from the CPU, turned": partial(kv.insert, 1, 0, there, 0, rotary),
            "a copy on the device": partial(kv.cut, 0, 0, n),
            "from there, turned": partial(kv.insert, 1, 0, here, 0, rotary),
        }
        found.append({name: f"{_timed(loaded, run):.2f}" for name, run in runs.items()})
    for name in found[0]:
        table.add(name, *(each[name] for each in found))
    return table


def _kernels(loaded: LoadedModel, prompt: int, rows: int, steps: int = 8) -> Table:
    """Return what takes the device's time in a step of `nl`."""
    on_cuda = loaded.network.device.type == "cuda"
    loop = decoding_loop(loaded, CASES["`nl`"], rows, prompt=prompt, warm=WARM)
    with profile(activities=[ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU]) as seen:
        whole = _timed(loaded, lambda: [loop.step() for _ in range(steps)], repeats=1) / steps
    kind = "self_device_time_total" if on_cuda else "self_cpu_time_total"
    parts = sorted(((getattr(each, kind), each.key, each.count) for each in seen.key_averages()), reverse=True)
    table, busy = Table(), sum(part[0] for part in parts) / 1000 / steps
    table.add(f"kernels of a step, {rows} rows after {prompt} tokens", "ms", "calls")
    table.add("all kernels, of the whole step", f"{busy:.2f} of {whole:.2f}", sum(n for *_, n in parts) // steps)
    for spent, name, n in parts[:KERNELS]:
        table.add(f"`{name[:90]}`", f"{spent / 1000 / steps:.3f}", f"{n / steps:.0f}")
    return table


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
    asked = [Request((Ids(tuple((i + 7 * j) % 400 for j in range(prompt))),), Stop(steps + WARM)) for i in range(rows)]
    table, published, own = Table(), as_published(loaded), _step(loaded, CASES["`nl`"], prompt, rows, steps)
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
