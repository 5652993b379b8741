"""The question source of a run: one question, a file of them, or samples generated from a seed.

Nothing here imports torch or langgraph: the command line reads `QuestionOptions` to print its help.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, cast

from pydantic import BeforeValidator, ConfigDict, Field, field_validator

from sottovoce.core.any_types import JSON, JSONValue, Untyped
from sottovoce.core.bounds import Count
from sottovoce.core.errors import UsageError, command, nearest
from sottovoce.core.text import counted
from sottovoce.core.validation import Checked
from sottovoce.datasets.fields import columns_of
from sottovoce.datasets.samples import origin, read_name, samples, stored_game
from sottovoce.datasets.table_reader import STDIN, Broken, Values, read_text
from sottovoce.environments import GAMES, STORED
from sottovoce.graphs import record_of, shipped
from sottovoce.nodes.question import Question, check_question
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import KINDS, KindName, kind_of

LOGGER = logging.getLogger(__name__)
COMMON = {"kind", "description", "answer_description", "demonstrations"}
"""Options about the task, which apply to all rows of a file that lack the field."""
PLAYED = "; ".join(f"{', '.join(names)} (scheme {command})" for command, names in GAMES.items())
CHOOSING = {"question", "sample", "games", "questions", "columns", "where", "limit", "shuffle", "skip", "seeds"}
"""Options that choose questions; all others are fields of a question."""
FILES_ONLY: dict[str, Untyped] = {"command": False}
"""Marks a field that experiments set and the command line does not."""


def _option(description: str, option: str | None = None, default: JSONValue = None) -> JSONValue:
    return Field(default=default, alias=option, description=description)


class QuestionOptions(Checked):
    """Command-line options for the questions of a run: fields of a `Question`, or the source of many."""

    model_config = ConfigDict(title="Question")

    question: str | None = Field(
        default=None,
        description="Question to discuss, - to read it from stdin; without one, a sample for the scheme.",
        json_schema_extra={"positional": True},
    )
    documents: list[str] = _option(
        "Text for the agents, or NAME=TEXT for one of them. All read it; brief's senders and ia's agents are dealt "
        "theirs in turn; madra's and react's can only search it.",
        "document",
        [],
    )
    kind: KindName | None = Field(
        default=None, description="Form of the answer; recognized from the question if not given."
    )
    choices: list[str] = _option("Option to choose from.", "choice", [])
    target: str | None = _option("Right answer; no agent reads it.")
    description: str | None = Field(default=None, alias="task_description", json_schema_extra=FILES_ONLY)
    answer_description: str | None = Field(default=None, alias="task_answer", json_schema_extra=FILES_ONLY)
    demonstrations: list[str] = Field(default=[], alias="task_demonstration", json_schema_extra=FILES_ONLY)
    sample: str | None = _option(
        "A generated question instead: arithmetic, arithmetic_cipher or arithmetic_files (CIPHER's paper, its files), "
        "chain2 to chain6 (2 to 6 operations), split, facts, work_facts, leisure_facts or home_facts (private "
        "documents), briefing or briefing_1 to briefing_16 (one of 4, or of 1 to 16 facts), world (an encyclopedia), "
        "world/bridge, world/comparison, world/strategy, world/claim or world/fact; "
        f"{PLAYED}. A seed may follow: split/3."
    )
    games: list[Path] = Field(
        default=[],
        alias="game",
        description=f"Instead of a question: a saved game of {' or '.join(STORED)}.",
        json_schema_extra={"worlds": True},
    )
    questions: str | None = _option(
        "A file of questions instead, .jsonl, .json, .csv, .tsv or .parquet: its columns are question fields (- for "
        "JSON Lines on stdin); or a published dataset: NAME:FILE or NAME/PART:FILE, such as gsm8k:test.jsonl, or with "
        "ID@COMMIT of the Hugging Face Hub for FILE."
    )
    columns: Annotated[dict[str, str], BeforeValidator(columns_of)] = Field(
        default={},
        alias="column",
        description="FIELD=COLUMN, or several: question=prompt,target=gold. The columns of --questions that have other "
        "names than their fields.",
    )
    where: list[str] = _option(
        "FIELD=VALUE: only rows of --questions with this value; also != and, for numbers, < <= > >=.", "where", []
    )
    limit: Count | None = Field(
        default=None, ge=1, description="Ask only this many rows of --questions or of --sample."
    )
    shuffle: int | None = Field(default=None, json_schema_extra=FILES_ONLY)
    skip: Count = Field(default=0, ge=0, description="Skip this many rows of --questions.")
    seeds: list[int] = _option("Instead of --seed: ask each question once under each of these seeds.", "seeds", [])

    @property
    def chosen(self) -> bool:
        """True if the question or a file was chosen, so that no sample is asked."""
        return self.question is not None or self.questions is not None or bool(self.games)

    @field_validator("questions", mode="before")
    @classmethod
    def _said(cls, value: JSONValue) -> JSONValue:
        return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True)
class Origin:
    """The source of questions."""

    words: str | None = None
    """A phrase for it; None if a human asked."""
    digest: str | None = None
    """For a file: the sha256 of its bytes, as far as they were read, in hexadecimal."""
    metadata: Mapping[str, Values] = field(default_factory=dict)
    """For a file: the other columns of each question, by its id."""


def questions_of(options: QuestionOptions, settings: Settings) -> tuple[list[Question], Origin]:
    """Return the questions, each checked for these settings, and their source.

    Questions of a file and samples have unique ids.

    Raises:
        UsageError: options contradict each other, the question is empty, the sample is unknown, documents are for
            agents that do not exist, or a file or one of its rows cannot be read or asked.
    """
    _check_options(options, settings)
    if options.question == str(STDIN):
        options = options.model_copy(update={"question": read_text(STDIN, "the question").strip()})
    questions, source = _questions(options, settings)
    if settings.answers_in:
        questions = [{**each, "kind": settings.answers_in} for each in questions]
    if options.questions is not None:
        kinds = Counter(KINDS[kind_of(each)].words for each in questions)
        asked = ", ".join(f"{words} ({count})" for words, count in kinds.items())
        LOGGER.info("form of the answers: %s; --kind or a column named kind sets it", asked)
    return questions, source


def _questions(options: QuestionOptions, settings: Settings) -> tuple[list[Question], Origin]:
    if options.questions is not None:
        return _of_file(options.questions, options, settings)
    if options.question is not None:
        fields: JSON = {name: value for name, value in options if value and name not in CHOOSING}
        if options.documents:
            fields["documents"] = dealt_documents(options.documents, settings)
        asked = cast(Question, {**fields, "question": options.question})
        asked["kind"] = kind_of(asked)
        questions, source = [asked], Origin()
    elif options.games:
        questions = [stored_game(path, settings) for path in options.games]
        source = Origin(f"stored game{'s' * (len(questions) > 1)}")
    else:
        (name, seed), n = read_name(options.sample or record_of(settings).sample, settings), options.limit or 1
        questions, source = samples(name, n, settings, seed), Origin(origin(name, n, seed))
        if examples := options.demonstrations:
            questions = [{**question, "demonstrations": examples} for question in questions]
            source = Origin(f"{source.words}, with {counted(len(examples), 'worked example')}")
    for question in questions:
        check(question, settings)
    return questions, source


def check(question: Question, settings: Settings) -> None:
    """Check that a question can be asked with these settings. Errors: see `check_question` and `check_game`."""
    if question.get("game") is not None:  # first: the agents of a question's wordings belong to its game
        settings.check_game(question)
    check_question(question, settings.owners(), settings.needs(), settings.names())


def _of_file(source_name: str, options: QuestionOptions, settings: Settings) -> tuple[list[Question], Origin]:
    from sottovoce.datasets.published import parse_source, read_source  # late: few runs read a file
    from sottovoce.datasets.question_files import Enough, read_file

    common = {name: getattr(options, name) for name in COMMON & options.model_fields_set}
    source = parse_source(source_name)
    last = None if options.limit is None or options.shuffle is not None else options.skip + options.limit
    enough = Enough(options.where, last)
    if source is None:
        file = read_file(source_name, common, enough, options.columns)
    elif options.columns:
        raise UsageError(f"--column is only for your own files; the columns of {source.name} are known")
    else:
        file = read_source(source, common, enough)
    file = file.take(options.where, options.limit, options.shuffle, options.skip)
    file = file.to_senders(settings.speakers()) if source and source.data.private else file
    broken = Broken(file.name, file.noun)
    for row in file.rows:
        with broken.at(row.line):
            check(row.question, settings)
    broken.raise_first()
    return file.questions, Origin(file.taken, file.digest, file.metadata)


def _check_options(options: QuestionOptions, settings: Settings) -> None:
    """Check that no option contradicts another or would be ignored: a sample has its own documents, kind and target."""
    one, many = {"a question": options.question, "--sample": options.sample}, {"--questions": options.questions}
    of: dict[str, object] = {**one, **many, "--game": options.games or None}
    sources = [name for name, given in of.items() if given is not None]
    if len(sources) > 1:
        raise UsageError(f"{sources[0]} and {sources[1]} were given; give one of them")
    if options.question is not None and (record := record_of(settings)).games:
        own = command(record.command, "--sample", record.sample)
        raise UsageError(f"a question was given, but {record.command} plays games of its own; type {own}")
    # Fields of a question come with one; fields of the task may also apply to all rows of a file, examples to a sample.
    if options.question is None:
        passed = CHOOSING | (COMMON if options.questions else {"demonstrations"} if options.sample else set())
        for name in sorted(options.model_dump(include=options.model_fields_set - passed, by_alias=True)):
            belongs = "one question; with --questions it is a column"
            belongs = belongs if options.questions else "a question, but no question was given; give one, or drop it"
            raise UsageError(f"--{name.replace('_', '-')} belongs to {belongs}")
    of_file = {name: f"--{name} chooses rows" for name in ("where", "shuffle", "skip")}
    for name, does in {"columns": "--column names columns", **of_file}.items():
        if name in options.model_fields_set and options.questions is None:
            raise UsageError(f"{does} of a file, but no file was given; give --questions FILE, or drop it")
    if options.limit is not None and options.question is not None:
        raise UsageError("--limit is for --questions and --sample, and one question was given; drop it")
    if options.seeds and "seed" in settings.model_fields_set:
        raise UsageError("--seed and --seeds were given; give one of them")
    if len({*options.seeds}) < len(options.seeds):
        raise UsageError(f"--seeds are {', '.join(map(str, options.seeds))}; give each once")


NUMBERED = re.compile(r"[^\W\d]+_\d+")
"""The form of a numbered agent's name: agent_1."""


def dealt_documents(documents: list[str], settings: Settings) -> list[str] | dict[str, list[str]]:
    """Return the documents as a list, or if any is private, as a list per agent. Errors: see `_owned`."""
    owned = [_owned(text, settings) for text in documents]
    if settings.owners() is None or not any(owner for owner, _ in owned):
        return [text for _, text in owned]
    return {name: [text for owner, text in owned if owner in ("", name)] for name in settings.names()}


def _owned(document: str, settings: Settings) -> tuple[str, str]:
    """Return a document's owner ("" for all agents) and text.

    Raises:
        UsageError: this run does not have the agent, and the name is another scheme's agent or has the form of a
            numbered agent.
    """
    name, sign, text = document.partition("=")
    if sign and name in settings.names():
        return name, text
    if sign and (name in _all_agents() or NUMBERED.fullmatch(name)):
        unknown = nearest("agent among the documents:", name, settings.names())
        raise UsageError(f"{unknown}; if the text itself begins so, put a space before the =")
    return "", document


@cache
def _all_agents() -> frozenset[str]:
    return frozenset(agent for each in shipped() for agent in each.settings().names())
