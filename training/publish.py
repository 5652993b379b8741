"""Write a trained run as the model that ships: bf16 weights, tokenizer, generation settings, record."""

from __future__ import annotations

import copy
import json
import platform
from dataclasses import asdict
from pathlib import Path

import tokenizers
import torch
import transformers
from transformers import GenerationConfig

from sottovoce.models.load import BUNDLED_FOLDER
from sottovoce.prompts.render import Prompts
from sottovoce.training.train import Run

RECORD = "training.json"
TEMPERATURE = 0.7


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
        "prompts_sha256": Prompts().digest(),
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
