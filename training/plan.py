"""What a run does, stage by stage: from nothing, or again from a trained model when the wording has changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A part of the run with its own diet and learning rate."""

    name: str
    tokens: int
    lr: float
    last_lr: float
    """Reached along a cosine at the end of the stage, as a share of `lr`."""
    talks: int = 0
    """Debates that the model holds with itself before the stage begins, and again half-way."""
    talks_of: str = ""
    """The stage whose last debates are learnt from again, in the place of new ones."""
    warm_up: int = 0
    """Tokens over which the learning rate rises again."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides the weights, but for those that a run may begin with."""

    seed: int = 0
    hidden: int = 128
    layers: int = 6
    heads: int = 4
    mlp: int = 336
    warm_up: int = 60
    stages: tuple[Stage, ...] = (
        Stage("copy", 1_500_000, 5e-3, 1.0),
        Stage("basics", 15_000_000, 5e-3, 0.1),
        Stage("discussion", 6_000_000, 3e-3, 0.0, talks=5000),
        Stage("roles", 8_500_000, 3e-3, 0.0, talks_of="discussion", warm_up=200_000),
    )


AGAIN = Plan(
    seed=1,  # other chats than the first run's
    stages=(
        Stage("basics", 400_000, 3e-3, 1.0, warm_up=50_000),
        Stage("roles", 3_200_000, 3e-3, 0.0, talks=600),
    ),
)
"""For weights that know everything in an older wording: debates in the new one first, so that they can be held."""
