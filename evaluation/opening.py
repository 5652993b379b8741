"""What stands above a transcript, in words: the scheme and how it is held, what is asked, who knows what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sottovoce.evaluation.printable import counted, one_line
from sottovoce.evaluation.record import Run
from sottovoce.nodes.state import JSON
from sottovoce.prompts.kinds import lettered

SHORT = 80  # characters of a text that agents read in full


def setting(run: Run) -> str:
    """The run in one line: scheme, protocol, models, seed."""
    settings = run.settings
    models = ", ".join(dict.fromkeys(settings["model"]))
    return f"{run.scheme.replace('_', '-')} · {settings['protocol']} · {models} · seed {settings['seed']}"


def manner(run: Run) -> str | None:
    """How the scheme is held, in its papers' words; None where rounds and agents show it."""
    return MANNERS[run.scheme](run.settings) if run.scheme in MANNERS else None


def facts(run: Run) -> list[str]:
    """What agents read besides the question, and their groups; one line each."""
    return [one_line(line) for line in (*_task(run), *_by_agent(run), *_documents(run), *_groups(run))]


def _mad(settings: JSON) -> str:
    held = f"{counted(settings['agents'], 'debater')}, at most {counted(settings['rounds'], 'round')}"
    seen = "" if settings["judge_sees"] == "all" else f" · the judge sees the {settings['judge_sees']} round"
    return f"{held} · level of disagreement {settings['disagreement']}{seen}"


def _reconcile(settings: JSON) -> str:
    held = f"{counted(settings['agents'], 'agent')}, at most {counted(settings['rounds'], 'round')} of discussion"
    return f"{held} · {settings['vote']} vote"


def _cmd(settings: JSON) -> str:
    held = f"{counted(settings['agents'], 'agent')}, {counted(settings['rounds'], 'round')}"
    if settings["secretary"]:
        return f"{held} · at a tie a secretary decides"
    return f"{held} on each level · at a tie each group sends {SENT[settings['representative']]}"


SENT = {
    "tied": "its first agent with a tied answer",
    "first": "its first agent",
    "random": "an agent by lot",
}
"""Whom a group of CMD sends to the next level."""

MANNERS: dict[str, Callable[[JSON], str]] = {"mad": _mad, "reconcile": _reconcile, "cmd": _cmd}


def _task(run: Run) -> Iterator[str]:
    """What belongs to the question, as far as the prompt components let agents read it."""
    question, settings = run.question, run.settings
    if question.get("choices"):
        yield f"choices: {', '.join(lettered(question['choices']))}"
    if question.get("description") and settings.get("question_description", True):
        yield f"task: {_short(question['description'])}"
    if question.get("answer_description") and settings.get("answer_description", True):
        yield f"form of the answer: {_short(question['answer_description'])}"
    if question.get("demonstrations") and settings.get("demonstrations", True):
        yield f"demonstrations: {counted(len(question['demonstrations']), 'worked example')}"


def _by_agent(run: Run) -> Iterator[str]:
    for agent, text in run.question.get("wordings", {}).items():
        yield f"question for {agent}: {text}"
    for agent, text in run.question.get("starting_views", {}).items():
        yield f"starting view of {agent}: {text}"


def _documents(run: Run) -> list[str]:
    given = run.question.get("documents") or []
    if isinstance(given, dict):
        return [f"document for {agent}: {' '.join(texts)}" for agent, texts in given.items() if texts]
    return [f"document for all: {text}" for text in given]


def _groups(run: Run) -> list[str]:
    groups = run.levels[0].groups if run.levels else []
    named = [f"group {number}: {', '.join(group)}" for number, group in enumerate(groups, 1)]
    return named if len(groups) > 1 else []


def _short(text: str) -> str:
    line = one_line(text.strip())
    return line if len(line) <= SHORT else line[:SHORT] + " …"
