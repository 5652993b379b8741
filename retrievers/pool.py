"""The evidence that a discussion found, as plain JSON: merged in any order, with where each piece comes from.

`merged` is a LangGraph reducer. It is commutative, associative and idempotent, for nodes that search
side by side write in no fixed order, and a step that is done again writes again. What is shown of a
pool, in which order and under which numbers, is `listing`'s to say.

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
    """One way in which a piece was found."""

    source: str
    docid: str
    rank: int
    """1-based, among what this query found there."""
    score: float
    query: str
    agent: str
    """Who searched; empty where it was nobody in particular."""
    round: int
    url: str | None
    """Without what does not matter: fragment, tracking."""
    metadata: NotRequired[dict[str, Value]]
    """The passage's own metadata, if it has any."""


class Evidence(TypedDict):
    """A piece of text."""

    title: str
    text: str
    origins: list[Origin]
    """A set, in a fixed order."""


Pool = dict[str, Evidence]
"""By the key of their text."""


def pool_of(documents: Iterable[Document], agent: str = "", round: int = 0) -> Pool:
    """A pool of what a `PassageRetriever` found."""
    pool: Pool = {}
    for each in documents:
        pool = merged(pool, {key_of(each.page_content): _evidence(each, agent, round)})
    return pool


def merged(left: Mapping[str, Evidence], right: Mapping[str, Evidence]) -> Pool:
    """All pieces of both; what both hold has the origins of both."""
    return {key: _joined([pool[key] for pool in (left, right) if key in pool]) for key in sorted({*left, *right})}


def canonical(url: str | None) -> str | None:
    """An address without fragment, tracking parameters and a slash at its end, host in small letters."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # no address: kept as it is
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
    """One piece; of several wordings and titles the least in order, so that it does not matter who came first."""
    origins = {json.dumps(each, sort_keys=True): each for piece in pieces for each in piece["origins"]}
    titles = [piece["title"] for piece in pieces if piece["title"]]
    return {
        "title": min(titles, default=""),
        "text": min(piece["text"] for piece in pieces),
        "origins": [origins[told] for told in sorted(origins)],
    }
