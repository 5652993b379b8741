"""What `symmetry` prints."""

from __future__ import annotations

import json

from tests.cli.conftest import Call


def test_the_command_prints_order_orbits_generators_and_what_breaks_it(call: Call) -> None:
    answer = call("symmetry", "debate", "--agents", 3, "--rounds", 2, "--model", "a", "--model", "a", "--model", "b")

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "3 agents, 6 calls",
        "order          2 of 6 permutations",
        "orbits         {agent_1, agent_2}, {agent_3}",
        "generators     (agent_1 agent_2)",
        "broken by      models (who thinks, and how)",
        "without models 6: of the mechanism alone, whoever speaks",
        "bare edges     2: counting that one is heard, not what of it",
    ]


def test_the_command_counts_private_documents_as_prompts(call: Call) -> None:
    found = json.loads(call("symmetry", "debate", "--agents", 3, "--private", "--json").out)

    assert (found["mechanism"]["order"], found["mechanism"]["broken_by"]) == (1, ["prompts"])
    assert set(found) == {"scheme", "models", "mechanism", "labelled", "bare"}
