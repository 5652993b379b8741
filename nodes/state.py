"""What a discussion's graph is given, keeps and returns: plain JSON and references, never tensors."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from sottovoce.prompts.answers import Kind


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


def documents_of(question: Question, agent: str | None) -> list[str]:
    """What `agent` knows; None asks for everybody's documents, each once, in agents' order."""
    documents = question.get("documents") or []
    if isinstance(documents, dict):
        if agent is not None:
            return list(documents.get(agent, []))
        return list(dict.fromkeys(line for lines in documents.values() for line in lines))
    return list(documents)


Order = Literal["others_first", "own_first"]
JSON = dict[str, Any]  # Any: plain JSON, as checkpoints hold it
