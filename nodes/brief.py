"""The acts of a brief: senders pass on what they read, and the last agent answers in words."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.core.errors import UsageError
from sottovoce.graphs.brief import Brief
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.hearing import others_of
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import passages_of
from sottovoce.nodes.say import say, say_answer
from sottovoce.nodes.state import Discussion, Update, rounds_of

BRIEF = "brief"


def begin(run: RunContext[Brief], state: Discussion) -> Update:
    """Deal the documents to the senders.

    Raises:
        UsageError: a sender would read nothing at all.
    """
    settings = run.settings
    dealt: Discussion = {**state, "documents": settings.dealt(state.get("documents") or [])}
    if (settings.hears, settings.know) == ("brief", "nothing"):
        for sender in settings.senders():
            if not passages_of(dealt, sender):
                raise UsageError(
                    f"{sender} has no document and does not know the question; give each sender a document, "
                    "or add --know question"
                )
    return {"documents": dealt["documents"]}


async def brief(run: RunContext[Brief], state: Discussion, agent: Agent) -> Update:
    """Return a sender's message, which needs no words."""
    builder, informed = agent.prompt_builder(state), run.settings.know == "question"
    asked = (builder.known([]), builder.question_of("")) if informed else ()
    request = builder.prompts.render("brief/brief", documents=builder.documents(), informed=informed)
    turns = (*builder.system_turn(), Turn("user", blocks(*asked, request)))
    ask = Ask(BRIEF, turns, max_tokens=run.settings.brief_tokens, silent=run.settings.escalate == "never")
    return {"board": await say(run, state, agent, ask)}


async def answer(run: RunContext[Brief], state: Discussion, agent: Agent) -> Update:
    """Return the last agent's answer in words, which nobody hears."""
    settings, briefs = run.settings, list[Message]()
    if settings.hears == "brief":
        briefs = others_of(run, state, rounds_of(state, (BRIEF,))[-1], agent)
    owner = None if settings.hears == "documents" else ""
    turns = answer_turns(agent.prompt_builder(state, owner), briefs)
    return {"board": await say_answer(run, state, agent, Ask("answer", turns, protocol="nl"))}


def answer_turns(builder: PromptBuilder, messages: Sequence[Message]) -> tuple[Turn, ...]:
    """Return the briefs, and last the question; briefs without words stand before the text, with nothing around them.

    Latent protocols put what such a message carries in its place.
    """
    briefs = [MessageRef(message) for message in messages]
    wordless, worded = ([each for each in briefs if bool(each.text) == has] for has in (False, True))
    quoted = builder.prompts.render("brief/answer", briefs=worded) if worded else ()
    return (*builder.system_turn(), Turn("user", (*wordless, *builder.full_turn(discussion=quoted))))
