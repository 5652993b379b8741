"""Scorers besides ours: programs that behave like the papers' own, including their misreadings, and an LLM judge.

`runs measures` shows the papers' scorers, since published figures were counted this way. They are written from
descriptions of behavior. Each takes the texts of the last round, the right answer as in the data set's file, and the
question's choices.

Du et al. (2023), gsm/eval_gsm.py and mmlu/eval_mmlu.py: the majority of the last round, ties to the first agent. If the
right answer has a thousands comma, only its last group of digits counts, and its sign is lost; if most agents give no
number, "none" wins the vote and scores 1.

CIPHER (arXiv 2310.06272): the majority of the last round, ties to the last agent. The sign of a number in braces is
lost; a reply without a number counts as -99999 and can win the vote; one without a letter counts as its last character.

SDE (arXiv 2506.19209, StateDelta): the mean over the agents' answers of the last round. Signs are lost; "42.", "18.00"
and "3.0" are not integers and count as wrong; if the right answer has a thousands comma, only its last group of digits
counts; any character in parentheses is a letter; an unclosed brace drops the last character.

KVComm (arXiv 2510.03346): ROUGE-L's recall of a whole reply, for TMATH, whose reference is a worked solution.

The judge (MADRA, section 4) says whether an answer matches the reference. Its verdicts on a run are a separate run of
the scheme `single`, in `RUN/judged`. Verdicts of another judge, or on later answers, are in `RUN/judged-2` and so on. A
stopped one can be resumed; its manifest names the judge's model and the digest of all its questions, and its replies
are constrained to yes or no. An abstention is false and is not shown to the judge.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TypeVar

from sottovoce.analysis.statistics import Mean, Share, mean, share
from sottovoce.channels.message import words
from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.graphs.single import Single
from sottovoce.nodes.question import Question
from sottovoce.prompts import kinds
from sottovoce.prompts.kinds import normalise
from sottovoce.prompts.render import Prompts
from sottovoce.runs.log import Key
from sottovoce.runs.measures import golds_of
from sottovoce.runs.record import Results
from sottovoce.runs.run import Run, verdict_id

Texts = Sequence[str]
Scorer = Callable[[Texts, str, Sequence[str]], float]
"""Returns a score in [0, 1]."""
Answer = TypeVar("Answer")
DIGITS = re.compile(r"\d+\.?\d*")
DU_BRACES = re.compile(r"\{([0-9.,$]*)\}")
IN_PARENTHESES = re.compile(r"\((\w)\)")


def last_number(text: str) -> str | None:
    """Return the last run of digits, with an optional decimal part: "-1,300" is 300."""
    numbers: list[str] = DIGITS.findall(text)
    return numbers[-1] if numbers else None


def number_in_braces(text: str, braces: re.Pattern[str] = DU_BRACES) -> str | None:
    """Return the last number in braces without dollar signs and commas; None if no braces contain a digit or dot."""
    numbers = [re.sub(r"[^0-9.]", "", content) for content in braces.findall(text)]
    return next((number for number in reversed(numbers) if number), None)


def most_frequent(answers: Sequence[Answer]) -> Answer:
    """Return the most frequent answer; of equally frequent ones, the first."""
    return max(answers, key=answers.count)


def du_number(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score GSM8K.

    >>> du_number(["It is {300}."], "1,300"), du_number(["No idea.", "Nor I.", "{7}"], "8")
    (1.0, 1.0)
    """
    right, won = last_number(gold), most_frequent([number_in_braces(text) or last_number(text) for text in texts])
    if won is None:
        return 1.0
    return float(right is not None and as_float(won) == as_float(right))


