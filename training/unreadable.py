"""What may stand in the place of a text that was wanted: a part of it, other signs, nothing."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable


def spoilt(rng: random.Random, text: str) -> str:
    """The text, no longer what it was; now and then it can still be read."""
    makers: tuple[Callable[[], str], ...] = (
        lambda: text[: rng.randint(1, max(1, len(text) - 2))],
        lambda: text[: rng.randint(1, max(1, len(text) - 2))],
        lambda: _stated_apart(text),
        lambda: _stated_apart(text),
        lambda: _without_a_field(rng, text),
        lambda: "".join(rng.choices(string.ascii_letters + ' {}",:.;', k=rng.randint(1, 30))),
        lambda: rng.choice(("no idea", "I do not know.", "", "?", "I agree.", "{}", "unknown")),
    )
    return rng.choice(makers)()


def _fields(text: str) -> dict[str, str]:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _stated_apart(text: str) -> str:
    """The words of an object without its signs."""
    return " ".join(_fields(text).values()) or text.split(". ")[0]


def _without_a_field(rng: random.Random, text: str) -> str:
    fields = _fields(text)
    if not fields:
        return ""
    fields.pop(rng.choice(list(fields)))
    return json.dumps(fields)
