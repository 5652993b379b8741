"""Where weights lie and how they are packed: device maps, dtypes, quantised checkpoints."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from sottovoce.channels import create
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import ModelError
from sottovoce.models import Dtype, Feed, LoadedModel, Record, Stop, load, unload
from tests.models import quantise
from tests.support import close, edit, request, rows, same_reply, say, tiny_model

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = "model.safetensors"
EVERYTHING: dict[str, int | str] = {"": "disk"}
LATER_HALF: dict[str, int | str] = {
    "model.embed_tokens": "disk",
    "model.rotary_emb": "cpu",
    "model.layers.0": "cpu",
    "model.layers.1": "disk",
    "model.norm": "cpu",
    "lm_head": "disk",
}
MIXED = [
    request(record=Record(layers=(0, 1), final_norm=True, stats=True)),
    request("The answer is 22.", edits=(edit(0, 1, 2), edit(1, 3, 2)), record=Record(layers=(1,))),
    request((rows(3), *request("pears").prompt), feed=Feed("mean"), record=Record(sparse=4)),
]
"""Requests that read, that change and that feed embeddings."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    quantise.plain(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of the saved model for each test."""
    return shutil.copytree(saved, tmp_path / "tiny")


@pytest.fixture
def store(tmp_path: Path) -> PayloadStore:
    return PayloadStore(tmp_path / "store")


@pytest.fixture(scope="module", params=quantise.KINDS, ids=lambda kind: str(kind.__name__))
def quantised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantised")
    request.param(folder)
    return folder


def agree(loaded: LoadedModel, other: LoadedModel) -> bool:
    """The same replies to reading, changing and averaging requests, batched."""
    return all(map(same_reply, loaded.engine.run_all(MIXED), other.engine.run_all(MIXED)))


# Devices


@pytest.mark.parametrize("device", [EVERYTHING, LATER_HALF, "map"], ids=str)
def test_a_model_that_accelerate_spreads_answers_in_float32_as_one_in_a_single_place(device: Any, folder: Path) -> None:
    # It took the checkpoint's bfloat16, so that the same model said other things with --device map.
    tiny_model().bfloat16().save_pretrained(folder)
    whole, spread = load(folder, device="cpu"), load(folder, device=device)
    assert spread is not whole and agree(spread, whole)
    assert whole.dtype == spread.dtype == torch.float32


def test_weights_put_aside_are_fetched_for_the_table_and_the_key(folder: Path) -> None:
    # A table read on the device of a parameter that is put aside, "meta", has no values.
    whole, spread = load(folder, device="cpu"), load(folder, device=EVERYTHING)
    assert {parameter.device.type for parameter in spread.model.parameters()} == {"meta"}
    assert spread.network.device == torch.device("cpu")
    assert spread.table.rows.equal(whole.table.rows)
    assert (spread.table.key, spread.weights_key) == (whole.table.key, whole.weights_key)


def test_a_spread_model_is_loaded_once_and_told_apart_by_its_map(folder: Path) -> None:
    turned = dict(reversed(LATER_HALF.items()))
    assert load(folder, device=LATER_HALF) is load(folder, device=turned) is not load(folder, device=EVERYTHING)


@pytest.mark.parametrize(
    ("device", "complaint"),
    [
        ({"": "banana"}, "cannot be loaded: .*banana"),
        (
            {"model.leyers": "cpu", "": "cpu"},
            "the device map names 'model.leyers', .* Qwen2ForCausalLM; it has lm_head, model",
        ),
        ("banana", "device 'banana' cannot be used"),
    ],
)
def test_a_place_that_is_not_there_is_refused_in_one_line(device: Any, complaint: str, folder: Path) -> None:
    with pytest.raises(ModelError, match=complaint) as caught:
        load(folder, device=device)
    assert "\n" not in str(caught.value)


