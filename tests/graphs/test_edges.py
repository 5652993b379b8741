"""Debates between models of different kinds: which edges carry what, what is refused, what is noted."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedModel

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import ContextOverflow, ModelError, ProtocolError, UsageError
from sottovoce.models import LoadedModel, Rows, assemble
from tests.graphs.support import Recording, board, calls, debating, held, replies
from tests.support import tiny_model, tiny_tokenizer


@cache
def loaded(name: str, **config: Any) -> LoadedModel:
    """Models that differ in weights (`config` in shape), over one vocabulary; greedy, they never say nothing."""
    model = tiny_model(seed=len(name), max_position_embeddings=4096, **config)
    model.get_output_embeddings().weight.data[[0, 2]] = 0  # its end-of-sequence ids, never the largest logit
    return assemble(name, model, tiny_tokenizer())


@cache
def stranger() -> LoadedModel:
    """A model with a vocabulary of its own."""
    tokenizer = copy.deepcopy(tiny_tokenizer())
    tokenizer.add_tokens(["zebra"])
    return assemble("stranger", tiny_model(seed=9, vocab_size=400, max_position_embeddings=4096), tokenizer)


def silent_model() -> PreTrainedModel:
    """A model whose files name neither temperature nor top-p."""
    model = tiny_model(max_position_embeddings=4096)
    assert model.generation_config is not None
    model.generation_config.temperature = None
    return model


class Counting(Recording):
    """Tells what of the requests was latent."""

    def rows(self) -> list[tuple[int, int]]:
        """Shapes of the latent pieces that it heard."""
        pieces = [piece for each in self.requests for piece in each.prompt if isinstance(piece, Rows)]
        return [(len(piece), piece.rows.shape[-1]) for piece in pieces]

    def edits(self) -> int:
        """How many changes of hidden states it heard."""
        return sum(len(each.edits) for each in self.requests)


def agents(protocol: str, store: PayloadStore, *loaded_models: LoadedModel, **options: Any) -> dict[str, Counting]:
    greedy: Any = {"protocol": protocol, "store": store, "temperature": 0.0, "max_tokens": 5, "options": options}
    return {f"agent_{i + 1}": Counting(preloaded=loaded, **greedy) for i, loaded in enumerate(loaded_models)}


def about_edges(state: Any) -> list[str]:
    """Return the notes on who hears whom by what."""
    return [note for note in state["notes"] if " hears " in note]


# Hosted models


@pytest.mark.parametrize("protocol", ["cipher", "sde"])
def test_edges_of_a_hosted_model_go_in_words_and_the_run_says_so(protocol: str, store: PayloadStore) -> None:
    local = agents(protocol, store, loaded("a"), loaded("a"))
    hosted = ScriptedChatModel(["The answer is 22."] * 3, hooked=False)
    state = held(debating({**local, "agent_3": hosted}, agents=3, rounds=2, answer_turn="off"))
    assert about_edges(state) == [
        "agent_3 hears agent_1 in words: one of them is a hosted model",
        "agent_3 hears agent_2 in words: one of them is a hosted model",
        "agent_1 hears agent_3 in words: one of them is a hosted model",
        "agent_2 hears agent_3 in words: one of them is a hosted model",
    ]
    said = {(message.round, message.agent): message for message in board(state)}
    assert [said[0, name].source for name in ("agent_1", "agent_2", "agent_3")] == ["model", "model", "hosted"]
    assert said[0, "agent_3"].payload is None
    (turn,) = calls(hosted, "agent_3")[1].turns[-1].parts
    assert isinstance(turn, str) and said[0, "agent_1"].text in turn and said[0, "agent_2"].text in turn
    latent = local["agent_1"].rows() if protocol == "cipher" else range(local["agent_1"].edits())
    assert len(latent) == (2 if protocol == "cipher" else 1)  # the other's message; cipher reads its own rows too


def test_under_a_latent_protocol_the_warmest_hosted_model_never_decides(store: PayloadStore) -> None:
    hosted = ScriptedChatModel(["The answer is 22."], hooked=False)
    state = held(debating({"agent_1": hosted, "agent_2": agents("cipher", store, loaded("a"))["agent_1"]}, rounds=1))
    assert state["decision"]["why"].startswith("agent_2 has the lowest temperature")


# Two models


def test_sde_between_two_models_may_fall_back_to_words_edge_by_edge(store: PayloadStore) -> None:
    models = agents("sde", store, loaded("a"), loaded("bb"), loaded("a"))
    state = held(debating(models, agents=3, rounds=2, fallback="nl", answer_turn="off"))
    assert [note.split(":")[0] for note in about_edges(state)] == [
        "agent_2 hears agent_1 in words",
        "agent_1 hears agent_2 in words",
        "agent_3 hears agent_2 in words",
        "agent_2 hears agent_3 in words",
    ]
    assert all(note.endswith("have different weights") for note in about_edges(state))  # no advice to set --fallback
    assert [model.edits() for model in models.values()] == [1, 0, 1]


def test_sde_between_models_of_equal_shape_may_be_allowed_and_is_noted(store: PayloadStore) -> None:
    models = agents("sde", store, loaded("a"), loaded("bb"), allow_other_weights=True)
    state = held(debating(models, rounds=2, answer_turn="off"))
    assert [model.edits() for model in models.values()] == [1, 1]
    assert "agents hear one another by sde between other weights, which is outside the paper" in state["notes"]


def test_cipher_between_models_of_one_vocabulary_carries_rows_in_the_hearer_s_table(store: PayloadStore) -> None:
    models = agents("cipher", store, loaded("a"), loaded("wide", hidden_size=64))
    state = held(debating(models, rounds=2, answer_turn="off"))
    assert about_edges(state) == []
    first, second = (message for message in board(state) if message.round == 0)
    assert first.payload and second.payload
    for name, heard_from, own in (("agent_1", second, first), ("agent_2", first, second)):
        table = models[name].loaded.table
        assert heard_from.payload is not None and own.payload is not None
        sent = heard_from.payload.load(store).rows(table.key)
        assert sent is not None and sent.shape == (heard_from.payload.tokens, table.width)
        pieces = [piece for piece in models[name].requests[1].prompt if isinstance(piece, Rows)]
        assert [tuple(piece.rows.shape) for piece in pieces] == [
            (own.payload.tokens, table.width),
            (heard_from.payload.tokens, table.width),
        ]
        assert pieces[1].rows.equal(sent)


def test_cipher_across_vocabularies_is_refused_by_name_or_goes_in_words(store: PayloadStore) -> None:
    models = agents("cipher", store, loaded("a"), stranger())
    with pytest.raises(ProtocolError, match=r"cipher needs one vocabulary, but 'a' .* and 'stranger' .* `fallback="):
        held(debating(models, rounds=2))
    assert not models["agent_1"].requests
    state = held(debating(models, rounds=2, fallback="nl", answer_turn="off"))
    assert len(about_edges(state)) == 2
    assert [len(model.rows()) for model in models.values()] == [0, 0]


def test_a_protocol_that_nobody_hears_is_neither_computed_nor_stored_nor_shown(store: PayloadStore) -> None:
    """Seen: means at the temperatures of means, 16 rows beside each message, and notes on them."""
    models = {name: agents(name, store, loaded("a"), stranger()) for name in ("cipher", "nl")}
    states = [held(debating(each, rounds=2, fallback="nl", answer_turn="off")) for each in models.values()]
    found, expected = ([(each.text, each.payload and each.payload.summary) for each in board(s)] for s in states)
    assert found == expected
    assert all(request.feed.kind == "token" for model in models["cipher"].values() for request in model.requests)
    assert [note for note in states[0]["notes"] if "in words: cipher needs one vocabulary" not in note] == []


def test_agents_that_speak_by_different_protocols_are_noted(store: PayloadStore) -> None:
    models = {
        "agent_1": agents("cipher", store, loaded("a"))["agent_1"],
        "agent_2": agents("sde", store, loaded("a"))["agent_1"],
    }
    state = held(debating(models, rounds=2))
    assert [note.split(":")[0] for note in about_edges(state)] == [
        "agent_2 hears agent_1 in words",
        "agent_1 hears agent_2 in words",
    ]


# Models named by the settings


def test_cipher_s_agents_speak_at_parts_of_the_model_s_default_temperature(folder: str, store: PayloadStore) -> None:
    graph = debating(protocol="cipher", model=[folder], agents=4, rounds=2, max_tokens=3, store=store)
    state = held(graph)
    found = {(message.round, message.agent): message.stats["temperature"] for message in replies(state)}
    parts = [found[r, f"agent_{i}"] / found[r, "agent_4"] for r in (0, 1) for i in (1, 2, 3, 4)]
    assert parts == pytest.approx([0.25, 0.5, 0.75, 1.0] * 2)
    assert state["decision"]["why"].startswith("agent_1 has the lowest temperature")


@pytest.fixture
def unnamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model whose files name no temperature, and a cache in which nothing was measured."""
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path / "cache"))
    silent_model().save_pretrained(tmp_path / "unnamed")
    tiny_tokenizer().save_pretrained(tmp_path / "unnamed")
    return str(tmp_path / "unnamed")


