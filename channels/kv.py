"""The protocols kv and thoughts: an agent hands over the keys and values of its prompt, thoughts or words.

kv (KVComm, arXiv 2510.03346): the sender reads its prompt; its keys and values are put before the receiver's prompt.
The importance of a layer is the attention from one calibration question to the text before it, mixed with a Gaussian
over the depth. It is measured in the sender's model.

thoughts (LatentMAS, arXiv 2511.20639): the sender also takes latent steps. In a latent step a state becomes the next
input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import torch
from torch.nn.functional import pad

from sottovoce.channels.bridge import Bridge, bridge_for, handed
from sottovoce.channels.bridge_files import Label, read_label
from sottovoce.channels.compress import vectors
from sottovoce.channels.kv_layers import check_meeting, chosen_layers, layer_of, meeting
from sottovoce.channels.message import MessageRef
from sottovoce.channels.options import CacheOptions, Carry, Keep, ThoughtsOptions
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Encoded, Protocol, in_words, payload_ids
from sottovoce.core.errors import ModelError, ProtocolError, UsageError
from sottovoce.models import Cached, Ids, LoadedModel, Origin, Record, Reply, Request, Thinking

OF_CARRY: dict[Carry, tuple[Origin, ...]] = {
    "prompt": ("prompt",),
    "reply": ("thoughts", "words"),
    "both": ("prompt", "thoughts", "words"),
}
NAMES: dict[Origin, str] = {
    "received": "what was received",
    "prompt": "the prompt",
    "text": "the prompt",
    "thoughts": "the thoughts",
    "words": "the words",
}
_Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Keys and values (heads, n, width) of a layer, their positions (n,), and True (n,) for those that it lacks."""


