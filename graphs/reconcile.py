"""ReConcile (Chen et al. 2023, arXiv 2309.13007): a round table of different models that weigh confidences.

All agents answer with a confidence. In each round of discussion every agent reads all answers,
grouped, and answers again. The discussion ends when all agree or the rounds are over; recalibrated
confidences weight the votes.

Convincing samples are questions that a model answered wrongly alone, and rightly after reading a human's explanation;
the other agents see them as examples (section 3). A file has the samples of one model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message, MessageRef, Turn, words
from sottovoce.core.any_types import JSON
from sottovoce.core.bounds import Agents, Rounds
from sottovoce.core.errors import PromptError
from sottovoce.core.event_loop import off_loop
from sottovoce.core.files import read_json_file
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.core.trust import Names
from sottovoce.core.validation import Checked
from sottovoce.graphs.scheme import Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import (
    abstaining,
    boxed,
    decided,
    last_votes,
    leading,
    viewpoint_slots,
    viewpoints,
    vote_of,
    votes_of,
)
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import form_of, say
from sottovoce.nodes.settings import Model
from sottovoce.nodes.shared_settings import Voting
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, rounds_of
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds import MOST_CHOICES, KindName, lettered
from sottovoce.prompts.render import Prompts
from sottovoce.prompts.structured import read_confidence, read_json, recalibrated

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext


class ReConcile(Voting):
    """Agents vote, weighted by their confidence (ReConcile).

    They answer with a confidence, read all answers, and answer again (Chen et al. 2023).
    """

    model: Model = Field(default=["bundled"])
    agents: Agents = Field(default=3, ge=2, description="Number of agents; the paper uses three different models.")
    rounds: Rounds = Field(
        default=3, ge=0, description="Maximum number of rounds of discussion after the first answers."
    )
    vote: Literal["weighted", "plain"] = Field(
        default="weighted",
        description="Count votes weighted (by recalibrated confidence) or plain; the result of the other is reported "
        "too.",
    )
    convincing: Annotated[list[str], Names("file of convincing samples")] = Field(
        default=[], description="Files of convincing samples: one for each agent's model, or one for all."
    )

    @model_validator(mode="after")
    def _samples_fit(self) -> ReConcile:
        self.per_agent("convincing")
        return self


# Acts


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
REASONING, ANSWER, CONFIDENCE = "reasoning", "answer", "confidence_level"
"""The keys of an agent's reply, and of a sample, which is shown as a reply."""
SURE = Form(pattern=r"0(\.[0-9]{1,2})?|1(\.0)?", unknown=False)


@dataclass(frozen=True)
class Stated:
    """The reading of a reply: an answer and its agent's confidence."""

    answer: str | None
    confidence: float | None
    """In [0, 1], or None if it cannot be read."""
    error: str = ""
    """A description of what cannot be read."""
    unread: bool = False
    """True if the answer cannot be read; "unknown" can be read."""


def form(builder: PromptBuilder, *, again: bool = False) -> str:
    """Return the JSON form that agents are asked for, `again` after a reply that cannot be read."""
    return words(builder.prompts.render("reconcile/form", steps=builder.steps, value=builder.value(again=again)))


def discuss_turns(
    builder: PromptBuilder, messages: Mapping[str, Message], votes: Sequence[Vote], samples: Sequence[str] = ()
) -> tuple[Turn, ...]:
    """Return the question, and all answers of the round before by viewpoint, including the agent's own; no history."""
    heard = {name: MessageRef(message, own=name == builder.agent) for name, message in messages.items()}
    groups = viewpoint_slots(builder, votes, heard)
    said = builder.prompts.render("reconcile/discuss", viewpoints=groups)
    return (*builder.system_turn(), Turn("user", builder.full_turn(form(builder), samples, said)))


