"""Rows for monitors from saved runs: the uncertainty of each agent's replies, and how the discussion ended.

The game is a question under a seed, the role what the scheme calls an agent to monitors, the turn a round; it failed
where the decision's score is below 1. Rows are of what a watch would look at: of several attempts at an act the one
that was acted on, no answer turn, and what was withdrawn as it was said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from sottovoce.channels.message import Message
from sottovoce.errors import UsageError
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.runs.starting import settings_of
from sottovoce.evaluation.runs.trust import NO_TRUST, Trust
from sottovoce.monitors.rows import Row
from sottovoce.monitors.settings import Measure
from sottovoce.monitors.tokens import Decode
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.uncertainty import Decoders, features_of_acts, finished

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def measure_of(runs: Sequence[Run], measure: Measure) -> Measure:
    """How rows of these runs are measured: at the positions that were asked for, else at those of their scheme."""
    known = {settings_of(run).positions for run in runs}
    if "positions" in measure.model_fields_set or len(known) != 1:
        return measure
    return measure.model_copy(update={"positions": known.pop()})


def collected(runs: Sequence[Run], measure: Measure, trust: Trust = NO_TRUST) -> tuple[list[Row], Counter[str]]:
    """The rows of all runs, and how much was passed over, by why; `trust` says which models may be opened.

    Raises:
        UsageError: nothing is left, or payloads lack what is to be measured.
        PayloadError: a payload is missing or damaged.
    """
    rows: list[Row] = []
    passed: Counter[str] = Counter()
    for run in runs:
        for (question, seed), record in run.records.items():
            if record.decision is None or record.decision["score"] is None:
                passed["discussions without a score"] += 1
                continue
            game = f"{run.folder.name if run.folder else ''}/{question}/{seed}"
            rows += _rows(run, record, game, measure, passed, trust)
    if not rows:
        why = ", ".join(f"{n} {what}" for what, n in passed.items() if n) or "no discussion"
        raise UsageError(f"no turn can be learnt from: found {why}; expected local models' replies, and targets")
    return rows, passed


def _rows(run: Run, record: Record, game: str, measure: Measure, passed: Counter[str], trust: Trust) -> Iterator[Row]:
    settings, store = settings_of(run), run.store()
    failed = record.decision is not None and (record.decision["score"] or 0) < 1
    done, decoders = finished(record.messages), _decoders(run, trust)
    told = [message for message in done if message.uncertainty is not None]
    judged = _judged(told, settings)
    passed["messages without a payload"] += len(done) - len(told)
    passed["messages that no watch looks at"] += len(told) - sum(map(len, judged))
    for messages in judged:
        first = messages[0]
        yield Row(
            game=game,
            turn=first.round,
            role=settings.role_of(first.agent),
            features=features_of_acts(messages, measure, store, decoders),
            failed=failed,
            measured=measure,
        )


def _decoders(run: Run, trust: Trust) -> Decoders:
    """Decoders of token ids by agent: of each local model of the run the tokenizer alone, loaded at the first id."""

    def decoder(agent: str) -> Decode | None:
        if (model := run.head.models.get(agent)) is None:
            return None

        def decode(at: int) -> str:
            trust.check_model(model.model, f"run {str(run.folder)!r}")
            return str(_tokenizer(model.model, model.vocabulary).decode([at]))

        return decode

    return decoder


@cache
def _tokenizer(name: str, vocabulary: str) -> PreTrainedTokenizerBase:
    """Load a model's tokenizer.

    Raises:
        UsageError: it is not the one that the run was made with.
    """
    from sottovoce.models import load_tokenizer, vocabulary_digest  # late: transformers takes seconds

    tokenizer = load_tokenizer(name)
    if vocabulary_digest(tokenizer) != vocabulary:
        told = f"the vocabulary of {name!r} has changed since the run, whose token ids would be read as other texts"
        raise UsageError(f"{told}; restore that model, or choose other positions")
    return tokenizer


def _judged(messages: Sequence[Message], settings: Settings) -> list[list[Message]]:
    """What a watch would look at: what an agent says in one step, or what the scheme has looked at together."""
    found = list[list[Message]]()
    for message in messages:
        if message.round < settings.watched_from or settings.together not in ("", message.act):
            continue
        if found and _at_once(found[-1], message, settings):
            found[-1].append(message)
        else:
            found.append([message])
    return found


def _at_once(before: Sequence[Message], message: Message, settings: Settings) -> bool:
    last = before[-1]
    if settings.together:
        return (last.epoch, last.round) == (message.epoch, message.round)
    same = (last.epoch, last.time, last.agent) == (message.epoch, message.time, message.agent)
    return same and all(each.act != message.act for each in before)  # what is done again begins with its first act
