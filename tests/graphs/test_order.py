"""Agents of one round hear nothing of it, so the order in which they happen to run changes nothing."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.graphs.support import InOrder, built, held, outcome

JSON = '{{"reasoning": "So.", "answer": "{}", "confidence_level": "0.{}"}}'
WORDS = "{}.{} The answer is {}."
SETTINGS: dict[str, dict[str, Any]] = {
    "debate": {"agents": 3, "rounds": 3},
    "reconcile": {"agents": 3, "rounds": 2},
    "cmd": {"agents": 4, "rounds": 3},
    "ia": {"agents": 3, "rounds": 3},
}


def replies(scheme: str, agent: int) -> list[str]:
    """Agents that never agree, and a tie at the end."""
    if scheme == "reconcile":
        return [JSON.format(20 + agent, 5 + agent + r) for r in range(3)]
    return [WORDS.format(agent, r, 20 + agent % 2) for r in range(3)]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_order_in_which_agents_of_a_round_run_changes_no_prompt(name: str) -> None:
    agents = [f"agent_{i + 1}" for i in range(SETTINGS[name]["agents"])]
    script = {agent: replies(name, i) for i, agent in enumerate(agents)} | {"secretary": ["The answer is 20."]}
    found = []
    for order in list(permutations(agents))[::5]:
        model = InOrder(replies=script, order=order)
        state = held(built(name, model, **SETTINGS[name]))
        assert [asked.agent for asked in model.calls if asked.agent in agents] == list(order) * 3
        prompts = {(asked.agent, asked.act, asked.round): asked.turns for asked in model.calls}
        found.append((prompts, outcome(state)))
    assert len(found) > 1 and all(each == found[0] for each in found)
