"""The question of a run: the one that was asked, or a held-out sample of the bundled set.

Nothing here imports torch or langgraph before a question is made: the command line reads `Asked`
to print its help.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from sottovoce.errors import UsageError, choose
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import KINDS, KindName

if TYPE_CHECKING:
    from sottovoce.nodes.state import Question

SAMPLES = ("arithmetic", "split")
DECOYS = 3  # solutions of other samples, for dummy debaters
PRIVATE = re.compile(r"(agent_\d+|debater_\d+|affirmative|negative|moderator|judge|secretary)=(.*)", re.DOTALL)
"""For one agent; the names that schemes give, so that an unknown one is told from a text."""


PLAIN = {
    "choices": "choice",
    "target": "target",
    "solution": "solution",
    "decoys": "decoy",
    "description": "task_description",
    "answer_description": "task_answer",
    "demonstrations": "task_demonstration",
    "hints": "hint",
}
"""Fields of a question, and the options that give them as they are."""


class Asked(BaseModel):
    """What a run is asked, as a person can say it on a command line."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Question")

    question: str | None = Field(
        default=None,
        description="what to discuss; a held-out sample of the bundled set if none",
        json_schema_extra={"positional": True},
    )
    document: list[str] = Field(default=[], description="a text that all agents read, or NAME=TEXT for one of them")
    kind: KindName = Field(default="number", description=f"form of the answer: {', '.join(KINDS.names())}")
    choice: list[str] = Field(default=[], description="an option to choose from")
    target: str | None = Field(default=None, description="the right answer; no agent reads it")
    solution: str | None = Field(default=None, description="the right answer with its working: what an expert says")
    decoy: list[str] = Field(default=[], description="a solution of another question: what a dummy says")
    task_description: str | None = Field(
        default=None, description="what questions of the task are like, told before it"
    )
    task_answer: str | None = Field(
        default=None, description="how the answer is to be given, in the place of the kind's own request"
    )
    task_demonstration: list[str] = Field(
        default=[], description="a worked example: question, steps and answer as one text"
    )
    wording: list[str] = Field(default=[], description="NAME=TEXT: the question in other words, for one agent")
    starting_view: list[str] = Field(default=[], description="NAME=TEXT: the view that an agent starts from")
    hint: list[str] = Field(default=[], description="what a secretary is to mind (cmd)")
    sample: str | None = Field(
        default=None, description="instead of a question: arithmetic, split (private documents), or e.g. split/3"
    )


def question_of(asked: Asked, settings: Settings) -> tuple[Question, str | None]:
    """The question, and what is to be said of its origin (None where a person asked it).

    Raises:
        UsageError: an empty question, an unknown sample, documents for agents that do not exist.
    """
    from sottovoce.nodes.state import check_question

    _check_asked(asked, settings)
    sample = asked.sample or SAMPLES[0]
    question, origin = _sample(sample, settings) if asked.question is None else (_asked(asked, settings), None)
    check_question(question, settings.owners(), settings.needs(), settings.names())
    return question, origin


def _check_asked(asked: Asked, settings: Settings) -> None:
    """Refuse what would be ignored: a sample brings its own documents, kind and target."""
    if asked.hint and not settings.staff():
        raise UsageError("--hint is for a secretary, and there is none; drop it, or use cmd with its secretary")
    if asked.question is not None and asked.sample is not None:
        raise UsageError("a question and --sample were given; give one of them")
    set_ = sorted(asked.model_fields_set - {"question", "sample"}) if asked.question is None else []
    if set_:
        raise UsageError(
            f"--{set_[0].replace('_', '-')} belongs to a question, and none was given; give one, or drop it"
        )


def _asked(asked: Asked, settings: Settings) -> Question:
    assert asked.question is not None, "a question was asked"
    question: Question = {"question": asked.question, "kind": asked.kind}
    if asked.document:
        question["documents"] = _documents(asked.document, settings)
    for field, option in PLAIN.items():
        if value := getattr(asked, option):
            question[field] = value  # type: ignore[literal-required]  # a field of Question, from the table
    for field, option in (("wordings", "wording"), ("starting_views", "starting_view")):
        if given := getattr(asked, option):
            question[field] = _by_agent(given, option)  # type: ignore[literal-required]  # see above
    return question


def _by_agent(given: list[str], option: str) -> dict[str, str]:
    """One text an agent; whether there is such an agent is checked with the question."""
    texts: dict[str, str] = {}
    for text in given:
        name, sign, said = text.partition("=")
        if not sign or not said.strip():
            raise UsageError(f"--{option.replace('_', '-')} is {text!r}; expected NAME=TEXT, e.g. agent_1=TEXT")
        if name in texts:
            raise UsageError(f"--{option.replace('_', '-')} was given twice for {name!r}; give each agent one")
        texts[name] = said
    return texts


def _documents(given: list[str], settings: Settings) -> list[str] | dict[str, list[str]]:
    """Shared ones as a list; where any is private, each agent's own list, shared ones first."""
    split = [(match[1], match[2]) if (match := PRIVATE.fullmatch(text)) else ("", text) for text in given]
    if settings.owners() is None or not any(owner for owner, _ in split):
        return [text for _, text in split]
    shared = [text for owner, text in split if not owner]
    owners = dict.fromkeys([*settings.names(), *(owner for owner, _ in split if owner)])
    return {name: [*shared, *(text for owner, text in split if owner == name)] for name in owners}


def _sample(name: str, settings: Settings) -> tuple[Question, str]:
    from sottovoce.evaluation.arithmetic import questions, split_knowledge

    kind, _, number = name.partition("/")
    if kind not in SAMPLES:
        raise UsageError(choose("sample", kind, SAMPLES))
    if number and not number.isdecimal():
        raise UsageError(f"sample {name!r} has the number {number!r}; expected e.g. {kind}/3")
    seed = int(number or 0)
    n = 1 + DECOYS
    made = questions(n, seed) if kind == "arithmetic" else split_knowledge(n, settings.speakers(), seed)
    first, *others = made
    decoys = [other["solution"] for other in others]
    return {**first, "decoys": decoys}, f"held-out sample {kind}/{seed} of the bundled set"
