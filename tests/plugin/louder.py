"""A protocol in a package of its own: state deltas, multiplied where they are heard."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from sottovoce.channels.message import Heard
from sottovoce.channels.options import StateOptions
from sottovoce.channels.payload import Payload
from sottovoce.channels.sde import SDE
from sottovoce.models import Edit, LoadedModel, Piece


class Options(StateOptions):
    """Those of sde, and how loud."""

    gain: float = Field(default=2.0, ge=0, description="what each delta is multiplied by")


class Louder(SDE):
    """State deltas, louder."""

    name = "louder"
    Options = Options

    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> tuple[Piece, tuple[Edit, ...]]:
        """As sde, but for the gain."""
        assert isinstance(self.options, Options), "made of them"
        piece, edits = super().read(heard, payload, loaded)
        return piece, tuple(replace(edit, delta=self.options.gain * edit.delta) for edit in edits)