def du_option(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score MMLU by the last letter in parentheses, else the last number; replies with neither do not vote."""
    read = [letter_in_parentheses(text) or last_number(text) for text in texts]
    votes = [answer for answer in read if answer is not None]
    return float(bool(votes) and most_frequent(votes) == gold.upper())


def letter_in_parentheses(text: str) -> str | None:
    """Return the last single word character in parentheses, in upper case."""
    letters = IN_PARENTHESES.findall(text)
    return letters[-1].upper() if letters else None


def as_float(text: str) -> float | None:
    """Return the number; None for a text such as "1.2.3", at which the published program failed."""
    try:
        return float(text)
    except ValueError:
        return None


CLOSE = 1e-5
NUMBER_ANSWERS = (re.compile(r"Answer: (-?\d+\.\d+)"), re.compile(r"Answer: (-?\d+)"))
LETTER_ANSWERS = (re.compile(r"Answer: (\w)"), re.compile(r"answer is \W?(\w)\b"))
ANY_BRACES = re.compile(r"\{([^{}]*)\}")
SIGNED = re.compile(r"-?\d+\.?\d*")


def cipher_number(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score GSM8K and arithmetic.

    >>> cipher_number(["Answer: 7", "Answer: 8"], "8"), cipher_number(["{-8}"], "8"), cipher_number(["None."], "8")
    (1.0, 1.0, 0.0)
    """
    won = most_frequent([cipher_number_of(text) for text in reversed(texts)])
    return float(abs(won - cipher_number_of(gold)) < CLOSE)


def cipher_number_of(text: str) -> float:
    """Return the first number after "Answer:", else the last one in braces, else the last of all."""
    plain = re.sub('[$,\N{EURO SIGN}"]', "", text)
    marked = next((match[1] for pattern in NUMBER_ANSWERS if (match := pattern.search(plain))), None)
    read = marked or number_in_braces(plain, ANY_BRACES) or (SIGNED.findall(plain) or [""])[-1]
    value = as_float(read)
    return -99999.0 if value is None else value


def cipher_option(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score MMLU."""
    return float(most_frequent([cipher_letter_of(text) for text in reversed(texts)]) == gold.upper())


def cipher_letter_of(text: str) -> str:
    """Return the letter after "Answer:", else after "answer is", else the last character; a dash for an empty text."""
    letter = next((match[1] for pattern in LETTER_ANSWERS if (match := pattern.search(text))), text.strip()[-1:])
    return letter.upper() or "-"


ALONE = re.compile(r"\b([A-D])\b")


def sde_integer(text: str) -> int | None:
    """Return the whole text, else the last number in braces, else the last of all; None if it is not an integer."""
    for read in (text, number_in_braces(text) or last_number(text) or ""):
        with suppress(ValueError):
            return int(read)
    return None


def sde_letter(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter in parentheses, else the letter of the choice in the box, else the last standalone A to D."""
    plain = text.replace("(X)", "")  # the placeholder of the prompt, which replies repeat
    if (marked := letter_in_parentheses(plain)) is not None:
        return marked
    boxed = extracted(plain, ("boxed{",))
    if boxed in choices:
        return string.ascii_uppercase[[*choices].index(boxed)]
    alone: list[str] = ALONE.findall(plain)
    return alone[-1] if alone else None


def extracted(text: str, marks: Sequence[str] = ("text{", "boxed{")) -> str:
    r"""Return the text after the last \text{, else after the last \boxed{, up to the first }; else the whole text.

    >>> extracted(r"\boxed{\text{Orla}}"), extracted(r"so \boxed{Orla.")
    ('Orla', 'Orla')
    """
    for mark in marks:
        if mark in text:
            inside = text.rpartition(mark)[2]
            return inside[: inside.find("}")]  # -1 if no brace closes it
    return text


def _mean(right: Callable[[str], bool], texts: Texts) -> float:
    return fmean(right(text) for text in texts)


def sde_number(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score GSM8K.

    >>> sde_number(["{300}", "-300", "300.0", "301"], "1,300")
    0.25
    """
    right = sde_integer(gold)
    return _mean(lambda text: right is not None and sde_integer(text) == right, texts)


def sde_option(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score MMLU."""
    return _mean(lambda text: sde_letter(text, choices) == gold.upper(), texts)


def sde_span(texts: Texts, gold: str, choices: Sequence[str] = ()) -> float:
    """Score exact match, for question answering, and for StrategyQA and FEVER, where a reply is only a label."""
    return _mean(lambda text: normalise(extracted(text)) == normalise(gold), texts)


ROUGE = "ROUGE-L recall"


def rouge_l_recall(text: str, reference: str) -> float:
    """Return the words of the longest common subsequence as a share of the reference's, by the package rouge-score.

    >>> rouge_l_recall("So 5 apples are left.", "5 apples left")
    1.0
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise UsageError(f"{ROUGE} needs the package rouge-score: pip install 'sottovoce[eval]'") from error
    return float(RougeScorer(["rougeL"]).score(reference, text)["rougeL"].recall)


def rouge_scores(run: Run) -> Iterator[tuple[str, float]]:
    """Yield question and mean recall of each decided discussion, for questions with a printed answer and no target."""
    for (question, _), record in run.records.items():
        reference = None if record.question.get("target") else record.question.get("printed_target")
        last = (record.answered() or [{}])[-1]
        if record.decision and reference and last:
            yield question, fmean(rouge_l_recall(message.full_text, reference) for message in last.values())


SCORERS: dict[str, dict[str, Scorer]] = {
    "as Du et al.": {"number": du_number, "option": du_option},
    "as CIPHER": {"number": cipher_number, "option": cipher_option},
    "as SDE": {"number": sde_number, "option": sde_option, "text": sde_span, "yes_no": sde_span, "label": sde_span},
}
"""Scorers by paper and kind of answer."""


def scored(run: Run) -> dict[str, Mean]:
    """Return the mean score of decided discussions by our rule, and by each paper's scorer that reads their kind."""
    scores: dict[str, list[tuple[str, float]]] = {}
    for (question, _), record in run.records.items():
        if record.decision is None or (ours := record.decision["score"]) is None:
            continue
        scores.setdefault("ours", []).append((question, float(ours)))
        last, kind = (record.answered() or [{}])[-1], kinds.kind_of(record.question)
        texts = [message.full_text for message in last.values()]
        for name, scorers in SCORERS.items():
            if texts and (scorer := scorers.get(kind)):
                score = scorer(texts, gold_of(record.question), record.question.get("choices", []))
                scores.setdefault(name, []).append((question, score))
    if recalls := [*rouge_scores(run)]:
        scores[ROUGE] = recalls
    clusters = run.clusters()
    return {
        name: mean([score for _, score in of], [clusters[id] for id, _ in of], shares=True)
        for name, of in scores.items()
    }


def gold_of(question: Question) -> str:
    """Return the right answer as its data set prints it: also after "####" in a solution (GSM8K), or a letter."""
    solution = str(question.get("solution", ""))
    behind = solution.rpartition("####")[2].strip() if "####" in solution else ""
    return str(question.get("printed_target") or behind or kinds.target_of(question) or "")


Verdicts = Mapping[Key, bool]


def judge_settings(model: str) -> Single:
    """Return the settings of the judge: greedy decoding, and replies constrained to yes or no."""
    return Single(model=[model], temperature=[0], chain_of_thought=False, guide="on", max_tokens=16)


def judge_questions(run: Run) -> list[Question]:
    """Return the judge's questions about a run: one for every answer to a question with a known right answer.

    Raises:
        UsageError: there is no such answer.
    """
    prompts, questions = Prompts(), []
    for key, record in run.records.items():
        if record.decision and golds_of(record.question) and (answer := record.decision["answer"]) is not None:
            question: Mapping[str, JSONValue] = record.question
            slots = {"choices": question.get("choices") or [], "references": golds_of(question), "answer": answer}
            text = words(prompts.render("judge/verdict", question=question["question"], **slots))
            questions.append(Question(question=text, kind="yes_no", id=verdict_id(key)))
    if not questions:
        raise UsageError("the run has no answer to judge; expected finished discussions of questions with a target")
    return questions


def raters(run: Run) -> dict[str, Verdicts]:
    """Return the verdicts on each answer by rater: our score, EM if it was measured, the judges."""
    answered = Results(result for result in run.results() if result.answer is not None)
    verdicts_by_rater: dict[str, Verdicts] = {
        "ours": {key: score == 1 for key, score in answered.scores().items()},
        "EM": {key: value == 1 for key, value in answered.measures.get("EM", {}).items()},
    }
    for name, said in run.verdicts.items():
        verdicts_by_rater[name.replace("judged", "judge", 1)] = {key: verdict == 1 for key, verdict in said.items()}
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


def agreements(raters: Mapping[str, Verdicts], clusters: Mapping[str, str]) -> Iterator[Agreement]:
    """Yield the agreement of every pair of raters that judged a common answer. For `clusters` see `Run.clusters`."""
    for left, right in combinations(raters, 2):
        if common := [key for key in raters[left] if key in raters[right]]:
            pairs = [(raters[left][key], raters[right][key]) for key in common]
            of = [clusters[question] for question, _ in common]
            same = share([float(first == second) for first, second in pairs], of)
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
