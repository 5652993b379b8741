"""The search for questions on which a human explanation convinces a model (ReConcile, Chen et al. 2023, section 3).

Questions of a training file are asked in order. The model answers alone with ReConcile's first prompt; if that is
wrong, it is asked again with the explanation; if that is right, the question is a convincing sample.
One line of the file: {"question": "What is 14 + 3 * 5?", "target": "29", "explanation": "3 * 5 = 15; 14 + 15 = 29."}
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from sottovoce.agents.ask import Ask
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Turn
from sottovoce.core.errors import SottovoceError, UsageError, choose
from sottovoce.core.validation import first_wrong
from sottovoce.datasets.table_reader import Broken, Values, read_text, split_lines
from sottovoce.nodes.act import node
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.contexts import Contexts
from sottovoce.nodes.convincing_samples import Sample, Samples
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question, check_question
from sottovoce.nodes.reconcile import answer_turns, form, stated
from sottovoce.nodes.say import say
from sottovoce.nodes.state import Discussion, Update
from sottovoce.prompts import kinds
from sottovoce.settings import Single

WINDOW = 8  # questions asked concurrently: they fill a batch, and at most seven are wasted
FIELDS = ("question", "target", "explanation", "solution", "kind", "choices", "id")
NEEDS = {
    "target": "convincing samples need a right answer",
    "solution": "convincing samples need an explanation (or solution)",
}


def read_training(path: Path) -> list[Question]:
    """Read the questions of a JSON Lines file; their `solution` is the explanation.

    Raises:
        UsageError: the file cannot be read or contains no question, or a line (named in the message) is invalid.
    """
    name = f"training file {str(path)!r}"
    rows, questions, broken = split_lines(read_text(path, name)[0]), list[Question](), Broken(name)
    if not rows:
        raise UsageError(f"{name} is empty; expected one object per line, with the fields: {', '.join(FIELDS)}")
    for line, read in rows:
        with broken.at(line):
            questions.append(_question(read()))
    broken.raise_first()
    return questions


def _question(row: Values) -> Question:
    """Check that a question can be asked, answered rightly and saved as a sample."""
    if unknown := next((field for field in row if field not in FIELDS), None):
        raise UsageError(choose("field", unknown, FIELDS))
    fields = {name: value for name, value in row.items() if value is not None}
    if "explanation" in fields and "solution" in fields:
        raise UsageError("found an explanation and a solution; expected one of them")
    question = cast(Question, {"solution" if name == "explanation" else name: fields[name] for name in fields})
    check_question(question, None, NEEDS)
    target = kinds.target_of(question)
    if target is None or not kinds.right(kinds.read_field(target, question), question):
        raise UsageError(
            f"target is {question['target']!r}; expected an answer of the kind {kinds.kind_of(question)!r} that is "
            "parsed as itself"
        )
    _sample(question, None, target)
    return question


def _sample(question: Question, before: str | None, after: str) -> Sample:
    """Return a question as a convincing sample; raise UsageError if one of its texts is empty or not a text."""
    try:
        return Sample(
            question=question["question"],
            kind=kinds.kind_of(question),
            choices=question.get("choices", []),
            explanation=question["solution"],
            answer=kinds.target_of(question) or "",
            before=before,
            after=after,
        )
    except ValidationError as error:
        raise UsageError(first_wrong(error, "the sample")) from error


@dataclass
class SampleSearch:
    """A search for convincing samples: what has been asked so far, and the samples."""

    run: RunContext[Single]
    """The model that is asked, and the settings."""
    answered: int = 0
    """Questions that the model has answered."""
    wrong: int = 0
    """Questions that the model answered wrongly alone; an abstention is wrong."""
    samples: list[Sample] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return the text of the samples file, with the model that was convinced and its settings."""
        run, ((agent, model),) = self.run, self.run.models.items()
        return Samples(
            model=str(getattr(model, "model", None) or model.get_name()),  # hosted models have no common attribute
            weights=model.loaded.weights_key if isinstance(model, HookedChatModel) else None,
            temperature=run.temperature(agent),
            settings=run.settings.model_dump(mode="json"),
            samples=self.samples,
        ).to_json()

    def add(self, question: Question, reply: Update | BaseException) -> None:
        """Count a question, and add it to the samples if the model was convinced; raise the error of a failure."""
        if isinstance(reply, SottovoceError) and not isinstance(reply, UsageError):  # those concern no single question
            text = textwrap.shorten(question["question"], 60, placeholder=" …")
            raise type(reply)(f"question {text!r}: {reply}") from reply
        if isinstance(reply, BaseException):
            raise reply
        self.answered += 1
        self.wrong += "after" in reply
        if kinds.right(reply.get("after"), question):
            self.samples.append(_sample(question, reply["before"], reply["after"]))


async def find_samples(
    contexts: Contexts[Single],
    questions: Sequence[Question],
    limit: int,
    progress: Callable[[SampleSearch], None] = lambda search: None,
    window: int = WINDOW,
) -> SampleSearch:
    """Ask until `limit` samples are found or all questions are asked; the result equals asking one at a time.

    Raises:
        UsageError: there is no such model.
        SottovoceError: the model failed at a question, which the message names.
    """
    inputs = {"settings": contexts.defaults.model_dump(mode="json"), "round": 0}
    search = SampleSearch(contexts.of(cast(Discussion, inputs)))
    step = node(contexts, convince, search.run.settings.names()[0], "convince")
    for start in range(0, len(questions), window):
        batch = questions[start : start + window]
        states = [cast(Discussion, {**question, **inputs}) for question in batch]
        # Failures beyond the end of the search do not count.
        replies = await asyncio.gather(*(step.ainvoke(state) for state in states), return_exceptions=True)
        for question, reply in zip(batch, replies, strict=True):
            search.add(question, reply)
            progress(search)
            if len(search.samples) == limit:
                return search
    return search


def convince(run: RunContext[Single], state: Discussion, agent: str) -> Update:
    """Ask a question, and ask again with the explanation if the answer is wrong. Updates: `before`, `after`."""
    view = run.prompt_builder(state, agent)
    before = _answered(run, state, Ask(agent, "answer", answer_turns(view), protocol="nl"), form(view))
    if kinds.right(before, state):
        return {"before": before}
    again: Discussion = {**state, "round": 1}
    after = _answered(run, again, Ask(agent, "revise", convince_turns(view), protocol="nl"), form(view))
    return {"before": before, "after": after}


def convince_turns(view: PromptBuilder) -> tuple[Turn, ...]:
    """Return the chat with the question and its explanation, without history, as in ReConcile's discussion."""
    explained = view.prompts.render("reconcile/convince", explanation=view.question["solution"])
    return (*view.system_turn(), Turn("user", view.full_turn(form(view), discussion=explained)))


def _answered(run: RunContext[Single], state: Discussion, ask: Ask, form: str) -> str | None:
    messages = say(run, state, ask, validate=lambda text: stated(text, state).error, requested=form)
    return stated(messages[-1].text, state).answer
