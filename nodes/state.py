"""What a discussion's graph is given, keeps and returns: plain JSON and references, never tensors."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, NotRequired

from typing_extensions import TypedDict

from sottovoce.channels.board import Board, latest
from sottovoce.channels.message import Message
from sottovoce.errors import UsageError, choose
from sottovoce.prompts.answers import KINDS, Kind

JSON = dict[str, Any]  # Any: plain JSON, as checkpoints hold it


class Question(TypedDict):
    """A question as it enters a graph."""

    question: str
    id: NotRequired[str]
    """Names the question in seeds and logs; a digest of its text where absent."""
    kind: NotRequired[Kind]
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


class Vote(TypedDict):
    """What one agent's last message was read as."""

    agent: str
    answer: str | None
    """None is an abstention; the message on the board keeps the raw text."""
    counts: bool
    """Whether the decision rule looks at it."""


class Decision(TypedDict):
    """How a discussion ended."""

    answer: str | None
    """None where all abstained, or where the rule gives a score and no answer."""
    rule: str
    why: str
    """One line for a reader."""
    votes: list[Vote]
    score: float | None
    """Share of right votes under the rule `average`, 1 or 0 under the others; None without a target."""


class Discussion(Question):
    """The full state of a discussion."""

    settings: JSON
    """The run's settings, copied from the runtime context by the opening node: acts and routers read them here."""
    round: int
    """0-based; -1 before the first."""
    board: Annotated[list[Message], Board]
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


def said(state: Discussion, agent: str, round: int, act: str | None = None) -> Message | None:
    """The latest attempt of what an agent said in a round; `act` None takes any but a summary."""
    for message in latest(state.get("board", [])):
        if (message.agent, message.round) == (agent, round) and act in (None, message.act):
            if act is not None or message.act != "summarise":
                return message
    return None


def check_question(question: Question, agents: list[str] | None) -> None:
    """Refuse a question that no agent could answer, before any model runs.

    Raises:
        UsageError: empty, of an unknown kind, or with documents for agents that do not exist.
    """
    if not str(question.get("question", "")).strip():
        raise UsageError("the question is empty; give a text to discuss")
    if question.get("kind", "number") not in KINDS:
        raise UsageError(choose("kind of answer", question.get("kind"), KINDS))
    documents = question.get("documents")
    if isinstance(documents, dict) and agents is not None:
        for agent in documents:
            if agent not in agents:
                raise UsageError(choose("agent among the documents:", agent, agents))
