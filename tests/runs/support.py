"""Runs by a scripted model, whose messages may carry a payload of the test's making."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, Place
from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import Untyped
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.question import Question
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Observer
from tests.runs.single import Task, run_one

QUESTION: Question = {"question": "What is 14 + 3 * 5 - 7?", "target": "22", "kind": "number"}


def task(replies: Mapping[str, list[str]], question: Question = QUESTION, **settings: Any) -> Task:
    """A debate whose agents say these replies, round by round."""
    rounds = max(len(queue) for queue in replies.values())
    made = Debate(agents=len(replies), **{"rounds": rounds, **settings})
    return Task("debate", made, question, models=ScriptedChatModel(replies))


def held(
    replies: Mapping[str, list[str]], store: Path, observe: Observer | None = None, **more: Any
) -> DiscussionRecord:
    """The record of a scripted debate, as it is when time stands still."""
    run = run_one(task(replies, **more), PayloadStore(store), observe=observe)
    run.seconds = 1.5
    return run


def carrying(message: Message, spans: list[tuple[int, int]], entropy: list[float], store: PayloadStore) -> Message:
    """The message with a cipher payload of one row a token."""
    label = Label("cipher", message.text, "a", "b", "c")
    n = len(spans)
    tensors = {
        "ids": torch.arange(n),
        "spans": torch.tensor(spans).reshape(n, 2),
        **{name: torch.tensor(entropy) for name in ("entropy", "varentropy", "kurtosis")},
        "top_logprobs": torch.zeros(n, 10),
        "rows.t": torch.zeros(n, 8),
    }
    return Message(**{**vars(message), "payload": store.put(Payload(label, tensors))})


class RecordedChatModel(ScriptedChatModel):
    """A chat model that replies with the message that a run has at each place, by thread and place."""

    said: dict[Untyped, Untyped]

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        about = (run_manager.metadata if run_manager else None) or {}
        message = self.said[about["thread_id"], Place(**{name: about[name] for name in Place._fields})]
        kept: dict[str, Any] = {"source": message.source, "stats": dict(message.stats)}
        kept |= {"payload": message.payload.to_dict()} if message.payload else {}
        text = message.text if message.payload else message.full_text
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text, additional_kwargs=kept))])
