"""Write a trained run as the model that ships: bf16 weights, tokenizer, generation settings, record."""

from __future__ import annotations

import copy
import hashlib
import json
import platform
import random
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from transformers import GenerationConfig

from sottovoce.channels.message import Part
from sottovoce.models import BUNDLED_FOLDER
from sottovoce.prompts.render import BUILT_IN, Prompts
from sottovoce.training.data import DIETS, Cook
from sottovoce.training.train import Run

RECORD = "training.json"
TEMPERATURE = 0.7
CHATS = 100
"""Of each skill, to see which prompt files it is made of."""


class Noting(Prompts):
    """The prompt files in force, and the names of those that were rendered."""

    def __init__(self) -> None:
        """None was rendered yet."""
        super().__init__()
        self.rendered: set[str] = set()

    def render(self, name: str, **slots: Any) -> tuple[Part, ...]:  # Any: see Prompts.render
        """As Prompts.render."""
        self.rendered.add(name)
        return super().render(name, **slots)


def publish(run: Run, folder: Path = BUNDLED_FOLDER) -> None:
    """Write everything but the model card; weights are rounded to bf16 on the way."""
    folder.mkdir(parents=True, exist_ok=True)
    end, pad = run.encoder.end, run.encoder.pad
    run.model.generation_config = GenerationConfig(
        do_sample=True, temperature=TEMPERATURE, top_p=1.0, top_k=0, eos_token_id=end, pad_token_id=pad
    )
    copy.deepcopy(run.model).bfloat16().save_pretrained(folder)
    run.tokenizer.save_pretrained(folder)
    (folder / RECORD).write_text(json.dumps(record(run), indent=2) + "\n", encoding="utf-8")


def record(run: Run) -> dict[str, object]:
    """How these weights came about: what a test compares with the prompt files, and a reader with the card."""
    progress = run.progress
    return {
        "prompts": learnt_from(),
        "plan": asdict(run.plan),
        "steps": progress.steps,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "parameters": run.model.num_parameters(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
    }


def learnt_from() -> dict[str, str | None]:
    """The prompt files that the diets show to the model, each with the sha256 of its text."""
    prompts, rng = Noting(), random.Random("prompts")
    cook = Cook({}, prompts=prompts)
    for skill in sorted({skill for diet in DIETS.values() for skill in diet} - {"on_policy"}):  # as in debates
        for _ in range(CHATS):
            cook.makers[skill](rng)
    return {name: digest(name) for name in sorted(prompts.rendered)}


def digest(name: str) -> str | None:
    """The sha256 of one of our prompt files; None where there is none."""
    path = BUILT_IN / f"{name}.md"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def changed(prompts: Mapping[str, str | None]) -> list[str]:
    """The prompt files that a model was trained on and that are no longer what they were."""
    return [name for name, sha256 in prompts.items() if digest(name) != sha256]
