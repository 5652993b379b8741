"""Messages with missing or damaged payloads: an error that names them, or messages heard as their words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from sottovoce.channels.message import Heard, Part, Turn
from sottovoce.channels.store import PayloadRef
from sottovoce.core.errors import PayloadError

logger = logging.getLogger(__name__)


def readable(turns: Sequence[Turn], load: Callable[[PayloadRef], object], *, in_words: bool) -> list[Turn]:
    """Return the turns, with messages whose payload cannot be loaded as words only, if `in_words` allows that.

    Raises:
        PayloadError: a payload cannot be loaded; names the message, the payload, and the option that allows words.
    """

    def part_of(part: Part) -> Part:
        ref = part.message.latent if isinstance(part, Heard) and not part.in_public else None
        if ref is None or isinstance(part, str):
            return part
        try:
            load(ref)
        except PayloadError as error:
            said = f"message of {part.message.agent!r}, round {part.message.round}"
            if not in_words:
                raise PayloadError(f"{said}: {error}; with `--lost words` only its words are heard") from error
            logger.warning("%s is heard in words: %s", said, error)
            return replace(part, message=replace(part.message, payload=None))
        return part

    return [replace(turn, parts=tuple(map(part_of, turn.parts))) for turn in turns]
