"""GovSim as a graph: who acts when, who is told what, what is heard, harvests, resets, and how a game ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.environments.govsim.fishery import Game, World
from sottovoce.graphs.govsim import GovSim, create_govsim, draw_games
from sottovoce.models import Rows
from sottovoce.nodes.watch import Intervention
from tests.environments.players import Player, free_rider, greedy, sustainable
from tests.graphs.support import Recording, board, lonely_loaded
from tests.tables import some

KEYS = ["board", "decision", "world", "game", "settings", "epochs", "interventions"]
LAKE = re.compile(r"It is month (\d+)\. The lake holds (\d+) tons")
SAID = {
    "talk": "Say: {agent} says so in round {round}.\nDone: no\nNext: nobody",
    "summarise": "The talk of round {round} came to this.",
    "limit": "Answer: 10 tons",
    "reflect": "Plan: {agent} plans in round {round}.\nRemember: this.",
    "wish": "{agent} thinks in round {round}.\nAnswer: 10 tons",
}


class ByRule(ScriptedChatModel):
    """Wishes as players by rule do, and says what it was given to say; of several texts for an act the first left."""

    players: dict[str, Player] = {}  # noqa: RUF012  # a pydantic field, copied for each model
    says: dict[tuple[str, str], list[str]] = {}  # noqa: RUF012  # as above

    def _next(self, agent: str) -> str:
        asked = self._recorded[-1]
        own = self.says.get((agent, asked.act), [])
        if not own and asked.act == "wish" and (agent in self.players or "" in self.players):
            (month, pool), player = map(int, LAKE.findall(asked.text)[0]), self.players.get(agent, self.players.get(""))
            assert player is not None
            there = re.findall(r"You are (\w+)\. You and ([\w, ]+?) live", asked.text)[0]
            game = Game(start=100, agents=[there[0], *there[1].split(", ")])
            return player(game, World(month=month, pool=pool, harvests=[]), agent)
        return own.pop(0) if own else SAID[asked.act].format(agent=agent, round=asked.round)


def asked_for(settings: GovSim, seed: int = 0) -> Any:
    return draw_games(1, settings, seed)[0]


def run(
    player: Player | Mapping[str, Player] | None = None,
    says: Mapping[tuple[str, str], list[str]] | None = None,
    watch: Any = None,
    **settings: Any,
) -> tuple[Any, ByRule]:
    """The state after a game, and the model that played all agents."""
    players = {"": player} if callable(player) else dict(player or {})
    model, chosen = ByRule(players=players, says=dict(says or {})), GovSim(**settings)
    graph = create_govsim(chosen, models=model, watch=watch).compile()
    return graph.invoke(asked_for(chosen), output_keys=KEYS), model


def asked(model: ByRule, act: str, round: int | None = None) -> list[RecordedCall]:
    return [each for each in model.calls if each.act == act and round in (None, each.round)]


# How it goes


def test_who_takes_a_share_of_half_the_lake_lives_from_it_for_all_months() -> None:
    state, _ = run(sustainable, utterances=1)
    decision = state["decision"]
    assert (decision["answer"], decision["score"]) == ("12 months", 1.0)
    assert decision["measures"] == {
        "survived": 1.0, "months": 12.0, "gain": 120.0, "efficiency": 1.0, "equality": 1.0, "over_usage": 0.0,
        "resets": 0.0, "unreadable": 0,
    }  # fmt: skip
    assert decision["why"] == "the fish lasted all 12 months, with 50 tons left"


def test_a_round_is_a_talk_its_summary_notes_and_wishes_and_the_first_has_wishes_alone() -> None:
    _, model = run(agents=2, months=2, utterances=3)
    acts = [(each.round, each.act, each.agent) for each in model.calls]
    first, last = {(0, "wish", "John"), (0, "wish", "Kate")}, {(1, "wish", "John"), (1, "wish", "Kate")}
    talk = [("talk", "John"), ("talk", "Kate"), ("talk", "John"), ("summarise", "summarizer"), ("limit", "summarizer")]
    assert set(acts[:2]) == first and acts[2:7] == [(1, *each) for each in talk] and set(acts[9:11]) == last
    assert {each[1] for each in acts[7:9]} == {"reflect"} and [each[0] for each in acts[11:]] == [2] * 7


def test_they_also_talk_and_make_notes_in_the_month_of_a_collapse() -> None:
    _, model = run(greedy, agents=2)
    assert [each.act for each in model.calls].count("wish") == 2
    assert len(asked(model, "talk", 1)) == 9 and len(asked(model, "reflect", 1)) == 2 and not asked(model, "wish", 1)


def test_the_last_speaker_names_the_next_and_may_end_the_talk() -> None:
    said = ["Say: A.\nDone: no\nNext: Luke"], ["Say: B.\nDone: no\nNext: Emma"], ["Say: C.\nDone: yes\nNext: John"]
    says = {(agent, "talk"): text for agent, text in zip(("John", "Luke", "Emma"), said, strict=True)}
    state, model = run(says=says, months=1)
    assert [each.agent for each in asked(model, "talk")] == ["John", "Luke", "Emma"]
    notes = [message.notes[-1] for message in board(state) if message.act == "talk"]
    assert notes == ["names Luke", "names Emma", "ends the talk"]


def test_a_wish_that_cannot_be_read_is_asked_for_again_and_else_catches_nothing() -> None:
    says = {("Kate", "wish"): ["As many as I can.", "10-12"], ("John", "wish"): ["Answer: 10%", "Answer: 10 tons"]}
    state, model = run(says=says, agents=2, months=1)
    harvest = state["world"]["harvests"][0]
    assert (harvest["wanted"], harvest["caught"]) == ({"John": 10, "Kate": None}, {"John": 10, "Kate": 0})
    assert len(asked(model, "wish")) == 4 and '"Answer: N tons"' in asked(model, "wish")[-1].turns[-1].text
    kate = [message.notes for message in board(state) if (message.agent, message.act) == ("Kate", "wish")]
    assert kate == [
        ("asked again: it states no number of tons",),
        ("cannot be read: it states no number of tons",),
    ]
    assert "Your wish could not be read" in next(call.text for call in asked(model, "talk") if call.agent == "Kate")


def test_a_limit_that_cannot_be_read_is_asked_for_again() -> None:
    says = {("summarizer", "limit"): ["From 8 to 10 tons.", "Answer: N/A"]}
    _, model = run(says=says, agents=2, months=2)
    assert len(asked(model, "limit", 1)) == 2 and "You all agreed" not in asked(model, "wish", 1)[0].text


def test_a_game_that_survives_on_wishes_that_nobody_could_read_says_so() -> None:
    # Seen: five unreadable wishes gave "survived 1.0" and no other word.
    state, _ = run(says={(name, "wish"): ["Ten!"] * 4 for name in ("John", "Kate")}, agents=2, months=2)
    decision = state["decision"]
    assert (decision["score"], decision["measures"]["unreadable"]) == (1.0, 4)
    assert decision["why"].endswith("; 4 of 4 wishes could not be read, and caught nothing")


def test_the_lake_is_shown_after_each_harvest() -> None:
    state, _ = run({"": greedy, "John": sustainable}, agents=2, months=1)
    (lake,) = [message for message in board(state) if message.agent == "lake"]
    done = state["world"]["harvests"][0]
    assert (
        lake.text
        == f"Month 1: John caught {done['caught']['John']} tons and Kate caught {done['caught']['Kate']} tons."
    )
    bar = f"[{'.' * 30}] 0 tons left of 100; the fish die out"
    assert lake.notes == (bar, "all together wanted 125 tons") and lake.source == "rule"


# Variants


def test_without_language_they_see_what_all_caught_and_make_notes() -> None:
    _, model = run(agents=2, months=2, language=False)
    assert {each.act for each in model.calls} == {"wish", "reflect"}
    note, wish = asked(model, "reflect", 1)[0].text, asked(model, "wish", 1)[0].text
    assert "Kate caught 10 tons" in note and "Kate caught 10 tons" in wish and "talk" not in note + wish


def test_a_newcomer_joins_later_and_remembers_nothing() -> None:
    state, model = run(agents=3, months=3, newcomer=1)
    assert [len(month["caught"]) for month in state["world"]["harvests"]] == [2, 3, 3]
    assert {each.agent for each in model.calls if each.round == 0} == {"John", "Kate"}
    wishes = {each.agent: each.text for each in asked(model, "wish", 1)}
    assert "What you remember" not in wishes["Jack"] and "What you remember" in wishes["John"]
    assert "Jack" not in asked(model, "wish", 0)[0].text and "You and Kate, Jack live" in wishes["John"]
    assert "What you remember" in {each.agent: each.text for each in asked(model, "wish", 2)}["Jack"]


# Who is told what


def test_wishes_and_notes_of_others_are_in_no_prompt_and_own_ones_are_remembered() -> None:
    _, model = run(agents=3, months=3, utterances=3)
    for each in model.calls:
        noted = {name for name in ("John", "Kate", "Jack") if f"{name} plans in" in each.text}
        assert "thinks in round" not in each.text and noted <= {each.agent}
    told = {each.agent for each in asked(model, "wish", 1) if f"{each.agent} plans in round 1." in each.text}
    assert told == {"John", "Kate", "Jack"}


def test_a_wish_is_made_with_the_report_the_summary_and_the_limit_of_last_month() -> None:
    _, model = run(agents=2, months=3)
    text = asked(model, "wish", 2)[0].text
    assert "Month 2: John caught 10 tons and Kate caught 10 tons." in text and "Month 1:" not in text
    assert "The talk of round 2 came to this." in text and "round 1" not in text
    assert "You all agreed that each catches at most 10 tons a month." in text


def test_the_talk_is_heard_as_it_grows_and_its_labels_are_not() -> None:
    _, model = run(agents=2, months=1, utterances=3)
    third = asked(model, "talk", 1)[2].turns[-1]
    heard = [part for part in third.parts if isinstance(part, MessageRef)]
    assert [part.text for part in heard] == ["John says so in round 1.", "Kate says so in round 1."]
    assert [part.own for part in heard] == [True, False] and "Next: nobody" not in third.text


# Under the protocols


@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde"], "cipher"))
def test_utterances_alone_are_heard_under_their_words_and_every_form_is_kept(
    protocol: str, store: PayloadStore
) -> None:
    model = Recording(protocol=protocol, preloaded=lonely_loaded(), store=store, max_tokens=60)
    chosen = GovSim(agents=2, start=30, months=1, utterances=2)
    state: Any = create_govsim(chosen, models=model).compile().invoke(asked_for(chosen), output_keys=KEYS)
    said = {act: [message for message in board(state) if message.act == act] for act in SAID}
    assert {act: {each.payload.protocol for each in messages} for act, messages in said.items()} == {  # type: ignore[union-attr]
        act: {protocol if act == "talk" else "nl"} for act in SAID
    }
    wishes, last = model.requests[:2], model.requests[3 if len(said["talk"]) == 2 else 2]
    assert not any(request.edits for request in wishes) and bool(last.edits) == (protocol == "sde")
    assert any(isinstance(piece, Rows) for piece in last.prompt) == (protocol == "cipher")
    assert not any(isinstance(piece, Rows) for request in wishes for piece in request.prompt)
    drawn = {act: {each.stats["temperature"] for each in messages} for act, messages in said.items()}
    assert (drawn.pop("talk") == {0.0}) == (protocol != "cipher")  # the others were drawn at cipher's own, 1
    assert all(temperatures == {0.0} for temperatures in drawn.values())
    forms = {
        "wish": r".*Answer: ([12]?\d|30) tons",
        "limit": r".*Answer: (N/A|([12]?\d|30) tons)",
        "talk": r".*Done: (yes|no)\nNext: (John|Kate)",
    }
    for act, pattern in forms.items():
        assert all(re.fullmatch(pattern, message.full_text, re.S) for message in said[act])


def test_without_steps_a_wish_is_a_number_alone() -> None:
    _, model = run(
        says={(agent, "wish"): [" 10 tons"] for agent in ("John", "Kate")}, agents=2, months=1, chain_of_thought=False
    )
    first = asked(model, "wish")[0]
    assert (
        first.options["prefill"] == "Answer:"
        and first.options["response_format"]["spaced"]
        and not first.options["response_format"]["after"]
    )
    assert 'Reply with "Answer: N tons"' in first.text and "Tell why" not in first.text


# Stored games, bad input


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ({"start": 3, "agents": ["a", "b"]}, "a game starts with 3 tons and collapses below 5"),
        ({"format": "sottovoce.whodunit"}, "format is 'sottovoce.whodunit': expected 'sottovoce.govsim'"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused_before_anybody_acts(game: Any, said: str) -> None:
    model = ByRule()
    graph = create_govsim(GovSim(agents=2), models=model).compile()
    with pytest.raises(UsageError, match=said):
        graph.invoke({"question": "How many tons?", "game": game})
    assert model.calls == []


# Watched


class At:
    """Takes back the wishes of a month, so many times, and keeps what it looked at."""

    def __init__(self, month: int, times: int = 1, what: Any = "reset") -> None:
        self.month, self.left, self.what, self.seen = month, times, what, list[list[str]]()

    def __call__(self, run: Any, state: Any, messages: Any) -> Intervention | None:
        self.seen.append([message.agent for message in messages])
        if state["world"]["month"] != self.month or not self.left:
            return None
        self.left -= 1
        return Intervention(self.what, "too much")


def test_all_wishes_of_a_month_are_looked_at_together_from_the_second_month_on() -> None:
    watch = At(99)
    run(agents=3, months=3, utterances=2, watch=watch)
    assert watch.seen == [["John", "Kate", "Jack"]] * 2


def test_a_reset_holds_the_last_talk_again_and_no_harvest() -> None:
    state, model = run({"": sustainable, "Luke": free_rider}, watch=At(2), months=3)
    plain, unwatched = run({"": sustainable, "Luke": free_rider}, months=3)
    assert state["world"] == plain["world"] and state["epochs"] == [[1, 0]]
    rounds = [[each.act for each in model.calls if each.round == round].count("talk") for round in range(4)]
    assert rounds == [0, 18, 9, 9]
    harvests = [message.round for message in board(state) if message.act == "harvest"]
    assert harvests == [0, 1, 2] and len(asked(model, "wish", 0)) == len(asked(unwatched, "wish", 0))
    for month in state["world"]["harvests"]:
        assert sum(month["caught"].values()) + month["left"] == month["pool"]


def test_a_round_without_its_harvest_is_refused() -> None:
    """An edit of the round alone once ended in an IndexError."""
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph = create_govsim(GovSim(), models=ByRule(players={}, says={})).compile(InMemorySaver())
    graph.invoke(asked_for(GovSim()), thread, interrupt_after=["opening"])
    graph.update_state(thread, {"round": 2}, as_node="opening")
    with pytest.raises(UsageError, match="round 3 follows harvest 3, but there are 0: edit both or neither"):
        graph.invoke(None, thread)


def test_after_a_reset_thoughts_of_all_are_those_of_the_new_talk() -> None:
    said = {("summarizer", "summarise"): ["OLD talk.", "NEW talk."]}
    says = said | {
        (agent, "reflect"): [f"Plan: OLD {agent}.\nRemember: it.", f"Plan: NEW {agent}.\nRemember: it."]
        for agent in ("John", "Kate")
    }
    _, model = run(says=says, watch=At(2), agents=2, months=2, utterances=2)
    first, again = (asked(model, "wish", 1)[i : i + 2] for i in (0, 2))
    assert all("OLD" in each.text for each in first) and not [each for each in again if "OLD" in each.text]
    assert all(f"NEW {each.agent}." in each.text and "NEW talk." in each.text for each in again)
    talks = asked(model, "talk", 1)
    assert talks[2].text == talks[0].text and "It is month 2. The lake holds 100 tons" in again[0].text