def heats(state: Any) -> list[float]:
    """The temperatures at which was spoken, in order."""
    return [message.stats["temperature"] for message in replies(state)]


@pytest.mark.parametrize(
    ("settings", "found", "note"),
    [
        ({}, [0.7, 0.7], "nl starts from 0.7, the usual temperature of chat models; set another temperature"),
        (
            {"protocol": "cipher"},
            [0.15, 0.3],
            "cipher starts from 0.3, a cautious choice; `sottovoce models doctor MODEL` finds the highest at which it "
            "can be read",
        ),
        ({"protocol": "cipher", "temperature": [0.9, 0.2]}, [0.9, 0.2], ""),  # what was set is left alone,
        ({"protocol": "cipher", "compat": "reference"}, [0.5, 1.0], ""),  # and the published code
        ({"compat": "reference"}, [1.0, 1.0], ""),
    ],
)
def test_where_the_model_names_no_temperature_one_is_chosen_and_the_run_says_so_once(
    settings: dict[str, Any], found: list[float], note: str, unnamed: str, store: PayloadStore
) -> None:
    state = held(debating(model=[unnamed], rounds=1, max_tokens=3, store=store, **settings))
    assert heats(state) == found
    named = f"{unnamed} names no temperature: {note.replace('MODEL', unnamed)}"
    assert state["notes"] == ([named] if note else [])


