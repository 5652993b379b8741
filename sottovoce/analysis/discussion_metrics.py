"""Discussion metrics: how answers change from round to round, who agrees, and whether changes help.

The answers of each round are parsed as the scheme parses them; an abstention is not right and agrees with nothing.
docs/howto/scores.md defines each measure: the share of cases in which an event happened.

CMD (arXiv 2402.18272), section 5, for judge mistakes and propagation; MADRA (arXiv 2312.04854) for inconsistency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sottovoce.analysis.statistics import Share, share
from sottovoce.channels.message import Message
from sottovoce.core.text import counted
from sottovoce.nodes.hearing import heard_edges
from sottovoce.nodes.question import Question, content_of, question_id, same_questions
from sottovoce.prompts import kinds
from sottovoce.runs.measures import AVERAGED
from sottovoce.runs.record import DiscussionRecord


@dataclass(frozen=True)
class Observation:
    """One case that a measure counts."""

    measure: str
    question: str
    """The first id with the same content (`same_questions`)."""
    happened: bool
    round: int | None = None
    """The 0-based round; for a step, the later one."""
    agent: str | None = None
    model: str | None = None
    limit: str | None = None
    """For inconsistency: the number of agents and of rounds."""


@dataclass(frozen=True)
class Rate:
    """A measure over many observations."""

    measure: str
    of: str
    """The group: a round, agent, model or limit; empty for all."""
    happened: int
    n: int
    share: Share
    """The share that happened, with an interval clustered by question."""


@dataclass(frozen=True)
class Said:
    """An agent's answer in a round."""

    message: Message
    answer: str | None
    right: bool


Round = dict[str, Said]


def observed(records: Iterable[DiscussionRecord]) -> list[Observation]:
    """Return the observations of all finished discussions of a run, for questions with a target."""
    whole = [each for each in records if kinds.target_of(each.question) is not None]
    over = [each for each in whole if each.decision is not None or each.status == "failed"]
    clusters = same_questions({question_id(each.question): content_of(each.question) for each in over})
    questions = [(clusters[question_id(each.question)], each) for each in over]
    read = [(question, each, _rounds(each)) for question, each in questions if each.decision is not None]
    longest = max((len(rounds) for _, _, rounds in read), default=0)
    decided = [(question, each.decision is not None and each.decision["score"] == 1) for question, each in questions]
    averaged = any(each.decision is not None and each.decision["rule"] in AVERAGED for each in over)
    return [
        *(each for case in read for each in _observed(*case, longest)),
        *(Observation(DECIDED, question, right) for question, right in decided if not averaged),
    ]


def _observed(question: str, record: DiscussionRecord, rounds: Sequence[Round], longest: int) -> Iterator[Observation]:
    agents = {agent for each in rounds for agent in each}
    loaded = {agent: each.model for agent, each in record.models.items()}
    chosen = record.chosen()
    names = chosen.names()  # a log may contain messages of other agents
    models = {agent: loaded.get(agent) or (chosen.of("model", agent) if agent in names else None) for agent in agents}
    answers = [("accuracy", said.right, r, agent) for r, round in enumerate(rounds) for agent, said in round.items()]
    cases = [*answers, *_of_steps(rounds, record), *_propagation(rounds, record)]
    for measure, happened, round, agent in (*cases, *_judge_mistakes(rounds, record)):
        yield Observation(measure, question, happened, round, agent, models.get(agent or ""))
    agreed = [_all_same(each, record.question) if len(each) > 1 else None for each in rounds]
    for r, now in enumerate(agreed):
        if now is not None:
            yield Observation("agreement", question, now, r)
    for within in range(1, longest + 1) if len(agents) > 1 else ():
        limit = f"{len(agents)} agents, {counted(within, 'round')}"
        yield Observation("inconsistent", question, True not in agreed[:within], limit=limit)


def rates(observations: Iterable[Observation], by: str | None = None) -> list[Rate]:
    """Return the measures, over all observations or grouped `by` a field: round, agent, model, limit."""
    groups: dict[tuple[str, str], list[Observation]] = {}
    for observation in observations:
        of = getattr(observation, by) if by else None if observation.limit else ""
        if of is not None:
            group = f"{ROUND}{int(of) + 1}" if by == "round" else of
            groups.setdefault((observation.measure, group), []).append(observation)
    measured = []
    for (measure, group), members in groups.items():
        happened = [float(each.happened) for each in members]
        interval = share(happened, [each.question for each in members])
        measured.append(Rate(measure, group, int(sum(happened)), len(members), interval))
    return sorted(measured, key=lambda rate: (MEASURES.index(rate.measure), len(rate.of), rate.of))  # agent_9, agent_10


