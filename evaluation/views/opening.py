"""What stands above a transcript, in words: the scheme and how it is held, what is asked, who knows what."""

from __future__ import annotations

from collections.abc import Iterator

from sottovoce.evaluation.runs.record import Run
from sottovoce.evaluation.views.printable import counted, one_line
from sottovoce.graphs import scheme
from sottovoce.nodes.question import passage_of, shown
from sottovoce.prompts.kinds import lettered

SHORT = 80  # characters of a text that agents read in full


def setting(run: Run) -> str:
    """The run in one line: scheme, protocol, models, seed."""
    settings = run.settings
    models = ", ".join(dict.fromkeys(settings["model"]))
    return f"{scheme(run.scheme).command} · {settings['protocol']} · {models} · seed {settings['seed']}"


def manner(run: Run) -> str | None:
    """How the scheme is held, in its papers' words; None where rounds and agents show it."""
    told = scheme(run.scheme).manner
    return told(run.chosen()) if told else None


def facts(run: Run) -> list[str]:
    """What agents read besides the question, and their groups; one line each."""
    return [one_line(line) for line in (*_task(run), *_by_agent(run), *_documents(run), *_groups(run))]


def _task(run: Run) -> Iterator[str]:
    """What belongs to the question, as far as the prompt components let agents read it."""
    question, settings = run.question, run.settings
    if question.get("choices"):
        yield f"choices: {', '.join(lettered(question['choices']))}"
    if question.get("description") and settings["question_description"]:
        yield f"task: {_short(question['description'])}"
    if question.get("answer_description") and settings["answer_description"]:
        yield f"form of the answer: {_short(question['answer_description'])}"
    if question.get("demonstrations") and settings["demonstrations"]:
        yield f"demonstrations: {counted(len(question['demonstrations']), 'worked example')}"


def _by_agent(run: Run) -> Iterator[str]:
    for agent, text in run.question.get("wordings", {}).items():
        yield f"question for {agent}: {text}"
    for agent, text in run.question.get("starting_views", {}).items():
        yield f"starting view of {agent}: {text}"


def _documents(run: Run) -> Iterator[str]:
    given = run.question.get("documents") or []
    if not isinstance(given, dict):
        yield from (f"document for all: {shown(passage_of(document))}" for document in given)
        return
    for agent, documents in given.items():
        if documents:
            yield f"document for {agent}: {' '.join(shown(passage_of(document)) for document in documents)}"


def _groups(run: Run) -> list[str]:
    groups = run.levels[0].groups if run.levels else []
    named = [f"group {number}: {', '.join(group)}" for number, group in enumerate(groups, 1)]
    return named if len(groups) > 1 else []


def _short(text: str) -> str:
    line = one_line(text.strip())
    return line if len(line) <= SHORT else line[:SHORT] + " …"