def stated(message: Message, question: Question) -> Stated:
    """Read an agent's JSON; without it, an answer as in any reply. Fields that cannot be read are None."""
    kind = kinds.kind_of(question)
    read = read_json(message.whole_text, (REASONING, ANSWER, CONFIDENCE), may_be_empty=(REASONING,))
    errors = [f'"{name}" {why}' for name, why in read.missing.items() if name != REASONING]
    if ANSWER in read.missing:
        answer = kinds.reading(message, question).answer
        return Stated(answer, None, "; ".join(errors), unread=answer is None)
    answer, confidence = kinds.read_field(read.values[ANSWER], question), read_confidence(read.values.get(CONFIDENCE))
    wrong = answer is None and not kinds.is_open(read.values[ANSWER], question)  # "unknown" can be read
    errors += [f'"{ANSWER}" holds no {kinds.KINDS[kind].words}'] if wrong else []
    if CONFIDENCE in read.values and confidence is None:
        errors.append(f'"{CONFIDENCE}" is no number from 0 to 1')
    return Stated(answer, confidence, "; ".join(errors), unread=wrong)


def read_vote(message: Message, question: Question) -> Vote:
    """Return a vote with its weight. An unreadable confidence is 0, as in the published code.

    An answer that cannot be read is an abstention, where the published code uses a random or an earlier one.
    """
    read = stated(message, question)
    confidence = read.confidence or 0.0
    return {**vote_of(message, boxed(read.answer)), "confidence": confidence, "weight": recalibrated(confidence)}


def vote(run: RunContext[ReConcile], state: Discussion) -> Update:
    """Count the round's votes, with their weights."""
    return {"votes": last_votes(run, state, read_vote)}


async def discuss(run: RunContext[ReConcile], state: Discussion, agent: Agent) -> Update:
    """Return one agent's message of the round: a first answer, or another after reading all agents' answers."""
    round, builder = state["round"], agent.prompt_builder(state)
    samples = samples_for(run, agent.name)
    turns = builder.independent(form(builder), samples)
    if round:
        before = rounds_of(state, run.answers)[round - 1]
        votes = await off_loop(votes_of, run, state, round - 1, read_vote)
        turns = discuss_turns(builder, before, votes, samples)
    kept_to = Form.of_object(REASONING, ANSWER, CONFIDENCE, **{ANSWER: form_of(state), CONFIDENCE: SURE})
    ask = Ask("revise" if round else "answer", turns, kept_to)

    def validate(message: Message) -> str:
        return stated(message, state).error

    def lacks_answer(message: Message) -> str:
        read = stated(message, state)
        return read.error if read.unread else ""

    board = await say(
        run, state, agent, ask, validate=validate, requested=form(builder, again=True), lacks_answer=lacks_answer
    )
    return {"board": board}


def begin(run: RunContext[ReConcile], state: Discussion) -> Update:
    """Read the files of samples in the settings; an invalid one is refused before any model runs."""
    samples_of_files(run)
    return {}


def samples_of_files(run: RunContext[ReConcile]) -> dict[str, list[str]]:
    """Return the rendered samples of each file in the settings, read once in a run."""

    def read() -> dict[str, list[str]]:
        files = {file: read_samples(file).samples for file in run.settings.convincing}
        return {file: [_as_example(each, file, run.prompts) for each in samples] for file, samples in files.items()}

    return run.once("convincing samples", read)


def samples_for(run: RunContext[ReConcile], agent: str) -> list[str]:
    """Return the convincing samples of the other agents' models, each once."""
    files = zip(run.settings.names(), run.settings.per_agent("convincing"), strict=False)  # no files, or one for each
    samples = samples_of_files(run)
    return list(dict.fromkeys(sample for name, file in files if name != agent for sample in samples[file]))


def agreed(state: Mapping[str, Any]) -> bool:
    """Return True if all agents gave one answer in the vote, and nobody abstained."""
    return len(viewpoints(state["votes"], state)) == 1 and not abstaining(state["votes"])


