"""What the doctor says of sound models, of odd templates, and of models that cannot work here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from sottovoce.models.doctor import Finding, diagnose, examine
from sottovoce.models.load import ONE_BY_ONE
from tests.support import FAMILIES, LIMITED, SHAPES, tiny_model, tiny_tokenizer
from tests.tables import some


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path / "cache"))


def findings(tokenizer: PreTrainedTokenizerFast | None = None, **config: Any) -> dict[str, Finding]:
    found = examine("tiny", tiny_model(**config), tokenizer or tiny_tokenizer())
    return {finding.check: finding for finding in found}


OTHERWISE = ("bloom", "falcon-alibi", "gpt2", "mpt", "opt", "opt-narrow")
"""Families whose keys are not rotated by their positions."""


@pytest.mark.parametrize("family", some(FAMILIES, "llama", "gemma2", "opt-narrow"))
def test_a_sound_model_of_any_family_passes_every_check(family: str) -> None:
    found = findings(family=family)

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert found["layers"].detail.startswith("2 at ")
    assert f", hidden size 32, embedding size {16 if family == 'opt-narrow' else 32}" in found["layers"].detail
    names, *reasons, shared = found["protocols"].detail.split("; ")
    assert shared == "all but nl and cipher need equal weights"
    rotary = not reasons  # keys that can be moved
    assert names == f"nl, cipher, sde, hidden{', kv, thoughts' if rotary else ''}, graft"
    assert rotary or [reason.partition(":")[0] for reason in reasons] == ["no kv", "no thoughts"]
    assert rotary == (family not in OTHERWISE and "sliding_window" not in SHAPES[family])
    assert found["batch = single"].ok


@pytest.mark.parametrize("family", LIMITED)
def test_a_family_that_can_take_part_in_some_protocols_is_told_which(family: str) -> None:
    found = findings(family=family, **LIMITED[family])
    names, *reasons, _ = found["protocols"].detail.split("; ")

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert names == ("nl" if family == "gemma3n_text" else "nl, sde, hidden, graft")
    assert reasons[0] == "no cipher: its layers look token ids up besides the embeddings"
    assert reasons[1:] == [
        f"no {name}: its layers have 2 states per position" for name in ("sde", "hidden", "graft") if name not in names
    ] + [f"no {name}: some layers see only the last 8 positions (a sliding window)" for name in ("kv", "thoughts")]


def test_a_saved_model_is_diagnosed_by_its_folder(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)

    found = {finding.check: finding for finding in diagnose(tmp_path, dtype="bfloat16")}

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert ", bfloat16; sde and hidden use 0 (" in found["layers"].detail
    assert found["batch = single"].detail.endswith("0.03 allowed in bfloat16")


def test_memory_counts_grouped_heads() -> None:
    found = findings(num_key_value_heads=2)

    weights = sum(parameter.numel() * 4 for parameter in tiny_model(num_key_value_heads=2).parameters())
    # 2 layers x keys and values x 2 heads x 8 wide x 4 bytes = 256 bytes a token
    assert found["memory"].detail.startswith(f"weights {weights / 1000:.3g} kB")
    assert re.search(
        r"; keys and values 256 kB per 1,000 tokens, [\d.]+ [kMG]B of the free memory, "
        r"for about [\d,]+ tokens at a time; --memory of a run sets another$",
        found["memory"].detail,
    )


def state_space_model() -> MambaForCausalLM:
    return MambaForCausalLM(MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=2, state_size=8))


def test_a_model_whose_layers_are_not_found_is_told_what_to_set() -> None:
    model, layers = examine("tiny", tiny_model(), tiny_tokenizer(), layers_path="model.blocks")

    assert model.ok is None
    assert layers.ok is False
    assert layers.detail.endswith("set `layers_path` to the attribute path of its list of decoder layers")


@pytest.mark.parametrize("path", [None, "backbone.layers"])
def test_a_state_space_model_is_a_failed_finding_and_no_traceback(path: str | None) -> None:
    found = examine("mamba", state_space_model(), tiny_tokenizer(), layers_path=path)
    assert [finding.check for finding in found if finding.ok is False]


def tiny_config() -> Qwen2Config:
    config = tiny_model().config
    assert isinstance(config, Qwen2Config)
    return config


class Crowded(Qwen2ForCausalLM):
    """Its logits depend on the number of rows."""

    def forward(self, *arguments: Any, **named: Any) -> Any:
        output = super().forward(*arguments, **named)
        output.logits[:, :, 0] += 0.01 * (len(output.logits) - 1) * output.logits.abs().max()
        return output


class Forgetful(Qwen2ForCausalLM):
    """Its logits depend on whether it keeps a cache."""

    def forward(self, *arguments: Any, **named: Any) -> Any:
        output = super().forward(*arguments, **named)
        output.logits[:, :, 0] += 0.01 * bool(named.get("use_cache")) * output.logits.abs().max()
        return output


@pytest.mark.parametrize(("kind", "ok"), [(Crowded, None), (Forgetful, False)])
def test_a_model_whose_rows_see_their_neighbours_runs_one_at_a_time_and_one_wrong_alone_fails(
    kind: type[Qwen2ForCausalLM], ok: bool | None
) -> None:
    model = kind(tiny_config())
    model.load_state_dict(tiny_model().state_dict())

    findings = {finding.check: finding for finding in examine("other", model, tiny_tokenizer())}

    found = findings.pop("batch = single")
    assert found.ok is ok and not [each for each in findings.values() if each.ok is False]
    assert "2e-05 allowed in float32" in found.detail and (ONE_BY_ONE in found.detail) == (ok is None)


class Broken(Qwen2ForCausalLM):
    """Its forward pass raises."""

    def forward(self, *arguments: Any, **named: Any) -> Any:
        raise ValueError("no such kernel\nand a traceback")


def test_a_model_that_breaks_is_a_finding_with_its_first_line() -> None:
    found = {finding.check: finding for finding in examine("broken", Broken(tiny_config()), tiny_tokenizer())}
    for check in ("memory", "batch = single"):
        assert found[check].ok is False
        assert "ValueError: no such kernel; use an attention-based" in found[check].detail.replace(
            "EngineError: the model failed on this request: ", ""
        )


def test_weights_that_are_not_numbers_pass_no_comparison() -> None:
    model = tiny_model()
    model.get_output_embeddings().weight.data.fill_(torch.nan)

    found = {finding.check: finding for finding in examine("nan", model, tiny_tokenizer())}

    assert found["batch = single"].ok is False
    assert "CIPHER temperature" not in found
