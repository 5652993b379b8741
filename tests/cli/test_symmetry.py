"""Tests of the output of `graph symmetry` and `graph draw`."""

from __future__ import annotations

import re

from tests.cli.conftest import Call


def test_the_command_prints_order_orbits_generators_and_what_breaks_it(call: Call) -> None:
    answer = call(
        "graph", "symmetry", "debate", "--agents", 3, "--rounds", 2, "--model", "a", "--model", "a", "--model", "b"
    )

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "3 agents, 6 calls",
        "order          2 of 6 permutations",
        "orbits         {agent_1, agent_2}, {agent_3}",
        "generators     (agent_1 agent_2)",
        "broken by      models (each agent's model and temperature)",
        "without models 6: of the mechanism alone, with any models",
        "bare edges     2: considering only who hears whom, not what is sent",
    ]


def test_a_drawing_shows_who_hears_whom_where_not_all_hear_all(call: Call) -> None:
    star = call("graph", "draw", "debate", "--agents", 4, "--hears", "star").out
    others = [f"agent_{i}" for i in (2, 3, 4)]
    pairs = {*re.findall(r"(\w+) == is heard by ==> (\w+);", star)}
    assert pairs == {("agent_1", each) for each in others} | {(each, "agent_1") for each in others}
    assert "is heard by" not in call("graph", "draw", "debate").out
