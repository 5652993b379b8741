"""Problems in all answer formats, with all that is known about them: right replies, and slips."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sottovoce.datasets.arithmetic import MIXED, SHORT, SPLIT, Expression, Shape, Split, deal, draw, listed
from sottovoce.prompts import kinds
from sottovoce.training.product import Question

Form = Literal["number", "yes_no", "label", "option"]
FORMS: tuple[Form, ...] = ("number", "yes_no", "label", "option")
TOPS = (20, 99, 99, 99, 99, 300)  # largest numbers, while the model learns arithmetic
HARDER = (99, 99, 300, 500, 500)  # largest numbers of problems worth a debate: the model gets many of them wrong
ALL: tuple[Shape, ...] = tuple(dict.fromkeys(MIXED + SHORT + SPLIT))
UNKNOWN = "unknown"
LABELS = ("Correct", "Incorrect", "Unknown")
LISTED = 0.5  # share of label questions that name the labels
WORDINGS: dict[Form, tuple[str, ...]] = {
    "number": ("What is {0}?",),
    "yes_no": ("Is {0} equal to {1}?", "Is {0} equal to {1}?", "{0} = {1}: is this true?"),
    "label": ("{0} = {1}: is this correct?", "{0} = {1}: is this correct?", "Correct, Incorrect or Unknown: {0} = {1}"),
    "option": ("What is {0}?", "Which of these is {0}?"),
}
SAID = re.compile(r"(?P<working>.*?) ?(?:The answer is \(?(?P<stated>[\w-]+)\)?\.|\[(?P<label>\w+)\])", re.DOTALL)
Slip = tuple[int, int]  # a step, and the error of its result


@dataclass(frozen=True)
class Problem:
    """A question about an expression."""

    expression: Expression
    question: Question
    facts: Mapping[str, int] = field(default_factory=dict)
    """Facts that an agent must be told: values of letters, or a product that the model cannot compute."""
    claimed: int | None = None
    """The value that the question asks to confirm."""
    compared: bool = True
    """True if the result is written next to the claim: attention does the rest."""

    @property
    def form(self) -> Form:
        """The format of the answer."""
        return self.question.get("kind", "number")  # type: ignore[return-value]  # never text

    @property
    def offered(self) -> list[str]:
        """The values of the lettered choices."""
        return self.question.get("choices", []) if self.form == "option" else []

    def known(self, texts: Iterable[str]) -> list[str]:
        """Return the facts that `texts` state with their right values, in the question's order."""
        said = "\n".join(texts)
        patterns = ((name, re.escape(f"{name} = {value}")) for name, value in self.facts.items())
        return [name for name, fact in patterns if re.search(rf"(?<!\w){fact}\b", said)]

    def reply(self, known: Sequence[str], slip: Slip = (0, 0)) -> str:
        """Return the reply of an agent that knows these facts, with or without a slip in one step."""
        return f"{self.working(known, slip)} {self.answer_sentence(known, slip)}"

    def working(self, known: Sequence[str], slip: Slip = (0, 0)) -> str:
        """Return the steps alone, or which facts are missing for them."""
        values = {name: self.facts[name] for name in known if name.isalpha()}
        if missing := [name for name in self.facts if name not in known]:
            stated = f"{listed(values)}. " if values else ""
            return f"{stated}I do not know {', '.join(missing)}."
        steps = self.expression.steps(slip)
        said = [f"{left} {op} {right} = {result}" for left, op, right, result in steps]
        return "; ".join([*([listed(values)] if values else []), *said, *self._comparisons(steps[-1][3])]) + "."

    def answer_sentence(self, known: Sequence[str], slip: Slip = (0, 0)) -> str:
        """Return the answer in the words that its format requires."""
        stated = self.stated(known, slip)
        if self.form == "label":
            return f"[{stated}]"
        return f"The answer is {f'({stated})' if self.form == 'option' and stated != UNKNOWN else stated}."

    def stated(self, known: Sequence[str], slip: Slip = (0, 0)) -> str:
        """Return the answer as it stands in a JSON field."""
        if any(name not in known for name in self.facts):
            return self.shown(None)
        value = self.expression.steps(slip)[-1][3]
        if self.form == "option":
            return string.ascii_uppercase[self.question["choices"].index(str(value))]
        if self.form == "number":
            return str(value)
        return {"yes_no": ("no", "yes"), "label": ("Incorrect", "Correct")}[self.form][value == self.claimed]

    def slip(self, rng: random.Random) -> Slip:
        """Return a wrong step near the right result; it may give the claimed value, and must give a listed choice."""
        last, value = len(self.expression.operators) - 1, self.expression.value
        wrong = [self.claimed] if self.claimed not in (None, value) else []
        wrong += [int(choice) for choice in self.offered if choice != str(value)]
        if wrong and (self.form == "option" or rng.random() < 0.6):
            return last, (rng.choice(wrong) or 0) - value
        step = rng.randrange(last + 1)
        return step, rng.choice((1, -1, 2, -2, 10, -10, 9, -9, 20, 100, rng.randint(-60, 60) or 5))

    def shown(self, answer: str | None) -> str:
        """Return a canonical answer as agents write it."""
        answer = answer or UNKNOWN
        return answer.capitalize() if self.form == "label" else answer

    def read(self, text: str) -> str | None:
        """Return the answer of a statement, as the product reads it; None for the label `Unknown` too."""
        answer = kinds.read(text, self.form, self.question.get("choices"))
        return None if answer is None or answer.lower() == UNKNOWN else answer

    def parts(self, text: str) -> tuple[str, str] | None:
        """Return steps and stated answer of a reply; None if it does not end as replies do."""
        match = SAID.fullmatch(text)
        return match and (match["working"], match["stated"] or self.shown((match["label"] or "").lower()))

    def _comparisons(self, value: int) -> list[str]:
        """Return the comparisons with the claim, or with the choices up to the right one."""
        if self.claimed is not None:
            return [equal(str(value), str(self.claimed))] if self.compared else []
        offered = self.offered
        tried = zip(string.ascii_uppercase, offered[: offered.index(str(value)) + 1] if offered else [], strict=False)
        return [f"({letter}) {equal(choice, str(value))}" for letter, choice in tried]


