"""A few words of free text, as they were written."""

import re

from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import boxed, normalise, stated


def read(text: str, choices: Choices) -> str | None:
    """Boxed, else bracketed, else stated content; a whole text without a mark is no answer."""
    found = re.findall(r"\[([^\[\]\n]{1,200})\]", text)
    source = boxed(text) or (found[-1] if found else None) or (stated(text) or "").rstrip(" .")
    return source.strip() or None


def same(left: str, right: str) -> bool:
    """After SQuAD's normalisation, but for signs that tell one from another ("C++" and "C#", "-5" and "5")."""
    plain = normalise(left)
    return plain == normalise(right) and _signs(left) == _signs(right) if plain else left.strip() == right.strip()


def _signs(text: str) -> list[str]:
    """The signs that carry meaning: not those between letters, as in "Jean-Paul"."""
    return re.findall(r"[-+#*/<>=^%]", re.sub(r"(?<=[^\W\d_])[-+#*/](?=[^\W\d_])", "", text))


TEXT = Kind("text", "answers/text", "a few words", read, same=same)
