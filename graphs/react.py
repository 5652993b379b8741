"""The ReAct relay (SDE, arXiv 2506.19209; ReAct, Yao et al. 2022, arXiv 2210.03629).

Agents take turns, one step each: a thought and an action; a retriever replies to the action. Each agent reads all
earlier steps, and the page that the last agent opened is still open. The latest step is heard by the protocol and older
ones as text, as in the published relay, unless the settings carry all. A second call completes a step without an
action. The relay ends when an agent finishes; if no agent finishes by the last step, there is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Unpack

from pydantic import Field

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Part, Turn, words
from sottovoce.channels.payload import Span
from sottovoce.core.any_types import JSON
from sottovoce.core.bounds import Agents, Few, Tokens
from sottovoce.core.errors import RetrievalError
from sottovoce.core.response_format import Form
from sottovoce.environments import react
from sottovoce.environments.react import Action, Library, Malformed, World
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import decided, voted, with_unreadable
from sottovoce.nodes.evidence import FoundPassages, evidence_of, library_of
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.say import answer_pattern, say
from sottovoce.nodes.shared_settings import ENCYCLOPEDIA, SEARCHED, Searching
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, current_messages
from sottovoce.prompts.own import is_own
from sottovoce.retrievers.pool import Origin

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

STEP, ACTION, OBSERVE, ANSWER = "step", "action", "observe", "answer"
ENVIRONMENT = "environment"
MARK = re.compile(r"^\W{0,9}Action\b[ \t]*\d*[*_]*[ \t]*(?:[:.)\u2013\u2014-]|$)", re.MULTILINE | re.IGNORECASE)
"""The beginning of an action, also as "**Action 1:**", "Action:" or "action 1 - "."""
MADE_UP = re.compile(r"\n[^\w\n]{0,9}Observation\b[ \t]*\d*[*_]*[ \t]*:", re.IGNORECASE)
"""The beginning of an observation that a model invents."""
ANEW = re.compile(r"\n[^\w\n]{0,9}(?:Thought|Action|Question|Claim)\b[ \t]*\d*[*_]*[ \t]*:", re.IGNORECASE)
"""The beginning of another step."""
EXAMPLES = {"yes_no": ("decided", "agreed"), "number": ("counted", "found")}
USUAL = ("compared", "traced", "found")
OF_LABELS = {"SUPPORTS": "supported", "REFUTES": "refuted", "NOT ENOUGH INFO": "untold"}
"""Examples that end in FEVER's labels."""


class ReAct(Searching):
    """Agents search and look up in turn (ReAct relay, SDE).

    Each takes one step, until one of them answers.
    """

    acts: ClassVar[tuple[str, ...]] = ("step", "action")
    brief: ClassVar[bool] = True
    shows_documents: ClassVar[bool] = False
    default_temperature: ClassVar[float | None] = 0.0
    spreads_temperature: ClassVar[bool] = False  # SDE sets 0 for CIPHER too (appendix B.2.2)

    agents: Agents = Field(default=7, ge=1, description="Number of agents; they take turns.")
    steps: Few = Field(default=7, ge=1, description="Maximum number of steps of all agents together.")
    step_tokens: Tokens = Field(default=100, ge=1, description="Maximum length of a step, in tokens.")
    library: Annotated[str, SEARCHED] = Field(
        default=ENCYCLOPEDIA,
        description="Library to search: encyclopedia (built in), documents (the question's own), or a retriever "
        " such as bm25:FOLDER or wikipedia.",
    )
    search: Literal["title", "passages"] = Field(
        default="title",
        description="Page that a search opens: title (the page of that title, as in ReAct) or passages (the three best "
        "passages, as in SDE).",
    )
    carry: Literal["latest", "all"] = Field(  # type: ignore[assignment]  # in place of the protocol's option
        default="latest", description="Steps that the protocol carries; others are sent as text: latest or all."
    )


class Relay(Discussion):
    """The state of a relay."""

    world: Annotated[World, RESTORED]
    """The open page, the lookups on it, and the answer."""


class Said(NamedTuple):
    """One step of an agent."""

    step: Message
    action: Message | None
    """The reply of the second call, if the first had no action."""

    @property
    def does(self) -> Action | Malformed:
        """The action for the library."""
        return action_in(self.action or self.step)


# Acts


def begin(run: RunContext[ReAct], state: Discussion) -> Update:
    """Start with no open page; an unknown library is refused before any model runs."""
    library_of(run, state)
    return {"world": react.first_state()}


