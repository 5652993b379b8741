"""What a shell offers for a value that is begun: choices, models by name, kept runs. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sottovoce.config_file import read_config
from sottovoce.errors import UsageError
from sottovoce.evaluation.runs.shelf import kept
from sottovoce.places import models_folder

Offer = Callable[[str], list[str]]
"""What begins with what was typed."""


def choices(values: Sequence[str]) -> Offer:
    """Of a closed set."""

    def offer(incomplete: str) -> list[str]:
        return _begun(values, incomplete)

    return offer


def models(incomplete: str) -> list[str]:
    """The bundled one, those that the user named, and those that were pulled. Folders are the shell's to offer."""
    try:
        named = list(read_config().models)
    except UsageError:  # it is told when a command is run
        named = []
    pulled = [record.parent.name for record in models_folder().glob("*/source.json")]
    return _begun(["bundled", *named, *sorted(pulled)], incomplete)


def runs(incomplete: str) -> list[str]:
    """Those that are kept, the newest first."""
    return _begun(["latest", *(folder.name for folder in reversed(kept()))], incomplete)


def _begun(values: Sequence[str], incomplete: str) -> list[str]:
    return [value for value in dict.fromkeys(values) if value.startswith(incomplete)]
