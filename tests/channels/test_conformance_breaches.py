"""Protocols that each break one promise: the conformance test of that promise must say so."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.conformance import ProtocolTests
from sottovoce.channels.conformance.loaded_models import DIFFERENCES, Difference, bundled
from sottovoce.channels.message import Heard, Turn
from sottovoce.channels.nl import NL
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Load, Prompt, Protocol, Speech
from sottovoce.channels.sde import SDE
from sottovoce.errors import PayloadError, ProtocolError
from sottovoce.models import Edit, Ids, LoadedModel, Piece, Reply, Request, Rows

Read = tuple[Piece, tuple[Edit, ...]]

# Lowering


class Nameless(NL):
    name = "my protocol"


@dataclass(frozen=True)
class Stubborn(NL):
    def __post_init__(self) -> None:
        object.__setattr__(self, "compat", "paper")


class Greeting(NL):
    def hear(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        prompt = super().hear(turns, loaded, load)
        return replace(prompt, pieces=(Ids(loaded.chat.ids("Dear model, ")), *prompt.pieces))


class StopOfLower(NL):
    def lower(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load, speech: Speech) -> Request:
        return super().lower(turns, loaded, load, replace(speech, stop=("####",)))


class Trembling(Cipher):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        piece, edits = super().read(heard, payload, loaded)
        return Rows(piece.rows + 1e-6 * torch.randn_like(piece.rows)) if isinstance(piece, Rows) else piece, edits


class TremblingEdits(SDE):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        piece, edits = super().read(heard, payload, loaded)
        return piece, tuple(replace(edit, delta=edit.delta + 1e-6 * torch.randn_like(edit.delta)) for edit in edits)


class ByThread(SDE):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        piece, edits = super().read(heard, payload, loaded)
        return piece, edits if threading.current_thread() is threading.main_thread() else ()


class InPlace(SDE):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        assert payload.states is not None
        payload.states.mul_(0.5)
        return super().read(heard, payload, loaded)


class Unrunnable(NL):
    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        return super().speak(prompt, loaded, replace(speech, stop=("",)))


HOOKS: list[torch.utils.hooks.RemovableHandle] = []


class Hooking(NL):
    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        HOOKS.append(loaded.model.register_forward_hook(lambda *_: None))
        return super().speak(prompt, loaded, speech)


@pytest.fixture(autouse=True)
def unhooked() -> Iterator[None]:
    yield
    while HOOKS:
        HOOKS.pop().remove()


# Speaking


class Longwinded(NL):
    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        return super().speak(prompt, loaded, replace(speech, max_new=speech.max_new + 5))


class Unstoppable(NL):
    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        return super().speak(prompt, loaded, replace(speech, stop=()))


class Unseeded(NL):
    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        seeded = replace(speech.sampling, seed=uuid.uuid4().int % 2**32)
        return super().speak(prompt, loaded, replace(speech, sampling=seeded))


def over_the_batch(_: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    return p / p.sum()  # forgets dim=-1


class OverTheBatch(Cipher):
    def speak(self, prompt: Prompt, loaded: LoadedModel, speech: Speech) -> Request:
        request = super().speak(prompt, loaded, speech)
        return replace(request, feed=replace(request.feed, weigh=over_the_batch))


# Recording


@dataclass(frozen=True)
class Amended(SDE):
    """Changes what is recorded."""

    def amended(self, payload: Payload) -> Payload:
        return payload

    def record(self, reply: Reply, loaded: LoadedModel) -> Payload:
        return self.amended(super().record(reply, loaded))

    @staticmethod
    def labelled(payload: Payload, **changes: Any) -> Payload:  # Any: fields of Label
        return replace(payload, label=replace(payload.label, **changes))


class Silence(Amended):
    def amended(self, payload: Payload) -> Payload:
        return self.labelled(payload, text=payload.label.text or "(silent)")


class WithoutTheFirst(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={name: tensor[1:] for name, tensor in payload.tensors.items()})


class Anonymous(Amended):
    def amended(self, payload: Payload) -> Payload:
        return self.labelled(payload, model="a model")


class Polished(Amended):
    def amended(self, payload: Payload) -> Payload:
        return self.labelled(payload, text=f"{payload.label.text}!")


class ShiftedSpans(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={**payload.tensors, "spans": payload.tensors["spans"] + 1})


class Uncounted(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={name: each for name, each in payload.tensors.items() if name != "entropy"})


class NotFinite(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={**payload.tensors, "surprise": torch.tensor([0.0]).log()})


class Doubled(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={**payload.tensors, "surprise": torch.zeros(3, dtype=torch.float64)})


class Halved(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={**payload.tensors, "states": payload.tensors["states"].half()})


class Unequal(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={**payload.tensors, "states": payload.tensors["states"][:, 1:]})


class Untidy(SDE):
    def carry(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        with torch.inference_mode():
            for states in reply.states.values():
                states.mul_(2)
        return super().carry(reply, loaded)


class Dated(Amended):
    def amended(self, payload: Payload) -> Payload:
        return replace(payload, tensors={**payload.tensors, "when": torch.rand(1)})


@dataclass(frozen=True, eq=False)
class RichPayload(Payload):
    extra: dict[str, float] = field(default_factory=dict)


class Rich(Amended):
    def amended(self, payload: Payload) -> Payload:
        return RichPayload(payload.label, payload.tensors, {"confidence": 0.5})


class Listed(Amended):
    def amended(self, payload: Payload) -> Payload:
        return self.labelled(payload, layers=list(payload.label.layers))


# Hearing


class OneTooEarly(SDE):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        piece, edits = super().read(heard, payload, loaded)
        return piece, tuple(replace(edit, at=-1) for edit in edits)


class BeforeThePrompt(SDE):
    def hear(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        prompt = super().hear(turns, loaded, load)
        return replace(prompt, edits=tuple(replace(edit, at=-3) for edit in prompt.edits))


class Deaf(NL):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        return Ids(()), ()


class AllAtTheFirst(SDE):
    def hear(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        prompt = super().hear(turns, loaded, load)
        first = min((edit.at for edit in prompt.edits), default=0)
        return replace(prompt, edits=tuple(replace(edit, at=first) for edit in prompt.edits))

    inject = "all"


class Whole(Cipher):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        return super().read(replace(heard, span=None), payload, loaded)


class StatesOfTheStart(SDE):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        piece, edits = super().read(heard, payload, loaded)
        states = payload.states
        return piece, tuple(replace(edit, delta=states[0, : len(edit.delta)]) for edit in edits if states is not None)


class Forgetful(NL):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        return (Ids(()), ()) if heard.own else super().read(heard, payload, loaded)


class Pretending(NL):
    latent = True


class Hiding(SDE):
    latent = False


class Credulous(SDE):
    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> Read:
        ref = heard.message.payload
        return self.read(heard, load(ref), loaded) if ref else super()._in(heard, loaded, load)


class WithoutWords(SDE):
    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> Read:
        return super()._in(heard, loaded, load) if heard.message.payload else (Ids(()), ())


class Injectable(SDE):
    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> Read:
        return super()._in(heard, loaded, load) if heard.message.payload else (Ids(loaded.chat.ids(heard.text)), ())


class OwnKindAlone(SDE):
    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        payload.tensors["states"]
        return super().read(heard, payload, loaded)


class Lenient(SDE):
    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> Read:
        try:
            return super()._in(heard, loaded, load)
        except PayloadError:
            return Ids(loaded.chat.ids(heard.text, plain=True)), ()


class Curt(SDE):
    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> Read:
        if heard.message.latent:
            load(heard.message.latent)
        return super()._in(heard, loaded, load)


class LatentInLowerAlone(SDE):
    def hear(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load) -> Prompt:
        return replace(super().hear(turns, loaded, load), edits=())

    def lower(self, turns: Sequence[Turn], loaded: LoadedModel, load: Load, speech: Speech) -> Request:
        return self.speak(super().hear(turns, loaded, load), loaded, speech)


# Between two models


class Lonely(NL):
    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        raise ProtocolError(f"{speaker.name!r} and {hearer.name!r} do not talk")


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


class RowsOfTheSpeaker(Cipher):
    def carry(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        return {"rows.own": reply.rows[loaded.table.key]}

    def read(self, heard: Heard, payload: Payload, loaded: LoadedModel) -> Read:
        return Rows(payload.tensors["rows.own"]), ()


class Incautious(SDE):
    def _fits(self, payload: Payload, loaded: LoadedModel) -> bool:
        return payload.states is not None and payload.states.shape[-1] == loaded.network.hidden


class OneVocabulary(NL):
    def _in(self, heard: Heard, loaded: LoadedModel, load: Load) -> Read:
        ref = heard.message.latent
        return self.read(heard, load(ref), loaded) if ref else super()._in(heard, loaded, load)


BREACHES: list[tuple[type[Protocol], str, str]] = [
    (Nameless, "the_protocol_says_what_it_is", "Nameless has the name 'my protocol'; expected one word"),
    (Stubborn, "both_choices_of_compat_give_requests_that_run", "compat='reference' became 'paper'; keep the field"),
    (Greeting, "a_prompt_of_words_is_the_templates_tokens", "position 0 .* holds token .*; expected .* token"),
    (StopOfLower, "lower_is_hear_then_speak", "texts=\\('####',\\).* take it from `speech` alone"),
    (Trembling, "equal_prompts_give_equal_requests", "second lowering .* holds embedding row .*; expected .* row"),
    (TremblingEdits, "equal_prompts_give_equal_requests", "second lowering reads otherwise .* delta .* at layer 4"),
    (Unseeded, "equal_prompts_give_equal_requests", "seed=.* take it from `speech` alone"),
    (ByThread, "the_thread_makes_no_difference", "one of two threads reads otherwise .* added at layer 4"),
    (InPlace, "lowering_changes_neither_message_nor_payload", "its payload changed while it was heard"),
    (Unrunnable, "a_request_runs_and_its_positions_count", "the engine refused a request: a stop string is empty"),
    (Hooking, "a_request_leaves_no_hook", r"\d hooks stay on the model"),
    (Longwinded, "no_reply_is_longer_than_max_new", "a reply of 6 tokens; expected at most 1"),
    (Unstoppable, "a_stop_string_ends_the_message_and_is_no_part_of_it", "pass `speech.stop` on"),
    (Unseeded, "the_same_seed_gives_the_same_reply", "one seed gave two replies: tokens"),
    (OverTheBatch, "company_changes_nothing", "in a batch of 4 gave another reply than alone: rows of table"),
    (Polished, "what_a_watcher_sees_is_the_message", "a watcher saw"),
    (Silence, "an_empty_reply_is_recorded_and_heard_without_a_trace", r"no token was recorded as '\(silent\)'"),
    (WithoutTheFirst, "a_reply_of_one_token_is_recorded_and_heard", "one token was recorded as 0"),
    (Anonymous, "the_label_says_who_spoke_and_how", "the label says .*'a model'.* expected .*'bundled'"),
    (Polished, "text_and_tokens_are_those_of_the_reply", "but its tokens decode to"),
    (WithoutTheFirst, "text_and_tokens_are_those_of_the_reply", "were recorded of"),
    (ShiftedSpans, "spans_cover_the_text_in_order", "do not cover"),
    (Uncounted, "every_token_has_its_numbers", "'entropy' has None entries for 8 tokens"),
    (NotFinite, "tensors_are_finite_and_on_the_cpu", "'surprise' holds values that are not finite"),
    (Doubled, "tensors_are_finite_and_on_the_cpu", "'surprise' is float64"),
    (Halved, "what_is_carried_is_in_the_models_dtype_and_one_a_token", "'states' is .*float16.* expected .*float32"),
    (Unequal, "what_is_carried_is_in_the_models_dtype_and_one_a_token", r"\(1, 7, 128\).* expected \(\(1, 8, 128\)"),
    (Untidy, "recording_changes_nothing_of_the_reply", "recording changed a tensor of the reply"),
    (Dated, "recording_changes_nothing_of_the_reply", "two different payloads"),
    (Rich, "a_payload_survives_its_file_to_the_bit", "the payload is a RichPayload; expected a Payload itself"),
    (Listed, "a_payload_survives_its_file_to_the_bit", "came back as Label"),
    (Listed, "a_message_is_plain_json", "came back from JSON as"),
    (OneTooEarly, "a_message_is_heard_between_the_words_around_it", "the words before a heard message changed"),
    (BeforeThePrompt, "a_message_is_heard_between_the_words_around_it", "an edit covers positions -3 to 5"),
    (Deaf, "a_message_is_heard_between_the_words_around_it", "8 tokens are heard at 0 positions"),
    (Deaf, "a_prompt_reads_as_its_text", "is not to be read in the prompt"),
    (AllAtTheFirst, "several_messages_are_each_heard_at_their_place", "heard otherwise together than each alone"),
    (
        Whole,
        "of_a_part_its_tokens_alone_are_heard",
        r"characters \(\d, \d\) of a message are not heard as their tokens",
    ),
    (StatesOfTheStart, "of_a_part_its_tokens_alone_are_heard", "cut ids, rows and states alike"),
    (Forgetful, "own_and_older_messages_are_heard_too", "8 tokens are heard at 0 positions with own=True"),
    (Pretending, "a_latent_message_brings_more_than_its_words", "brings neither rows nor edits; set it to False"),
    (Hiding, "a_latent_message_brings_more_than_its_words", "brings rows or edits; set it to True"),
    (Credulous, "an_edited_message_is_read_in_words", "'It is 3.' is not read in words"),
    (WithoutWords, "a_message_without_payload_is_read_in_words", "'It is 22.' is not read in words"),
    (Injectable, "words_of_others_open_no_turn", "special tokens into a prompt; expected characters"),
    (OwnKindAlone, "messages_of_other_protocols_are_heard", "breaks on a message of 'nl': KeyError"),
    (Lenient, "a_missing_or_damaged_payload_names_the_message", "was passed over"),
    (Curt, "a_missing_or_damaged_payload_names_the_message", "names neither agent 'agent_9' nor round 4711"),
    (LatentInLowerAlone, "a_judge_hears_by_it_and_speaks_in_words", "reads otherwise than `lower`"),
    (Lonely, "one_model_on_both_sides_is_never_refused", "`check` refuses one model on both sides"),
    (Lonely, "every_refused_edge_is_declared_and_named", "if it must, list it in `refuses`"),
    (Mumbling, "every_refused_edge_is_declared_and_named", "must name 'bundled' and 'other weights'"),
    (
        Abrupt,
        "every_refused_edge_is_declared_and_named",
        r"`check` raised ValueError\('no'\); expected a ProtocolError",
    ),
    (RowsOfTheSpeaker, "an_edge_that_passes_runs_from_end_to_end", r"shape \(4, 128\); 'other shape' reads \(n, 96\)"),
    (Incautious, "across_a_refused_edge_a_message_is_read_in_words", "yet a message brings rows or edits there"),
    (OneVocabulary, "another_vocabulary_never_reads_the_speakers_ids", "ids mean nothing across vocabularies"),
]


def suite(protocol: Protocol, refuses: Collection[Difference]) -> ProtocolTests:
    given = {"protocol": protocol, "refuses": refuses, "preloaded": bundled()}
    made = type("Suite", (ProtocolTests,), given)()
    assert isinstance(made, ProtocolTests)
    return made


def refused(broken: type[Protocol]) -> Collection[Difference]:
    if issubclass(broken, SDE):
        return DIFFERENCES
    return DIFFERENCES[2:] if issubclass(broken, Cipher) else ()


@pytest.mark.parametrize(
    ("broken", "test", "told"), BREACHES, ids=[f"{broken.__name__}-{test}" for broken, test, _ in BREACHES]
)
def test_a_broken_promise_is_told(broken: type[Protocol], test: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        getattr(suite(broken(), refused(broken)), f"test_{test}")()


def test_every_conformance_test_can_fail() -> None:
    there = {name.removeprefix("test_") for name in dir(ProtocolTests) if name.startswith("test_")}

    assert {test for _, test, _ in BREACHES} == there


def test_a_refusal_that_never_comes_is_told() -> None:
    with pytest.raises(AssertionError, match="lists 'other weights', but `check` lets it pass"):
        suite(NL(), DIFFERENCES[:1]).test_every_refused_edge_is_declared_and_named()


def test_a_model_that_says_too_little_is_told() -> None:
    class Short(ProtocolTests):
        protocol = NL()

        def speech(self, max_new: int = 2, **options: Any) -> Speech:  # Any: as the base takes them
            return super().speech(max_new, **options)

    with pytest.raises(
        AssertionError, match=r"'bundled' said 2 tokens .* the tests need 4: give another `loaded model`"
    ):
        Short().test_a_message_is_heard_between_the_words_around_it()
