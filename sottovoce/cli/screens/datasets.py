"""The commands `data list` and `data show`: the known data sets, and the content of a file of one.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import typer

from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.text import counted, harmless
from sottovoce.datasets import DATASETS, DataSet
from sottovoce.datasets.sources import odd_answers, read_source, source_of
from sottovoce.nodes.question import Question, passages_of, shown
from sottovoce.prompts.kinds import lettered
from sottovoce.report.tables import show

NAME = 15  # columns
LISTED = 3  # published counts of a data set that are shown


def show_datasets() -> None:
    """List the published data sets."""
    lines = [f"{name:{NAME}}{_described(DATASETS[name])}" for name in DATASETS]
    use = "use one as --questions NAME:FILE or NAME/PART:FILE; `data show NAME:FILE` shows an example"
    show("\n".join([*lines, "", use]))


def show_dataset_file(given: str) -> None:
    """Describe a data set, or show an example from a file of one with its count and digest.

    Raises:
        UsageError: the data set is unknown, or its file cannot be read.
    """
    if given in DATASETS:
        typer.echo(f"{given}: {_described(DATASETS[given])}\nfrom the file as published: {DATASETS[given].shape}")
        return
    if (source := source_of(given)) is None:
        raise UsageError(
            f"{nearest('data set', given, DATASETS)}; expected NAME, or NAME:FILE, such as gsm8k:test.jsonl"
        )
    file = read_source(source)
    typer.echo(f"{source.name}: {source.data.about}")
    typer.echo(count_told(source.data, source.part, file.total))
    typer.echo(f"sha256 {file.digest}; scored by {source.data.metric}")
    if odd := odd_answers(source):
        told = ", ".join(f"{n:,} {how}" for how, n in odd.most_common())
        typer.echo(f"right answers that are easily misread: {told}")
    typer.echo(f"\n{example(file.questions[0])}")


def count_told(data: DataSet, part: str, total: int) -> str:
    """Return a note on how the number of rows compares with the published number of a split or part."""
    rows, known = counted(total, "row"), data.counts
    if part in known:
        known = {part: known[part]}
    elif data.any_part:
        if part:
            return f"{rows}; the published number of {part} is unknown"
        known = dict([next(iter(known.items()))])
    if whole := [name for name, n in known.items() if n == total]:
        return f"{rows}: the whole of {' or '.join(whole)}, as published"
    name, n = next(iter(known.items()))
    if total < n:
        return f"{rows} of the {n:,} published ({name}): a slice"
    return f"{rows}, and {n:,} were published ({name}): another split, or another file"


def example(question: Question) -> str:
    """Return a question as agents read it, with its target, which they do not read."""
    documents = [shown(each, number) for number, each in enumerate(passages_of(question, None), start=1)]
    choices = question.get("choices") or []
    listed = choices if question.get("kind") == "label" else lettered(choices)
    told = [*documents, question["question"], *listed]
    answers = [question["target"], *question.get("aliases", [])] if "target" in question else []
    target = f"target: {' or '.join(answers)}" if answers else "no target: answers are kept, and not scored"
    return harmless("\n".join([f"{question['id']} ({question['kind']})", *told, target]))


def _described(data: DataSet) -> str:
    counts = ", ".join(f"{name} {n:,}" for name, n in [*data.counts.items()][:LISTED])
    parts = f"; /{', /'.join(data.parts)}" if data.parts else ""
    return f"{data.about}; {counts}{parts}; {data.metric}{f'; needs {data.needs}' if data.needs else ''}"
