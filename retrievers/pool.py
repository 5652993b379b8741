"""The evidence pool of a discussion: plain JSON that can be merged in any order and records each piece's origins.

`merged` is a LangGraph reducer. It is commutative, associative and idempotent, because nodes that search in
parallel write in no fixed order, and a step that is repeated writes again. `listing` decides which evidence
is shown, in which order and with which numbers.

    evidence: Annotated[Pool, merged]                              # state
    {"evidence": pool_of(retriever.invoke(query), "agent_1")}      # a node's update
    shown = numbered(fused(state["evidence"])[:10], before)        # keys, in the order of their numbers
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from langchain_core.documents import Document
from typing_extensions import TypedDict

from sottovoce.retrievers.passage import Value, key_of, plain


class Origin(TypedDict):
    """One search that found a piece of evidence."""

    source: str
    docid: str
    rank: int
    """1-based rank among the results of this query in this source."""
    score: float
    query: str
    agent: str
    """The agent that searched; empty if it was no particular agent."""
    round: int
    url: str | None
    """Address without fragment and tracking parameters, see `canonical`."""
    metadata: NotRequired[dict[str, Value]]
    """The passage's own metadata, if it has any."""


class Evidence(TypedDict):
    """A piece of evidence."""

    title: str
    text: str
    origins: list[Origin]
    """Distinct origins in a fixed order."""


Pool = dict[str, Evidence]
"""Evidence by the key of its text."""


def pool_of(documents: Iterable[Document], agent: str = "", round: int = 0) -> Pool:
    """Return a pool of the documents that a `PassageRetriever` found."""
    pool: Pool = {}
    for each in documents:
        pool = merged(pool, {key_of(each.page_content): _evidence(each, agent, round)})
    return pool


def merged(left: Mapping[str, Evidence], right: Mapping[str, Evidence]) -> Pool:
    """Return all pieces of two pools; a piece in both has the origins of both."""
    return {key: _joined([pool[key] for pool in (left, right) if key in pool]) for key in sorted({*left, *right})}


def canonical(url: str | None) -> str | None:
    """Return a URL with lowercase scheme and host, without fragment, tracking parameters and trailing slash."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL: kept unchanged
        return url
    kept = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if not name.startswith("utm_")
    ]
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/"), urlencode(kept), ""))


def _evidence(document: Document, agent: str, round: int) -> Evidence:
    told: dict[str, Any] = document.metadata  # Any: plain values, see PassageRetriever
    origin: Origin = {
        "source": told["source"],
        "docid": told["docid"],
        "rank": told["rank"],
        "score": told["score"],
        "query": told["query"],
        "agent": agent,
        "round": round,
        "url": canonical(told["url"]),
    }
    if own := plain(told["metadata"]):
        origin["metadata"] = own
    return {"title": told["title"], "text": document.page_content, "origins": [origin]}


def _joined(pieces: Sequence[Evidence]) -> Evidence:
    """Join equal pieces into one; it has the first text and title in sort order, so that order does not matter."""
    origins = {json.dumps(each, sort_keys=True): each for piece in pieces for each in piece["origins"]}
    titles = [piece["title"] for piece in pieces if piece["title"]]
    return {
        "title": min(titles, default=""),
        "text": min(piece["text"] for piece in pieces),
        "origins": [origins[told] for told in sorted(origins)],
    }
