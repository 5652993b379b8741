"""Sampling from logits: logits processors, draws that do not depend on the batch, and statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import one_hot

from sottovoce.models.engine.request import Sampling
from sottovoce.models.huggingface.devices import upload
from sottovoce.models.huggingface.embedding_table import argmax, dots, largest

DRAWN = 64  # uniforms generated at a time; the number does not change their values
NEGLIGIBLE = 75.0  # nats below the largest logit: with it, no probability of 150,000 tokens is denormal in float32
ENOUGH_VARIANCE = 1e-12  # below it a distribution is flat or one-hot, and its kurtosis is 0 by convention


class Chosen(NamedTuple):
    """The choice of a pass for one sequence, with the state of the reply."""

    token: int
    """The drawn token; with a mean feed, the likeliest token that the format accepts."""
    nearest: int | None
    """The nearest token of the mean; None if no mean was made."""
    stops: bool
    """True if the choice is a stop."""
    ids: Sequence[int]
    """The reply so far."""
    left: int
    """Number of tokens that may still be written, this one included."""

    @property
    def freely(self) -> int:
        """The token that the model would write without a format."""
        return self.token if self.nearest is None else self.nearest


@dataclass(eq=False)
class Uniforms:
    """The uniform draws in [0, 1) of one sequence, from its own generator: equal in any batch."""

    seed: int
    """0 to 2**64 - 1."""
    _drawn: list[float] = field(default_factory=list)

    @cached_property
    def _draw(self) -> Callable[[int], torch.Tensor | NDArray[np.float64]]:
        if self.seed < 2**32:  # torch's generator (2.13) reads no higher bits
            return partial(torch.rand, generator=torch.Generator().manual_seed(self.seed), dtype=torch.float64)
        return np.random.default_rng(self.seed).random

    def at(self, i: int) -> float:
        """Return the draw of position i."""
        while i >= len(self._drawn):
            self._drawn += self._draw(DRAWN).tolist()
        return self._drawn[i]


class Temperatures:
    """The temperatures of the rows of a batch; prepared once, for many passes."""

    def __init__(self, temperatures: Sequence[float], device: torch.device) -> None:
        self.at = upload(temperatures, device, torch.float32)
        """(b,)."""
        self.all_warm = all(temperature > 0 for temperature in temperatures)


def distribution(logits: torch.Tensor, temperatures: Temperatures) -> torch.Tensor:
    """Return softmax(logits / T) over (b, V), with one T for each row; T = 0 is the one-hot argmax, the limit."""
    soft = _cooled(logits, temperatures.at).softmax(-1)
    if temperatures.all_warm:
        return soft
    coldest = one_hot(argmax(logits), logits.shape[-1]).to(soft.dtype)
    return torch.where(temperatures.at[:, None] > 0, soft, coldest)


def limit(logits: torch.Tensor, masks: Mapping[int, NDArray[np.bool_]]) -> torch.Tensor:
    """Return logits (b, V); rows with a mask (V,) are -inf at tokens that it does not allow."""
    allowed = np.ones(logits.shape, np.bool_)
    for i, mask in masks.items():
        known = min(len(mask), logits.shape[-1])
        allowed[i, :known], allowed[i, known:] = mask[:known], False
    return logits.where(torch.from_numpy(allowed).to(logits.device), -torch.inf)


def _cooled(logits: torch.Tensor, temperatures: torch.Tensor) -> torch.Tensor:
    """Return logits / T, shifted so that the largest is 0: even the smallest T gives no infinities.

    On a CPU, logits with a probability below 3e-33 of the largest become -inf: sums over denormal numbers take ten
    times as long.
    """
    warm = temperatures.clamp_min(torch.finfo(torch.float32).tiny)
    cooled = (logits - logits.amax(-1, keepdim=True)).div_(warm[:, None])
    return torch.threshold_(cooled, -NEGLIGIBLE, -torch.inf) if cooled.device.type == "cpu" else cooled


def penalise(logits: torch.Tensor, seen: Sequence[Sequence[int]], penalties: Sequence[float]) -> torch.Tensor:
    """Divide the positive and multiply the negative logits of the ids seen so far by the row's penalty."""
    logits = logits.clone()
    for row, ids, penalty in zip(logits, seen, penalties, strict=True):
        if penalty != 1.0 and ids:
            at = upload(sorted(set(ids)), logits.device)
            row[at] = torch.where(row[at] > 0, row[at] / penalty, row[at] * penalty)
    return logits


