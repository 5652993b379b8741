"""Bridges between two vocabularies: the tokens that two models share, and CIPHER's mean embeddings over them.

This is our own extension of the paper. A speaker averages a table of the hearer's rows at the shared tokens. A last
column of ones at these tokens makes the last value of the mean the probability mass of the shared tokens at a
position. Where the mass is large enough, the hearer reads the mean, scaled up to mass 1; elsewhere it reads the text
of that position as its own tokens. Special tokens are never shared, so none can pass a bridge.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from sottovoce.channels.payload import Payload, Span
from sottovoce.core.errors import ProtocolError, UsageError
from sottovoce.models import LoadedModel, Table

MIN_SHARED_MASS = 0.5  # mass on shared tokens at a position: below it, the mean leaves out more than it includes
BRIDGED = "bridged."  # the prefix of names of bridged means, in replies and payloads
BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # sentencepiece's byte tokens, next to plain tokens of the same character


class Token(NamedTuple):
    """A token of a vocabulary."""

    spelling: str
    """The token in the tokenizer's own notation, which has special signs for bytes and spaces."""
    text: bytes
    """The token's bytes in a text."""


Tokens = Mapping[int, Token]
"""Tokens by id, without special ones."""


class BridgedTable(Table):
    """For each token id of a speaker, the hearer's row and a 1, or zeros if the token is not shared: (V, E + 1)."""

    def __init__(self, rows: torch.Tensor, key: str) -> None:
        """Create the table. `key` must identify both vocabularies; a digest of a few values would not suffice."""
        super().__init__(rows)
        vars(self)["key"] = key


@dataclass(frozen=True, eq=False)
class Bridge:
    """The conversion of mean embeddings from one vocabulary to a hearer's."""

    table: BridgedTable
    share: float
    """The share of the speaker's tokens that the hearer also has."""


_tokens: dict[str, Tokens] = {}
_bridges: WeakKeyDictionary[Table, dict[str, Bridge]] = WeakKeyDictionary()
"""Bridges by the hearer's own table, then by name; they are freed with its model."""
_building = Lock()


def between(speaker: LoadedModel, hearer: LoadedModel) -> Bridge:
    """Return the bridge from one model to another; building it takes seconds for large vocabularies, once.

    Raises:
        ProtocolError: the models share no token, or the tokens of one have no known bytes; the message names both.
    """
    key = name(speaker.vocabulary_key, hearer)
    with _building:
        built = _bridges.setdefault(hearer.table, {})
        if key not in built:
            ours, theirs = (_tokens_of(model, speaker, hearer) for model in (speaker, hearer))
            pairs = shared(ours, theirs)
            if not pairs:
                raise _refusal(speaker, hearer, "they share no token")
            built[key] = Bridge(_table(pairs, len(speaker.table), hearer.table, key), len(pairs) / len(ours))
        return built[key]


def known(vocabulary: str, hearer: LoadedModel) -> Bridge | None:
    """Return the existing bridge from a vocabulary, by its key. A payload has no tokenizer to build one from."""
    return _bridges.get(hearer.table, {}).get(name(vocabulary, hearer))


def name(vocabulary: str, hearer: LoadedModel) -> str:
    """Return the name of means over the bridge from a vocabulary, in replies and payloads."""
    both = hashlib.sha256(f"{vocabulary} {hearer.vocabulary_key}".encode()).hexdigest()[:16]
    return f"{BRIDGED}{hearer.table.key}.{both}"


def shared(ours: Tokens, theirs: Tokens) -> dict[int, int]:
    """Return for each id of our tokens the id of their token with the same bytes.

    Of several such tokens, one with equal spelling comes first, then a plain one, then sentencepiece's byte token.
    """
    ways: dict[bytes, dict[str, int]] = {}
    for id, token in theirs.items():
        ways.setdefault(token.text, {})[token.spelling] = id
    return {id: _closest(token, ways[token.text]) for id, token in ours.items() if token.text in ways}


