"""Rows: what an experiment, a baseline or a search runs. Each row is one run: a scheme, settings, questions and seeds.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sottovoce.core.errors import UsageError, nearest
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.experiments.schema import Experiment, Matched, Selection, Source
from sottovoce.nodes.question import Passage, Question, passages_of, question_id
from sottovoce.runs.limits import Budget
from sottovoce.settings import Settings


@dataclass(frozen=True)
class Row:
    """A row that is ready to run."""

    name: str
    """Also the name of its folder."""
    scheme: str
    settings: Settings
    questions: list[Question]
    seeds: list[int]
    origin: str | None
    """Where the questions come from, in a phrase."""
    matched: Matched | None = None
    """The row whose cost determines the number of samples; see `matching`."""
    budget: Budget | None = None
    """That cost, once it is known."""


def prepare(experiment: Experiment, name: str) -> Row:
    """Return a row of an experiment file, ready to run.

    Raises:
        UsageError: its questions cannot be read, or cannot be put to its agents.
    """
    row = experiment.rows[name]
    try:
        pooled = [_read_source(source, row.settings, experiment.seeds) for source in experiment.sources(name)]
        questions = [question for source_questions, _ in pooled for question in source_questions]
        for id, times in Counter(map(question_id, questions)).most_common(1):
            if times > 1:
                raise UsageError(
                    f"two of the questions have the id {id!r}; name the part of a data set, or drop a source"
                )
        for agent in row.documents:
            if agent not in row.settings.names():
                raise UsageError(nearest("agent among the documents", agent, row.settings.names()))
        if row.documents:
            questions = [
                {**question, "documents": {agent: _selected(question, agent, n) for agent, n in row.documents.items()}}
                for question in questions
            ]
    except UsageError as error:
        raise UsageError(f"row {name!r}: {error}") from error
    origin = "; ".join(phrase for _, phrase in pooled if phrase) or None
    return Row(name, row.scheme, row.settings, questions, experiment.seeds, origin, row.matched)


def _read_source(source: Source, settings: Settings, seeds: list[int]) -> tuple[list[Question], str | None]:
    """Return the questions of one source, and a phrase that says where they come from."""
    options = source.model_dump(exclude_defaults=True, exclude={"file", "dataset", "hub", "printed"})
    if source.option is not None:
        options["questions"] = source.option
    questions, origin = questions_of(QuestionOptions.model_validate({**options, "seeds": seeds}), settings)
    return questions, origin.words


def _selected(question: Question, agent: str, selection: Selection) -> list[Passage]:
    dealt = passages_of(question, agent)
    if selection == "all":
        return dealt
    for number in selection:
        if not 1 <= number <= len(dealt):
            raise UsageError(
                f"question {question_id(question)!r} has {len(dealt)} documents for {agent}, and the row keeps number "
                f"{number}; count from 1"
            )
    return [dealt[number - 1] for number in selection]
