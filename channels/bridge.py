"""From one vocabulary to another: the tokens that two models share, and CIPHER's means over those alone.

Ours, outside the paper. A speaker averages its probabilities over a table of the hearer's rows at the tokens that both
have; a last column of ones at these tokens makes the mean's last value the mass that they hold at a position. Where
they hold enough of it the mean is heard, scaled up to a whole one; elsewhere the text that was said there, as the
hearer's own tokens. Special tokens are never shared, so none comes in by a bridge.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch

from sottovoce.channels.payload import Payload, Span
from sottovoce.errors import ProtocolError, UsageError
from sottovoce.models import LoadedModel, Table
from sottovoce.models.engine.vocabulary import Vocabulary

ENOUGH = 0.5  # of a position's mass on shared tokens: below, what the mean leaves out outweighs what it says
BRIDGED = "bridged."  # how the names of bridged means begin, in replies and payloads
BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # sentencepiece's token of a byte, beside the plain one of the same character


class Token(NamedTuple):
    """A token of a vocabulary."""

    spelling: str
    """As the tokenizer has it: bytes and spaces by signs of its own."""
    written: bytes
    """What stands in the text."""


Tokens = Mapping[int, Token]
"""By id, special tokens apart."""


class BridgedTable(Table):
    """For each token id of a speaker the hearer's row and a 1, or zeros where it shares none: (V, E + 1)."""

    def __init__(self, rows: torch.Tensor, key: str) -> None:
        """`key` names both vocabularies, unlike a digest of a few values."""
        super().__init__(rows)
        vars(self)["key"] = key


@dataclass(frozen=True, eq=False)
class Bridge:
    """The way of means from one vocabulary to a hearer's."""

    table: BridgedTable
    share: float
    """Of the speaker's tokens, those that the hearer has too."""


_tokens: dict[str, Tokens] = {}
_bridges: WeakKeyDictionary[Table, dict[str, Bridge]] = WeakKeyDictionary()
"""By the hearer's own table, then by name: they go when its model does."""
_building = Lock()


def between(speaker: LoadedModel, hearer: LoadedModel) -> Bridge:
    """The bridge from one model to another; building it takes seconds for large vocabularies, once.

    Raises:
        ProtocolError: names both models: they share no token, or the tokens of one are not known as bytes.
    """
    key = name(speaker.vocabulary_key, hearer)
    with _building:
        built = _bridges.setdefault(hearer.table, {})
        if key not in built:
            ours, theirs = (_tokens_of(each, speaker, hearer) for each in (speaker, hearer))
            pairs = shared(ours, theirs)
            if not pairs:
                raise _refusal(speaker, hearer, "they share no token")
            built[key] = Bridge(_table(pairs, len(speaker.table), hearer.table, key), len(pairs) / len(ours))
        return built[key]


def known(vocabulary: str, hearer: LoadedModel) -> Bridge | None:
    """The bridge from a vocabulary, by its key, if it was built before: a payload brings no tokenizer."""
    return _bridges.get(hearer.table, {}).get(name(vocabulary, hearer))


def name(vocabulary: str, hearer: LoadedModel) -> str:
    """What means over the bridge from a vocabulary are called, in replies and payloads."""
    both = hashlib.sha256(f"{vocabulary} {hearer.vocabulary_key}".encode()).hexdigest()[:16]
    return f"{BRIDGED}{hearer.table.key}.{both}"


def shared(ours: Tokens, theirs: Tokens) -> dict[int, int]:
    """By id of ours the one of theirs that writes the same bytes.

    Where several do, the one of equal spelling, else a plain one before sentencepiece's token of a byte.
    """
    ways: dict[bytes, dict[str, int]] = {}
    for id, token in theirs.items():
        ways.setdefault(token.written, {})[token.spelling] = id
    return {id: _closest(token, ways[token.written]) for id, token in ours.items() if token.written in ways}


def heard(payload: Payload, means: torch.Tensor, places: Sequence[int], hearer: LoadedModel) -> torch.Tensor:
    """What the hearer reads of a message at some places, from its means (n, E + 1) over a bridge: (m, E)."""
    carried = crossing(means, payload.spans)
    parts = [means.new_empty(0, means.shape[1] - 1)]
    for run in _runs(places, carried):
        if carried[run[0]]:
            parts.append((means[run, :-1].float() / means[run, -1:].float()).to(means))
        else:
            parts.append(_words(payload, run, hearer).to(means))
    return torch.cat(parts)


def crossing(means: torch.Tensor, spans: Sequence[Span]) -> list[bool]:
    """Of each position, whether its mean is heard, else its words.

    Tokens that share a character go together: half of one is no text.
    """
    crosses: list[bool] = (means[:, -1] >= ENOUGH).tolist()
    first, end = 0, -1
    for i, (start, stop) in enumerate(spans):
        first = i if start >= end else first
        end = max(end, stop)
        crosses[first : i + 1] = [all(crosses[first : i + 1])] * (i + 1 - first)
    return crosses


def measured(payload: Payload) -> dict[str, float]:
    """What its bridges lose of a message: the mean mass on shared tokens, and the share of positions heard as words."""
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
    """A model's tokens, but for special ones, any that were added to the vocabulary, and rows that pad its table.

    Raises:
        UsageError: the tokenizer is none of those whose tokens are known as bytes.
    """
    tokenizer, vocabulary = loaded.tokenizer, Vocabulary(loaded.tokenizer)
    apart = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder, *loaded.stop_ids}
    listed = ((id, spelling) for spelling, id in tokenizer.get_vocab().items())
    ordinary = sorted((id, spelling) for id, spelling in listed if id not in apart and id < len(loaded.table))
    found = {id: Token(spelling, vocabulary.text([id])) for id, spelling in ordinary}
    return {id: token for id, token in found.items() if token.written}


def _closest(token: Token, ways: Mapping[str, int]) -> int:
    plain = [id for spelling, id in ways.items() if not BYTE.fullmatch(spelling)]
    return ways.get(token.spelling, (plain or list(ways.values()))[0])


def _table(pairs: Mapping[int, int], height: int, hearer: Table, key: str) -> BridgedTable:
    rows = hearer.rows.new_zeros(height, hearer.width + 1)
    ours = torch.tensor(list(pairs), device=rows.device)
    rows[ours, :-1] = hearer.rows[torch.tensor(list(pairs.values()), device=rows.device)]
    rows[ours, -1] = 1
    return BridgedTable(rows, key)


def _runs(places: Sequence[int], crosses: Sequence[bool]) -> Iterator[list[int]]:
    """The places in maximal runs: side by side in the message, and heard alike."""
    run: list[int] = []
    for place in places:
        if run and (place != run[-1] + 1 or crosses[place] != crosses[run[-1]]):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _words(payload: Payload, run: Sequence[int], hearer: LoadedModel) -> torch.Tensor:
    """The text of a run of tokens as rows of the hearer's tokens for it; special tokens in it are characters."""
    start, end = payload.spans[run[0]][0], payload.spans[run[-1]][1]
    ids = hearer.chat.ids(payload.label.text[start:end], plain=True)
    return hearer.table.rows[list(ids)]


def _refusal(speaker: LoadedModel, hearer: LoadedModel, why: str) -> ProtocolError:
    return ProtocolError(
        f"no bridge leads from {speaker.name!r} to {hearer.name!r}: {why}; "
        "use models that share a tokenizer, or carry that edge in words with --fallback nl"
    )
