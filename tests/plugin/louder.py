"""A protocol in a package of its own: state deltas, multiplied where they are heard."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from sottovoce.channels.message import MessageRef
from sottovoce.channels.options import StateOptions
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Encoded
from sottovoce.channels.sde import SDE
from sottovoce.models import LoadedModel


class Options(StateOptions):
    """Those of sde, and how loud."""

    gain: float = Field(default=2.0, ge=0, description="what each delta is multiplied by")


class Louder(SDE):
    """State deltas, louder."""

    name = "louder"
    Options = Options

    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """As sde, but for the gain."""
        assert isinstance(self.options, Options), "made of them"
        piece, edits = super().encode_message(reference, payload, loaded)
        return piece, tuple(replace(edit, delta=self.options.gain * edit.delta) for edit in edits)
