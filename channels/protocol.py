"""What a protocol is: how a heard message enters a prompt, how an agent speaks, what is recorded.

`lower` = `hear` then `speak`. The two are apart because a judge or a secretary hears by one
protocol and speaks in words: it is `cipher.hear` and `nl.speak`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from sottovoce.channels.message import Heard, PayloadRef, Turn
from sottovoce.channels.payload import Label, Payload
from sottovoce.errors import PayloadError
from sottovoce.models import ChatTurn, Edit, Ids, LoadedModel, Piece, Record, Reply, Request, Sampling, Stop

TOP = 5  # most probable tokens kept per position
Load = Callable[[PayloadRef], Payload]
CompatName = Literal["paper", "reference"]


@dataclass(frozen=True)
class Compat:
    """Where the papers and their published code differ (the README of this folder has the table)."""

    cold_is_one_hot: bool
    """CIPHER at T = 0: the one-hot argmax, or softmax(logits)."""
    stop_by: Literal["nearest", "argmax"]
    """CIPHER ends when EOS is nearest to the new row, or when it is the argmax of the logits."""
    keep_stop_row: bool
    every_eos: bool
    """CIPHER stops at every EOS id of tokenizer and generation configuration, or at the tokenizer's alone."""
    true_one_hot: bool
    """Partial CIPHER where it does not average: one-hot, or the mask of probabilities >= the criterion."""
    normed_last_state: bool
    """SDE reads the last layer after the final norm."""
    retokenise: bool
    """NL renders and tokenises the whole conversation anew for each prompt."""


COMPAT: Mapping[CompatName, Compat] = {
    "paper": Compat(True, "nearest", False, True, True, False, False),
    "reference": Compat(False, "argmax", True, False, False, True, True),
}


@dataclass(frozen=True)
class Speech:
    """How one reply is to be spoken."""

    max_new: int
    sampling: Sampling
    stop: tuple[str, ...] = ()
    """Strings that end the reply; they are not part of it."""
    hearers: tuple[LoadedModel, ...] = ()
    """The models that will hear it: cipher averages over their tables too."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt as the engine reads it."""

    pieces: tuple[Piece, ...]
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Protocol(ABC):
    """The base of all protocols: messages are heard as the tokens they were generated as."""

    compat: CompatName = "paper"

    name: ClassVar[str]
    latent: ClassVar[bool] = True
    """Whether a message carries more than its words to a hearer."""
    averages: ClassVar[bool] = False
    """Whether a message is a mean over what could have been said, so that at temperature 0 it is only words."""
    final_rule: ClassVar[str] = "majority"
    """How a debate under this protocol decides unless told otherwise."""

    @property
    def rules(self) -> Compat:
        """The choices of `compat`."""
        return COMPAT[self.compat]

    def temperature(self, i: int, n: int, default: float) -> float:
        """The temperature of agent i (0-based) of n where none was set."""
        return default

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Refuse an edge that this protocol cannot carry; returns what a reader must know of one that it can.

        Raises:
            ProtocolError: names both models and what they lack in common.
        """
        return None  # words go between any two models

    def lower(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load, speech: Speech) -> Request:
        """The model request for a prompt that is heard and answered by this protocol."""
        return self.speak(self.hear(turns, loaded, load), loaded, speech)

    def hear(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        """Tokenise the wording around heard messages, and let each message in by `read`."""
        holes: list[Heard] = []
        chat = [ChatTurn(turn.role, tuple(_numbered(part, holes) for part in turn.parts)) for turn in turns]
        pieces: list[Piece] = []
        edits: list[Edit] = []
        at = 0
        for wording in loaded.chat.encode(chat):
            piece, added = (Ids(wording), ()) if isinstance(wording, tuple) else self._in(holes[wording], loaded, load)
            edits += [replace(edit, at=at + edit.at) for edit in added]
            at += len(piece)
            pieces += [piece] if len(piece) else []
        return Prompt(tuple(pieces), tuple(edits))

    @abstractmethod
    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        """The request that makes a reply."""

    def record(self, reply: Reply, loaded: LoadedModel) -> Payload:
        """The payload of a reply; `payload.label.text` is the message's text."""
        detokenizer = loaded.detokenizer(special=self._special)
        label = Label(
            self.name,
            detokenizer.text(reply.ids),
            loaded.name,
            loaded.weights_key,
            loaded.vocabulary_key,
            self._layers(loaded),
        )
        tensors = {
            "ids": torch.tensor(reply.ids, dtype=torch.long),
            "spans": torch.tensor(detokenizer.spans(reply.ids), dtype=torch.long).reshape(-1, 2),
        }
        return Payload(label, tensors | _stats(reply) | self.carry(reply, loaded))

    def carry(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """The tensors that this protocol sends along, by their names in the payload."""
        return {}

    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> tuple[Piece, tuple[Edit, ...]]:
        """How a message with a payload in the hearer's vocabulary enters its prompt; edits count from 0."""
        return Ids(payload.ids[payload.tokens(heard.span)]), ()

    _special: ClassVar[bool] = False

    def _layers(self, loaded: LoadedModel) -> tuple[int, ...]:
        return ()

    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> tuple[Piece, tuple[Edit, ...]]:
        ref = heard.message.latent
        if ref is None:
            return in_words(heard, loaded), ()
        try:
            payload = load(ref)
        except PayloadError as error:
            message = heard.message
            raise PayloadError(f"message of {message.agent!r}, round {message.round}: {error}") from error
        if payload.label.vocabulary != loaded.vocabulary_key:
            return in_words(heard, loaded), ()
        return self.read(heard, payload, loaded)


def in_words(heard: Heard, loaded: LoadedModel) -> Ids:
    """A message without a usable payload: its text, in which special tokens are ordinary characters."""
    return Ids(loaded.chat.ids(heard.text, plain=True))


def token_request(
    prompt: Prompt, loaded: LoadedModel, speech: Speech, layers: tuple[int, ...] = (), **record: bool
) -> Request:
    """A reply of drawn tokens, with statistics and the states of `layers` recorded."""
    return Request(
        prompt.pieces,
        Stop(speech.max_new, loaded.stop_ids, speech.stop),
        edits=prompt.edits,
        sampling=speech.sampling,
        record=Record(layers=layers, stats=True, top=TOP, **record),
    )


def _numbered(part: str | Heard, holes: list[Heard]) -> str | int:
    if isinstance(part, str):
        return part
    holes.append(part)
    return len(holes) - 1


def _stats(reply: Reply) -> dict[str, torch.Tensor]:
    if reply.stats is None:
        return {}
    return {name: getattr(reply.stats, name) for name in reply.stats.__dataclass_fields__}