def read_rows(payload: Payload, mean_rows: torch.Tensor, places: Sequence[int], hearer: LoadedModel) -> torch.Tensor:
    """Return the rows (m, E) that the hearer reads at some places of a message, from its `mean_rows` (n, E + 1)."""
    crosses = crossing(mean_rows, payload.spans)
    parts = [mean_rows.new_empty(0, mean_rows.shape[1] - 1)]
    # Maximal runs of adjacent positions that are all read as means or all as words.
    for _, same in groupby(enumerate(places), lambda item: (item[1] - item[0], crosses[item[1]])):
        run = [place for _, place in same]
        if crosses[run[0]]:
            parts.append((mean_rows[run, :-1].float() / mean_rows[run, -1:].float()).to(mean_rows))
        else:
            start, end = payload.spans[run[0]][0], payload.spans[run[-1]][1]
            ids = hearer.chat.ids(payload.label.text[start:end], plain=True)  # special tokens are ordinary characters
            parts.append(hearer.table.rows[list(ids)].to(mean_rows))
    return torch.cat(parts)


def crossing(mean_rows: torch.Tensor, spans: Sequence[Span]) -> list[bool]:
    """Return for each position whether the reader gets the mean (True) or the words (False).

    Tokens that share a character are treated alike, since half a character is not text.
    """
    crosses: list[bool] = (mean_rows[:, -1] >= MIN_SHARED_MASS).tolist()
    first, end = 0, -1
    for i, (start, stop) in enumerate(spans):
        first = i if start >= end else first
        end = max(end, stop)
        crosses[first : i + 1] = [all(crosses[first : i + 1])] * (i + 1 - first)
    return crosses


def measured(payload: Payload) -> dict[str, float]:
    """Return how well bridges carry a message: mean mass on shared tokens, and share of positions read as words."""
    bridged = [tensor for name, tensor in payload.tensors.items() if name.startswith(BRIDGED) and len(tensor)]
    if not bridged:
        return {}
    masses = torch.cat([means[:, -1].float() for means in bridged])
    words = [not crosses for means in bridged for crosses in crossing(means, payload.spans)]
    return {"shared_mass": round(float(masses.mean()), 4), "as_words": round(sum(words) / len(words), 4)}


def _tokens_of(loaded: LoadedModel, speaker: LoadedModel, hearer: LoadedModel) -> Tokens:
    if loaded.vocabulary_key not in _tokens:
        try:
            _tokens[loaded.vocabulary_key] = tokens(loaded)
        except UsageError as error:
            raise _refusal(speaker, hearer, f"the tokens of {loaded.name!r} are not known as bytes") from error
    return _tokens[loaded.vocabulary_key]


def tokens(loaded: LoadedModel) -> Tokens:
    """Return a model's tokens without special ones, those added to the vocabulary, and rows that pad its table."""
    from sottovoce.models.engine.vocabulary import Vocabulary  # late: llguidance

    tokenizer, vocabulary = loaded.tokenizer, Vocabulary(loaded.tokenizer)
    excluded = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder, *loaded.stop_ids}
    listed = ((id, spelling) for spelling, id in tokenizer.get_vocab().items())
    ordinary = sorted((id, spelling) for id, spelling in listed if id not in excluded and id < len(loaded.table))
    by_id = {id: Token(spelling, vocabulary.text([id])) for id, spelling in ordinary}
    return {id: token for id, token in by_id.items() if token.text}


def _closest(token: Token, ways: Mapping[str, int]) -> int:
    plain = [id for spelling, id in ways.items() if not BYTE.fullmatch(spelling)]
    return ways.get(token.spelling, (plain or list(ways.values()))[0])


def _table(pairs: Mapping[int, int], height: int, hearer: Table, key: str) -> BridgedTable:
    rows = hearer.rows.new_zeros(height, hearer.width + 1)
    ours = torch.tensor(list(pairs), device=rows.device)
    rows[ours, :-1] = hearer.rows[torch.tensor(list(pairs.values()), device=rows.device)]
    rows[ours, -1] = 1
    return BridgedTable(rows, key)


def _refusal(speaker: LoadedModel, hearer: LoadedModel, why: str) -> ProtocolError:
    return ProtocolError(
        f"no bridge leads from {speaker.name!r} to {hearer.name!r}: {why}",
        "use models that share a tokenizer, or carry that edge in words with `fallback='nl'`",
    )