def test_a_model_of_the_catalogue_draws_as_its_makers_recommend_and_the_run_says_so(store: PayloadStore) -> None:
    model = Recording(preloaded=assemble("smollm2", silent_model(), tiny_tokenizer()), store=store, max_tokens=3)
    state = held(debating(model, rounds=1))
    assert (heats(state), model.requests[0].sampling.top_p) == ([0.2, 0.2], 0.9)
    assert state["notes"] == [
        "smollm2 names no temperature: nl starts from 0.2, as its makers recommend",
        "smollm2 names no top_p: nl takes 0.9, as its makers recommend",
    ]


@pytest.mark.parametrize(
    ("temperature", "options", "agents"),
    [
        ([0.0], {}, "(agent_1, agent_2)"),
        ([0.0, 0.4], {}, "(agent_1)"),
        ([0.2], {}, ""),
        ([0.0], {"compat": "reference"}, ""),
    ],
)
def test_cipher_at_temperature_zero_says_that_it_equals_words(
    temperature: list[float], options: dict[str, Any], agents: str, folder: str, store: PayloadStore
) -> None:
    settings: dict[str, Any] = {"temperature": temperature, "model": [folder], "max_tokens": 3, **options}
    notes = held(debating(protocol="cipher", rounds=1, store=store, **settings))["notes"]
    assert notes == (
        [f"at temperature 0 cipher equals nl: each mean is one token's embedding {agents}"] if agents else []
    )


def test_one_that_hears_means_and_speaks_in_words_draws_by_the_model_s_own(unnamed: str, store: PayloadStore) -> None:
    graph = debating(protocol="cipher", model=[unnamed], rounds=2, summarise="each", max_tokens=3, store=store)
    summaries = [message for message in board(held(graph)) if message.act == "summarise"]
    assert [message.stats["temperature"] for message in summaries] == [0.35, 0.7]


@pytest.mark.parametrize(
    ("settings", "error", "expected"),
    [
        ({"model": ["no/such/place/at/all"]}, ModelError, "unknown model 'no/such/place/at/all'"),
        ({"layers": [7]}, UsageError, "layer 7 is out of range"),
        ({"prompts": "/no/such/pack"}, UsageError, "prompt pack '/no/such/pack' is not a folder"),
    ],
)
def test_settings_that_no_model_can_follow_are_refused(
    settings: dict[str, Any], error: type[Exception], expected: str, folder: str, store: PayloadStore
) -> None:
    with pytest.raises(error, match=expected):
        held(debating(store=store, **{"protocol": "sde", "model": [folder], "max_tokens": 3, **settings}))
    assert not store.root.exists()


def test_given_models_and_a_protocol_that_is_not_theirs_contradict_each_other(store: PayloadStore) -> None:
    with pytest.raises(UsageError, match="protocol"):
        held(debating(agents("sde", store, loaded("a"), loaded("a")), protocol="cipher", rounds=1))


def test_settings_that_make_a_model_are_refused_beside_given_ones() -> None:
    with pytest.raises(UsageError, match="the setting 'max_tokens' belongs to the models passed to this graph"):
        held(debating(ScriptedChatModel(["1"] * 9), max_tokens=6))


def test_a_prompt_that_is_too_long_names_the_agent_whose_it_was(store: PayloadStore) -> None:
    model = HookedChatModel(preloaded=loaded("a"), max_tokens=100_000, store=store)
    with pytest.raises(ContextOverflow, match=r"^agent_[12]: the prompt has \d+ tokens and the reply may take 100000"):
        held(debating(model, store=store, rounds=1))
