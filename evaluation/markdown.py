"""The transcript of a run as Markdown. Texts of models stand in fences that they cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sottovoce.channels.message import Message
from sottovoce.evaluation import describe
from sottovoce.evaluation.printable import one_line, printable
from sottovoce.evaluation.record import Run

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")  # what Markdown would take for its own


def markdown(run: Run) -> str:
    """The whole transcript."""
    parts = [f"# {escaped(describe.setting(run))}", *_opening(run)]
    for heading, messages in describe.rounds(run.messages):
        parts += [f"## {heading}", *(_message(message) for message in messages)]
    return "\n\n".join([*parts, *_ending(run)]) + "\n"


def fenced(text: str) -> str:
    """A text between fences longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{printable(text)}\n{fence}"


def escaped(text: str) -> str:
    """A text of one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", one_line(text))


def _opening(run: Run) -> list[str]:
    origin = [f"*{escaped(run.origin)}*"] if run.origin else []
    facts = [f"document for {line}" for line in describe.documents(run)] + [f"note: {note}" for note in run.notes]
    return [fenced(run.question["question"]), *origin, *_listed(facts)]


def _message(message: Message) -> str:
    return f"### {escaped(describe.speaker(message))}\n\n{fenced(message.text)}\n\n{escaped(describe.footer(message))}"


def _ending(run: Run) -> list[str]:
    decision = run.decision
    if decision is None:
        return ["## Decision", escaped(f"none: the run is {run.status}" + (f" ({run.error})" if run.error else ""))]
    answer = "no answer" if decision["answer"] is None else decision["answer"]
    verdict = describe.verdict(run)
    return [
        "## Decision",
        f"**{escaped(answer)}** by {escaped(decision['rule'])}: {escaped(decision['why'])}",
        *_listed(f"{cast['agent']}: {describe.vote(run, cast)}" for cast in decision["votes"]),
        *([escaped(verdict)] if verdict else []),
        escaped(describe.cost(run)),
    ]


def _listed(lines: Iterable[str]) -> list[str]:
    text = "\n".join(f"- {escaped(line)}" for line in lines)
    return [text] if text else []
