"""The diagnosis of a model: what it is, how its chat template behaves, and whether it computes as expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from jinja2 import TemplateError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sottovoce.core.errors import ModelError
from sottovoce.core.text import amount
from sottovoce.models.base_temperature import default_sampling, drawn_temperature, known_top_p
from sottovoce.models.doctor.cipher_temperature import temperature
from sottovoce.models.doctor.selftest import CHECKS, WHAT_TO_DO, Found, Said, Trial
from sottovoce.models.engine.cache_manager import default_budget
from sottovoce.models.huggingface.devices import place_of
from sottovoce.models.huggingface.family import LAYERS_READ_IDS, layers_read_ids, streams
from sottovoce.models.huggingface.formats import PACKINGS, Dtype, Weights, check_memory, settled
from sottovoce.models.huggingface.load_files import read
from sottovoce.models.huggingface.onednn_linear import onednn_bytes
from sottovoce.models.huggingface.packing import Inventory, parameters_of
from sottovoce.models.load import assemble
from sottovoce.models.loaded import LoadedModel
from sottovoce.models.sources.cache import Source, changed, source_of
from sottovoce.models.sources.locate import locate, ready

SEEN = {
    "smollm2": "sde scores lower: 25 of 40 two-fact questions right at its default layer, 33 with text "
    "(docs/numbers.md)"
}
"""Known weaknesses of protocols by model, which readers of figures must know."""


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis: a check and its result."""

    check: str
    ok: bool | None
    """None for a fact that is neither good nor bad."""
    detail: str
    """The result; if something is wrong, it ends with what to do."""


def diagnose(
    name: str | Path,
    *,
    dtype: Dtype = "auto",
    weights: Weights = "auto",
    device: str = "auto",
    layers_path: str | None = None,
) -> Iterator[Finding]:
    """Yield the findings about a model as they are made; a finding that is not ok says what to do.

    The arguments are those of `load`. A model that loads but cannot work here is a failed finding.

    Raises:
        ModelError: the model does not exist or cannot be loaded.
    """
    place = place_of(device)
    dtype, packing = settled(dtype, weights, place)
    where = ready(locate(name))
    check_memory(str(name), Path(where), dtype, packing, place)
    model, tokenizer = read(str(name), where, dtype, place, packing)
    source = source_of(Path(where))
    origin = [Finding("source", None, _source(source))] if source else []
    return chain(origin, _files(Path(where)), examine(str(name), model, tokenizer, layers_path=layers_path))


def _files(folder: Path) -> Iterator[Finding]:
    """Yield a finding about the digests of the weights, if any were recorded."""
    files = changed(folder)
    if files is not None:
        is_not = f"{', '.join(files)} is not what it was when its digest was recorded; fetch it again"
        yield Finding("files", not files, is_not if files else "the weights match their recorded digests")


def _source(source: Source) -> str:
    """Return where a model came from, and how the tensors of its GGUF file were converted."""
    said, conversion = f"{source.origin}, licence {source.licence}", source.conversion
    if conversion is None:
        return said
    tensors = ", ".join(f"{count} of {kind}" for kind, count in conversion.tensors.items())
    words = f"; text is split by the rule {conversion.split}" if conversion.split else ""
    return f"{said}; tensors {tensors}, all {conversion.dtype} now (by {conversion.reader}){words}"


def examine(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, layers_path: str | None = None
) -> Iterator[Finding]:
    """Yield the findings of `diagnose` for a model and a tokenizer that are in memory."""
    yield Finding("model", None, f"{type(model).__name__}, {parameters_of(model):,} parameters")
    try:
        loaded = assemble(name, model, tokenizer, layers_path=layers_path)
    except ModelError as error:
        yield Finding("layers", False, str(error))
        return
    for check, look in FACTS.items():
        yield _checked(check, partial(look, loaded))
    trial, passed = Trial.of(loaded), True
    for check, test in CHECKS.items():
        finding = _checked(check, partial(test, trial))
        passed = passed and finding.ok is not False
        yield finding
    if passed:
        yield _checked("CIPHER temperature", partial(temperature, loaded))
    else:
        yield Finding("CIPHER temperature", None, "not measured, because the model fails the checks above")


def _checked(check: str, look: Callable[[], Found]) -> Finding:
    try:
        return Finding(check, *look())
    except Exception as error:  # any error in a model's own code
        first = str(error).strip().split("\n")[0]
        return Finding(check, False, f"the model failed: {type(error).__name__}: {first}; {WHAT_TO_DO}")


def _layers(loaded: LoadedModel) -> Found:
    network = loaded.network
    path = next(path for path, module in loaded.model.named_modules() if module is network.layers)
    return True, f"{loaded.layers} at {path}, hidden size {network.hidden}, embedding size {loaded.table.width}"


def _vocabulary(loaded: LoadedModel) -> Found:
    tokens = max(loaded.tokenizer.get_vocab().values()) + 1
    rows = loaded.model.config.get_text_config().vocab_size
    if tokens > rows:
        return False, f"the tokenizer has ids up to {tokens - 1}, the table {rows} rows; use the model's own tokenizer"
    return True, f"{tokens:,} tokens, table of {rows:,} rows"


def _stops(loaded: LoadedModel) -> Found:
    if not loaded.stop_ids:
        return False, "none: replies end at max_tokens or a stop string; set eos_token_id in generation_config.json"
    return True, ", ".join(f"{id} {loaded.tokenizer.convert_ids_to_tokens(id)!r}" for id in loaded.stop_ids)


