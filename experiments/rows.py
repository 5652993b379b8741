"""Rows of an experiment, a baseline or a search. Each row is one run: a scheme, settings, questions and seeds.

A row may be self-consistency with as many samples as cost the same as another row. The budget is the recorded cost of
that row's run. A pilot, a separate row in `ROW/pilot`, measures the cost of samples once: see docs/howto/scores.md. A
run of another scheme does not show that cost, because its prompts differ. By the first turns of MAD (bundled model) 4
samples would cost as much as a discussion; the pilot found 11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean

from sottovoce.channels import PROTOCOLS
from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.text import counted
from sottovoce.datasets.question_source import QuestionOptions, check, questions_of
from sottovoce.experiments.schema import Experiment, Matched, Selection, Source
from sottovoce.graphs import scheme
from sottovoce.nodes.option_groups import OF_PROTOCOL, People, Watched
from sottovoce.nodes.question import Passage, Question, content_of, passages_of, question_id, same_questions
from sottovoce.nodes.settings import EACH, Settings
from sottovoce.runs.cost import MODELS, computed_tokens, flops
from sottovoce.runs.limits import Budget, Currency
from sottovoce.runs.manifest import digest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run
from sottovoce.runs.runner import resume_command

IDENTITY = ("scheme", "settings", "budget", "seeds", "questions", "prompts", "bridges")
"""Fields of a run's manifest that identify a row; with other values it would be another row."""


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
    """The row whose cost determines the number of samples; see `match`. A pilot measures for it."""
    budget: Budget | None = None
    """That cost, once it is known."""


def prepare(experiment: Experiment, name: str) -> Row:
    """Return a row of an experiment file, ready to run.

    Raises:
        UsageError: its questions cannot be read, or its agents cannot be asked them.
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
    """Return the questions of one source, and a phrase that names it."""
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


PILOT, PILOT_QUESTIONS, PILOT_SAMPLES = "/pilot", 8, 4
DISCUSSION_SETTINGS = {
    "protocol", "option", "fallback", "seed", *OF_PROTOCOL, *People.model_fields, *Watched.model_fields
}  # fmt: skip
"""Settings that both schemes have but a single agent does not use."""


def baselines(name: str, run: Run, by: Currency) -> list[Row]:
    """Return the baselines of a finished run: a single agent, and self-consistency at the cost of the run.

    They have the questions and seeds of the run.

    Raises:
        UsageError: the run is not over, or failed in part, or a single agent cannot be asked its questions.
    """
    if why := unknown_cost(name, run):
        raise UsageError(f"run {why}; {resume_command(run)} resumes it")
    matched = {"single": None, "self_consistency": Matched(row=name, by=by)}
    questions, rows = run.questions(), list[Row]()
    for scheme_name, target in matched.items():
        settings = baseline_settings(run, scheme(scheme_name).settings)
        for question in questions:
            check(question, settings)
        row_name = f"{name}-{scheme(scheme_name).command}"
        rows.append(Row(row_name, scheme_name, settings, questions, run.manifest.seeds, run.manifest.origin, target))
    return rows


def baseline_settings(run: Run, kind: type[Settings]) -> Settings:
    """Return those settings of a run that another scheme also has, reduced to one agent.

    The temperature is left to the model if the protocol averages embeddings, or if samples at 0 would all be equal.

    Raises:
        UsageError: the run's agents have several models.
    """
    settings, defaults = run.manifest.settings, kind().model_dump(mode="json")
    shared = {
        name: _for_one_agent(name, settings[name])
        for name in defaults
        if name in settings and name not in DISCUSSION_SETTINGS
    }
    equal_samples = kind is scheme("self_consistency").settings and shared["temperature"] == [0]
    if equal_samples or PROTOCOLS[settings["protocol"]].averages:
        del shared["temperature"]
    chosen = {name: value for name, value in shared.items() if value is not None and value != defaults[name]}
    return kind.model_validate(chosen)


def _for_one_agent(name: str, value: JSONValue) -> JSONValue:
    """Return the value for one agent; None if agents differ in it."""
    if name not in EACH or not value or all(item == value[0] for item in value):
        return value[:1] if name in EACH else value
    if name == "model":
        raise UsageError(f"the run's agents have several models ({', '.join(value)}); no single agent stands for them")
    return None


def with_pilots(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the rows by name, with a pilot before each row that is matched to another."""
    by_name = dict[str, Row]()
    for row in rows:
        if row.matched:
            settings = row.settings.model_copy(update={"samples": PILOT_SAMPLES})
            pilot = replace(row, name=row.name + PILOT, settings=settings, seeds=row.seeds[:1])
            different = {*same_questions({question_id(each): content_of(each) for each in row.questions}).values()}
            asked = [each for each in row.questions if question_id(each) in different][:PILOT_QUESTIONS]
            by_name[pilot.name] = replace(pilot, questions=asked)
        by_name[row.name] = row
    return by_name


