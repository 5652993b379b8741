"""Everybody who answered has a vote, also who is none of those who discuss."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.graphs.runtime.frame import Frame
from sottovoce.graphs.scheme import Graph, Scheme
from sottovoce.nodes.say import answer
from sottovoce.settings import Settings


class Bench(Settings):
    """Agents answer, and a judge beside them."""

    agents: int = Field(default=1, description="how many")

    def others(self) -> list[str]:
        return ["judge"]


def create_bench(settings: Bench | None = None, **given: Any) -> Graph:
    settings = settings or Bench()
    frame = Frame(SCHEME, settings, **given)
    for agent in settings.names():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, answer, to="decide")
    return frame.graph


SCHEME = Scheme("bench", Bench, create_bench)


@pytest.mark.parametrize(("judge", "expected"), [("7", "7"), ("5", "5")])
def test_the_vote_of_a_judge_who_answered_counts_behind_those_who_discuss(judge: str, expected: str) -> None:
    said = {"agent_1": "5", "agent_2": "7", "judge": judge}
    model = ScriptedChatModel({agent: [f"The answer is {text}."] for agent, text in said.items()})
    decision = create_bench(Bench(agents=2), models=model).compile().invoke({"question": "How many?"})["decision"]

    assert [(vote["agent"], vote["answer"]) for vote in decision["votes"]] == [*said.items()]
    assert decision["answer"] == expected and decision["why"] == f"2 of 3 say {expected}"
