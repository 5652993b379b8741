"""The donors of a probe, read from a finished run: its messages' payloads of one protocol, by place and question."""

from __future__ import annotations

from pathlib import Path

from sottovoce.channels.store import PayloadRef
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.nodes.probes import Donors, Where, content_of
from sottovoce.nodes.question import question_id
from sottovoce.runs.run import PAYLOADS, load_run


def read_donors(folder: Path, protocol: str) -> Donors:
    """Read the payloads of a protocol from a finished run.

    Raises:
        UsageError: there is no such run, it is not finished, or it has payloads of this protocol about fewer than two
            questions.
    """
    try:
        run = load_run(folder)
    except RecordError as error:
        raise UsageError(f"the run of `probe_from=` cannot be read from {str(folder)!r}: {error}") from error
    if run.status == "running" or run.counts.done + run.counts.failed < run.counts.discussions:
        raise UsageError(f"run {str(folder)!r} is not finished, as `probe_from=` needs; resume it first")
    said: dict[int, dict[Where, dict[str, PayloadRef]]] = {}
    for (_, seed), record in run.records.items():
        content = content_of(record.question)
        for message in record.messages:
            ref = message.latent
            if ref is not None and ref.protocol == protocol and ref.length and not message.withdrawn:
                place = (message.agent, message.act, message.round)
                said.setdefault(seed, {}).setdefault(place, {})[content] = ref
    if not said:
        raise UsageError(f"run {str(folder)!r} has no payload of protocol {protocol!r}; pass `probe_from=` another run")
    if len({question for places in said.values() for refs in places.values() for question in refs}) < 2:
        raise UsageError(f"run {str(folder)!r} has payloads about one question; `probe_from=` needs two or more")
    questions = {question_id(each): (each["question"], content_of(each)) for each in run.questions()}
    return Donors(folder, folder / PAYLOADS, protocol, said, questions)
