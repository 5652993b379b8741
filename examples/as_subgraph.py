"""A debate as a node of another graph: retrieve, debate, write up; streamed with the debate's own steps.

The parent's state shares `question`, `documents` and `decision` with the debate. Each of the two agents gets some of
the retrieved facts, and learns the others only from the payloads of the other agent's messages.
"""

import re
from typing import Any

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from sottovoce import Debate, Decision, create_debate

AGENTS = ["agent_1", "agent_2"]
FACTS = ["l = 20.", "y = 3.", "o = 3.", "k = 11."]


class Report(TypedDict, total=False):
    """The parent's state."""

    question: str
    documents: dict[str, list[str]]
    decision: Decision
    report: str


def retrieve(state: Report) -> Report:
    """Find the facts about letters of the question, and deal them to the agents in turn."""
    found = [fact for fact in FACTS if re.search(rf"\b{fact[0]}\b", state["question"])]
    return {"documents": {agent: found[i :: len(AGENTS)] for i, agent in enumerate(AGENTS)}}


def write_up(state: Report) -> Report:
    """Report the answer, and the facts that each agent knew."""
    known = "; ".join(f"{agent} knew {' '.join(facts)}" for agent, facts in state["documents"].items())
    return {"report": f"{state['question']} {state['decision']['answer']} ({known})"}


graph = StateGraph(Report)
graph.add_node("retrieve", retrieve)
graph.add_node("debate", create_debate(Debate(protocol="cipher", agents=2, rounds=2)).compile(name="debate"))
graph.add_node("write_up", write_up)
graph.add_edge(START, "retrieve")
graph.add_edge("retrieve", "debate")
graph.add_edge("debate", "write_up")
graph.add_edge("write_up", END)


def show(mode: str, part: Any, spoken: dict[str, str]) -> None:  # Any: depends on the mode
    """Print each step when it is over, with the agent's reply from its streamed tokens."""
    if mode == "messages":
        token, about = part
        if "agent" in about:  # not the finished debate's messages, which the parent repeats as its own
            spoken[about["agent"]] = spoken.get(about["agent"], "") + token.text
        return
    for node in part:
        print(f"{node:12}{spoken.pop(node, '')}".rstrip())


if __name__ == "__main__":
    spoken: dict[str, str] = {}
    asked: Report = {"question": "What is l + y * o?"}
    parts: Any = graph.compile().stream(asked, stream_mode=["messages", "updates"], subgraphs=True)  # Any: as above
    for where, mode, part in parts:
        print(end="  " if where and mode == "updates" else "")  # inside the debate
        show(mode, part, spoken)
    print(part["write_up"]["report"])