def _dtypes(loaded: LoadedModel) -> Found:
    parameters = list(loaded.model.parameters())
    dtypes, devices = (sorted({str(getattr(each, what)) for each in parameters}) for what in ("dtype", "device"))
    return None, f"{', '.join(dtypes).replace('torch.', '')} on {', '.join(devices)}"


def _weights(loaded: LoadedModel) -> Found:
    """Return which linear maps are packed and from what, and which cannot be."""
    if loaded.format not in PACKINGS:
        return None, f"{loaded.format}, as the model computes"
    found = Inventory.of(loaded.model)
    packed = ", ".join(f"{count} {origin}" for origin, count in found.packed.most_common())
    left = "".join(f"; {count} left as they are: {reason}" for reason, count in found.left.most_common())
    return None, f"{loaded.format}: {packed}{left}; all else in float32"


def _context(loaded: LoadedModel) -> Found:
    limit = loaded.network.context
    return None, f"{limit:,} positions" if limit else "no limit in its configuration"


def _latent(loaded: LoadedModel) -> Found:
    layers = ", ".join(map(str, loaded.latent_layers()))
    paper = "chosen by SDE's authors for a model of this shape"
    near = "near 0.7 of the depth, never the last"
    near += f"; `experiment layers --model {loaded.name}` ranks them" if loaded.layers > 2 else ""
    return None, f"{layers} of 0 to {loaded.layers - 1}: {paper if loaded.known_layers else near}"


def _protocols(loaded: LoadedModel) -> Found:
    several = f"its layers have {streams(loaded.model)} states per position"
    refused = {"cipher": LAYERS_READ_IDS} if layers_read_ids(loaded.model) else {}
    refused |= {"sde": several, "hidden": several} if streams(loaded.model) > 1 else {}
    refused |= {"graft": several} if streams(loaded.model) > 1 else {}
    try:
        loaded.network.check_handing_over()
    except ModelError as error:
        refused |= dict.fromkeys(("kv", "thoughts"), str(error))
    names = [name for name in ("nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft") if name not in refused]
    why = "".join(f"; no {name}: {reason}" for name, reason in refused.items())
    seen = f"; {SEEN[loaded.name]}" if loaded.name in SEEN else ""
    return None if refused else True, ", ".join(names) + why + seen


def _sampling(loaded: LoadedModel) -> Found:
    """Return the default sampling settings with their sources; a run's `--temperature` and `--top-p` override them."""
    sampling, temperature, top_p = default_sampling(loaded), drawn_temperature(loaded), known_top_p(loaded)
    sources = {"temperature": temperature.why, "top_p": top_p.why if top_p else ""}
    values = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
    parts = [
        f"{name} {value:g}" + (f" ({sources[name]})" if sources.get(name) else "") for name, value in values.items()
    ]
    return None, ", ".join([*parts, f"repetition penalty {sampling.repetition_penalty:g}"])


def _memory(loaded: LoadedModel) -> Found:
    """Return the memory of weights, keys and values, measured on one token, so that compressed caches count as such."""
    parts = [*loaded.model.parameters(), *loaded.model.buffers()]
    weights = amount(sum(part.numel() * part.element_size() for part in parts))
    if again := onednn_bytes(loaded.model):
        weights += f" and {amount(again)} for a second copy of the linear maps, reordered for speed"
    kinds = loaded.network.kinds
    size, budget = sum(kind.nbytes for kind in kinds), default_budget(kinds)
    if not size:
        return None, f"weights {weights}; the model stores no keys and values"
    room = f"{amount(budget)} of the free memory, for about {float(f'{budget / size:.2g}'):,.0f} tokens at a time"
    cache = f"keys and values {amount(1000 * size)} per 1,000 tokens, {room}; --memory of a run sets another"
    return None, f"weights {weights}; {cache}"


def _template(loaded: LoadedModel) -> Found:
    if not loaded.tokenizer.chat_template:
        return None, "none: roles are written in capitals, one turn a paragraph"
    asked, system = {"role": "user", "content": "?"}, {"role": "system", "content": "Speak of teapots."}

    def rendered(*turns: dict[str, str]) -> str:
        try:
            return loaded.chat.rendered(list(turns), opened=False)
        except TemplateError:
            return ""

    if not rendered(asked):
        return False, "it refuses a question; give the tokenizer another chat_template"
    takes = system["content"] in rendered(system, asked)
    switch = loaded.chat.switch
    said = [
        "system turns are accepted" if takes else "system turns are not supported: we put them before the user's",
        "turns in any order" if rendered(asked, asked) else "turns must alternate: we join adjacent turns of one role",
        f"thinking has a switch ({switch})" if switch else "no switch for thinking",
    ]
    return True, "; ".join(said)


def _messages(loaded: LoadedModel) -> Found:
    """Check that messages from other agents come through the chat template whole and in order."""
    chat = [
        Said("user", ("? They said: ", 0, " And: ", 1, ".")),
        Said("assistant", (2,)),
        Said("user", ("They said:\n", 3)),
    ]
    try:
        holes = [piece for piece in loaded.chat.encode(chat) if isinstance(piece, int)]
    except ModelError as error:
        return False, str(error)
    if holes != [0, 1, 2, 3]:
        return False, f"of messages 0 to 3 it wrote {holes}; give the tokenizer one that keeps all turns whole"
    return True, "whole and in order, with the tokens they were generated with"


FACTS: Mapping[str, Callable[[LoadedModel], Found]] = {
    "layers": _layers,
    "vocabulary": _vocabulary,
    "stop ids": _stops,
    "dtype and device": _dtypes,
    "weights": _weights,
    "context": _context,
    "latent layers": _latent,
    "protocols": _protocols,
    "sampling": _sampling,
    "memory": _memory,
    "chat template": _template,
    "heard messages": _messages,
}
