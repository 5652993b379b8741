"""LangChain's own acceptance suites for chat models, on a tiny random model that speaks by each protocol.

Tools, structured output and other media are skipped by the suites: the model has none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from sottovoce.agents.hooked import HookedChatModel
from tests.support import tiny_loaded


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path))
    yield


class Local:
    protocol = "nl"

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return HookedChatModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"protocol": self.protocol, "preloaded": tiny_loaded(max_position_embeddings=1024)}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        # Few tokens: the suites ask for a hundred each time, and read none of them.
        return {"temperature": 0, "max_tokens": 6, "timeout": 60, "stop": [], "max_retries": 2}


class TestUnit(Local, ChatModelUnitTests):
    pass


class TestWords(Local, ChatModelIntegrationTests):
    pass


class TestCipher(Local, ChatModelIntegrationTests):
    protocol = "cipher"
