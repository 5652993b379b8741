"""The transcript of a run as Markdown. Texts of models stand in fences that they cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sottovoce.channels.message import Message
from sottovoce.evaluation.runs.record import Run
from sottovoce.evaluation.views import describe, opening, parts, votes
from sottovoce.evaluation.views.parts import Part
from sottovoce.evaluation.views.printable import harmless, one_line

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")  # what Markdown would take for its own


def markdown(run: Run) -> str:
    """The whole transcript."""
    shown = [block for part in parts.of_run(run) for block in _part(part)]
    return "\n\n".join([f"# {escaped(opening.setting(run))}", *_opening(run), *shown, *_ending(run)]) + "\n"


def fenced(text: str) -> str:
    """A text between fences longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{harmless(text)}\n{fence}"


def escaped(text: str) -> str:
    """A text of one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", one_line(text))


def _opening(run: Run) -> list[str]:
    manner = [escaped(line)] if (line := opening.manner(run)) else []
    origin = [f"*{escaped(run.origin)}*"] if run.origin else []
    facts = [*opening.facts(run), *(f"note: {note}" for note in run.notes)]
    return [*manner, fenced(run.question["question"]), *origin, *_listed(facts)]


def _part(part: Part) -> list[str]:
    return [f"## {part.heading}", *(_message(message) for message in part.messages), *_listed(part.lines)]


def _message(message: Message) -> str:
    return f"### {escaped(describe.speaker(message))}\n\n{fenced(message.whole)}\n\n{escaped(describe.footer(message))}"


def _ending(run: Run) -> list[str]:
    decision, verdict = run.decision, votes.verdict(run)
    if decision is None:
        return ["## Decision", escaped(describe.undecided(run))]
    return [
        "## Decision",
        f"**{escaped(votes.answer(decision))}** {escaped(votes.why(decision))}",
        *_listed(votes.support(run, decision)),
        *([escaped(verdict)] if verdict else []),
        escaped(describe.cost(run)),
    ]


def _listed(lines: Iterable[str]) -> list[str]:
    """A list; lines that are set in stand below the one before."""
    items = [(line[: len(line) - len(line.lstrip())], line.lstrip()) for line in lines]
    text = "\n".join(f"{margin}- {escaped(line)}" for margin, line in items)
    return [text] if text else []
