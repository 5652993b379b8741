"""The cost of constrained decoding: the same numbers of tokens with and without a response format."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.decoding import requests, spoken
from benchmarks.measuring import Options, Run, Table, interleaved, percent, with_engine
from sottovoce.channels.nl import NL
from sottovoce.core.response_format import Form
from sottovoce.models import LoadedModel, Stop
from sottovoce.models.engine.grammar import Grammar
from sottovoce.models.engine.vocabulary import Vocabulary

NEW = 96  # maximum length of a reply
BATCHES = 1, 8
FORMS = {
    "an object of three texts": Form.of_object("reasoning", "answer", "confidence"),
    "free, then one of four choices": Form(choices=("A", "B", "C", "D"), after="Answer:"),
}
AIM = "3 % where a step takes 5 ms or more"


def tables(options: Options) -> Iterator[Table]:
    """Yield the cost by response format and batch; then the one-time costs per model and per format."""
    loaded, new = with_engine(options.loaded, threads=options.threads, reuse=False), max(options.most(NEW), 64)
    batches = options.some(*BATCHES)
    table = Table()
    table.add(
        f"constrained, against the same number of free tokens (at most {new})", *(f"batch {n}" for n in batches), "aim"
    )
    for name, form in FORMS.items():
        rivals, steps = zip(*(_rivals(loaded, form, batch, new) for batch in batches), strict=True)
        measured = [interleaved(each, options.repeats, options.clock, warm=2) for each in rivals]
        table.add(name, *(percent(1 / each.speed("kept", "free") - 1) for each in measured), AIM)
        times = [1000 * each.median("free") / n for each, n in zip(measured, steps, strict=True)]
        table.add(f"milliseconds per free step: {name}", *(f"{each:.2f}" for each in times))
    yield table
    yield _once(loaded)


def _rivals(loaded: LoadedModel, form: Form, batch: int, new: int) -> tuple[dict[str, Run], int]:
    """Return runs of greedy constrained replies and of free ones of the same lengths, and their number of steps."""
    bare = spoken(NL(), requests(batch, new), loaded)
    constrained = [replace(each, form=form) for each in bare]
    lengths = [reply.usage.new for reply in loaded.engine.run_all(constrained)]
    free = [replace(each, stop=replace(each.stop, max_new=n)) for each, n in zip(bare, lengths, strict=True)]
    requests_by_run = {"free": free, "kept": constrained}
    return {name: partial(loaded.engine.run_all, each) for name, each in requests_by_run.items()}, max(lengths)


def _once(loaded: LoadedModel) -> Table:
    """Return the one-time delays of the first request of a model and of a response format."""
    start, table = time.perf_counter(), Table()
    vocabulary = Vocabulary(loaded.tokenizer)
    table.add("one-time costs", "milliseconds")
    table.add("reading a vocabulary", _since(start))
    for name, form in FORMS.items():
        start = time.perf_counter()
        Grammar(form.offered, vocabulary).check(Stop(NEW))
        table.add(f"compiling a format and finding its minimum length: {name}", _since(start))
    return table


def _since(start: float) -> str:
    return f"{1000 * (time.perf_counter() - start):.1f}"
