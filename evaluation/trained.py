"""Schemes and questions that a narrowly trained model was trained on: all others name a model that fits, or warn."""

from __future__ import annotations

from collections.abc import Iterable

from sottovoce.errors import UsageError, command
from sottovoce.nodes.settings import Settings
from sottovoce.places import models_folder
from sottovoce.prompts.packs import TRAINED

SMALL = "smollm2"
"""A small model of the catalogue that writes English."""
HELD_OUT = "of the bundled set"
"""The end of the origin of questions that the bundled model was trained to answer."""
FIRST = {
    "madra": "--sample facts/20 --wiki documents --temperature 0 --max-tokens 48 --select-tokens 48 "
    "--chain-of-thought off --rounds 1",
    "react": "--sample world/fact/5 --steps 4",
    "ia": "--sample facts/20 --guide on --rounds 2 --max-tokens 48",
    "whodunit": "--suspects 3 --attributes 3 --turns 8",
    "govsim": "--agents 3 --months 2 --utterances 2 --max-tokens 96",
    "codegen": "--sandbox isolated --agents 2 --rounds 1 --max-tokens 128",
}
"""Options by scheme under which `SMALL` shows it in a minute or two; in the first three it answers rightly."""


def check_trained(scheme: str, settings: Settings) -> None:
    """Refuse the default model where it was trained for neither the scheme nor the prompts; a named model may do both.

    Raises:
        UsageError: gives a command whose model can, or two where the model must be pulled first.
    """
    if why := untrained(scheme, settings):
        pull = [] if (models_folder() / SMALL).is_dir() else [f"{command('models', 'pull', SMALL)} (93 MB)"]
        words = [scheme.replace("_", "-"), "--model", SMALL]
        first = FIRST.get(scheme, "").split() if settings.prompts is None else ["--prompts", settings.prompts]
        raise UsageError(
            f"{why}; try {', then '.join([*pull, command(*words, *first)])}, a small model that is often wrong, or "
            "--model with a larger one: a folder, a hub id, hosted:PROVIDER:MODEL; --model bundled runs it all the same"
        )


def untrained(scheme: str, settings: Settings) -> str:
    """Return why a default model should not be asked; empty where one was named, or was trained for this."""
    if "model" in settings.model_fields_set or set(settings.names()) <= {*settings.human}:
        return ""
    return next((why for name in settings.model if name in TRAINED and (why := _why(name, scheme, settings))), "")


def _why(name: str, scheme: str, settings: Settings) -> str:
    trained = TRAINED[name]
    if scheme not in trained.schemes:
        known = ", ".join(each.replace("_", "-") for each in trained.schemes)
        return f"the {name} test model was not trained for {scheme.replace('_', '-')}, only for {known}"
    if settings.prompts not in (None, trained.pack):
        from sottovoce.prompts.render import Prompts  # late: it loads LangChain, and the help needs none

        Prompts(settings.pack_folder(settings.prompts))  # what is wrong with the pack comes first
        return f"the {name} test model was trained on prompts of its own, and not on {settings.prompts!r}"
    return ""


def knowledge(models: Iterable[str], origin: str | None) -> list[str]:
    """Return a line for each model that knows little of such questions; it stands above the answers."""
    if origin and origin.endswith(HELD_OUT):
        return []
    known = {name: TRAINED[name].knows for name in models if name in TRAINED}
    return [f"{name} is a small test model: it knows {what}; --model names another" for name, what in known.items()]
