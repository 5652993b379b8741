"""WhoDunit as a graph: who acts when, who is told what, what is heard, hints, cancelled games, resets, the end."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from langchain_core.outputs import ChatResult

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.environments.whodunit.actions import described, fact, form
from sottovoce.environments.whodunit.games import Game
from sottovoce.environments.whodunit.rules import RETRIES
from sottovoce.graphs.whodunit import WhoDunit, create_whodunit, draw_games
from sottovoce.models import Rows
from tests.graphs.support import Once, Recording, board, lonely_loaded
from tests.tables import some

KEYS = ["board", "decision", "world", "game", "settings", "epochs"]
ASK = '{"thoughts": "I wonder about hats.", "action": 1, "character": 2, "property": "hat", "value": "brown"}'
ANYTHING = '{"thoughts": "I wonder.", "action": 2}'
NO = '{"thoughts": "I look.", "action": 1, "value": "no"}'
LIST = '{"thoughts": "These.", "action": 2, "value": "shirt-button-up", "character": [1, 2]}'
SHARE, SKIP = '{"thoughts": "New.", "action": 1, "fact": 1}', '{"thoughts": "Old.", "action": 3}'


def award(number: int, action: int = 3) -> str:
    return json.dumps({"thoughts": "I am sure.", "action": action, "character": number})


def asked_for(settings: WhoDunit, seed: int = 0) -> Any:
    """The first game of a seed, as a question."""
    return draw_games(1, settings, seed)[0]


def run(replies: Any, watch: Any = None, seed: int = 0, **settings: Any) -> tuple[Any, ScriptedChatModel]:
    """The state after a scripted game, and the model that played all agents."""
    model, chosen = ScriptedChatModel(replies), WhoDunit(**settings)
    graph = create_whodunit(chosen, models=model, watch=watch).compile()
    return graph.invoke(asked_for(chosen, seed), output_keys=KEYS), model


def published(state: Any) -> list[str | None]:
    return [message.public for message in board(state) if message.public is not None]


# Who acts when, and how it ends


def measured(success: int, precision: int | None, turns: int, cancelled: int) -> dict[str, Any]:
    """The measures of a game without a reset."""
    numbers = {"success": success, "precision": precision, "turns": turns, "cancelled": cancelled}
    return {**numbers, "resets": 0, "unreadable": cancelled}


def test_the_accuser_begins_and_intel_hands_back() -> None:
    state, model = run({"Beth": [ANYTHING, ASK, award(3)], "Alex": [LIST, NO]})
    assert [(each.agent, each.act) for each in model.calls] == [("Beth", "request"), ("Alex", "reply")] * 2 + [
        ("Beth", "request")
    ]
    winner = Game.model_validate(state["game"]).winner
    verdict = "who fits" if winner == 3 else f"but character {winner} fits"
    assert state["decision"]["why"] == f"Beth chose character 3 in turn 5, {verdict}"
    assert (state["decision"]["answer"], state["decision"]["by"]) == ("3", "Beth")


def test_peers_act_in_turn_and_a_skip_is_heard_by_nobody() -> None:
    state, model = run([SHARE, SKIP, SHARE, award(7, action=2)], variant="sym", agents=3)
    assert [each.agent for each in model.calls] == ["Alex", "Beth", "Charlie", "Alex"]
    assert "Beth" not in model.calls[2].turns[-1].text and published(state)[1] == ""
    assert state["decision"]["by"] == "Alex"


@pytest.mark.parametrize(("variant", "reply", "turns"), [("asym", [ANYTHING, LIST], 31), ("sym", [SKIP, SKIP], 20)])
def test_without_an_award_within_the_limit_there_is_no_answer(variant: Any, reply: list[str], turns: int) -> None:
    state, model = run(reply * 20, variant=variant)
    assert len(model.calls) == turns and state["decision"]["measures"] == measured(0, None, turns, 0)
    assert state["decision"]["why"] == f"nobody was awarded within {turns} turns; no answer"
    assert (state["decision"]["answer"], state["decision"]["score"]) == (None, 0.0)


# Who is told what


def test_no_description_of_a_character_reaches_the_accuser_and_no_winner_intel() -> None:
    state, model = run({"Beth": [ANYTHING, award(3)], "Alex": [NO]})
    game = Game.model_validate(state["game"])
    winner = f"The winner {described(game.person(game.winner))}."
    for asked in model.calls:
        shown = [
            number for number in range(1, 11) if f"Character {number} {described(game.person(number))}" in asked.text
        ]
        assert shown == ([] if asked.agent == "Beth" else list(range(1, 11)))
        assert (winner in asked.text) == (asked.agent == "Beth")


def test_a_peer_knows_its_own_facts_alone_and_everybody_what_was_shared() -> None:
    state, model = run([SHARE, SKIP, award(1, action=2)], variant="sym", agents=3)
    game, words = Game.model_validate(state["game"]), WhoDunit().words
    facts = {agent: {fact(*each, words) for each in own} for agent, own in (game.agents or {}).items()}
    shared = fact(*(game.agents or {})["Alex"][0], words)
    everything = {each for own in facts.values() for each in own}
    for number, asked in enumerate(model.calls):
        known = {each for each in everything if each in asked.turns[-1].text}
        assert known == facts[asked.agent] | ({shared} if number else set())


def test_thoughts_are_private_and_not_kept() -> None:
    state, model = run({"Beth": [ASK, award(3)], "Alex": [NO]}, values="on")
    assert not [asked for asked in model.calls if "I wonder about" in asked.text or "I look" in asked.text]
    assert board(state)[0].text == ASK and board(state)[0].public == "Beth asks: does character 2 wear a brown hat?"


def test_the_other_vocabulary_is_used_throughout() -> None:
    replies = {
        "Beth": [ASK.replace("character", "suspect"), '{"thoughts": "a", "action": 3, "suspect": 2}'],
        "Alex": [NO],
    }
    _, model = run(replies, vocabulary="negative")
    text = "".join(asked.text for asked in model.calls)
    assert "culprit" in text and "accuse a suspect" in text
    assert not [word for word in ("winner", "award", "character") if word in text]


# What is heard


def heard_values(asked: RecordedCall) -> list[str]:
    return [part.text for part in asked.turns[-1].parts if isinstance(part, MessageRef)]


def test_others_hear_the_published_values_behind_the_line_where_that_is_wanted() -> None:
    replies = {"Beth": [ASK, award(3)], "Alex": [NO]}
    _, model = run(replies, values="on")
    assert heard_values(model.calls[1]) == ['"action": 1, "character": 2, "property": "hat", "value": "brown"']
    assert "brown hat? (" in model.calls[1].text
    assert heard_values(model.calls[2]) == ['"action": 1, "value": "no"']
    for values in ("auto", "off"):
        assert not [each for asked in run(replies, values=values)[1].calls for each in heard_values(asked)]


def test_a_value_that_was_not_published_is_not_heard() -> None:
    _, model = run({"Beth": [ANYTHING, award(3)], "Alex": [NO]}, values="on")
    assert "Alex is unable to answer.\n" in model.calls[2].text and not heard_values(model.calls[2])


@pytest.mark.parametrize("variant", ["asym", pytest.param("sym", marks=pytest.mark.slow)])
@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde"], "cipher"))
def test_local_models_are_kept_to_actions_and_published_values_are_heard_under_their_words(
    protocol: str, variant: Any, store: PayloadStore
) -> None:
    model = Recording(protocol=protocol, preloaded=lonely_loaded(), store=store, temperature=1.0, max_tokens=70)
    agents = 3 if variant == "sym" else None
    settings = WhoDunit(variant=variant, agents=agents, suspects=4, attributes=5, turns=3)
    state = create_whodunit(settings, models=model).compile().invoke(asked_for(settings), output_keys=KEYS)
    assert not [message for message in board(state) if message.attempt] and not state["world"]["cancelled"]
    if variant == "asym":
        first, second, *_ = model.requests
        assert not first.edits and bool(second.edits) == (protocol == "sde")
        assert any(isinstance(piece, Rows) for piece in second.prompt) == (protocol == "cipher")
        assert board(state)[0].public is not None and board(state)[0].agent == "Beth"


@pytest.mark.parametrize(
    ("protocol", "options", "values", "leaks"),
    [
        ("kv", {}, "auto", True),
        ("kv", {}, "off", False),
    ],
)
def test_a_note_says_where_more_is_heard_than_was_published(
    protocol: str, options: Any, values: Any, leaks: bool, store: PayloadStore
) -> None:
    model = Recording(protocol=protocol, options=options, preloaded=lonely_loaded(), store=store, max_tokens=70)
    settings = WhoDunit(suspects=4, attributes=5, turns=2, values=values)
    state = create_whodunit(settings, models=model).compile().invoke(asked_for(settings), output_keys=["notes"])
    assert ("more than the game publishes" in " ".join(state["notes"])) is leaks


# Replies that cannot be read


def test_thoughts_are_free_and_the_line_of_the_action_alone_is_kept_to_its_form() -> None:
    settings = WhoDunit()
    found = form("accuser", settings.game("0"), settings.words, 0)
    long = json.dumps({"thoughts": 'So, "3" or \\ 4?\n' * 100, "action": 2})
    assert found.after == "Action:" and not found.one_line
    assert re.fullmatch(found.pattern or "", '{"action": 2}') and re.fullmatch(found.pattern or "", long)


def test_each_retry_is_the_prompt_with_one_hint_behind_it() -> None:
    state, model = run({"Beth": ["Hm.", '{"thoughts": "a", "action": 9}', ANYTHING, award(3)], "Alex": [NO]})
    first, second, third = (asked.turns for asked in model.calls[:3])
    assert second[:-1] == first[:-1] and len(second) == len(first)
    hints = [
        "There was no JSON object; end with one that holds your action.",
        '"action" was "9"; it must be a number from 1 to 3.',
    ]
    assert [turns[-1].text for turns in (second, third)] == [f"{first[-1].text}\n\n{hint}" for hint in hints]
    assert [message.attempt for message in board(state)[:3]] == [0, 1, 2] and state["world"]["turn"] == 3
    assert len({asked.options["seed"] for asked in model.calls[:3]}) == 3


def test_after_twenty_retries_the_game_is_cancelled_and_lost() -> None:
    state, model = run({"Beth": [ANYTHING], "Alex": ["Hm."] * 30})
    assert len(model.calls) == 1 + 1 + RETRIES and state["decision"]["measures"] == measured(0, None, 2, 1)
    assert state["decision"]["why"] == (
        "the game was cancelled in turn 2: Alex could not be understood: "
        "There was no JSON object; end with one that holds your action.; no answer"
    )
    assert state["decision"]["score"] == 0.0


class Rambling(ScriptedChatModel):
    """Is cut at its limit whenever it writes no action."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        result = super()._generate(messages, stop, run_manager, **more)
        if "{" not in result.generations[0].text:
            result.generations[0].message.response_metadata["finish_reason"] = "length"
        return result


