"""An agent says something, and again as often as it may where it cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult

from sottovoce.agents.convert import from_langchain
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.parameters import Refused
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.store import PayloadRef, text_digest
from sottovoce.core.errors import ContextOverflow
from sottovoce.core.response_format import Form
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.single import Single
from sottovoce.models import assemble
from sottovoce.models.loaded import CAUTIOUS, USUAL
from sottovoce.nodes.act import node
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import lacks_answer, say
from sottovoce.nodes.state import Discussion, Update
from sottovoce.prompts.kinds import KINDS, OURS
from sottovoce.prompts.render import Prompts
from tests.nodes.support import Run, ask, framed, state_of
from tests.support import tiny_model, tiny_tokenizer
from tests.tables import each_row

ACTION = "Action: pass"


def unless_action(message: Message) -> str:
    text = message.full_text
    return "" if text.startswith("Action:") else f"{text!r} is no action"


def said(
    *replies: str, board: Sequence[Message] = (), begun: str = "", model: Any = ScriptedChatModel, **how: Any
) -> tuple[list[Message], Any]:
    """The messages of one act whose model gives these replies, and the model."""

    async def act(run: Run, state: Discussion, agent: Agent) -> Update:
        question = ask("Act.", prefill=begun)
        return {"board": await say(run, state, agent, question, validate=unless_action, requested="Action: ...", **how)}

    made = model([*replies])
    update = node(framed(made).contexts, act, "zoe", "zoe").invoke(state_of(board=[*board]))
    return [Message.from_dict(each) for each in update["board"]], made


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_it_is_asked_again_as_often_as_repairs_are_left_and_all_attempts_are_kept(repairs: int) -> None:
    replies = [f"Hm {i}" for i in range(repairs + 1)]

    messages, model = said(*replies, retries=repairs)

    assert [message.text for message in messages] == replies
    assert [message.attempt for message in messages] == list(range(repairs + 1))
    assert [message.notes for message in messages] == [
        *((f"asked again: '{text}' is no action",) for text in replies[:-1]),
        (f"cannot be read: '{replies[-1]}' is no action",),
    ]
    assert len({asked.options["seed"] for asked in model.calls}) == repairs + 1


class Cut(ScriptedChatModel):
    """Is cut at its limit as long as its replies begin so, and has no room for more than `room` tokens."""

    room: int = 10**6

    def _generate(self, *args: Any, max_tokens: int = 512, **more: Any) -> ChatResult:
        if max_tokens > self.room:
            raise ContextOverflow("the prompt has 9 tokens")
        result = super()._generate(*args, max_tokens=max_tokens, **more)
        message = result.generations[0].message
        if message.text.startswith("Cut"):
            message.response_metadata["finish_reason"] = "length"
        return result


def lengths(model: ScriptedChatModel) -> list[int]:
    return [call.options["max_tokens"] for call in model.calls]


@pytest.mark.parametrize("retries", [1, 20])
def test_a_reply_that_was_cut_is_asked_for_once_more_with_twice_the_length(retries: int) -> None:
    # Seen: WhoDunit asked twenty times, with "There was no JSON object", and was cut twenty times.
    messages, model = said("Cut a", "Cut b", ACTION, model=Cut, retries=retries)

    assert [message.text for message in messages] == ["Cut a", "Cut b"] and lengths(model) == [512, 1024]
    assert [message.notes[-1] for message in messages] == [
        "asked again: it was cut off at 512 tokens", "cannot be read: it was cut off at 1024 tokens",
    ]  # fmt: skip
    assert "This cannot be read: it was cut off at 512 tokens." in model.calls[-1].text


def test_after_a_whole_reply_it_is_asked_on_as_often_as_it_may() -> None:
    messages, model = said("Hm", "Cut a", "Hm", ACTION, model=Cut, retries=5)

    assert messages[-1].text == ACTION and lengths(model) == [512, 512, 1024, 1024]


def test_without_room_for_twice_the_length_it_is_asked_for_the_same() -> None:
    messages, model = said("Cut a", ACTION, model=partial(Cut, room=600))

    assert messages[-1].text == ACTION and lengths(model) == [512, 512]


@pytest.mark.parametrize(("reply", "why"), [("", "it is empty"), ("  \n", "it is empty")])
def test_an_empty_reply_of_a_hosted_model_is_named(reply: str, why: str) -> None:
    messages, _ = said(reply, ACTION, model=partial(ScriptedChatModel, hooked=False))

    assert messages[0].notes == (why, f"asked again: {why}")


@pytest.mark.parametrize("at", [0, 1, 3])
def test_it_is_asked_no_more_once_it_can_be_read(at: int) -> None:
    messages, model = said(*["Hm"] * at, ACTION, "never asked for", retries=3)

    assert len(messages) == len(model.calls) == at + 1
    assert (messages[-1].text, messages[-1].notes) == (ACTION, ())


def test_each_repair_reads_all_attempts_before_it_with_what_was_wrong_and_the_form() -> None:
    _, model = said("a", "b", "c", ACTION, retries=3)

    last = model.calls[-1].turns
    assert [turn.role for turn in last] == ["user", *["assistant", "user"] * 3]
    assert [turn.parts[0].message.attempt for turn in last[1::2] if isinstance(turn.parts[0], MessageRef)] == [0, 1, 2]
    assert all(part.own for turn in last for part in turn.parts if isinstance(part, MessageRef))
    assert [f"'{text}' is no action" in turn.text for text, turn in zip("abc", last[2::2], strict=True)] == [True] * 3
    assert "Action: ..." in last[-1].text


@pytest.mark.parametrize("retries", [0, 2])
def test_a_reply_that_still_cannot_be_read_is_published_with_a_note(retries: int) -> None:
    messages, _ = said(*["Hm"] * (retries + 1), retries=retries)

    assert len(messages) == retries + 1
    assert messages[-1].notes == ("cannot be read: 'Hm' is no action",)


def test_a_reply_is_read_with_the_beginning_that_it_was_given() -> None:
    messages, _ = said(" pass", begun="Action:")

    assert [(message.begun, message.text, message.full_text) for message in messages] == [
        ("Action:", " pass", "Action: pass")
    ]


def test_a_model_that_repeats_the_beginning_says_it_once() -> None:
    ((message,), _) = said("Action: pass", begun="Action:")

    assert (message.text, message.full_text) == (" pass", "Action: pass")


def test_a_local_model_that_repeats_the_beginning_keeps_its_payload() -> None:
    """Its text was cut as a hosted model's is, and a payload of another text counts as edited: it was heard no more."""
    text = "Action: pass"
    ref = PayloadRef("sde", "0" * 64, text_digest(text), tokens=4, nbytes=9)
    reply = AIMessage(text, additional_kwargs={"payload": ref.to_dict()})

    message = from_langchain(reply, ask("Act.", prefill="Action:"))

    assert (message.text, message.latent) == (text, ref)


