"""In an application's event loop no act waits for files or processes: a server would refuse it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from sottovoce.agents.scripted import ScriptedChatModel
from tests.graphs.support import built

QUESTION = {"question": "How much is half of it?", "kind": "number"}


def replies(scheme: str, n: int) -> list[str]:
    """LaTeX, which a process of its own reads; each text is read for the first time."""
    texts = [rf"\boxed{{\frac{{{n + i}}}{{{n}}}}}" for i in range(9)]
    if scheme != "reconcile":
        return texts
    return [json.dumps({"reasoning": "So.", "answer": text, "confidence_level": "0.9"}) for text in texts]


@pytest.mark.parametrize(
    ("scheme", "settings"),
    [
        ("debate", {"rounds": 2}),
        ("debate", {"rounds": 2, "protocol": "sde", "fallback": "nl", "escalate": "disagreement"}),
        ("cmd", {"agents": 2, "rounds": 2}),
        ("reconcile", {"agents": 2, "rounds": 2}),
    ],
)
async def test_reading_an_answer_leaves_the_event_loop(scheme: str, settings: dict[str, Any], tmp_path: Path) -> None:
    async def run(n: int) -> Any:
        graph = built(scheme, ScriptedChatModel(replies(scheme, n)), **settings)
        return await graph.ainvoke(QUESTION)

    await run(7 + len(settings))  # whatever is imported late is imported now
    with blockbuster_ctx():
        state = await run(11 + len(settings))
    assert state["decision"]["votes"]
