"""A debate as a tool of another agent, which calls `discuss` like any tool and continues with the answer.

The caller is a script here, so that this runs offline and without a large model. With a model that calls tools,
`caller` is `model.bind_tools([discuss]).invoke(state["messages"])`, and nothing else changes.
"""

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from sottovoce import Debate, create_debate

DEBATE = create_debate(Debate(agents=3, protocol="sde", rounds=2)).compile(name="debate")


@tool
def discuss(question: str) -> str:
    """Let three agents discuss a question of arithmetic; returns their answer, and how it was decided."""
    decision = DEBATE.invoke({"question": question})["decision"]
    return f"{decision['answer']} ({decision['why']})"


def caller(state: MessagesState) -> dict[str, list[AnyMessage]]:
    """Act as a model by script: pass the question to the tool, and pass on its result."""
    last = state["messages"][-1]
    if last.type == "tool":
        return {"messages": [AIMessage(f"I had it discussed: {last.text}.")]}
    return {"messages": [AIMessage("", tool_calls=[{"name": "discuss", "args": {"question": last.text}, "id": "1"}])]}


agent = StateGraph(MessagesState)
agent.add_node("caller", caller)
agent.add_node("tools", ToolNode([discuss]))
agent.add_edge(START, "caller")
agent.add_conditional_edges("caller", tools_condition)
agent.add_edge("tools", "caller")

if __name__ == "__main__":
    asked = HumanMessage("What is 691 - 506 + 243?")
    for message in agent.compile().invoke({"messages": [asked]})["messages"]:
        calls = [f"calls {call['name']}({call['args']['question']!r})" for call in getattr(message, "tool_calls", [])]
        print(f"{message.type}: {message.text or ', '.join(calls)}")
