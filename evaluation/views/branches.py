"""The command `runs replay`: a discussion with an intervention and without, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer
from pydantic import Field

from sottovoce.bounds import Few, Seed
from sottovoce.errors import UsageError, choose
from sottovoce.evaluation.runs import shelf
from sottovoce.evaluation.runs.trust import NO_TRUST, Trust
from sottovoce.evaluation.views.printable import figure, one_line, shortened
from sottovoce.evaluation.views.runs import Named

if TYPE_CHECKING:
    from sottovoce.channels.message import Message
    from sottovoce.evaluation.replay import Branch, Branches
    from sottovoce.evaluation.runs.run import Key, Run


class ReplayOptions(Named):
    """Which discussion of a watched run, and which of its interventions."""

    question: str | None = Field(default=None, description="of many discussions the one on the question with this id")
    under_seed: Seed | None = Field(default=None, description="and under this seed")
    intervention: Few = Field(default=1, ge=1, description="which one, from 1")


def show_replay(options: ReplayOptions, trust: Trust = NO_TRUST) -> None:
    """Hold a watched discussion again, with an intervention and without, and print how each ended.

    Raises:
        RecordError: there is no such run, or it is damaged.
        UsageError: there is no such discussion or intervention, the run was not watched, or it names what the command
            line does not allow.
    """
    from sottovoce.evaluation.replay import replay  # late: torch and langgraph take seconds
    from sottovoce.evaluation.runs.reading import load_run
    from sottovoce.evaluation.runs.starting import settings_begun

    run = load_run(shelf.folder_of(options.name))
    key = _chosen(run, options)
    assert run.folder is not None, "read from there"
    trust.check(settings_begun(run), f"run {str(run.folder)!r}", run.folder.parent)
    found = replay(run, key, options.intervention - 1, trust=trust)
    typer.echo(one_line(f"question {key[0]} under seed {key[1]}"))
    for line in lines(found, run.records[key].messages):
        typer.echo(line)


def lines(found: Branches, kept: Sequence[Message] | None = None) -> Iterator[str]:
    """What a reader asks of two branches: where, how each ended, where they part; and whether the replay is true.

    `kept`: what was said in the run, where the discussion was held again for the replay.
    """
    if found.at is None:
        yield "nobody intervened: from the first watched act on, the replay is what was held"
    else:
        at = found.at
        when = f"epoch {at['epoch'] + 1}, round {at['round'] + 1}, attempt {at['attempt'] + 1}"
        yield one_line(f"intervention: {at['what']} at {at['agent']}, {when}: {at['why']}")
        yield from _ended("with it", found.with_it)
        yield from _ended("without", found.without)
        yield f"they part at: {_told(found.parted)}" if found.parted else "they part nowhere in what was said"
    if kept is not None and _words(kept) != _words(found.held.messages):
        yield "held again, it is another discussion than the run has: of hosted models, or without --exact"
    same = [each.messages for each in (found.held, found.with_it)]
    yield "the replay is token-identical" if _ids(same[0]) == _ids(same[1]) else "the replay differs from what was held"


def _ended(name: str, branch: Branch) -> Iterator[str]:
    decision, more = branch.decision, len(branch.interventions)
    answer = "no answer" if decision["answer"] is None else shortened(decision["answer"], 40)
    score = "" if decision["score"] is None else f", score {figure(decision['score'])}"
    yield one_line(f"{name}: {answer}{score}; {decision['why']}; {len(branch.messages)} messages")
    if measures := decision.get("measures"):
        known = [f"{each} {figure(value)}" for each, value in measures.items() if value is not None]
        yield one_line(f"  {', '.join(known)}, interventions {more}")


def _told(message: Message) -> str:
    return one_line(f"{message.agent}, round {message.round + 1}: {shortened(message.public or message.text, 80)}")


def _words(messages: Sequence[Message]) -> list[object]:
    return [(each.text, each.place) for each in messages]


def _ids(messages: list[Message]) -> list[object]:
    """What was said, token by token where the payloads tell."""
    return [(each.text, each.place, each.payload and each.payload.load().ids) for each in messages]


def _chosen(run: Run, options: ReplayOptions) -> Key:
    keys = [key for key in run.records if options.question in (None, key[0]) and options.under_seed in (None, key[1])]
    if not keys:
        questions, seeds = {key[0] for key in run.records}, {str(key[1]) for key in run.records}
        if options.question is not None and options.question not in questions:
            raise UsageError(choose("question", options.question, [*questions]))
        raise UsageError(choose("seed", str(options.under_seed), [*seeds]))
    intervened = [key for key in keys if run.records[key].interventions]
    return (intervened or keys)[0]
