"""Attributes of characters in WhoDunit: the published sets, and custom lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from sottovoce.core.errors import UsageError
from sottovoce.core.files import text_of
from sottovoce.core.validation import first_wrong

Attributes = Mapping[str, tuple[str, ...]]
"""Values by attribute."""
ALL: Attributes = {
    "hat": ("brown", "black"),
    "mood": ("happy", "sad"),
    "shirt_color": ("pink", "green"),
    "hobby": ("basketball", "dancing"),
    "pants": ("long", "short"),
    "pants_color": ("brown", "black"),
    # Two values in the authors' file of 20 attributes, three in the paper's table.
    "eye_color": ("blue", "brown", "green"),
    "eye_glasses": ("circular", "square"),
    "shirt": ("button-up", "tee"),
    "shoe_color": ("red", "white"),
    "hair": ("long", "short"),
    "watch": ("bronze", "silver"),
    "socks": ("dotted", "white"),
    "jacket": ("yellow", "jean"),
    "height": ("short", "tall"),
    "age": ("young", "old"),
    "build": ("medium", "muscular"),
    "personality": ("introverted", "extroverted"),
    "interests": ("sports", "arts"),
    "occupation": ("professional", "student"),
}
"""The set of 20; the first 12 are the set of the asymmetric game (appendix B of arXiv 2502.05986)."""
# No quotes and backslashes: names and values are put into JSON.
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=40, pattern=r'^[^"\\\n]+$')]
Name = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^\w+$")]
_LIST: TypeAdapter[dict[str, tuple[str, ...]]] = TypeAdapter(
    Annotated[dict[Name, Annotated[tuple[Text, ...], Field(min_length=2)]], Field(min_length=1)]
)


def attributes(n: int, of: Attributes = ALL) -> dict[str, tuple[str, ...]]:
    """Return the first `n` attributes of a set.

    Raises:
        UsageError: the set has fewer.
    """
    if n > len(of):
        raise UsageError(f"attributes is {n}, but the list has {len(of)}; give fewer, or a longer list")
    return dict(list(of.items())[:n])


def read_attributes(path: Path | str) -> dict[str, tuple[str, ...]]:
    """Read a custom list from a JSON file: {"car": ["red", "blue"], ...}.

    Names are words without spaces and without "-", which separates name and value in Intel's replies.

    Raises:
        UsageError: the file cannot be read or is not JSON, or an attribute has fewer than two values, or one twice.
    """
    name = f"attribute list {str(path)!r}"
    try:
        found = _LIST.validate_python(json.loads(text_of(path)))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(f'{name}: {first_wrong(error, "it")}, as in {{"car": ["red", "blue"]}}') from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error
    if wrong := next((each for each, values in found.items() if len({*values}) < len(values)), None):
        raise UsageError(f"{name}: {wrong!r} has a value twice; expected different ones")
    return found


def combinations(of: Attributes) -> int:
    """Return the number of different characters: 6,144 with the 12 published attributes."""
    return prod(map(len, of.values()))