def by_weight(run: RunContext[ReConcile], state: Discussion) -> Decision:
    """Decide by the greatest weight (or the most votes); at a tie, by the answer that was given first."""
    votes = last_votes(run, state, read_vote)
    found = viewpoints(votes, state)
    best = {"weighted": leading(found, weighed=True), "plain": leading(found)}
    rule = run.settings.vote
    why = f"after round {state['round'] + 1}" + (", all agree" if agreed({**state, "votes": votes}) else "")
    if best[rule]:
        first = best[rule][0]
        support = f"{first.weight:g} of {sum(viewpoint.weight for viewpoint in found):g} in weight"
        support = support if rule == "weighted" else f"{len(first.votes)} of {len(votes)}"
        why = f"{support} for {first.answer} {why}"
    decision = decided(rule, why, best[rule], votes, state)
    other = "plain" if rule == "weighted" else "weighted"
    return {**decision, "beside": {other: best[other][0].answer if best[other] else None}}


# Convincing samples


class Sample(BaseModel):
    """One question, with the explanation that convinced a model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    question: Text
    kind: KindName = "number"
    choices: list[Text] = Field(default=[], max_length=MOST_CHOICES)
    explanation: Text
    """A human's explanation."""
    answer: Text
    """The right answer."""
    before: Text | None
    """The model's answer alone; None is an abstention."""
    after: Text
    """The model's answer after reading the explanation."""


class Samples(Checked):
    """The samples of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal["sottovoce.samples"] = "sottovoce.samples"
    version: Literal[1] = 1
    model: Text
    """The name of the model that was convinced."""
    weights: str | None = None
    """`LoadedModel.weights_key`, since models of one name may differ, or None for a hosted model."""
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The temperature that was used; None left it to the model."""
    settings: JSON = Field(default={})
    """The model's other settings: protocol (always nl), seed, max_tokens, ..."""
    samples: list[Sample] = Field(min_length=1)
    """In the order of the training file."""


def read_samples(path: Path | str) -> Samples:
    """Read a file of samples.

    Raises:
        UsageError: there is no file, it is not JSON, has another format or version, or a missing or wrong field.
    """
    return read_json_file(path, "samples file", Samples.model_validate)


def _as_example(sample: Sample, file: str, prompts: Prompts) -> str:
    given = {REASONING: sample.explanation, ANSWER: sample.answer, CONFIDENCE: "1.0"}  # a person was sure of it
    reply = json.dumps(given, ensure_ascii=False)
    slots = {"question": sample.question, "choices": lettered(sample.choices), "reply": reply}
    try:
        return words(prompts.render("reconcile/sample", **slots))
    except PromptError as error:
        raise PromptError(f"samples file {file!r}: {error}") from error


# The graph


def after_vote(state: State) -> Literal["next_round", "decide"]:
    """End on consensus or after the last round of discussion; round 0, the first answers, does not count."""
    return "decide" if agreed(state) or state["round"] >= state["settings"]["rounds"] else "next_round"


def create_reconcile(settings: ReConcile | None = None, **inputs: Unpack[GraphInputs]) -> Graph:
    """Return the uncompiled graph of ReConcile. Models by agent name may be local or hosted; else see `GraphInputs`."""
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph

    settings = ReConcile.parse(settings)
    frame = Frame(SCHEME, settings, **inputs, rule=by_weight, begin=begin)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, discuss, to="vote")
    frame.join(
        "vote",
        frame.step(vote),
        to=after_vote,
        labels={"next_round": "not agreed", "decide": "agreed, or last round"},
    )
    return frame.graph


def manner(settings: ReConcile) -> str:
    """Return a phrase that describes the discussion."""
    rounds = counted(settings.rounds, "round")
    return f"{settings.agents} agents, at most {rounds} of discussion · {settings.vote} vote"


SCHEME = Scheme(
    "reconcile",
    ReConcile,
    create_reconcile,
    manner=manner,
    shows="agents read each other's reasons and change their votes, and a wrong majority turns",
    first={"sample": "arithmetic/75"},
)
make_graph = SCHEME.make_graph
