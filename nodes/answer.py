"""The acts of an agent that hears nobody: the single baselines."""

from __future__ import annotations

from typing import Any

from sottovoce.agents.ask import Ask
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.say import say_answer
from sottovoce.nodes.state import Discussion, Update


async def answer(run: RunContext[Any], state: Discussion, agent: str, protocol: str | None = None) -> Update:
    """Answer alone, with the documents of all unless the settings leave some of them out."""
    known = state.copy()
    known["documents"] = run.settings.dealt(state.get("documents") or [])
    view = run.view(known, agent, None)
    ask = Ask(agent, "answer", view.independent(), protocol=protocol)
    return {"board": await say_answer(run, state, ask)}


async def in_words(run: RunContext[Any], state: Discussion, agent: str) -> Update:
    """The same in words under every protocol: a mean of embeddings leaves nothing to draw."""
    return await answer(run, state, agent, "nl")
