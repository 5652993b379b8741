"""Replay of discussions through their scheme's own graph, in which each agent repeats its saved messages.

No model is needed. The replay yields the scheme's own parsed answers, votes, decision and score, and the prompts that
each agent must have been asked. Whatever differs in the run was not made by this scheme from these messages.
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
from sottovoce.core.errors import SottovoceError
from sottovoce.nodes.state import JSON
from sottovoce.runs.allowed import Trust
from sottovoce.runs.discussion import thread_of
from sottovoce.runs.run import Key, Run
from sottovoce.runs.runner import run_all
from sottovoce.runs.start import settings_of
from sottovoce.settings import Settings

HOSTED = "hosted"
Temperatures = dict[tuple[Key, Place], float]
"""The temperatures of calls by discussion and place, as far as the settings name one."""

Said = dict[tuple[str, Place], tuple[Key, Message]]
"""The saved messages by the discussion's thread and their place."""


class NotRecorded(SottovoceError):
    """The graph asks for a message that the run does not have."""


def nobody(request: JSON) -> str:
    """Refuse to reply for a human; discussions in which one spoke are left out."""
    raise NotRecorded(f"a human is asked to reply for {request['agent']}, and none did in the run")


class RecordedChatModel(ScriptedChatModel):
    """A chat model that replies with the message that a run has at each place of each discussion."""

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
    """Return the reply of the agent's model, as far as the board has it."""
    kept: dict[str, Any] = {"source": message.source, "stats": dict(message.stats)}  # Any: as LangChain has it
    if message.payload is not None:
        kept["payload"] = message.payload.to_dict()
    text = message.text if message.payload else message.full_text
    return AIMessage(content=text, additional_kwargs=kept)


def replay(run: Run, keys: Sequence[Key], store: PayloadStore, trust: Trust) -> tuple[Run, Temperatures]:
    """Replay discussions of a run; return the replayed run, and the temperatures that its calls asked for.

    Raises:
        SottovoceError: none can be replayed, e.g. since an index for retrieval is missing.
    """
    settings, asked, hosted, said = _without_models(run, trust), Temperatures(), set[str](), Said()
    heat: dict[str, float | None] = {}
    for key in keys:
        for message in run.records[key].messages:
            said[thread_of(key), message.place] = (key, message)
            hosted |= {message.agent} if message.source == HOSTED else set()
            if message.payload:  # the first: a watch may have one said again hotter, and a summary is words
                heat.setdefault(message.agent, message.stats.get("temperature"))
    models = {
        name: RecordedChatModel(
            said=said,
            temperatures=asked,
            hooked=name not in hosted,
            temperature=heat.get(name),
            pack=run.manifest.packs.get(name),
            wording=run.manifest.answers.get(name, "short"),
        )
        for name in settings.names()
    }
    again = Run(run.manifest, run.questions())
    again.records = {key: again.records[key] for key in keys}
    run_all(again, settings, store, models=models, person=nobody)
    return again, asked


def _without_models(run: Run, trust: Trust) -> Settings:
    """Return the settings without those of models, which are given in code, and with the command line's sandbox."""
    chosen = trust.applied(settings_of(run))
    kept = chosen.model_dump(include=chosen.model_fields_set - chosen.of_models() - {"approve"})  # nobody is asked
    return type(chosen).model_validate(kept)
