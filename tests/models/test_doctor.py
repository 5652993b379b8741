"""What the doctor says of sound models, of odd templates, and of models that cannot work here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from sottovoce.models import assemble
from sottovoce.models.doctor import Finding, diagnose, examine
from sottovoce.models.doctor.diagnosis import FACTS
from sottovoce.models.doctor.selftest import CHECKS
from tests import chats
from tests.chats import tokenizer_with
from tests.support import CHATML, FAMILIES, LIMITED, SHAPES, tiny_model, tiny_tokenizer

TURN = "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
OPENED = "{% if add_generation_prompt %}[assistant]{% endif %}"
LAST_ONLY = "[user]{{ messages[-1].content }}"

FIVE = ("llama", "gemma2", "gpt2", "bloom", "opt-narrow")  # the others are slow


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_MODELS", str(tmp_path / "cache"))


def findings(tokenizer: PreTrainedTokenizerFast | None = None, **config: Any) -> dict[str, Finding]:
    found = examine("tiny", tiny_model(**config), tokenizer or tiny_tokenizer())
    return {finding.check: finding for finding in found}


def of_template(template: str | None) -> dict[str, Finding]:
    loaded = assemble("tiny", tiny_model(), tokenizer_with(template))
    return {check: Finding(check, *FACTS[check](loaded)) for check in ("chat template", "heard messages")}


OTHERWISE = ("bloom", "falcon-alibi", "gpt2", "mpt", "opt", "opt-narrow")
"""Families whose keys are not rotated by their positions."""


@pytest.mark.parametrize(
    "family", [*FIVE, *(pytest.param(each, marks=pytest.mark.slow) for each in FAMILIES if each not in FIVE)]
)
def test_a_sound_model_of_any_family_passes_every_check(family: str) -> None:
    found = findings(family=family)

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert found["layers"].detail.startswith("2 at ")
    assert f", hidden size 32, embedding size {16 if family == 'opt-narrow' else 32}" in found["layers"].detail
    names, *reasons = found["protocols"].detail.split("; ")
    rotary = not reasons  # keys that can be moved
    assert names == f"nl, cipher, sde, hidden{', kv, thoughts' if rotary else ''}, graft"
    assert rotary or [reason.partition(":")[0] for reason in reasons] == ["no kv", "no thoughts"]
    assert rotary == (family not in OTHERWISE and "sliding_window" not in SHAPES[family])
    assert all(found[check].ok for check in CHECKS)


def test_the_defaults_of_sampling_are_told_with_their_source() -> None:
    silent = tiny_model()
    assert silent.generation_config is not None
    silent.generation_config.temperature = None
    of_catalogue = FACTS["sampling"](assemble("smollm2", silent, tiny_tokenizer()))[1]
    assert of_catalogue == (
        "temperature 0.2 (as its makers recommend), top_p 0.9 (as its makers recommend), top_k 50, repetition penalty 1"
    )
    assert FACTS["sampling"](assemble("other", silent, tiny_tokenizer()))[1].startswith(
        "temperature 0.7 (the usual temperature of chat models), top_p 1, "
    )


@pytest.mark.parametrize("family", LIMITED)
def test_a_family_that_can_take_part_in_some_protocols_is_told_which(family: str) -> None:
    found = findings(family=family, **LIMITED[family])
    names, *reasons = found["protocols"].detail.split("; ")

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert names == ("nl" if family == "gemma3n_text" else "nl, sde, hidden, graft")
    assert reasons[0] == "no cipher: its layers look token ids up besides the embeddings"
    assert reasons[1:] == [
        f"no {name}: its layers have 2 states per position" for name in ("sde", "hidden", "graft") if name not in names
    ] + [f"no {name}: some layers see only the last 8 positions (a sliding window)" for name in ("kv", "thoughts")]
    assert found["ids = embeddings"].ok is None


def test_a_saved_model_is_diagnosed_by_its_folder(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)

    found = {finding.check: finding for finding in diagnose(tmp_path, dtype="bfloat16")}

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert found["dtype and device"].detail.startswith("bfloat16 on ")
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


def test_padded_rows_of_a_table_are_counted_and_missing_ones_are_a_fault() -> None:
    assert findings(vocab_size=320)["vocabulary"].detail == "300 tokens, table of 320 rows"
    assert findings(vocab_size=280)["vocabulary"].ok is False


def test_a_model_that_never_stops_is_a_fault() -> None:
    tokenizer = tokenizer_with(CHATML)
    tokenizer.eos_token = None

    stops = findings(tokenizer, eos_token_id=None)["stop ids"]

    assert stops.ok is False
    assert "set eos_token_id" in stops.detail


def test_the_latent_layers_are_told_with_their_reason() -> None:
    assert findings()["latent layers"].detail == "0 of 0 to 1: near 0.7 of the depth, never the last"
    assert findings(num_hidden_layers=3)["latent layers"].detail == (
        "1 of 0 to 2: near 0.7 of the depth, never the last; `experiment layers --model tiny` ranks them"
    )


TAKEN, PUT = "system turns are accepted", "system turns are not supported: we put them before the user's"
ANY, ALTERNATING = "turns in any order", "turns must alternate: we join adjacent turns of one role"


@pytest.mark.parametrize(
    ("template", "ok", "detail"),
    [
        pytest.param(TURN + OPENED, True, f"{TAKEN}; {ANY}; no switch for thinking", id="any"),
        pytest.param(chats.LLAMA_2, True, f"{TAKEN}; {ALTERNATING}; ", id="llama 2"),
        pytest.param(chats.MISTRAL, True, f"{PUT}; {ALTERNATING}; ", id="mistral"),
        pytest.param(chats.GEMMA, True, f"{PUT}; {ALTERNATING}; ", id="gemma"),
        pytest.param(chats.PHI_3, True, PUT, id="phi 3"),
        pytest.param(chats.QWEN_3, True, f"{TAKEN}; {ANY}; thinking has a switch (enable_thinking)", id="qwen 3"),
        pytest.param(chats.DEEPSEEK, True, f"{TAKEN}; {ANY}; thinking has a switch (thinking)", id="deepseek"),
        pytest.param("{{ raise_exception('never') }}", False, "it refuses a question", id="refuses all"),
        pytest.param(None, None, "none: roles are written in capitals", id="none"),
    ],
)
def test_how_a_template_behaves_is_told(template: str | None, ok: bool | None, detail: str) -> None:
    found = of_template(template)

    assert found["chat template"].ok is ok
    assert found["chat template"].detail.startswith(detail)
    assert found["heard messages"].ok is (ok is not False)


def test_a_template_that_loses_turns_is_a_fault() -> None:
    assert of_template(LAST_ONLY)["heard messages"].ok is False


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


def test_a_model_whose_rows_see_their_neighbours_fails_that_check_alone() -> None:
    model = Crowded(tiny_config())
    model.load_state_dict(tiny_model().state_dict())

    failed = [finding for finding in examine("crowded", model, tiny_tokenizer()) if finding.ok is False]

    assert [finding.check for finding in failed] == ["batch = single"]
    assert "2e-05 allowed in float32" in failed[0].detail


class Broken(Qwen2ForCausalLM):
    """Its forward pass raises."""

    def forward(self, *arguments: Any, **named: Any) -> Any:
        raise ValueError("no such kernel\nand a traceback")


def test_a_model_that_breaks_is_a_finding_with_its_first_line() -> None:
    found = {finding.check: finding for finding in examine("broken", Broken(tiny_config()), tiny_tokenizer())}

    for check in ("memory", *CHECKS):
        assert found[check].ok is False
        assert "ValueError: no such kernel; use an attention-based" in found[check].detail.replace(
            "EngineError: the model failed on this request: ", ""
        )


def test_weights_that_are_not_numbers_pass_no_comparison() -> None:
    model = tiny_model()
    model.get_output_embeddings().weight.data.fill_(torch.nan)

    found = {finding.check: finding for finding in examine("nan", model, tiny_tokenizer())}

    assert found["ids = embeddings"].ok is False
    assert found["cold cipher = greedy"].ok is False
