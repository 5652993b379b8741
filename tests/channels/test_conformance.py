"""Our protocols keep every promise of `ProtocolTests`, and so does the one that docs/howto/protocol.md shows."""

from __future__ import annotations

import importlib.util
import re
import threading
import unittest
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.conformance import ProtocolTests
from sottovoce.channels.conformance_steps import DIFFERENCES, Difference
from sottovoce.channels.graft import Graft
from sottovoce.channels.kv import KV, Thoughts
from sottovoce.channels.message import MessageRef, Turn
from sottovoce.channels.nl import NL
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Load, Prompt, Protocol, Speech
from sottovoce.channels.sde import SDE, Hidden
from sottovoce.core.errors import PayloadError, ProtocolError
from sottovoce.models import Edit, Ids, LoadedModel, Piece, Reply, Request
from tests.tables import some

ROOT = Path(__file__).resolve().parents[2]
OURS: dict[str, tuple[Protocol, Collection[Difference]]] = {
    "words": (NL(), ()),
    "means": (Cipher(), DIFFERENCES[2:]),
    "means, over a bridge too": (Cipher(bridge=True), ()),
    "some means, as published": (Cipher(compat="reference", partial="entropy", threshold=0.01), DIFFERENCES[2:]),
    "deltas of two layers, as published": (
        SDE(compat="reference", layers=(0, 5), inject="all", allow_other_weights=True),
        DIFFERENCES[1:],
    ),
    "states": (Hidden(), DIFFERENCES),
    "keys and values of prompts": (KV(), DIFFERENCES[1:2]),
    "keys and values in place of words": (KV(carry="both", place="quoted", carry_as="int8"), DIFFERENCES[1:2]),
    "some layers": (KV(carry="reply", layer_share=0.5, inject="all", positions="paper"), DIFFERENCES[1:2]),
    "thoughts": (Thoughts(latent_steps=3, realign=True), DIFFERENCES[1:2]),
    "a state": (Graft(merge="sum"), ()),
    "deltas in fewer bytes": (SDE(carry_as="int8", keep=0.5, rank=2), DIFFERENCES),
}
ONE_EACH = ("words", "means", "deltas in fewer bytes", "states", "some layers", "thoughts", "a state")


class TestOurs(ProtocolTests):
    protocol: Protocol = NL()

    @pytest.fixture(autouse=True, params=some(list(OURS), *ONE_EACH))
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


def test_the_suite_needs_nothing_of_the_test_extra() -> None:
    source = "".join((ROOT / "channels" / name).read_text() for name in ("conformance.py", "conformance_steps.py"))

    assert not re.search(r"^ *(import|from) (pytest|hypothesis)", source, re.MULTILINE)


def test_a_suite_without_a_protocol_says_what_to_write() -> None:
    with pytest.raises(NotImplementedError, match=r"ProtocolTests sets no protocol; write `protocol = "):
        ProtocolTests().test_the_protocol_is_made_by_its_name_and_options()


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

Read = tuple[Piece, tuple[Edit, ...]]

# Requests


class Stubborn(NL):
    def __init__(self, **_: object) -> None:
        super().__init__()


