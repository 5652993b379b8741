"""MAD (Liang et al. 2023, arXiv 2305.19118): debate before a moderator, with adaptive break and a judge.

Affirmative, negative and further debaters speak one after another; each hears all messages since its
own last statement. Then the moderator names an answer, or leaves it open for the next round. After
the last round a judge, who has heard nothing yet, lists the candidates and chooses one.

All agents hear statements by the protocol; moderator and judge reply in text, since nobody hears them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

from pydantic import Field

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn, words
from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme
from sottovoce.nodes.decide import boxed, decided, read_vote, took, vote_of, voted
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks, own_turn
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import form_of, say
from sottovoce.nodes.settings import Model, Settings
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, rounds_of, said
from sottovoce.prompts import kinds
from sottovoce.prompts.structured import read_json

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

SIDES = ("affirmative", "negative")


class MAD(Settings):
    """Two sides argue before a judge (MAD, Liang et al. 2023).

    A moderator can end the debate before the judge decides it.
    """

    acts: ClassVar[tuple[str, ...]] = ("answer", "revise", "moderate", "list_candidates", "judge")
    default_temperature: ClassVar[float | None] = 0.0
    many_turns: ClassVar[bool] = True

    model: Model = Field(default=["bundled"])
    agents: Agents = Field(default=2, ge=2, description="Number of debaters, not counting moderator and judge.")
    rounds: Rounds = Field(
        default=3, ge=1, description="Maximum number of rounds; the moderator may end the debate after any of them."
    )
    # Level 0 contradicts the negative's "you disagree", in the paper too, which measured it to show that it harms.
    disagreement: int = Field(
        default=2,
        ge=0,
        le=3,
        description="Disagreement asked of debaters: 0 (none), 1 (on most points), 2 (only for the sake of the right "
        "answer), 3 (on every point).",
    )
    judge_sees: Literal["all", "last", "first"] = Field(
        default="all", description="Rounds whose statements the judge reads: all, last or first."
    )

    def speakers(self) -> list[str]:
        """Return affirmative, negative, debater_3 .. debater_n, in the order in which they speak."""
        return [*SIDES, *(f"debater_{i + 1}" for i in range(2, self.agents))]

    def others(self) -> list[str]:
        """Return the moderator and the judge. The judge is asked if the moderator names no answer."""
        return ["moderator", "judge"]


Spoken = Sequence[Mapping[str, Message]]
"""Messages by round and agent; the last round may be incomplete."""
PREFERENCE, SIDE, REASON, ANSWER = "Whether there is a preference", "Supported Side", "Reason", "debate_answer"
MODERATED = ("answer", "revise", "moderate")
EITHER = Form(choices=("Yes", "No"), unknown=False)


@dataclass(frozen=True)
class Verdict:
    """The reading of a moderator's or judge's reply."""

    answer: str | None
    """None if it is undecided."""
    error: str = ""
    """Why it cannot be read."""


# Acts


async def argue(run: RunContext[MAD], state: Discussion, agent: Agent) -> Update:
    """Return one debater's statement, after the earlier speakers of the round."""
    order, rounds = run.settings.speakers(), rounds_of(state, run.answers)
    turns = debater_turns(agent.prompt_builder(state), order, rounds, run.settings.disagreement)
    ask = Ask("revise" if state["round"] else "answer", turns)
    return {"board": await say(run, state, agent, ask), "turn": state["turn"] + 1}


async def moderate(run: RunContext[MAD], state: Discussion, agent: Agent) -> Update:
    """Return the moderator's verdict on the round."""
    builder, order = agent.prompt_builder(state), run.settings.speakers()
    turns = moderator_turns(builder, order, rounds_of(state, MODERATED))
    form = verdict_form(builder, order, again=True)
    # Reasons first, so that the rest can follow from them.
    fields = {PREFERENCE: EITHER, ANSWER: form_of(state)}
    kept_to = Form.of_object(REASON, PREFERENCE, SIDE, ANSWER, **fields).may_be_empty(ANSWER)
    ask = Ask("moderate", turns, kept_to, protocol="nl")
    messages = await say(run, state, agent, ask, validate=lambda message: verdict(message, state).error, requested=form)
    return {"board": messages, "turn": state["turn"] + 1}


async def list_candidates(run: RunContext[MAD], state: Discussion, agent: Agent) -> Update:
    """Return the judge's list of the debaters' answers."""
    turns = candidates_turns(agent.prompt_builder(state), run.settings.speakers(), _read_by_judge(run, state))
    ask = Ask("list_candidates", turns, protocol="nl")
    return {"board": await say(run, state, agent, ask), "turn": state["turn"] + 1}


