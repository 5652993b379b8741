"""An LLM judge of whether answers match the reference (MADRA, section 4): true or false.

The verdicts on a run are a run of their own, of the scheme `single`, in `RUN/judged`. A stopped one can be resumed; its
manifest names the judge's model and the digest of all its questions, and its replies are constrained to yes or no.
An abstention is false and is not shown to the judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from sottovoce.analysis.statistics import Share, share
from sottovoce.channels.message import words
from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.nodes.question import Question
from sottovoce.prompts.render import Prompts
from sottovoce.runs.measures import golds_of
from sottovoce.runs.read import verdicts
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.results import Results
from sottovoce.runs.run import Key, Run
from sottovoce.runs.run_directory import verdict_id
from sottovoce.settings import Single

LONGEST = 16
"""Maximum number of tokens of a verdict."""
Verdicts = Mapping[Key, bool]


def judge_settings(model: str) -> Single:
    """Return the settings of the judge: greedy, replies constrained to yes or no."""
    return Single(model=[model], temperature=[0], chain_of_thought=False, guide="on", max_tokens=LONGEST)


def judge_questions(run: Run) -> list[Question]:
    """Return the judge's questions about a run: one for every answer to a question with a known right answer.

    Raises:
        UsageError: there is no such answer.
    """
    prompts, questions = Prompts(), []
    for key, record in run.records.items():
        if (answer := _answer(record)) is not None:
            question: Mapping[str, JSONValue] = record.question
            slots = {"choices": question.get("choices") or [], "references": golds_of(question), "answer": answer}
            text = words(prompts.render("judge/verdict", question=question["question"], **slots))
            questions.append(Question(question=text, kind="yes_no", id=verdict_id(key)))
    if not questions:
        raise UsageError("the run has no answer to judge; expected finished discussions of questions with a target")
    return questions


def _answer(record: DiscussionRecord) -> str | None:
    if record.decision is None or not golds_of(record.question):
        return None
    return record.decision["answer"]


def raters(run: Run, judge_run: Run) -> dict[str, Verdicts]:
    """Return the verdicts on each answer by rater: our score, EM if it was measured, the judge."""
    answered = Results(result for result in run.results() if result.answer is not None)
    verdicts_by_rater: dict[str, Verdicts] = {
        "ours": {key: score == 1 for key, score in answered.scores().items()},
        "EM": {key: value == 1 for key, value in answered.measures.get("EM", {}).items()},
        "judge": {key: said == 1 for key, said in verdicts(judge_run).items()},
    }
    return {name: said for name, said in verdicts_by_rater.items() if said}


@dataclass(frozen=True)
class Agreement:
    """The agreement of two raters, over the answers that both judged."""

    left: str
    right: str
    n: int
    same: Share
    kappa: float | None
    """Cohen's kappa: 1 is full agreement, 0 chance agreement; None if both always give the same single verdict."""


def agreements(raters: Mapping[str, Verdicts]) -> Iterator[Agreement]:
    """Yield the agreement of every pair of raters with at least one answer in common."""
    for left, right in combinations(raters, 2):
        if common := [key for key in raters[left] if key in raters[right]]:
            pairs = [(raters[left][key], raters[right][key]) for key in common]
            same = share([float(first == second) for first, second in pairs], [question for question, _ in common])
            yield Agreement(left, right, len(pairs), same, kappa(pairs))


def kappa(pairs: Iterable[tuple[bool, bool]]) -> float | None:
    """Return Cohen's kappa (1960), (p - e) / (1 - e), for observed agreement p and chance agreement e; None if e is 1.

    >>> kappa([(True, True), (True, False), (False, False), (False, False)])
    0.5
    """
    listed = [*pairs]
    n, left, right = len(listed), sum(first for first, _ in listed), sum(second for _, second in listed)
    chance = (left * right + (n - left) * (n - right)) / n**2
    return None if chance == 1 else (sum(first == second for first, second in listed) / n - chance) / (1 - chance)
