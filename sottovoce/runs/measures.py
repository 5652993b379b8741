"""Measures of a discussion: EM, F1 and named of short answers, retrieval, and how answers were read.

EM and F1 are SQuAD's, as ReAct and SDE use them: each is the best value over target and aliases, 0 for an abstention.
Passages are ranked by their numbers for the agents, pages by the order of opening. A passage may be named by its docid,
by `source:docid` or by its title; spaces and underscores are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Literal

from pydantic import BaseModel

from sottovoce.channels.message import Message
from sottovoce.core.any_types import Unimported
from sottovoce.nodes.decide import voted
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Discussion, concluded, current_messages
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds import normalise
from sottovoce.prompts.kinds.kind import stands_in
from sottovoce.prompts.structured import read_json
from sottovoce.runs.cost import LATENT
from sottovoce.runs.log import Count

FOUND, ALL_FOUND = "gold found", "all gold found"
RECALLS, GAIN = (5, 10), 10
"""Cut-off ranks of recall, and of nDCG."""
OF_RETRIEVAL = (*(f"recall@{k}" for k in RECALLS), f"nDCG@{GAIN}", FOUND, ALL_FOUND)
SHARES = frozenset({"EM", "F1", "named", LATENT, *OF_RETRIEVAL})
"""Measures of any scheme that are shares or grades in [0, 1]."""
AVERAGED = ("average", "box")
"""Rules whose decision is no single answer: each agent's answer has a score, and the mean counts."""
SEARCHERS = ("library", "environment")
"""Agents whose messages list retrieved passages."""


def bare(name: str) -> str:
    """Return a name as in TREC's files, without spaces.

    >>> bare("Harrow mill")
    'Harrow_mill'
    """
    return "_".join(name.split())


def retrieval(question: Question, messages: Iterable[Message]) -> dict[str, float]:
    """Return the measures of a question by its judgments; {} if these are unknown, or nothing was looked up."""
    relevant = _relevant(gold_of(question))
    looked_up = [message for message in messages if message.source == "rule" and message.agent in SEARCHERS]
    if not relevant or not looked_up:
        return {}
    matches = matched(ranking(looked_up), relevant)
    recalls = {f"recall@{k}": recall(matches, relevant, k) for k in RECALLS}
    names = {name for name in matches if name is not None}
    ideal = sorted(relevant.values(), reverse=True)
    return {
        **recalls,
        f"nDCG@{GAIN}": _gain([relevant[name] if name else 0 for name in matches]) / _gain(ideal),
        FOUND: float(bool(names)),
        ALL_FOUND: float(len(names) == len(relevant)),
    }


def gold_of(question: Question) -> dict[str, int]:
    """Return the grade of each of a question's gold passages; {} without known ones."""
    gold = question.get("gold_passages") or {}
    return dict(gold) if isinstance(gold, Mapping) else dict.fromkeys(gold, 1)


def ranking(messages: Iterable[Message]) -> list[tuple[str, ...]]:
    """Return the retrieved passages in order; each as all its names, its docid first."""
    found: dict[str, tuple[str, ...]] = {}
    for piece in (piece for message in messages for piece in message.evidence):
        names = [name for each in piece["origins"] for name in (each["docid"], f"{each['source']}:{each['docid']}")]
        found.setdefault(names[1], tuple(bare(name) for name in (*names, piece["title"]) if name))
    return list(found.values())


def matched(ranked: Sequence[Sequence[str]], relevant: Mapping[str, int]) -> list[str | None]:
    """Return for each passage the gold name that it matches, each name once; None for other passages."""
    seen: set[str] = set()
    matches: list[str | None] = []
    for names in ranked:
        name = next((name for name in names if name in relevant and name not in seen), None)
        matches.append(name)
        seen |= {name} if name else set()
    return matches


def names_for_trec(gold: Mapping[str, int], messages: Iterable[Message]) -> list[str]:
    """Return the retrieved passages' names for a TREC run file: as the judgments name a passage, else its docid.

    No name occurs twice: if two sources have the same docid, the second is named `source:docid`.
    """
    ranked = ranking(messages)
    matches = matched(ranked, _relevant(gold))
    taken = {name for name in matches if name is not None}
    chosen: list[str] = []
    for names, relevant in zip(ranked, matches, strict=True):
        name = relevant or next((name for name in names if name not in taken), names[1])
        taken.add(name)
        chosen.append(name)
    return chosen


def recall(matches: Sequence[str | None], relevant: Mapping[str, int], k: int) -> float:
    """Return the share of relevant passages among the first `k`.

    >>> recall(["a", None, "b"], {"a": 1, "b": 1}, 2)
    0.5
    """
    return sum(name is not None for name in matches[:k]) / len(relevant)


