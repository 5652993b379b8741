"""Runs from Python: ask a scheme questions or open a saved run, and read the results as tables.

The command line uses the same runner, so each can resume, compare and verify the runs of the other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.core.any_types import JSON, JSONValue, Untyped
from sottovoce.core.display import html
from sottovoce.core.errors import UsageError
from sottovoce.datasets.fields import Columns, check_names, columns_of, question_from, renamed
from sottovoce.datasets.question_files import read_file
from sottovoce.datasets.question_source import check
from sottovoce.datasets.table_reader import ENDINGS
from sottovoce.datasets.trained import SMALL, untrained
from sottovoce.graphs import SCHEMES, Scheme
from sottovoce.graphs import scheme as scheme_of
from sottovoce.nodes.context import Models
from sottovoce.nodes.option_groups import named
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import kind_of
from sottovoce.runs import run_directory
from sottovoce.runs.limits import Limits
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import DiscussionRecord, Results
from sottovoce.runs.run import Observer, Run, load_run
from sottovoce.runs.runner import continue_run, payload_store, run_all

if TYPE_CHECKING:
    from pandas import DataFrame


class RunResults:
    """The discussions of a run: messages, results, and tables of both."""

    def __init__(self, run: Run) -> None:
        """Wrap a run that has ended or was read from its directory."""
        self._run = run

    @property
    def folder(self) -> Path | None:
        """The run's directory; None if the run is not saved."""
        return self._run.folder

    @property
    def scheme(self) -> str:
        """The name of its scheme."""
        return self._run.manifest.scheme

    @property
    def settings(self) -> JSON:
        """All settings that the run was started with, defaults included."""
        return self._run.manifest.settings

    @property
    def results(self) -> Results:
        """The result of each discussion that ended, failed ones included; `error` of its record says why it failed."""
        return self._run.results()

    @property
    def records(self) -> list[DiscussionRecord]:
        """The full record of each discussion: question, messages, prompts, votes, decision, cost."""
        return list(self._run.records.values())

    def _repr_html_(self) -> str:
        return html(self)

    def to_pandas(self) -> DataFrame:
        """Return a table with a row for each discussion that ended: a question under a seed.

        Its columns are those of `Result` (`id`, `seed`, `answer`, `target`, `score`, `score_failed_wrong`, `failed`,
        tokens, seconds, ...), the question's text, the error of a failed discussion, and a column for each measure.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = []
        for result in self.results:
            record = self._run.records[result.question, result.seed]
            about = {"id": result.question, "question": record.question["question"], "error": record.error}
            row = {name: value for name, value in result.to_dict().items() if name not in ("question", "measures")}
            rows.append({**about, **row, **result.measures})
        return _table(rows)

    def messages_to_pandas(self) -> DataFrame:
        """Return a table with a row for each message, in the order of the board; `withdrawn` marks withdrawn ones.

        `protocol` and `payload` (a sha256) describe the message's payload. Statistics of the call, such as
        `tokens_out`, have columns of their own.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = []
        for (name, seed), record in self._run.records.items():
            for message in record.messages:
                said = {"text": message.full_text, "withdrawn": message.withdrawn, "source": message.source}
                under = message.payload
                carried = {"protocol": under.protocol if under else None, "payload": under.sha256 if under else None}
                rows.append({"id": name, "seed": seed, **message.place._asdict(), **said, **carried, **message.stats})
        return _table(rows)


