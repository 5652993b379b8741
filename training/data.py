"""What a stage is fed: batches of chats, pure functions of (seed, stage, number)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from sottovoce.prompts.render import Prompts
from sottovoce.training.chats import Encoded, Encoder
from sottovoce.training.debates import Talk
from sottovoce.training.problems import HARDER, TOPS
from sottovoce.training.skills import DIETS, chat
from sottovoce.training.sources import Source

BATCH = 2400
"""Tokens of a batch, padding included."""
CHUNK = 16
"""Batches that are drawn together and sorted by length, so that little is padded."""
JUMPS = 0.1
"""Share of rows whose positions leap somewhere, as if the chat were longer."""
LEAP = 1200


@dataclass(frozen=True)
class Batch:
    """Rows of equal padded length; `targets` is -100 where nothing is learnt."""

    ids: Tensor  # (b, t)
    positions: Tensor  # (b, t)
    targets: Tensor  # (b, t): targets[:, i] follows ids[:, i]
    tokens: int


class Chunks(Dataset[list[Batch]]):
    """Chunk k of a stage: a few batches, the same ones whenever and wherever they are made."""

    def __init__(self, seed: int, stage: str, encoder: Encoder, talks: Sequence[Talk] = ()) -> None:
        """The stage's name picks its diet; `talks` are debates between copies of the model itself."""
        self.key, self.encoder, self.diet = f"{seed}/{stage}", encoder, DIETS[stage]
        self.source = Source(Prompts(), HARDER if talks else TOPS, talks)

    def __getitem__(self, k: int) -> list[Batch]:
        """Chunk k."""
        rng = random.Random(f"{self.key}/{k}")
        rows: list[Encoded] = []
        while sum(len(row.ids) for row in rows) < BATCH * CHUNK:
            rows.append(self.encoder(chat(rng, self.source, self.diet)))
        batches = [pad(rng, rows, self.encoder.pad) for rows in by_length(rows)]
        rng.shuffle(batches)
        return batches


def by_length(rows: list[Encoded]) -> list[list[Encoded]]:
    """Rows of similar length together, each group within the size of a batch."""
    groups: list[list[Encoded]] = []
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if not groups or (len(groups[-1]) + 1) * len(row.ids) > BATCH:
            groups.append([])
        groups[-1].append(row)
    return groups


def pad(rng: random.Random, rows: Sequence[Encoded], filler: int) -> Batch:
    """One batch, padded on the right: with causal attention no mask is needed there."""
    width = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), width), filler)
    targets = torch.full((len(rows), width), -100)
    positions = torch.arange(width).repeat(len(rows), 1)
    for r, row in enumerate(rows):
        n = len(row.ids)
        ids[r, :n] = torch.tensor(row.ids)
        learnt = torch.tensor(row.learnt[1:])
        targets[r, : n - 1] = torch.where(learnt, ids[r, 1:n], targets[r, : n - 1])
        if rng.random() < JUMPS:
            positions[r, rng.randrange(n) :] += rng.randint(1, LEAP)
    return Batch(ids, positions, targets, sum(len(row.ids) for row in rows))


def corpus(seed: int, n: int = 3000) -> list[str]:
    """Texts for the tokenizer: prompts as they are rendered, what is said in them, and the requests for a form."""
    rng, prompts = random.Random(f"{seed}/tokenizer"), Prompts()
    diet = {skill: share for skill, share in DIETS["basics"].items() if skill != "repeat"}
    texts: list[str] = []
    for _ in range(n):
        made = chat(rng, Source(prompts), diet)
        parts = [part for turn in made.place.turns for part in turn.parts]
        texts += [*(part if isinstance(part, str) else part.text for part in parts), made.right]
    forms = [name for name in prompts.names() if name.startswith("answers/")]
    wordings = [str(part) for name in forms for part in prompts.render(name, steps=True)]
    return [*texts, *[f"{role}\n" for role in ("system", "user", "assistant")] * n, *wordings * 20]
