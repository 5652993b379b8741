"""Families whose batches give other numbers than each row alone: found at load, and run one request at a time."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.files import models_folder
from sottovoce.graphs.debate import Debate, create_debate
from sottovoce.models import load, unload
from sottovoce.models.doctor import examine
from sottovoce.models.load import ONE_BY_ONE
from tests.models.support import generate
from tests.support import request, tiny_model, tiny_tokenizer

NEO: Any = {"attention_types": [[["global", "local"], 1]], "window_size": 8, "num_layers": 2, "num_heads": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-Neo, whose local layers count positions from the end of all columns."""
    where = tmp_path_factory.mktemp("neo")
    tiny_model("gpt_neo", num_hidden_layers=None, num_attention_heads=None, **NEO).save_pretrained(where)
    tiny_tokenizer().save_pretrained(where)
    return where


def test_such_a_family_is_found_at_load_once_and_says_in_any_company_what_it_says_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = load(folder, device="cpu")
    assert loaded.engine.limits.slots == 1 and ONE_BY_ONE in caplog.text
    asked = [request("word " * n, 6) for n in (1, 9, 20)]
    for found, each in zip(loaded.engine.run_all(asked), asked, strict=True):
        assert found.ids == generate(loaded, each)
    unload(folder)

    module = import_module("sottovoce.models.load")  # the package has a function of that name
    monkeypatch.setattr(module, "apart", lambda _: pytest.fail("it was kept"))
    assert load(folder).engine.limits.slots == 1 and load(folder, exact=True).engine.limits.slots == 1
    unload(folder)
    (kept,) = (models_folder() / "checked").iterdir()
    kept.write_text("together")
    assert load(folder).engine.limits.slots > 1
    unload(folder)


def test_a_discussion_and_the_doctor_say_so(folder: Path, tmp_path: Path) -> None:
    model = HookedChatModel(model=str(folder), max_tokens=4, store=PayloadStore(tmp_path))
    state = (
        create_debate(Debate(agents=2, rounds=1, answer_turn="off"), models=model)
        .compile()
        .invoke({"question": "What is 14 + 3?"}, output_keys=["notes"])
    )
    assert f"agent_1: {ONE_BY_ONE}" in state["notes"]
    other = tiny_model("gpt_neo", num_hidden_layers=None, num_attention_heads=None, **NEO)
    checks = {each.check: each for each in examine("neo", other, tiny_tokenizer())}
    assert checks["batch = single"].ok is None and ONE_BY_ONE in checks["batch = single"].detail
    unload(folder)
