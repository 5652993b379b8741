"""From nothing to the shipped weights: four stages, one seed, checkpoints on the way.

copy: repeat and look up, until that is sure. basics: problems, and debates as they might run.
discussion: the same, and debates between copies of the model itself. roles: the same, and the other
forms of an answer, and what MAD, ReConcile and CMD ask of their agents. A chunk of batches depends on
(seed, stage, number) alone, so that a run which was stopped goes on as if it had not been.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import Qwen2Config, Qwen2ForCausalLM

from sottovoce.training import checkpoint
from sottovoce.training import tokenizer as tokenizers
from sottovoce.training.chats import Encoder
from sottovoce.training.data import Batch, Chunks, corpus
from sottovoce.training.debates import Talk
from sottovoce.training.optimiser import optimisers
from sottovoce.training.self_play import play

LONGEST = 2048
"""Positions of the model. Chats are shorter; rows whose positions leap teach it the distances."""


@dataclass(frozen=True)
class Stage:
    """A part of the run with its own diet and learning rate."""

    name: str
    tokens: int
    lr: float
    last_lr: float
    """Reached along a cosine at the end of the stage, as a share of `lr`."""
    talks: int = 0
    """Debates that the model holds with itself before the stage begins, and again half-way."""
    talks_of: str = ""
    """The stage whose last debates are learnt from again, in the place of new ones."""
    warm_up: int = 0
    """Tokens over which the learning rate rises again."""


@dataclass(frozen=True)
class Plan:
    """Everything that decides the weights."""

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


@dataclass
class Progress:
    """Where a run stands, between two chunks."""

    stage: int = 0
    chunk: int = 0
    stage_tokens: int = 0
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


def config(plan: Plan, vocabulary: int, end: int, pad: int) -> Qwen2Config:
    """The model's shape."""
    return Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=plan.hidden,
        intermediate_size=plan.mlp,
        num_hidden_layers=plan.layers,
        num_attention_heads=plan.heads,
        num_key_value_heads=plan.heads,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
    )


@dataclass
class Run:
    """A training run in a folder: checkpoint, tokenizer, log."""

    folder: Path
    plan: Plan = field(default_factory=Plan)
    progress: Progress = field(default_factory=Progress)
    every: float = 120.0
    """Seconds between checkpoints."""
    workers: int = 1
    """Processes that make batches ahead."""

    def __post_init__(self) -> None:
        """Make everything that a run begins with; nothing is read yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "tokenizer.json").exists():
            tokenizers.train(corpus(self.plan.seed)).save_pretrained(self.folder)
        self.tokenizer = tokenizers.load(self.folder)
        self.encoder = Encoder(self.tokenizer)
        torch.manual_seed(self.plan.seed)
        shape = config(self.plan, len(self.tokenizer), self.encoder.end, self.encoder.pad)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.device(self.device):
            self.model = Qwen2ForCausalLM(shape)
        self.optimisers = optimisers(self.model, self.plan.stages[0].lr)

    @property
    def checkpoint(self) -> Path:
        """The last state, replaced as a whole."""
        return self.folder / "checkpoint.safetensors"

    def save(self, name: str = "") -> None:
        """Write the state of the run, under a name of its own where it is to be kept."""
        path = self.folder / f"{name}.safetensors" if name else self.checkpoint
        checkpoint.save(path, self.model, self.optimisers, asdict(self.progress))

    def resume(self) -> bool:
        """Go back to the last checkpoint, if there is one."""
        if not self.checkpoint.exists():
            return False
        self.progress = Progress(**checkpoint.load(self.checkpoint, self.model, self.optimisers))  # type: ignore[arg-type]
        return True

    def train(self) -> None:
        """Run the stages that are left."""
        while self.progress.stage < len(self.plan.stages):
            stage = self.plan.stages[self.progress.stage]
            self._stage(stage)
            self.progress.stage += 1
            self.progress.chunk = self.progress.stage_tokens = 0
            self.save()
            self.save(stage.name)

    def _stage(self, stage: Stage) -> None:
        half = stage.tokens // 2
        for part, end in enumerate((half, stage.tokens)):
            if self.progress.stage_tokens < end:
                self._part(stage, part, end)

    def _part(self, stage: Stage, part: int, end: int) -> None:
        """Half a stage: what the model says to itself is renewed between the halves."""
        talks = self._talks(stage, part)
        saved = time.monotonic()
        for batches in self._chunks(stage, talks):
            begun, losses = time.monotonic(), 0.0
            for batch in batches:
                losses += self._step(stage, batch)
            self.progress.chunk += 1
            self.progress.seconds += time.monotonic() - begun
            self._log(stage, losses / len(batches))
            if time.monotonic() - saved > self.every:
                self.save()
                saved = time.monotonic()
            if self.progress.stage_tokens >= end:
                return

    def _talks(self, stage: Stage, part: int) -> list[Talk]:
        """The model's debates with itself; kept, so that a resumed run learns from the same ones."""
        if not stage.talks and not stage.talks_of:
            return []
        path = self.folder / (f"talks-{stage.talks_of}-1.json" if stage.talks_of else f"talks-{stage.name}-{part}.json")
        if stage.talks and not path.exists():
            talks = play(self.model, self.encoder, stage.talks, f"{self.plan.seed}/{stage.name}/{part}")
            path.write_text(json.dumps([talk.to_dict() for talk in talks]), encoding="utf-8")
        return [Talk.from_dict(talk) for talk in json.loads(path.read_text(encoding="utf-8"))]

    def _chunks(self, stage: Stage, talks: list[Talk]) -> Iterator[list[Batch]]:
        chunks = Chunks(self.plan.seed, stage.name, self.encoder, talks)
        ahead = DataLoader(chunks, batch_size=None, sampler=range(self.progress.chunk, 10**6), num_workers=self.workers)
        yield from ahead

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
        # A ready mask of None means causal attention; without it, leaping positions would be taken
        # for several sequences in one row (transformers 5.23, masking_utils).
        mask = {"full_attention": None}
        states = self.model.model(ids, mask, positions, use_cache=False).last_hidden_state
        learnt = targets >= 0
        return cross_entropy(self.model.lm_head(states[learnt]), targets[learnt])

    def _lr(self, stage: Stage) -> float:
        done = min(1.0, self.progress.stage_tokens / stage.tokens)
        cosine = stage.last_lr + (1 - stage.last_lr) * (1 + math.cos(math.pi * done)) / 2
        warmth = (self.progress.stage_tokens + 1) / stage.warm_up if stage.warm_up else 1.0
        return stage.lr * cosine * min(1.0, warmth, (self.progress.steps + 1) / self.plan.warm_up)

    def _log(self, stage: Stage, loss: float) -> None:
        line = {**asdict(self.progress), "name": stage.name, "loss": round(loss, 4), "lr": round(self._lr(stage), 6)}
        with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        rate = self.progress.tokens / max(self.progress.seconds, 1e-9)
        print(
            f"{stage.name:10} {self.progress.stage_tokens / stage.tokens:6.1%}  loss {loss:.4f}"
            f"  {self.progress.tokens / 1e6:6.2f} M tokens  {rate:6.0f}/s",
            flush=True,
        )
