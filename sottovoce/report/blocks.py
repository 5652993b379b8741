"""A transcript as blocks, in order: the question, levels, rounds, resets, the decision. Renderers show blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal, NamedTuple

from sottovoce.channels.message import Message, Place
from sottovoce.core.any_types import AnyState
from sottovoce.core.text import counted, figure, one_line, shortened
from sottovoce.datasets.trained import knowledge
from sottovoce.graphs import scheme
from sottovoce.nodes.question import passage_of, shown
from sottovoce.prompts.kinds import KINDS, kind_of, lettered
from sottovoce.report import describe
from sottovoce.runs.log import Level, Reset
from sottovoce.runs.measures import ParseStatistics
from sottovoce.runs.record import DiscussionRecord

When = tuple[int, float]
"""Epoch and round; a reset comes after all rounds."""


class Line(NamedTuple):
    """One line between messages; the question may have several."""

    text: str
    style: Literal["", "title", "question", "aside", "note", "right", "wrong"] = ""
    answer: str = ""
    """Shown before the text, in bold."""


@dataclass(frozen=True)
class Block:
    """A heading with messages side by side, lines, or both."""

    heading: str
    messages: tuple[Message, ...] = ()
    lines: tuple[Line, ...] = ()
    opens: bool = True
    """True if everything before this block is over when it begins."""
    prompts: Mapping[Place, tuple[Line, ...]] = field(default_factory=dict)
    """The prompts of its messages by place, if prompts are shown; each is right above its message."""


def transcript(run: DiscussionRecord) -> Iterator[Block]:
    """Yield all blocks of a discussion."""
    yield introduction(run)
    yield from rounds(run)
    yield conclusion(run)


def introduction(run: DiscussionRecord) -> Block:
    """Return the block with the title, the question, and the facts known before the discussion."""
    settings, record = run.settings, scheme(run.scheme)
    models = ", ".join(dict.fromkeys(settings["model"]))
    title = " · ".join([record.command, *channel(settings), models, f"seed {settings['seed']}"])
    manner = [record.manner(run.chosen())] if record.manner else []
    kind = f"(form of the answer: {KINDS[kind_of(run.question)].words}; --kind sets it)"
    known = [
        f"({run.origin})" if run.origin else kind,
        *knowledge((model.model for model in run.models.values()), run.origin),
        *facts(run),
    ]
    question = Line(run.question["question"], "question")
    notes = [Line(f"note: {one_line(note)}", "note") for note in run.notes]
    first = Line(one_line(title), "title")
    return Block("", lines=(first, *_aside_lines(manner), question, *_aside_lines(known), *notes))


def channel(settings: Mapping[str, AnyState]) -> list[str]:
    """Return the protocol for a title, with a probe if there is one."""
    probe = settings.get("probe", "none")
    return [settings["protocol"], *([f"probe {probe}"] if probe != "none" else [])]


def conclusion(run: DiscussionRecord) -> Block:
    """Return the decision with its reason, each agent's vote and the cost; or how the run ended without a decision."""
    decision, cost, verdict = run.decision, run.cost, describe.verdict(run)
    if decision is None:
        why = f" ({one_line(run.error)})" if run.error else ""
        return Block("Decision", lines=(Line(f"none: the run is {run.status}{why}"),))
    decided = Line(f"by {decision['rule']}: {one_line(decision['why'])}", answer=describe.answer(decision["answer"]))
    judged = [Line(verdict, "right" if decision["score"] == 1 else "wrong")] if verdict else []
    paid = f", money {figure(run.money)}" if run.prices and run.money is not None else ""
    took = f"{counted(cost.calls, 'call')}, {cost.tokens}{paid}, {run.seconds:.1f} s{_parsed(run.parsing)}"
    applying = {name: value for name, value in decision.get("measures", {}).items() if value is not None}
    measures = [", ".join(f"{one_line(name)} {figure(value)}" for name, value in applying.items())] if applying else []
    support = _aside_lines(describe.support(run, decision))
    watched = [describe.intervened_in_words(run, each) for each in run.interventions]
    return Block("Decision", lines=(decided, *support, *judged, *_aside_lines([*watched, *measures, took])))


def _parsed(parsing: ParseStatistics) -> str:
    ways = {
        "read at once": parsing.at_once,
        "after asking again": parsing.repair,
        "by the answer turn": parsing.answer_turn,
        "said to be unknown": parsing.unknown,
        "not to be read": parsing.abstained,
    }
    total = sum(ways.values())
    if total == parsing.at_once + parsing.unknown:
        return ""
    listed = ", ".join(f"{count} {way}" for way, count in ways.items() if count)
    return f"; of {counted(total, 'answer')} {listed}"