def _relevant(gold: Mapping[str, int]) -> dict[str, int]:
    return {bare(name): degree for name, degree in gold.items() if degree > 0}


def _gain(grades: Sequence[int]) -> float:
    """Return the discounted gain of the first ranks; gains are grades, as in trec_eval."""
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades[:GAIN], 1))


CLOSED = ("yes", "no", "noanswer")
"""Answers whose overlap with any other answer is 0."""


def exact_match(answer: str | None, golds: Sequence[str]) -> float:
    """Return 1 if the answer is one of the right ones after SQuAD's normalization, else 0.

    >>> exact_match("The Orla.", ["river Orla", "orla"])
    1.0
    """
    return float(answer is not None and normalise(answer) in map(normalise, golds))


def f1(answer: str | None, golds: Sequence[str]) -> float:
    """Return the harmonic mean of precision and recall over words, the best over the right answers.

    >>> f1("the river Orla", ["Orla"])
    0.6666666666666666
    """
    return 0.0 if answer is None else max((_overlap(normalise(answer), normalise(gold)) for gold in golds), default=0.0)


def named(answer: str | None, golds: Sequence[str]) -> float:
    """Return 1 if the answer contains one of the right answers as whole words, else 0.

    >>> named("the river Orla", ["Orla"]), named("Orlando", ["Orla"])
    (1.0, 0.0)
    """
    return float(answer is not None and any(stands_in(gold, answer) for gold in golds))


def _overlap(answer: str, gold: str) -> float:
    if answer != gold and (answer in CLOSED or gold in CLOSED):
        return 0.0
    said, wanted = answer.split(), gold.split()
    common = (Counter(said) & Counter(wanted)).total()
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def golds_of(question: Mapping[str, Unimported]) -> list[str]:
    """Return the right answers of a question: its target and its aliases."""
    target = question.get("target")
    return [] if target is None else [target, *question.get("aliases", [])]


def answer_measures(question: Mapping[str, Unimported], decision: Decision) -> dict[str, float]:
    """Return EM, F1 and named of a decision on a `text` question with a target; {} for any other."""
    golds = golds_of(question)
    if question.get("kind") != "text" or not golds:
        return {}
    answers = [decision["answer"]]
    if (rule := decision["rule"]) in AVERAGED:
        # `box` leaves out replies without an answer in its format, `average` counts abstentions as wrong; the fixed
        # replies of experts and dummies count under neither.
        votes = [(vote["answer"], vote["counts"]) for vote in decision["votes"]]
        abstains = rule == "average"
        answers = [said for said, counts in votes if counts or (abstains and said is None)] or answers
    measures = {"EM": exact_match, "F1": f1, "named": named}
    return {name: sum(score(answer, golds) for answer in answers) / len(answers) for name, score in measures.items()}


# How answers were read

ANSWER = "answer"
Way = Literal["at_once", "repair", "answer_turn", "unknown", "abstained"]


class ParseStatistics(BaseModel):
    """Counts of replies by how their answers were read, over all rounds; all 0 before there is a decision."""

    at_once: int = 0
    """Read from the reply itself."""
    repair: int = 0
    """Read from another reply, in the form that was asked for."""
    answer_turn: int = 0
    """Read from the answer turn after the reply."""
    unknown: int = 0
    """Abstentions that say that the answer is unknown."""
    abstained: int = 0
    """Replies from which nothing could be read."""


def parse_statistics(state: Discussion, counts: Iterable[Count], answers: tuple[str, ...]) -> ParseStatistics:
    """Count the replies that state answers (in one of the acts `answers`), over all rounds.

    A reply is read as the scheme counted it after its round; without such a count, as the scheme's rule reads it.
    Replies of earlier rounds that state nothing are left out if no count read them and nobody was asked.
    """
    counted = {(count.epoch, count.round, vote["agent"]): vote for count in counts for vote in count.votes}
    found, stated = Counter[Way](), [each for each in current_messages(state) if each.act in answers]
    last = max((message.round for message in stated), default=0)
    for message in stated:
        count, asked = counted.get((message.epoch, message.round, message.agent)), concluded(state, message)
        vote = count or voted(message, state)
        if vote["answer"] is None and count is None and asked is None and message.round < last:
            continue  # nothing reads it
        how = vote.get("asked")
        if vote["answer"] is None:
            text = (asked or message).full_text  # it says that the answer is unknown in words, or in a field
            field = read_json(text, (ANSWER,), may_be_empty=(ANSWER,)).values.get(ANSWER)
            unknown = kinds.declines(text, state) or (field is not None and kinds.is_open(field, state))
            found["unknown" if unknown else "abstained"] += 1
        else:
            found["answer_turn" if how == "answer" else how or "at_once"] += 1
    return ParseStatistics.model_validate(found)
