"""Tests of the output of `graph symmetry`."""

from __future__ import annotations

import json

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


def test_the_command_counts_private_documents_as_prompts(call: Call) -> None:
    found = json.loads(call("graph", "symmetry", "debate", "--agents", 3, "--private", "--json").out)

    assert (found["mechanism"]["order"], found["mechanism"]["broken_by"]) == (1, ["prompts"])
    assert set(found) == {"scheme", "models", "others", "left_out", "mechanism", "labelled", "bare"}


def test_many_agents_are_told_of_before_they_are_compared(call: Call) -> None:
    # 60 agents were a minute of silence.
    answer = call("graph", "symmetry", "debate", "--agents", 21, "--rounds", 1)

    assert answer.err == "comparing 21 agents in 21 calls; this may take a minute\n"
    assert answer.out.startswith("21 agents, 21 calls\n")
