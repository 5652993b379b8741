"""The discussions of runs as the page's viewer reads them: each has a row in the list, and items one below the other.

Items are what transcripts show (`report.blocks`), in the same order: headings, lines, messages. A message comes after
its earlier attempts and before its interventions. Texts are not escaped: the page inserts them as text only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sottovoce.channels.message import Message, Place
from sottovoce.core.any_types import JSON
from sottovoce.core.text import counted, figure, one_line, shortened
from sottovoce.nodes.decide import viewpoints
from sottovoce.nodes.question import question_digest, question_id
from sottovoce.nodes.state import Intervened
from sottovoce.report import blocks, describe
from sottovoce.report.blocks import Block
from sottovoce.report.tensors import Tensors
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

DIGEST = 16
"""Characters of a question's digest, which identifies discussions of the same question in other runs."""
SHORT = 120
"""Characters of a question in the list."""


def outcome(record: DiscussionRecord) -> str:
    """Return how a discussion ended: right, wrong, partly, abstained, unscored or failed; open if it has not."""
    result = record.result()
    if record.decision is None:
        return "failed" if record.status == "failed" else "open"
    if result.abstained:
        return "abstained"
    if result.score is None:
        return "unscored"
    return {1.0: "right", 0.0: "wrong"}.get(result.score, "partly")


def disagreed(record: DiscussionRecord) -> bool:
    """Return whether agents gave different answers, after a round or at the end."""
    at_end = [record.decision["votes"]] if record.decision else []
    return any(len(viewpoints(votes, record.question)) > 1 for votes in (*(c.votes for c in record.counts), *at_end))


def row(record: DiscussionRecord, run: int, items: int) -> JSON:
    """Return the row of a discussion in the list; `run` is the index of its run in the report."""
    result = record.result()
    return {
        "run": run,
        "id": question_id(record.question),
        "asked": question_digest(record.question)[:DIGEST],
        "seed": record.seed,
        "text": shortened(record.question["question"], SHORT),
        "outcome": outcome(record),
        "disagreed": disagreed(record),
        "watched": bool(record.interventions),
        "answer": None if result.answer is None else shortened(result.answer),
        "items": items,
    }


def items(record: DiscussionRecord, tensors: Tensors) -> list[JSON]:
    """Return the items of one discussion, from the question to the decision."""
    says = _Says(record, tensors)
    return [item for block in blocks.transcript(record) for item in _items_of(block, says)]


def _items_of(block: Block, says: _Says) -> Iterator[JSON]:
    if block.heading:
        yield {"k": "head", "text": block.heading}
    for message in block.messages:
        yield from says.about(message)
    for line in block.lines:
        yield {"k": "line", "text": line.text, "style": line.style, **({"answer": line.answer} if line.answer else {})}


class _Says:
    def __init__(self, record: DiscussionRecord, tensors: Tensors) -> None:
        self._record, self._tensors = record, tensors
        self._prompts = {prompt.place: prompt.turns for prompt in record.prompts}
        self._said = describe.by_act(record.messages)
        self._acted: dict[Place, list[Intervened]] = {}
        for entry in record.interventions:
            self._acted.setdefault(Place(**{name: entry[name] for name in Place._fields}), []).append(entry)  # type: ignore[literal-required]  # a Place's fields are among its keys

    def about(self, last: Message) -> Iterator[JSON]:
        """Yield all attempts at a message's place, the last one last, each followed by its interventions."""
        for message in self._said[last.place[:-1]]:
            yield self._message(last if message.place == last.place else message)
            for entry in self._acted.get(message.place, []):
                score = "" if entry["score"] is None else f" (score {figure(entry['score'])})"
                yield {"k": "line", "text": describe.intervention(entry, score), "style": "note"}

    def _message(self, message: Message) -> JSON:
        again = f" after {counted(message.epoch, 'reset')}" if message.epoch else ""
        item: JSON = {
            "k": "said",
            "who": describe.speaker(message),
            "text": message.text if message.full_text else describe.NO_WORDS,
            "foot": describe.footer(message),
            "place": f"round {message.round + 1}{again}, {one_line(message.act)}",
        }
        marks = {
            "thoughts": message.thoughts.strip(),
            "begun": message.begun,
            "public": message.public,
            "mark": self._mark(message),
        }
        prompt = [[role, text] for role, text in self._prompts.get(message.place, [])]
        more = {**marks, "asked": prompt, "tokens": self._tensors.of(message)}
        return item | {name: value for name, value in more.items() if value}

    def _mark(self, message: Message) -> str:
        """Return why other agents do not read the message, or ""."""
        if message.withdrawn:
            return "withdrawn by a monitor: no agent read it"
        if self._record.withdrew(message):
            return "withdrawn by a reset"
        if message.asked == "answer":
            return "answer turn: parsed, but not shown to other agents"
        later = self._said[message.place[:-1]]
        again = any(attempt.attempt > message.attempt and attempt.asked != "answer" for attempt in later)
        return f"attempt {message.attempt + 1}, asked again" if again else ""


def of_runs(runs: Iterable[Run], tensors: Tensors) -> Iterator[tuple[JSON, list[JSON]]]:
    """Yield the row and the items of each discussion that ended or has messages."""
    for number, run in enumerate(runs):
        store = run.store()  # messages find their payloads while it is open
        for record in run.records.values():
            if record.messages or record.status in ("done", "failed"):
                listed = items(record, tensors)
                yield row(record, number, len(listed)), listed
        del store
