"""Look at a model before trusting it: what it is, how its chat template behaves, whether it computes as we rely on."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sottovoce.errors import ModelError
from sottovoce.models.doctor.family_check import family_findings
from sottovoce.models.doctor.selftest import Finding, self_test
from sottovoce.models.doctor.template_check import template_findings
from sottovoce.models.engine.memory import amount, default_budget
from sottovoce.models.huggingface.devices import place_of
from sottovoce.models.huggingface.load import Dtype, locate, read
from sottovoce.models.load import assemble
from sottovoce.models.loaded import LoadedModel

NEAR = "near 0.7 of the depth, never the last"


def diagnose(
    name: str | Path, *, dtype: Dtype = "auto", device: str = "auto", layers_path: str | None = None
) -> list[Finding]:
    """What there is to know of a model, one line each; a finding that is not ok says what to do.

    Arguments as `load` takes them. A model that loads but cannot work here is a failed finding.

    Raises:
        ModelError: there is no such model, or it cannot be loaded.
    """
    model, tokenizer = read(str(name), locate(name), dtype, place_of(device))
    return examine(str(name), model, tokenizer, layers_path=layers_path)


def examine(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, layers_path: str | None = None
) -> list[Finding]:
    """`diagnose` for a model and a tokenizer that are in memory."""
    what = Finding("model", None, f"{type(model).__name__}, {model.num_parameters():,} parameters")
    try:
        loaded = assemble(name, model, tokenizer, layers_path=layers_path)
    except ModelError as error:
        return [what, Finding("layers", False, str(error))]
    facts = [_layers(loaded), _vocabulary(loaded), _stops(loaded), *_settings(loaded)]
    family = family_findings(model, loaded.layers)
    return [what, *facts, *family, *_memory(loaded), *template_findings(loaded), *self_test(loaded)]


def _layers(loaded: LoadedModel) -> Finding:
    network = loaded.network
    path = next(path for path, module in loaded.model.named_modules() if module is network.layers)
    head, table = getattr(network.head, "weight", None), getattr(network.embedding, "weight", None)
    tied = head is not None and table is not None and head.data_ptr() == table.data_ptr()
    return Finding(
        "layers",
        True,
        f"{loaded.layers} at {path}, hidden size {network.hidden}, embeddings {loaded.table.width} wide, "
        f"output head {'tied to them' if tied else 'of its own'}",
    )


def _vocabulary(loaded: LoadedModel) -> Finding:
    tokens = max(loaded.tokenizer.get_vocab().values()) + 1
    rows = loaded.model.config.get_text_config().vocab_size
    if tokens > rows:
        detail = f"the tokenizer has ids up to {tokens - 1}, the table {rows} rows; use the model's own tokenizer"
        return Finding("vocabulary", False, detail)
    padded = f"{rows - tokens:,} of them padded, never chosen" if rows > tokens else "none padded"
    return Finding("vocabulary", True, f"{tokens:,} tokens, table of {rows:,} rows, {padded}")


def _stops(loaded: LoadedModel) -> Finding:
    if not loaded.stop_ids:
        detail = "none: replies end at max_tokens or a stop string; set eos_token_id in generation_config.json"
        return Finding("stop ids", False, detail)
    named = (f"{id} {loaded.tokenizer.convert_ids_to_tokens(id)!r}" for id in loaded.stop_ids)
    return Finding("stop ids", True, ", ".join(named))


def _settings(loaded: LoadedModel) -> list[Finding]:
    parameters, own, limit = list(loaded.model.parameters()), loaded.sampling, loaded.network.context
    dtypes, devices = ({str(getattr(each, what)) for each in parameters} for what in ("dtype", "device"))
    where = f"{', '.join(sorted(dtypes)).replace('torch.', '')} on {', '.join(sorted(devices))}"
    sampling = f"temperature {own.temperature:g}, top_p {own.top_p:g}, top_k {own.top_k or 'all'}, "
    layers = ", ".join(map(str, loaded.latent_layers()))
    why = "the choice of SDE's authors for a model of this shape" if loaded.known_layers else NEAR
    return [
        Finding("dtype and device", None, where),
        Finding("context", None, f"{limit:,} positions" if limit else "no limit in its configuration"),
        Finding("sampling defaults", None, f"{sampling}repetition_penalty {own.repetition_penalty:g}"),
        Finding("latent layers", None, f"{layers} of 0 to {loaded.layers - 1}: {why}"),
    ]


def _memory(loaded: LoadedModel) -> list[Finding]:
    parts = [*loaded.model.parameters(), *loaded.model.buffers()]
    size, chosen = loaded.dtype.itemsize, len(loaded.latent_layers())
    layers = f"{chosen} layer{'s' * (chosen > 1)} x {loaded.network.hidden} x {size} bytes"
    sde = f"sde {amount(chosen * loaded.network.hidden * size)} ({layers})"
    width = loaded.table.width
    cipher = f"cipher {amount(width * size)} for each hearer's table ({width} x {size} bytes)"
    return [
        Finding("memory: weights", None, amount(sum(part.numel() * part.element_size() for part in parts))),
        *_cache(loaded),
        Finding("memory: payload", None, f"a token: {sde}, {cipher}"),
    ]


def _cache(loaded: LoadedModel) -> list[Finding]:
    """Measured on one token, so that grouped heads and compressed caches count as what they are."""
    try:
        kinds = loaded.network.kinds
    except Exception as error:  # whatever a model's own code breaks on; the self-test says what to do
        return [Finding("memory: cache", None, f"not measured: {type(error).__name__}")]
    if not kinds:
        return [Finding("memory: cache", None, "the model keeps no keys and values")]
    queries = loaded.model.config.get_text_config().num_attention_heads
    size, budget = sum(kind.nbytes for kind in kinds), default_budget(kinds)
    layers = len({layer for kind in kinds for layer, _ in kind.members})
    dtype = str(kinds[0].dtype).removeprefix("torch.")
    held = (
        f"{amount(1000 * size)} per 1,000 tokens ({layers} layers, keys and values of {kinds[0].heads} heads "
        f"for {queries} queries, {kinds[0].width} wide, {dtype})"
    )
    tokens = float(f"{budget / size:.2g}")
    room = f"{amount(budget)} of what is free, for about {tokens:,.0f} tokens at a time; --memory of a run sets another"
    return [Finding("memory: cache", None, held), Finding("memory: budget", None, room)]
