"""Discussions of models as a user names them: several, shared between graphs, in half precision, spread, quantised."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import AnyState
from sottovoce.models import LoadedModel, load, unload
from tests.graphs.support import State, debating, held, replies, texts
from tests.models import quantise
from tests.support import tiny_model, tiny_tokenizer
from tests.tables import pairs

PROTOCOLS = ["nl", "cipher", "sde", "hidden"]


FAST: AnyState = {"rounds": 2, "max_tokens": 4}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders: two models of one vocabulary, unlike in shape, and one of another vocabulary."""
    root = tmp_path_factory.mktemp("several")
    for name, seed, shape in (("one", 0, {}), ("wide", 1, {"hidden_size": 64}), ("stranger", 2, {})):
        tiny_model(seed=seed, max_position_embeddings=4096, **shape).save_pretrained(root / name)  # type: ignore[arg-type]
        tiny_tokenizer().save_pretrained(root / name)
    tokenizer = json.loads((root / "stranger" / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["!!"] = tokenizer["model"]["vocab"].pop("!")
    (root / "stranger" / "tokenizer.json").write_text(json.dumps(tokenizer))
    return {name: str(root / name) for name in ("one", "wide", "stranger")}


def dtypes(state: State) -> list[str | None]:
    """Of what each message carries, answer turns apart."""
    return [message.payload.dtype if message.payload else None for message in replies(state)]


# Several models


def test_means_over_the_shared_vocabulary_are_heard_in_exact_repetition(
    models: dict[str, str], store: PayloadStore
) -> None:
    named = {"model": [models["one"], models["stranger"]], "exact": True, **FAST}
    ends = [held(debating(protocol="cipher", shared_vocabulary=True, seed=1, store=store, **named)) for _ in range(2)]
    first, again = ([(each.text, each.payload) for each in replies(end)] for end in ends)
    assert first == again and len(first) == 4
    assert [note.split(":")[0] for note in ends[0]["notes"]] == [
        "agent_2 hears agent_1 by cipher over the shared vocabulary",
        "agent_1 hears agent_2 by cipher over the shared vocabulary",
    ]
    assert all(0 < message.stats["shared_mass"] <= 1 for message in replies(ends[0]))


# One model in several discussions


@pytest.fixture
def alone(models: dict[str, str]) -> LoadedModel:
    """A model that nobody has used yet, with its engine at rest."""
    unload(models["one"])
    return load(models["one"])


def test_discussions_held_at_once_share_one_model_and_one_engine(
    alone: LoadedModel, models: dict[str, str], store: PayloadStore
) -> None:
    graphs = [debating(protocol=name, model=[models["one"]], store=store, **FAST) for name in ("nl", "cipher", "sde")]
    before = set(threading.enumerate())
    with ThreadPoolExecutor(len(graphs)) as pool:
        states = list(pool.map(held, graphs))
    assert [len(texts(state)) for state in states] == [4, 4, 4]
    assert load(models["one"]) is alone
    assert len(set(threading.enumerate()) - before) == 1  # its engine's: whoever thought, thought there


def test_a_model_named_twice_is_loaded_once(alone: LoadedModel, models: dict[str, str], store: PayloadStore) -> None:
    other, before = str(Path(models["one"]) / ".." / "one"), set(threading.enumerate())
    held(debating(model=[models["one"], other], store=store, **FAST))
    assert load(other) is alone
    assert len(set(threading.enumerate()) - before) == 1


# Dtypes, devices, quantisation


@pytest.mark.parametrize(("protocol", "dtype"), pairs(PROTOCOLS, ["bfloat16", "float16"]))
def test_a_discussion_runs_in_half_precision(
    protocol: Any, dtype: Any, models: dict[str, str], store: PayloadStore
) -> None:
    state = held(debating(protocol=protocol, model=[models["one"]], dtype=[dtype], store=store, **FAST))
    assert dtypes(state) == [None if protocol == "nl" else dtype] * 4


@pytest.mark.parametrize(("protocol", "device"), pairs(PROTOCOLS[::-1], [{"": "disk"}, "map"], 5), ids=str)
def test_a_discussion_runs_on_a_model_that_accelerate_spreads(
    protocol: Any, device: Any, models: dict[str, str], store: PayloadStore
) -> None:
    spread = HookedChatModel(model=models["one"], device=device, protocol=protocol, max_tokens=4, seed=1)
    whole = HookedChatModel(model=models["one"], device="cpu", protocol=protocol, max_tokens=4, seed=1)
    assert texts(held(debating(spread, store=store, rounds=2))) == texts(held(debating(whole, store=store, rounds=2)))


@pytest.mark.slow
def test_a_spread_copy_of_a_model_hears_the_states_of_a_whole_one(models: dict[str, str], store: PayloadStore) -> None:
    places: list[Any] = ["cpu", {"": "disk"}]
    given = {
        f"agent_{i + 1}": HookedChatModel(model=models["one"], device=device, protocol="sde", max_tokens=4)
        for i, device in enumerate(places)
    }
    assert held(debating(given, store=store, rounds=2))["notes"] == []


@pytest.mark.parametrize(
    ("protocol", "kind"), pairs(PROTOCOLS, quantise.KINDS, 4), ids=lambda each: getattr(each, "__name__", each)
)
def test_a_discussion_runs_on_quantised_weights(protocol: Any, kind: Any, tmp_path: Path, store: PayloadStore) -> None:
    kind(tmp_path / "quantised")
    state = held(debating(protocol=protocol, model=[str(tmp_path / "quantised")], store=store, **FAST))
    assert dtypes(state) == [None if protocol == "nl" else "float32"] * 4
