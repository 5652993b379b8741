"""The question of a run: the one that was asked, or a held-out sample of the bundled set.

Nothing here imports torch or langgraph: the command line reads `QuestionOptions` to print its help.
"""

from __future__ import annotations

import difflib
import re
import string
from typing import Any, cast

from pydantic import ConfigDict, Field

from sottovoce.checked import Checked
from sottovoce.errors import UsageError, choose
from sottovoce.evaluation.arithmetic import questions, split_knowledge
from sottovoce.evaluation.facts import two_facts
from sottovoce.graphs import schemes
from sottovoce.nodes.question import Question, check_question
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import KindName

SAMPLES = {
    "arithmetic": "arithmetic, for the bundled model",
    "split": "the same with the values dealt to the agents",
    "facts": "a question that two facts answer, dealt to the agents: for real language models",
}
"""By the name that --sample takes: what is made, all of it from a seed."""
DECOYS = 3  # solutions of other samples, for dummy debaters
NUMBERED = re.compile(r"[^\W\d]+_\d+")
"""What looks like an agent's name: agent_1."""
ALIKE = 0.8  # of difflib's ratio: agnet_1 is near agent_1, and relative is not near negative


def _one(description: str, option: str | None = None) -> Any:  # Any: a field, as pydantic has it
    return Field(default=None, alias=option, description=description)


def _many(description: str, option: str) -> Any:  # Any: see _one
    return Field(default=[], alias=option, description=description)


class QuestionOptions(Checked):
    """What a run is asked, as a person can say it on a command line; its fields are those of `Question`."""

    model_config = ConfigDict(title="Question")

    question: str | None = Field(
        default=None,
        description="what to discuss; a held-out sample of the bundled set if none",
        json_schema_extra={"positional": True},
    )
    documents: list[str] = _many("a text that all agents read, or NAME=TEXT for one of them", "document")
    kind: KindName = Field(default="number", description="form of the answer")
    choices: list[str] = _many("an option to choose from", "choice")
    target: str | None = _one("the right answer; no agent reads it")
    solution: str | None = _one("the right answer with its working: what an expert says")
    decoys: list[str] = _many("a solution of another question: what a dummy says", "decoy")
    description: str | None = _one("what questions of the task are like, told before it", "task_description")
    answer_description: str | None = _one(
        "how the answer is to be given, in the place of the kind's own request", "task_answer"
    )
    demonstrations: list[str] = _many("a worked example: question, steps and answer as one text", "task_demonstration")
    wordings: list[str] = _many("NAME=TEXT: the question in other words, for one agent", "wording")
    starting_views: list[str] = _many("NAME=TEXT: the view that an agent starts from", "starting_view")
    hints: list[str] = _many("what a secretary is to mind (cmd)", "hint")
    sample: str | None = _one(
        "instead of a question: arithmetic, split or facts (private documents), or with a seed: split/3"
    )


def question_of(options: QuestionOptions, settings: Settings) -> tuple[Question, str | None]:
    """The question, and what is to be said of its origin (None where a person asked it).

    Raises:
        UsageError: an empty question, an unknown sample, documents for agents that do not exist.
    """
    _check_options(options, settings)
    if options.question is None:
        question, origin = _sample(options.sample or "arithmetic", settings)
    else:
        question, origin = _given(options, settings), None
    check_question(question, settings.owners(), settings.needs(), settings.names())
    return question, origin


def _check_options(options: QuestionOptions, settings: Settings) -> None:
    """Refuse what would be ignored: a sample brings its own documents, kind and target."""
    if options.hints and not settings.others():
        raise UsageError("--hint is for a secretary, and there is none; drop it, or use cmd with its secretary")
    if options.question is not None and options.sample is not None:
        raise UsageError("a question and --sample were given; give one of them")
    given = sorted(options.model_dump(include=options.model_fields_set - {"question", "sample"}, by_alias=True))
    if options.question is None and given:
        option = given[0].replace("_", "-")
        raise UsageError(f"--{option} belongs to a question, and none was given; give one, or drop it")


def _given(options: QuestionOptions, settings: Settings) -> Question:
    given: dict[str, Any] = {name: value for name, value in options if value}  # Any: the fields' own types
    for name, option in (("wordings", "--wording"), ("starting_views", "--starting-view")):
        if name in given:
            given[name] = _by_agent(given[name], option)
    if options.documents:
        given["documents"] = _documents(options.documents, settings)
    return cast(Question, {**given, "kind": options.kind, "question": options.question})


def _by_agent(given: list[str], option: str) -> dict[str, str]:
    """One text an agent; whether there is such an agent is checked with the question."""
    texts: dict[str, str] = {}
    for each in given:
        name, _, text = each.partition("=")
        if not text.strip():
            raise UsageError(f"{option} is {each!r}; expected NAME=TEXT, e.g. agent_1=TEXT")
        if name in texts:
            raise UsageError(f"{option} was given twice for {name!r}; give each agent one")
        texts[name] = text
    return texts


def _documents(given: list[str], settings: Settings) -> list[str] | dict[str, list[str]]:
    """Shared ones as a list; where any is private, each agent's own list, with the shared ones among them."""
    owned = [_owned(text, settings) for text in given]
    names = dict.fromkeys([*settings.names(), *filter(None, (owner for owner, _ in owned))])
    if settings.owners() is None or not any(owner for owner, _ in owned):
        return [text for _, text in owned]
    return {name: [text for owner, text in owned if owner in ("", name)] for name in names}


def _owned(given: str, settings: Settings) -> tuple[str, str]:
    """A document and whose it is: "" is everybody's. Names that other schemes give are checked with the question.

    Raises:
        UsageError: it is for somebody who looks like an agent, and no scheme has such an agent.
    """
    name, sign, text = given.partition("=")
    agents = [*settings.names(), *(agent for each in schemes() for agent in each.settings().names())]
    if not sign or name[-1:].isspace():
        return "", given
    if _unnumbered(name) in map(_unnumbered, agents):
        return name, text
    if NUMBERED.fullmatch(name) or difflib.get_close_matches(name.lower(), agents, cutoff=ALIKE):
        unknown = choose("agent among the documents:", name, settings.names())
        raise UsageError(f"{unknown}; where a text begins so, put a space before the sign")
    return "", given


def _unnumbered(name: str) -> str:
    return name.rstrip(string.digits)


def _sample(name: str, settings: Settings) -> tuple[Question, str]:
    kind, _, number = name.partition("/")
    if kind not in SAMPLES or not (number or "0").isdecimal():
        raise UsageError(f"sample is {name!r}; expected {', '.join(SAMPLES)}, each with a number or without: split/3")
    n, seed = 1 + DECOYS, int(number or 0)
    first, *others = _made(kind, n, seed, settings.speakers())
    decoys = [other["solution"] for other in others]
    origin = "made from a seed" if kind == "facts" else "of the bundled set"
    return {**first, "decoys": decoys}, f"{'sample' if kind == 'facts' else 'held-out sample'} {kind}/{seed} {origin}"


def _made(kind: str, n: int, seed: int, agents: list[str]) -> list[Question]:
    if kind == "arithmetic":
        return questions(n, seed)
    return split_knowledge(n, agents, seed) if kind == "split" else two_facts(n, agents, seed)
