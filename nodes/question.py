"""A question with its documents, target and options, and its checks before any model runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, NotRequired, TypeVar, get_type_hints
from unicodedata import normalize

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from sottovoce.core.errors import UsageError, nearest
from sottovoce.core.validation import first_wrong
from sottovoce.prompts import kinds

DESCRIBED = ConfigDict(use_attribute_docstrings=True)
"""The docstring of a field is its description in Studio's forms too."""


@with_config(DESCRIBED)
class Passage(TypedDict):
    """A passage that agents know."""

    text: str
    """Its text."""
    id: NotRequired[str]
    """Its name for agents and records."""
    title: NotRequired[str]
    """Shown before its text."""
    source: NotRequired[str]
    """Its origin: an index, an address."""
    metadata: NotRequired[dict[str, Any]]
    """Other values, by name; agents do not see them."""


Document = str | Passage
"""A plain string is a passage without a title."""


@with_config(DESCRIBED)
class Question(TypedDict):
    """The input of a graph: a question, and optionally documents, target and other fields."""

    question: str
    """The text to discuss."""
    id: NotRequired[str]
    """Name of the question in seeds and logs; if absent, a digest of its text."""
    kind: NotRequired[kinds.KindName]
    """Kind of the answer; if absent, recognized from the question."""
    choices: NotRequired[list[str]]
    """The options to choose from, in the order of their letters."""
    documents: NotRequired[Sequence[Document] | Mapping[str, Sequence[Document]]]
    """The documents that agents know: a list for all of them, or private lists by agent name."""
    target: NotRequired[str]
    """The right answer, if known; agents never see it."""
    aliases: NotRequired[list[str]]
    """Other right answers: other names for the target, another option with the same meaning."""
    printed_target: NotRequired[str]
    """The target as its data set prints it, if that is not a plain number ("1,300"): the papers' scorers read it."""
    gold_passages: NotRequired[list[str] | dict[str, int]]
    """Docids or titles of the passages that answer it, or the relevance of each; agents never see them."""
    solution: NotRequired[str]
    """The right answer with its reasoning: the message of an expert debater."""
    decoys: NotRequired[list[str]]
    """Solutions of other questions: the messages of a dummy debater."""
    description: NotRequired[str]
    """Description of the task's questions, shown before the question (a prompt component, as are the next two)."""
    answer_description: NotRequired[str]
    """Request for the form of the answer, which replaces the default one for its kind."""
    demonstrations: NotRequired[list[str]]
    """Worked examples, each one text with question, steps and answer."""
    wordings: NotRequired[dict[str, str]]
    """Paraphrases of the question, by the agent that reads them."""
    starting_views: NotRequired[dict[str, str]]
    """The view from which an agent is asked to start, by agent."""
    game: NotRequired[dict[str, Any]]
    """The game to play, as in a game file, if the scheme is a world; each agent sees its own part."""
    hints: NotRequired[list[str]]
    """Hints for a secretary (CMD)."""


def question_id(question: Question) -> str:
    """Return the question's name in seeds: its id, or a short digest of its text."""
    return question.get("id") or hashlib.sha256(question["question"].encode()).hexdigest()[:12]


def question_digest(question: Question) -> str:
    """Return the sha256 of a question's text, choices and game in NFC, without id, target and documents."""
    asked = {name: question.get(name) for name in ("question", "choices", "game")}
    return _sha256(json.dumps(asked, sort_keys=True, ensure_ascii=False))


def document_digests(question: Question) -> tuple[str, ...]:
    """Return the sha256 of the text of each passage of any agent, in NFC."""
    return tuple(_sha256(each["text"]) for each in passages_of(question, None))


def _sha256(text: str) -> str:
    return hashlib.sha256(normalize("NFC", text).encode(errors="surrogatepass")).hexdigest()


