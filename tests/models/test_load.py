from __future__ import annotations

import base64
import json
import shutil
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sottovoce.core.errors import EngineError, ModelError, UsageError
from sottovoce.core.files import models_folder
from sottovoce.models import load, unload
from sottovoce.models.engine.loop import Worker
from sottovoce.models.sources.cache import changed, write_sums
from tests.support import VOCABULARY, ids, request, tiny_loaded, tiny_model, tiny_tokenizer

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as transformers saves it."""
    folder = tmp_path_factory.mktemp("saved")
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of the saved model for each test."""
    return shutil.copytree(saved, tmp_path / "tiny")


def test_a_loaded_model_answers_as_the_one_that_was_saved(folder: Path) -> None:
    loaded = load(folder, device="cpu")
    assert loaded.engine.run(request()).ids == tiny_loaded().engine.run(request()).ids
    assert (loaded.name, loaded.dtype, loaded.layers, loaded.stop_ids) == (str(folder), torch.float32, 2, (2, 0))


def test_a_tokenizer_is_read_as_its_file_describes_it(folder: Path) -> None:
    # AutoTokenizer made one with Qwen's pattern of it: " 14" became " ", "1", "4", and a trained model saw noise.
    chat = load(folder, device="cpu").chat

    assert chat.ids("What is 14 + 3?\n\n") == ids("What is 14 + 3?\n\n")
    assert chat.tokenizer.chat_template == tiny_tokenizer().chat_template
    assert (chat.tokenizer.eos_token_id, chat.tokenizer.pad_token_id) == (2, 0)


def test_the_same_arguments_give_the_same_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(folder, device="cpu")
    monkeypatch.chdir(folder.parent)

    assert load(str(folder), device="cpu") is load("./tiny", device="cpu") is load(Path("tiny"), device="cpu") is loaded
    assert load(folder, device="cpu", dtype="bfloat16") is not loaded


def test_threads_that_load_a_model_at_once_get_one_loaded(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        loaded_models = set(pool.map(lambda _: load(folder, device="cpu"), range(8)))
    assert len(loaded_models) == 1


def test_an_unloaded_model_leaves_no_memory_and_no_thread(folder: Path) -> None:
    before = {*threading.enumerate()}
    loaded = load(folder, device="cpu")
    loaded.engine.run(request())
    weights = weakref.ref(loaded.model)
    (worker,) = [each.ident for each in {*threading.enumerate()} - before if isinstance(each, Worker)]

    del loaded
    assert (unload(folder), unload(folder)) == (True, False)
    assert weights() is None and worker not in {each.ident for each in threading.enumerate()}


def test_a_model_is_unloaded_under_every_dtype_and_whoever_holds_it_may_go_on(folder: Path) -> None:
    loaded, half = load(folder, device="cpu"), load(folder, device="cpu", dtype="bfloat16")
    said = loaded.engine.run(request()).ids

    assert unload(folder)
    assert load(folder, device="cpu") is not loaded and load(folder, device="cpu", dtype="bfloat16") is not half
    assert loaded.engine.run(request()).ids == said


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "nothing",
            "unknown model 'nothing'; choose from: bundled, smollm2; or give a folder .*, a hub id .*, or host",
        ),
        ("nobody/nothing", "model 'nobody/nothing' cannot be loaded: "),
    ],
)
def test_an_unknown_name_is_refused_in_one_line(name: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint) as caught:
        load(name, device="cpu")
    assert "\n" not in str(caught.value)


def cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def without_one_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    del tensors["model.layers.1.self_attn.q_proj.weight"]
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def of_another_model(folder: Path) -> None:
    save_file({"weight": torch.zeros(3)}, folder / WEIGHTS, metadata={"format": "pt"})


def with_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def of_layers(folder: Path, n: int) -> None:
    with_config(folder, num_hidden_layers=n, layer_types=["full_attention"] * n)


def without_a_shard(folder: Path) -> None:
    one, other = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))
    names = [*load_file(folder / WEIGHTS)]
    (folder / WEIGHTS).rename(folder / one)
    index = {"metadata": {}, "weight_map": {name: [one, other][i % 2] for i, name in enumerate(names)}}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))


def with_words_of_another(folder: Path) -> None:
    described = json.loads((folder / "tokenizer.json").read_text())["model"]
    more = {f"word{i}": VOCABULARY + i for i in range(9)}
    with_tokenizer_part(folder, "model", **{**described, "vocab": described["vocab"] | more})


def of_an_unknown_kind(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "nonsense"}))


def with_header(folder: Path, header: str) -> None:
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header.encode())


def with_defaults(values: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "generation_config.json").write_text(values)


def with_tokenizer_part(folder: Path, part: str, **described: object) -> None:
    file = folder / "tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), part: described}))


def with_a_template_elsewhere(folder: Path) -> None:
    (folder.parent / "secret").touch()
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / "chat_template.jinja").symlink_to(folder.parent / "secret")