# Dtypes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_payloads_have_the_dtype_that_the_model_computes_in(dtype: Dtype, folder: Path, store: PayloadStore) -> None:
    loaded, expected = load(folder, device="cpu", dtype=dtype), getattr(torch, dtype)
    sent = {name: say(create(name), loaded, store).payload for name in ("cipher", "sde", "hidden")}
    assert {str(payload and payload.dtype) for payload in sent.values()} == {dtype}
    means = sent["cipher"] and sent["cipher"].load(store).rows(loaded.table.key)
    states = sent["sde"] and sent["sde"].load(store).states
    assert means is not None and states is not None and loaded.dtype == means.dtype == states.dtype == expected


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_near_float32_and_near_itself_in_a_batch(dtype: Dtype, folder: Path) -> None:
    loaded, whole = load(folder, device="cpu", dtype=dtype), load(folder, device="cpu")
    asked = [replace(each, stop=Stop(1)) for each in MIXED]  # of two near tokens either may win
    noise = 8 * torch.finfo(loaded.dtype).eps  # of the largest state: some roundings in two layers
    together = loaded.engine.run_all(asked)
    for reply, one in zip(together, asked, strict=True):
        alone, exact = loaded.engine.run(one), whole.engine.run(one)
        for layer, states in exact.states.items():
            assert close(reply.states[layer].float(), states, noise)
            assert close(reply.states[layer].float(), alone.states[layer].float(), noise)


def test_an_unknown_dtype_is_refused_with_what_there_is(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"^unknown dtype 'float8'; did you mean '"):
        load(folder, dtype="float8")  # type: ignore[arg-type]  # the mistake


# Quantised checkpoints


def test_a_quantised_model_answers_in_a_batch_as_alone_and_near_its_original(quantised: Path, folder: Path) -> None:
    loaded = load(quantised, device="cpu")
    for reply, one in zip(loaded.engine.run_all(MIXED), MIXED, strict=True):
        assert same_reply(reply, loaded.engine.run(one))
    one = request(max_new=1, record=Record(layers=(0,)))
    found, exact = (each.engine.run(one).states[0] for each in (loaded, load(folder, device="cpu")))
    assert not close(found, exact)
    assert close(found, exact, 0.2)  # fp8 has 3 bits after the first


def test_quantised_weights_have_a_key_that_tells_them_apart_and_lasts(quantised: Path, tmp_path: Path) -> None:
    # compressed-tensors unpacked its weights at the first pass: the key, and with it every sde payload, was another's.
    unload(quantised)
    loaded = load(quantised, device="cpu")
    key = loaded.weights_key
    loaded.engine.run(request())
    del loaded.__dict__["weights_key"]
    assert loaded.weights_key == key
    assert key != load(rescaled(quantised, tmp_path / "scaled"), device="cpu").weights_key


def rescaled(folder: Path, other: Path) -> Path:
    """The same checkpoint with another scale at one place."""
    other.mkdir()
    for file in folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    with safe_open(folder / WEIGHTS, "pt") as opened:
        metadata = opened.metadata()
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}
    scaled = next(name for name in sorted(tensors) if "scale" in name)
    tensors[scaled] = tensors[scaled] * 2
    save_file(tensors, other / WEIGHTS, metadata=metadata)
    return other


def test_loading_a_quantised_model_is_silent(quantised: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unload(quantised)
    capfd.readouterr()
    load(quantised, device="cpu").engine.run(request())
    assert capfd.readouterr() == ("", "")


def test_torchao_is_silent_where_it_is_installed(folder: Path) -> None:
    pytest.importorskip("torchao")
    command = [sys.executable, str(ROOT / "cli.py"), "single", "What is 2 + 2?", "--model", str(folder), "--json"]
    done = subprocess.run([*command, "--max-tokens", "2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ({"quant_method": "gptq", "bits": 4}, r"cannot be loaded: .*`pip install optimum`"),
        ({"quant_method": "awq", "bits": 4}, "cannot be loaded: .*`pip install gptqmodel`"),
        ({"quant_method": "newest"}, "is quantized as 'newest', unknown to transformers"),
        ({"bits": 4}, "cannot be loaded: .* no `quant_method`"),
    ],
)
def test_a_kind_that_cannot_be_read_here_is_refused_by_the_name_of_what_is_missing(
    kind: dict[str, Any], complaint: str, folder: Path
) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": kind}))
    with pytest.raises(ModelError, match=complaint) as caught:
        load(folder, device="cpu")
    assert "\n" not in str(caught.value)
