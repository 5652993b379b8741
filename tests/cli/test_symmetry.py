"""Tests of the output of `graph symmetry`."""

from __future__ import annotations

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
