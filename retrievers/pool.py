"""The evidence pool of a discussion: plain JSON that can be merged in any order and records each piece's origins.

`merged` is a LangGraph reducer. It is commutative, associative and idempotent, because nodes that search in
parallel write in no fixed order, and a step that is repeated writes again. `fused` and `numbered` decide which
evidence is shown: by fused ranks, with near duplicates folded, and with fixed numbers.

    evidence: Annotated[Pool, merged]                              # state
    {"evidence": pool_of(retriever.invoke(query), "agent_1")}      # a node's update
    shown = numbered(fused(state["evidence"])[:10], before)        # keys, in the order of their numbers
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

from sottovoce.core.any_types import JSON
from sottovoce.retrievers.passage import UNSPACED, Value, key_of, plain, spaced

if TYPE_CHECKING:
    from langchain_core.documents import Document


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
    for document in documents:
        metadata: JSON = document.metadata
        origin: Origin = {
            "source": metadata["source"],
            "docid": metadata["docid"],
            "rank": metadata["rank"],
            "score": metadata["score"],
            "query": metadata["query"],
            "agent": agent,
            "round": round,
            "url": metadata["url"],
        }
        if own := plain(metadata["metadata"]):
            origin["metadata"] = own
        found: Evidence = {"title": metadata["title"], "text": document.page_content, "origins": [origin]}
        pool = merged(pool, {key_of(document.page_content): found})
    return pool


def merged(left: Mapping[str, Evidence], right: Mapping[str, Evidence]) -> Pool:
    """Return all pieces of two pools. A piece that is in both has the origins of both."""
    return {key: _joined([pool[key] for pool in (left, right) if key in pool]) for key in sorted({*left, *right})}


def _joined(pieces: Sequence[Evidence]) -> Evidence:
    """Join equal pieces into one; it has the first text and title in sort order, so that order does not matter."""
    origins = {json.dumps(origin, sort_keys=True): origin for piece in pieces for origin in piece["origins"]}
    titles = [piece["title"] for piece in pieces if piece["title"]]
    return {
        "title": min(titles, default=""),
        "text": min(piece["text"] for piece in pieces),
        "origins": [origins[key] for key in sorted(origins)],
    }


CONSTANT = 60
"""The k of reciprocal rank fusion (Cormack et al. 2009): the larger, the smaller the advantage of the first places."""
GRAM = 4
"""Number of consecutive words that are compared."""
CONTAINED = 0.8
"""Share of a text's grams that a longer text must contain for the text to be folded into it."""


@dataclass(frozen=True)
class Listed:
    """A listed piece of evidence."""

    key: str
    also: tuple[str, ...] = ()
    """Keys of the pieces that were folded into this one."""
    score: float = 0.0
    """Sum of its shares in all rankings."""

    @property
    def covers(self) -> frozenset[str]:
        """All keys that it represents."""
        return frozenset((self.key, *self.also))


def fused(pool: Mapping[str, Evidence]) -> list[Listed]:
    """Fold near duplicates, and join the rankings of all sources and queries by reciprocal ranks."""
    folds = folded(pool)
    pieces = {key: [pool[piece] for piece in (key, *also)] for key, also in folds.items()}
    origins = {key: [origin for piece in found for origin in piece["origins"]] for key, found in pieces.items()}
    listed = [Listed(key, also, _score(origins[key])) for key, also in folds.items()]
    # The best place orders equal scores.
    places = {key: min((each["rank"], each["source"], each["docid"]) for each in origins[key]) for key in folds}
    return sorted(listed, key=lambda item: (-item.score, places[item.key], item.key))


def folded(pool: Mapping[str, Evidence]) -> dict[str, tuple[str, ...]]:
    """Return the remaining pieces, each with those folded into it: short ones into the longest that contains them."""
    # Without punctuation: a snippet ends in dots.
    pattern = re.compile(f"[{UNSPACED}]+|\\w+")
    words = {key: pattern.findall(spaced(evidence["text"].casefold())) for key, evidence in pool.items()}
    remaining: dict[str, list[str]] = {}
    for key in sorted(words, key=lambda key: (-len(words[key]), key)):
        into = next((longer for longer in remaining if contained(words[key], words[longer])), None)
        remaining.setdefault(into or key, []).extend([key] if into else [])
    return {key: tuple(also) for key, also in remaining.items()}


def numbered(listed: Iterable[Listed], before: Sequence[str] = ()) -> list[str]:
    """Return keys in the order of their numbers: those in `before` keep their numbers, and new ones follow."""
    numbers = list(before)
    numbers += [item.key for item in listed if not item.covers & set(before)]
    return numbers


def contained(short: Sequence[str], long: Sequence[str]) -> bool:
    """Return whether a text that is not shorter contains nearly all grams of another; never true of single words."""
    if (size := min(GRAM, len(short))) < 2:
        return False
    grams, within = _grams(short, size), _grams(long, size)
    return len(grams & within) >= CONTAINED * len(grams)


def _score(origins: Sequence[Origin]) -> float:
    """Return the sum of shares over rankings: in each (one query to one source) the best rank counts."""
    ranks: dict[tuple[str, str], int] = {}
    for origin in origins:
        ranking = (origin["source"], origin["query"])
        ranks[ranking] = min(origin["rank"], ranks.get(ranking, origin["rank"]))
    return sum(1 / (CONSTANT + rank) for rank in sorted(ranks.values()))  # sorted: float sums depend on their order


def _grams(words: Sequence[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}
