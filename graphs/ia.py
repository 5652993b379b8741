"""Information asymmetry (SDE, Tang et al. 2025, arXiv 2506.19209): each agent knows some of the passages.

In each round all agents reply in parallel, to the question and to the others' messages of the previous round. They hear
these messages whole, by the protocol; #Q and #A lines are only counted. The discussion ends with the first round that
has a well-formed answer in a box; all agents speak in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn, words
from sottovoce.core.bounds import Agents, Few, Rounds, Tokens
from sottovoce.core.response_format import Form
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.decide import majority, read_vote
from sottovoce.nodes.evidence import LIBRARY, evidence_of, retriever_of
from sottovoce.nodes.hearing import others_of
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks, own_turn
from sottovoce.nodes.question import Passage, Question
from sottovoce.nodes.say import answer_pattern, say
from sottovoce.nodes.settings import Documents
from sottovoce.nodes.shared_settings import SEARCHED, Controlled, Searching
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, rounds_of
from sottovoce.prompts import kinds
from sottovoce.retrievers.passage import plain

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

TALK, DEAL = "talk", "deal"
SAID = r"[^\s][^\n]{0,119}"
"""A line of a small model's constrained message: some 40 tokens, so that two and an answer fit into 100."""
INSIDE = r"[^{}\s.][^{}\n]{0,79}"
"""The content of a forced box: a few words, and not the dots of the prompt."""
LINE = re.compile(r"^\W{0,8}#\s?([QA])\s?:[\s*]*(\S.*)$", re.MULTILINE)
"""A question (Q) or an answer (A) in a message."""


class IA(Searching, Controlled):
    """Agents with different passages ask one another (IA, SDE).

    They go on until one of them answers.
    """

    acts: ClassVar[tuple[str, ...]] = ("talk",)
    default_temperature: ClassVar[float | None] = 0.0
    many_turns: ClassVar[bool] = True
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.1)

    agents: Agents = Field(
        default=2, ge=2, description="Number of agents; passages are dealt to them in turn, by rank."
    )
    rounds: Rounds = Field(
        default=5,
        ge=1,
        description="Maximum number of rounds; an answer in the requested format ends the discussion.",
    )
    max_tokens: Tokens = Field(default=256, ge=1, description="Maximum length of a reply, in tokens.")
    library: Annotated[str | None, SEARCHED] = Field(
        default=None,
        description="Library to search for passages if the question has no documents: encyclopedia, bm25:FOLDER, ...",
    )
    passages: Few = Field(default=6, ge=1, description="Number of passages to retrieve from --library.")
    score: Literal["formatted", "raw"] = Field(
        default="formatted",
        description="Score if no last reply has an answer in the requested format: formatted (0) or raw (the score of "
        "any readable answer, as in the published code).",
    )

    def dealt(self, documents: Documents) -> Documents:
        """Return the passages dealt to the agents in turn. Private documents keep their owners."""
        if isinstance(documents, Mapping):
            return documents
        agents = self.speakers()
        return {agent: documents[place :: len(agents)] for place, agent in enumerate(agents)}


# Acts


def begin(run: RunContext[IA], state: Discussion) -> Update:
    """Deal the passages; a question without any gets those found in the library, which the board lists."""
    documents = state.get("documents")
    if documents or run.settings.library is None:
        return {"documents": run.settings.dealt(documents or [])}
    library = run.settings.library
    found = retriever_of(run, state, library).invoke(state["question"], k=run.settings.passages)
    dealt: Any = run.settings.dealt(list(map(_passage, found)))  # Any: passages by agent
    lines = [f"{agent}: {'; '.join(each['title'] for each in own)}" for agent, own in dealt.items()]
    # Before all speakers.
    told = run.message(state, LIBRARY, DEAL, "\n".join(lines), attempt=0, order=-1, evidence=evidence_of(found))
    return {"documents": dealt, "board": [told]}


async def talk(run: RunContext[IA], state: Discussion, agent: Agent) -> Update:
    """Return one message: in the first round on the question alone, then on the others' previous messages."""
    rounds = rounds_of(state, (TALK,))[:-1]
    own = [spoken[agent.name] for spoken in rounds]
    others = [others_of(run, state, spoken, agent) for spoken in rounds]
    last = state["round"] + 1 >= run.settings.rounds
    form = form_of_message(state, last=last, small=agent.wording == "sentence")
    ask = Ask(TALK, talk_turns(agent.prompt_builder(state), own, others), form)
    return {"board": await say(run, state, agent, ask)}