@each_row(
    ("kind", "text", "complaint"),
    [
        ("number", "22", ""),
        ("number", "The answer is 22.", ""),
        ("number", "So it makes 22 cups then.", "it holds no number"),
        ("number", "The answer is unknown.", ""),
        ("yes_no", "Hm.", "it holds no yes or no"),
    ],
)
def test_a_text_without_an_answer_is_complained_of_unless_it_says_that_it_is_unknown(
    kind: str, text: str, complaint: str
) -> None:
    assert lacks_answer({"question": "?", "kind": kind})(Message("zoe", 0, "talk", text)) == complaint


@pytest.mark.parametrize("text", ["Answer: 22\nSo", "22", "The answer is unknown."])
def test_a_reply_that_was_cut_states_nothing(text: str) -> None:
    message = Message("zoe", 0, "talk", text, cut=True)

    assert lacks_answer({"question": "?", "kind": "number"})(message) == "it holds no number"


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("text", ["", " \n", "-", "\x17", "\ufffd"])
def test_a_text_without_a_word_is_complained_of_whatever_the_kind(kind: str, text: str) -> None:
    """A run ended in an IndexError where a model said nothing."""
    question: Question = {"question": "How many?", "kind": kind, "choices": ["red", "blue"]}

    assert lacks_answer(question)(Message("zoe", 0, "talk", text)).startswith("it holds no ")


FIELDS = Form.of_object("answer")
LETTERS, YES_NO, NUMBER = (KINDS[kind].grammar(["x", "y"]) for kind in ("option", "yes_no", "number"))
GUIDED_ACTION = Form(pattern=r"(Search|Finish)\[[^\]]+\]", after="Action:")


def kept(form: Form | None, **settings: Any) -> bool:
    found = Agent("zoe", Debate(**settings), ScriptedChatModel(), Prompts(), Refused()).constraint(form)
    assert found in (form, None)
    return found is not None


@pytest.mark.parametrize(("guide", "number"), [("auto", False), ("on", True)])
def test_fields_choices_and_actions_are_kept_and_numbers_where_it_is_on(guide: str, number: bool) -> None:
    assert all(kept(form, guide=guide) for form in (FIELDS, LETTERS, YES_NO, GUIDED_ACTION))
    assert kept(NUMBER, guide=guide) == number


def test_free_text_stays_free() -> None:
    assert not kept(KINDS["text"].grammar([]), guide="on")


def test_who_is_not_in_the_settings_comes_last() -> None:
    agents = [Agent(name, Debate(), ScriptedChatModel(), Prompts(), Refused()) for name in ("agent_2", "guest")]
    assert [agent.order for agent in agents] == [1, 2]


class Warm(FakeListChatModel):
    """A hosted model that was made with a temperature."""

    temperature: float = 0.9


@pytest.mark.parametrize(("settings", "found"), [({}, None), ({"temperature": [0.3]}, 0.3)])
def test_a_hosted_model_is_sent_a_temperature_of_the_run_and_not_its_own(
    settings: dict[str, Any], found: float | None
) -> None:
    agent = Agent("agent_1", Debate(**settings), Warm(responses=["22"]), Prompts(), Refused())
    assert agent.temperature == agent.temperature_in_words == found


def test_an_agent_of_means_speaks_in_words_at_the_temperature_of_words() -> None:
    network = tiny_model()
    assert network.generation_config is not None
    network.generation_config.temperature = None
    model = HookedChatModel(protocol="cipher", preloaded=assemble("unnamed", network, tiny_tokenizer()))
    agent = Agent("agent_1", Single(), model, Prompts(), Refused())
    assert (agent.temperature, agent.temperature_in_words) == (CAUTIOUS, USUAL)


@pytest.mark.parametrize("settings", [{"guide": "off"}, {"guide": "on", "compat": "reference"}])
def test_nothing_is_kept_where_it_is_off_and_under_the_published_code(settings: dict[str, Any]) -> None:
    assert not any(kept(form, **settings) for form in (FIELDS, LETTERS, YES_NO, NUMBER, GUIDED_ACTION))
