"""LangChain's own acceptance suites for chat models, on tiny models that speak by each protocol.

Other media are skipped by the suites: the model has none of them. A small model cannot read what the suites ask for, so
the one with tools has weights that lead it: after some tokens it always says what the suites want to hear.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from torch import nn

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.models import LoadedModel, assemble
from tests.chats import TOOLS, tokenizer_with
from tests.support import ids, tiny_loaded, tiny_model

SAID = ("\n@do", '"你こ"', ": 3}")
"""How it begins a turn, a text in JSON, and a number."""


@cache
def led() -> LoadedModel:
    """A model that is sure of the token after each token of SAID, and otherwise of the end."""
    model = tiny_model(sharp=1.0, hidden_size=64, max_position_embeddings=2048)
    parameters = {name: parameter.data for name, parameter in model.named_parameters()}
    for name, values in parameters.items():
        if name.endswith(("o_proj.weight", "down_proj.weight", "lm_head.weight")):
            values.zero_()
    embedded = nn.functional.normalize(parameters["model.embed_tokens.weight"], dim=-1)
    for before, after in {pair for said in SAID for pair in pairwise(ids(said))}:
        parameters["lm_head.weight"][after] += 20 * embedded[before]
    return assemble("led", model, tokenizer_with(TOOLS))


class Local:
    protocol = "nl"
    tokens = 6  # few: the suites ask for a hundred each time, and read none of them

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return HookedChatModel

    @property
    def loaded(self) -> LoadedModel:
        return tiny_loaded(max_position_embeddings=1024)

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"protocol": self.protocol, "preloaded": self.loaded}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return {"temperature": 0, "max_tokens": self.tokens, "timeout": 60, "stop": [], "max_retries": 2}


class TestUnit(Local, ChatModelUnitTests):
    pass


class TestWords(Local, ChatModelIntegrationTests):
    tokens = 99

    @property
    def loaded(self) -> LoadedModel:
        return led()


class TestCipher(Local, ChatModelIntegrationTests):
    protocol = "cipher"
    has_tool_calling = has_structured_output = False  # held by the class above: a form is one for all protocols
