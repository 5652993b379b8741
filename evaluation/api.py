"""Runs from Python: ask a scheme questions, or open a run that is kept, and read both as tables.

The command line's own runner holds them, so that a run of either can be resumed, compared and verified by the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.errors import UsageError
from sottovoce.evaluation.runs import shelf
from sottovoce.evaluation.runs.head import head_of
from sottovoce.evaluation.runs.limits import Limits
from sottovoce.evaluation.runs.questions import check
from sottovoce.evaluation.runs.reading import load_run
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.results import Result
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.runs.running import hold_all, payloads
from sottovoce.evaluation.runs.starting import continued
from sottovoce.evaluation.trained import SMALL, untrained
from sottovoce.graphs import SCHEMES, Scheme
from sottovoce.graphs import scheme as scheme_of
from sottovoce.nodes.given import Models
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.settings.plain import named
from sottovoce.prompts.kinds import kind_of

if TYPE_CHECKING:
    from pandas import DataFrame

PLACE = ("epoch", "round", "turn", "agent", "act", "attempt")


class RunResults:
    """The discussions of a run: what was said, how each ended, and tables of both."""

    def __init__(self, run: Run) -> None:
        """Take a run that is over, or was read from its folder."""
        self._run = run

    @property
    def folder(self) -> Path | None:
        """Where the run is kept, if anywhere."""
        return self._run.folder

    @property
    def scheme(self) -> str:
        """The name of its scheme."""
        return self._run.head.scheme

    @property
    def settings(self) -> dict[str, Any]:  # Any: JSON
        """The settings that it was begun with."""
        return self._run.head.complete

    @property
    def results(self) -> list[Result]:
        """What each discussion that ended came to, failed ones too; `error` of its record says why one failed."""
        return self._run.results()

    @property
    def records(self) -> list[Record]:
        """All of each discussion: question, messages, prompts, votes, decision, cost."""
        return list(self._run.records.values())

    def to_pandas(self) -> DataFrame:
        """Return a table with a row for each discussion that ended: a question under a seed.

        Its columns are those of `Result` (`id`, `seed`, `answer`, `target`, `score`, `score_failed_wrong`, `failed`,
        tokens, seconds, ...),
        the question's text, the error of one that failed, and what a world measures.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = []
        for result in self.results:
            record = self._run.records[result.question, result.seed]
            found = {name: value for name, value in result.to_dict().items() if name not in ("question", "measures")}
            about = {"id": result.question, "question": record.question["question"], "error": record.error}
            rows.append({**about, **found, **result.measures})
        return _table(rows)

    def messages_to_pandas(self) -> DataFrame:
        """Return a table with a row for each message, in the order of the board; withdrawn ones are marked.

        `protocol` and `payload` (a sha256) say what lay under the words; numbers of the call, as `tokens_out`, stand in
        columns of their own.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = []
        for (name, seed), record in self._run.records.items():
            for message in record.messages:
                place = {key: getattr(message, key) for key in PLACE}
                said = {"text": message.whole, "withdrawn": message.withdrawn, "source": message.source}
                under = message.payload
                carried = {"protocol": under.protocol if under else None, "payload": under.sha256 if under else None}
                rows.append({"id": name, "seed": seed, **place, **said, **carried, **message.stats})
        return _table(rows)


def run_questions(
    scheme: str | Scheme,
    questions: str | Question | Sequence[str | Question],
    settings: Settings | Mapping[str, Any] | None = None,  # Any: plain values, as a settings file has them
    *,
    models: Models = None,
    seeds: Sequence[int] = (),
    folder: Path | str | None = None,
    at_once: int = 32,
) -> RunResults:
    """Ask a scheme one or many questions, and return how the discussions went.

    Args:
        scheme: Its name, or its record.
        questions: Texts, or questions with all that belongs to them (`Question`: documents, choices, target, ...).
        settings: The scheme's own settings, or plain values by name, as a settings file has them: one value stands
            for a list of one. None are the defaults.
        models: Chat models for all agents, or by agent name; None makes those that the settings name.
        seeds: Each question is discussed once under each; else under the settings' seed.
        folder: Keeps the run there. Where it holds this run already, what is not over goes on, and nothing is asked
            twice. None keeps nothing, and payloads are removed when it is over.
        at_once: How many discussions are under way together.

    Raises:
        UsageError: there is no such scheme, or it cannot be asked this; found before any agent speaks.
        RecordError: the folder holds another run, or cannot be written.
        SottovoceError: the run failed. A discussion that failed is a row of the results.
    """
    found = _known(scheme)
    values = named(settings, found.settings.model_fields) if isinstance(settings, Mapping) else settings
    chosen = found.settings.given(values)
    if models is None and (why := untrained(found.name, chosen)):
        raise UsageError(f"{why}; name another model in the settings, such as {{'model': '{SMALL}'}}")
    asked = _asked(questions, chosen)
    limits = Limits(at_once=at_once)
    head = head_of(found.name, chosen, asked, seeds, models=models)
    place = Path(folder) if folder is not None else None
    run = Run.begin(head, asked, None) if place is None else continued(head, asked, place)
    if run.unfinished:
        with payloads(place) as store:
            _outside_of_loops(lambda: hold_all(run, chosen, store, models=models, limits=limits))
    else:
        run.close()
    return RunResults(run)


def open_run(path: Path | str) -> RunResults:
    """Open a run that is kept; no model is needed.

    Args:
        path: Its folder, a name that `runs list` shows, or "latest".

    Raises:
        RecordError: there is no such run, it is damaged, or it was written by another version.
    """
    return RunResults(load_run(shelf.folder_of(str(path))))


def _known(scheme: str | Scheme) -> Scheme:
    """A scheme as all else finds it: by its name; a record that nobody registered is registered."""
    if isinstance(scheme, str):
        return scheme_of(scheme)
    if scheme.name not in SCHEMES:
        SCHEMES.register(scheme.name, scheme)
    if (found := scheme_of(scheme.name)) != scheme:
        raise UsageError(f"another scheme is called {scheme.name!r}; choose another name for this one")
    return found


def _asked(questions: str | Question | Sequence[str | Question], settings: Settings) -> list[Question]:
    """Questions, each checked and with its kind."""
    given = [questions] if isinstance(questions, (str, Mapping)) else list(questions)
    if not given:
        raise UsageError("there are no questions; give one at least")
    asked: list[Question] = []
    for each in given:
        if not isinstance(each, (str, Mapping)):
            raise UsageError(f"a question is {each!r}; expected a text, or a dict with a text as its 'question'")
        question: Any = {"question": each} if isinstance(each, str) else dict(each)  # Any: checked below
        check(question, settings)
        question["kind"] = settings.answers_in or kind_of(question)
        asked.append(question)
    return asked


def _outside_of_loops(work: Any) -> None:  # Any: a function without arguments
    """Run what starts an event loop of its own: in a notebook, which has one, in a thread beside it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        work()
        return
    with ThreadPoolExecutor(1) as beside:
        beside.submit(work).result()


def _table(rows: list[dict[str, Any]]) -> DataFrame:  # Any: cells
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise UsageError(f"tables need pandas; pip install pandas ({error})") from error
    return DataFrame(rows)
