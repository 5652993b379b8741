"""What the doctor says of sound models, of odd templates, and of models that cannot work here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from sottovoce.errors import ModelError
from sottovoce.models import assemble
from sottovoce.models.doctor import Finding, diagnose, examine
from sottovoce.models.doctor.family_check import family_findings
from sottovoce.models.doctor.template_check import template_findings
from tests import chats
from tests.chats import tokenizer_with
from tests.support import CHATML, FAMILIES, LIMITED, LONGROPE, tiny_model, tiny_tokenizer

TURN = "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
OPENED = "{% if add_generation_prompt %}[assistant]{% endif %}"
LAST_ONLY = "[user]{{ messages[-1].content }}"

FIVE = ("llama", "gemma2", "gpt2", "bloom", "opt-narrow")  # the others are slow


def findings(tokenizer: PreTrainedTokenizerFast | None = None, **config: Any) -> dict[str, Finding]:
    found = examine("tiny", tiny_model(**config), tokenizer or tiny_tokenizer())
    return {finding.check: finding for finding in found}


def of_template(template: str | None, **options: bool) -> dict[str, Finding]:
    loaded = assemble("tiny", tiny_model(), tokenizer_with(template, **options))
    return {finding.check: finding for finding in template_findings(loaded)}


@pytest.mark.parametrize(
    "family", [*FIVE, *(pytest.param(each, marks=pytest.mark.slow) for each in FAMILIES if each not in FIVE)]
)
def test_a_sound_model_of_any_family_passes_every_check(family: str) -> None:
    found = findings(family=family)

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert found["layers"].detail.startswith("2 at ")
    assert f", hidden size 32, embeddings {16 if family == 'opt-narrow' else 32} wide" in found["layers"].detail
    assert found["protocols"].detail == "nl, cipher, sde, hidden"
    assert found["cold cipher = greedy"].ok and found["same request, same reply"].ok


@pytest.mark.parametrize(
    ("family", "config", "attention", "positions"),
    [
        ("llama", {}, "full on all 2 layers", "rotary"),
        ("mistral-window", {}, "a sliding window of 8 positions on all 2 layers", "rotary"),
        ("qwen2-window", {}, "full on layer 0; a sliding window of 8 positions on layer 1", "rotary"),
        ("gemma2", {}, "a sliding window of 8 positions on layer 0; full on layer 1", "rotary"),
        (
            "gemma3_text",
            {"num_hidden_layers": 8, "layer_types": [*["sliding_attention"] * 3, "full_attention"] * 2},
            "a sliding window of 8 positions on layers 0, 1, 2, 4, 5, 6; full on layers 3, 7",
            "rotary",
        ),
        ("falcon", {}, "full on all 2 layers", "rotary"),
        ("falcon-alibi", {}, "full on all 2 layers", "alibi: attention fades with distance"),
        ("mpt", {}, "full on all 2 layers", "alibi: attention fades with distance"),
        ("bloom", {}, "full on all 2 layers", "alibi: attention fades with distance"),
        ("gpt2", {}, "full on all 2 layers", "learned"),
        ("opt", {}, "full on all 2 layers", "learned"),
        ("gpt_neox", {}, "full on all 2 layers", "rotary"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            "full on all 2 layers",
            "rotary, scaled by linear",
        ),
        (
            "phi3",
            {"rope_parameters": dict(LONGROPE), "original_max_position_embeddings": 256},
            "full on all 2 layers",
            "rotary, scaled by longrope past 256 positions, for all rows at once: longer requests are refused",
        ),
    ],
)
def test_what_layers_attend_to_and_count_by_is_told(
    family: str, config: dict[str, Any], attention: str, positions: str
) -> None:
    model = tiny_model(family, **config)

    found = {finding.check: finding.detail for finding in family_findings(model, model.config.num_hidden_layers)}

    assert (found["attention"], found["positions"]) == (attention, positions)


@pytest.mark.parametrize("family", LIMITED)
def test_a_family_that_can_take_part_in_some_protocols_is_told_which(family: str) -> None:
    found = findings(family=family, **LIMITED[family])
    names, *reasons = found["protocols"].detail.split("; ")

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert names == ("nl" if family == "gemma3n_text" else "nl, sde, hidden")
    assert reasons[0] == "no cipher: its layers look token ids up besides the embeddings"
    assert reasons[1:] == [
        f"no {name}: its layers put out 2 states a position" for name in ("sde", "hidden") if name not in names
    ]
    assert found["ids = embeddings"].ok is None


def test_every_finding_is_one_line() -> None:
    assert [finding for finding in findings().values() if "\n" in finding.detail] == []


def test_a_saved_model_is_diagnosed_by_its_folder(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)

    found = {finding.check: finding for finding in diagnose(tmp_path, dtype="bfloat16")}

    assert [finding for finding in found.values() if finding.ok is False] == []
    assert found["dtype and device"].detail.startswith("bfloat16 on ")
    assert found["batch = single"].detail.endswith("0.03 allowed in bfloat16")


def test_a_model_that_is_not_there_is_an_error_and_no_finding() -> None:
    with pytest.raises(ModelError, match="unknown model 'nowhere'"):
        diagnose("nowhere")


def test_memory_counts_grouped_heads_and_what_each_protocol_sends() -> None:
    found = findings(num_key_value_heads=2)

    # 2 layers x keys and values x 2 heads x 8 wide x 4 bytes = 256 bytes a token
    assert found["memory: cache"].detail.startswith(
        "256 kB per 1,000 tokens (2 layers, keys and values of 2 heads for 4"
    )
    assert found["memory: payload"].detail.startswith(
        "a token: sde 128 bytes (1 layer x 32 x 4 bytes), cipher 128 bytes"
    )
    assert re.fullmatch(
        r"[\d.]+ [kMG]B of what is free, for about [\d,]+ tokens at a time; --memory of a run sets another",
        found["memory: budget"].detail,
    )
    weights = sum(parameter.numel() * 4 for parameter in tiny_model().parameters())
    assert found["memory: weights"].detail.startswith(f"{weights / 1000:.3g} kB")


def test_padded_rows_of_a_table_are_counted_and_missing_ones_are_a_fault() -> None:
    assert (
        findings(vocab_size=320)["vocabulary"].detail
        == "300 tokens, table of 320 rows, 20 of them padded, never chosen"
    )
    assert findings(vocab_size=280)["vocabulary"].ok is False


def test_a_model_that_never_stops_is_a_fault() -> None:
    tokenizer = tokenizer_with(CHATML)
    tokenizer.eos_token = None

    stops = findings(tokenizer, eos_token_id=None)["stop ids"]

    assert stops.ok is False
    assert "set eos_token_id" in stops.detail


def test_the_latent_layers_are_told_with_their_reason() -> None:
    assert findings()["latent layers"].detail == "0 of 0 to 1: near 0.7 of the depth, never the last"


Expected = dict[str, tuple[bool | None, str]]
NOT_TAKEN = (None, "not taken by the template: we put it before the first user turn")
ALTERNATING = (None, "strictly alternating: we join neighbouring turns of one role")
WRITTEN = (True, f"the template writes {chats.BOS!r}, and we add no other")
NO_FIRST = (True, "none: neither the template nor the tokenizer puts one")
TRIMMED = (None, "trimmed: white space at the ends of a turn is lost")
TEMPLATES: dict[str, tuple[str | None, Expected]] = {
    "any": (TURN + OPENED, {"system turn": (True, "accepted"), "order of turns": (True, "any")}),
    "opens": (TURN + OPENED, {"chat template": (True, "opens the assistant's turn with '[assistant]'")}),
    "llama 3": (chats.LLAMA_3, {"first token": WRITTEN, "content of a turn": TRIMMED, "order of turns": (True, "any")}),
    "llama 2": (chats.LLAMA_2, {"system turn": (True, "accepted"), "order of turns": ALTERNATING}),
    "mistral": (
        chats.MISTRAL,
        {
            "system turn": NOT_TAKEN,
            "order of turns": ALTERNATING,
            "chat template": (True, "does not open the assistant's turn"),
            "first token": WRITTEN,
        },
    ),
    "gemma": (chats.GEMMA, {"system turn": NOT_TAKEN, "order of turns": ALTERNATING, "first token": WRITTEN}),
    "phi 3": (chats.PHI_3, {"system turn": NOT_TAKEN, "first token": NO_FIRST}),
    "qwen 2": (
        chats.QWEN_2,
        {
            "default system prompt": (None, "adds '<|im_start|>system\\nYou are a teapot.'"),
            "first token": NO_FIRST,
        },
    ),
    "qwen 3": (
        chats.QWEN_3,
        {"thinking": (None, "a switch (enable_thinking), left on as the template does unless it is chosen")},
    ),
    "deepseek": (
        chats.DEEPSEEK,
        {"thinking": (None, "a switch (thinking), left off as the template does unless it is chosen")},
    ),
    "keeps": (TURN, {"content of a turn": (True, "as it is written"), "default system prompt": (None, "none")}),
    "does not think": (TURN, {"thinking": (None, "no switch")}),
    "loses turns": (LAST_ONLY, {"heard messages": (False, "")}),
    "refuses all": ("{{ raise_exception('never') }}", {"chat template": (False, "it refuses a question")}),
    "none": (
        None,
        {
            "chat template": (None, "none: roles are written in capitals"),
            "first token": NO_FIRST,
            "heard messages": (True, "own tokens"),
        },
    ),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_how_a_template_behaves_is_told(name: str) -> None:
    template, expected = TEMPLATES[name]

    found = of_template(template)

    for check, (ok, detail) in expected.items():
        assert found[check].ok is ok
        assert found[check].detail.startswith(detail)


@pytest.mark.parametrize(
    ("template", "ok", "detail"),
    [
        (chats.GEMMA, True, f"the template writes {chats.BOS!r}, and we add no other"),
        (
            chats.PHI_3,
            None,
            f"none: the template writes no {chats.BOS!r}, "
            "though the tokenizer puts one before plain text; we follow it",
        ),
        (None, True, f"{chats.BOS!r}, as the tokenizer puts it before plain text"),
    ],
)
def test_who_puts_the_first_token_is_told_of_a_tokenizer_that_adds_one_by_itself(
    template: str | None, ok: bool | None, detail: str
) -> None:
    found = of_template(template, adds=True)["first token"]

    assert (found.ok, found.detail) == (ok, detail)


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


class Forgetful(Qwen2ForCausalLM):
    """Each forward pass begins anew."""

    def forward(self, *arguments: Any, **named: Any) -> Any:
        return super().forward(*arguments, **{**named, "past_key_values": None, "attention_mask": None})


def test_a_model_that_keeps_its_past_elsewhere_fails_the_check_of_its_cache() -> None:
    found = examine("forgetful", Forgetful(tiny_config()), tiny_tokenizer())

    failed = {finding.check: finding.detail for finding in found if finding.ok is False}
    assert failed["reused = fresh"].endswith("use an attention-based causal language model")


class Broken(Qwen2ForCausalLM):
    """Its forward pass raises."""

    def forward(self, *arguments: Any, **named: Any) -> Any:
        raise ValueError("no such kernel\nand a traceback")


def test_a_model_that_breaks_is_a_finding_with_its_first_line() -> None:
    found = {finding.check: finding for finding in examine("broken", Broken(tiny_config()), tiny_tokenizer())}

    assert found["memory: cache"].detail == "not measured: ValueError"
    assert found["self-test"].ok is False
    assert "ValueError: no such kernel; use an attention-based" in found["self-test"].detail


def test_weights_that_are_not_numbers_pass_no_comparison() -> None:
    model = tiny_model()
    model.get_output_embeddings().weight.data.fill_(torch.nan)

    found = {finding.check: finding for finding in examine("nan", model, tiny_tokenizer())}

    assert found["ids = embeddings"].ok is False
    assert found["cold cipher = greedy"].ok is False