class Draws:
    """The drawing of tokens for the rows of a batch; prepared once, for many passes.

    The order is temperature, top-k, top-p, as in Hugging Face; temperature 0 takes the argmax.
    """

    def __init__(self, samplings: Sequence[Sampling], device: torch.device) -> None:
        self.samplings = samplings
        self.greedy = all(each.temperature == 0 for each in samplings)
        """True if no row needs a uniform number."""
        self._some_greedy = any(each.temperature == 0 for each in samplings)
        self.penalised = any(each.repetition_penalty != 1.0 for each in samplings)
        # Rows that keep the same number of tokens are drawn together: a draw sums over the kept tokens in an
        # order that depends on their number, so other neighbors would change a row's token.
        groups: dict[int | None, list[int]] = {}
        for i, each in enumerate(samplings):
            if each.temperature > 0:
                whole = each.top_k == 0 and each.top_p >= 1.0
                groups.setdefault(None if whole else each.top_k, []).append(i)
        self._groups = [
            (
                kept,
                None if len(rows) == len(samplings) else upload(rows, device),
                upload([samplings[i].temperature for i in rows], device),
                upload([samplings[i].top_p for i in rows], device),
            )
            for kept, rows in groups.items()
        ]

    def __call__(self, logits: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """Draw one id per row (b,) from penalised logits (b, V) with uniforms u (b,) in [0, 1)."""
        ids = argmax(logits) if self._some_greedy else torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        for kept, at, temperatures, top_p in self._groups:
            rows, drawn = (logits, u) if at is None else (logits[at], u[at])
            cooled = _cooled(rows, temperatures)
            if kept is None:
                found = _inverse_cdf(cooled.softmax(-1), drawn)
            else:
                found = _draw_best(cooled, min(kept or logits.shape[-1], logits.shape[-1]), top_p, drawn)
            ids = found if at is None else ids.index_copy(0, at, found)
        return ids


def _draw_best(logits: torch.Tensor, k: int, top_p: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    best, order = logits.topk(k, dim=-1)  # (b, k), descending
    p = best.softmax(-1)
    before = p.cumsum(-1) - p  # mass of the better tokens: the first always stays
    p = p.masked_fill(before >= top_p[:, None], 0.0)
    return order.gather(-1, _inverse_cdf(p, u)[:, None])[:, 0]


def _inverse_cdf(p: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    # Apple's devices have no float64, so the draw is made on the CPU.
    mass = (p.cpu() if p.device.type == "mps" else p).double().cumsum(-1)
    total = mass[:, -1:].contiguous()
    at = torch.searchsorted(mass, u.to(mass)[:, None] * total, right=True)
    last = torch.searchsorted(mass, total)  # the last id with any mass
    return torch.minimum(at, last)[:, 0].clamp_max(p.shape[-1] - 1).to(p.device)  # beyond it if p is not finite


def moments(logits: torch.Tensor, ids: torch.Tensor, top: int) -> tuple[torch.Tensor, ...]:
    """Return the moments of logits (b, V) that `statistics` needs: the slow part, in calls over all rows at once.

    With b the distance of a logit from the largest and p = exp(b), they are (b,): b of `ids`, sum p, sum p * b; with d
    the distance of b from its mean, sum p * d ** 2 and sum p * d ** 4; then the `top` tokens and their b, (b, top).
    """
    below = logits - logits.amax(-1, keepdim=True)
    p = below.exp()
    total, first = p.sum(-1), dots(p, below)
    spread = (below - (first / total)[:, None]).square_()
    second = dots(p, spread)
    fourth = dots(p.mul_(spread), spread)
    chosen = below.gather(-1, ids[:, None])[:, 0]
    return chosen, total, first, second, fourth, *largest(below, top, overwrite=True)


def statistics(*moments: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return, by row, (b, 4) log-probability of `ids`, entropy, varentropy and kurtosis from `moments`; and the tokens.

    All are in nats, from softmax(logits) at T = 1. Kurtosis is p-weighted and not excess (arXiv 2502.05986; the minus
    printed before the varentropy is a sign error). Check: (.7, .2, .05, .05) has H .871133, V .745678, K 3.859479.
    The most probable tokens are ids (b, top) and log-probabilities (b, top); a smaller vocabulary gives fewer.
    """
    chosen, total, first, second, fourth, best, values = moments
    log_total, variance = total.log(), second / total
    kurtosis = torch.where(variance > ENOUGH_VARIANCE, fourth / total / variance.clamp_min(ENOUGH_VARIANCE) ** 2, 0.0)
    numbers = torch.stack([chosen - log_total, log_total - first / total, variance, kurtosis], dim=-1)
    return numbers, best, values - log_total[:, None]
