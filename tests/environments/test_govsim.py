"""GovSim: games and splits, wishes, shares, months and collapse, metrics, and the talk."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.environments.govsim.fishery import (
    AGENTS,
    FITTED_ON,
    TESTED_ON,
    Allocation,
    Game,
    World,
    allocate,
    equality,
    first_state,
    has_collapsed,
    is_harvested,
    is_over,
    measures,
    next_month,
    own_catch,
    report,
    starts,
    threshold,
)
from sottovoce.environments.govsim.fishery import harvest as harvested
from sottovoce.environments.govsim.talk import MESSAGES, Utterance, next_speaker, read_limit, read_tons, read_utterance
from tests.environments.players import Player, free_rider, greedy, play, replied, sustainable
from tests.tables import each_row

ALLOCATIONS: tuple[Allocation, ...] = ("stochastic", "proportional")
GAME = Game(start=100)
WISHES = st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 80), min_size=1)


def played(player: Player, game: Game = GAME) -> World:
    return play(game, dict.fromkeys(game.agents, player))


def first(wishes: list[int | None], game: Game = GAME) -> World:
    """After the first harvest."""
    return harvested(game, first_state(game), dict(zip(game.agents, wishes, strict=True)))


# Games


def test_the_splits_share_no_start_value_and_have_26_14_and_20_games() -> None:
    train, validation, test = starts("train"), starts("validation"), starts("test")
    assert (len(train), len(validation), len(test), len({*test})) == (26, 14, 20, 20)
    assert {*Counter(train).values(), *Counter(validation).values()} == {2}
    assert {*train, *validation} == {*FITTED_ON} and not {*train} & {*validation}
    assert not {*test} & {*FITTED_ON} and (min(TESTED_ON), max(TESTED_ON)) == (100, 300)
    assert validation == starts("validation", seed=0) != starts("validation", seed=1)
    assert test == starts("test", seed=1)


# Wishes


@given(st.text(), st.integers(0, 10**6))
def test_a_wish_is_read_behind_any_reasoning_without_the_word(reasoning: str, tons: int) -> None:
    if "answer" not in reasoning.casefold():
        assert read_tons(replied(f"{reasoning}\nAnswer: {tons} tons")) == tons


# Who gets what


@pytest.mark.parametrize("how", ALLOCATIONS)
@given(pool=st.integers(0, 300), wanted=WISHES, seed=st.integers())
def test_no_ton_is_made_or_lost_and_nobody_gets_more_than_it_wants(
    how: Allocation, pool: int, wanted: dict[str, int], seed: int
) -> None:
    caught = allocate(pool, wanted, how, random.Random(seed))
    assert sum(caught.values()) == min(pool, sum(wanted.values()))
    assert list(caught) == list(wanted) and all(0 <= caught[agent] <= wanted[agent] for agent in wanted)


@given(pool=st.integers(0, 300), wanted=WISHES, seed=st.integers())
def test_proportional_shares_are_less_than_a_ton_away_from_the_proportion(
    pool: int, wanted: dict[str, int], seed: int
) -> None:
    caught, total = allocate(pool, wanted, "proportional", random.Random(seed)), sum(wanted.values())
    share = min(1.0, pool / total) if total else 1.0
    assert all(abs(caught[agent] - share * wish) < 1 for agent, wish in wanted.items())


@pytest.mark.parametrize(
    ("how", "wanted", "expected"),
    [
        ("proportional", {"a": 6, "b": 3, "c": 1}, {"a": 4.2, "b": 2.1, "c": 0.7}),
        # one by one the small wish is soon met: c gets its ton unless all 7 draws pass it by
        ("stochastic", {"a": 50, "b": 50, "c": 50}, {"a": 7 / 3, "b": 7 / 3, "c": 7 / 3}),
    ],
)
def test_scarce_fish_are_shared_as_expected_in_the_mean(
    how: Allocation, wanted: dict[str, int], expected: dict[str, float]
) -> None:
    rng, got = random.Random(0), Counter[str]()
    for _ in range(3000):
        got.update(allocate(7, wanted, how, rng))
    # the standard error of a mean is at most 0.024
    assert all(got[agent] / 3000 == pytest.approx(mean, abs=0.1) for agent, mean in expected.items())


# Months


def test_a_month_takes_the_harvest_and_then_doubles_what_is_left() -> None:
    world = first([10, 10, 10, 10, 15])
    assert (world["pool"], world["harvests"][0]["left"], is_harvested(world)) == (45, 45, True)
    later = next_month(GAME, world)
    assert (later["month"], later["pool"], is_harvested(later)) == (2, 90, False)
    assert later["harvests"] == world["harvests"] and json.loads(json.dumps(later)) == later
    assert next_month(GAME, first([0, 0, 0, 0, 10]))["pool"] == 100, "the lake holds no more than at the start"


@pytest.mark.parametrize(
    ("wishes", "left", "over"), [([19] * 5, 5, False), ([20, 19, 19, 19, 19], 4, True), ([20] * 5, 0, True)]
)
def test_it_collapses_under_five_tons_before_the_fish_double(wishes: list[int | None], left: int, over: bool) -> None:
    world = first(wishes)
    assert (world["pool"], is_over(GAME, world), has_collapsed(GAME, world)) == (left, over, over)
    game = Game(start=100, months=2)  # a collapse in the last month is no survival, though it took all months
    world = harvested(game, next_month(game, first([10] * 5, game)), dict.fromkeys(AGENTS, wishes[-1] or 0))
    assert [measures(game, world)[name] for name in ("survived", "months")] == [not has_collapsed(game, world), 2]


def test_nothing_is_over_before_the_harvest() -> None:
    last = {**first_state(GAME), "month": 13, "harvests": [first([10] * 5)["harvests"][0]] * 12}
    assert not is_over(GAME, first_state(GAME)) and not is_over(GAME, last)  # type: ignore[arg-type]  # a World by its keys


def test_what_cannot_be_read_catches_nothing_and_more_than_there_is_is_all() -> None:
    done = first([None, -3, 10**6, 0, 0])["harvests"][0]
    assert done["wanted"] == {"John": None, "Kate": 0, "Jack": 100, "Emma": 0, "Luke": 0}
    assert done["caught"] == {**dict.fromkeys(AGENTS, 0), "Jack": 100} and done["left"] == 0


def test_the_threshold_is_half_the_lake_shared_and_rounded_down_and_equality_one_minus_ginis_coefficient() -> None:
    assert [threshold(pool, 5) for pool in (100, 99, 9)] == [10, 9, 0]
    assert [equality(gains) for gains in ([1, 1], [4, 0, 0, 0], [3, 1], [0, 0])] == pytest.approx([1, 0.25, 0.75, 1])


def test_scarce_fish_are_drawn_alike_when_a_month_is_played_again_and_else_with_another_seed() -> None:
    draws = [first([40] * 5, Game(start=100, seed=seed))["harvests"][0]["caught"] for seed in "0001"]
    assert draws[0] == draws[1] == draws[2] != draws[3]


def test_a_newcomer_takes_part_from_its_month_on_and_narrows_the_threshold() -> None:
    world = played(sustainable, Game(start=100, newcomer_after=3))
    assert [len(month["caught"]) for month in world["harvests"]] == [4] * 3 + [5] * 9
    assert [month["threshold"] for month in world["harvests"]][2:4] == [12, 10]
    assert list(world["harvests"][2]["caught"]) == list(AGENTS[:-1]), "the last agent is the newcomer"


@settings(max_examples=50)
@given(
    start=st.integers(5, 300),
    how=st.sampled_from(ALLOCATIONS),
    wishes=st.lists(st.integers(0, 60), min_size=60, max_size=60),
)
def test_any_game_keeps_to_its_rules(start: int, how: Allocation, wishes: list[int]) -> None:
    game, told = Game(start=start, allocation=how), iter(wishes)
    world = play(game, dict.fromkeys(AGENTS, lambda *_: f"Answer: {next(told)} tons"))
    pool = start
    for month in world["harvests"]:
        assert month["pool"] == pool and month["left"] == pool - sum(month["caught"].values()) >= 0
        pool = min(start, 2 * month["left"])
    assert all(month["left"] >= 5 for month in world["harvests"][:-1])
    assert len(world["harvests"]) == 12 or world["harvests"][-1]["left"] < 5
    found: Any = measures(game, world)
    assert 0 <= found["efficiency"] <= 1 and 0.2 - 1e-9 <= found["equality"] <= 1 and 0 <= found["over_usage"] <= 1


def test_the_report_tells_every_catch_and_an_agent_alone_its_wish() -> None:
    done = first([10, 1, 0, 30, 5])["harvests"][0]
    assert report(done) == (
        "Month 1: John caught 10 tons, Kate caught 1 ton, Jack caught 0 tons, Emma caught 30 tons "
        "and Luke caught 5 tons."
    )
    assert own_catch(done, "Kate") == "The lake held 100 tons. You wanted 1 ton and caught 1 ton."
    game = Game(start=100, agents=["John", "Kate"], newcomer_after=1)
    assert report(harvested(game, first_state(game), {"John": 7})["harvests"][0]) == "Month 1: John caught 7 tons."


# What it comes to


SIXTH: Any = pytest.approx(100 / 600)  # Any: compared with a float


@pytest.mark.parametrize(
    ("tons", "expected"),
    [
        (10, (1, 12, 120, 1.0, 1.0, 0.0)),
        (20, (0, 1, 20, SIXTH, 1.0, 1.0)),
        (0, (1, 12, 0, 0.0, 1.0, 0.0)),
    ],
)
def test_who_wants_the_same_every_month_gets_what_the_rules_say(tons: int, expected: Any) -> None:
    world = play(GAME, dict.fromkeys(AGENTS, lambda *_: f"Answer: {tons} tons"))
    names = ("survived", "months", "gain", "efficiency", "equality", "over_usage")
    assert measures(GAME, world) == dict(zip(names, expected, strict=True))


def test_a_catch_counts_as_over_usage_above_its_months_threshold_only() -> None:
    found = measures(Game(start=100, months=1), first([10, 11, 10, 10, 9], Game(start=100, months=1)))
    assert found["over_usage"] == pytest.approx(1 / 5)
    unread = measures(Game(start=100, months=1), first([None, 11, 10, 10, 9], Game(start=100, months=1)))
    assert unread["over_usage"] == pytest.approx(1 / 4), "no catch of a wish that could not be read"


def test_one_free_rider_among_cooperators_is_paid_for_by_all() -> None:
    players: dict[str, Player] = {**dict.fromkeys(AGENTS, sustainable), "Luke": free_rider}
    worlds = played(sustainable), play(GAME, players)
    fair, ridden = (cast(dict[str, float], measures(GAME, world)) for world in worlds)
    luke, john = (sum(month["caught"][name] for month in worlds[1]["harvests"]) for name in ("Luke", "John"))
    assert luke > john and ridden["equality"] < fair["equality"]
    assert ridden["over_usage"] > 0 and ridden["gain"] < fair["gain"]


@pytest.mark.parametrize("start", starts("test"))
@pytest.mark.parametrize("how", ALLOCATIONS)
def test_sustainable_players_survive_and_greedy_ones_end_every_game_at_once(start: int, how: Allocation) -> None:
    game = Game(start=start, allocation=how)
    kept, lost = (cast(dict[str, float], measures(game, played(each, game))) for each in (sustainable, greedy))
    # rounding leaves under 5 tons a month
    assert kept["survived"] and kept["over_usage"] == 0 and kept["efficiency"] > 0.95
    assert lost["months"] == 1 and lost["over_usage"] > 0 and lost["gain"] * len(AGENTS) == pytest.approx(start)


# The talk


def spoken(done: bool = False, following: str | None = None) -> Utterance:
    return Utterance("Well.", (0, 5), done, following)


@each_row(
    ("reply", "text", "done", "following"),
    [
        ("Say: Ten each?\nDone: no\nNext: Kate", "Ten each?", False, "Kate"),
        ("**Say:** Ten each?\n**Done:** Yes.\n**Next:** **Luke**", "Ten each?", True, "Luke"),
        ("say: One line\nand another.\n\ndone : no\nnext: Emma, I think", "One line\nand another.", False, "Emma"),
        ("Next: jack\nSay: Ten?\nDone: no", "Ten?", False, None),
        ("Say: Ten.\nDone: yes, if Kate agrees\nNext: Emma or Kate", "Ten.", False, None),
        ("Say: Ten.\nDone: no\nNext: not Kate", "Ten.", False, None),
        ("Say: Ten?\nDone: no\nNext: Kate\nSay: Yes.\nDone: yes\nNext: John", "Ten?", False, "Kate"),  # not its turn
        ("Ten each?", "Ten each?", False, None),
        ("Say: Ten.\nDone: not yet\nNext: the mayor", "Ten.", False, None),
        ("Say: Ten.\nDone: yes/no\nNext: Katherine", "Ten.", False, None),
        ("Say: First.\nSay: Second.", "First.", False, None),
        ("Say:\nDone: no", "", False, None),
        ("", "", False, None),
        ("I must say: ten is enough.", "I must say: ten is enough.", False, None),
    ],
)  # fmt: skip
def test_an_utterance_is_read_however_it_is_written(reply: str, text: str, done: bool, following: str | None) -> None:
    found = read_utterance(replied(reply), AGENTS)
    assert (found.text, found.done, found.following) == (text, done, following)
    found = read_utterance(replied(reply, cut=True), AGENTS)  # it is heard, and its labels mean nothing
    assert (found.text, found.done, found.following) == (text, False, None)


@given(st.lists(st.sampled_from(["Say:", "Done:", "Next:", "\n", " ", "**", "Kate", "John", "yes", "no", "Ten?"])))
def test_what_is_heard_stands_in_the_reply_where_the_span_spoken(pieces: list[str]) -> None:
    reply = "".join(pieces)
    found = read_utterance(replied(reply), AGENTS)
    start, end = found.span
    assert 0 <= start <= end <= len(reply) and reply[start:end] == found.text == found.text.strip()
    assert found.following in (None, *AGENTS)


def test_the_first_of_all_begins_and_each_names_the_next_also_itself() -> None:
    assert next_speaker(AGENTS, [], None) == "John"
    assert next_speaker(AGENTS, ["John"], spoken(following="Luke")) == "Luke"
    assert next_speaker(AGENTS, ["John"], spoken(following="John")) == "John"
    assert next_speaker(AGENTS, ["Emma", "Luke"], spoken()) == "John", "where nobody is named, the next in order"
    assert next_speaker(AGENTS, ["John"], spoken(done=True, following="Kate")) is None


def test_a_talk_has_at_most_ten_messages_its_report_among_them() -> None:
    speakers, last = list[str](), None
    while (speaker := next_speaker(AGENTS, speakers, last)) is not None:
        speakers.append(speaker)
        last = spoken()
    assert len(speakers) + 1 == MESSAGES == 10 and speakers[:6] == [*AGENTS, "John"]
    assert next_speaker(AGENTS, ["John"], spoken(), most=2) is None
    assert next_speaker(AGENTS, ["John"] * 9, spoken(following="Emma"), most=11) == "Emma"


@each_row(
    ("reply", "limit"),
    [
        ("They settled it.\nAnswer: 10 tons", "10"),
        ("**Final answer:** 1,200 tons each.", "1200"),
        ("Answer:\n10 tons (my share)", "10"),
        ("`Answer: 10 tons`", "10"),
        ("Answer: N/A", "N/A"),
        ("They named some, from 8 to 10 tons.\nAnswer: none, as nobody agreed.", "N/A"),
        ("Answer: 0 tons", "0"),
        # another's, supposed, denied
        ("Kate said:\nAnswer: 20 tons\n\nI take less.\nAnswer: 10 tons", "10"),
        ("If nobody cheats:\nAnswer: 20 tons", ""),
        ("> Answer: 20 tons", ""),
        ('My first thought was "Answer: 20 tons".', ""),
        # two, or none in the form
        ("Answer: 10 tons\nAnswer: 12 tons", ""),
        ("Answer: N/A\nAnswer: 12 tons", ""),
        ("Answer: N/A, or 10 tons", ""),
        ("Answer: 12.5 tons, rounded down to 12", ""),
        ("Answer: 10% of the lake", ""),
        ("Answer: 10-12 tons", ""),
        ("Answer: 10 to 12 tons", ""),
        ("Answer: 10 or 12 tons", ""),
        ("Answer: -5 tons", ""),
        ("Answer: not 10 tons", ""),
        ("Answer: about 14 tons", ""),
        ("Answer: \u0661\u0660 tons", ""),
        ("", ""),
        ("Answer: 10 tons, if Kate takes 10", ""),
        ("Answer: 10 tons less than Kate", ""),
        ("Answer: none of us more than 10 tons", ""),
        ("Answer: ten tons", ""),
        ("I would catch 10 tons.", ""),
    ],
)
def test_a_limit_or_wish_is_the_number_of_the_reply_s_own_line_or_nothing(reply: str, limit: str) -> None:
    assert read_limit(replied(reply)) == limit and read_limit(replied(reply, cut=True)) == ""
    assert read_tons(replied(reply)) == (int(limit) if limit.isdigit() else None)


@pytest.mark.parametrize("text", ["Answer: " * 9000, "answer:\n" * 9000, "\n> **" * 9000, "Answer: 1" + "0" * 60000])
def test_a_hostile_wish_ends_soon(text: str) -> None:
    began = time.process_time()
    assert read_tons(replied(text)) is None
    assert time.process_time() - began < 3  # seconds, where 0.2 is usual