def form_of_message(question: Question, *, last: bool, small: bool) -> Form:
    """Return the form of a message (`--guide on`): free text, and a line with a box that can only contain an answer.

    The box is forced in the last round; before, it is the agent's own choice. A small model writes no box on its own:
    it has a line #A:, then a line #Q: or the box. Its last message asks no question.
    """
    if not small:
        answer = answer_pattern(question, otherwise=r"[^{}\s.][^{}\n]*")
        return Form(pattern=rf"(?:{answer})\}}", after=r"\boxed{", forced=last, unknown=False, optional=True)
    box = rf"\\boxed\{{(?:{answer_pattern(question, otherwise=INSIDE)})\}}"
    return Form(pattern=rf"#A: {SAID}\n(?:{box if last else f'#Q: {SAID}|{box}'})", unknown=False, optional=True)


def _passage(document: Document) -> Passage:
    about = document.metadata
    found = Passage(id=str(document.id), text=document.page_content, title=about["title"], source=about["source"])
    own = plain(about["metadata"])
    return {**found, "metadata": own} if own else found


# Prompts


def talk_turns(builder: PromptBuilder, own: Sequence[Message], others: Sequence[Sequence[Message]]) -> tuple[Turn, ...]:
    """Return the documents as system turn, the question, and the chat so far: own messages, each before the others'."""
    described = "answer_description" in builder.components
    form = words(builder.prompts.render("ia/form", described=described, **builder.form_slots()))
    told = builder.prompts.render("ia/system", documents=builder.documents())
    asked = Turn("user", blocks(builder.known([]), builder.question_of(form)))
    turns = [*builder.system_turn(*told), asked]
    for r, (said, heard) in enumerate(zip(own, others, strict=True)):
        last = r == len(own) - 1
        turns.append(own_turn(said, latest=last))
        turns.append(builder.user("ia/reply", form, others=[MessageRef(message, latest=last) for message in heard]))
    return tuple(turns)


# Decision


def answered(state: Discussion) -> bool:
    """Return True if any agent gave an answer in its form in the current round."""
    return any(kinds.boxed(message, state) is not None for message in rounds_of(state, (TALK,))[-1].values())


def by_box(run: RunContext[IA], state: Discussion) -> Decision:
    """Decide by the most frequent answer in its form of the last round; the score is the share of right ones."""
    rounds = rounds_of(state, (TALK,))
    last = [rounds[-1][name] for name in run.settings.speakers()]
    votes = [_vote(message, state, raw=run.settings.score == "raw" and not answered(state)) for message in last]
    counting = [vote for vote in votes if vote["counts"]]
    marks = [kind for spoken in rounds for each in spoken.values() for kind, _ in LINE.findall(each.full_text)]
    asked, replied = map(marks.count, "QA")
    decision = majority(counting, state)
    stated = decision["why"] if counting else "no answer in its form"
    why = f"{stated} after round {len(rounds)}; {asked} questions asked, {replied} answered"
    right = [kinds.right(vote["answer"], state) for vote in counting]
    share = sum(right) / len(right) if right else 0.0
    score = None if decision["score"] is None else share
    return {**decision, "rule": "box", "why": why, "votes": votes, "score": score}


def _vote(message: Message, question: Question, *, raw: bool) -> Vote:
    """Return the vote in a message. A reply without its own box is an abstention."""
    inside = kinds.boxed(message, question)
    if inside is None:
        return read_vote(message, question) if raw else {"agent": message.agent, "answer": None, "counts": False}
    said = re.sub(r"\A\s*#[AQ]\b:?", "", inside)  # small models repeat the mark of a line, alone or before an answer
    return {"agent": message.agent, "answer": kinds.read_field(said, question), "counts": True, "read": "boxed"}


# Graph


def another_round(state: Discussion) -> Literal["next_round", "decide"]:
    """Continue until an agent has answered, or no round is left."""
    over = answered(state) or state["round"] + 1 >= state["settings"]["rounds"]
    return "decide" if over else "next_round"


def create_ia(settings: IA | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of information asymmetry. `inputs`: see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes.setup import close_round

    settings = IA.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_box, begin=begin)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, talk, to="close_round")
    frame.join(
        "close_round",
        close_round,
        to=another_round,
        labels={"next_round": "no answer", "decide": "answered, or last round"},
    )
    return frame.graph


def manner(settings: IA) -> str:
    """Return a phrase that describes the discussion."""
    return f"{settings.agents} agents, each with passages of its own, at most {settings.rounds} rounds"


SCHEME = Scheme(
    "ia",
    IA,
    create_ia,
    sample="world",
    answers=("talk",),
    headings={"deal": "Passages"},
    manner=manner,
    shows="each agent knows one of two facts, asks for the other, and repeats what it hears",
    first={"sample": "work_facts/7", "guide": "on", "rounds": 2, "max_tokens": 48},
)
make_graph = SCHEME.make_graph
