"""Refines a map by the receiver's own loss: mapped keys and values stand in its cache, and it replies to requests.

Only the map learns; the receiver is frozen. The prompt is the one of a discussion: the receiver's own beginning, the
mapped positions, then a whole prompt with the request.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Any

import torch
from torch.nn.functional import cross_entropy, pad
from transformers import DynamicCache

from sottovoce.bridges.pairs import Read, head_of
from sottovoce.channels.bridge import split, standardized
from sottovoce.channels.message import Turn
from sottovoce.models import Ids, LoadedModel, Record, Request, Stop
from sottovoce.models.huggingface.family import cache_argument

BATCH = 4
RATE = 1e-4  # of Adam at most, for weights between features and numbers of deviation 1
FAR = 2.5  # nats per token: a map that begins with less loss learns at a lower rate, which does not undo what it knows
FIRST = 4  # batches whose loss is measured before the first step
WARM = 10  # steps
LAST_RATE = 0.05  # share of the rate at the last step
CLIP = 1.0  # norm of a step's gradient
LONGEST = 120  # tokens of a reply
Example = tuple[Read, str, str]
"""A text, a request about it, and the reply that is wanted."""
Tensors = dict[str, torch.Tensor]
Pair = tuple[torch.Tensor, torch.Tensor]
"""Keys and values (L, h, m, w)."""
Chat = tuple[tuple[int, ...], tuple[int, ...]]
"""The tokens of a prompt, and of the reply that is wanted."""


@dataclass(eq=False)
class Refinement:
    """The state of a refinement."""

    receiver: LoadedModel
    tensors: Tensors
    """The bridge: see `channels.bridge`; `weight` in float32."""
    spread: torch.Tensor
    """The standard deviations (O,) of the receiver's numbers: a step of Adam changes all of them alike."""
    lessons: Sequence[Read]
    seed: int

    def __post_init__(self) -> None:
        self.weight = (self.tensors["weight"] / self.spread).requires_grad_()
        self.bias = (self.tensors["bias"] / self.spread).requires_grad_()
        self.adam = torch.optim.Adam([self.weight, self.bias], lr=RATE, fused=True)
        found = [(read, request, reply) for read in self.lessons for request, reply in read.lesson.asked]
        sized = [each for each in found if len(self.receiver.chat.ids(each[2])) <= LONGEST]
        self.questions = [each for each in sized if not repeats(each)]
        self.repeated = [each for each in sized if repeats(each)]
        with torch.no_grad():
            losses = [float(self.loss(self._batch(f"first {i}"))) for i in range(FIRST)]
        self.rate = RATE * min(1, (sum(losses) / FIRST / FAR) ** 2)

    @property
    def done(self) -> int:
        """The steps that were made, by Adam's own count: an interrupt may follow it at once."""
        return int(self.adam.state[self.weight]["step"]) if self.weight in self.adam.state else 0

    def step(self, planned: int | None) -> float:
        """Make a step of `planned`, and return its loss in nats per token. The first WARM are alike for all plans."""
        share = max(self.done - WARM, 0) / max((planned or 0) - WARM, 1)
        rate = self.rate * min(1, (self.done + 1) / WARM)
        rate *= LAST_RATE + (1 - LAST_RATE) * (1 + cos(pi * share)) / 2
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.zero_grad()
        loss = self.loss(self._batch(self.done))
        loss.backward()
        torch.nn.utils.clip_grad_norm_([self.weight, self.bias], CLIP)
        self.adam.step()
        return float(loss.detach())

    def _batch(self, number: int | str) -> list[Example]:
        rng = random.Random(f"{self.seed}/{number}")
        kinds = [kind for kind in (self.questions, self.repeated) if kind]  # none is short where a token is a letter
        return [rng.choice(kinds[i % len(kinds)]) for i in range(BATCH)]

    def map(self) -> Tensors:
        """Return weight and bias as they are now."""
        return {"weight": self.weight.detach() * self.spread, "bias": self.bias.detach() * self.spread}

    def loss(self, batch: Sequence[Example]) -> torch.Tensor:
        """Return the mean over examples of a wanted reply's loss, in nats per token."""
        receiver = self.receiver
        chats = [
            (prompt_of(receiver, request), (*receiver.chat.ids(reply, plain=True), *receiver.stop_ids[:1]))
            for _, request, reply in batch
        ]
        found = sorted(
            zip(self._mapped([read.features for read, _, _ in batch]), chats, strict=True),
            key=lambda example: sum(map(len, example[1])),
        )
        half = (len(found) + 1) // 2  # short ones are not filled up to the length of long ones
        losses = [self._losses(part) for part in (found[:half], found[half:]) if part]
        return torch.cat(losses).mean()

    def _losses(self, batch: Sequence[tuple[Pair, Chat]]) -> torch.Tensor:
        """Return the loss (b,) of each reply behind its mapped keys and values and its prompt."""
        receiver, mapped = self.receiver, [pair for pair, _ in batch]
        head, longest = self.tensors["head_keys"].shape[2], max(keys.shape[2] for keys, _ in mapped)
        n = max(len(prompt) + len(reply) for _, (prompt, reply) in batch)
        ids, wanted = torch.zeros(len(batch), n, dtype=torch.long), torch.full((len(batch), n), -1)
        seen, places = torch.zeros(len(batch), head + longest + n, dtype=torch.long), torch.zeros_like(ids)
        for i, ((keys, _), (prompt, reply)) in enumerate(batch):
            m, whole = head + keys.shape[2], prompt + reply
            ids[i, : len(whole)] = torch.tensor(whole)
            wanted[i, len(prompt) - 1 : len(whole) - 1] = torch.tensor(reply)
            seen[i, :m] = 1
            seen[i, head + longest : head + longest + len(whole)] = 1
            places[i] = torch.arange(m, m + n)
        ids, wanted, seen, places = (each.to(receiver.network.device) for each in (ids, wanted, seen, places))
        named: dict[str, Any] = {cache_argument(receiver.model): self._cache(mapped, longest)}  # Any: of a cache
        decoder = receiver.model.get_decoder()
        states = decoder(input_ids=ids, attention_mask=seen, position_ids=places, **named).last_hidden_state
        spoken = wanted >= 0
        each = cross_entropy(receiver.network.head(states[spoken]).float(), wanted[spoken], reduction="none")
        return torch.zeros(len(batch), device=each.device).index_add(0, spoken.nonzero()[:, 0], each) / spoken.sum(1)

    def _cache(self, mapped: Sequence[Pair], n: int) -> DynamicCache:
        """Return a cache with the head and the mapped keys and values, filled up to n positions."""
        cache, device, dtype = DynamicCache(), self.receiver.network.device, self.receiver.dtype
        filled = [[pad(part, (0, 0, 0, n - part.shape[2])) for part in pair] for pair in mapped]
        heads = [self.tensors[name] for name in ("head_keys", "head_values")]
        keys, values = (
            torch.stack([torch.cat([head, pair[j]], dim=2) for pair in filled]).to(device, dtype)
            for j, head in enumerate(heads)
        )
        for layer in range(self.receiver.layers):
            cache.update(keys[:, layer], values[:, layer], layer)
        return cache

    def _mapped(self, features: Sequence[torch.Tensor]) -> list[Pair]:
        """Return each text's keys, rotated to their places behind the head, and values (L, h, m, w)."""
        known = standardized(torch.cat([*features]), self.tensors["mean"], self.tensors["scale"])
        rows = (known @ self.weight + self.bias) * self.spread  # one product: its gradient is as large as the map
        found = list[Pair]()
        for part in rows.split([len(each) for each in features]):
            keys, values = split(part, self.receiver.layers, self.tensors["head_keys"].shape[1])
            at = torch.arange(keys.shape[2]) + self.tensors["head_keys"].shape[2]
            found.append((self.receiver.network.rotary.turn(keys, range(self.receiver.layers), at), values))
        return found

    def state(self) -> Tensors:
        """Return all that is needed to go on."""
        found = {"weight": self.weight.detach(), "bias": self.bias.detach()}
        for name, parameter in (("weight", self.weight), ("bias", self.bias)):
            found |= {f"{name}.{key}": value for key, value in self.adam.state.get(parameter, {}).items()}
        return found

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a state."""
        for name, parameter in (("weight", self.weight), ("bias", self.bias)):
            parameter.data.copy_(state[name])
            own = {key.partition(".")[2]: value for key, value in state.items() if key.startswith(f"{name}.")}
            if own:
                self.adam.state[parameter] = own


def repeats(example: Example) -> bool:
    """Return True if the whole text is the wanted reply."""
    return example[2] == example[0].lesson.text


def prompt_of(loaded: LoadedModel, request: str) -> tuple[int, ...]:
    """Return the ids of a prompt with one user's turn."""
    pieces = loaded.chat.encode([Turn("user", (request,))])
    return tuple(id for piece in pieces if isinstance(piece, tuple) for id in piece)


def head_tensors(receiver: LoadedModel) -> Tensors:
    """Return the receiver's keys and values of the head, rotated for positions 0 .. h - 1."""
    request = Request((Ids(head_of(receiver)),), Stop(0), record=Record(cache=("prompt",)))
    cache = receiver.engine.run(request).cache
    assert cache is not None, "it was asked for"
    return {"head_keys": cache.keys.float(), "head_values": cache.values.float()}
