"""Our protocols keep every promise of `ProtocolTests`, and so does the one that docs/howto/protocol.md shows."""

from __future__ import annotations

import importlib.util
import re
import unittest
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.kv import KV, Thoughts
from sottovoce.channels.message import MessageRef
from sottovoce.channels.nl import NL
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Encoded, Load, Protocol
from sottovoce.channels.sde import SDE, Graft, Hidden
from sottovoce.models import LoadedModel, Reply, Request
from tests.channels.conformance import ProtocolTests
from tests.channels.conformance_steps import DIFFERENCES, Difference
from tests.tables import each_row, some

ROOT = Path(__file__).resolve().parents[2]
OURS: dict[str, tuple[Protocol, Collection[Difference]]] = {
    "words": (NL(), ()),
    "means": (Cipher(), DIFFERENCES[2:]),
    "means, over a shared vocabulary too": (Cipher(shared_vocabulary=True), ()),
    "some means, as published": (Cipher(compat="reference", partial="entropy", threshold=0.01), DIFFERENCES[2:]),
    "deltas of two layers, as published": (
        SDE(compat="reference", layers=(0, 5), inject="all", allow_other_weights=True),
        DIFFERENCES[1:],
    ),
    "states": (Hidden(), DIFFERENCES),
    "keys and values of prompts": (KV(allow_other_weights=True), DIFFERENCES[1:2]),
    "keys and values in place of words": (KV(carry="both", place="quoted", carry_as="int8"), DIFFERENCES),
    "some layers": (KV(carry="reply", layer_share=0.5, inject="all", positions="paper"), DIFFERENCES),
    "thoughts": (Thoughts(latent_steps=3, realign=True), DIFFERENCES),
    "a state": (Graft(merge="sum", allow_other_weights=True), ()),
    "deltas in fewer bytes": (SDE(carry_as="int8", keep=0.5), DIFFERENCES),
}
FAST = ("means", "thoughts")
"""The page's protocol carries deltas, and another suite below speaks in words; the rest are slow."""


class TestOurs(ProtocolTests):
    protocol: Protocol = NL()

    @pytest.fixture(autouse=True, params=some(list(OURS), *FAST))
    def given(self, request: pytest.FixtureRequest) -> None:
        self.protocol, self.refuses = OURS[request.param]


def ran(suite: type[ProtocolTests]) -> unittest.TestResult:
    """A suite run without pytest."""
    case = type("Case", (suite, unittest.TestCase), {})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_the_protocol_that_the_page_shows_passes(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "howto" / "protocol.md").read_text(), re.DOTALL)
    (example,) = [each for each in examples if "ProtocolTests" in each]
    (tmp_path / "test_louder.py").write_text(example)
    spec = importlib.util.spec_from_file_location("test_louder", tmp_path / "test_louder.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    result = ran(module.TestLouder)

    assert result.wasSuccessful() and result.testsRun > 12
    assert result.skipped == []


def test_what_does_not_apply_is_skipped_with_its_reason() -> None:
    class Words(ProtocolTests):
        protocol = NL(compat="reference")
        retokenises = True

    result = ran(Words)

    assert result.wasSuccessful()
    assert {reason for _, reason in result.skipped} == {
        "the protocol tokenizes a message together with the words around it",
        "the protocol reads texts alone, no payload",
    }


# Protocols that each break one promise


class Trembling(SDE):
    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        piece, edits = super().encode_message(reference, payload, loaded)
        return piece, tuple(replace(edit, delta=edit.delta + 1e-6 * torch.randn_like(edit.delta)) for edit in edits)


class InPlace(SDE):
    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        assert payload.states is not None
        payload.states.mul_(0.5)
        return super().encode_message(reference, payload, loaded)


def over_the_batch(_: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return p / p.sum()  # forgets dim=-1


class OverTheBatch(Cipher):
    def make_request(self, plain: Request, loaded: LoadedModel, hearers: Sequence[LoadedModel] = ()) -> Request:
        request = super().make_request(plain, loaded, hearers)
        return replace(request, feed=replace(request.feed, weigh=over_the_batch))


class Unequal(SDE):
    def record_reply(self, reply: Reply, loaded: LoadedModel) -> Payload:
        payload = super().record_reply(reply, loaded)
        return replace(payload, tensors={**payload.tensors, "states": payload.tensors["states"][:, 1:]})


class Whole(Cipher):
    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        return super().encode_message(replace(reference, spans=()), payload, loaded)


class Unprobed(SDE):
    def _probed(self, reference: MessageRef, payload: Payload, loaded: LoadedModel, load: Load) -> Payload:
        return payload


class Incautious(SDE):
    def carries(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> bool:
        return payload.states is not None and payload.states.shape[-1] == loaded.network.hidden


@each_row(
    ("test", "broken", "message"),
    [
        ("a_request_is_the_same_every_time", Trembling, "second request: .* added at layer 4; expected .* layer 4"),
        ("a_request_runs_and_leaves_nothing_changed", InPlace, "a payload changed while it was heard"),
        ("a_reply_depends_on_its_request_alone", OverTheBatch, "in a batch of 4 gave another reply than alone: rows"),
        ("tensors_have_one_entry_a_token_and_can_be_read_anywhere", Unequal, r"\(1, 7, 128\).* expected \(1, 8, 128\)"),
        ("messages_and_parts_of_them_are_heard_at_their_places", Whole, "characters .* cut ids, rows and states"),
        ("a_probe_replaces_what_is_carried_and_nothing_else", Unprobed, "'noise' changed nothing; expected a loss"),
        ("every_edge_is_refused_by_name_or_carried", Incautious, "yet brings rows or edits; expected words"),
    ],
)
def test_a_broken_promise_is_told(test: str, broken: type[Protocol], message: str) -> None:
    class Suite(ProtocolTests):
        protocol = broken()
        refuses = DIFFERENCES[2:] if issubclass(broken, Cipher) else DIFFERENCES

    with pytest.raises(AssertionError, match=message):
        getattr(Suite(), f"test_{test}")()
