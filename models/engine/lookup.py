"""Lookup decoding: proposals for a reply's next tokens, taken from earlier text; one pass checks several of them.

A revised answer repeats much of the heard text. If the last tokens occurred before, in the prompt or the reply, the
tokens that followed them there are proposed. A pass reads them after the last token, and gives the logits after each.
At every position a token is drawn from its logits as always, with the uniform number of that position. The first drawn
token is kept. Each further one is kept if all tokens proposed before it equal the drawn ones. So every token is the one
that plain decoding draws: at any temperature, for the same seed, in any batch. Only the rounding of another shape of
pass may differ (in half precision it may change a text). (The rule of speculative decoding keeps a sure proposal d with
its probability p(d), and draws from the rest otherwise. Drawing first, and keeping d if it was drawn, does the same.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sottovoce.models.engine.request import Ids, Piece
from sottovoce.models.huggingface.network import Network
from sottovoce.models.huggingface.packed_weights import format_of

if TYPE_CHECKING:
    from sottovoce.models.engine.grammar import Constraint

MAX_PROPOSED = 8  # proposed tokens of a sequence in a pass
NGRAMS = (4, 2)  # numbers of last tokens that are looked up, until they are found
MAX_COMPARED = 12  # tokens before a place that are compared: if so many are equal, nearly all that follow are
LATENT = -1  # in place of a token: a position without one
MAX_LOGITS = 1 << 25  # numbers: the largest logits of a pass that checks, 128 MB
MIN_SPEEDUP = 1.4  # least speed-up that is worth a check; in a batch the longest reply decides, not the mean
PRIOR_WEIGHT = 2.0  # proposed tokens: what is expected of a place counts as so many
CHECK_DECAY = 0.7  # what earlier tokens count after a check
STEP_DECAY = 0.95  # what they count after a step that could have been a check
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Draft:
    """Tokens that are proposed behind the last one of a sequence."""

    ids: Tokens
    states: Sequence[Constraint | None]
    """The state of the sequence's format before each of them and behind them; None without a format."""


@dataclass(eq=False)
class Lookup:
    """Proposals for a sequence's next tokens: the tokens that followed its last ones the last time."""

    prompt: Sequence[Piece]
    """Read at the first proposal."""
    _ids: list[int] = field(default_factory=list)
    _prompt_length: int = 0
    _accepted: float = 0.0
    _checked: float = 0.0
    _next: tuple[dict[Tokens, int], ...] = field(default_factory=lambda: tuple({} for _ in NGRAMS))
    """Where the token is that followed some tokens the last time."""

    def propose(self, said: Sequence[int], most: int) -> tuple[Sequence[int], float]:
        """Return up to `most` tokens that may follow the prompt and the reply so far, and the chance of each."""
        if not self._ids:
            pieces = (piece.ids if isinstance(piece, Ids) else (LATENT,) * len(piece) for piece in self.prompt)
            self._prompt_length = sum(map(len, self.prompt))
            self._add([id for piece in pieces for id in piece])
        self._add(said[len(self._ids) - self._prompt_length :])
        for size, following in zip(NGRAMS, self._next, strict=True):
            at = following.get(tuple(self._ids[-size:])) if most > 0 else None
            if at is not None:
                ids = self._ids[at : at + most]
                return ids[: ids.index(LATENT)] if LATENT in ids else ids, self._chance(at)
        return (), 0.0

    def _add(self, ids: Sequence[int]) -> None:
        start = len(self._ids)
        self._ids += ids
        for size, following in zip(NGRAMS, self._next, strict=True):
            for at in range(max(start, size), len(self._ids)):
                following[tuple(self._ids[at - size : at])] = at

    def _chance(self, at: int) -> float:
        """Return the chance that a proposed token is drawn, given that the proposed tokens before it were drawn.

        The chance depends on the number of equal tokens before the place, and on the sequence's proposals so far.
        """
        before = self._ids[max(at - MAX_COMPARED, 0) : at][::-1]
        pairs = zip(before, reversed(self._ids), strict=False)
        equal = next((n for n, (a, b) in enumerate(pairs) if a != b), len(before))
        chance = (self._accepted + PRIOR_WEIGHT * (1 - 1 / max(equal, 1))) / (self._checked + PRIOR_WEIGHT)
        self._accepted, self._checked = STEP_DECAY * self._accepted, STEP_DECAY * self._checked
        return chance

    def learn(self, proposed: int, accepted: int) -> None:
        """Note how many of the proposed tokens were drawn."""
        if proposed:
            self._accepted = CHECK_DECAY * self._accepted + accepted
            self._checked = CHECK_DECAY * self._checked + accepted + (accepted < proposed)


@dataclass(frozen=True)
class Costs:
    """The time of a pass, in any unit."""

    step: tuple[float, float]
    """The parts of a plain step, whose rows have one token each: for all, and for each row."""
    check: tuple[float, float, float]
    """The parts of a pass that checks proposals: for all, for each row, and for each of its tokens."""
    most: int = 0
    """The largest number of tokens in a pass."""

    @classmethod
    def of(cls, network: Network) -> Costs:
        """Return measured costs of passes for a similar network."""
        most = MAX_LOGITS // len(network.table)
        if network.device.type == "cuda":  # a 7B on an H200, in ms
            return cls((6.4, 0.044), (7.3, 0.33, 0.01), most)
        if network.small:
            return cls((150, 4.5), (210, 5, 1), most)
        if format_of(network.model) in ("int8", "int4"):
            return cls((4, 1), (5, 0, 1), most)
        return cls((24, 2), (40, 0, 1), most)

    def width(self, hopes: Sequence[tuple[int, float]]) -> int:
        """Return the number of tokens to propose: that with the most tokens for the time, 0 for a plain step.

        `hopes` has how many tokens can be proposed to each sequence, and the chance of each.
        """
        rows, gained, width, best = len(hopes), 0.0, 0, MIN_SPEEDUP
        step = self.step[0] + self.step[1] * rows
        for n in range(1, min(MAX_PROPOSED, self.most // rows - 1) + 1):
            gained += sum(chance**n for most, chance in hopes if most >= n)
            check = self.check[0] + (self.check[1] + self.check[2] * (n + 1)) * rows
            if (speed := (1 + gained / rows) * step / check) > best:
                width, best = n, speed
        return width