class KV(Protocol):
    """The protocol of shared keys and values."""

    Options = CacheOptions
    options: CacheOptions
    name: ClassVar[str] = "kv"
    hands_over: ClassVar[bool] = True
    carry: ClassVar[Carry] = "prompt"
    """What is handed over by default."""
    keeps: ClassVar[Keep] = "added"
    """What is kept of it by default."""
    thinks: ClassVar[bool] = False
    """True if the sender makes latent steps."""

    def check_options(self) -> None:
        """Refuse a share of tokens, and options that leave nothing to hand over."""
        options = self.options
        if options.kept_share < 1:
            raise UsageError(
                f"keep is {options.keep}, a share of tokens; for {self.name} it is all, added or thoughts; use "
                "layer_share to carry less"
            )
        if options.place == "quoted" and "words" not in self.origins and not self.thinks:
            raise UsageError("place 'quoted' puts keys and values in place of a reply's words; use carry reply or both")
        if not self.origins:
            kept = options.keep if isinstance(options.keep, str) else self.keeps
            raise UsageError(
                f"with carry {options.carry or self.carry} and keep {kept}, {self.name} has nothing to hand over; "
                "choose other values"
            )
        if options.layers and options.layer_share < 1:
            raise UsageError("layers and layer_share both choose the layers; give only one")
        if options.bridge and (self.name != "kv" or self.rules.pasted):
            raise UsageError(
                f"bridge is given, and a bridge maps the keys and values of kv, with compat paper; this is {self.name} "
                f"with compat {self.compat}; leave out bridge, or choose those"
            )
        if options.bridge and (options.layers or options.layer_share < 1 or options.positions != "shifted"):
            raise UsageError(
                "a bridge maps all layers to where they stand; leave out layers, layer_share and positions, or bridge"
            )
        if options.layer_alpha != 1 and options.layer_share == 1:
            raise UsageError(
                f"layer_alpha is {options.layer_alpha}, and all layers or named ones are handed over: it has nothing "
                "to choose; drop it, or add layer_share, such as 0.7"
            )

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The origins of the positions that are handed over."""
        keep = self.options.keep if isinstance(self.options.keep, str) else self.keeps
        if keep == "thoughts":
            return ("thoughts",) if self.steps else ()
        added = OF_CARRY[self.options.carry or self.carry]
        added = added if self.steps else tuple(each for each in added if each != "thoughts")
        return ("received", *added) if keep == "all" else added

    @property
    def steps(self) -> int:
        """The number of latent steps."""
        return self.options.latent_steps if isinstance(self.options, ThoughtsOptions) else 0

    @property
    def silent(self) -> bool:
        """True unless only the words of a reply are handed over."""
        return "prompt" in self.origins or self.thinks

    @property
    def apart(self) -> bool:
        """True with a bridge: the template's tokens cross none."""
        return bool(self.options.bridge)

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Require rotary positions, and the same weights or a bridge.

        `allow_other_weights` needs equal heads and widths alone.
        """
        for model in (speaker, hearer):
            self._check_positions(model)
        self._layers(speaker)
        bridge = self._bridge(speaker.weights_key, hearer)
        if bridge is None or bridge.label.sender.vocabulary != speaker.vocabulary_key:
            bridge = None
            self._check_without_bridge(speaker, hearer)
        possible = ("received", "words") if self.silent else ()  # a sender may have heard nobody, or write nothing
        crossing = [each for each in self.origins if bridge is None or each != "received"]
        sure, other = ([each for each in crossing if (each in possible) == has] for has in (False, True))
        parts = [*([_named(sure)] if sure else []), *([f"{_named(other)}, if any"] if other else [])]
        told = f"with keys and values of {', and of '.join(parts)}"
        if "prompt" in self.origins:
            told += ": all that the sender was told, its documents and role included"
        if bridge is not None:
            told += f"; over the bridge {bridge.label.about}"
        elif self._check_weights(speaker, hearer):
            told += "; between other weights"
        return told

    def _check_without_bridge(self, speaker: LoadedModel, hearer: LoadedModel) -> None:
        if self.options.bridge and not super()._reads(speaker.weights_key, hearer):
            known = "; ".join(f"{folder!r} leads from {label.about}" for folder, label in self._labels.items())
            raise ProtocolError(
                f"no bridge leads from {speaker.name!r} to {hearer.name!r}, with the weights and tokenizers that they "
                f"have: {known}",
                "fit one with `bridge fit`, or carry that edge in words with `fallback='nl'`",
            )
        shapes = [_shape(model) for model in (speaker, hearer)]
        if shapes[0] != shapes[1]:
            bridge, fit = (", or a bridge", "fit one with `bridge fit`, ") if self.name == "kv" else ("", "")
            raise ProtocolError(
                f"{self.name} needs one architecture with equal heads on both sides{bridge}, but {speaker.name!r} and "
                f"{hearer.name!r} have (type, heads, width) {shapes[0]} and {shapes[1]}",
                f"{fit}use models of one family, or carry that edge in words with `fallback='nl'`",
            )
        if not self.rules.every_layer:
            check_meeting(self._layers(speaker), speaker, hearer)

    @cached_property
    def _labels(self) -> dict[str, Label]:
        """The labels of the bridges by folder, read once: what is put there later is no part of this discussion."""
        found = {folder: read_label(folder) for folder in self.options.bridge}
        known = dict[tuple[str, str], str]()
        for folder, label in found.items():
            ends = label.sender.weights, label.receiver.weights
            if known.setdefault(ends, folder) != folder:
                raise UsageError(f"bridges {known[ends]!r} and {folder!r} lead from one model to one other; name one")
        return found

    def _bridge(self, weights: str, hearer: LoadedModel) -> Bridge | None:
        """Return the bridge that leads to a model from the one with these weights; equal models need none."""
        return bridge_for(weights, hearer, self._labels) if weights != hearer.weights_key else None

    def _reads(self, weights: str, loaded: LoadedModel) -> bool:
        return super()._reads(weights, loaded) or self._bridge(weights, loaded) is not None

    def make_request(self, plain: Request, loaded: LoadedModel, hearers: Sequence[LoadedModel] = ()) -> Request:
        """Return the request for a reply; it also records keys and values, or what bridges need if all hearers do."""
        self._check_positions(loaded)
        request = super().make_request(plain, loaded, hearers)
        bridged = bool(hearers) and all(self._bridge(loaded.weights_key, hearer) for hearer in hearers)
        return replace(request, record=replace(request.record, keys=not bridged))

    def to_record(self, loaded: LoadedModel) -> Record:
        """Record keys and values too; `prompt` includes the texts in it."""
        texts: tuple[Origin, ...] = ("text",) if "prompt" in self.origins else ()
        return replace(super().to_record(loaded), cache=(*self.origins, *texts))

    def payload_tensors(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """Return keys and values (l, heads, p, w) of the chosen layers, and the first position of the others."""
        cache = reply.cache
        assert cache is not None, "it was asked for"
        layers = self._layers(loaded)
        chosen, rest = list(layers), [layer for layer in range(loaded.layers) if layer not in layers]
        carried = {"values": cache.values[chosen], "at": cache.at}
        if cache.has_keys:
            carried["keys"] = cache.keys[chosen]
        if cache.masked is not None:
            carried["masked"] = cache.masked
        if self.options.bridge:
            carried |= handed(cache, loaded)
        if rest and cache.has_keys:
            carried |= {"first_keys": cache.keys[rest, :, :1], "first_values": cache.values[rest, :, :1]}
        return carried

    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return the message's tokens, or keys and values in their place."""
        return self._encode(reference, payload, loaded, payload_ids(reference, payload))

    def encode_across_vocabularies(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return the message's words, or keys and values in their place."""
        return self._encode(reference, payload, loaded, in_words(reference.body, loaded))

    def encode_before(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Cached | None:
        """Return the keys and values to put before the whole prompt, or None if they replace the words."""
        if self._quotes(payload) or not self.carries(reference, payload, loaded):
            return None
        piece = self._piece(payload, loaded, [*range(payload.positions or 0)], first=True)
        return piece if self.rules.causal else replace(piece, causal=False)

    def _encode(self, reference: MessageRef, payload: Payload, loaded: LoadedModel, words: Ids) -> Encoded:
        if not self._quotes(payload) or not self.carries(reference, payload, loaded):
            return self._as_text(words), ()
        n, own = payload.positions or 0, len(payload)
        if not reference.spans:
            return self._piece(payload, loaded, [*range(n)]), ()
        at = [n - own + i for i in payload.tokens(reference.spans)]
        return self._piece(payload, loaded, [i % n for i in at] if n else []), ()  # a donor may be shorter

    def _quotes(self, payload: Payload) -> bool:
        """Return True if keys and values replace the message's words; they must then include the words' positions."""
        return self.options.place == "quoted" and (not len(payload) or NAMES["words"] in payload.label.origin)

    def carries(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> bool:
        """Return True if its keys and values exist and fit the reader, too."""
        values = payload.tensors.get("values")
        if values is None or not super().carries(reference, payload, loaded):
            return False
        _, heads, _, width = values.shape
        if (bridge := self._bridge(payload.label.weights, loaded)) is not None:
            return bridge.fits(payload.tensors)
        return "keys" in payload.tensors and (heads, width) == loaded.network.cache_shape

    def _piece(self, payload: Payload, loaded: LoadedModel, at: list[int], *, first: bool = False) -> Cached:
        """Return positions of a payload as a piece of a prompt, each layer in its place in the reader.

        Over a bridge, only texts; `first`: they stand before the prompt.
        """
        if (bridge := self._bridge(payload.label.weights, loaded)) is not None:
            decoded = {name: vectors(payload.tensors, name) for name in ("values", "inputs")}
            text = {name: each for name, each in {**payload.tensors, **decoded}.items() if each is not None}
            return bridge.piece(text, at, loaded, first=first)
        names = ("keys", "values", "first_keys", "first_values")
        keys, values, first_keys, first_values = (vectors(payload.tensors, name) for name in names)
        assert keys is not None and values is not None, "checked by `carries`"
        if first_keys is None or first_values is None:
            first_keys, first_values = keys[:0, :, :1], values[:0, :, :1]
        places, layers = payload.tensors["at"][at], payload.label.layers
        depth = len(layers) + len(first_keys)
        others = [layer for layer in range(depth) if layer not in layers]
        gaps = payload.tensors.get("masked", torch.zeros(depth, payload.positions or 0)).bool()
        if depth != loaded.layers and not self.rules.every_layer:
            parts = {a: (keys[i][:, at], values[i][:, at], places, gaps[a, at]) for i, a in enumerate(layers)}
            parts |= {a: (first_keys[i], first_values[i], places[:1], gaps[a, :1]) for i, a in enumerate(others)}
            return _joined([[parts[layer] for layer in met] for met in meeting(depth, loaded.layers)], keys[0][:, :0])
        # The first layer is always whole, also in a reader so deep that no layer falls on it.
        whole = {0: 0} | {layer_of(layer, depth, loaded.layers): i for i, layer in enumerate(layers)}
        rest = [layer for layer in range(loaded.layers) if layer not in whole]
        # Sources are of (whole layers, others): the first position of each, in that order.
        meant = [layer_of(layer, loaded.layers, depth) for layer in rest]
        sources = [[*layers, *others].index(layer) for layer in meant]
        order = sorted(whole)
        chosen = [whole[layer] for layer in order]
        first_keys = torch.cat([keys[:, :, :1], first_keys])[sources]
        shifted = self.options.positions == "shifted"
        if shifted and rest:  # on to the first position heard, from which the engine turns all keys
            first_keys = loaded.network.rotary.turn(first_keys, rest, places[:1] - payload.tensors["at"][:1])
        masked = torch.zeros(loaded.layers, len(at), dtype=torch.bool)
        masked[order], masked[rest] = gaps[[layers[i] for i in chosen]][:, at], gaps[meant, :1]
        return Cached(
            keys[chosen][:, :, at],
            values[chosen][:, :, at],
            tuple(order),
            places,
            first_keys,
            torch.cat([values[:, :, :1], first_values])[sources],
            turned=shifted,
            masked=masked,
        )

    def _layers(self, loaded: LoadedModel) -> tuple[int, ...]:
        if self.options.layers:
            return tuple(sorted({0, *loaded.latent_layers(self.options.layers)}))
        return chosen_layers(loaded, self.options.layer_share, self.options.layer_alpha, self.rules)

    def _origin(self, reply: Reply) -> str:
        named = _named(reply.cache.origins if reply.cache else ())
        return named if reply.cache is None or reply.cache.has_keys else f"{named} (values alone, for a bridge)"

    def _check_positions(self, loaded: LoadedModel) -> None:
        """Refuse a model whose keys cannot be moved to other positions."""
        try:
            loaded.network.check_handing_over()
        except ModelError as error:
            raise ProtocolError(
                f"{self.name} cannot hand over keys and values of {loaded.name!r}: {error}",
                "use nl, cipher or sde, or carry its edges in words with `fallback='nl'`",
            ) from error


class Thoughts(KV):
    """The protocol of latent thoughts, handed over as keys and values."""

    Options = ThoughtsOptions
    options: ThoughtsOptions
    name: ClassVar[str] = "thoughts"
    carry: ClassVar[Carry] = "both"
    keeps: ClassVar[Keep] = "all"
    thinks: ClassVar[bool] = True

    def check_options(self) -> None:
        """Refuse the options that kv refuses, and options without effect."""
        super().check_options()
        options = self.options
        if options.realign and not options.latent_steps:
            raise UsageError("realign maps the states of latent steps, and latent_steps is 0; drop one of them")
        if options.keep == "thoughts" and options.carry == "prompt":
            raise UsageError("carry is prompt, but keep is thoughts, so the prompt is dropped; leave out one of them")

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Require the same as kv, and output embeddings that can be realigned if realignment is on."""
        if self.options.realign:
            _ = speaker.realignment
        return super().check(speaker, hearer)

    def make_request(self, plain: Request, loaded: LoadedModel, hearers: Sequence[LoadedModel] = ()) -> Request:
        """Return the request for latent steps, and then for the reply."""
        if self.steps and not plain.stop.max_new and "thoughts" not in self.origins:
            raise UsageError(
                f"carry is {self.options.carry}, so the {self.steps} latent steps of a message without words are "
                "handed to nobody; use carry both, or latent_steps 0"
            )
        matrix = loaded.realignment if self.options.realign else None
        thinking = Thinking(self.options.latent_steps, loaded.table.mean_norm, matrix)
        return replace(super().make_request(plain, loaded, hearers), thinking=thinking)

    def payload_tensors(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """Return keys and values, and the tokens nearest to the thoughts."""
        thoughts = reply.thoughts if reply.thoughts is not None else torch.zeros(0, loaded.table.width)
        nearest = loaded.table.nearest(thoughts.to(loaded.table.rows)).cpu() if len(thoughts) else torch.zeros(0).long()
        return {**super().payload_tensors(reply, loaded), "thought_ids": nearest}


def _shape(model: LoadedModel) -> tuple[str, int, int]:
    """Return the architecture of a model, and heads and width of its keys."""
    return (str(model.model.config.get_text_config().model_type), *model.network.cache_shape)


def _named(origins: Sequence[Origin]) -> str:
    """Return origins in words: "the prompt and the thoughts"."""
    if not origins:
        return "nothing"
    *first, last = dict.fromkeys(NAMES[each] for each in origins)
    return f"{', '.join(first)} and {last}" if first else last


def _joined(layers: Sequence[Sequence[_Part]], nothing: torch.Tensor) -> Cached:
    """Return a piece that joins each layer's parts. A layer may have several parts or none; the first has the most.

    The keys keep their rotations, as in KVComm's published code.
    """
    at = torch.cat([places for _, _, places, _ in layers[0]])
    keys, values = ([torch.cat([nothing, *(part[j] for part in parts)], dim=1) for parts in layers] for j in (0, 1))
    gaps = [torch.cat([at[:0].bool(), *(masked for *_, masked in parts)]) for parts in layers]
    masked = torch.stack([pad(each, (0, len(at) - len(each)), value=True) for each in gaps])
    keys, values = ([pad(each, (0, 0, 0, len(at) - each.shape[1])) for each in all] for all in (keys, values))
    order, empty = tuple(range(len(layers))), nothing[None][:0]
    return Cached(torch.stack(keys), torch.stack(values), order, at, empty, empty, turned=False, masked=masked)
