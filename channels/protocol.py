"""The base class of protocols: how heard messages enter a prompt, how an agent speaks, what is recorded.

`lower` is `hear` followed by `speak`. They are separate because a judge or a secretary hears by one
protocol and speaks in words: `cipher.hear`, then `nl.speak`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch

from sottovoce.channels.compress import compressed
from sottovoce.channels.message import Heard, Part, Turn
from sottovoce.channels.options import CompatName, LatentOptions, ProtocolOptions
from sottovoce.channels.payload import COMPRESSED, Label, Payload
from sottovoce.channels.probe import probed
from sottovoce.channels.store import PayloadRef
from sottovoce.core.errors import PayloadError, UsageError
from sottovoce.core.response_format import Form
from sottovoce.models import (
    Base,
    Edit,
    Ids,
    LoadedModel,
    Piece,
    Record,
    Reply,
    Request,
    Sampling,
    Stop,
    base_temperature,
    default_sampling,
    drawn_temperature,
    known_top_p,
)

TOP = 10  # most probable tokens kept per position
Load = Callable[[PayloadRef], Payload]


@dataclass(frozen=True)
class Compat:
    """Choices where the papers and their published code differ (docs/protocols/index.md has the table)."""

    cold_is_one_hot: bool
    """CIPHER at T = 0: the one-hot argmax, or softmax(logits)."""
    stop_by: Literal["nearest", "argmax"]
    """CIPHER stops when EOS is the token nearest to the new row, or when it is the argmax of the logits."""
    keep_stop_row: bool
    every_eos: bool
    """CIPHER stops at every EOS id of tokenizer and generation configuration, or only at the tokenizer's."""
    true_one_hot: bool
    """Weights of partial CIPHER where it does not average: one-hot, or the mask of probabilities >= the criterion."""
    max_at_threshold: Literal["averaged", "greedy"]
    """Partial CIPHER by the largest probability, if it equals the threshold."""
    normed_last_state: bool
    """SDE reads the last layer after the final norm."""
    retokenise: bool
    """NL renders and tokenizes the whole conversation again for each prompt."""
    pasted: bool
    """Latent protocols render turns after the first user turn as pieces, whose texts no template trims."""
    readable_base: bool
    """The default temperature of a model whose files name none: one that suits the model, or 1."""
    guided: bool
    """Replies are constrained to their formats."""


COMPAT: Mapping[CompatName, Compat] = {
    "paper": Compat(True, "nearest", False, True, True, "averaged", False, False, False, True, True),
    "reference": Compat(False, "argmax", True, False, False, "greedy", True, True, True, False, False),
}


@dataclass(frozen=True)
class Speech:
    """Parameters of one reply."""

    max_new: int
    sampling: Sampling
    stop: tuple[str, ...] = ()
    """Strings that end the reply; they are not part of it."""
    hearers: tuple[LoadedModel, ...] = ()
    """The models that will hear it; cipher also averages over their tables."""
    begun: str = ""
    """The prefill of the reply."""
    form: Form | None = None
    """The format of the reply."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt as the engine reads it."""

    pieces: tuple[Piece, ...]
    edits: tuple[Edit, ...] = ()

    def begun(self, text: str, loaded: LoadedModel) -> Prompt:
        """Return the prompt followed by the prefill of the reply."""
        return Prompt((*self.pieces, in_words(text, loaded)), self.edits) if text else self