DECIDED, ROUND = "decided right", "round "
MEASURES = (
    "accuracy",
    "agreement",
    "flips",
    "abandoning",
    "obstinate",
    "propagation",
    "judge mistake",
    "inconsistent",
    DECIDED,
)


# Counting

Counted = tuple[str, bool, int | None, str | None]
"""Measure, whether it happened, round, agent."""


def _rounds(record: DiscussionRecord) -> list[Round]:
    question, read = record.question, record.answered_as()
    return [
        {
            name: Said(said, vote["answer"], kinds.right(vote["answer"], question))
            for name, (said, vote) in answers.items()
        }
        for answers in read
    ]


def _all_same(round: Round, question: Question) -> bool:
    first, *others = [said.answer for said in round.values()]
    return all(_same(first, each, question) for each in others)


def _same(left: str | None, right: str | None, question: Question) -> bool:
    return kinds.same(left, right, kinds.kind_of(question))


def _of_steps(rounds: Sequence[Round], record: DiscussionRecord) -> Iterator[Counted]:
    hears = _hearing(record)
    for r, (before, after) in enumerate(pairwise(rounds), 1):
        for agent in (name for name in before if name in after):
            old, new = before[agent], after[agent]
            silent = old.answer is None and new.answer is None
            earlier = (said for said in after.values() if said.message.turn < new.message.turn)
            yield "flips", not silent and not _same(old.answer, new.answer, record.question), r, agent
            if old.right:
                yield "abandoning", not new.right, r, agent
            elif any(said.right and hears(r, agent, said.message) for said in (*before.values(), *earlier)):
                yield "obstinate", not new.right, r, agent


def _hearing(record: DiscussionRecord) -> Callable[[int, str, Message], bool]:
    """Return whether an agent read a message in a round: by its prompts, or where there are none by edges."""
    edges, read = heard_edges(record.chosen()), dict[tuple[int, str], set[tuple[object, ...]]]()
    for prompt in record.prompts:
        places = {tuple(each["place"])[:-1] for each in prompt.heard}
        read.setdefault((prompt.round, prompt.agent), set()).update(places)

    def hears(round: int, agent: str, message: Message) -> bool:
        places = read.get((round, agent))
        return (message.agent, agent) in edges if places is None else tuple(message.place)[:-1] in places

    return hears


def _propagation(rounds: Sequence[Round], record: DiscussionRecord) -> Iterator[Counted]:
    edges = heard_edges(record.chosen())
    for agent, first in (rounds[0] if rounds else {}).items():
        later = [round[agent] for round in rounds[1:] if agent in round]
        others = [said for round in rounds for name, said in round.items() if (name, agent) in edges]
        if not (first.right and later and others):
            continue
        wrong = [(said, each) for said in later if not said.right for each in others]
        before = [(said.answer, each.answer) for said, each in wrong if each.message.time < said.message.time]
        yield "propagation", any(_same(*both, record.question) for both in before), None, agent


def _judge_mistakes(rounds: Sequence[Round], record: DiscussionRecord) -> Iterator[Counted]:
    assert record.decision is not None, "discussions that ended"
    last = rounds[-1] if rounds else {}
    agents = {name for round in rounds for name in round}
    by = record.decision.get("by")
    differ = len(last) > 1 and not _all_same(last, record.question)
    if by is not None and by not in agents and differ and any(said.right for said in last.values()):
        yield "judge mistake", not kinds.right(record.decision["answer"], record.question), None, None


def accuracy_by_round(records: Iterable[DiscussionRecord]) -> dict[int, Share]:
    """Return the accuracy of `discussion_metrics` by 0-based round, with intervals clustered by question."""
    by_round = [rate for rate in rates(observed(records), "round") if rate.measure == "accuracy"]
    return {int(rate.of.removeprefix(ROUND)) - 1: rate.share for rate in by_round}
