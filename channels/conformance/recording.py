"""A reply is recorded: text, tokens, spans and numbers agree, and the file gives back every bit."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from itertools import pairwise

import torch

from sottovoce.channels.conformance.compare import misshapen
from sottovoce.channels.conformance.setting import Setting
from sottovoce.channels.message import Message
from sottovoce.channels.payload import Payload
from sottovoce.models import Reply, Stats, tensor_digest


class RecordingTests(Setting):
    """What holds for the payloads of a protocol."""

    def test_the_label_says_who_spoke_and_how(self) -> None:
        """A hearer decides by the label whether it can read the tensors."""
        label, loaded = self.say().payload.label, self.loaded
        found = (label.protocol, label.model, label.weights, label.vocabulary)
        expected = (self.protocol.name, loaded.name, loaded.weights_key, loaded.vocabulary_key)
        self.demand(found == expected, f"the label says {found}; expected {expected}, as Protocol.record does")

    def test_text_and_tokens_are_those_of_the_reply(self) -> None:
        """A message is heard as its tokens or as its text: both are what was said."""
        said = self.say()
        self.demand(said.payload.ids == said.reply.ids, f"tokens {said.payload.ids} were recorded of {said.reply.ids}")
        expected = self.loaded.detokenizer(special=said.request.stop.special).text(said.reply.ids)
        self.demand(
            said.payload.label.text == expected,
            f"the message is {said.payload.label.text!r}, but its tokens decode to {expected!r}; record what was said",
        )

    def test_spans_cover_the_text_in_order(self) -> None:
        """A part of a message is cut by the spans of its tokens."""
        payload = self.say().payload
        spans, text = payload.spans, payload.label.text
        whole = len(spans) == len(payload) and spans[0][0] == 0 and spans[-1][1] == len(text)
        in_order = all(start <= end for start, end in spans)
        gapless = all(one[0] <= two[0] <= one[1] <= two[1] for one, two in pairwise(spans))
        self.demand(
            whole and in_order and gapless,
            f"spans {spans} do not cover {text!r}; expected one a token, without gaps (Detokenizer.spans)",
        )

    def test_every_token_has_its_numbers(self) -> None:
        """Transcripts and monitors read them of every message, one in words too."""
        payload = self.say().payload
        for name in (field.name for field in fields(Stats)):
            found = payload.tensors.get(name)
            self.demand(
                found is not None and len(found) == len(payload),
                f"{name!r} has {None if found is None else len(found)} entries for {len(payload)} tokens; "
                "ask for `Record(stats=True)` and keep what the reply brings",
            )

    def test_tensors_are_finite_and_on_the_cpu(self) -> None:
        """A payload is read in other processes, on other machines."""
        for name, tensor in self.say().payload.tensors.items():
            self.demand(type(tensor) is torch.Tensor, f"{name!r} is a {type(tensor).__name__}; expected a plain tensor")
            self.demand(tensor.device.type == "cpu", f"{name!r} is on {tensor.device}; expected the CPU")
            self.demand(tensor.dtype != torch.float64, f"{name!r} is float64; expected the model's dtype")
            self.demand(tensor.isfinite().all(), f"{name!r} holds values that are not finite")

    def test_what_is_carried_is_in_the_models_dtype_and_one_a_token(self) -> None:
        """Of the tensors whose shape is known by name: `rows.<table key>` and `states`."""
        wrong = misshapen(self.say().payload, self.loaded)
        self.demand(not wrong, f"{wrong}; keep what the reply brings, token by token")

    def test_recording_changes_nothing_of_the_reply(self) -> None:
        """A node that is run again records the same, under the same address."""
        said = self.say()
        before = _digests(said.reply)
        again = self.protocol.record(said.reply, self.loaded)
        self.demand(_digests(said.reply) == before, "recording changed a tensor of the reply; work on copies")
        self.demand(
            again.to_bytes() == said.payload.to_bytes(),
            "one reply was recorded as two different payloads; record nothing but the reply",
        )

    def test_a_payload_survives_its_file_to_the_bit(self) -> None:
        """The file is safetensors with a line of JSON: nothing in it needs a pickle."""
        payload = self.say().payload
        self.demand(type(payload) is Payload, f"the payload is a {type(payload).__name__}; expected a Payload itself")
        after = Payload.from_bytes(payload.to_bytes())
        self.demand(after.label == payload.label, f"{payload.label} came back as {after.label}")
        found, expected = _bits(after), _bits(payload)
        lost = sorted(name for name in expected if found.get(name) != expected[name])
        self.demand(not lost, f"{lost} came back otherwise than they were saved")

    def test_a_message_is_plain_json(self) -> None:
        """Checkpoints and saved runs hold messages, never tensors."""
        message = self.message()
        wire = json.loads(json.dumps(message.to_dict()))
        self.demand(Message.from_dict(wire) == message, f"{message} came back from JSON as {Message.from_dict(wire)}")
        self.demand(message.latent is not None, "the reference's text is not the message's: is `label.text` its text?")
        payload = self.payload_of(message)
        self.demand(json.loads(json.dumps(asdict(payload.label))), "the label is no JSON")


def _bits(payload: Payload) -> dict[str, str]:
    return {name: tensor_digest(tensor) for name, tensor in payload.tensors.items()}


def _digests(reply: Reply) -> list[str]:
    tensors = [*reply.rows.values(), *reply.states.values()]
    for kept in (reply.stats, reply.sparse):
        tensors += [getattr(kept, field.name) for field in fields(kept)] if kept is not None else []
    return [tensor_digest(tensor) for tensor in tensors]