class Protocol:
    """The base class of all protocols; messages are heard as the tokens that were generated.

    Create a protocol from its options, `Cipher(CipherOptions(partial="max"))`, or from their values by
    name, `Cipher(partial="max")`. A protocol with its own options sets their class as `Options`.
    """

    Options: ClassVar[type[ProtocolOptions]] = ProtocolOptions
    options: ProtocolOptions
    name: ClassVar[str]
    latent: ClassVar[bool] = True
    """Whether a message carries more than its words to a hearer."""
    averages: ClassVar[bool] = False
    """Whether a message is a mean over possible tokens, so that at temperature 0 it is only words."""
    final_rule: ClassVar[str] = "majority"
    """The default decision rule of a debate under this protocol."""
    ignores: ClassVar[tuple[str, ...]] = ()
    """Sampling settings that have no effect under this protocol."""

    def __init__(self, options: ProtocolOptions | None = None, **values: Any) -> None:  # Any: of the options' own types
        """Store the options, or build them from `values`.

        Raises:
            UsageError: an option is unknown, a value is invalid, or the options are another protocol's.
        """
        known = self.Options.model_fields
        for name in values:
            if name not in known:
                raise UsageError(f"protocol {self.name!r} has no option {name!r}; it has: {', '.join(sorted(known))}")
        self.options = self.Options.model_validate(values if options is None else options)
        if self.options.probe != "none" and not self.latent:
            raise UsageError(
                f"probe is {self.options.probe!r}, and protocol {self.name!r} carries only words; leave it out, "
                "or choose a protocol that carries more: cipher, sde, hidden"
            )

    @property
    def compat(self) -> CompatName:
        """The choice between the papers and their published code."""
        return self.options.compat

    @property
    def rules(self) -> Compat:
        """The choices of `compat`."""
        return COMPAT[self.compat]

    def base(self, loaded: LoadedModel) -> Base:
        """Return the default temperature; mean embeddings need one at which they are readable."""
        if self.averages and self.rules.readable_base:
            return base_temperature(loaded)
        return self.base_of_words(loaded)

    def base_of_words(self, loaded: LoadedModel) -> Base:
        """Return the default temperature of replies in words."""
        return drawn_temperature(loaded) if self.rules.readable_base else Base(loaded.sampling.temperature)

    def known_top_p(self, loaded: LoadedModel) -> Base | None:
        """Return the catalogue's top-p if the model's files name none and the protocol uses it; else None."""
        return known_top_p(loaded) if self.rules.readable_base and "top_p" not in self.ignores else None

    def sampling(self, loaded: LoadedModel) -> Sampling:
        """Return the default sampling of a model."""
        own = default_sampling(loaded) if self.rules.readable_base else loaded.sampling
        return replace(own, temperature=self.base(loaded).value)

    def temperature(self, i: int, n: int, default: float) -> float:
        """Return the temperature of agent i (0-based) of n if none is set."""
        return default

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Check that this protocol can carry messages between two models, and return a note for readers, or None.

        Raises:
            ProtocolError: it cannot; the message names both models and how they differ.
        """
        return None  # any two models can exchange words

    def lower(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load, speech: Speech) -> Request:
        """Return the model's request for a prompt that is heard and answered by this protocol."""
        return self.speak(self.hear(turns, loaded, load).begun(speech.begun, loaded), loaded, speech)

    def hear(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        """Tokenize the text around heard messages, and insert each message by `read`."""
        chat = [replace(turn, parts=tuple(_opened(turn))) for turn in turns]
        pieces: list[Piece] = []
        edits: list[Edit] = []
        at = 0
        for wording in loaded.chat.encode(chat, pasted=self.latent and self.rules.pasted):
            piece, added = (Ids(wording), ()) if isinstance(wording, tuple) else self._in(wording, loaded, load)
            edits += [replace(edit, at=at + edit.at) for edit in added]
            at += len(piece)
            pieces += [piece] if len(piece) else []
        return Prompt(tuple(pieces), tuple(edits))

    def begin(self, prompt: Prompt, start: Turn, loaded: LoadedModel, load: Load) -> Prompt:
        """Return the prompt followed by the prefill of the reply; messages in it are inserted as in any turn."""
        for part in start.parts:
            if isinstance(part, str):
                prompt = prompt.begun(part, loaded)
                continue
            piece, added = self._in(part, loaded, load)
            at = sum(map(len, prompt.pieces))
            edits = tuple(replace(edit, at=at + edit.at) for edit in added)
            prompt = Prompt((*prompt.pieces, *([piece] if len(piece) else [])), (*prompt.edits, *edits))
        return prompt

    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        """Return the request for a reply of sampled tokens, with the model's own logits processors."""
        return Request(
            prompt.pieces,
            Stop(speech.max_new, loaded.stop_ids, speech.stop),
            edits=prompt.edits,
            sampling=speech.sampling,
            record=self.keeps(loaded),
            form=self.form(speech),
        )

    def form(self, speech: Speech) -> Form | None:
        """Return the format of the reply, with a space before it if the reply continues a prefilled line."""
        if speech.form is None or not self.rules.guided:
            return None
        return replace(speech.form, spaced=speech.form.spaced or speech.begun[-1:].strip() != "")

    def keeps(self, loaded: LoadedModel) -> Record:
        """Return what is recorded of a reply besides its ids."""
        return Record(stats=True, top=TOP)

    def record(self, reply: Reply, loaded: LoadedModel) -> Payload:
        """Return the payload of a reply; `payload.label.text` is the message's text."""
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
        tensors |= _stats(reply)
        carried, options = self.carry(reply, loaded), self.options
        if not isinstance(options, LatentOptions) or not options.compresses:
            return Payload(label, tensors | carried)
        return Payload(replace(label, format=COMPRESSED), tensors | compressed(carried, tensors["entropy"], options))

    def carry(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """Return the tensors that this protocol sends along, by their names in the payload."""
        return {}

    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> tuple[Piece, tuple[Edit, ...]]:
        """Return the piece and edits for a message with a payload in the hearer's vocabulary; edits count from 0."""
        return payload_ids(heard, payload), ()

    def across(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> tuple[Piece, tuple[Edit, ...]]:
        """Return the piece and edits for a message in another vocabulary than the hearer's: words."""
        return in_words(heard.body, loaded), ()

    _special: ClassVar[bool] = False

    def _layers(self, loaded: LoadedModel) -> tuple[int, ...]:
        return ()

    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> tuple[Piece, tuple[Edit, ...]]:
        ref = heard.message.latent
        if ref is None or heard.in_public:
            return in_words(heard.body, loaded), ()
        try:
            payload = load(ref)
        except PayloadError as error:
            message = heard.message
            raise PayloadError(f"message of {message.agent!r}, round {message.round}: {error}") from error
        if payload.label.vocabulary != loaded.vocabulary_key:
            return (in_words(heard.body, loaded), ()) if heard.plain else self.across(heard, payload, loaded)
        if heard.plain:
            return payload_ids(heard, payload), ()
        return self.read(heard, payload if heard.own else self._probed(heard, payload, loaded, load), loaded)

    def _probed(self, heard: Heard, payload: Payload, loaded: LoadedModel, load: Load) -> Payload:
        """Return another agent's payload as it is heard under the probe of the options."""
        probe = self.options.probe
        if probe == "none" or not len(payload) or payload.label.protocol != self.name:  # the latter carries words
            return payload
        seed = json.dumps([heard.chance, *heard.message.place, "probe"])
        return probed(payload, loaded, probe, seed=seed, donors=list(map(load, heard.donors)))


def in_words(text: str, loaded: LoadedModel) -> Ids:
    """Return the ids of a text without a usable payload; special tokens in it are ordinary characters."""
    return Ids(loaded.chat.ids(text, plain=True))


def payload_ids(heard: Heard, payload: Payload) -> Ids:
    """Return the heard tokens, as they were generated."""
    ids = payload.ids
    return Ids(tuple(ids[at] for at in payload.tokens(heard.spans)))


def _opened(turn: Turn) -> Iterator[Part]:
    """Yield the parts of a turn; the prefill of a message becomes text before it."""
    for part in turn.parts:
        if isinstance(part, Heard) and part.begun:
            yield part.begun
        yield part


def _stats(reply: Reply) -> dict[str, torch.Tensor]:
    if reply.stats is None:
        return {}
    return {name: getattr(reply.stats, name) for name in reply.stats.__dataclass_fields__}
