"""Weight formats: decoding against `transformers.generate` and llama.cpp, prompts, and the cost of loading.

llama.cpp runs through `llama-cpp-python` if that is installed: greedy, all sequences in one batch. It reads a GGUF file
itself, and its own kernels multiply packed weights by packed activations.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.decoding import FIRST, LONGEST, SHORTEST, generate, ids_of, requests, with_first
from benchmarks.measuring import Options, Run, Table, Times, as_published, interleaved, times, with_engine
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


POSITIONS = 2048  # positions of all sequences together


def installed() -> bool:
    """Return whether llama.cpp is installed."""
    return find_spec("llama_cpp") is not None


class LlamaCpp:
    """A GGUF file loaded with a context for `batch` sequences."""

    def __init__(self, file: Path, batch: int, threads: int) -> None:
        import llama_cpp  # type: ignore[import-not-found]  # an optional rival, not a dependency

        self._api: Any = llama_cpp  # Any: ctypes, mostly untyped
        self._api.llama_log_set(_silent(llama_cpp), None)
        self._api.llama_backend_init()
        self._model = self._api.llama_model_load_from_file(str(file).encode(), self._api.llama_model_default_params())
        size = self._api.llama_context_default_params()
        size.n_ctx = size.n_batch = size.n_ubatch = POSITIONS * max(batch // 8, 1)
        size.n_seq_max, size.n_threads, size.n_threads_batch, size.no_perf = batch, threads, threads, True
        size.kv_unified = True
        self._context = self._api.llama_init_from_model(self._model, size)
        self._vocabulary = self._api.llama_vocab_n_tokens(self._api.llama_model_get_vocab(self._model))

    def generate(self, prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
        """Return `new` tokens after each prompt, ignoring end-of-sequence tokens."""
        api = self._api
        api.llama_memory_clear(api.llama_get_memory(self._context), True)
        chosen = self._pass(
            [(i, at, id, at == len(ids) - 1) for i, ids in enumerate(prompts) for at, id in enumerate(ids)]
        )
        made = [[id] for id in chosen]
        for step in range(new - 1):
            chosen = self._pass([(i, len(ids) + step, made[i][-1], True) for i, ids in enumerate(prompts)])
            for ids, id in zip(made, chosen, strict=True):
                ids.append(id)
        return made

    def _pass(self, read: Sequence[tuple[int, int, int, bool]]) -> list[int]:
        """Read (sequence, position, id, whether to return logits), and return the best id at each of the latter."""
        batch = self._api.llama_batch_init(len(read), 0, 1)
        batch.n_tokens = len(read)
        for j, (sequence, position, id, counts) in enumerate(read):
            batch.token[j], batch.pos[j], batch.logits[j] = id, position, counts
            batch.n_seq_id[j], batch.seq_id[j][0] = 1, sequence
        failed = self._api.llama_decode(self._context, batch)
        self._api.llama_batch_free(batch)
        if failed:
            raise RuntimeError(f"llama_decode returned {failed}")
        return [self._best(j) for j, (*_, counts) in enumerate(read) if counts]

    def _best(self, j: int) -> int:
        logits = self._api.llama_get_logits_ith(self._context, j)
        return int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())


def _silent(api: Any) -> Any:  # Any: a ctypes callback, which must outlive its use
    global _callback
    _callback = api.llama_log_callback(lambda level, text, data: None)
    return _callback


_callback: Any = None