def unknown_cost(name: str, run: Run | None) -> str:
    """Return why the cost of a run's discussions is not known yet; "" if all ended with a decision."""
    if run is not None and not run.unfinished:
        return ""
    failed = counted(run.counts.failed, "failed discussion") if run and run.counts.failed else ""
    return f"{name!r} {f'has {failed}' if failed else 'is not over'}, so its cost is unknown"


def waits_for(row: Row, runs: Mapping[str, Run]) -> str:
    """Return the name of the unfinished run whose cost a row needs; "" if the row can run."""
    if row.matched is None or _saved_budget(row, runs):
        return ""
    needed = [row.matched.row] if row.name.endswith(PILOT) else [row.matched.row, row.name + PILOT]
    return next((name for name in needed if unknown_cost(name, runs.get(name))), "")


def _saved_budget(row: Row, runs: Mapping[str, Run]) -> Budget | None:
    """Return the budget of a saved row, or of the row of a pilot, if it is matched to the same run now."""
    run = runs.get(row.name.removesuffix(PILOT))
    budget = run.manifest.budget if run else None
    if budget is None or Matched(row=budget.row, by=budget.by) != row.matched:
        return None
    target = runs.get(budget.row)
    return budget if target is None or budget.settings == digest(target.manifest.settings) else None


def match(row: Row, runs: Mapping[str, Run]) -> Row:
    """Return a matched row with its budget and its number of samples; other rows are returned unchanged.

    Raises:
        UsageError: the cost of the other row, or of the pilot, is unknown or 0.
    """
    if row.matched is None:
        return row
    assert not waits_for(row, runs), "a row that waits does not run"
    target, by = row.matched.row, row.matched.by
    budget = _saved_budget(row, runs)
    cost = budget.target if budget else _mean(target, _costs(runs[target], by), by)
    if row.name.endswith(PILOT):  # which does not run if the cost is unknown
        return row
    if budget is None:
        pilot = row.name + PILOT
        samples = [_sample_costs(record, by) for record in runs[pilot].records.values()]
        budget = Budget(
            row=target,
            settings=digest(runs[target].manifest.settings),
            by=by,
            target=cost,
            first=_mean(pilot, [first for first, *_ in samples], by),
            further=_mean(pilot, [each for _, *further in samples for each in further], by),
            questions=len(samples),
        )
        if not (budget.target and budget.further):
            costs = f"{budget.in_words(budget.target)}, and a sample {budget.in_words(budget.further)}"
            raise UsageError(f"a discussion of {target!r} took {costs}; expected more than 0 of both, to match by {by}")
    return replace(row, settings=row.settings.model_copy(update={"samples": budget.samples}), budget=budget)


def budget_notes(runs: Mapping[str, Run]) -> Iterator[str]:
    """Yield a sentence for each run with a budget: the budget, and the cost that was reached."""
    for name, run in runs.items():
        if (budget := run.manifest.budget) is not None and (costs := _costs(run, budget.by)):
            took = "an unknown number of tokens"
            if len(known := [cost for cost in costs if cost is not None]) == len(costs):
                took = f"{budget.in_words(fmean(known))} (n = {len(known)}), {fmean(known) / budget.target:.0%} of that"
            samples = counted(run.manifest.settings["samples"], "sample")
            yield (
                f"`{name}`: {samples} per question, to cost as much as a discussion of `{budget.row}`"
                f" ({budget.in_words(budget.target)} on average); they took {took}."
                f" In a pilot of {counted(budget.questions, 'question')} the first sample of each took"
                f" {budget.in_words(budget.first)}, and each further one {budget.in_words(budget.further)}."
            )


def _costs(run: Run, by: Currency) -> list[float | None]:
    return [_cost(record, record.messages, by) for record in run.records.values() if record.decision]


def _cost(record: DiscussionRecord, messages: Sequence[Message], by: Currency) -> float | None:
    """Return the cost of messages; None if a server did not report it."""
    if by == "flops":
        return flops(messages, record.models)
    computed = [message for message in messages if message.source in MODELS]
    reported = all("tokens_out" in message.stats for message in computed)
    return sum(map(computed_tokens, computed)) if reported else None


def _mean(name: str, costs: Sequence[float | None], by: Currency) -> float:
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        remedy = "match by tokens" if by == "flops" else "give a number of samples instead of 'matched'"
        raise UsageError(f"row {name!r} ran on hosted models that reported no {by}, so its cost is unknown; {remedy}")
    return fmean(known)


def _sample_costs(record: DiscussionRecord, by: Currency) -> list[float | None]:
    """Return the cost of each sample of a discussion, including answer turns; the sample that reused least is first."""
    by_agent = groupby(sorted(record.messages, key=lambda message: message.agent), lambda message: message.agent)
    samples = [[*messages] for _, messages in by_agent]
    samples.sort(key=lambda messages: messages[0].stats.get("tokens_reused", 0))
    return [_cost(record, messages, by) for messages in samples]
