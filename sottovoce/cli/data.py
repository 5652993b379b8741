"""The commands of `data`: known data sets, generated games, and indexes of passages.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click
from pydantic import ConfigDict, Field

from sottovoce.cli.command import Commands, Row, SchemeCommands
from sottovoce.cli.options import argument
from sottovoce.core.bounds import Count, Few
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.files import FORCE, INDEX, OutputFile, check_folder
from sottovoce.core.text import counted, harmless, one_line, say
from sottovoce.core.validation import Checked
from sottovoce.datasets import DATASETS, DataSet
from sottovoce.datasets.published import parse_source, read_source
from sottovoce.datasets.samples import samples
from sottovoce.environments import STORED
from sottovoce.graphs import record_of, scheme
from sottovoce.nodes.question import Question, passages_of, shown
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import lettered
from sottovoce.report.tables import show as show_table
from sottovoce.retrievers.index import SHARD, Corpus, IndexBuilder, OnProgress, build_index

commands = Commands("data")
NAME = 16  # columns
BETWEEN = 30.0  # seconds between two lines of progress if there is no terminal
LISTED = 3  # published counts of a data set that are shown


class DatasetOptions(Checked):
    """The data set to show."""

    dataset: str = argument("A data set, or a file of one, as for --questions.", "NAME|NAME:FILE")


class GamesOptions(Checked):
    """The number of games, their split and their file; their seed and size are the scheme's own settings."""

    model_config = ConfigDict(title="Games")

    n: Few = Field(default=100, ge=1, description="Number of games.")
    split: Literal["train", "validation", "test"] | None = Field(
        default=None,
        description="Split of the games: monitors are trained on train, chosen by validation, and never see test. "
        "If not set: any.",
    )
    to: Path = Field(description="The .jsonl file to write.")
    force: bool = Field(default=False, description=FORCE)


@commands.add()
def list_() -> None:
    """List the published data sets that can be read."""
    lines = [f"{name:{NAME}}{_described(DATASETS[name])}" for name in DATASETS]
    use = "use one as --questions NAME:FILE or NAME/PART:FILE; `data show NAME:FILE` shows an example"
    show_table("\n".join([*lines, "", use]))


@commands.add(DatasetOptions)
def show(options: DatasetOptions) -> None:
    """Describe a data set; or show an example from a file of it, with its number of questions and digest."""
    name = options.dataset
    if name in DATASETS:
        say(f"{name}: {_described(DATASETS[name])}\nfrom the file as published: {DATASETS[name].shape}")
        return
    if (source := parse_source(name)) is None:
        unknown = nearest("data set", name, DATASETS)
        raise UsageError(f"{unknown} (expected NAME, or NAME:FILE, such as gsm8k:test.jsonl)")
    file = read_source(source)
    say(f"{source.name}: {source.data.about}")
    say(f"{counted(len(file.rows), 'row')}, sha256 {file.digest}; scored by {source.data.metric}")
    say(f"\n{example(file.questions[0])}")


def example(question: Question) -> str:
    """Return a question as agents read it, with its target, which they do not read."""
    documents = [shown(passage, number) for number, passage in enumerate(passages_of(question, None), start=1)]
    choices = question.get("choices") or []
    listed = choices if question.get("kind") == "label" else lettered(choices)
    answers = [question["target"], *question.get("aliases", [])] if "target" in question else []
    target = f"target: {' or '.join(answers)}" if answers else "no target: answers are kept, and not scored"
    heading = f"{question['id']} ({question['kind']})"
    return harmless("\n".join([heading, *documents, question["question"], *listed, target]))


def _described(data: DataSet) -> str:
    counts = ", ".join(f"{name} {n:,}" for name, n in [*data.counts.items()][:LISTED])
    parts = f"; /{', /'.join(data.parts)}" if data.parts else ""
    return f"{data.about}; {counts}{parts}; {data.metric}{f'; needs {data.needs}' if data.needs else ''}"


class IndexOptions(Checked):
    """Source and settings of an index to build."""

    model_config = ConfigDict(title="Index")

    corpus: Path | None = Field(
        default=None,
        description="A .jsonl file of passages (docid, title, text), or DPR's psgs_w100.tsv; each may end in .gz.",
        json_schema_extra={"positional": True},
    )
    to: Path | None = Field(default=None, description="New directory for the index.")
    retriever: Literal["bm25", "dense"] = Field(default="bm25", description="Retriever that will search the index.")
    k1: float | None = Field(default=None, description="bm25: saturation of repeated terms (default: 0.9).")
    b: float | None = Field(default=None, description="bm25: penalty for long passages, 0 to 1 (default: 0.4).")
    stemmer: str | None = Field(default=None, description="bm25: a Snowball stemmer, or none (default: porter).")
    stopwords: str | None = Field(default=None, description="bm25: en, or none (default: en).")
    encoder: str | None = Field(default=None, description="dense: a sentence encoder (default: minilm).")
    query_prompt: str | None = Field(
        default=None, description='dense: text before queries, such as "query: " (default: from the encoder\'s files).'
    )
    passage_prompt: str | None = Field(
        default=None, description="dense: text before passages (default: from the encoder's files)."
    )
    device: str | None = Field(default=None, description="dense: cpu, cuda, cuda:1, mps (default: a GPU if any).")
    prebuilt: str | None = Field(
        default=None, description="Download this prebuilt index of pyserini instead, e.g. wikipedia-dpr-100w (9.2 GB)."
    )
    skip_bad: bool = Field(default=False, description="Skip and count bad passages such as empty texts.")
    shard: Count = Field(default=SHARD, ge=1, description="Save progress after every N passages.")


