"""Checks that a narrowly trained model fits a scheme and its questions; errors name a model that does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sottovoce.core.catalogue import check_names
from sottovoce.core.errors import UsageError, command
from sottovoce.nodes.settings import Settings
from sottovoce.prompts import TRAINED

SMALL = "smollm2"
"""A small model of the catalog that writes English."""
HELD_OUT = "of the bundled set"
"""The end of the origin text of questions that the bundled model was trained to answer."""


def check_trained(settings: Settings, typed: Sequence[str]) -> None:
    """Check that a default model was trained on the prompts; a named model is always accepted.

    The offered command is the user's command with a model.

    Raises:
        UsageError: it was not; the message gives a command with a suitable model.
        ModelError: no model has such a name.
    """
    check_names(settings.model)
    if why := untrained(settings):
        words = [*typed]
        end = words.index("--") if "--" in words else len(words)
        words[end:end] = ["--model", SMALL]
        raise UsageError(
            f"{why}; try {command(*words)}, a small model that is often wrong (93 MB, if it is not there yet), or "
            "--model with a larger one: a folder, a hub id, hosted:PROVIDER:MODEL; --model bundled runs it anyway"
        )


def untrained(settings: Settings) -> str:
    """Return why a default model should not be used; empty if a model was named or the default was trained for this."""
    if "model" in settings.model_fields_set or set(settings.names()) <= {*settings.human}:
        return ""
    for name, trained in ((name, TRAINED[name]) for name in settings.model if name in TRAINED):
        if settings.prompts not in (None, trained.pack):
            from sottovoce.prompts.render import Prompts  # late: it loads LangChain, and the help needs none

            Prompts(settings.pack_folder(settings.prompts))  # errors of the pack come first
            return f"the {name} test model was trained on its own prompts, not on {settings.prompts!r}"
    return ""


def knowledge(models: Iterable[str], origin: str | None) -> list[str]:
    """Return a warning line for each model that knows little about such questions, to print above the answers."""
    if origin and origin.endswith(HELD_OUT):
        return []
    known = {name: TRAINED[name].knows for name in models if name in TRAINED}
    return [
        f"{name} is a small test model: it knows {what}; choose another with --model" for name, what in known.items()
    ]
