"""Panel: experts answer side by side, round after round; then a chair answers too, and all votes count."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from sottovoce import (
    Agent,
    Ask,
    Discussion,
    Frame,
    MessageRef,
    RunContext,
    Scheme,
    Settings,
    Turn,
    current_messages,
    say_answer,
)


class Panel(Settings):
    """Experts answer, read one another, and answer again; a chair who read them all votes with them."""

    acts: ClassVar[tuple[str, ...]] = ("answer", "conclude")

    experts: int = Field(default=2, ge=1, le=100, description="how many experts; the chair comes on top")
    rounds: int = Field(default=2, ge=1, le=100, description="rounds in which all experts answer")

    def speakers(self) -> list[str]:
        """expert_1 .. expert_n."""
        return [f"expert_{i + 1}" for i in range(self.experts)]

    def others(self) -> list[str]:
        """The chair."""
        return ["chair"]


async def answer(run: RunContext[Panel], state: Discussion, agent: Agent) -> dict[str, Any]:
    """Answer with the last words of everybody else before one's eyes."""
    others = {message.agent: MessageRef(message) for message in current_messages(state) if message.agent != agent.name}
    view = agent.prompt_builder(state)
    said = view.prompts.render("panel/others", others=list(others.values())) if others else ()
    act = "conclude" if agent.name == "chair" else "answer"
    turns = (*view.system_turn(), Turn("user", view.full_turn(discussion=said)))
    return {"board": await say_answer(run, state, agent, Ask(act, turns))}


def next_step(state: Discussion) -> Literal["next_round", "chair"]:
    """The chair answers after the last round."""
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "chair"


def create_panel(settings: Panel | None = None, **inputs: Any) -> Any:
    """Return the graph of a panel, uncompiled."""
    settings = Panel.parse(settings)
    frame = Frame(SCHEME, settings, **inputs)
    for expert in settings.speakers():
        frame.graph.add_edge("next_round", expert)
        frame.act(expert, answer, role="expert", to="close")
    frame.join("close", lambda state: {}, to=next_step)
    frame.act("chair", answer, role="chair", to="decide")
    return frame.graph


SCHEME = Scheme(
    "panel",
    Panel,
    create_panel,
    answers=("answer", "conclude"),
    headings={"conclude": "The chair"},
    prompts=Path(__file__).parent / "prompts",
)
make_graph = SCHEME.make_graph