OPTIONS = {
    "bm25": {"k1", "b", "stemmer", "stopwords"},
    "dense": {"encoder", "query_prompt", "passage_prompt", "device"},
}
"""The options of each retriever."""


def builder_for(options: IndexOptions) -> IndexBuilder:
    """Return the builder of the requested index."""
    given = {name: value for own in OPTIONS.values() for name in own if (value := getattr(options, name)) is not None}
    if strange := sorted(given.keys() - OPTIONS[options.retriever]):
        raise UsageError(f"--{strange[0].replace('_', '-')} is not an option of --retriever {options.retriever}")
    if options.retriever == "bm25":
        from sottovoce.retrievers.bm25 import BM25Builder, BM25Settings

        return BM25Builder(BM25Settings.model_validate(given))
    from sottovoce.retrievers.dense import DenseBuilder, DenseSettings

    device = given.pop("device", None)
    return DenseBuilder(DenseSettings.model_validate(given), device=device)


@commands.add(IndexOptions)
def index(options: IndexOptions) -> None:
    """Build an index of passages that agents can search; resumable."""
    from sottovoce.runs.limits import resumable

    if options.prebuilt is not None:
        from sottovoce.retrievers.pyserini import download

        if options.corpus or options.to:
            raise UsageError("--prebuilt downloads an index; give it without a corpus and --to")
        return say(f"search it as pyserini:{options.prebuilt}; it is in {one_line(str(download(options.prebuilt)))}")
    if options.corpus is None or options.to is None:
        raise UsageError("an index needs a corpus and a new folder, e.g. data index passages.jsonl --to indexes/mine")
    check_folder(options.to, "--to", INDEX)
    began, builder, corpus = time.monotonic(), builder_for(options), Corpus(options.corpus, skip_bad=options.skip_bad)
    with resumable("what was indexed is kept"), _progress() as report:
        manifest = build_index(builder, corpus, options.to, options.shard, report)
    size = sum(file.stat().st_size for file in options.to.rglob("*") if file.is_file())
    name = one_line(str(options.to))
    say(f"{manifest.passages:,} passages in {name}, {size / 1e6:.1f} MB, {time.monotonic() - began:.0f} s")
    if corpus.skipped:
        bad = counted(corpus.skipped, "bad passage")
        say(f"{bad} left out; the first: {one_line(corpus.first_skipped)}")
    say(f"search it as {builder.name}:{name}")


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Yield a function that shows an index's progress on stderr: in one line on a terminal, else now and then."""
    from rich.console import Console

    console, last = Console(stderr=True, highlight=False), time.monotonic()
    with console.status("reading") as status:

        def report(passages: int, share: float) -> None:
            nonlocal last
            line = f"{share:.0%} read, {passages:,} passages{'; joining shards' if share >= 1 else ''}"
            status.update(line)
            if not console.is_terminal and time.monotonic() - last >= BETWEEN:
                last = time.monotonic()
                console.print(line, soft_wrap=True)

        yield report


def write_games(command: str, settings: Settings, options: GamesOptions) -> None:
    """Write games to a file, whole or not at all, and print how to play them."""
    file = OutputFile(options.to, "--to", force=options.force, endings=(".jsonl", ".ndjson"))
    name = "/".join(filter(None, (record_of(settings).sample, options.split)))
    own = {"sample": name, "sample_seed": settings.seed}  # no agent reads these columns
    rows = [
        {**{key: value for key, value in game.items() if key != "decoys"}, **own}
        for game in samples(name, options.n, settings, settings.seed)
    ]
    file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    path = one_line(str(options.to))
    say(f"{counted(len(rows), 'game')} of {name}/{settings.seed} written to {path}")
    say(f"play them with `{command} --questions {path}` and the settings of this call")


class WorldCommands(SchemeCommands):
    """A group with a command for each world, that is, for each scheme with splits of its games."""

    noun = "world"

    def rows(self) -> dict[str, list[Row]]:
        """Return the worlds."""
        return {"Worlds": [(world, scheme(world).summary) for world in STORED]}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the worlds' commands."""
        return [*STORED]


GAMES = "Generate games of a world, and store them in a file that its scheme plays."
commands.add_command(WorldCommands("games", GAMES, write_games, GamesOptions))
