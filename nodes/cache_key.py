"""The key of an act's result in LangGraph's node cache.

It is computed from the state that the act sees (question, settings, place and messages, with the digests of texts and
payloads), the agent's model and the prompts; unlike LangGraph's own key, it does not use pickle.
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
from sottovoce.nodes.state import Discussion
from sottovoce.settings import OF_SAMPLING

SPOKEN_BY = {"protocol", "options", "temperature", *OF_SAMPLING, "max_tokens", "stop", "seed", "thinking", "exact"}
"""The fields of a local model that its replies depend on, besides its weights."""


def key_of(contexts: Contexts[Any], agent: str, name: str) -> Callable[[Discussion], str]:
    """Return a function from the state to the key of `agent`'s act in the node `name`: 64 hexadecimal digits.

    It loads a local model, since the key depends on its weights. If a person may be asked, the key is new each time.
    """

    def key(state: Discussion) -> str:
        run = contexts.of(state)
        if run.settings.asks_people or any(each["what"] == "human" for each in state.get("interventions", [])):
            return secrets.token_hex(32)
        told = [agent, name, state, identity(run.model(agent)), run.prompts_of(agent).digest(), run.wording(agent)]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=_plain).encode()).hexdigest()

    return key


def identity(model: BaseChatModel) -> dict[str, Any]:  # Any: JSON
    """Return all that a model's replies depend on, and the folder of the payloads of cached ones."""
    if not isinstance(model, HookedChatModel):
        return {"hosted": model._get_llm_string()}  # the key of LangChain's own cache of replies
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
    raise TypeError(f"a state has {type(value).__name__}; expected JSON and messages")
