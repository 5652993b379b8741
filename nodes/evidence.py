"""Evidence from a run's sources for a question: pooled, numbered, and listed on the board."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from sottovoce.channels.message import Message
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RetrievalError
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.question import Passage, Question
from sottovoce.nodes.retrieval import retriever_of
from sottovoce.nodes.state import Discussion, Update
from sottovoce.retrievers.pool import Evidence, Origin, Pool
from sottovoce.settings.retrieval import Pooled

if TYPE_CHECKING:
    from langchain_core.documents import Document


LIBRARY, RETRIEVE = "library", "retrieve"
WIDTH = 60
"""Number of characters that name a piece without a title."""


@dataclass(frozen=True)
class Search:
    """A query, and the agent that it is for; empty if it is for all."""

    query: str
    agent: str = ""


@dataclass(frozen=True)
class Found:
    """The results of searches."""

    pool: Pool
    order: list[str] = field(default_factory=list)
    """Keys in the order of first occurrence: by search, source and rank."""
    failed: list[str] = field(default_factory=list)
    """One line for each failed source; the results of the others are used."""


def search(run: RunContext[Any], question: Question, searches: Iterable[Search], round: int = 0) -> Found:
    """Ask every source for each query.

    Raises:
        UsageError: a source cannot be opened.
        RetrievalError: all of them failed.
    """
    from sottovoce.retrievers.pool import merged, pool_of

    asked = [(wanted, spec, most) for wanted in searches for spec, most in run.settings.sources()]
    answered = [(wanted, _documents(run, question, wanted.query, spec, most)) for wanted, spec, most in asked]
    failed = [result for _, result in answered if isinstance(result, RetrievalError)]
    if asked and len(failed) == len(asked):
        raise failed[0]
    found = [(wanted, result) for wanted, result in answered if not isinstance(result, RetrievalError)]
    pools = [pool_of([document], wanted.agent, round) for wanted, documents in found for document in documents]
    order = dict.fromkeys(key for pool in pools for key in pool)
    return Found(reduce(merged, pools, {}), [*order], [str(error) for error in failed])


def numbers(settings: Pooled, evidence: Found, pool: Mapping[str, Evidence], before: Sequence[str] = ()) -> list[str]:
    """Return keys by number: in the order in which they were found, or by fused ranks; old numbers do not change."""
    from sottovoce.retrievers.pool import Listed, fused, numbered

    if settings.pool == "faithful":
        return numbered(map(Listed, evidence.order), before)
    most = sum(most for _, most in settings.sources())
    return numbered(fused(pool)[:most], before)


def passages(pool: Mapping[str, Evidence], keys: Sequence[str]) -> list[Passage]:
    """Return the pieces with these keys, as agents are shown them."""
    return [_passage(pool[key]) for key in keys]


def evidence_message(
    run: RunContext[Any],
    state: Discussion,
    pool: Mapping[str, Evidence],
    keys: Sequence[str],
    origins: Found,
    first: int = 0,
) -> Message:
    """Return a message that lists the pieces and their origins, from number `first` on."""
    lines = [f"[{number}] {_named(pool[key])}" for number, key in enumerate(keys) if number >= first]
    return run.message(
        state,
        LIBRARY,
        RETRIEVE,
        "\n".join(lines) or "Nothing was found.",
        attempt=0,
        order=-1,  # before all speakers
        evidence=listed(pool, keys[first:]),
        notes=tuple(f"a source failed: {error}" for error in origins.failed),
    )


def listed(pool: Mapping[str, Evidence], keys: Iterable[str]) -> tuple[JSON, ...]:
    """Return the pieces with these keys as in a message: without their texts."""
    return tuple({"title": pool[key]["title"], "origins": pool[key]["origins"]} for key in keys)


def evidence_of(documents: Iterable[Document], agent: str = "", round: int = 0) -> tuple[JSON, ...]:
    """Return documents as in a message, in their order."""
    from sottovoce.retrievers.pool import pool_of

    pools = [pool_of([document], agent, round) for document in documents]
    return tuple(each for pool in pools for each in listed(pool, pool))


def with_evidence(run: RunContext[Any], state: Discussion) -> Update:
    """Begin for agents that hear nobody: evidence replaces the question's documents."""
    if not run.settings.sources():
        return {}
    found = search(run, state, [Search(state["question"])])
    keys = numbers(run.settings, found, found.pool)
    return {
        "documents": passages(found.pool, keys),
        "board": [evidence_message(run, state, found.pool, keys, found)],
    }


def _documents(
    run: RunContext[Any], question: Question, query: str, spec: str, most: int
) -> list[Document] | RetrievalError:
    try:
        return retriever_of(run, question, spec).invoke(query, k=most)
    except RetrievalError as error:  # one source only: others may succeed
        return error


def _passage(piece: Evidence) -> Passage:
    origin = piece["origins"][0]
    found = Passage(
        id=f"{origin['source']}:{origin['docid']}", title=piece["title"], text=piece["text"], source=origin["source"]
    )
    return {**found, "metadata": origin["metadata"]} if origin.get("metadata") else found


def _named(piece: Evidence) -> str:
    return f"{piece['title'] or piece['text'][:WIDTH]} ({'; '.join(map(_place, piece['origins']))})"


def _place(origin: Origin) -> str:
    """Return the place where a piece was found: "wiki:7, rank 2 for agent_1, year 1821"."""
    agent = f" for {origin['agent']}" if origin["agent"] else ""
    metadata = "".join(f", {name} {value}" for name, value in origin.get("metadata", {}).items())
    return f"{origin['source']}:{origin['docid']}, rank {origin['rank']}{agent}{metadata}"
