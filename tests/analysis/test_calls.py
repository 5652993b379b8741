"""Who hears what, as a scripted run shows it, held against what the papers say of each scheme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from sottovoce.analysis.symmetry import Unrolled, symmetry, unroll
from sottovoce.channels.message import Message
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme
from sottovoce.graphs.discussion import MesSync, create_discussion
from sottovoce.nodes.rules import DiscussionRule
from sottovoce.nodes.state import Discussion

COUNTS: list[tuple[str, dict[str, AnyState], int, dict[str, int]]] = [
    ("debate", {"agents": 4, "rounds": 2}, 8, {"full": 4 * 3, "vote": 4}),
    ("debate", {"agents": 3}, 9, {"full": 2 * 3 * 2, "vote": 3}),  # what a chat shows again is heard once
    ("debate", {"agents": 3, "summarise": "each"}, 9 + 6, {"full": 2 * 3 * 2, "vote": 3}),  # by whom it is read
    ("debate", {"agents": 3, "summarise": "shared"}, 9 + 2, {"full": 2 * 3, "summarise": 2 * 3, "vote": 3}),
    ("debate", {"agents": 3, "role": ["debater", "expert", "dummy"]}, 9, {"full": 2 * 2, "vote": 1}),
    ("debate", {"agents": 3, "last_round": "deciding"}, 7, {"full": 6 + 2, "vote": 1}),
    ("mad", {}, 3 * 3 + 2, {"full": 5 + 3 * 2 + 6, "vote": 1}),
    ("pipeline", {}, 4, {"plan": 3, "critique": 2, "refine": 1, "vote": 1}),
    ("brief", {"agents": 3}, 3, {"brief": 2, "vote": 1}),
    ("reconcile", {}, 3 * 4, {"full": 3 * 3 * 2, "vote": 3}),
    ("cmd", {}, 18 + 1, {"full": 2 * 6 * 2 + 6, "viewpoint": 2 * 6 * 3, "vote": 7}),
    ("cmd", {"secretary": False, "representative": "first"}, 24, {"full": 24 + 3 * 2, "viewpoint": 36 + 8, "vote": 2}),
]


class Round(DiscussionRule):
    """Each agent hears the one before it, and the first the last, for some rounds."""

    def receivers(self, message: Message, state: Discussion, agents: Sequence[str]) -> Sequence[str]:
        return [agents[(agents.index(message.agent) + 1) % len(agents)]]

    def is_over(self, state: Discussion) -> bool:
        return state["round"] == 2


def of(name: str, **values: Any) -> Unrolled:
    """What is called and heard with these settings."""
    found = scheme(name)
    return unroll(found.create, found.settings(**values), found.answers)


def heard_by(unrolled: Unrolled, agent: str, round: int) -> set[tuple[str, int, str]]:
    """Whom an agent hears in a round: agent, round, and what is carried."""
    edges = [
        edge for edge in unrolled.edges if edge.hearer and (edge.hearer.agent, edge.hearer.round) == (agent, round)
    ]
    return {(edge.speaker.agent, edge.speaker.round, edge.carries) for edge in edges if edge.speaker}


def prompts(unrolled: Unrolled) -> list[str]:
    """What is told in the first round, by agent."""
    return [call.prompt for call in unrolled.calls if call.round == 0 and call.agent in unrolled.agents()]


@pytest.mark.parametrize(("name", "values", "calls", "edges"), COUNTS, ids=lambda value: str(value))
def test_calls_and_edges_are_as_many_as_the_scheme_says(
    name: str, values: dict[str, Any], calls: int, edges: dict[str, int]
) -> None:
    unrolled = of(name, **values)
    assert len(unrolled.calls) == len(set(unrolled.calls)) == calls
    assert Counter(edge.carries for edge in unrolled.edges) == {"question": calls, **edges}
    assert not unrolled.left_out


def test_agents_hear_their_group_in_full_and_of_others_the_viewpoint() -> None:
    found = heard_by(of("cmd"), "agent_2", 1)
    near = {(f"agent_{i}", 0, "full") for i in (1, 3)}
    assert found == near | {(f"agent_{i}", 0, "viewpoint") for i in (4, 5, 6)}
    assert heard_by(of("cmd"), "secretary", 2) == {(f"agent_{i}", 2, "full") for i in range(1, 7)}


@pytest.mark.parametrize(("agents", "representative"), [(4, "tied"), (7, "random")])
def test_levels_that_depend_on_answers_or_lots_are_left_out_and_named(agents: int, representative: str) -> None:
    unrolled = of("cmd", agents=agents, rounds=2, secretary=False, representative=representative)
    assert {call.round for call in unrolled.calls} == {0, 1}
    assert sum(edge.carries == "vote" for edge in unrolled.edges) == agents
    assert unrolled.left_out == "all from round 3 on: who speaks there depends on the answers"


def test_a_discussion_by_a_rule_is_read_like_any_other() -> None:
    unrolled = unroll(partial(create_discussion, Round()), MesSync(agents=4))
    assert heard_by(unrolled, "agent_1", 2) == {("agent_4", 1, "full")}
    assert symmetry(unrolled).order == 4


def test_prompts_differ_by_what_an_agent_is_told_and_not_by_who_said_what() -> None:
    one, two, three = prompts(of("debate", agents=3, system=["be bold", "doubt", "doubt"]))
    assert one != two == three
    assert len({call.prompt for call in of("reconcile", agents=5).calls}) == 2
    assert len({call.prompt for call in of("cmd", agents=7).calls}) == 3  # the secretary's is the third


def test_names_in_prompts_are_told_apart_as_one_s_own_and_others() -> None:
    own = prompts(of("debate", system=["You are agent_1, not agent_2.", "You are agent_2, not agent_1."]))
    same = prompts(of("debate", system=["Follow agent_1."]))
    assert own[0] == own[1]
    assert same[0] != same[1]


def test_no_model_is_loaded_and_a_missing_file_is_refused() -> None:
    assert len(of("debate", model=["/nowhere"], device=["cuda:7"]).calls) == 6
    with pytest.raises(UsageError, match="samples file 'nowhere' cannot be read"):
        of("reconcile", convincing=["nowhere"])


@pytest.mark.slow
def test_a_discussion_that_is_too_large_is_refused_with_the_bound() -> None:
    with pytest.raises(UsageError, match=r"more than 300 calls, too many; give fewer agents or rounds"):
        of("self_consistency", samples=301)
