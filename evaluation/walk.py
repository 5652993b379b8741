"""Find questions on which a human's explanation convinces a model (ReConcile, Chen et al. 2023, section 3).

A training file is walked in its order: the model answers alone by ReConcile's first prompt; where that is
wrong it is asked again, with the explanation; where that is right, the question is a convincing sample.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from langchain_core.messages import AIMessage

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Turn
from sottovoce.errors import SottovoceError, UsageError
from sottovoce.evaluation.training_file import sample_of
from sottovoce.nodes.act import Act, Steps, Update, node
from sottovoce.nodes.reconcile import answer_turns, form, stated
from sottovoce.nodes.samples import Sample
from sottovoce.nodes.say import say
from sottovoce.nodes.settings import Single
from sottovoce.nodes.stage import Stage
from sottovoce.nodes.state import Discussion, Question
from sottovoce.nodes.views import View
from sottovoce.prompts import kinds

WINDOW = 8  # questions that are asked side by side: they fill a batch, and at most seven are asked in vain


@dataclass
class Walk:
    """How far it has come."""

    asked: int = 0
    wrong: int = 0
    """Alone; an abstention is wrong."""
    samples: list[Sample] = field(default_factory=list)


async def walk(
    stage: Stage[Single],
    questions: Sequence[Question],
    wanted: int,
    watch: Callable[[Walk], None] = lambda walk: None,
    window: int = WINDOW,
) -> Walk:
    """Ask until `wanted` samples are found or all were asked; the result is that of asking one at a time.

    Raises:
        UsageError: there is no such model.
        SottovoceError: the model failed at a question, which is named.
    """
    found, step = Walk(), node(convince(stage), "convince")
    for start in range(0, len(questions), window):
        some = questions[start : start + window]
        states = [cast(Discussion, {**question, "round": 0}) for question in some]
        # What fails beyond the end of the walk is no failure.
        replies = await asyncio.gather(*(step.ainvoke(state) for state in states), return_exceptions=True)
        for question, reply in zip(some, replies, strict=True):
            _take(found, question, reply)
            watch(found)
            if len(found.samples) == wanted:
                return found
    return found


def _take(found: Walk, question: Question, reply: Update | BaseException) -> None:
    if isinstance(reply, SottovoceError) and not isinstance(reply, UsageError):  # those are of no single question
        asked = textwrap.shorten(question["question"], 60, placeholder=" …")
        raise type(reply)(f"question {asked!r}: {reply}") from reply
    if isinstance(reply, BaseException):
        raise reply
    found.asked += 1
    found.wrong += "after" in reply
    if kinds.right(reply.get("after"), question):
        found.samples.append(sample_of(question, reply["before"], reply["after"]))


def convince(stage: Stage[Single]) -> Act:
    """Ask a question, and where the answer is wrong again, with the explanation. Updates: `before`, `after`."""
    (agent,) = stage.settings.names()

    def act(state: Discussion) -> Steps:
        view = stage.view(state, agent, agent)
        before = yield from _answered(stage, state, view, answer_turns(view), "answer")
        if kinds.right(before, state):
            return {"before": before}
        again: Discussion = {**state, "round": 1}
        after = yield from _answered(stage, again, view, convince_turns(view), "revise")
        return {"before": before, "after": after}

    return act


def convince_turns(view: View) -> list[Turn]:
    """The question again, and its explanation; no history, as in ReConcile's discussion."""
    parts = view.prompts.render("reconcile/convince", explanation=view.question["solution"], form=form(view))
    return [*view.system_turn(), Turn("user", (*view.asked(""), "\n", *parts))]


def _answered(
    stage: Stage[Single], state: Discussion, view: View, turns: list[Turn], act: str
) -> Generator[Ask, AIMessage, str | None]:
    complain = partial(_complaint, state)
    said = yield from say(stage, state, view.agent, turns, act, complain=complain, form=form(view), speaks="nl")
    return stated(said[-1].text, state).answer


def _complaint(question: Question, text: str) -> str:
    return stated(text, question).complaint
