"""Conversion of chats to batches, with exactly the ids that the product would feed to the model.

Each message is a hole of the chat template, filled with the ids of its own text. The loss is computed on the ids of
messages that are lessons, and on the end-of-turn mark after them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from sottovoce.models import ChatTemplate, Ids, LoadedModel, Request, Sampling, Stop
from sottovoce.training.product import Place, Turn, spoken_turn

BATCH = 2400  # tokens of a batch, padding included
CHUNK_BATCHES = 16  # batches that are drawn together and sorted by length, to reduce padding
JUMPS, LEAP = 0.1, 1200  # share of rows with a jump in positions, as if the chat were longer; its maximum


@dataclass(frozen=True)
class Chat:
    """A place in a discussion, and the right reply there."""

    place: Place
    right: str
    lessons: frozenset[int] = frozenset()
    """The agent's own earlier messages (0-based) that are right too."""


@dataclass(frozen=True)
class Encoded:
    """Token ids, and for each whether it is learned."""

    ids: list[int]
    learned: list[bool]


class Encoder:
    """Encodes chats as ids for one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.template = ChatTemplate(tokenizer)
        self.end: int = tokenizer.eos_token_id
        self.pad: int = tokenizer.pad_token_id

    def prompt(self, turns: Sequence[Turn], prefill: str = "") -> list[int]:
        """Return the ids of a chat up to the assistant's reply, or up to the end of its prefill."""
        return [*self._fill(turns, frozenset(), opened=True).ids, *self.template.ids(prefill, plain=True)]

    def __call__(self, chat: Chat) -> Encoded:
        """Return the ids of a whole chat, cut after its last lesson."""
        turns = [*chat.place.turns, spoken_turn(chat.right, chat.place.prefill)]
        own = sum(turn.role == "assistant" for turn in turns)
        encoded = self._fill(turns, chat.lessons | {own - 1}, opened=False)
        last = len(encoded.ids) - encoded.learned[::-1].index(True)
        return Encoded(encoded.ids[:last], encoded.learned[:last])

    def _fill(self, turns: Sequence[Turn], lessons: frozenset[int], *, opened: bool) -> Encoded:
        own = [turn for turn in turns if turn.role == "assistant"]
        taught = {id(part) for number, turn in enumerate(own) if number in lessons for part in turn.parts}
        encoded, lesson = Encoded([], []), False
        for piece in self.template.encode(turns, opened=opened):
            if isinstance(piece, tuple):
                # Text after an assistant's message begins with the end-of-turn mark.
                new, learned = piece, [lesson and piece[0] == self.end] + [False] * (len(piece) - 1)
                lesson = False
            else:
                new, lesson = self.template.ids(piece.text, plain=True), id(piece) in taught
                learned = [lesson] * len(new)
            encoded.ids.extend(new)
            encoded.learned.extend(learned)
        return encoded


def replies(
    loaded: LoadedModel, places: Sequence[Place], longest: int, temperature: float, seeds: Sequence[int] = ()
) -> list[str]:
    """Return a model's replies in all places, of at most `longest` tokens each; greedy replies need no seeds."""
    encoder, stop = Encoder(loaded.tokenizer), Stop(longest, loaded.stop_ids)
    prompts = [Ids(tuple(encoder.prompt(place.turns, place.prefill))) for place in places]
    requests = [
        Request((ids,), stop, sampling=Sampling(temperature, seed=seed))
        for ids, seed in zip(prompts, seeds or [0] * len(places), strict=True)
    ]
    return [str(loaded.tokenizer.decode(list(reply.ids))) for reply in loaded.engine.run_all(requests)]


@dataclass(frozen=True)
class Batch:
    """Rows of equal padded length; `targets` is -100 for tokens that are not learned."""

    ids: Tensor  # (b, t)
    positions: Tensor  # (b, t)
    targets: Tensor  # (b, t): targets[:, i] follows ids[:, i]
    tokens: int


@dataclass(frozen=True)
class Chunks(Dataset[list[Batch]]):
    """A dataset of chunks: chunk k is a few batches, which depend on `key` and k alone."""

    key: str
    encoder: Encoder
    chat: Callable[[random.Random], Chat]

    def __getitem__(self, k: int) -> list[Batch]:
        rng = random.Random(f"{self.key}/{k}")
        rows: list[Encoded] = []
        while sum(len(row.ids) for row in rows) < BATCH * CHUNK_BATCHES:
            rows.append(self.encoder(self.chat(rng)))
        batches = [_padded(rng, group, self.encoder.pad) for group in _by_length(rows)]
        rng.shuffle(batches)
        return batches


def _by_length(rows: list[Encoded]) -> list[list[Encoded]]:
    groups: list[list[Encoded]] = []
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if not groups or (len(groups[-1]) + 1) * len(row.ids) > BATCH:
            groups.append([])
        groups[-1].append(row)
    return groups


def _padded(rng: random.Random, rows: Sequence[Encoded], filler: int) -> Batch:
    """Return rows padded on the right, where causal attention needs no mask."""
    width = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), width), filler)
    targets = torch.full((len(rows), width), -100)
    positions = torch.arange(width).repeat(len(rows), 1)
    for r, row in enumerate(rows):
        n = len(row.ids)
        ids[r, :n] = torch.tensor(row.ids)
        targets[r, : n - 1] = torch.where(torch.tensor(row.learned[1:]), ids[r, 1:n], -100)
        if rng.random() < JUMPS:
            positions[r, rng.randrange(n) :] += rng.randint(1, LEAP)
    return Batch(ids, positions, targets, sum(len(row.ids) for row in rows))
