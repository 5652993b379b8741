"""The base class of protocols: how a message enters a prompt, and how a reply is requested and recorded.

A judge or a secretary reads by one protocol and replies in words: `cipher.encode_prompt`, then `nl.make_request`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from sottovoce.channels.compress import compressed
from sottovoce.channels.message import MessageRef, Part, Place, Turn
from sottovoce.channels.options import COMPAT, Compat, CompatName, LatentOptions, ProtocolOptions
from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.probe import probed
from sottovoce.channels.store import PayloadRef
from sottovoce.core.errors import PayloadError, ProtocolError, UsageError
from sottovoce.core.response_format import Form
from sottovoce.models import (
    LAST,
    Base,
    Cached,
    Edit,
    Ids,
    LoadedModel,
    Piece,
    Record,
    Reply,
    Request,
    Sampling,
    Stop,
    Text,
    base_temperature,
    default_sampling,
    drawn_temperature,
    known_top_p,
)

TOP = 10  # most probable tokens recorded at each position
Load = Callable[[PayloadRef], Payload]
"""Returns the payload of a message."""
Encoded = tuple[Piece, tuple[Edit, ...]]
"""The piece of a prompt for one message, and edits of hidden states, whose positions count from the piece's first."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt as the engine reads it."""

    pieces: tuple[Piece, ...]
    edits: tuple[Edit, ...] = ()
    handed: tuple[Place, ...] = ()
    """The places of the messages whose keys and values its first pieces are, or whose states its last position gets."""

    def with_encoded(self, piece: Piece, edits: Sequence[Edit] = (), place: Place | None = None) -> Prompt:
        """Return the prompt followed by a piece. The positions of its edits count from its beginning.

        An edit at LAST belongs to the last position of the whole prompt, and is made once for a message at `place`.
        """
        start = sum(map(len, self.pieces))
        last = [edit for edit in edits if edit.at == LAST and place not in self.handed]
        moved = (replace(edit, at=start + edit.at) for edit in edits if edit.at != LAST)
        pieces = (*self.pieces, piece) if len(piece) else self.pieces
        handed = (*self.handed, place) if place and last else self.handed
        return Prompt(pieces, (*self.edits, *moved, *last), handed)

    def with_block(self, ids: tuple[int, ...]) -> Prompt:
        """Return the prompt followed by a block of thoughts. An edit of the last position stays before it."""
        return replace(self, pieces=(*self.pieces, Ids(ids, "block")), edits=self.placed()) if ids else self

    def with_front(self, piece: Cached, place: Place, *, every_first: bool = True) -> Prompt:
        """Return the prompt with a message's keys and values before it, after earlier ones; each message counts once.

        Unless `every_first`, omitted layers have only the first position of the first piece.
        """
        if not len(piece) or place in self.handed:
            return self
        n, handed = len(self.handed), (*self.handed, place)
        pieces = (*self.pieces[:n], piece if every_first or not n else piece.without_first(), *self.pieces[n:])
        moved = (replace(edit, at=edit.at + len(piece)) if edit.at != LAST else edit for edit in self.edits)
        return Prompt(pieces, tuple(moved), handed)

    def placed(self) -> tuple[Edit, ...]:
        """Return the edits with their positions, including edits at the last position."""
        last = sum(map(len, self.pieces)) - 1
        return tuple(edit if edit.at != LAST else replace(edit, at=last) for edit in self.edits)

    def request(
        self,
        loaded: LoadedModel,
        max_new: int,
        sampling: Sampling,
        *,
        stop: tuple[str, ...] = (),
        prefill: str = "",
        form: Form | None = None,
    ) -> Request:
        """Return the request for a reply of sampled tokens, without any recording: see `make_request`.

        The strings of `stop` end the reply and are not part of it. `prefill` is its beginning, which the prompt ends
        with; if it ends within a line, a space precedes the format.
        """
        if form is not None and prefill[-1:].strip():
            form = replace(form, spaced=True)
        return Request(
            self.pieces, Stop(max_new, loaded.stop_ids, stop), edits=self.placed(), sampling=sampling, form=form
        )


