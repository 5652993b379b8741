"""Words first: which messages are heard with what lies under them, by the votes and the entropy on the board."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sottovoce.agents.ask import Ask
from sottovoce.agents.local import LocalModel
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.store import PayloadRef, text_digest
from sottovoce.core.errors import UsageError
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.hearing import check_escalation, escalated, heard_in, notes_on
from sottovoce.nodes.state import Discussion
from sottovoce.prompts.render import Prompts


def run(**settings: Any) -> RunContext[Debate]:
    return RunContext(Debate(**{"protocol": "sde", **settings}), {}, Prompts())


def said(agent: str, text: str, entropy: float = 0.1, round: int = 0) -> Message:
    ref = PayloadRef("sde", "0" * 64, text_digest(text), tokens=4, nbytes=9)
    act = "revise" if round else "answer"
    return Message(agent, round, act, text, payload=ref, stats={"mean_entropy": entropy})


def state(*messages: Message, round: int = 1) -> Discussion:
    plain = {"question": "What is 1 + 1?", "kind": "number", "board": list(messages), "epochs": [], "round": round}
    return cast(Discussion, plain)


def plain(run: RunContext[Debate], state: Discussion, *heard: MessageRef) -> list[bool]:
    (turn,) = escalated(run, state, (Turn("user", ("Others said: ", *heard)),))
    return [part.plain for part in turn.parts if isinstance(part, MessageRef)]


class Reader:
    """A model that hears 512 bytes of what is not heard in words."""

    def heard_bytes(self, reference: MessageRef) -> float:
        return 0.0 if reference.plain else 512.0


ONE, SAME, OTHER, NONE = (said("agent_2", f"The answer is {each}.") for each in ("2", "2.0", "3", "a guess"))
MINE = said("agent_1", "So the answer is 2.")


@pytest.mark.parametrize(("theirs", "words"), [(ONE, True), (SAME, True), (OTHER, False), (NONE, False)])
def test_more_than_words_is_heard_of_a_round_whose_votes_differ(theirs: Message, words: bool) -> None:
    assert plain(run(escalate="disagreement"), state(MINE, theirs), MessageRef(theirs)) == [words]


def test_a_message_is_heard_in_all_later_rounds_as_in_the_first() -> None:
    later = said("agent_1", "The answer is 3.", round=1), said("agent_2", "The answer is 3.", round=1)
    board = state(MINE, OTHER, *later, round=2)

    assert plain(run(escalate="disagreement"), board, MessageRef(OTHER, latest=False), MessageRef(later[1])) == [
        False,
        True,
    ]


@pytest.mark.parametrize(("above", "words"), [(0.05, False), (0.1, True), (2, True)])
def test_more_than_words_is_heard_of_a_message_above_the_threshold(above: float, words: bool) -> None:
    settings = run(escalate="uncertainty", escalate_above=above)

    assert plain(settings, state(MINE, OTHER), MessageRef(OTHER)) == [words]


def test_own_messages_and_all_messages_by_default_are_heard_as_ever() -> None:
    assert plain(run(escalate="disagreement"), state(MINE, ONE), MessageRef(MINE, own=True)) == [False]
    assert plain(run(), state(MINE, ONE), MessageRef(ONE)) == [False]


def test_who_heard_whom_how_is_noted_with_the_reply() -> None:
    heard = (
        MessageRef(ONE),
        MessageRef(said("agent_3", "3"), plain=True),
        MessageRef(MINE, own=True),
        MessageRef(OTHER, latest=False),
    )
    ask, reader = Ask("revise", (Turn("user", heard),)), cast(LocalModel, Reader())

    found = heard_in(run(), "agent_1", reader, ask)

    told = [(each["place"].agent, each["form"], each["new"], each["nbytes"]) for each in found]
    assert told == [
        ("agent_2", "payload", True, 512),
        ("agent_3", "words", True, len("3")),
        ("agent_2", "payload", False, 512),
    ]
    assert notes_on(run(escalate="disagreement"), found) == ("heard agent_2 by sde", "heard agent_3 in words")
    assert notes_on(run(), found) == ()
    assert {each["form"] for each in heard_in(run(), "agent_1", None, ask)} == {"words"}
    assert heard_in(run(control="own"), "agent_1", reader, ask) == []


def test_a_part_and_another_payload_under_a_probe_are_heard_as_such() -> None:
    refs = MessageRef(ONE, spans=((0, 3),)), MessageRef(OTHER, chance="7")
    ask = Ask("revise", (Turn("user", refs),))

    found = heard_in(run(), "agent_1", cast(LocalModel, Reader()), ask)

    assert [(each["form"], each["part"]) for each in found] == [("payload", True), ("replaced", False)]


def test_escalation_that_means_nothing_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="escalate is 'disagreement', but protocol 'nl' sends only text"):
        check_escalation(run(protocol="nl", escalate="disagreement"))
    with pytest.raises(UsageError, match="escalate is 'uncertainty' and escalate_above None; set uncertainty with a"):
        run(escalate="uncertainty")
    assert check_escalation(run()) == []


def test_what_is_heard_as_words_survives_json() -> None:
    assert MessageRef.from_dict(MessageRef(ONE, plain=True).to_dict()) == MessageRef(ONE, plain=True)
