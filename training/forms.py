"""Problems in all forms of an answer: claims to confirm or label, choices, and what is right to say in each."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sottovoce.evaluation.arithmetic import listed
from sottovoce.nodes.state import Question
from sottovoce.prompts import kinds
from sottovoce.training.problems import Problem

Form = Literal["number", "yes_no", "label", "option"]
FORMS: tuple[Form, ...] = ("number", "yes_no", "label", "option")
UNKNOWN = "unknown"
WORDINGS: dict[Form, tuple[str, ...]] = {
    "number": ("What is {0}?",),
    "yes_no": ("Is {0} equal to {1}?", "Is {0} equal to {1}?", "{0} = {1}: is this true?"),
    "label": ("{0} = {1}: is this correct?", "{0} = {1}: is this correct?", "Correct, Incorrect or Unknown: {0} = {1}"),
    "option": ("What is {0}?", "Which of these is {0}?"),
}
SAID = re.compile(r"(?P<working>.*?) ?(?:The answer is \(?(?P<stated>[\w-]+)\)?\.|\[(?P<label>\w+)\])", re.DOTALL)


@dataclass(frozen=True)
class Posed(Problem):
    """A problem in one of the forms of an answer."""

    def reply(self, known: Sequence[str], slip: tuple[int, int] = (0, 0)) -> str:
        """Steps and answer, as `Problem.reply` has them for a number."""
        return f"{self.working(known, slip)} {self.ending(known, slip)}"

    def working(self, known: Sequence[str], slip: tuple[int, int] = (0, 0)) -> str:
        """The steps alone; what the result must be compared with is written beside it: attention does the rest."""
        values = {name: self.facts[name] for name in known if name.isalpha()}
        if missing := self._missing(known):
            told = f"{listed(values)}. " if values else ""
            return f"{told}I do not know {', '.join(missing)}."
        steps = self.expression.steps(slip)
        said = [f"{left} {op} {right} = {result}" for left, op, right, result in steps]
        return "; ".join([*([listed(values)] if values else []), *said, *self._compared(steps[-1][3])]) + "."

    def ending(self, known: Sequence[str], slip: tuple[int, int] = (0, 0)) -> str:
        """The answer in the words that its form asks for."""
        stated = self.stated(known, slip)
        if self.form == "label":
            return f"[{stated}]"
        return f"The answer is {f'({stated})' if self.form == 'option' and stated != UNKNOWN else stated}."

    def stated(self, known: Sequence[str], slip: tuple[int, int] = (0, 0)) -> str:
        """The answer as it stands in a field of a form."""
        if self._missing(known):
            return shown(None, self.form)
        value = self.expression.steps(slip)[-1][3]
        if self.form == "option":
            return string.ascii_uppercase[self.question["choices"].index(str(value))]
        if self.form == "number":
            return str(value)
        holds = value == self.claimed
        return {"yes_no": ("no", "yes"), "label": ("Incorrect", "Correct")}[self.form][holds]

    def slip(self, rng: random.Random) -> tuple[int, int]:
        """One wrong step; it may end in what is wrongly claimed, and must end in one of the choices."""
        last, value = len(self.expression.operators) - 1, self.expression.value
        wrong = [self.claimed] if self.claimed not in (None, value) else []
        wrong += [int(choice) for choice in self.question.get("choices", []) if choice != str(value)]
        if wrong and (self.form == "option" or rng.random() < 0.6):
            return last, (rng.choice(wrong) or 0) - value
        return super().slip(rng)

    @property
    def form(self) -> Form:
        """The form of the answer."""
        return self.question.get("kind", "number")  # type: ignore[return-value]  # never text

    def _compared(self, value: int) -> list[str]:
        """The claim, or the choices up to the right one."""
        if self.claimed is not None:
            return [equal(str(value), str(self.claimed))]
        offered = self.question.get("choices", [])
        tried = zip(string.ascii_uppercase, offered[: offered.index(str(value)) + 1] if offered else [], strict=False)
        return [f"({letter}) {equal(choice, str(value))}" for letter, choice in tried]

    def _missing(self, known: Sequence[str]) -> list[str]:
        return [name for name in self.facts if name not in known]


def pose(rng: random.Random, problem: Problem, form: Form) -> Posed:
    """The same expression, asked in another form."""
    text, value = problem.question["question"].removeprefix("What is ").removesuffix("?"), problem.expression.value
    claimed = None if form in ("number", "option") else rng.choice((value, near(rng, value)))
    wording = rng.choice(WORDINGS[form]).format(text, claimed)
    question: Question = {**problem.question, "question": wording, "kind": form}
    if form == "option":
        question["choices"] = choices(rng, value)
    return Posed(problem.expression, question, problem.facts, claimed)


def choices(rng: random.Random, value: int) -> list[str]:
    """Three to five different numbers, near the right one or far from it."""
    found, alike, n = {value}, rng.random() < 0.6, rng.choice((3, 4, 4, 5))
    while len(found) < n:
        found.add(near(rng, value) if alike else rng.randint(1, max(99, 2 * abs(value))))
    return [str(number) for number in rng.sample(sorted(found), n)]


def equal(left: str, right: str) -> str:
    """A comparison in words: both sides stand next to each other, since a small model sees only so far ahead."""
    return f"{left} = {right}? {'yes' if left == right else 'no'}"


def parts(text: str, form: Form) -> tuple[str, str] | None:
    """Steps and stated answer of a reply; None where it does not end as replies do."""
    found = SAID.fullmatch(text)
    if found is None:
        return None
    return found["working"], found["stated"] or shown((found["label"] or "").lower(), form)


def read(problem: Problem, text: str) -> str | None:
    """What a statement answers, as the product reads it; a label `Unknown` tells nothing either."""
    kind = problem.question.get("kind", "number")
    found = kinds.read(text, kind, problem.question.get("choices"))
    return None if found == UNKNOWN else found


def shown(answer: str | None, form: Form) -> str:
    """A canonical answer as agents write it."""
    answer = answer or UNKNOWN
    return answer.capitalize() if form == "label" else answer


def near(rng: random.Random, value: int) -> int:
    """Another number that a slip might have led to."""
    return value + rng.choice((1, -1, 2, -2, 10, -10, 9, -9, 100, -100, rng.randint(-60, 60) or 5))
