"""The act of an agent that hears nobody: the single baselines."""

from __future__ import annotations

from sottovoce.nodes.act import Act, Steps
from sottovoce.nodes.company import Company
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import AnySettings
from sottovoce.nodes.state import Discussion


def answer(company: Company[AnySettings], agent: str, *, speaks: str | None = None) -> Act:
    """Answer alone, with the documents of all: the single baselines. `speaks` as in `Ask`."""

    def act(state: Discussion) -> Steps:
        stage = company.stage(state)
        turns = stage.view(state, agent, None).independent()
        return {"board": (yield from say(stage, state, agent, turns, "answer", speaks=speaks))}

    return act
