"""Training from scratch to the shipped weights: four stages, one seed, checkpoints on the way.

copy: repeat and look up, until that is reliable. basics: problems, and imagined debates. discussion: the same, and
debates between copies of the model. roles: the same, and the other answer formats, and the requests of MAD, ReConcile
and CMD to their agents. A chunk of batches depends on (seed, stage, number) alone, so that a resumed run equals an
uninterrupted one.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from shutil import copyfile

import torch
from pydantic import TypeAdapter
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import Qwen2Config, Qwen2ForCausalLM

from sottovoce.training import tokenizer as tokenizers
from sottovoce.training.data import Batch, Chunks, Encoder
from sottovoce.training.debates import Talk, played
from sottovoce.training.problems import HARDER, TOPS
from sottovoce.training.product import trained_prompts
from sottovoce.training.skills import chat, corpus
from sottovoce.training.sources import Source
from sottovoce.training.tokenizer import take_over

LONGEST = 2048  # positions of the model. Chats are shorter; rows with jumps in positions teach it longer distances
BEFORE = "before.json"  # in a run's folder: the record of the model that it started from
TALKS = TypeAdapter(list[Talk])


@dataclass(frozen=True)
class Stage:
    """A part of the run with its own data mixture and learning rate."""

    name: str
    tokens: int
    lr: float
    last_lr: float
    """Share of `lr` at the end of the stage, reached along a cosine."""
    talks: int = 0
    """Debates of the model with itself, made before the stage and again half-way."""
    talks_of: str = ""
    """The stage whose last debates are used again, instead of new ones."""
    warm_up: int = 0
    """Tokens over which the learning rate rises again."""


@dataclass(frozen=True)
class Plan:
    """Everything that determines the weights, except initial weights."""

    seed: int = 0
    hidden: int = 128
    layers: int = 6
    heads: int = 4
    mlp: int = 336
    warm_up: int = 60
    stages: tuple[Stage, ...] = (
        Stage("copy", 1_500_000, 5e-3, 1.0),
        Stage("basics", 15_000_000, 5e-3, 0.1),
        Stage("discussion", 6_000_000, 3e-3, 0.0, talks=5000),
        Stage("roles", 8_500_000, 3e-3, 0.0, talks_of="discussion", warm_up=200_000),
    )


AGAIN = Plan(
    seed=1,  # chats that differ from the first run's
    stages=(
        Stage("basics", 400_000, 3e-3, 1.0, warm_up=50_000),
        Stage("roles", 3_200_000, 3e-3, 0.0, talks=600),
    ),
)
"""For weights trained on older prompts: debates in the new prompts first, so that the model can play them."""


@dataclass
class Progress:
    """The state of a run between two chunks."""

    stage: int = 0
    chunk: int = 0
    stage_tokens: int = 0
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass
class Run:
    """A training run in a folder: checkpoint, tokenizer, log."""

    folder: Path
    plan: Plan = field(default_factory=Plan)
    begin: Path | None = None
    """The folder of the trained model to start from; None starts from scratch."""
    progress: Progress = field(default_factory=Progress)
    every: float = 120.0
    """Seconds between checkpoints."""
    workers: int = 1
    """Processes that prepare batches."""

    def __post_init__(self) -> None:
        """Make the tokenizer, model and optimizers; read no checkpoint."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "tokenizer.json").exists():
            tokenizers.train(corpus()).save_pretrained(self.folder)
        if self.begin and not (self.folder / BEFORE).exists():  # this run may replace the model
            copyfile(self.begin / "training.json", self.folder / BEFORE)
        self.tokenizer = tokenizers.load(self.folder)
        self.encoder = Encoder(self.tokenizer)
        torch.manual_seed(self.plan.seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        shape = Qwen2Config(
            vocab_size=len(self.tokenizer),
            hidden_size=self.plan.hidden,
            intermediate_size=self.plan.mlp,
            num_hidden_layers=self.plan.layers,
            num_attention_heads=self.plan.heads,
            num_key_value_heads=self.plan.heads,
            max_position_embeddings=LONGEST,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=self.encoder.end,
            pad_token_id=self.encoder.pad,
        )
        with torch.device(self.device):
            self.model = Qwen2ForCausalLM(shape)
        if self.begin:
            take_over(self.model, self.tokenizer, self.begin)
        self.optimisers = optimisers(self.model, self.plan.stages[0].lr)

    def save(self, name: str = "checkpoint") -> None:
        """Replace the checkpoint as a whole, so that a killed run never finds a partial one."""
        tensors = {f"model/{name}": tensor.detach() for name, tensor in self.model.named_parameters()}
        for i, optimiser in enumerate(self.optimisers):
            for index, state in optimiser.state_dict()["state"].items():
                tensors |= {f"{i}/{index}/{key}": tensor for key, tensor in state.items()}
        new = self.folder / f"{name}.new"
        save_file(tensors, new, {"progress": json.dumps(asdict(self.progress))})
        new.replace(self.folder / f"{name}.safetensors")

    def resume(self) -> bool:
        """Load the last checkpoint; return False if there is none."""
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            return False
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            self.progress = Progress(**json.loads(file.metadata()["progress"]))
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(tensors.pop(f"model/{name}"))
        states = [defaultdict[int, dict[str, torch.Tensor]](dict) for _ in self.optimisers]
        for key, tensor in tensors.items():
            i, index, name = key.split("/")
            states[int(i)][int(index)][name] = tensor
        for optimiser, state in zip(self.optimisers, states, strict=True):
            optimiser.load_state_dict({**optimiser.state_dict(), "state": dict(state)})
        return True

    def train(self) -> None:
        """Run the remaining stages."""
        for stage in self.plan.stages[self.progress.stage :]:
            for part, end in enumerate((stage.tokens // 2, stage.tokens)):
                self._part(stage, part, end)
            self.progress.stage += 1
            self.progress.chunk = self.progress.stage_tokens = 0
            self.save()
            self.save(stage.name)

    def _part(self, stage: Stage, part: int, end: int) -> None:
        """Run half a stage; the model's debates with itself are renewed between the halves."""
        if self.progress.stage_tokens >= end:
            return
        chunks = chunks_of(self.plan.seed, stage.name, self.encoder, self._talks(stage, part))
        ahead, saved = range(self.progress.chunk, 10**6), time.monotonic()
        for batches in DataLoader(chunks, batch_size=None, sampler=ahead, num_workers=self.workers):
            began = time.monotonic()
            loss = sum(self._step(stage, batch) for batch in batches) / len(batches)
            self.progress.chunk += 1
            self.progress.seconds += time.monotonic() - began
            self._log(stage, loss)
            if time.monotonic() - saved > self.every:
                self.save()
                saved = time.monotonic()
            if self.progress.stage_tokens >= end:
                return

    def _talks(self, stage: Stage, part: int) -> list[Talk]:
        """Return the model's debates with itself; they are saved, so that a resumed run learns from the same ones."""
        if not stage.talks and not stage.talks_of:
            return []
        path = self.folder / (f"talks-{stage.talks_of}-1.json" if stage.talks_of else f"talks-{stage.name}-{part}.json")
        if stage.talks and not path.exists():
            talks = played(self.model, self.tokenizer, stage.talks, f"{self.plan.seed}/{stage.name}/{part}")
            path.write_bytes(TALKS.dump_json(talks))
        return TALKS.validate_json(path.read_bytes())

    def _step(self, stage: Stage, batch: Batch) -> float:
        lr = self._lr(stage)
        loss = self._loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = lr
            optimiser.step()
            optimiser.zero_grad()
        self.progress.steps += 1
        self.progress.tokens += batch.tokens
        self.progress.stage_tokens += batch.tokens
        return float(loss.detach())

    def _loss(self, batch: Batch) -> torch.Tensor:
        ids, positions, targets = (t.to(self.device) for t in (batch.ids, batch.positions, batch.targets))
        # A mask of None means causal attention; without it, transformers (5.23, masking_utils) would take jumps in
        # positions for several sequences in one row.
        mask = {"full_attention": None}
        states = self.model.model(ids, mask, positions, use_cache=False).last_hidden_state
        learnt = targets >= 0
        return cross_entropy(self.model.lm_head(states[learnt]), targets[learnt])

    def _lr(self, stage: Stage) -> float:
        done = min(1.0, self.progress.stage_tokens / stage.tokens)
        cosine = stage.last_lr + (1 - stage.last_lr) * (1 + math.cos(math.pi * done)) / 2
        risen = (self.progress.stage_tokens + 1) / stage.warm_up if stage.warm_up else 1.0
        return stage.lr * cosine * min(1.0, risen, (self.progress.steps + 1) / self.plan.warm_up)

    def _log(self, stage: Stage, loss: float) -> None:
        line = {**asdict(self.progress), "name": stage.name, "loss": round(loss, 4), "lr": round(self._lr(stage), 6)}
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        done, tokens = self.progress.stage_tokens / stage.tokens, self.progress.tokens
        rate = tokens / max(self.progress.seconds, 1e-9)
        print(f"{stage.name:10} {done:6.1%}  loss {loss:.4f}  {tokens / 1e6:6.2f} M tokens  {rate:6.0f}/s", flush=True)


def chunks_of(seed: int, stage: str, encoder: Encoder, talks: Sequence[Talk] = ()) -> Chunks:
    """Return the chunks of a stage; `talks` are debates between copies of the model."""
    source = Source(trained_prompts(), HARDER if talks else TOPS, talks)
    return Chunks(f"{seed}/{stage}", encoder, partial(chat, source=source, stage=stage))


def optimisers(model: torch.nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' matrices and AdamW for all else, scaled so that they share a learning rate.

    Muon: Jordan et al., 2024. The factor 0.2 sqrt(longer side) is Liu et al.'s (2025, arXiv 2502.16982).
    """
    matrices = {name: p for name, p in model.named_parameters() if p.ndim == 2 and ".layers." in name}
    rest = [p for name, p in model.named_parameters() if name not in matrices]
    muon = torch.optim.Muon(matrices.values(), lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(rest, lr, betas=(0.9, 0.95), weight_decay=0.0)]