async def take_step(run: RunContext[ReAct], state: Relay, agent: Agent) -> Update:
    """Take one step, a thought and an action; if the reply has no action, keep its thought and ask for the action.

    Thoughts of small models are limited to one line, since longer ones lose the topic.
    """
    number, turns = state["round"] + 1, step_turns(agent.prompt_builder(state), run.settings, steps_of(state))
    argument, most = r"[^\[\]\n]+", run.settings.step_tokens
    ends = answer_pattern(state, otherwise=argument)  # Finish has an answer of the question's kind
    action = Form(pattern=rf"(?:Search|Lookup)\[{argument}\]|Finish\[(?:{ends})\]", unknown=False)
    guided = replace(action, after=f"Action {number}:", one_line=agent.wording == "sentence")
    ask = Ask(STEP, turns, guided, f"Thought {number}:", ("\nObservation",), most)
    said = await say(run, state, agent, ask)
    if isinstance(action_in(said[-1]), Malformed):
        thought = MessageRef(said[-1], ((0, len(_thought(said[-1]))),), own=True)
        prefill = (f"Thought {number}:", thought, f"\nAction {number}:")
        said += await say(run, state, agent, Ask(ACTION, turns, action, prefill, ("\n",), most))
    return {"board": said, "turn": state["turn"] + 1}


def environment(run: RunContext[ReAct], state: Relay) -> Update:
    """Let the library perform the last step's action, and return an observation."""
    said = steps_of(state)[-1][0]
    library = library_of(run, state)
    try:
        observation, world = react.step(library, state["world"], said.does)
    except RetrievalError as error:  # a temporary failure of a service; the relay can continue
        observation, world = f"The search failed: {error}.", state["world"]
    who, act, text = ENVIRONMENT, OBSERVE, observation
    if world["answer"] is not None:
        who, act, text = said.step.agent, ANSWER, f"Answer: {world['answer']}"
    opened = world["sentences"] is not state["world"]["sentences"]
    evidence = _evidence(library, run.settings.library, world["title"], said) if opened else ()
    message = run.message(state, who, act, text, order=len(run.settings.names()), evidence=evidence)
    return {"board": [message], "world": world}


def _evidence(library: Library, source: str, title: str | None, said: Said) -> tuple[JSON, ...]:
    """Return the results of a search: passages, or the page of that title."""
    agent, round = said.step.agent, said.step.round
    if isinstance(library, FoundPassages):
        return evidence_of(library.documents, agent, round)
    assert isinstance(said.does, Action) and title is not None, "a page was opened"
    origin = Origin(
        source=source, docid=title, rank=1, score=1.0, query=said.does.argument, agent=agent, round=round, url=None
    )
    return ({"title": title, "origins": [origin]},)


# Prompts


def step_turns(
    builder: PromptBuilder, settings: ReAct, steps: Sequence[tuple[Said, Message | None]]
) -> tuple[Turn, ...]:
    """Return the list of actions, examples, the question, and all steps so far with their observations."""
    passages = settings.search == "passages"
    told = builder.prompts.render("react/relay", agents=settings.agents, steps=settings.steps, passages=passages)
    seen = []
    for number, (said, observation) in enumerate(steps, 1):
        if observation is not None:
            parts = _step_parts(said, builder.agent, settings, latest=number == len(steps))
            seen.append((number, parts, MessageRef(observation, latest=False)))
    asked = blocks(builder.known([], _examples(builder, passages=passages)), _question(builder, seen))
    return (*builder.system_turn(*told), Turn("user", asked))


def steps_of(state: Discussion) -> list[tuple[Said, Message | None]]:
    """Return all steps in order, each with its observation, or with None if it has none yet."""
    rounds: dict[int, dict[str, Message]] = {}
    for message in current_messages(state):
        rounds.setdefault(message.round, {})[message.act] = message
    return [(Said(found[STEP], found.get(ACTION)), found.get(OBSERVE)) for found in rounds.values() if STEP in found]


def _question(builder: PromptBuilder, seen: Sequence[tuple[int, list[Part], MessageRef]]) -> tuple[Part, ...]:
    """Return form, question and steps. The steps follow the question as in the examples, so that a model continues."""
    described = "answer_description" in builder.components
    form = words(builder.prompts.render("react/form", described=described, **builder.form_slots()))
    about = {**builder.slots(), "form": form, "claim": bool(_of_claims(builder)), "trajectory": seen}
    return builder.prompts.render("react/question", **about)


def _examples(builder: PromptBuilder, *, passages: bool) -> list[str]:
    """Return the worked examples if they are switched on; their endings fit the question's kind."""
    if "demonstrations" not in builder.components:
        return []
    names = _of_claims(builder) or EXAMPLES.get(builder.kind, USUAL)
    return [words(builder.prompts.render(f"react/{name}", passages=passages)) for name in names]