def test_a_turn_that_is_cut_is_asked_for_once_more_and_then_cancels_the_game_for_that() -> None:
    settings = WhoDunit()
    model = Rambling(replies={"Beth": [ANYTHING], "Alex": ["Let me see."] * 30})
    state: Any = create_whodunit(settings, models=model).compile().invoke(asked_for(settings), output_keys=KEYS)
    assert [call.options.get("max_tokens") for call in model.calls] == [None, None, 2 * settings.max_tokens]
    assert f"it was cut off at {settings.max_tokens} tokens" in model.calls[-1].text
    assert "Alex could not be understood: it was cut at the token limit" in state["decision"]["why"]


# Golden Intel, stored games


def test_golden_intel_is_played_by_rule_and_tells_the_truth() -> None:
    state, model = run({"Beth": [ANYTHING, award(3)]}, golden=True)
    assert {asked.agent for asked in model.calls} == {"Beth"}
    said = next(message for message in board(state) if message.agent == "Alex")
    assert said.source == "rule" and not state["world"]["done"][1]["blunders"]


def test_golden_is_refused_where_there_is_no_intel() -> None:
    with pytest.raises(UsageError, match="golden plays Intel, but sym has no Intel"):
        WhoDunit(variant="sym", golden=True)


@pytest.mark.parametrize("agents", [3, 6])
def test_asym_has_two_agents_and_no_other_number_is_passed_over(agents: int) -> None:
    with pytest.raises(UsageError, match=f"agents is {agents}, but asym has two, Accuser and Intel; use `var"):
        WhoDunit(agents=agents)
    assert WhoDunit(agents=2).speakers() == WhoDunit().speakers() == ["Beth", "Alex"]
    assert len(WhoDunit(variant="sym").speakers()) == 6
    assert WhoDunit.model_validate(WhoDunit().model_dump()) == WhoDunit()


