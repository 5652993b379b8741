"""What is asked: a question with all that belongs to it, and what is refused of it before any model speaks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NotRequired, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from sottovoce.checked import first_wrong
from sottovoce.errors import UsageError, choose
from sottovoce.prompts import kinds

DESCRIBED = ConfigDict(use_attribute_docstrings=True)
"""What stands below a field describes it in Studio's forms too."""


@with_config(DESCRIBED)
class Passage(TypedDict):
    """A piece of what agents know."""

    text: str
    """What it says."""
    id: NotRequired[str]
    """By which agents and records name it."""
    title: NotRequired[str]
    """Told before its text."""
    source: NotRequired[str]
    """Where it is from: an index, an address."""
    metadata: NotRequired[dict[str, Any]]
    """What else is known of it, by name; agents are not told."""


Document = str | Passage
"""A plain string is a passage without a title."""


@with_config(DESCRIBED)
class Question(TypedDict):
    """A question as it enters a graph."""

    question: str
    """What is asked: a text to discuss."""
    id: NotRequired[str]
    """Names the question in seeds and logs; a digest of its text where absent."""
    kind: NotRequired[kinds.KindName]
    """The form of the answer; recognised from the question where absent."""
    choices: NotRequired[list[str]]
    """The options of a question of the kind choice, in the order of their letters."""
    documents: NotRequired[Sequence[Document] | Mapping[str, Sequence[Document]]]
    """What agents know: a list for all of them, or private lists by agent name."""
    target: NotRequired[str]
    """The right answer, where it is known; no agent ever reads it."""
    aliases: NotRequired[list[str]]
    """Other forms of the target that are right too: other names, another option that says the same."""
    printed_target: NotRequired[str]
    """The target as its data set prints it, where that is no plain number ("1,300"): what the papers' scorers read."""
    gold_passages: NotRequired[list[str] | dict[str, int]]
    """Docids or titles of the passages that answer it, or how relevant each is; no agent ever reads it."""
    solution: NotRequired[str]
    """The right answer with its working: what an expert debater says."""
    decoys: NotRequired[list[str]]
    """Solutions of other questions: what a dummy debater says."""
    description: NotRequired[str]
    """What questions of this task are like, told before the question (a prompt component, as are the next two)."""
    answer_description: NotRequired[str]
    """How the answer is to be given, in the place of our request for its kind."""
    demonstrations: NotRequired[list[str]]
    """Worked examples, each with its question, steps and answer as one text."""
    wordings: NotRequired[dict[str, str]]
    """The question in other words, by the agent that reads it so."""
    starting_views: NotRequired[dict[str, str]]
    """The view that an agent is told to start from, by agent."""
    game: NotRequired[dict[str, Any]]
    """What is played, as the file of a game has it, where the scheme is a world; agents are told their part of it."""
    hints: NotRequired[list[str]]
    """What a secretary is to mind (CMD)."""


def question_id(question: Question) -> str:
    """The question's name in seeds: its id, or a short digest of its text."""
    return question.get("id") or hashlib.sha256(question["question"].encode()).hexdigest()[:12]


def question_digest(question: Question) -> str:
    """Return the sha256 of what is asked: text, choices and game, without id, target and documents."""
    asked = {name: question.get(name) for name in ("question", "choices", "game")}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def document_digests(question: Question) -> tuple[str, ...]:
    """Return the sha256 of the text of each passage, whoever knows it."""
    return tuple(hashlib.sha256(each["text"].encode()).hexdigest() for each in passages_of(question, None))


def passages_of(question: Question, agent: str | None) -> list[Passage]:
    """What `agent` knows; None asks for everybody's documents, each once, in agents' order."""
    documents = question.get("documents") or []
    if isinstance(documents, Mapping):
        owned = documents.values() if agent is None else [documents.get(agent, [])]
        return _once(passage for mine in owned for passage in map(passage_of, mine))
    return [passage_of(document) for document in documents]


def passage_of(document: Document) -> Passage:
    """A document as a passage."""
    return {"text": document} if isinstance(document, str) else document


def shown(passage: Passage, number: int | None = None) -> str:
    """A passage as agents read it: "[2] Title: text", as far as it has these."""
    title = f"{passage['title']}: " if passage.get("title") else ""
    return f"{'' if number is None else f'[{number}] '}{title}{passage['text']}"


def check_question(
    question: Question,
    owners: list[str] | None,
    needs: Mapping[str, str] | None = None,
    agents: list[str] | None = None,
    schema: type[Any] = Question,
) -> None:
    """Refuse a question that no agent could answer, before any model runs.

    `owners`, `needs` and `agents` are `Settings.owners`, `.needs` and `.names`; None checks no names. `schema` is
    `Question`, or what a scheme derives from it.

    Raises:
        UsageError: empty, of an unknown kind, with a field of the wrong type or missing, with a target that
            is no answer, or with documents, a wording or a starting view for agents that do not exist.
    """
    if not str(question.get("question", "")).strip():
        raise UsageError("the question is empty; give a text to discuss")
    _check_types(question, schema)
    if len(question.get("choices") or []) > kinds.MOST_CHOICES:
        found, most = len(question["choices"]), kinds.MOST_CHOICES
        raise UsageError(f"there are {found} choices; expected at most {most}, one a letter")
    check_targets(question)
    for field, what_for in (needs or {}).items():
        if not question.get(field):
            raise UsageError(f"{what_for}, but the question has no {field!r}")
    for field, known in (("documents", owners), ("wordings", agents), ("starting_views", agents)):
        by_agent = question.get(field)
        for agent in by_agent if isinstance(by_agent, dict) else ():
            if known is not None and agent not in known:
                raise UsageError(choose(f"agent among the {field.replace('_', ' ')}:", agent, known))


def check_targets(question: Question) -> None:
    """Refuse choices, and a target or an alias, that the question's kind has no use for."""
    check = kinds.KINDS[kinds.kind_of(question)].check
    check(question)
    if (aliases := question.get("aliases")) and question.get("target") is None:
        raise UsageError(f"aliases are {aliases!r}, other forms of a target, and there is none; give a target, too")
    for alias in aliases or []:
        check({**question, "target": alias})


def _once(passages: Iterable[Passage]) -> list[Passage]:
    found: list[Passage] = []
    for passage in passages:
        found += [] if passage in found else [passage]
    return found


def _check_types(question: Question, schema: type[Any]) -> None:
    """A question may come as JSON from anywhere, and a text in the place of a list would be read letter by letter."""
    names, adapter = _fields(schema)  # type: ignore[arg-type]  # mypy holds type[Any] for unhashable
    try:
        adapter.validate_python({name: value for name, value in question.items() if name in names}, strict=True)
    except ValidationError as error:
        raise UsageError(first_wrong(error, "the question")) from error
    try:
        question["question"].encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the question holds a character that is no text: {error.object[error.start]!r}") from error


@cache  # gathering them takes two milliseconds, and files hold thousands of questions
def _fields(schema: type[Any]) -> tuple[frozenset[str], TypeAdapter[Any]]:
    return frozenset(get_type_hints(schema)), TypeAdapter(schema)
