"""The shared vocabulary of two models: the tokens that both have, and CIPHER's mean embeddings over them.

This is our own extension of the paper. A speaker averages a table of the hearer's rows at the shared tokens. A last
column of ones at these tokens makes the last value of the mean the probability mass of the shared tokens at a
position. Where the mass is large enough, the hearer reads the mean, scaled up to mass 1; elsewhere it reads the text
of that position as its own tokens. Special tokens are never shared, so no message can contain one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from sottovoce.channels.payload import Payload, Span
from sottovoce.core.errors import ProtocolError, UsageError
from sottovoce.models import LoadedModel, Table

MIN_SHARED_MASS = 0.5  # mass on shared tokens at a position: below it, the mean leaves out more than it includes
SHARED = "bridged."  # the prefix of names of means, in replies and payloads; files of format 1 have this word
BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # sentencepiece's byte tokens, next to plain tokens of the same character


class Token(NamedTuple):
    """A token of a vocabulary."""

    spelling: str
    """The token in the tokenizer's own notation, which has special signs for bytes and spaces."""
    text: bytes
    """The token's bytes in a text."""


Tokens = Mapping[int, Token]
"""Tokens by id, without special ones."""


class SharedVocabulary(NamedTuple):
    """The tokens of a speaker that a hearer also has."""

    table: Table
    """For each token id of the speaker, the hearer's row and a 1, or zeros if the token is not shared: (V, E + 1)."""
    share: float
    """The share of the speaker's tokens that the hearer also has."""


_tokens: dict[str, Tokens] = {}
_built: WeakKeyDictionary[Table, dict[str, SharedVocabulary]] = WeakKeyDictionary()
"""Shared vocabularies by the hearer's own table, then by name; they are freed with its model."""
_building = Lock()


def between(speaker: LoadedModel, hearer: LoadedModel) -> SharedVocabulary:
    """Return what a hearer shares of a speaker's vocabulary; building it takes seconds for large ones, once.

    Raises:
        ProtocolError: the models share no token, or the tokens of one have no known bytes; the message names both.
    """
    key = name(speaker.vocabulary_key, hearer)
    with _building:
        built = _built.setdefault(hearer.table, {})
        if key not in built:
            built[key] = _build(speaker, hearer, key)
        return built[key]


def mean_rows(payload: Payload, hearer: LoadedModel) -> torch.Tensor | None:
    """Return the means (n, E + 1) for a hearer, those of the sparse form if a table was already built, or None."""
    key = name(payload.label.vocabulary, hearer)
    built = _built.get(hearer.table, {}).get(key)
    return payload.tensors.get(key) if key in payload.tensors or built is None else payload.rows_over(built.table)


def name(vocabulary: str, hearer: LoadedModel) -> str:
    """Return the name of means for a hearer of another vocabulary, in replies and payloads."""
    both = hashlib.sha256(f"{vocabulary} {hearer.vocabulary_key}".encode()).hexdigest()[:16]
    return f"{SHARED}{hearer.table.key}.{both}"


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
    """Return what other vocabularies share of a message: mean mass on shared tokens, and positions read as words."""
    over_shared = [tensor for name, tensor in payload.tensors.items() if name.startswith(SHARED) and len(tensor)]
    if not over_shared:
        return {}
    masses = torch.cat([means[:, -1].float() for means in over_shared])
    words = [not crosses for means in over_shared for crosses in crossing(means, payload.spans)]
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


def _build(speaker: LoadedModel, hearer: LoadedModel, key: str) -> SharedVocabulary:
    ours, theirs = (_tokens_of(model, speaker, hearer) for model in (speaker, hearer))
    if not (pairs := shared(ours, theirs)):
        raise _refusal(speaker, hearer, "they share no token")
    table = Table(hearer.table.rows.new_zeros(len(speaker.table), hearer.table.width + 1))
    vars(table)["key"] = key  # it identifies both vocabularies; a digest of a few values would not suffice
    spoken, heard = torch.tensor([*pairs.items()], device=table.rows.device).T
    table.rows[spoken, :-1], table.rows[spoken, -1] = hearer.table.rows[heard], 1
    return SharedVocabulary(table, len(pairs) / len(ours))


def _refusal(speaker: LoadedModel, hearer: LoadedModel, why: str) -> ProtocolError:
    return ProtocolError(
        f"{speaker.name!r} and {hearer.name!r} have no shared vocabulary: {why}",
        "use models that share a tokenizer, or carry that edge in words with `fallback='nl'`",
    )