def equal(left: str, right: str) -> str:
    """Return a comparison in words; both sides are adjacent, because a small model looks ahead only a few tokens."""
    return f"{left} = {right}? {'yes' if left == right else 'no'}"


def near(rng: random.Random, value: int) -> int:
    """Return another number, as a small mistake might give it."""
    return value + rng.choice((1, -1, 2, -2, 10, -10, 9, -9, 100, -100, rng.randint(-60, 60) or 5))


def plain(rng: random.Random, tops: Sequence[int] = TOPS, part: Split = "train") -> Problem:
    """Return an arithmetic problem; its largest number is drawn from `tops` and determines its difficulty."""
    shapes = MIXED if rng.random() < 0.6 else ALL
    expression = draw(rng, shapes, top=rng.choice(tops), split=part)
    text = expression.text()
    return Problem(expression, Question(question=f"What is {text if rng.random() < 0.93 else text.replace(' ', '')}?"))


def claim(rng: random.Random) -> Problem:
    """Return a value to be confirmed or denied, as the first stages ask for it."""
    expression = draw(rng, MIXED, split="train")
    value = expression.value + rng.choice((0, rng.choice((1, -1, 2, 10, -10, 9))))
    question = Question(question=f"Is {expression.text()} equal to {value}?", kind="yes_no")
    return Problem(expression, question, claimed=value, compared=False)


def hard(rng: random.Random) -> Problem:
    """Return a product of two large numbers, alone or in a sum: its value must come from another agent."""
    while True:
        left, right = rng.randint(12, 99), rng.randint(12, 99)
        expression = Expression((left, right), ("*",))
        if rng.random() < 0.5:
            expression = Expression((rng.randint(1, 99), left, right), (rng.choice("+-"), "*"))
        if not expression.held_out:
            question = Question(question=f"What is {expression.text()}?")
            return Problem(expression, question, {f"{left} * {right}": left * right})


def split(rng: random.Random, agents: Sequence[str], part: Split = "train") -> Problem:
    """Return a problem with letters whose values are dealt to the agents; sometimes one is dealt twice or to nobody."""
    expression = draw(rng, SPLIT, top=rng.choice((20, 20, 20, 50)), split=part)
    names = rng.sample(string.ascii_lowercase, len(expression.operands))
    facts = dict(zip(names, expression.operands, strict=True))
    documents = {agent: [f"{name} = {facts[name]}." for name in own] for agent, own in deal(rng, names, agents)}
    informed = [agent for agent in agents if documents[agent]]
    if rng.random() < 0.08:
        documents[rng.choice(informed)].pop()
    elif rng.random() < 0.1:
        line = documents[informed[0]][0]
        documents = {agent: [*lines, line] if line not in lines else lines for agent, lines in documents.items()}
    return Problem(expression, Question(question=f"What is {expression.text(names)}?", documents=documents), facts)


def pose(rng: random.Random, problem: Problem, form: Form) -> Problem:
    """Return the same expression as a question in another answer format."""
    text, value = problem.question["question"].removeprefix("What is ").removesuffix("?"), problem.expression.value
    claimed = None if form in ("number", "option") else rng.choice((value, near(rng, value)))
    wording = rng.choice(WORDINGS[form]).format(text, claimed)
    question: Question = {**problem.question, "question": wording, "kind": form}
    if form == "option":
        question["choices"] = _choices(rng, value)
    if form == "label" and rng.random() < LISTED:
        question["choices"] = rng.sample(LABELS, len(LABELS))
    return replace(problem, question=question, claimed=claimed)


def _choices(rng: random.Random, value: int) -> list[str]:
    """Return three to five different numbers, near the right one or far from it."""
    numbers, alike, n = {value}, rng.random() < 0.6, rng.choice((3, 4, 4, 5))
    while len(numbers) < n:
        numbers.add(near(rng, value) if alike else rng.randint(1, max(99, 2 * abs(value))))
    return [str(number) for number in rng.sample(sorted(numbers), n)]


def spoilt(rng: random.Random, text: str) -> str:
    """Return a spoilt version of an expected text: a part of it, other characters, or nothing."""
    makers: list[Callable[[], str]] = [
        *[lambda: text[: rng.randint(1, max(1, len(text) - 2))]] * 2,
        *[lambda: " ".join(_fields(text).values()) or text.split(". ")[0]] * 2,  # an object without its punctuation
        lambda: _without_a_field(rng, _fields(text)),
        lambda: "".join(rng.choices(string.ascii_letters + ' {}",:.;', k=rng.randint(1, 30))),
        lambda: rng.choice(("no idea", "I do not know.", "", "?", "I agree.", "{}", "unknown")),
    ]
    return rng.choice(makers)()


def _fields(text: str) -> dict[str, str]:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _without_a_field(rng: random.Random, fields: dict[str, str]) -> str:
    left_out = rng.choice(list(fields)) if fields else ""
    return json.dumps({name: text for name, text in fields.items() if name != left_out}) if fields else ""
