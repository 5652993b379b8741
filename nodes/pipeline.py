"""The acts of a pipeline: plan, critique, refine or contribute, and answer (LatentMAS, arXiv 2511.20639).

In words a stage hears all messages before it, as in the authors' TextMAS (Gen-Verse/LatentMAS, methods/text_mas.py).
Of messages without words it hears only the last, as there too: its sender has read the ones before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn, words
from sottovoce.graphs.pipeline import Pipeline
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.say import say, say_answer
from sottovoce.nodes.state import Discussion, Update, rounds_of

ACTS: Final[Mapping[str, str]] = {"planner": "plan", "critic": "critique", "refiner": "refine"}
"""The acts of the stages of a sequential pipeline."""
CONTRIBUTE: Final = "contribute"


async def pass_on(run: RunContext[Pipeline], state: Discussion, agent: Agent) -> Update:
    """Return the message of a stage, which hears the ones before; it needs no words."""
    builder, spoken = agent.prompt_builder(state), _spoken(run, state)
    request = words(builder.prompts.render(f"pipeline/{ACTS[agent.name]}"))
    ask = Ask(ACTS[agent.name], turns_of(builder, spoken, request), silent=True)
    return {"board": await say(run, state, agent, ask), "turn": state["turn"] + 1}


async def contribute(run: RunContext[Pipeline], state: Discussion, agent: Agent) -> Update:
    """Return the message of a specialist, which hears nobody; it needs no words."""
    builder = agent.prompt_builder(state)
    request = words(builder.prompts.render("pipeline/contribute", role=agent.name))
    return {"board": await say(run, state, agent, Ask(CONTRIBUTE, turns_of(builder, [], request), silent=True))}


async def answer(run: RunContext[Pipeline], state: Discussion, agent: Agent) -> Update:
    """Return the answer of the judge or summariser, in words."""
    turns = turns_of(agent.prompt_builder(state), _spoken(run, state))
    return {"board": await say_answer(run, state, agent, Ask("answer", turns, protocol="nl"))}


def turns_of(builder: PromptBuilder, spoken: Sequence[Message], request: str | None = None) -> tuple[Turn, ...]:
    """Return messages without words, then a full turn with the others; it ends with the request, or the answer's form.

    Of the stages without words only the last one is heard.
    """
    quoted = [(_named(message), MessageRef(message)) for message in spoken if message.text]
    wordless = [MessageRef(message) for message in spoken if not message.text]
    if any(message.act != CONTRIBUTE for message in spoken):
        wordless = wordless[-1:]
    said = builder.prompts.render("pipeline/heard", statements=quoted, final=request is None)
    return (*builder.system_turn(), Turn("user", (*wordless, *builder.full_turn(request, discussion=said))))


def _spoken(run: RunContext[Pipeline], state: Discussion) -> list[Message]:
    """Return the messages of the agents before the last, in the order of the settings."""
    spoken = rounds_of(state, (*ACTS.values(), CONTRIBUTE))[-1]
    return [spoken[agent] for agent in run.settings.speakers() if agent in spoken]


def _named(message: Message) -> str:
    return message.agent.replace("_", " ")
