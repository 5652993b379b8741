"""What an act's result depends on, as the key under which LangGraph's cache keeps it.

It is made of the state that the act sees (question, settings, place, what is heard, with the digests of texts and
payloads), of the agent's model and of the prompts; nothing is pickled, as LangGraph's own key would be.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.message import Message
from sottovoce.nodes.context import Contexts
from sottovoce.nodes.settings import OF_SAMPLING
from sottovoce.nodes.state import Discussion

SPOKEN_BY = {"protocol", "options", "temperature", *OF_SAMPLING, "max_tokens", "stop", "seed", "thinking", "exact"}
"""The fields of a local model that its replies depend on, besides its weights."""


def key_of(contexts: Contexts[Any], agent: str, name: str) -> Callable[[Discussion], str]:
    """The key of the act that `agent` does in the node of that name, by its state: 64 hexadecimal digits.

    Asking for it loads a local model, since its weights are part of it. An act in which a person may be asked has
    another key each time.
    """

    def key(state: Discussion) -> str:
        run = contexts.of(state)
        if run.settings.asks_people or any(each["what"] == "human" for each in state.get("interventions", [])):
            return secrets.token_hex(32)
        told = [agent, name, state, identity(run.model(agent)), run.prompts_of(agent).digest(), run.wording(agent)]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=_plain).encode()).hexdigest()

    return key


def identity(model: BaseChatModel) -> dict[str, Any]:  # Any: JSON
    """What a model's replies depend on, and where the payloads of kept ones lie."""
    if not isinstance(model, HookedChatModel):
        return {"hosted": model._get_llm_string()}  # as LangChain's own cache of replies tells them apart
    loaded = model.loaded
    return {
        **model.model_dump(mode="json", include=SPOKEN_BY),
        "weights": [loaded.weights_key, loaded.format],
        "hearers": [hearer.loaded.table.key for hearer in model.hearers],
        "store": str(model.payloads.root),
    }


def _plain(value: object) -> Any:  # Any: JSON
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a state holds {type(value).__name__}; expected JSON and messages")
