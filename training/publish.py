"""Write a trained run as the shipped model: bf16 weights, tokenizer, generation settings, record."""

from __future__ import annotations

import copy
import hashlib
import json
import platform
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from transformers import GenerationConfig

from sottovoce.channels.message import Part
from sottovoce.models import BUNDLED_FOLDER
from sottovoce.models.sources.cache import write_sums
from sottovoce.prompts.packs import SHIPPED
from sottovoce.prompts.render import BUILT_IN, Prompts
from sottovoce.training.skills import SKILLS
from sottovoce.training.sources import Source
from sottovoce.training.train import BEFORE, Run

CHATS = 100  # of each skill, to find the prompt files that it uses


def publish(run: Run, folder: Path = BUNDLED_FOLDER) -> None:
    """Write everything but the model card; round the weights to bf16."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = {"eos_token_id": run.encoder.end, "pad_token_id": run.encoder.pad}
    run.model.generation_config = GenerationConfig(do_sample=True, temperature=0.7, top_p=1.0, top_k=0, **ends)
    copy.deepcopy(run.model).bfloat16().save_pretrained(folder)
    run.tokenizer.save_pretrained(folder)
    write_sums(folder)
    (folder / "training.json").write_text(json.dumps(record(run), indent=2) + "\n", encoding="utf-8")


def record(run: Run) -> dict[str, object]:
    """Return how the weights were made; a test compares it with the prompt files, and a reader with the card."""
    before = run.folder / BEFORE
    versions = {library.__name__: library.__version__ for library in (torch, transformers, tokenizers)}
    return {
        "prompts": learnt_from(),
        "plan": asdict(run.plan),
        "steps": run.progress.steps,
        "tokens": run.progress.tokens,
        "minutes": round(run.progress.seconds / 60, 1),
        "parameters": run.model.num_parameters(),
        "versions": {"python": platform.python_version(), **versions},
        **({"before": json.loads(before.read_text(encoding="utf-8"))} if before.exists() else {}),
    }


class _Noting(Prompts):
    rendered: set[str]

    def render(self, name: str, **slots: Any) -> tuple[Part, ...]:  # Any: see Prompts.render
        self.rendered.add(name)
        return super().render(name, **slots)


def learnt_from() -> dict[str, str | None]:
    """Return the prompt files that the skills show to the model, each with the sha256 of its text."""
    prompts, rng = _Noting(SHIPPED / "bundled"), random.Random("prompts")
    prompts.rendered = set()
    for skill in sorted(SKILLS.keys() - {"on_policy"}):  # it uses the prompts of the other debates
        for _ in range(CHATS):
            SKILLS[skill][0](rng, Source(prompts))
    return {name: digest(name) for name in sorted(prompts.rendered)}


def digest(name: str) -> str | None:
    """Return the sha256 of a prompt file, the pack's if it has one; None if there is no such file."""
    paths = (folder / f"{name}.md" for folder in (SHIPPED / "bundled", BUILT_IN))
    path = next((candidate for candidate in paths if candidate.exists()), None)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else None
