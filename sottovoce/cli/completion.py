"""Shell completion of option values: choices, models by name, saved runs. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sottovoce.cli.config_file import read_config
from sottovoce.core.errors import UsageError
from sottovoce.core.paths import models_folder
from sottovoce.runs.run_directory import kept

Offer = Callable[[str], list[str]]
"""A function from the typed text to the values that begin with it."""


def choices(values: Sequence[str]) -> Offer:
    """Return a function that completes values of a closed set."""

    def offer(incomplete: str) -> list[str]:
        return _begun(values, incomplete)

    return offer


def models(incomplete: str) -> list[str]:
    """Return the bundled model, those in the config file, and pulled ones. The shell itself completes folders."""
    try:
        named = list(read_config().models)
    except UsageError:  # running a command reports it
        named = []
    pulled = [record.parent.name for record in models_folder().glob("*/source.json")]
    return _begun(["bundled", *named, *sorted(pulled)], incomplete)


def runs(incomplete: str) -> list[str]:
    """Return saved runs, the newest first."""
    return _begun(["latest", *(folder.name for folder in reversed(kept()))], incomplete)


def _begun(values: Sequence[str], incomplete: str) -> list[str]:
    return [value for value in dict.fromkeys(values) if value.startswith(incomplete)]