def run_questions(
    scheme: str | Scheme,
    questions: str | Question | Path | Sequence[str | Question | Mapping[str, JSONValue]],
    settings: Settings | Mapping[str, JSONValue] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    models: Models = None,
    seeds: Sequence[int] = (),
    folder: Path | str | None = None,
    at_once: int = 32,
    progress: bool = True,
) -> RunResults:
    """Ask a scheme one or more questions and return the results.

    Args:
        scheme: The scheme's name, or a `Scheme`.
        questions: Texts, or questions with further fields (`Question`: documents, choices, target, ...), or the path
            of a question file.
        settings: The scheme's own settings, or plain values by name, as in a settings file: a single value stands
            for a list of one. None uses the defaults.
        columns: The fields that have other names in the questions: {"question": "prompt", "target": "gold"}. Other
            keys of such questions are not read.
        models: A chat model for all agents, or models by agent name; None loads those that the settings name.
        seeds: Each question is discussed once under each seed; if empty, once under the settings' seed.
        folder: Directory to save the run in. If it already contains this run, unfinished discussions are continued,
            and nothing is asked twice. None saves nothing, and payloads are deleted at the end.
        at_once: Number of discussions that run at the same time.
        progress: Show a bar of the discussions that are over, at a terminal and in a notebook.

    Raises:
        UsageError: there is no such scheme, or it cannot discuss these questions; raised before any agent speaks.
        RecordError: the directory contains another run, or cannot be written.
        SottovoceError: the run failed. A failed discussion does not raise: it is a row of the results.
    """
    registered = _known(scheme)
    values = named(settings, registered.settings.model_fields) if isinstance(settings, Mapping) else settings
    chosen_settings = registered.settings.parse(values)
    if models is None and (why := untrained(chosen_settings)):
        raise UsageError(f"{why}; name another model in the settings, such as {{'model': '{SMALL}'}}")
    checked = _checked_questions(questions, columns_of(columns or {}), chosen_settings)
    limits = Limits(at_once=at_once)
    manifest = new_manifest(registered.name, chosen_settings, checked, seeds, models=models)
    place = Path(folder) if folder is not None else None
    run = Run.start(manifest, checked, None) if place is None else continue_run(manifest, checked, place)
    if run.unfinished:
        with payload_store(place) as store, _bar(run, shown=progress) as observe:
            run_all(run, chosen_settings, store, models=models, limits=limits, observe=observe)
    else:
        run.close()
    return RunResults(run)


def open_run(path: Path | str) -> RunResults:
    """Open a saved run; no model is needed.

    Args:
        path: Its directory, a name that `runs list` shows, or "latest".

    Raises:
        RecordError: there is no such run, it is damaged, or another version wrote it.
    """
    return RunResults(load_run(run_directory.find_run(str(path))))


def _known(scheme: str | Scheme) -> Scheme:
    """Return a registered scheme; register a `Scheme` whose name is not taken yet."""
    if isinstance(scheme, str):
        return scheme_of(scheme)
    if scheme.name not in SCHEMES:
        SCHEMES.register(scheme.name, scheme)
    if (found := scheme_of(scheme.name)) != scheme:
        raise UsageError(f"another scheme is called {scheme.name!r}; choose another name for this one")
    return found


@contextmanager
def _bar(run: Run, *, shown: bool) -> Iterator[Observer]:
    """Show the discussions that are over, and the score so far, at a terminal or in a notebook."""
    from tqdm.auto import tqdm

    scored = any("target" in record.question for record in run.records.values())
    name = run.manifest.scheme if scored else f"{run.manifest.scheme}, not scored: no question has a target"
    visible = shown and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    with tqdm(total=len(run.records), desc=name, unit="discussion", disable=not visible) as bar:

        def update(*_: object) -> None:
            counts = run.counts
            if behind := counts.done + counts.failed - bar.n:
                bar.set_postfix_str(f"{counts.score / counts.scored:.0%} right" if counts.scored else "", refresh=False)
                bar.update(behind)

        yield lambda record, event: update() if visible and record.status in ("done", "failed") else None
        if visible:
            update()


def _checked_questions(questions: Untyped, columns: Columns, settings: Settings) -> list[Question]:
    """Return the questions of a file, or texts and rows as questions, with the fields in place of the columns."""
    if isinstance(questions, Path):
        questions = read_file(questions, columns=columns).questions
        columns = {}
    if isinstance(questions, str) and questions.endswith(ENDINGS) and len(questions.split()) == 1:
        raise UsageError(f"the question is {questions!r}, the name of a file; to read its questions, give a Path")
    items = [questions] if isinstance(questions, (str, Mapping)) else list(questions)
    if not items:
        raise UsageError("there are no questions; give at least one")
    checked: list[Question] = []
    for item in items:
        if not isinstance(item, (str, Mapping)):
            raise UsageError(f"a question is {item!r}; expected a text, or a dict with a text as its 'question'")
        question: Any = {"question": item} if isinstance(item, str) else dict(item)  # Any: checked below
        if columns:
            row = renamed(question, columns)
            check_names(row, columns)
            question, _ = question_from(row, {}, cells=False)
        check(question, settings)
        question["kind"] = settings.answers_in or kind_of(question)
        checked.append(question)
    return checked


def _table(rows: list[JSON]) -> DataFrame:
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise UsageError(f"tables need pandas; pip install pandas ({error})") from error
    return DataFrame(rows)
