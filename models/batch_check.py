"""The check that a batch computes what the model computes alone: a diagnosis, and at load for untested families."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from importlib.metadata import version

import torch

from sottovoce.core.files import models_folder
from sottovoce.models.engine.request import Ids, Record, Reply, Request, Rows, Stop
from sottovoce.models.huggingface.family import TESTED, layers_read_ids
from sottovoce.models.loaded import LoadedModel

LOGGER = logging.getLogger(__name__)
TOLERANCE = {  # relative to the largest log-probability: the effect of another order of sums or another kernel
    "float64": 2e-5,
    "float32": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "int8": 3e-2,
    "int4": 3e-2,
}
TEXT = "Three agents discuss a question. Each answers, reads what the others answered, and answers again. "
ONE_BY_ONE = "requests run one at a time, since in a batch this family computes other numbers than alone"
READ = 24  # tokens of the longest prompt, at most


def allowed(loaded: LoadedModel) -> float:
    """Return how far a batch may be from the model alone."""
    return TOLERANCE.get(loaded.format, TOLERANCE["bfloat16"])


def apart(loaded: LoadedModel) -> float:
    """Return how far two tokens after each prompt of one batch are from the model alone, as a share of their scale.

    The prompts differ in length, and one is given by the rows of its embeddings, as CIPHER gives messages.
    """
    prompt = loaded.chat.ids(TEXT)[: min(READ, (loaded.network.context or 2 * READ) // 2)]
    prompts: list[tuple[tuple[int, ...], Ids | Rows]] = [
        (part, Ids(part)) for part in (prompt, prompt[: len(prompt) // 2])
    ]
    if not layers_read_ids(loaded.model):
        ids = torch.tensor(prompt, device=loaded.network.device)
        prompts.append((prompt, Rows(loaded.network.embed(ids).detach())))
    requests = [Request((piece,), Stop(2), record=Record(stats=True, top=len(loaded.table))) for _, piece in prompts]
    worst = 0.0
    for (ids_before, _), reply in zip(prompts, loaded.engine.twin(reuse=False).run_all(requests), strict=True):
        for i, found in enumerate(_log_probabilities(loaded, reply)):
            right = _alone(loaded, (*ids_before, *reply.ids[:i]))
            worst = max(worst, float(((found - right).abs().max() / right.abs().max()).nan_to_num(torch.inf)))
    return worst


def check_batches(loaded: LoadedModel) -> LoadedModel:
    """Return a model that runs one request at a time if a batch of its family gives other numbers.

    The result is kept by the digest of the configuration. Any other failure is left to the first request.
    """
    config = loaded.model.config.get_text_config()
    if config.model_type in TESTED:
        return loaded
    what = f"{version('transformers')} {loaded.format} {config.to_json_string(use_diff=False)}"
    file = models_folder() / "checked" / hashlib.sha256(what.encode()).hexdigest()[:32]
    with suppress(Exception):
        if not file.exists():
            computes = apart(loaded) <= allowed(loaded)
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("together" if computes else "alone", encoding="utf-8")
        else:
            computes = file.read_text(encoding="utf-8") != "alone"
        if not computes:
            loaded.network.one_by_one = True
            LOGGER.warning("%s: %s", loaded.name, ONE_BY_ONE)
            return loaded.varied(engine=loaded.engine.twin())
    return loaded


def _log_probabilities(loaded: LoadedModel, reply: Reply) -> torch.Tensor:
    """Return the log-probabilities (n, V) before each token of a reply, in the order of the ids."""
    assert reply.stats is not None, "requested"
    whole = torch.empty(len(reply.ids), len(loaded.table))
    return whole.scatter_(1, reply.stats.top_ids, reply.stats.top_logprobs)


@torch.inference_mode()
def _alone(loaded: LoadedModel, prompt: tuple[int, ...]) -> torch.Tensor:
    """Return the log-probabilities (V,) after a prompt, from the model without our engine."""
    ids = torch.tensor([prompt], device=loaded.network.device)
    logits: torch.Tensor = loaded.model(input_ids=ids, use_cache=False).logits
    return logits[0, -1, : len(loaded.table)].float().log_softmax(-1).cpu()
