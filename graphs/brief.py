"""Brief (KVComm, Shi et al. 2025, arXiv 2510.03346; Communicating Activations, Ramesh and Li 2025, arXiv 2501.14082).

Senders read the documents in parallel, and brief the last agent, which gets the question and answers it. They may not
know the question. The same graph has both bounds: without senders, and with the documents in the last agent's prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.core.bounds import Agents, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import by_last
from sottovoce.nodes.hearing import others_of
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import passages_of
from sottovoce.nodes.say import say, say_answer
from sottovoce.nodes.settings import Documents
from sottovoce.nodes.shared_settings import Controlled
from sottovoce.nodes.state import Discussion, Update, rounds_of

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

BRIEF = "brief"


class Brief(Controlled):
    """Senders read documents, another agent answers (KVComm).

    It is also the setting of Communicating Activations.
    """

    acts: ClassVar[tuple[str, ...]] = ("brief", "answer")
    default_temperature: ClassVar[float | None] = 0.0

    agents: Agents = Field(
        default=2,
        ge=2,
        description="Number of agents. The last one answers; the documents are dealt to the others, the senders.",
    )
    know: Literal["nothing", "question"] = Field(
        default="nothing", description="What senders know besides their documents: nothing, or the question."
    )
    hears: Literal["brief", "documents", "nothing"] = Field(
        default="brief",
        description="What the last agent gets with the question: the senders' briefs, the documents in words (no "
        "sender speaks; an upper bound), or nothing (a lower bound).",
    )
    brief_tokens: Tokens = Field(default=60, ge=1, description="Maximum length of a brief, in tokens.")
    max_tokens: Tokens = Field(default=256, ge=1, description="Maximum length of the answer, in tokens.")

    def senders(self) -> list[str]:
        """Return the agents that read documents."""
        return self.speakers()[:-1]

    def edges(self) -> list[tuple[str, str]]:
        """Return an edge from each sender to the last agent, or no edges if it does not hear them."""
        last = self.speakers()[-1]
        return [(sender, last) for sender in self.senders()] if self.hears == "brief" else []

    def role_of(self, agent: str) -> str:
        """Return the role of an agent."""
        return "receiver" if agent == self.speakers()[-1] else "sender"

    def dealt(self, documents: Documents) -> Documents:
        """Return the documents dealt to the senders in turn. Private documents keep their owners."""
        if isinstance(documents, Mapping) or self.hears == "documents":
            return documents
        senders = self.senders()
        return {sender: documents[place :: len(senders)] for place, sender in enumerate(senders)}

    def needs(self) -> dict[str, str]:
        """Return the documents, if senders know nothing else."""
        blind = self.hears == "brief" and self.know == "nothing"
        told = {"documents": "without `know='question'`, senders read only documents"} if blind else {}
        return super().needs() | told

    @model_validator(mode="after")
    def _hears_senders(self) -> Brief:
        if self.control == "own":
            raise UsageError(
                "control is 'own', but the last agent has no earlier message; choose empty, filler or decoy"
            )
        if self.escalate == "disagreement":
            raise UsageError(
                "escalate is 'disagreement', but only one agent answers; choose uncertainty, or leave it out"
            )
        if self.hears != "brief" and (self.control, self.escalate) != ("none", "never"):
            raise UsageError(
                f"hears is {self.hears!r}, so no message is heard; leave out control and escalate, or choose "
                "`hears='brief'`"
            )
        return self


# Acts


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
                    "or add `know='question'`"
                )
    return {"documents": dealt["documents"]}


async def brief(run: RunContext[Brief], state: Discussion, agent: Agent) -> Update:
    """Return a sender's message, which may be without words."""
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
    """Return the briefs, then the question. Briefs without words come before the text, with nothing around them.

    Latent protocols replace such a message by its payload.
    """
    briefs = [MessageRef(message) for message in messages]
    wordless, worded = ([each for each in briefs if bool(each.text) == has] for has in (False, True))
    quoted = builder.prompts.render("brief/answer", briefs=worded) if worded else ()
    return (*builder.system_turn(), Turn("user", (*wordless, *builder.full_turn(discussion=quoted))))


# Graph


def next_speakers(state: State) -> Sequence[str]:
    """Ask the senders first, if the last agent hears them."""
    settings = Brief.model_construct(**state["settings"])
    return settings.senders() if settings.hears == "brief" else settings.speakers()[-1:]


def create_brief(settings: Brief | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of senders and the agent that answers. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.setup import close_round

    settings = Brief.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, begin=begin, rule=by_last)
    last = settings.speakers()[-1]
    frame.graph.add_conditional_edges("next_round", next_speakers, settings.speakers())
    for sender in settings.senders():
        frame.act(sender, brief, role="sender", to="close_round")
    frame.join("close_round", close_round, to=last)
    frame.act(last, answer, role="receiver", to="decide")
    return frame.graph


def manner(settings: Brief) -> str:
    """Return a phrase that describes the discussion."""
    if settings.hears != "brief":
        return f"one agent alone, with {'the' if settings.hears == 'documents' else 'no'} documents"
    asked = "the question" if settings.know == "question" else "no question"
    return f"{counted(len(settings.senders()), 'sender')} with documents and {asked}, one agent that answers"


SCHEME = Scheme(
    "brief",
    Brief,
    create_brief,
    answers=("answer",),
    headings={"brief": "Briefs", "answer": "Answer"},
    sample="briefing",
    manner=manner,
    shows="one agent sums up facts for another, which is asked about one of them",
    first={"sample": "briefing/0", "max_tokens": 48},
)
make_graph = SCHEME.make_graph
