"""`make bench`: speed as ratios to rivals that ran in turn in the same process. Prints Markdown to stdout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version

import torch

from benchmarks import debates, decoding, steps
from benchmarks.measuring import BUNDLED, SHAPES, Options, Table, loaded_of
from sottovoce.models.huggingface.packed_weights import parameters_of

SECTIONS: Mapping[str, Callable[[Options], Iterable[Table]]] = {
    "decoding": decoding.tables,
    "host": steps.host,
    "debates": debates.tables,
    "steps": steps.tables,
    "rivals": steps.rivals,
}
OF_REAL = ("decoding", "debates")  # for a model given by name
OF_SHAPE: dict[str, tuple[str, ...]] = dict.fromkeys(
    SHAPES, ("decoding", "host", "steps", "rivals")
)  # the others need words, or a small model
OF_SHAPE[BUNDLED] = ("decoding", "host", "debates")  # the others are for a model that fills a device


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; ratios above 1 are in our favor."""
    parsed = _arguments().parse_args(arguments)
    if parsed.device != "cpu" and not torch.accelerator.is_available():
        sys.exit(f"--device {parsed.device} needs a GPU, and torch {torch.__version__} sees none here")
    shape = parsed.model or parsed.shape or (BUNDLED if parsed.device == "cpu" else "7b")
    sections = parsed.only.split(",") if parsed.only else OF_SHAPE.get(shape, OF_REAL)
    if unknown := [name for name in sections if name not in SECTIONS]:
        sys.exit(f"unknown section {unknown[0]!r}; choose from: {', '.join(SECTIONS)}")
    torch.set_num_threads(parsed.threads)
    batches = tuple(map(int, parsed.batches.split(","))) if parsed.batches else ()
    loaded = loaded_of(shape, parsed.device, parsed.weights)
    options = Options(loaded, parsed.repeats, parsed.clock, parsed.threads, batches, parsed.tiny)
    size, cores = parameters_of(options.loaded.model), os.cpu_count()
    where = f"{cores} cores" if parsed.device == "cpu" else f"{torch.cuda.get_device_name()} and {cores} cores"
    what = f"{shape}, {size:,} parameters, weights in {options.loaded.format}; torch {torch.__version__}"
    print(f"`{' '.join(['python -m benchmarks', *sys.argv[1:]])}`: {what}, transformers {version('transformers')},")
    print(f"{where}; torch threads: {parsed.threads} unless stated otherwise;")
    print(f"medians of {parsed.repeats} repeats in turn, {parsed.clock} time.")
    for name in sections:
        for table in SECTIONS[name](options):
            print(f"\n{table}", flush=True)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--only", help=f"sections to run, separated by commas: {', '.join(SECTIONS)}")
    parser.add_argument("--repeats", type=int, default=7, help="repeats of each rival (7; whole debates at most 3)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu counts only the process's own time, for a busy machine",
    )
    parser.add_argument("--threads", type=int, default=1, help="torch threads of engine and rivals (1)")
    parser.add_argument("--device", default="cpu", help="device: cpu or cuda (cpu)")
    parser.add_argument(
        "--shape", choices=(BUNDLED, *SHAPES), help="the bundled model, or random weights of a shape (7b on a GPU)"
    )
    parser.add_argument(
        "--model", help="a model by name instead: a folder, a file, or one that `models pull` downloaded"
    )
    parser.add_argument("--weights", default="auto", help="format of that model's weights (auto)")
    parser.add_argument("--batches", help="batch sizes, separated by commas (decoding: 1,8,32)")
    parser.add_argument("--tiny", action="store_true", help="use small sizes, to check that it runs")
    return parser


if __name__ == "__main__":
    main()