def replacing(old: dict[str, str], new: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": old, "content": new}


def with_steps(folder: Path, steps: Any, part: str = "normalizer", inner: str = "normalizers") -> None:
    with_tokenizer_part(folder, part, type="Sequence", **{inner: [{"type": "Sequence", inner: steps}]})


def with_weights_of_mlx(folder: Path) -> None:
    names = ("weight", "scales", "biases")
    save_file({f"model.layers.{i}.q_proj.{name}": torch.ones(1) for i in (0, 1) for name in names}, folder / WEIGHTS)


DOUBLED = [replacing({"String": "a"}, "aa")] * 7
TABLE = base64.b64encode(bytes(4) + b"a\0" + b"b" * 101).decode()
BYTES = [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}] * 3
GROWING: list[dict[str, Any]] = [
    {"type": "Sequence", "normalizers": [replacing({"Regex": "(?=a)"}, "a")] * 7},
    {"type": "Sequence", "normalizers": [{"type": "NFKC"}] * 3},
    {"type": "Precompiled", "precompiled_charsmap": TABLE},
    {"type": "Prepend", "prepend": "a" * 100},
]
"""Normalizers that make a text over 100 times as long."""
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
NESTED = '{"a":' + "[" * 200_000 + "]" * 200_000 + "}"
PANICS = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}  # tokenizers (0.23) raises a BaseException


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "config.json").unlink(), "is not a model: it has no config.json"),
        (of_an_unknown_kind, "cannot be loaded: .* model type `nonsense`"),
        (lambda folder: (folder / WEIGHTS).unlink(), r"has no weights; expected \*.safetensors"),
        (
            lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"),
            r"has only pickled weights \(pytorch_model.bin\); expected \*.safetensors",
        ),
        (lambda folder: cut(folder / WEIGHTS), "model.safetensors is damaged: Error while deserializing header"),
        (without_one_tensor, "lacks 1 of the weights .* requires, such as 'model.layers.1.self_attn.q_proj.weight'"),
        (of_another_model, "config.json specifies 2 layers, but model.safetensors holds 0"),
        (lambda folder: with_config(folder, hidden_size=48), "its weights do not have the shapes that config.json"),
        (lambda folder: of_layers(folder, 12), "config.json specifies 12 layers, but model.safetensors holds 2"),
        (lambda folder: of_layers(folder, 1), "config.json specifies 1 layers, but model.safetensors holds 2"),
        (without_a_shard, "cannot be loaded: .*model-00002-of-00002.safetensors"),
        (with_defaults("no"), "cannot be loaded: generation_config.json: Expecting value"),
        (lambda folder: [file.unlink() for file in folder.glob("token*")], "has no tokenizer; expected tokenizer.json"),
        (with_words_of_another, r"the tokenizer of another model: it has \d+ tokens, and the weights have \d+ rows"),
        (lambda folder: cut(folder / "tokenizer.json"), "cannot be loaded: tokenizer: "),
        (lambda folder: with_header(folder, NESTED), "model.safetensors is damaged: .* recursion limit exceeded"),
        (
            lambda folder: with_header(folder, "{" + " " * 10_000_000 + "}"),
            r"model.safetensors has a header of [\d,]+ bytes; expected 10,000,000 at most",
        ),
        (with_defaults('{"temperature": "hot"}'), "temperature 'hot' in generation_config.json; expected"),
        (with_defaults('{"top_k": [5]}'), r"top_k \[5\] in generation_config.json; expected a number"),
        (with_defaults('{"eos_token_id": "x"}'), "eos_token_id 'x' .*; expected token ids"),
        (lambda folder: with_tokenizer_part(folder, "normalizer", **PANICS), "cannot be loaded: tokenizer: Precomp"),
        *(
            (partial(with_tokenizer_part, part="normalizer", **each), "has a normalizer in .* over 100 times")
            for each in GROWING
        ),
        (partial(with_steps, steps=DOUBLED), "a normalizer in tokenizer.json that may make a text over 100 ti"),
        (
            partial(with_steps, steps=BYTES, part="pre_tokenizer", inner="pretokenizers"),
            "has a pre_tokenizer in .* over 100 times",
        ),
        (partial(with_steps, steps=DOUBLED, part="decoder", inner="decoders"), "has a decoder in .* over 100 times"),
        (lambda folder: (folder / WEIGHTS).write_text(LFS), "model.safetensors is a pointer of Git LFS; .*`git lfs"),
        (lambda folder: (folder / "tokenizer.json").write_text(LFS), "tokenizer.json is a pointer of Git LFS"),
        (with_weights_of_mlx, "has quantized weights of MLX, such as 'model.layers.0.q_proj.biases'; .*--dequantize"),
        (with_a_template_elsewhere, "chat_template.jinja of model '.*' is a link that leads out of its folder"),
    ],
)
def test_a_folder_that_is_no_sound_model_is_refused_in_one_line(
    folder: Path, spoil: Callable[[Path], object], complaint: str
) -> None:
    spoil(folder)
    with pytest.raises(ModelError, match=complaint) as caught:
        load(folder, device="cpu")
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


