"""WhoDunit's rules: games, actions, what is published, what is tracked, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.environments.whodunit.actions import (
    CLAUSES,
    WORDINGS,
    Action,
    Malformed,
    Role,
    clause,
    described,
    question,
    read,
)
from sottovoce.environments.whodunit.games import (
    ALL,
    Game,
    attributes,
    combinations,
    drawn,
    fitting,
)
from sottovoce.environments.whodunit.knowledge import (
    BLUNDERS,
    CLASSES,
    NOTES,
    World,
    class_noted,
    described_knowledge,
    known,
    measures,
    ruled_out,
)
from sottovoce.environments.whodunit.rules import cancelled, first_state, is_over, step
from tests.environments import players
from tests.tables import each_row

PEERS = ("Alex", "Beth", "Charlie", "David", "Elizabeth", "Fred")
WORDS = WORDINGS["positive"]
SMALL = Game(
    suspect_count=3,
    suspects=[
        {"hat": "brown", "shirt": "tee", "eye_color": "blue"},
        {"hat": "black", "shirt": "button-up", "eye_color": "green"},
        {"hat": "brown", "shirt": "button-up", "eye_color": "brown"},
    ],
    culprit=2,
    agents={"Alex": [("hat", "brown"), ("shirt", "button-up")], "Beth": [("hat", "brown"), ("eye_color", "brown")]},
)


LISTED = [
    ("Beth", Action("ask_general")),
    ("Alex", Action("broad", attribute="shirt", value="button-up", people=(2, 3))),
]


def asym(seed: object) -> Game:
    return drawn(f"asym/{seed}", attributes(12), 10)


def sym(seed: object) -> Game:
    return drawn(f"sym/{seed}", ALL, 20, PEERS)


def played(game: Game, seats: list[tuple[str, Role, Any]], turns: int) -> World:
    """A game by players of these seats, in turn, whose replies are read as those of a model."""
    world, at = first_state(game), 0
    while not is_over(world, turns):
        agent, role, player = seats[at % len(seats)]
        action = read(players.replied(player(game, world, agent, WORDS)), role, game, WORDS, facts=3)
        assert isinstance(action, Action)
        _, world = step(game, world, agent, action, WORDS)
        at += 1
    return world


def taken(*actions: tuple[str, Action], game: Game = SMALL) -> tuple[list[str], World]:
    """What is published of actions one after another, and the game after them."""
    world, lines = first_state(game), []
    for agent, action in actions:
        line, world = step(game, world, agent, action, WORDS)
        lines.append(line)
    return lines, world


# Games


def test_the_published_sets_make_as_many_characters_as_they_say() -> None:
    assert (combinations(attributes(12)), combinations(ALL)) == (6144, 3 * 2**19)


@each_row("seed", range(5))
def test_characters_of_a_game_differ_pairwise_and_the_facts_of_all_fit_one(seed: int) -> None:
    for game in (asym(seed), sym(seed)):
        assert len({tuple(each.items()) for each in game.suspects}) == game.suspect_count
    facts = [fact for own in (game.agents or {}).values() for fact in own]
    assert fitting(game, facts) == [game.winner] and len(facts) == 18
    assert all(len({name for name, _ in own}) == 3 for own in (game.agents or {}).values())


def test_culprits_and_values_are_drawn_evenly() -> None:
    games = [drawn(str(seed), attributes(2), 4) for seed in range(400)]
    found = [sum(game.culprit == place for game in games) for place in range(4)]
    assert min(found) > 70 and max(found) < 130  # 100 each; 8.7 is the standard deviation


def test_a_seed_makes_the_same_game_everywhere_and_another_another() -> None:
    assert asym(1) == asym(1) != asym(2)
    assert (asym(1).culprit, asym(1).person(1)["hat"]) == (4, "brown")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: drawn("0", attributes(2), 5), "suspects is 5, but 2 attributes make 4 different ones"),
        (lambda: drawn("0", attributes(2), 3, ["a"], facts=3), "facts is 3, but there are 2 attributes"),
        (
            lambda: drawn("0", attributes(3), 8, ["a"], facts=1),
            "in 10,000 draws, the facts of 1 agents",
        ),
        (lambda: attributes(21), "attributes is 21, but the list has 20"),
    ],
)
def test_games_that_cannot_be_drawn_are_refused(made: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made()


# Words


def test_every_attribute_is_worded_as_description_fact_question_and_answer() -> None:
    assert set(CLAUSES) == set(ALL)
    assert clause("hat", "brown") == "wears a brown hat" and clause("mood", "sad", truth=False) == "is not sad"
    assert question("eye_color", "blue", "character 3") == "does character 3 have blue eyes?"
    assert question("age", "old", "character 3") == "is character 3 old?"
    assert described({name: values[0] for name, values in ALL.items()}) == (
        "is young, has a medium build, has blue eyes, wears circular glasses, has long hair, wears a brown hat, "
        "is short, enjoys basketball, is interested in sports, wears a yellow jacket, is happy, is a professional, "
        "is introverted, wears red shoes, wears dotted socks, wears a bronze watch, "
        "wears long brown pants and a pink button-up shirt"
    )


# Actions


@each_row(
    ("role", "text", "expected"),
    [
        ("accuser", '{"thoughts": "a", "action": 1, "character": 2, "property": "hat", "value": "brown"}',
         Action("ask", 2, "hat", "brown")),
        ("accuser", "```json\n{'thoughts': 'x', 'action': '2', // any\n}\n``` Done.", Action("ask_general")),
        ("accuser", '{"thoughts": "a", "action": 1, "character": 1, "property": "Eye color", "value": "a\\nb"}',
         Action("ask", 1, "eye_color", "a b")),
        ("intel", '{"thoughts": "a", "action": 1, "value": "OFF"}', Action("answer", truth=False)),
        ("intel", '{"thoughts": "a", "action": 2, "value": "shirt-button-up", "character": [2, 3]}',
         Action("broad", attribute="shirt", value="button-up", people=(2, 3))),
        ("intel", '{"thoughts": "a", "action": 2, "value": "hat-black", "character": "2, 9"}',
         Action("broad", attribute="hat", value="black", people=(2, 9))),
        ("intel", '{"thoughts": "a", "action": 2, "value": "hat: black", "character": [2]}',
         Action("broad", attribute="hat", value="black", people=(2,))),
        ("intel", '{"action": 2, "value": "Eye color = blue", "character": [1]}',
         Action("broad", attribute="eye_color", value="blue", people=(1,))),
        ("intel", '{"thoughts": "a", "action": 2, "value": "hat-red", "character": []}',
         Action("broad", attribute="hat", value="red")),
        ("peer", '{"thoughts": "a", "action": 1, "fact": 2}', Action("share", fact=2)),
        ("peer", '{"thoughts": "a", "action": 3}', Action("skip")),
        # considered, and then chosen
        ("accuser", 'I could award at once: {"action": 3, "character": 2}, but first I ask.\n{"action": 2}',
         Action("ask_general")),
        ("peer", '{"action": 2, "character": 3}\n\nAction: {"action": 3}', Action("skip")),
        ("peer", 'Action: {"action": 3}\n\nAgain: {"thoughts": "b", "action": 3}', Action("skip")),
        # no private-use sign is published
        ("accuser", '{"thoughts": "a", "action": 1, "character": 1, "property": "hat", "value": "\ue0000\ue001red"}',
         Action("ask", 1, "hat", "0red")),
    ],
)  # fmt: skip
def test_actions_are_read_however_they_are_written(role: Role, text: str, expected: Action) -> None:
    assert read(players.replied(text), role, SMALL, WORDS, facts=2) == expected


@each_row(
    ("role", "text", "hint"),
    [
        ("accuser", "I ask.", "There was no JSON object; end with one that holds your action."),
        ("accuser", '{"thoughts": "a"}', '"action" is missing'),
        ("accuser", '{"thoughts": "a", "action": 4}', '"action" was "4"; it must be a number from 1 to 3.'),
        ("accuser", '{"thoughts": "a", "action": 3, "character": 4}', "it must be a number from 1 to 3."),
        ("accuser", '{"thoughts": "a", "action": 1, "character": 1, "property": "car", "value": "x"}',
         'There is no property "car"; choose from: hat, shirt, eye_color.'),
        ("intel", '{"thoughts": "a", "action": 1}', '"value" is missing'),
        ("intel", '{"thoughts": "a", "action": 1, "value": "maybe"}', 'must be "yes" or "no".'),
        ("intel", '{"thoughts": "a", "action": 2, "value": "hat", "character": [1]}',
         "property-value, as hat-brown."),
        ("intel", '{"thoughts": "a", "action": 2, "value": "hat-red", "character": "all"}', "as [1, 2]."),
        ("intel", '{"thoughts": "[]", "action": 2, "value": "hat-red", "character": null}', '"character" is empty'),
        ("peer", '{"thoughts": "a", "action": 1, "fact": 3}', "it must be a number from 1 to 2."),
        ("peer", '{"thoughts": "a", "action": 2, "chara', "There was no JSON object"),
        ("peer", '{"thoughts": "a", "action": 2, "character": "not 3"}', "it must be a number from 1 to 3."),
        ("intel", '{"thoughts": "a", "action": 1, "value": "No, it is black"}', 'must be "yes" or "no".'),
        ("intel", '{"action": 2, "value": "brown", "property": "hat", "character": [1]}', "property-value"),
        # different ones of the reply's own
        ("peer", '{"action": 2, "character": 3}\n{"action": 2, "character": 1}', "There were different actions"),
        ("peer", '{"action": 2, "character": 9}\n{"action": 2, "character": 1}', "There were different actions"),
        ("peer", 'Action: {"action": 3}\nAction: {"action": 1, "fact": 1}', "There were different actions"),
        ("peer", 'Action: {"action": 9}\n{"action": 2, "character": 1}', '"action" was "9"'),
        # not the reply's own
        ("accuser", 'I could award at once: {"action": 3, "character": 2}, but two remain, so first I wait.',
         "There was no JSON object"),
        ("peer", 'Alex said {"action": 3}.', "There was no JSON object"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_gets_one_line_that_says_what_is_expected(role: Role, text: str, hint: str) -> None:
    found = read(players.replied(text), role, SMALL, WORDS, facts=2)
    assert isinstance(found, Malformed)
    assert hint in found.hint and "\n" not in found.hint


def test_a_reply_that_was_cut_holds_no_action() -> None:
    assert isinstance(read(players.replied('{"action": 2} or', cut=True), "accuser", SMALL, WORDS), Malformed)


def test_the_other_vocabulary_has_another_key_and_other_words() -> None:
    negative = WORDINGS["negative"]
    action = read(players.replied('{"thoughts": "a", "action": 3, "suspect": 3}'), "accuser", SMALL, negative)
    assert action == Action("award", 3)
    assert step(SMALL, first_state(SMALL), "Beth", action, negative)[0] == "Beth accuses suspect 3."


# What is published, and what is tracked


def test_what_is_said_is_published_as_it_is_claimed() -> None:
    lines, world = taken(
        ("Beth", Action("ask", 1, "hat", "black")),
        ("Alex", Action("answer", truth=True)),  # not so
        ("Beth", Action("ask_general")),
        ("Alex", Action("answer")),
        ("Beth", Action("ask", 2, "hat", "black")),
        ("Alex", Action("broad", attribute="shirt", value="button-up", people=(2, 3))),
        ("Beth", Action("award", 3)),
    )
    assert lines == [
        "Beth asks: does character 1 wear a black hat?", "Alex: character 1 wears a black hat.",
        "Beth asks for anything that helps.", "Alex is unable to answer.",
        "Beth asks: does character 2 wear a black hat?", "Alex: characters 2 and 3 wear a button-up shirt.",
        "Beth awards character 3.",
    ]  # fmt: skip
    assert [done["blunders"] for done in world["done"]] == [[], ["wrong_info"], [], ["mismatch"], [], [], []]
    assert world["revealed"] == [["hat", 1], ["shirt", 2], ["shirt", 3]] and world["awarded"] == 3


def test_an_empty_list_says_that_nobody_has_the_value() -> None:
    lines, world = taken(
        ("Beth", Action("ask_general")),
        ("Alex", Action("broad", attribute="hat", value="black")),
        ("Beth", Action("ask_general")),
    )
    assert lines[1] == "Alex: no character wears a black hat." and world["done"][1]["blunders"] == ["left_out"]


@pytest.mark.parametrize("value", ["black", "black hat", "a Black Hat", "the black"])
def test_a_value_with_its_noun_is_published_as_the_value_alone(value: str) -> None:
    assert clause("hat", value).casefold() == "wears a black hat"
    assert question("hat", value, "character 1").casefold() == "does character 1 wear a black hat?"
    assert clause("hat", "hat") == "wears a hat hat"
    assert clause("interests", "interested in arts") == clause("interests", "arts")


def test_a_no_rules_out_by_the_truth() -> None:
    ask, no = Action("ask", 2, "hat", "brown"), Action("answer", truth=False)
    lines, world = taken(("Beth", ask), ("Alex", no), ("Beth", ask))
    assert lines[1] == "Alex: character 2 does not wear a brown hat." and world["remaining"] == [1, 3]
    assert [(done["impact"], done["best"]) for done in world["done"]] == [(0, 0), (1, 2), (0, 0)]
    assert world["done"][2]["blunders"] == ["known", "eliminated"]
    noted = [NOTES[each] for each in world["done"][2]["blunders"]]
    assert class_noted(noted) == "collapse"
    assert class_noted([]) == class_noted(["published: nothing", "it was said already"]) == "none"


@each_row(
    ("agent", "before", "action", "blunder", "of"),
    [
        ("Beth", [], Action("award", 1), "wrong_award", "none"),
        ("Beth", LISTED, Action("award", 1), "wrong_award", "recall failure"),
        ("Beth", LISTED, Action("award", 2), "wrong_award", "none"),  # nothing published rules it out
        ("Beth", [("Beth", Action("ask", 1, "hat", "black")), ("Alex", Action("answer"))], Action("award", 1),
         "eliminated", "recall failure"),  # by what was claimed, true or not
        ("Alex", [("Beth", Action("ask", 1, "hat", "hat-brown"))], Action("answer", truth=False), "wrong_info",
         "hallucination"),
        ("Alex", [("Beth", Action("ask", 1, "hat", "purple"))], Action("answer"), "wrong_info", "hallucination"),
        ("Alex", [], Action("broad", attribute="hat", value="brown", people=(1,)), "left_out", "hallucination"),
        ("Beth", [], Action("ask", 1, "hat", "yes"), "other_role", "role loss"),
        ("Alex", [("Beth", Action("ask_general"))], Action("broad", attribute="hat", value="black", people=(2, 7)),
         "out_of_range", "hallucination"),
        ("Alex", [("Beth", Action("ask_general"))], Action("answer"), "mismatch", "recall failure"),
        ("Beth", [("Alex", Action("share", fact=1))], Action("share", fact=1), "known", "collapse"),
    ],
)  # fmt: skip
def test_blunders_are_classed_by_the_truth(agent: str, before: Any, action: Action, blunder: str, of: str) -> None:
    done = taken(*before, (agent, action))[1]["done"][-1]
    assert blunder in done["blunders"]
    assert class_noted(["published: it", *(NOTES[each] for each in done["blunders"])]) == of
    assert set(BLUNDERS) - set(CLASSES) == {"wrong_award"} and len({*NOTES.values()}) == len(BLUNDERS)


@pytest.mark.parametrize(("value", "truth"), [("yes", True), ("yes", False), ("a brown hat", True), ("Brown.", True)])
def test_an_honest_answer_is_judged_by_the_value_that_was_asked_about(value: str, truth: bool) -> None:
    _, world = taken(("Beth", Action("ask", 1, "hat", value)), ("Alex", Action("answer", truth=truth)))
    assert world["done"][1]["blunders"] == [] and world["remaining"] == [1, 2, 3]


def test_a_complete_list_rules_out_who_is_not_on_it() -> None:
    _, world = taken(*LISTED)
    assert world["remaining"] == [2, 3] and ruled_out(SMALL, world["claims"]) == {1}
    assert taken(*LISTED, ("Beth", Action("ask", 1, "shirt", "tee")))[1]["done"][-1]["blunders"] == ["eliminated"]
    again = taken(*LISTED, ("Beth", Action("ask", 1, "shirt", "button-up")))[1]
    assert again["done"][-1]["blunders"] == ["known", "eliminated"]


def test_who_knows_what_is_told_of_the_accuser_and_of_each_peer() -> None:
    broad = Action("broad", attribute="shirt", value="tee", people=(1,))
    _, world = taken(("Beth", Action("ask_general")), ("Alex", broad))
    alone = SMALL.model_copy(update={"agents": None})
    assert described_knowledge(alone, world, "Beth") == "who knows what: Beth 1 clue, 2 of 3 remain (2 and 3)"

    shared = taken(("Alex", Action("share", fact=2)))[1]
    assert known(SMALL, shared, "Beth") == {"Alex": (2, [3]), "Beth": (3, [3])}
    assert described_knowledge(SMALL, shared, "Beth").endswith(
        "Alex 2 clues, 1 of 3 remains (3); Beth 3 clues, 1 of 3 remains (3)"
    )
    assert described_knowledge(asym(0), first_state(asym(0)), "Beth") == "who knows what: Beth 0 clues, 10 of 10 remain"


def test_facts_are_shared_and_a_skip_is_heard_by_nobody() -> None:
    lines, world = taken(("Alex", Action("share", fact=2)), ("Beth", Action("skip")), ("Alex", Action("share", fact=2)))
    assert lines == ["Alex: The winner wears a button-up shirt.", "", "Alex: The winner wears a button-up shirt."]
    assert world["remaining"] == [2, 3] and world["turn"] == 3


def test_it_ends_with_an_award_a_cancelled_turn_or_the_last_turn() -> None:
    fresh = first_state(SMALL)
    assert not is_over(fresh, 1) and is_over({**fresh, "turn": 1}, 1)
    assert is_over(taken(("Beth", Action("award", 1)))[1], 31)
    stopped = cancelled(fresh, "Alex", '"value" is missing.')
    assert is_over(stopped, 31) and stopped["cancelled"] == 'Alex could not be understood: "value" is missing.'
    assert json.loads(json.dumps(stopped)) == stopped


def test_precision_is_of_games_with_an_award_and_a_cancelled_game_is_lost() -> None:
    fresh = first_state(SMALL)
    assert measures(SMALL, {**fresh, "awarded": SMALL.winner % 2 + 1}, 20, 1) == {
        "success": 0, "precision": 0, "turns": 20, "cancelled": 0, "resets": 1, "unreadable": 0,
    }  # fmt: skip
    assert measures(SMALL, {**fresh, "awarded": SMALL.winner}, 10, 0)["precision"] == 1
    assert measures(SMALL, cancelled(fresh, "Alex", "it is cut"), 3, 0) | {"turns": 0} == {
        "success": 0, "precision": None, "turns": 0, "cancelled": 1, "resets": 0, "unreadable": 1,
    }  # fmt: skip


# Perfect players


@each_row("part", range(2))
def test_perfect_players_win_each_of_forty_games_within_the_limit(part: int) -> None:
    for seed in range(part, 40, 2):
        game = asym(seed)
        world = played(game, [("Beth", "accuser", players.accuser), ("Alex", "intel", players.intel)], 31)
        assert world["awarded"] == game.winner and not [each for each in world["done"] if each["blunders"]]
        assert known(game, world, "Beth")["Beth"][1] == [game.winner]
        game = sym(seed)
        world = played(game, [(name, "peer", players.peer) for name in PEERS], 20)
        assert world["awarded"] == game.winner and not [each for each in world["done"] if each["blunders"]]
