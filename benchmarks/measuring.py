"""The measured model, rivals that run in turn, and tables: a busy machine slows all, and their ratios stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast, Qwen2Config

from sottovoce.models import Engine, LoadedModel, assemble, load
from sottovoce.models.huggingface.packed_weights import Weights

Run = Callable[[], object]
Clock = Literal["wall", "cpu"]
CLOCKS: Mapping[Clock, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Options:
    """The model to measure, and the options."""

    loaded: LoadedModel
    repeats: int = 7
    clock: Clock = "wall"
    threads: int = 1
    """Torch threads of rivals and engine; a section that compares numbers of threads says so."""
    batches: tuple[int, ...] = ()
    """Batch sizes; empty for those of the section."""
    tiny: bool = False
    """Whether to use small sizes, only to check that a section runs."""

    def some(self, *sizes: int) -> tuple[int, ...]:
        """Return the sizes that a section measures."""
        return sizes[:2] if self.tiny else sizes

    def most(self, size: int, least: int = 6) -> int:
        """Return a size, reduced if `tiny`."""
        return min(size, least) if self.tiny else size


@dataclass(frozen=True)
class Times:
    """The seconds that each variant took, one number per repeat, in order."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """Return the median time of a variant."""
        return median(self.seconds[name])

    def speed(self, name: str, against: str) -> float:
        """Return how many times as fast as `against` a variant is: the median of the ratios within each repeat."""
        return median(other / own for own, other in zip(self.seconds[name], self.seconds[against], strict=True))

    def beyond(self, first: str) -> Times:
        """Return each variant's times minus those of its run with suffix `first`, which covers only the beginning."""
        names = [name for name in self.seconds if name + first in self.seconds]
        pairs = {name: zip(self.seconds[name], self.seconds[name + first], strict=True) for name in names}
        return Times({name: [whole - begin for whole, begin in each] for name, each in pairs.items()})


def interleaved(rivals: Mapping[str, Run], repeats: int, clock: Clock = "wall", *, warm: int = 1) -> Times:
    """Run all variants `warm` times untimed, then `repeats` times in turn, every other time in reverse order."""
    now, names = CLOCKS[clock], list(rivals)
    for name in names * warm:
        rivals[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names if repeat % 2 == 0 else reversed(names):
            start = now()
            rivals[name]()
            seconds[name].append(now() - start)
    return Times(seconds)


@dataclass
class Table:
    """A Markdown table, built row by row; the first row is its head."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row; missing cells at its end stay empty."""
        self.rows.append(tuple(map(str, cells)))

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        head, *rest = [[*row, *[""] * (width - len(row))] for row in self.rows]
        lines = [head, ["---", *["---:"] * (width - 1)], *rest]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


times, percent = "{:.2f}x".format, "{:.1%}".format
"""Formats of a speed ratio and of a share in tables."""

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
BUNDLED = "bundled"
SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)
SHAPES = {"tiny": (640, 32, 64, 6, 2, 1), "7b": (152064, 3584, 18944, 28, 28, 4)}  # 7b: Qwen2.5-7B


def loaded_of(shape: str, device: str, weights: Weights = "auto") -> LoadedModel:
    """Return a model by name, or random weights of a shape: bfloat16 on an accelerator, float32 on a CPU."""
    if shape not in SHAPES:
        return load(shape, device=device, weights=weights)
    sizes: dict[str, Any] = dict(zip(SIZES, SHAPES[shape], strict=True))  # Any: as the configuration takes them
    config = Qwen2Config(max_position_embeddings=4096, eos_token_id=2, pad_token_id=0, **sizes)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
    # A token for every row of the table, bytes included; fewer would be cheaper.
    alphabet = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words = [*alphabet, *(f"word{i}" for i in range(config.vocab_size - len(alphabet)))]
    plain = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(list(SPECIAL))
    ends = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, chat_template=CHATML, **ends)
    return assemble(shape, model, tokenizer)


def with_engine(loaded: LoadedModel, kind: type[Engine] = Engine, **limits: Any) -> LoadedModel:  # Any: of an engine
    """Return the same weights with a new engine."""
    return replace(loaded, engine=kind(loaded.network, loaded.tokenizer, **limits))


def as_published(loaded: LoadedModel) -> LoadedModel:
    """Return the same weights in transformers' own modules, which the rivals compute with."""
    shared = {id(each): each for each in (*loaded.model.parameters(), *loaded.model.buffers())}
    return replace(loaded, model=deepcopy(loaded.model, shared))
