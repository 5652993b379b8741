"""A discussion is led again through its scheme's own graph, in which each agent says what the run has it say.

No model is needed, and what comes of it are the scheme's own readings, votes, decision and score, and the prompts that
each agent must have been asked. Whatever the run has otherwise was not made by this scheme from these messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, Place
from sottovoce.channels.store import PayloadStore
from sottovoce.errors import SottovoceError
from sottovoce.evaluation.runs.going import thread_of
from sottovoce.evaluation.runs.run import Key, Run
from sottovoce.evaluation.runs.running import hold_all
from sottovoce.evaluation.runs.starting import settings_of
from sottovoce.evaluation.runs.trust import Trust
from sottovoce.nodes.settings import Settings

HOSTED = "hosted"
Temperatures = dict[tuple[Key, Place], float]
"""By discussion and place; of calls for which the settings say one."""


Said = dict[tuple[str, Place], tuple[Key, Message]]
"""By the discussion's thread and the place."""


class NotRecorded(SottovoceError):
    """The graph asks for a message that the run does not have."""


class Recorded(ScriptedChatModel):
    """Says at each place of each discussion what a run has there."""

    said: Any  # Any: `Said`, which pydantic would copy
    temperatures: Any  # Any: `Temperatures`, likewise

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        about = (run_manager.metadata if run_manager else None) or {}
        place = Place(**{name: about[name] for name in Place._fields})
        key, message = self.said.get((about["thread_id"], place), ("", None))
        if message is None:
            raise NotRecorded(f"the run has no message of {place}")
        if kwargs.get("temperature") is not None:
            self.temperatures[key, place] = kwargs["temperature"]
        return ChatResult(generations=[ChatGeneration(message=_reply(message))])


def _reply(message: Message) -> AIMessage:
    """What the agent's model returned, as far as the board keeps it."""
    kept: dict[str, Any] = {"source": message.source, "stats": dict(message.stats)}  # Any: as LangChain has it
    if message.payload is not None:
        kept["payload"] = message.payload.to_dict()
    text = message.text if message.payload else message.whole
    return AIMessage(content=text, additional_kwargs=kept)


def rehearsed(run: Run, keys: Sequence[Key], store: PayloadStore, trust: Trust) -> tuple[Run, Temperatures]:
    """Discussions of a run led again, and the temperatures that their calls were asked to be made at.

    Raises:
        SottovoceError: none can be led, e.g. as an index that they look things up in is not there.
    """
    settings, asked, hosted, said = _without_models(run, trust), Temperatures(), set[str](), Said()
    for key in keys:
        for message in run.records[key].messages:
            said[thread_of(key), message.place] = (key, message)
            hosted |= {message.agent} if message.source == HOSTED else set()
    models = {
        name: Recorded(
            said=said,
            temperatures=asked,
            hooked=name not in hosted,
            pack=run.head.packs.get(name),
            wording=run.head.answers.get(name, "short"),
        )
        for name in settings.names()
    }
    again = Run(run.head, run.questions())
    again.records = {key: again.records[key] for key in keys}
    hold_all(again, settings, store, models=models)
    return again, asked


def _without_models(run: Run, trust: Trust) -> Settings:
    """Return the settings without what makes the models, as they are given, with the sandbox of the command line."""
    chosen = trust.applied(settings_of(run))
    kept = chosen.model_dump(include=chosen.model_fields_set - chosen.of_models() - {"approve"})  # nobody is asked
    return type(chosen).model_validate(kept)