async def judge(run: RunContext[MAD], state: Discussion, agent: Agent) -> Update:
    """Return the judge's choice among the listed answers."""
    builder, listed = agent.prompt_builder(state), said(state, agent.name, state["round"], ("list_candidates",))
    assert listed is not None, "the judge lists candidates before it chooses"
    turns = judge_turns(builder, run.settings.speakers(), _read_by_judge(run, state), listed)
    ask = Ask("judge", turns, Form.of_object(REASON, ANSWER, **{ANSWER: form_of(state)}), protocol="nl")

    def validate(message: Message) -> str:
        return judgement(message, state).error

    form = judgement_form(builder, again=True)
    return {"board": await say(run, state, agent, ask, validate=validate, requested=form, lacks_answer=validate)}


def _read_by_judge(run: RunContext[MAD], state: Discussion) -> Spoken:
    rounds = rounds_of(state, run.answers)
    return {"all": rounds, "last": rounds[-1:], "first": rounds[:1]}[run.settings.judge_sees]


# Prompts


def debater_turns(
    builder: PromptBuilder, order: Sequence[str], rounds: Spoken, disagreement: int = 2
) -> tuple[Turn, ...]:
    """Return a debater's chat: its own statements, each after the messages since its previous one."""
    turns = builder.system_turn(*builder.prompts.render("mad/debater", disagreement=disagreement))
    exchanges = _exchanges(builder.agent, order, rounds)
    for i, (heard, own) in enumerate(exchanges):
        statements = _named(heard, latest=i == len(exchanges) - 1)
        if i:
            turns.append(builder.user("mad/rebut", statements=statements))
        else:
            said = builder.prompts.render("mad/oppose", statements=statements) if heard else ()
            turns.append(Turn("user", builder.full_turn(discussion=said)))
        if own is not None:
            turns.append(own_turn(own, latest=i == len(exchanges) - 2))
    return tuple(turns)


def moderator_turns(builder: PromptBuilder, order: Sequence[str], rounds: Spoken) -> tuple[Turn, ...]:
    """Return the moderator's chat: each round's statements, and its own verdicts."""
    turns = _office(builder)
    for r, spoken in enumerate(rounds):
        last = r == len(rounds) - 1
        statements = _named([spoken[name] for name in order], latest=last)
        turns.append(builder.user("mad/moderate", verdict_form(builder, order), round=r + 1, statements=statements))
        if not last:
            turns.append(own_turn(spoken["moderator"], latest=r == len(rounds) - 2))
    return tuple(turns)


def candidates_turns(builder: PromptBuilder, order: Sequence[str], rounds: Spoken) -> tuple[Turn, ...]:
    """Return the judge's first prompt: which answers were given in these rounds."""
    named = [_named([spoken[name] for name in order], latest=spoken is rounds[-1]) for spoken in rounds]
    parts = builder.prompts.render("mad/candidates", statements=[each for row in named for each in row])
    return (*_office(builder), Turn("user", parts))


def judge_turns(builder: PromptBuilder, order: Sequence[str], rounds: Spoken, candidates: Message) -> tuple[Turn, ...]:
    """Return the judge's second prompt: which of the answers is right."""
    listed = own_turn(candidates)
    return (*candidates_turns(builder, order, rounds), listed, builder.user("mad/judge", judgement_form(builder)))


def verdict_form(builder: PromptBuilder, order: Sequence[str], *, again: bool = False) -> str:
    """Return the JSON form that a moderator is asked for, `again` after a reply that cannot be read."""
    sides = " or ".join(_side(name).capitalize() for name in order)
    return words(builder.prompts.render("mad/verdict", sides=sides, value=builder.value(again=again), again=again))


def judgement_form(builder: PromptBuilder, *, again: bool = False) -> str:
    """Return the JSON form that a judge is asked for, `again` after a reply that cannot be read."""
    return words(builder.prompts.render("mad/judgement", value=builder.value(again=again)))


# Decisions


def verdict(message: Message, question: Question) -> Verdict:
    """Read the moderator's answer, or None if it is empty or has no preference (both missing in the paper's code)."""
    names = (PREFERENCE, SIDE, REASON, ANSWER)
    read = read_json(message.whole_text, names, may_be_empty=names)
    if ANSWER not in read.values:
        return Verdict(None, f'"{ANSWER}" {read.missing[ANSWER]}')
    undecided = re.match(r"\W*(no|none|neither|false)\b", read.values.get(PREFERENCE, "").lower())
    given = read.values[ANSWER]
    read_as = _read_field(given, question)  # first: a choice may be "Cannot be determined"
    is_open = read_as.answer is None and kinds.is_open(given, question)
    return Verdict(None) if undecided or is_open else read_as