def _of_claims(builder: PromptBuilder) -> tuple[str, ...]:
    """Return the examples that end in the question's labels, or no examples if these are not FEVER's."""
    choices = (builder.question.get("choices") or []) if builder.kind == "label" else []
    labels = {label.strip().upper() for label in choices}
    return tuple(name for label, name in OF_LABELS.items() if label in labels) if labels <= {*OF_LABELS} else ()


def _step_parts(said: Said, hearer: str, settings: ReAct, *, latest: bool) -> list[Part]:
    """Return a step for another agent. Two replies give the first's thought and the second's action."""

    def part(message: Message, *spans: Span) -> MessageRef:
        carried = message if latest or settings.carry == "all" else replace(message, payload=None)
        return MessageRef(carried, spans, latest, own=message.agent == hearer)

    if said.action is None:
        return [part(said.step)]
    number, thought, action = said.step.round + 1, _thought(said.step), said.action
    return [
        f"Thought {number}:",
        part(said.step, (0, len(thought))),
        f"\nAction {number}:",
        part(action, (0, len(action.text))),
    ]


# Readers of a step


def action_in(message: Message) -> Action | Malformed:
    """Return the action after the first "Action 3:", or else the first one. Invented observations are ignored."""
    if message.cut:
        return Malformed("the reply was cut; expected an action, as in Search[a title]")
    text = MADE_UP.split(message.text, maxsplit=1)[0]
    marked = next((mark for mark in MARK.finditer(text) if is_own(text, mark.start())), None)
    return react.parse(ANEW.split(text[marked.end() :], maxsplit=1)[0] if marked else text)


def _thought(step: Message) -> str:
    """Return the text of a step before its action, or before invented observations and steps."""
    text = MADE_UP.split(step.text, maxsplit=1)[0]
    marked = MARK.search(text)
    return ANEW.split(text[: marked.start()] if marked else text, maxsplit=1)[0].rstrip()


# Decision


def by_finish(run: RunContext[ReAct], state: Discussion) -> Decision:
    """Decide by the answer of the agent that finished; without one there is no answer."""
    said = [step for step, _ in steps_of(state)]
    unread = sum(isinstance(step.does, Malformed) for step in said), len(said), "steps hold no action"
    second = sum(each.action is not None for each in said)
    last = next((each for each in current_messages(state) if each.act == ANSWER), None)
    repaired = f"; {second} of them took a second call" if second else ""
    if last is None:
        why = f"nobody finished within {len(said)} steps: no answer{repaired}"
        return with_unreadable(decided("finish", why, [], [], state, (None,)), *unread)
    vote = voted(last, state)
    no_answer = "" if vote["counts"] else ", and no answer could be read"
    why = f"{last.agent} finished in step {len(said)}{no_answer}{repaired}"
    decision = decided("finish", why, [], [vote], state, (vote["answer"],))
    return with_unreadable({**decision, "by": last.agent}, *unread)


# Graph


def whose_turn(state: State) -> str:
    """Return the agent of this step: one step each, and the first agent again after the last."""
    return f"agent_{state['round'] % state['settings']['agents'] + 1}"


def another_step(state: Relay) -> Literal["next_round", "decide"]:
    """Continue until an agent finishes, or no step is left; a step is a round."""
    finished = state["world"]["answer"] is not None  # also with an empty answer
    return "decide" if finished or state["round"] + 1 >= state["settings"]["steps"] else "next_round"


def create_react(settings: ReAct | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of a relay. Models by agent name may be local or hosted; else see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = ReAct.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_finish, begin=begin, state=Relay)
    frame.graph.add_conditional_edges("next_round", whose_turn, settings.speakers())
    for agent in settings.speakers():
        frame.act(agent, take_step, to="environment")
    frame.join(
        "environment",
        frame.step(environment),
        to=another_step,
        labels={"next_round": "steps left", "decide": "finished, or last step"},
    )
    return frame.graph


def manner(settings: ReAct) -> str:
    """Return a phrase that describes the relay."""
    return (
        f"{settings.agents} agents in turn, at most {settings.steps} steps · by {settings.search} in {settings.library}"
    )


SCHEME = Scheme(
    "react",
    ReAct,
    create_react,
    sample="world",
    answers=("answer",),
    headings=dict.fromkeys(("step", "action", "observe"), "Step {round}") | {"answer": "Answer in step {round}"},
    manner=manner,
    shows="agents look one question up in an encyclopedia, one step each",
    first={"sample": "world/fact/5", "steps": 4},
)
make_graph = SCHEME.make_graph