class Protocol:
    """The base class of all protocols; a message is read as the tokens that were generated.

    A subclass has a `name` and overrides what it changes, most often one of

        encode_message   a message as a piece of the prompt: token ids or embedding rows, and edits of hidden states
        encode_before    keys and values that stand before the whole prompt
        make_request     the request for a reply: sampled tokens or mean embeddings
        to_record        the tensors that the engine records of a reply
        payload_tensors  the tensors that the message carries besides its words
        check            which models can exchange messages

    For example, the state deltas of SDE at half strength:

        class Soft(SDE):
            name = "soft"

            def encode_message(self, reference, payload, loaded):
                piece, edits = super().encode_message(reference, payload, loaded)
                return piece, tuple(replace(edit, delta=edit.delta / 2) for edit in edits)

    Create a protocol from its options, `Cipher(CipherOptions(partial="max"))`, or from their values by
    name, `Cipher(partial="max")`. A protocol with its own options sets their class as `Options`.
    """

    Options: ClassVar[type[ProtocolOptions]] = ProtocolOptions
    options: ProtocolOptions
    compat: CompatName
    """The choice between the papers and their published code."""
    rules: Compat
    """The choices of `compat`."""
    name: ClassVar[str]
    latent: ClassVar[bool] = True
    """True if a message carries more than its words."""
    averages: ClassVar[bool] = False
    """True if a message is a mean over possible tokens, so that at temperature 0 it is only words."""
    final_rule: ClassVar[str] = "majority"
    """The default decision rule of a debate under this protocol."""
    ignores: ClassVar[tuple[str, ...]] = ()
    """Sampling settings that have no effect under this protocol."""
    _special: ClassVar[bool] = False
    """True if special tokens stay in the text of a message."""
    hands_over: ClassVar[bool] = False
    """True if a message may carry what its words do not need: keys and values, or a state."""

    carries_words: ClassVar[bool] = True
    """False if a message's tensors belong to the prompt alone, and none to the words of the reply."""

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
        self.compat = self.options.compat
        self.rules = COMPAT[self.compat]
        if self.options.probe != "none" and not self.latent:
            raise UsageError(
                f"probe is {self.options.probe!r}, and protocol {self.name!r} carries only words; leave it out, "
                "or choose a protocol that carries more: cipher, sde, hidden, kv, thoughts, graft"
            )
        self.check_options()

    def check_options(self) -> None:
        """Refuse options that this protocol cannot follow.

        Raises:
            UsageError: they are for other protocols.
        """
        if isinstance(self.options, LatentOptions) and isinstance(self.options.keep, str):
            raise UsageError(f"keep is {self.options.keep!r}; for {self.name} it is a share of tokens, such as 0.5")

    @property
    def silent(self) -> bool:
        """True if a message needs no words."""
        return False

    @property
    def apart(self) -> bool:
        """True if the texts of turns are tokenized apart from the template, because only they are carried."""
        return False

    def base(self, loaded: LoadedModel, *, words: bool = False) -> Base:
        """Return the default temperature. Means get one at which they are readable, unless the reply is `words`."""
        if not self.rules.readable_base:
            return Base(loaded.sampling.temperature)
        return base_temperature(loaded) if self.averages and not words else drawn_temperature(loaded)

    def known_top_p(self, loaded: LoadedModel) -> Base | None:
        """Return the catalogue's top-p if the model's files name none and the protocol uses it, else None."""
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

    def _check_weights(self, speaker: LoadedModel, hearer: LoadedModel, *, fits: bool = True) -> bool:
        """Return True if the weights differ; refuse this unless `allow_other_weights` is set and the payload fits."""
        if speaker.weights_key == hearer.weights_key:
            return False
        if not (fits and getattr(self.options, "allow_other_weights", True)):
            raise ProtocolError(
                f"{self.name} needs one model on both sides, but {speaker.name!r} and {hearer.name!r} have different "
                "weights",
                "use the same model, or carry that edge in words with `fallback='nl'`"
                + ("; `allow_other_weights=True` lets them pass" if fits else ""),
            )
        return True

    def encode_prompt(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        """Tokenize a chat around the messages in it, and insert each message by `encode_message`.

        The prefill of a message becomes text before it.
        """
        chat = list[Turn]()
        for turn in turns:
            parts = list[Part]()
            for part in turn.parts:
                if isinstance(part, MessageRef) and part.prefill:
                    parts.append(part.prefill)
                parts.append(part)
            chat.append(replace(turn, parts=tuple(parts)))
        prompt, pasted = Prompt(()), self.latent and self.rules.pasted
        for piece in loaded.chat.encode(chat, pasted=pasted, apart=self.apart, most=loaded.network.context):
            if isinstance(piece, tuple):
                prompt = prompt.with_encoded(Ids(piece, "text" if isinstance(piece, Text) else "prompt"))
            else:
                prompt = self._with_reference(prompt, piece, loaded, load)
        return prompt

    def with_prefill(self, prompt: Prompt, prefill: Turn, loaded: LoadedModel, load: Load) -> Prompt:
        """Return the prompt followed by the prefill of the reply. Messages in it are inserted as in any turn."""
        for part in prefill.parts:
            if isinstance(part, str):
                prompt = prompt.with_encoded(self._as_text(in_words(part, loaded))) if part else prompt
            else:
                prompt = self._with_reference(prompt, part, loaded, load)
        return prompt

    def make_request(self, plain: Request, loaded: LoadedModel, hearers: Sequence[LoadedModel] = ()) -> Request:
        """Return the request for a reply under this protocol, from one for sampled tokens: `Prompt.request`.

        `hearers` are the models of the agents that will read the reply; cipher also averages over their tables.
        """
        return replace(plain, record=self.to_record(loaded), form=plain.form if self.rules.guided else None)

    def to_record(self, loaded: LoadedModel) -> Record:
        """Return the tensors to record of a reply besides its ids."""
        return Record(stats=True, top=TOP)

    def record_reply(self, reply: Reply, loaded: LoadedModel) -> Payload:
        """Return the payload of a reply; `payload.label.text` is the message's text."""
        detokenizer = loaded.detokenizer(special=self._special)
        label = Label(
            self.name,
            detokenizer.text(reply.ids),
            loaded.name,
            loaded.weights_key,
            loaded.vocabulary_key,
            self._layers(loaded),
            origin=self._origin(reply),
        )
        tensors = {
            "ids": torch.tensor(reply.ids, dtype=torch.long),
            "spans": torch.tensor(detokenizer.spans(reply.ids), dtype=torch.long).reshape(-1, 2),
        }
        if reply.stats is not None:
            tensors |= vars(reply.stats)
        carried, options = self.payload_tensors(reply, loaded), self.options
        if not isinstance(options, LatentOptions) or not options.compresses:
            return Payload(label, tensors | carried)
        return Payload(label, tensors | compressed(carried, tensors["entropy"], options))

    def payload_tensors(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """Return the tensors that a message carries besides its words, by their names in the payload."""
        return {}

    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return a message with a payload in the reader's vocabulary as a piece of its prompt, with edits."""
        return payload_ids(reference, payload), ()

    def encode_across_vocabularies(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return a message in another vocabulary than the reader's as a piece of its prompt, with edits: its words."""
        return in_words(reference.body, loaded), ()

    def encode_before(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Cached | None:
        """Return a message's keys and values to put before the whole prompt, or None if it has none."""
        return None

    def carries(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> bool:
        """Return True if a message is read with its payload: it is another agent's, and the latest or all are used."""
        wanted = not reference.own and (reference.latest or getattr(self.options, "inject", "all") == "all")
        return wanted and self._reads(payload.label.weights, loaded) and payload.label.protocol == self.name

    def _reads(self, weights: str, loaded: LoadedModel) -> bool:
        """Return True if a model reads tensors of a model with these weights."""
        return weights == loaded.weights_key or getattr(self.options, "allow_other_weights", True)

    def heard_bytes(self, reference: MessageRef, loaded: LoadedModel, load: Load) -> float:
        """Return the bytes that a reader hears of a message besides its words, or 0 if it hears only words."""
        ref, payload = reference.message.latent, self._read_payload(reference, loaded, load)
        if ref is None or payload is None or reference.plain or not self.carries(reference, payload, loaded):
            return 0
        size, by_token = payload.bytes_for(loaded.table.key), payload.positions is None
        if size and ref.length == (len(payload) if by_token else payload.positions):
            size = load(ref).bytes_for(loaded.table.key)  # a probe's noise is not compressed, but as large
        quoted = by_token and reference.spans
        return size * len(payload.tokens(reference.spans)) / len(payload) if quoted else size

    def _layers(self, loaded: LoadedModel) -> tuple[int, ...]:
        return ()

    def _origin(self, reply: Reply) -> str:
        """Return the text that keys, values or a state belong to, or an empty text for the words of the message."""
        return ""

    def _with_reference(self, prompt: Prompt, reference: MessageRef, loaded: LoadedModel, load: Load) -> Prompt:
        """Return the prompt followed by a message; its keys and values go before the prompt if it hands over any."""
        heard = self._read_payload(reference, loaded, load)
        shared = heard is not None and heard.label.vocabulary == loaded.vocabulary_key
        if heard is None or (reference.plain and not shared):
            return prompt.with_encoded(self._as_text(in_words(reference.body, loaded)))
        if reference.plain:
            return prompt.with_encoded(self._as_text(payload_ids(reference, heard)))
        encode = self.encode_message if shared else self.encode_across_vocabularies
        prompt = prompt.with_encoded(*encode(reference, heard, loaded), reference.message.place)
        before = self.encode_before(reference, heard, loaded) if self.hands_over and not reference.own else None
        if before is None:
            return prompt
        return prompt.with_front(before, reference.message.place, every_first=self.rules.every_first)

    def _as_text(self, words: Ids) -> Ids:
        return replace(words, origin="text") if self.apart else words

    def _read_payload(self, reference: MessageRef, loaded: LoadedModel, load: Load) -> Payload | None:
        """Return the payload of a message as it is heard, under the probe of the options, or None for words alone."""
        ref = reference.message.latent
        if ref is None or reference.in_public:
            return None
        try:
            payload = load(ref)
            payload.check_for(loaded)
        except PayloadError as error:
            message = reference.message
            raise PayloadError(f"message of {message.agent!r}, round {message.round}: {error}") from error
        shared = payload.label.vocabulary == loaded.vocabulary_key
        if reference.plain or reference.own or not (shared or self.hands_over):
            return payload
        return self._probed(reference, payload, loaded, load)

    def _probed(self, reference: MessageRef, payload: Payload, loaded: LoadedModel, load: Load) -> Payload:
        """Return another agent's payload as the probe of the options replaces it."""
        probe, length = self.options.probe, len(payload) if payload.positions is None else payload.positions
        if probe == "none" or not length or payload.label.protocol != self.name:  # the latter carries words
            return payload
        seed = json.dumps([reference.chance, *reference.message.place, "probe"])
        substitutes = list(map(load, reference.donors))
        return probed(payload, loaded, probe, seed=seed, substitutes=substitutes, part=bool(reference.spans))


def in_words(text: str, loaded: LoadedModel) -> Ids:
    """Return the ids of a text without a usable payload. Special tokens in it are ordinary characters."""
    return Ids(loaded.chat.ids(text, plain=True, most=loaded.network.context))


def payload_ids(reference: MessageRef, payload: Payload) -> Ids:
    """Return the referenced tokens of a message, as they were generated."""
    ids = payload.ids
    return Ids(tuple(ids[at] for at in payload.tokens(reference.spans)))