def judgement(message: Message, question: Question) -> Verdict:
    """Read the judge's answer from its JSON object, else as in any reply."""
    read = read_json(message.whole_text, (REASON, ANSWER), may_be_empty=(REASON,))
    if given := read.values.get(ANSWER):
        return _read_field(given, question)
    answer = kinds.reading(message, question).answer  # also of an object with the field "answer"
    return Verdict(answer, "" if answer is not None else f'"{ANSWER}" {read.missing[ANSWER]}')


def settled(state: Discussion) -> str | None:
    """Return the moderator's answer of the current round, or None if there is none."""
    message = said(state, "moderator", state["round"], ("moderate",))
    return verdict(message, state).answer if message else None


def by_verdict(run: RunContext[MAD], state: Discussion) -> Decision:
    """Decide by the moderator's answer, else the judge's; the debaters' votes are shown but do not count."""
    answer, by, round = settled(state), "moderator", state["round"]
    why = f"the moderator settled it in round {round + 1}"
    if answer is None:
        message, by = said(state, "judge", round, ("judge",)), "judge"
        assert message is not None, "the judge is asked if the moderator is undecided"
        vote = voted(message, state, lambda said, question: vote_of(said, boxed(judgement(said, question).answer)))
        answer = vote["answer"]
        did = "decided" if vote["counts"] else "was asked, and its answer could not be read,"
        why = f"the judge {did} after round {round + 1}" + (f" ({took(vote)})" if took(vote) else "")
    spoken = rounds_of(state, run.answers)[-1]
    votes: list[Vote] = [{**read_vote(spoken[name], state), "counts": False} for name in run.settings.speakers()]
    return {**decided(by, why, [], votes, state, (answer,)), "by": by}


def _read_field(text: str, question: Question) -> Verdict:
    kind, answer = kinds.kind_of(question), kinds.read_field(text, question)
    return Verdict(answer, "" if answer is not None else f'"{ANSWER}" holds no {kinds.KINDS[kind].words}')


def _exchanges(me: str, order: Sequence[str], rounds: Spoken) -> list[tuple[list[Message], Message | None]]:
    """Return pairs of an own statement and the messages before it. The last pair has no statement yet."""
    exchanges, heard = list[tuple[list[Message], Message | None]](), list[Message]()
    for spoken in rounds:
        for name in order:
            if name == me:
                exchanges.append((heard, spoken.get(me)))
                heard = []
            elif name in spoken:
                heard.append(spoken[name])
    return exchanges


def _office(builder: PromptBuilder) -> list[Turn]:
    """Return the system turn that moderator and judge share."""
    office = builder.prompts.render("mad/moderator")
    return builder.system_turn(*blocks(office, builder.known(builder.documents()), builder.question_of("")))


def _named(messages: Sequence[Message], *, latest: bool) -> list[tuple[str, MessageRef]]:
    return [(_side(message.agent), MessageRef(message, latest=latest)) for message in messages]


def _side(agent: str) -> str:
    return agent.replace("_", " ")


# The graph


VERDICTS = {"decide": "settled", "next_round": "left open", "list_candidates": "left open in the last round"}


def after_verdict(state: Any) -> Literal["decide", "next_round", "list_candidates"]:
    """End with the moderator's answer, or with the judge after the last round."""
    if settled(state) is not None:
        return "decide"
    return "next_round" if state["round"] + 1 < state["settings"]["rounds"] else "list_candidates"


def create_mad(settings: MAD | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of MAD. Names in `models`: the debaters, "moderator", "judge"."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = MAD.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_verdict)
    debaters = settings.speakers()
    frame.graph.add_edge("next_round", debaters[0])
    for debater, following in pairwise([*debaters, "moderator"]):
        frame.act(debater, argue, role="debater", to=following)
    frame.act("moderator", moderate, role="moderator", to=after_verdict, labels=VERDICTS)
    frame.act("list_candidates", list_candidates, agent="judge", role="judge", to="judge")
    frame.act("judge", judge, role="judge", to="decide")
    return frame.graph


def manner(settings: MAD) -> str:
    """Return a phrase that describes the debate."""
    held = f"{settings.agents} debaters, at most {counted(settings.rounds, 'round')}"
    seen = "" if settings.judge_sees == "all" else f" · the judge sees the {settings.judge_sees} round"
    return f"{held} · level of disagreement {settings.disagreement}{seen}"


SCHEME = Scheme(
    "mad",
    MAD,
    create_mad,
    headings={
        "list_candidates": "Candidates listed by the judge after round {round}",
        "judge": "The judge's choice after round {round}",
    },
    manner=manner,
    shows="two sides disagree until a moderator settles it",
    first={"sample": "arithmetic/162"},
)
make_graph = SCHEME.make_graph