def rounds(run: DiscussionRecord, *, prompts: bool = False) -> Iterator[Block]:
    """Yield the blocks between introduction and conclusion; `prompts` adds the prompt of each message."""
    by_round = groupby(run.messages, key=lambda message: (message.epoch, message.round))
    by_time: dict[When, list[Message]] = {when: list(said) for when, said in by_round}
    levels: dict[When, Level] = {(level.epoch, level.round): level for level in run.levels if level.level}
    resets: dict[When, Reset] = {(epoch, float("inf")): reset for epoch, reset in enumerate(run.resets)}
    counts: dict[When, list[str]] = {
        (count.epoch, count.round): describe.count(count.round, count.votes, run.question) for count in run.counts
    }
    for when in sorted(by_time.keys() | levels.keys() | resets.keys()):
        if when in levels:
            level = levels[when]
            before = next(lower.groups for lower in reversed(run.levels) if lower.level == level.level - 1)
            sent = {name: f"{name} represents {', '.join(group)}" for group in before for name in group}
            groups = ("; ".join(sent.get(name, name) for name in group) for group in level.groups)
            lines = (Line(one_line(f"group {at}: {group}")) for at, group in enumerate(groups, 1))
            yield Block(f"Level {level.level + 1}", lines=tuple(lines))
        for block in _round(run, by_time.get(when, []), counts.get(when, [])):
            yield replace(block, prompts=_prompts(run, block.messages)) if prompts else block
        if reset := resets.get(when):
            why = (Line(one_line(reset.why)),) if reset.why else ()
            yield Block(f"Taken back to round {reset.cut[0] + 1}", lines=why)


def _round(run: DiscussionRecord, messages: Sequence[Message], counted: Sequence[str]) -> Iterator[Block]:
    """Yield the messages of a round under the headings of their acts; the votes come after the answers."""
    record, discussing = scheme(run.scheme), len(run.chosen().speakers())
    rows: dict[str, list[Message]] = {}
    for message in describe.last_attempts(messages):
        withdrawn = ", withdrawn" if run.withdrew(message) else ""
        rows.setdefault(record.heading(message.act, message.round) + withdrawn, []).append(message)
    for number, (heading, row) in enumerate(rows.items()):
        lines = counted if any(message.act in record.answers for message in row) else ()
        yield Block(heading, tuple(row), tuple(map(Line, lines)), opens=not number or row[0].order >= discussing)


def _prompts(run: DiscussionRecord, messages: Sequence[Message]) -> dict[Place, tuple[Line, ...]]:
    """Return the prompts of these messages, of their earlier attempts and of their answer turns, turn by turn."""
    lines: dict[tuple[object, ...], list[Line]] = {}
    for prompt in run.prompts:
        again = f", attempt {prompt.attempt + 1}" if prompt.attempt else ""
        head = Line(f"{one_line(prompt.agent)} is asked ({one_line(prompt.act)}{again})", "note")
        turns = [line for role, text in prompt.turns for line in (Line(f"{role}:", "aside"), Line(text))]
        lines.setdefault(prompt.place[:-1], []).extend([head, *turns])
    return {message.place: tuple(lines[message.place[:-1]]) for message in messages if message.place[:-1] in lines}


def facts(run: DiscussionRecord) -> Iterator[str]:
    """Yield the agents' texts besides the question, if the prompt components include them, and the groups."""
    question, settings = run.question, run.settings
    if question.get("choices"):
        yield f"choices: {', '.join(lettered(question['choices']))}"
    if question.get("description") and settings["question_description"]:
        yield f"task: {shortened(question['description'])}"
    if question.get("answer_description") and settings["answer_description"]:
        yield f"form of the answer: {shortened(question['answer_description'])}"
    if question.get("demonstrations") and settings["demonstrations"]:
        yield f"demonstrations: {counted(len(question['demonstrations']), 'worked example')}"
    yield from (f"question for {agent}: {text}" for agent, text in question.get("wordings", {}).items())
    yield from (f"starting view of {agent}: {text}" for agent, text in question.get("starting_views", {}).items())
    documents = run.chosen().dealt(question.get("documents") or [])
    owned = documents.items() if isinstance(documents, Mapping) else [("all", [document]) for document in documents]
    for agent, known in owned:
        if known:
            yield f"document for {agent}: {' '.join(shown(passage_of(document)) for document in known)}"
    if run.levels and len(run.levels[0].groups) > 1:
        yield from (f"group {number}: {', '.join(group)}" for number, group in enumerate(run.levels[0].groups, 1))


def _aside_lines(lines: Iterable[str]) -> list[Line]:
    return [Line(one_line(line), "aside") for line in lines]
