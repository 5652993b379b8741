"""A row of an experiment, ready to run: its settings, and its questions with the documents that its agents get.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sottovoce.core.errors import UsageError, nearest
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.experiments.schema import Asked, Experiment, Kept, Matched
from sottovoce.nodes.question import Passage, Question, passages_of, question_id
from sottovoce.settings import Settings


@dataclass(frozen=True)
class Prepared:
    """A row that is ready to run."""

    name: str
    scheme: str
    settings: Settings
    questions: list[Question]
    seeds: list[int]
    origin: str | None
    """Where the questions come from, in a phrase."""
    matched: Matched | None = None
    """The row that determines the number of samples, which is unknown until that row is over."""


def prepare(experiment: Experiment, name: str) -> Prepared:
    """Return a row by name, ready to run.

    Raises:
        UsageError: its questions cannot be read, or cannot be put to its agents.
    """
    row = experiment.rows[name]
    try:
        pooled = [_of_source(asked, row.settings, experiment.seeds) for asked in experiment.questions]
        questions = [each for asked, _ in pooled for each in asked]
        _check_different(questions)
        if row.documents:
            _check_agents(row.documents, row.settings)
            questions = [keeping(each, row.documents) for each in questions]
    except UsageError as error:
        raise UsageError(f"row {name!r}: {error}") from error
    origin = "; ".join(words for _, words in pooled if words) or None
    return Prepared(name, row.scheme, row.settings, questions, experiment.seeds, origin, row.matched)


def _of_source(asked: Asked, settings: Settings, seeds: list[int]) -> tuple[list[Question], str | None]:
    """Return the questions of one source, and a phrase that says where they come from."""
    said = asked.model_dump(exclude_defaults=True, exclude={"file", "dataset", "hub"})
    if asked.said is not None:
        said["questions"] = asked.said
    questions, origin = questions_of(QuestionOptions.model_validate({**said, "seeds": seeds}), settings)
    return questions, origin.words


def _check_different(questions: list[Question]) -> None:
    """Check that no two questions share an id: their discussions could not be told apart."""
    seen = set[str]()
    for each in questions:
        if (id := question_id(each)) in seen:
            raise UsageError(f"two of the questions have the id {id!r}; name the part of a data set, or drop a source")
        seen.add(id)


def keeping(question: Question, kept: Mapping[str, Kept]) -> Question:
    """Return the question with only the documents that agents keep; an agent that is not named keeps none.

    Raises:
        UsageError: an agent has fewer documents.
    """
    return {**question, "documents": {agent: _kept(question, agent, numbers) for agent, numbers in kept.items()}}


def _kept(question: Question, agent: str, numbers: Kept) -> list[Passage]:
    dealt = passages_of(question, agent)
    if numbers == "all":
        return dealt
    for number in numbers:
        if not 1 <= number <= len(dealt):
            found = f"question {question_id(question)!r} has {len(dealt)} documents for {agent}"
            raise UsageError(f"{found}, and the row keeps number {number}; count from 1")
    return [dealt[number - 1] for number in numbers]


def _check_agents(kept: Mapping[str, Kept], settings: Settings) -> None:
    for agent in kept:
        if agent not in settings.names():
            raise UsageError(nearest("agent among the documents", agent, settings.names()))
