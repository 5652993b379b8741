"""The command `runs replay`: a discussion with and without an intervention, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer
from pydantic import Field

from sottovoce.cli.screens.saved_runs import Named
from sottovoce.core.bounds import Few, Seed
from sottovoce.core.errors import UsageError, choose
from sottovoce.core.text import figure, one_line, shortened
from sottovoce.runs import run_directory
from sottovoce.runs.allowed import NO_TRUST, Trust

if TYPE_CHECKING:
    from sottovoce.channels.message import Message
    from sottovoce.runs.replay import Branch, Branches
    from sottovoce.runs.run import Key, Run


class ReplayOptions(Named):
    """The discussion of a watched run, and the intervention, to replay."""

    question: str | None = Field(default=None, description="Id of the question, if the run has several discussions.")
    under_seed: Seed | None = Field(default=None, description="Seed of the discussion.")
    intervention: Few = Field(default=1, ge=1, description="Number of the intervention, from 1.")


def show_replay(options: ReplayOptions, trust: Trust = NO_TRUST) -> None:
    """Replay a watched discussion with and without an intervention, and print how each branch ended.

    Raises:
        RecordError: there is no such run, or it is damaged.
        UsageError: there is no such discussion or intervention, the run was not watched, or it names what the command
            line does not allow.
    """
    from sottovoce.runs.read import load_run
    from sottovoce.runs.replay import replay  # late: torch and langgraph take seconds
    from sottovoce.runs.start import settings_begun

    run = load_run(run_directory.folder_of(options.name))
    key = _chosen(run, options)
    assert run.folder is not None, "read from there"
    trust.check(settings_begun(run), f"run {str(run.folder)!r}", run.folder.parent)
    found = replay(run, key, options.intervention - 1, trust=trust)
    typer.echo(one_line(f"question {key[0]} under seed {key[1]}"))
    for line in lines(found, run.records[key].messages):
        typer.echo(line)


def lines(found: Branches, kept: Sequence[Message] | None = None) -> Iterator[str]:
    """Yield lines on two branches: the intervention, both endings, where they part, and whether the replay is exact.

    `kept`: the messages of the run, if the discussion was re-run for the replay.
    """
    if found.at is None:
        yield "nobody intervened: the replay repeats the run from the first watched act on"
    else:
        at = found.at
        when = f"epoch {at['epoch'] + 1}, round {at['round'] + 1}, attempt {at['attempt'] + 1}"
        yield one_line(f"intervention: {at['what']} at {at['agent']}, {when}: {at['why']}")
        yield from _ended("with it", found.with_it)
        yield from _ended("without", found.without)
        yield f"they part at: {_told(found.parted)}" if found.parted else "their messages do not differ"
    if kept is not None and _words(kept) != _words(found.held.messages):
        yield "the re-run differs from the saved run: it used hosted models, or --exact was off"
    same = [each.messages for each in (found.held, found.with_it)]
    yield "the replay is token-identical" if _ids(same[0]) == _ids(same[1]) else "the replay differs from the run"


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
    """Return the messages' texts and places, with token ids where there are payloads."""
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
