"""Weight formats: decoding against `transformers.generate` and llama.cpp, prompts, and the cost of loading."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.decoding import FIRST, LONGEST, SHORTEST, generate, ids_of, requests, with_first
from benchmarks.llama_cpp import LlamaCpp, installed
from benchmarks.loaded_models import as_published, with_engine
from benchmarks.measuring import Options, Run, Table, Times, interleaved, times
from sottovoce.models import LoadedModel, load
from sottovoce.models.huggingface.formats import Weights
from sottovoce.models.sources import CATALOGUE
from sottovoce.models.sources.pull import fetch, unpack

AIMS: Mapping[Weights, str] = {"float32": "1.05x, 1.15x", "int8": "1.5x, 1.15x", "int4": "2.2x, 1.4x", "bfloat16": ""}
"""Aims against `generate` at each batch size, by format."""
BATCHES = (1, 8)
NEW = 32
GENERATE, LLAMA = "`generate`, float32", "llama.cpp, the same file"
LOADING = """
import psutil, sys, time
from sottovoce.models import Ids, Request, Stop, load
own = psutil.Process()
start, before = time.perf_counter(), own.memory_info().rss
loaded = load(sys.argv[1], weights=sys.argv[2], device="cpu")
loaded.engine.run(Request((Ids((1,)),), Stop(2)))
print(time.perf_counter() - start, (own.memory_info().rss - before) / 1e6)
"""


def tables(options: Options) -> Iterator[Table]:
    """Yield tables of decoding and prompts by format, then of the time and memory of loading."""
    forms = tuple(AIMS)[: 2 if options.tiny else None]
    loaded = {form: load(options.loaded.name, weights=form, device="cpu") for form in forms}
    with TemporaryDirectory() as folder:
        file = _file(options.loaded.name, Path(folder)) if installed() else None
        measured = [_times(options, loaded, batch, file) for batch in BATCHES]
    yield _decoding(options, forms, [each.beyond(FIRST) for each in measured])
    yield _prompts(measured)
    yield _loading(options.loaded.name, forms)


def _times(options: Options, loaded: Mapping[Weights, LoadedModel], batch: int, file: Path | None) -> Times:
    published = as_published(loaded["float32"])
    engines = {form: with_engine(each, threads=options.threads, reuse=False) for form, each in loaded.items()}
    llama = LlamaCpp(file, batch, options.threads) if file else None

    def rivals(new: int) -> dict[str, Run]:
        bare = requests(batch, new)
        runs: dict[str, Run] = {GENERATE: partial(generate, published, bare)}
        runs |= {form: partial(each.engine.run_all, bare) for form, each in engines.items()}
        return runs | ({LLAMA: partial(llama.generate, [*map(ids_of, bare)], new)} if llama else {})

    return interleaved(with_first(rivals, options.most(NEW)), options.repeats, options.clock)


def _decoding(options: Options, forms: tuple[Weights, ...], measured: list[Times]) -> Table:
    table, new = Table(), options.most(NEW)
    title = f"decoding alone, {new} new tokens after {SHORTEST}-{LONGEST}, torch threads: {options.threads}"
    table.add(title, *(f"batch {batch}" for batch in BATCHES), "aim")
    for form in forms:
        table.add(
            f"`nl`, {form}, against {GENERATE}", *(times(each.speed(form, GENERATE)) for each in measured), AIMS[form]
        )
    against = f"`nl`, the best format, against {LLAMA}"
    if LLAMA in measured[0].seconds:
        best = [max(each.speed(form, LLAMA) for form in forms) for each in measured]
        table.add(against, *map(times, best), "0.65x; 1.0x, 1.3x compiled")
    else:
        table.add(
            against, *(["left out"] * len(measured)), "`llama-cpp-python` is not installed, or there is no GGUF file"
        )
    for name in measured[0].seconds:
        table.add(f"milliseconds a step: {name}", *(f"{1000 * each.median(name) / (new - 1):.1f}" for each in measured))
    return table


def _prompts(measured: list[Times]) -> Table:
    table = Table()
    table.add("prompts alone, milliseconds a position", *(f"batch {batch}" for batch in BATCHES))
    positions = [sum(len(ids_of(each)) for each in requests(batch)) for batch in BATCHES]
    for name in measured[0].beyond(FIRST).seconds:
        each = (1000 * run.median(name + FIRST) / n for run, n in zip(measured, positions, strict=True))
        table.add(name, *map("{:.2f}".format, each))
    return table


def _loading(name: str, forms: tuple[Weights, ...]) -> Table:
    """Measure loading and a first token of each format in its own process."""
    table = Table()
    table.add("loading, and a first token", "seconds", "resident memory besides the libraries, MB")
    for form in forms:
        told = subprocess.run(
            [sys.executable, "-c", LOADING, name, form], check=True, capture_output=True, text=True
        ).stdout.split()
        table.add(form, f"{float(told[0]):.1f}", f"{float(told[1]):.0f}")
    return table


def _file(name: str, folder: Path) -> Path | None:
    """Return the GGUF file of a model, or None if it has none."""
    if name in CATALOGUE and CATALOGUE[name].within.endswith(".gguf"):
        return unpack(fetch(CATALOGUE[name], folder), CATALOGUE[name].within, folder)
    return Path(name) if name.endswith(".gguf") else None
