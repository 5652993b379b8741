"""The stages of a run: training from scratch, or further training after the prompts have changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A part of the run with its own data mixture and learning rate."""

    name: str
    tokens: int
    lr: float
    last_lr: float
    """Share of `lr` at the end of the stage, reached along a cosine."""
    talks: int = 0
    """Debates of the model with itself, made before the stage and again half-way."""
    talks_of: str = ""
    """The stage whose last debates are used again, instead of new ones."""
    warm_up: int = 0
    """Tokens over which the learning rate rises again."""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the weights, except initial weights."""

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
    seed=1,  # chats that differ from the first run's
    stages=(
        Stage("basics", 400_000, 3e-3, 1.0, warm_up=50_000),
        Stage("roles", 3_200_000, 3e-3, 0.0, talks=600),
    ),
)
"""For weights trained on older prompts: debates in the new prompts first, so that the model can play them."""
