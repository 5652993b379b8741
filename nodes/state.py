"""What a discussion's graph is given, keeps and returns: plain JSON and references, never tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sottovoce.channels.board import Board, latest
from sottovoce.channels.message import Message
from sottovoce.errors import UsageError, choose
from sottovoce.nodes.settings import first_wrong
from sottovoce.prompts.kinds import KINDS, MOST_CHOICES, KindName

JSON = dict[str, Any]  # Any: plain JSON, as checkpoints hold it
Reference = list[int | str]
"""Round, agent and act of a message on the board; its latest attempt is meant."""


class Question(TypedDict):
    """A question as it enters a graph."""

    question: str
    id: NotRequired[str]
    """Names the question in seeds and logs; a digest of its text where absent."""
    kind: NotRequired[KindName]
    """The form of the answer; number where absent."""
    choices: NotRequired[list[str]]
    documents: NotRequired[list[str] | dict[str, list[str]]]
    """What agents know: a list for all of them, or private lists by agent name."""
    target: NotRequired[str]
    """The right answer, where it is known; no agent ever reads it."""
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
    hints: NotRequired[list[str]]
    """What a secretary is to mind (CMD)."""


class Vote(TypedDict):
    """What one agent's last message was read as."""

    agent: str
    answer: str | None
    """None is an abstention; the message on the board keeps the raw text."""
    counts: bool
    """Whether the decision rule looks at it."""
    confidence: NotRequired[float]
    """As stated, in [0, 1]; 0 where none could be read."""
    weight: NotRequired[float]
    """What the vote weighs: its recalibrated confidence."""
    note: NotRequired[str]
    """How it was read where that is not plain."""


class Decision(TypedDict):
    """How a discussion ended."""

    answer: str | None
    """None where all abstained, or where the rule gives a score and no answer."""
    rule: str
    why: str
    """One line for a reader."""
    votes: list[Vote]
    tied: NotRequired[list[str]]
    """The answers that had equally many votes, where no rule but the order of agents told them apart, or
    another agent was asked."""
    by: NotRequired[str]
    """Who decided, where it was no vote: moderator, judge, secretary."""
    beside: NotRequired[dict[str, str | None]]
    """What other rules would have decided, by rule."""
    score: float | None
    """Share of right votes under the rule `average`, 1 or 0 under the others; None without a target."""


class Discussion(Question):
    """The full state of a discussion."""

    settings: JSON
    """The run's settings, copied from the runtime context by the opening node: acts and routers read them here."""
    round: int
    """0-based; -1 before the first."""
    board: Annotated[list[Message], Board]
    groups: list[list[str]]
    """Who discusses with whom; agents that are in no group are silent from here on."""
    level: int
    """0-based; counts how often groups sent representatives."""
    votes: list[Vote]
    """Of the last round that was counted."""
    heard: list[dict[str, list[Reference]]]
    """By round and agent, where a rule says who hears what: what it answers; who is not named is silent."""
    held: dict[str, list[Reference]]
    """What agents were sent and keep until they are sent more."""
    notes: list[str]
    """What a reader must know of the run as a whole, e.g. edges carried in words."""
    decision: Decision


class Outcome(TypedDict):
    """What the outside sees."""

    decision: Decision


def question_id(question: Question) -> str:
    """The question's name in seeds: its id, or a short digest of its text."""
    return question.get("id") or hashlib.sha256(question["question"].encode()).hexdigest()[:12]


def documents_of(question: Question, agent: str | None) -> list[str]:
    """What `agent` knows; None asks for everybody's documents, each once, in agents' order."""
    documents = question.get("documents") or []
    if isinstance(documents, dict):
        if agent is not None:
            return list(documents.get(agent, []))
        return list(dict.fromkeys(line for lines in documents.values() for line in lines))
    return list(documents)


def rounds_of(state: Discussion) -> list[dict[str, Message]]:
    """What was said by round and agent, in the board's order, without summaries; of several attempts the last."""
    rounds: list[dict[str, Message]] = [{} for _ in range(state["round"] + 1)]
    for message in latest(state.get("board", [])):
        if message.act != "summarise":
            rounds[message.round][message.agent] = message
    return rounds


def said(state: Discussion, agent: str, round: int, act: str | None = None) -> Message | None:
    """The latest attempt of what an agent said in a round; `act` None takes any but a summary."""
    for message in latest(state.get("board", [])):
        if (message.agent, message.round) == (agent, round) and act in (None, message.act):
            if act is not None or message.act != "summarise":
                return message
    return None


def check_question(
    question: Question,
    owners: list[str] | None,
    needs: Mapping[str, str] | None = None,
    agents: list[str] | None = None,
) -> None:
    """Refuse a question that no agent could answer, before any model runs.

    `owners`, `needs` and `agents` are `Settings.owners`, `.needs` and `.names`; None checks no names.

    Raises:
        UsageError: empty, of an unknown kind, with a field of the wrong type or missing, with a target that
            is no answer, or with documents, a wording or a starting view for agents that do not exist.
    """
    if not str(question.get("question", "")).strip():
        raise UsageError("the question is empty; give a text to discuss")
    _check_types(question)
    KINDS[question.get("kind", "number")].check(question)
    for field, what_for in (needs or {}).items():
        if not question.get(field):
            raise UsageError(f"{what_for}, but the question has no {field!r}")
    for field, known in (("documents", owners), ("wordings", agents), ("starting_views", agents)):
        by_agent = question.get(field)
        for agent in by_agent if isinstance(by_agent, dict) else ():
            if known is not None and agent not in known:
                raise UsageError(choose(f"agent among the {field.replace('_', ' ')}:", agent, known))


def _check_types(question: Question) -> None:
    """A question may come as JSON from anywhere, and a text in the place of a list would be read letter by letter."""
    given = {name: question[name] for name in Question.__annotations__ if name in question}  # type: ignore[literal-required]
    try:
        TypeAdapter(Question).validate_python(given, strict=True)
    except ValidationError as error:
        raise UsageError(first_wrong(error, "the question")) from error
    if len(question.get("choices") or []) > MOST_CHOICES:
        raise UsageError(f"there are {len(question['choices'])} choices; expected at most {MOST_CHOICES}, one a letter")
    try:
        question["question"].encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the question holds a character that is no text: {error.object[error.start]!r}") from error
