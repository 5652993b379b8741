"""The order of settings in the help and in forms: the most common ones first, the rest by topic.

Nothing here imports torch or langgraph.
"""

from __future__ import annotations

from sottovoce.channels.options import CipherOptions, GraftOptions, StateOptions, ThoughtsOptions
from sottovoce.settings.oversight import People, Watched

FIRST = (
    *("agents", "rounds", "turns", "months", "steps", "samples"),
    *("protocol", "model", "temperature", "max_tokens", "seed", "settings", "save", "json"),
)
"""The options that most people need, in this order, including those of a run's output."""
OF_SAMPLING = ("top_p", "top_k", "repetition_penalty")
OF_LOADING = ("dtype", "weights", "device", "memory", "thinking", "thinking_markers", "exact")
OF_PROTOCOL = tuple(
    CipherOptions.model_fields | StateOptions.model_fields | ThoughtsOptions.model_fields | GraftOptions.model_fields
)
OF_CONTROL = ("control", "escalate", "escalate_above")
COMPONENTS = ("question_description", "answer_description", "demonstrations", "chain_of_thought")
GROUPS: dict[str, tuple[str, ...]] = {
    "Sampling": (*OF_SAMPLING, "timeout"),
    "Prompts and answers": (
        "system",
        "prompts",
        *COMPONENTS,
        "answer_turn",
        "guide",
        "thinking",
        "thinking_markers",
        "share_thoughts",
    ),
    "Protocol: what messages carry": ("option", "fallback", *OF_CONTROL, *OF_PROTOCOL),
    "Loading models": tuple(name for name in OF_LOADING if not name.startswith("thinking")),
    "People": tuple(People.model_fields),
    "Monitors that watch": tuple(Watched.model_fields),
}
BY_NAME = (
    *("layer_from", "layer_to", "merge", "layer_alpha", "positions", "place", "realign", "partial_at"),
    *("redraw_temperature", "note", "rounds_back"),
)
"""Settings that papers vary and few people set: files have them, and `--option NAME=VALUE`."""
OWN = "The scheme"
"""The heading of all other settings of a scheme."""
HEADINGS = (OWN, *GROUPS)
"""All headings, in the order of the help."""


def heading(setting: str) -> str | None:
    """Return the heading of a setting; None if it is among the first."""
    found = next((heading for heading, names in GROUPS.items() if setting in names), OWN)
    return None if setting in FIRST else found


def place(setting: str) -> int:
    """Return the sort key of a setting: the first settings in their order, then the others by heading."""
    name = heading(setting)
    return FIRST.index(setting) if name is None else len(FIRST) + HEADINGS.index(name)
