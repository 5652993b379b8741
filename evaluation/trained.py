"""The schemes that a narrowly trained model can take part in: nobody gets gibberish who did not ask for it."""

from __future__ import annotations

from collections.abc import Iterable

from sottovoce.errors import UsageError
from sottovoce.nodes.settings import Settings
from sottovoce.places import models_folder
from sottovoce.prompts.packs import TRAINED

SMALL = "smollm2"
"""A small model of the catalogue that writes English."""


def check_trained(command: str, settings: Settings) -> None:
    """Refuse the default model where it was trained for neither the scheme nor the prompts; a named model may do both.

    Raises:
        UsageError: names models that can, and how to get one.
    """
    if "model" in settings.model_fields_set or set(settings.names()) <= {*settings.human}:
        return
    for name in settings.model:
        if name in TRAINED and (why := _why(name, command, settings)):
            pulled = (models_folder() / SMALL).is_dir()
            pull = "" if pulled else f" (`python cli.py models pull {SMALL}` gets it, 93 MB)"
            raise UsageError(
                f"{why}; add --model {SMALL}{pull}, which writes English and is often wrong, or name a larger one: "
                f"a folder, a hub id, hosted:PROVIDER:MODEL; --model {name} runs it all the same, and writes nonsense"
            )


def _why(name: str, command: str, settings: Settings) -> str:
    trained = TRAINED[name]
    if command.replace("-", "_") not in trained.schemes:
        known = ", ".join(scheme.replace("_", "-") for scheme in trained.schemes)
        return f"the {name} test model was not trained for {command}, only for {known}"
    if settings.prompts not in (None, trained.pack):
        from sottovoce.prompts.render import Prompts  # late: it loads LangChain, and the help needs none

        Prompts(settings.pack_folder(settings.prompts))  # what is wrong with the pack comes first
        return f"the {name} test model was trained on prompts of its own, and not on {settings.prompts!r}"
    return ""


def knowledge(models: Iterable[str]) -> list[str]:
    """Return a line for each model that knows little, as it stands above answers to a question of the user's own."""
    known = {name: TRAINED[name].knows for name in models if name in TRAINED}
    return [f"{name} is a small test model: it knows {what}; --model names another" for name, what in known.items()]