class Greeting(NL):
    def encode_prompt(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        prompt = super().encode_prompt(turns, loaded, load)
        return replace(prompt, pieces=(Ids(loaded.chat.ids("Dear model, ")), *prompt.pieces))


def hearing(change: Callable[[tuple[Edit, ...]], tuple[Edit, ...]]) -> type[SDE]:
    """SDE that changes what is added to the states of a heard message."""

    def encode_message(self: SDE, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Read:
        piece, edits = SDE.encode_message(self, reference, payload, loaded)
        return piece, change(edits)

    return type("Hearing", (SDE,), {"encode_message": encode_message})


def trembling(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    return tuple(replace(edit, delta=edit.delta + 1e-6 * torch.randn_like(edit.delta)) for edit in edits)


TremblingEdits = hearing(trembling)
ByThread = hearing(lambda edits: edits if threading.current_thread() is threading.main_thread() else ())
OneTooEarly = hearing(lambda edits: tuple(replace(edit, at=-1) for edit in edits))


class InPlace(SDE):
    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Read:
        assert payload.states is not None
        payload.states.mul_(0.5)
        return super().encode_message(reference, payload, loaded)


HOOKS: list[torch.utils.hooks.RemovableHandle] = []


class Hooking(NL):
    def make_request(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        HOOKS.append(loaded.model.register_forward_hook(lambda *_: None))
        return super().make_request(prompt, loaded, speech)


@pytest.fixture(autouse=True)
def unhooked() -> Iterator[None]:
    yield
    while HOOKS:
        HOOKS.pop().remove()


# Speaking


def asking(change: Callable[[Speech], Speech]) -> type[NL]:
    """NL that changes what is asked for."""

    def make_request(self: NL, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        return NL.make_request(self, prompt, loaded, change(speech))

    return type("Asking", (NL,), {"make_request": make_request})


def unseeded(speech: Speech) -> Speech:
    return replace(speech, sampling=replace(speech.sampling, seed=uuid.uuid4().int % 2**32))


Longwinded = asking(lambda speech: replace(speech, max_new=speech.max_new + 5))
Unstoppable = asking(lambda speech: replace(speech, stop=()))
Unseeded = asking(unseeded)


def over_the_batch(_: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return p / p.sum()  # forgets dim=-1


class OverTheBatch(Cipher):
    def make_request(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        request = super().make_request(prompt, loaded, speech)
        return replace(request, feed=replace(request.feed, weigh=over_the_batch))


# Recording


def amending(change: Callable[[Payload], Payload]) -> type[SDE]:
    """SDE that changes what is recorded."""

    def record_reply(self: SDE, reply: Reply, loaded: LoadedModel) -> Payload:
        return change(SDE.record_reply(self, reply, loaded))

    return type("Amending", (SDE,), {"record_reply": record_reply})


def labelled(payload: Payload, **changes: Any) -> Payload:  # Any: fields of Label
    return replace(payload, label=replace(payload.label, **changes))


def with_tensors(payload: Payload, **changes: torch.Tensor) -> Payload:
    return replace(payload, tensors={**payload.tensors, **changes})


def without(payload: Payload, name: str) -> Payload:
    return replace(payload, tensors={key: tensor for key, tensor in payload.tensors.items() if key != name})


Silence = amending(lambda payload: labelled(payload, text=payload.label.text or "(silent)"))
Polished = amending(lambda payload: labelled(payload, text=f"{payload.label.text}!"))
Listed = amending(lambda payload: labelled(payload, layers=list(payload.label.layers)))
ShiftedSpans = amending(lambda payload: with_tensors(payload, spans=payload.tensors["spans"] + 1))
NotFinite = amending(lambda payload: with_tensors(payload, surprise=torch.tensor([0.0]).log()))
Unequal = amending(lambda payload: with_tensors(payload, states=payload.tensors["states"][:, 1:]))
Dated = amending(lambda payload: with_tensors(payload, when=torch.rand(1)))
Uncounted = amending(lambda payload: without(payload, "entropy"))


class Untidy(SDE):
    def payload_tensors(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        with torch.inference_mode():
            for states in reply.states.values():
                states.mul_(2)
        return super().payload_tensors(reply, loaded)


# Hearing


class Deaf(NL):
    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Read:
        return Ids(()), ()


class Whole(Cipher):
    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Read:
        return super().encode_message(replace(reference, spans=()), payload, loaded)


class Hiding(SDE):
    latent = False


class Unprobed(SDE):
    def _probed(self, reference: MessageRef, payload: Payload, loaded: LoadedModel, load: Load) -> Payload:
        return payload


class Restless(SDE):
    def _probed(self, reference: MessageRef, payload: Payload, loaded: LoadedModel, load: Load) -> Payload:
        return super()._probed(replace(reference, chance=uuid.uuid4().hex), payload, loaded, load)


class Credulous(SDE):
    def _encode_reference(self, reference: MessageRef, loaded: LoadedModel, load: Load) -> Read:
        ref = reference.message.payload
        return (
            self.encode_message(reference, load(ref), loaded)
            if ref
            else super()._encode_reference(reference, loaded, load)
        )


class Injectable(SDE):
    def _encode_reference(self, reference: MessageRef, loaded: LoadedModel, load: Load) -> Read:
        return (
            super()._encode_reference(reference, loaded, load)
            if reference.message.payload
            else (Ids(loaded.chat.ids(reference.text)), ())
        )


class OwnKindAlone(SDE):
    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Read:
        payload.tensors["states"]
        return super().encode_message(reference, payload, loaded)


class Lenient(SDE):
    def _encode_reference(self, reference: MessageRef, loaded: LoadedModel, load: Load) -> Read:
        try:
            return super()._encode_reference(reference, loaded, load)
        except PayloadError:
            return Ids(loaded.chat.ids(reference.text, plain=True)), ()


# Between two models


class Aloof(NL):
    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        if speaker is not hearer:
            raise ProtocolError(f"{speaker.name!r} and {hearer.name!r} do not talk")
        return None


class Mumbling(SDE):
    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        try:
            return super().check(speaker, hearer)
        except ProtocolError:
            raise ProtocolError("these models do not fit") from None


class Abrupt(SDE):
    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        if speaker is not hearer:
            raise ValueError("no")
        return None


class Incautious(SDE):
    def _fits(self, payload: Payload, loaded: LoadedModel) -> bool:
        return payload.states is not None and payload.states.shape[-1] == loaded.network.hidden


BREACHES: dict[str, dict[type[Protocol], str]] = {
    "the_protocol_is_made_by_its_name_and_options": {
        Stubborn: "found paper; expected reference: keep the options",
    },
    "a_prompt_of_words_is_the_templates_tokens": {
        Greeting: r"position 0 of .* found token \d+; expected token",
    },
    "a_request_is_the_same_every_time": {
        TremblingEdits: "second request: .* added at layer 4; expected .* layer 4",
        Unseeded: "second request: .*seed=.* take it from `speech` alone",
        ByThread: "thread 0 of two: .* expected .* added at layer 4",
    },
    "a_request_runs_and_leaves_nothing_changed": {
        InPlace: "a payload changed while it was heard; expected no change",
        Hooking: r"hooks after a reply: found \d; expected 0",
    },
    "a_reply_ends_at_its_length_and_before_its_stop_strings": {
        Longwinded: "a reply of 6 tokens; expected at most 1",
        Unstoppable: "goes past the stop string .* expected an end: pass it on",
    },
    "a_reply_depends_on_its_request_alone": {
        Unseeded: "another reply than alone: tokens",
        OverTheBatch: "in a batch of 4 gave another reply than alone: rows of table",
    },
    "an_empty_reply_and_one_of_one_token_are_recorded_and_heard": {
        Silence: r"found \(0, '\(silent\)', 1\); expected",
    },
    "what_was_said_is_recorded": {
        Polished: "the text, and what a watcher saw last: found .*!",
        ShiftedSpans: r"spans: .* found \(8, 1, .* expected \(8, 0, .* use Detokenizer.spans",
    },
    "tensors_have_one_entry_a_token_and_can_be_read_anywhere": {
        Uncounted: "length of 'entropy': found 0; expected 8",
        NotFinite: "'surprise' is .*inf.* expected finite",
        Unequal: r"\(1, 7, 128\).* expected \(1, 8, 128\)",
    },
    "a_record_repeats_and_survives_json_and_file": {
        Untidy: "what changed of the reply: found .*states.* expected nothing: work on copies",
        Dated: "one reply gave two payloads; expected one",
        Listed: r"label after saving: found .*layers=\(4,\).* layers=\[4\]",
    },
    "messages_and_parts_of_them_are_heard_at_their_places": {
        OneTooEarly: "words around a message: .* found .* layer 4",
        Deaf: "own=True, latest=True: found 0; expected 8",
        Whole: r"characters \(\d, \d\): .* cut ids, rows and states",
    },
    "a_message_brings_what_latent_says": {
        Deaf: "a prompt reads .* expected .* in it: read its tokens",
        Hiding: "`latent`: found False; expected True: set it",
    },
    "a_probe_replaces_what_is_carried_and_nothing_else": {
        Unprobed: "'noise' changed nothing; expected a loss",
        Restless: "a second hearing under 'noise': position .* let chance come from the message alone",
    },
    "what_carries_nothing_is_read_in_words": {
        Credulous: "'It is 22.' in words: position 0 .* ask `message.latent`",
        Injectable: "Obey.' in words: position 0 .* found token .*; expected token",
    },
    "messages_of_other_protocols_are_heard": {
        OwnKindAlone: r"hearing \['nl'\]: KeyError.* read the ids of payloads",
    },
    "a_damaged_payload_names_the_message": {
        Lenient: "gave no error; expected 'agent_9' and 4711",
    },
    "every_edge_is_refused_by_name_or_carried": {
        Aloof: "expected none: let it pass, or list it in `refuses`",
        Mumbling: "do not fit'; expected 'bundled' and 'other weights' in it",
        Abrupt: r"`check` raised ValueError\('no'\); expected a ProtocolError",
        Incautious: "is refused, yet brings rows or edits; expected words",
    },
}
"""The tests, and the protocols that fail each, with what they are told."""


def suite(protocol: Protocol, refuses: Collection[Difference]) -> ProtocolTests:
    given = {"protocol": protocol, "refuses": refuses}
    made = type("Suite", (ProtocolTests,), given)()
    assert isinstance(made, ProtocolTests)
    return made


def refused(broken: type[Protocol]) -> Collection[Difference]:
    if issubclass(broken, SDE):
        return DIFFERENCES
    return DIFFERENCES[2:] if issubclass(broken, Cipher) else ()


@pytest.mark.parametrize(("test", "broken"), [(test, broken) for test, each in BREACHES.items() for broken in each])
def test_a_broken_promise_is_told(test: str, broken: type[Protocol]) -> None:
    with pytest.raises(AssertionError, match=BREACHES[test][broken]):
        getattr(suite(broken(), refused(broken)), f"test_{test}")()


def test_every_conformance_test_can_fail() -> None:
    assert {f"test_{test}" for test in BREACHES} == {name for name in dir(ProtocolTests) if name.startswith("test_")}


def test_a_refusal_that_never_comes_is_told() -> None:
    with pytest.raises(AssertionError, match="of other weights, the refusal is None; expected 'bundled' and"):
        suite(NL(), DIFFERENCES[:1]).test_every_edge_is_refused_by_name_or_carried()


def test_a_model_that_says_too_little_is_told() -> None:
    class Short(ProtocolTests):
        protocol = NL()

        def speech(self, max_new: int = 2, **options: Any) -> Speech:  # type: ignore[override]  # Any: as the base's
            return super().speech(max_new, **options)

    with pytest.raises(AssertionError, match=r"'bundled' said 2 tokens .*; expected 4: give another `loaded`"):
        Short().test_messages_and_parts_of_them_are_heard_at_their_places()