def test_a_tokenizer_whose_pattern_makes_its_library_panic_ends_in_one_line(folder: Path) -> None:
    """Seen: a BaseException, which passed through everything."""
    split = {"pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
    with_tokenizer_part(folder, "pre_tokenizer", type="Split", **split)
    with pytest.raises(ModelError, match="the model's tokenizer cannot read a text of 120 characters: Onig: Regex"):
        load(folder, device="cpu").chat.ids("a" * 60 + "x" * 60)


def test_weights_that_changed_since_their_digest_was_taken_are_told_by_it(folder: Path) -> None:
    write_sums(folder)
    tensors = load_file(folder / WEIGHTS)
    tensors["model.layers.0.mlp.up_proj.weight"][0, 0] = torch.nan
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})

    assert changed(folder) == [WEIGHTS]
    with pytest.raises(EngineError, match="logits were not finite after 0 new tokens; check the weights"):
        load(folder, device="cpu").engine.run(request())


def test_the_key_of_weights_is_remembered_until_a_file_changes(folder: Path) -> None:
    """All bytes are read for it, which takes seconds for a large model."""
    key = load(folder, device="cpu").weights_key
    (kept,) = (models_folder() / "weights").iterdir()
    kept.write_text("remembered")
    unload(folder)
    assert load(folder, device="cpu").weights_key == "remembered"
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"].view(torch.int32)[5] ^= 1
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    unload(folder)

    assert load(folder, device="cpu").weights_key not in (key, "remembered")


def with_code(file: Path, folder: Path, auto_map: dict[str, Any]) -> Path:
    """Point a JSON file of a model to code beside it that leaves a mark where it is run; returns the mark."""
    mark = folder / "it_ran"
    (folder / "code.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Own: pass\n")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"auto_map": auto_map}))
    return mark


@pytest.mark.parametrize(
    "auto_map", [{"AutoConfig": "code.Own", "AutoModelForCausalLM": "code.Own"}, {"AutoModelForCausalLM": "code.Own"}]
)
def test_code_that_a_model_needs_is_not_run(auto_map: dict[str, str], folder: Path) -> None:
    of_an_unknown_kind(folder)
    mark = with_code(folder / "config.json", folder, auto_map)

    with pytest.raises(ModelError, match="cannot be loaded: ") as caught:
        load(folder, device="cpu")
    if "AutoConfig" in auto_map:
        assert str(caught.value).endswith(
            "it needs code of its own, which is never run; use a model that transformers supports"
        )
    assert not mark.exists()


def test_code_beside_a_model_that_transformers_knows_is_not_run(folder: Path) -> None:
    mark = with_code(folder / "config.json", folder, {"AutoConfig": "code.Own", "AutoModelForCausalLM": "code.Own"})
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text((folder / "code.py").read_text())

    assert load(folder, device="cpu").engine.run(request()).ids == tiny_loaded().engine.run(request()).ids
    assert not mark.exists()


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("_attn_implementation", "somebody/kernel"),
        ("attn_implementation", "flash_attention_2"),  # transformers fetches a kernel where flash_attn is not installed
    ],
)
def test_code_that_a_config_names_on_a_hub_is_not_fetched(key: str, name: str, folder: Path) -> None:
    """transformers fetches and runs the kernel of that name where `kernels` is installed."""
    with_config(folder, **{key: name})
    with pytest.raises(ModelError, match=rf"names the attention '{name}' in config.json, which may be code of a hub"):
        load(folder)


def test_an_adapter_opens_no_other_model(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "/somewhere/else"}')

    with pytest.raises(ModelError, match=r"has adapter_config.json, which names another model; .* merge the adapter"):
        load(folder)
    (folder / "config.json").unlink()  # as adapters are published
    with pytest.raises(ModelError, match=r"has adapter_config.json, which names another model; .* merge the adapter"):
        load(folder)


def test_a_cache_of_a_hub_is_told_by_its_snapshot(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "models--some--tiny"
    snapshot = cache / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)

    with pytest.raises(ModelError, match=rf"is not a model: it has no config.json; give its snapshot {snapshot}$"):
        load(cache)
    assert load(snapshot, device="cpu").layers == 2


def test_code_of_a_tokenizer_is_not_run(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    mark = with_code(folder / "tokenizer_config.json", folder, {"AutoTokenizer": ["code.Own", "code.Own"]})

    with pytest.raises(ModelError, match=r"cannot be loaded: tokenizer: Couldn't instantiate the backend .*slow"):
        load(folder, device="cpu")
    assert not mark.exists()


def test_a_device_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="device 'banana' cannot be used"):
        load(folder, device="banana")


@pytest.mark.parametrize("memory", ["banana", -5, True])
def test_a_memory_that_is_no_size_is_refused_at_the_door(memory: Any) -> None:
    with pytest.raises(UsageError, match=r"memory is .*: expected bytes above 0, or a size like '4GB'"):
        load(memory=memory)


def test_engines_of_other_exactness_or_memory_share_the_weights() -> None:
    plain, exact, small = load(), load(exact=True), load(memory="100MB")

    assert plain.model is exact.model is small.model
    assert len({id(loaded.engine) for loaded in (plain, exact, small)}) == 3
    assert exact.engine.limits.exact and small.engine.limits.memory == 10**8 and load().engine.limits.memory is None
    assert load(exact=True) is exact
