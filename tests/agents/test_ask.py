"""What an act asks for reaches the model: a hooked one as its request, a hosted one in words and plain options."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from sottovoce.agents.ask import CUT, Ask
from sottovoce.agents.convert import in_words
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Turn
from sottovoce.channels.store import PayloadStore
from sottovoce.core.response_format import Form
from sottovoce.graphs.cmd import CMD, create_cmd
from sottovoce.graphs.mad import MAD, create_mad
from sottovoce.models import Ids, Request
from tests.graphs.support import Recording
from tests.support import ids, reciting_loaded, replied, tiny_loaded

TURNS = (Turn("system", ("Be brief.",)), Turn("user", ("What is 14 + 3?",)))
FORM = Form(choices=("yes", "no"))


def call(model: Any, temperature: float | None = None, **more: Any) -> Any:
    return replied(model, Ask("think", TURNS, temperature=temperature, seed=7, **more), round=1, turn=2)


def requested(hears: str, store: PayloadStore, temperature: float | None = None, **more: Any) -> Request:
    model = Recording(protocol=hears, preloaded=tiny_loaded(), store=store, max_tokens=9, seed=1)
    call(model, temperature, **more)
    (request,) = model.requests
    assert isinstance(request, Request)
    return request


def tail(request: Request, n: int) -> tuple[int, ...]:
    """The last ids of a prompt."""
    assert isinstance(request.prompt[-1], Ids)
    return tuple(request.prompt[-1].ids[-n:])


# A hooked model


@pytest.mark.parametrize("protocol", ["nl", "cipher"])
def test_the_prompt_ends_with_the_beginning_which_is_no_part_of_the_reply(protocol: str, store: PayloadStore) -> None:
    begun = ids("Thought 1:")

    request, plain = requested(protocol, store, prefill="Thought 1:"), requested(protocol, store)

    assert tail(request, len(begun)) == begun
    lengths = [sum(map(len, each.prompt)) for each in (request, plain)]
    assert lengths[0] - lengths[1] == len(begun)


def test_a_reply_goes_on_from_its_beginning(store: PayloadStore) -> None:
    model = HookedChatModel(preloaded=reciting_loaded("\nabcdefgh"), store=store, temperature=0.0, max_tokens=3)
    replies = [call(model, prefill=begun) for begun in ("", "\nabc")]
    assert [(reply.begun, reply.text) for reply in replies] == [("", "abc"), ("\nabc", "def")]


@pytest.mark.parametrize("protocol", ["nl", "cipher"])
def test_stops_length_temperature_and_seed_reach_the_request(protocol: str, store: PayloadStore) -> None:
    request = requested(protocol, store, 0.3, stop=("Observation", "\n\n"), max_tokens=5)
    assert (request.stop.texts, request.stop.max_new) == (("Observation", "\n\n"), 5)
    assert (request.sampling.temperature, request.sampling.seed) == (0.3, 7)


def test_what_is_not_asked_for_is_as_the_model_has_it(store: PayloadStore) -> None:
    request = requested("nl", store)
    assert (request.stop.texts, request.stop.max_new, request.form) == ((), 9, None)
    assert request.sampling.temperature == tiny_loaded().sampling.temperature


def test_a_form_reaches_the_request(store: PayloadStore) -> None:
    assert requested("nl", store, response_format=FORM).form == FORM
    assert requested("sde", store, response_format=Form.of_object("a"), max_tokens=20).form == Form.of_object("a")


@pytest.mark.parametrize(("protocol", "feed"), [(None, "mean"), ("nl", "token"), ("cipher", "mean")])
def test_who_hears_by_one_protocol_may_answer_by_another(protocol: str | None, feed: str, store: PayloadStore) -> None:
    assert requested("cipher", store, 1.0, protocol=protocol).feed.kind == feed


def test_a_reply_whose_form_is_complete_at_the_limit_is_whole(store: PayloadStore) -> None:
    model = HookedChatModel(preloaded=reciting_loaded("\nabcdefgh"), store=store, temperature=0.0, max_tokens=3)
    reply = call(model, response_format=Form(pattern="[a-z]+", unknown=False))
    assert (reply.text, reply.notes[:1], reply.cut) == ("abc", (CUT,), False)


@pytest.mark.parametrize(("compat", "form"), [("paper", FORM), ("reference", None)])
def test_a_reply_in_words_follows_the_published_code_where_the_protocol_does(
    compat: str, form: Form | None, store: PayloadStore
) -> None:
    """The published code constrains nothing."""
    options = {"compat": compat}
    model = Recording(protocol="cipher", options=options, preloaded=tiny_loaded(), store=store, max_tokens=9)
    call(model, protocol="nl", response_format=FORM)
    assert model.requests[0].form == form


# A hosted one


def hosted(temperature: float | None = None, **more: Any) -> Any:
    model = ScriptedChatModel(["17"], hooked=False)
    call(model, temperature, **more)
    (asked,) = model.calls
    return asked


def test_a_hosted_model_is_told_what_every_provider_takes_and_reads_the_beginning_last() -> None:
    asked = hosted(0.3, prefill="Thought 1:", stop=("Observation",), max_tokens=5, protocol="nl", response_format=FORM)
    assert asked.options == {"temperature": 0.3, "stop": ["Observation"], "max_tokens": 5}
    assert asked.turns == (Turn("system", ("Be brief.",)), Turn("user", ("What is 14 + 3?\n\nThought 1:",)))


def test_a_beginning_stands_at_the_end_of_the_last_turn_whoever_s_it_is() -> None:
    assert in_words(TURNS, "So") == [SystemMessage("Be brief."), HumanMessage("What is 14 + 3?\n\nSo")]
    assert in_words(TURNS[:1], "So") == [SystemMessage("Be brief.\n\nSo")]
    assert in_words(TURNS) == [SystemMessage("Be brief."), HumanMessage("What is 14 + 3?")]


OPEN = '{"Whether there is a preference": "No", "Supported Side": "", "Reason": "", "debate_answer": ""}'


@pytest.mark.parametrize("hooked", [True, False])
def test_a_scheme_s_temperature_reaches_hosted_models_and_one_of_the_settings_goes_before_it(hooked: bool) -> None:
    cases: Any = ((MAD(rounds=1), create_mad, 0.0), (CMD(agents=2, rounds=1), create_cmd, 0.25))
    for settings, create, expected in cases:
        for given, found in (({}, expected), ({"temperature": [0.7]}, 0.7)):
            replies = {"moderator": [OPEN], "judge": ["22", '{"Reason": "", "debate_answer": "22"}']}
            model = ScriptedChatModel({**replies, "agent_2": ["21"], "": ["22"] * 9}, hooked=hooked)
            create(settings.model_copy(update=given), models=model).compile().invoke({"question": "?"})
            assert {asked.options["temperature"] for asked in model.calls} == {found}
            assert {asked.agent for asked in model.calls} == {*settings.names()}
