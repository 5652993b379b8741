"""The acts of the single baselines, whose agents hear nobody."""

from __future__ import annotations

from typing import Any

from sottovoce.agents.ask import Ask
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.say import say_answer
from sottovoce.nodes.state import Discussion, Update


def answer(run: RunContext[Any], state: Discussion, agent: str, protocol: str | None = None) -> Update:
    """Answer alone, with the documents of all agents, unless the settings leave some out."""
    known = state.copy()
    known["documents"] = run.settings.dealt(state.get("documents") or [])
    builder = run.prompt_builder(known, agent, None)
    ask = Ask(agent, "answer", builder.independent(), protocol=protocol)
    return {"board": say_answer(run, state, ask)}


def in_words(run: RunContext[Any], state: Discussion, agent: str) -> Update:
    """Answer as text under every protocol: a mean embedding leaves nothing to sample."""
    return answer(run, state, agent, "nl")