@pytest.mark.parametrize(
    ("made", "played", "said"),
    [
        ({}, {"variant": "sym"}, "the game has no facts for agents, which sym needs"),
        ({"variant": "sym", "agents": 4}, {"variant": "sym"}, "the game has facts for 4 agents, but there are 6"),
    ],
)
def test_a_game_of_another_kind_is_refused_before_anybody_acts(
    made: dict[str, Any], played: dict[str, Any], said: str
) -> None:
    model = ScriptedChatModel([])
    with pytest.raises(UsageError, match=said):
        create_whodunit(WhoDunit(**played), models=model).compile().invoke(asked_for(WhoDunit(**made)))
    assert model.calls == []


# State


@pytest.mark.parametrize("variant", some(["asym", "sym"], "asym"))
def test_a_reset_before_an_award_takes_the_whole_game_back_with_a_full_budget(variant: Any) -> None:
    first, rest = ([ASK, NO, award(1)], [ANYTHING, LIST] * 15 + [ANYTHING]) if variant == "asym" else (
        [SHARE, SHARE, award(1, 2)], [SKIP] * 20
    )  # fmt: skip
    state, model = run(first + rest, watch=Once("reset", text="I am sure"), variant=variant)
    again = model.calls[3]
    assert again.text == model.calls[0].text and again.agent == model.calls[0].agent
    turns = WhoDunit(variant=variant).most_turns
    assert state["world"]["turn"] == turns and state["epochs"] == [[0, 0]]
    lost = {"success": 0, "precision": None, "turns": turns + 3, "cancelled": 0, "resets": 1, "unreadable": 0}
    assert state["decision"]["measures"] == lost
    assert state["decision"]["why"].endswith(f"({turns + 3} turns with those before a reset)")
    left = {"asym": ("revealed", [["shirt", 1], ["shirt", 2]]), "sym": ("shared", [])}
    key, expected = left[variant]
    assert state["world"][key] == expected
