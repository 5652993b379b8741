"""`python -m benchmarks.agreement FOLDER`: how often weight formats reply like float32, and how likely its replies are.

FOLDER contains a run of `experiments/weights.yaml`. Likelihoods are computed again: the prompt in one pass and the
reply of float32 a few tokens at a time, so that it uses the same matrix products as decoding.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
from transformers import DynamicCache

from sottovoce.analysis.statistics import share
from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.folder import FILE, runs_in
from sottovoce.models import LoadedModel, load
from sottovoce.report.tables import share_cells, table
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

TRUTH = "float32"
AT_ONCE = 8  # tokens of a reply per pass


class _Turn(NamedTuple):
    role: str
    parts: tuple[str, ...]


class Said(NamedTuple):
    """A prompt and its reply, as token ids."""

    prompt: list[int]
    reply: list[int]


def said(run: Run, loaded: LoadedModel) -> Iterator[Said]:
    """Yield the first reply of each discussion."""
    for record in run.records.values():
        turns = [_Turn(role, (text,)) for role, text in record.prompts[0].turns]
        payload = record.messages[0].payload
        assert payload is not None, "a local model spoke"
        prompt = [id for piece in loaded.chat.encode(turns) for id in piece]
        yield Said(prompt, list(payload.load(run.store()).ids))


@torch.inference_mode()
def likelihood(loaded: LoadedModel, said: Said) -> float:
    """Return the mean log-probability (nats) of a reply's tokens after its prompt."""
    cache, ids, found = DynamicCache(), torch.tensor([said.reply]), []
    logits = loaded.model(input_ids=torch.tensor([said.prompt]), past_key_values=cache).logits[:, -1:]
    for part in ids.split(AT_ONCE, dim=1):
        later = loaded.model(input_ids=part, past_key_values=cache).logits
        before = torch.cat([logits, later[:, :-1]], 1)[..., : len(loaded.table)].float().log_softmax(-1)
        found += before.gather(-1, part[..., None]).flatten().tolist()
        logits = later[:, -1:]
    return fmean(found)


def compared(
    name: str, records: Sequence[DiscussionRecord], truth: Sequence[DiscussionRecord], likelihoods: Sequence[float]
) -> list[str]:
    """Return a row of the table."""
    pairs = list(zip(records, truth, strict=True))
    answers = share([own.result().answer == other.result().answer for own, other in pairs])
    texts = share([own.messages[0].text == other.messages[0].text for own, other in pairs])
    right = share([bool(own.result().score) for own in records])
    cells = [*share_cells(answers), *share_cells(texts), *share_cells(right)]
    return [f"`{name}`", *cells, f"{fmean(likelihoods):.4f}"]


def tables(runs: Mapping[str, Run]) -> str:
    """Return the table of all finished rows; the row of float32 must be finished."""
    over = {name: run for name, run in runs.items() if not run.unfinished}
    if TRUTH not in over:
        raise SystemExit(f"row {TRUTH!r} is not finished; the others are compared with it, so finish it first")
    truth, lines = list(over[TRUTH].records.values()), []
    for name, run in over.items():
        loaded = load(run.manifest.settings["model"][0], weights=run.manifest.settings["weights"][0])
        likelihoods = [likelihood(loaded, each) for each in said(over[TRUTH], loaded)]
        lines.append(compared(name, list(run.records.values()), truth, likelihoods))
    headings = "answers as float32's | 95 % | replies equal | 95 % | right | 95 % | nats a token of float32's replies"
    return table(f"weights | {headings}", lines)


def main() -> None:
    """Print the table for a folder."""
    parser = argparse.ArgumentParser("python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of `experiment run experiments/weights.yaml`")
    folder: Path = parser.parse_args().folder
    experiment = read_experiment(folder / FILE)
    print(tables(runs_in(folder, experiment.rows)))


if __name__ == "__main__":
    main()