class Content(NamedTuple):
    """The content of a question; questions with equal content are the same, whatever their ids."""

    asked: str
    """The digest of its text, choices and game."""
    documents: frozenset[str]
    """The digests of all agents' documents."""
    kind: str
    target: str | None
    """In canonical form."""

    def has_target_of(self, content: Content) -> bool:
        """Return whether both targets are one by the kind's own equality, as 29 and 29.0 are, or both unknown."""
        alike = self.kind == content.kind and kinds.same(self.target, content.target, self.kind)
        return alike or self.target == content.target


Name = TypeVar("Name", bound=Hashable)


def content_of(question: Question) -> Content:
    """Return the content of a question."""
    documents, kind = frozenset(document_digests(question)), kinds.kind_of(question)
    return Content(question_digest(question), documents, kind, kinds.target_of(question))


def same_questions(contents: Mapping[Name, Content]) -> dict[Name, Name]:
    """Return for each question the name of the first one with the same content: discussions of both are a cluster."""
    first = dict[Name, Name]()
    alike = dict[tuple[str, frozenset[str]], list[Name]]()
    for name, content in contents.items():
        earlier = alike.setdefault((content.asked, content.documents), [])
        first[name] = next((other for other in earlier if content.has_target_of(contents[other])), name)
        if first[name] == name:
            earlier.append(name)
    return first


def passages_of(question: Question, agent: str | None) -> list[Passage]:
    """Return the passages that `agent` knows. For None, return all agents' passages, each once, in agents' order."""
    documents = question.get("documents") or []
    if isinstance(documents, Mapping):
        owned = documents.values() if agent is None else [documents.get(agent, [])]
        found = list[Passage]()
        for passage in (passage_of(document) for mine in owned for document in mine):
            if passage not in found:
                found.append(passage)
        return found
    return [passage_of(document) for document in documents]


def passage_of(document: Document) -> Passage:
    """Return a document as a passage."""
    return {"text": document} if isinstance(document, str) else document


def shown(passage: Passage, number: int | None = None) -> str:
    """Return a passage as agents read it: "[2] Title: text", without missing parts."""
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
    """
    if not any(letter.isprintable() and letter != " " for letter in str(question.get("question", ""))):
        raise UsageError("the question is empty; give a text to discuss")
    # Questions come as JSON; a text in place of a list would be read letter by letter.
    names, adapter = _fields(schema)  # type: ignore[arg-type]  # mypy holds type[Any] for unhashable
    try:
        adapter.validate_python({name: value for name, value in question.items() if name in names}, strict=True)
        question["question"].encode()
    except ValidationError as error:
        raise UsageError(first_wrong(error, "the question")) from error
    except UnicodeEncodeError as error:
        raise UsageError(f"the question has a character that is not text: {error.object[error.start]!r}") from error
    if len(question.get("choices") or []) > kinds.MOST_CHOICES:
        found, most = len(question["choices"]), kinds.MOST_CHOICES
        raise UsageError(f"there are {found} choices; expected at most {most}, one for each letter")
    check = kinds.KINDS[kinds.kind_of(question)].check
    check(question)
    if (aliases := question.get("aliases")) and question.get("target") is None:
        raise UsageError(f"aliases are {aliases!r}, other forms of a target, but there is no target; add one")
    for alias in aliases or []:
        check({**question, "target": alias})
    for field, what_for in (needs or {}).items():
        if not question.get(field):
            where = "as a column of the question file, or as a key of the question in Python"
            raise UsageError(f"{what_for}, but the question has no {field!r}; give it {where}")
    for field, known in (("documents", owners), ("wordings", agents), ("starting_views", agents)):
        by_agent = question.get(field)
        for agent in by_agent if isinstance(by_agent, dict) else ():
            if known is not None and agent not in known:
                raise UsageError(nearest(f"agent among the {field.replace('_', ' ')}:", agent, known))


@cache  # building them takes two milliseconds, and files have thousands of questions
def _fields(schema: type[Any]) -> tuple[frozenset[str], TypeAdapter[Any]]:
    return frozenset(get_type_hints(schema)), TypeAdapter(schema)
