"""Diagnosis of a model before use: its layers, its protocols, its memory, and whether it computes as expected.

Within `models`, only this file names protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sottovoce.core.errors import ModelError
from sottovoce.core.text import amount
from sottovoce.models.engine.cache import default_budget
from sottovoce.models.engine.request import Feed, Ids, Reply, Request, Sampling, Stop
from sottovoce.models.huggingface.devices import place_of
from sottovoce.models.huggingface.family import LAYERS_READ_IDS, layers_read_ids, streams
from sottovoce.models.huggingface.load_files import check_memory, read
from sottovoce.models.huggingface.packed_weights import Dtype, Weights, parameters_of, settled
from sottovoce.models.load import ONE_BY_ONE, TOLERANCE, allowed, apart, assemble
from sottovoce.models.loaded import LoadedModel, base_temperature
from sottovoce.models.sources.cache import Report, changed, source_of
from sottovoce.models.sources.locate import locate, ready

SEEN = {
    "smollm2": "sde scores lower: 141 of 200 two-fact questions right at its default layer, 168 with text "
    "(docs/numbers.md)"
}
"""Known weaknesses of protocols by model, which readers of figures must know."""
WHAT_TO_DO = "use an attention-based causal language model"
LADDER = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15)
TOGETHER = 3
"""Number of temperatures that are tried in one batch."""
DRAWN_AT = 0.7
LONGEST = 48
PROMPTS = (
    "Why do leaves turn yellow in autumn?",
    "Describe a busy market on a summer morning.",
    "How does one bake a simple loaf of bread?",
    "What makes a good neighbour?",
    "Tell of a journey by train along the coast.",
    "Explain how a bridge carries its load.",
)
Found = tuple[bool | None, str]
"""True, False, or None for a fact that is neither; and the result, with what to do if it is wrong."""


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
    report: Report = lambda step: None,
) -> Iterator[Finding]:
    """Yield the findings about a model, each as soon as it is known; a finding that is not ok says what to do.

    The arguments are the same as for `load`; `report` gets each slow step as it begins. A model that loads but cannot
    work here is a failed finding.

    Raises:
        ModelError: the model does not exist or cannot be loaded.
    """
    place = place_of(device)
    dtype, packing = settled(dtype, weights, place)
    where = Path(ready(locate(name), report))
    check_memory(str(name), where, dtype, packing, place)
    report("loading the weights")
    model, tokenizer = read(str(name), str(where), dtype, place, packing)
    return chain(_files(where, report), examine(str(name), model, tokenizer, layers_path=layers_path, report=report))


def _files(folder: Path, report: Report) -> Iterator[Finding]:
    """Yield where a model came from and whether its weights match their digests, if either was recorded."""
    if source := source_of(folder):
        rule = f"; text is split by the rule {source.split}" if source.split else ""
        yield Finding("source", None, f"{source.origin}, licence {source.licence}{rule}")
    report("comparing the files with their digests")
    if files := changed(folder):
        is_not = f"{', '.join(files)} is not what it was when its digest was recorded; fetch it again"
        yield Finding("files", False, is_not)


def examine(
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    layers_path: str | None = None,
    report: Report = lambda step: None,
) -> Iterator[Finding]:
    """Yield the findings of `diagnose` for a model and a tokenizer that are in memory."""
    yield Finding("model", None, f"{type(model).__name__}, {parameters_of(model):,} parameters")
    try:
        loaded = assemble(name, model, tokenizer, layers_path=layers_path)
    except ModelError as error:
        yield Finding("layers", False, str(error))
        return
    for check, look in (("layers", _layers), ("protocols", _protocols), ("memory", _memory)):
        yield _checked(check, partial(look, loaded))
    report("computing in a batch and alone")
    computes = _checked("batch = single", partial(_batch, loaded))
    yield computes
    if computes.ok is not False:
        report("finding a temperature for CIPHER")
        yield _checked("CIPHER temperature", lambda: (None, _temperature(loaded)))


def _checked(check: str, look: Callable[[], Found]) -> Finding:
    try:
        return Finding(check, *look())
    except Exception as error:  # any error in a model's own code
        first = str(error).strip().split("\n")[0]
        return Finding(check, False, f"the model failed: {type(error).__name__}: {first}; {WHAT_TO_DO}")


def _layers(loaded: LoadedModel) -> Found:
    network = loaded.network
    path = next(path for path, module in loaded.model.named_modules() if module is network.layers)
    chosen = "chosen by SDE's authors for a model of this shape" if loaded.known_layers else "near 0.7 of the depth"
    latent = f"sde and hidden use {', '.join(map(str, loaded.latent_layers()))} ({chosen})"
    return True, (
        f"{loaded.layers} at {path}, hidden size {network.hidden}, embedding size {loaded.table.width}, "
        f"{loaded.format}; {latent}"
    )


def _protocols(loaded: LoadedModel) -> Found:
    several = f"its layers have {streams(loaded.model)} states per position"
    refused = {"cipher": LAYERS_READ_IDS} if layers_read_ids(loaded.model) else {}
    refused |= dict.fromkeys(("sde", "hidden", "graft"), several) if streams(loaded.model) > 1 else {}
    try:
        loaded.network.check_handing_over()
    except ModelError as error:
        refused |= dict.fromkeys(("kv", "thoughts"), str(error))
    names = [name for name in ("nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft") if name not in refused]
    why = "".join(f"; no {name}: {reason}" for name, reason in refused.items())
    seen = f"; {SEEN[loaded.name]}" if loaded.name in SEEN else ""
    return None if refused else True, ", ".join(names) + why + seen + "; all but nl and cipher need equal weights"


def _memory(loaded: LoadedModel) -> Found:
    """Return the memory of weights, keys and values, measured on one token, so that compressed caches count as such."""
    parts = [*loaded.model.parameters(), *loaded.model.buffers()]
    weights = amount(sum(part.numel() * part.element_size() for part in parts))
    kinds = loaded.network.kinds
    size, budget = sum(kind.nbytes for kind in kinds), default_budget(kinds)
    if not size:
        return None, f"weights {weights}; the model stores no keys and values"
    room = f"{amount(budget)} of the free memory, for about {float(f'{budget / size:.2g}'):,.0f} tokens at a time"
    cache = f"keys and values {amount(1000 * size)} per 1,000 tokens, {room}; --memory of a run sets another"
    return None, f"weights {weights}; {cache}"


def _batch(loaded: LoadedModel) -> Found:
    """Check a batch against the model alone; if it differs, one request at a time."""
    most, found = allowed(loaded), apart(loaded)
    detail = f"apart by {found:.1e} of their scale; {most:g} allowed in {loaded.format}"
    if found <= most:
        return True, detail
    loaded.network.one_by_one = True
    if apart(loaded) <= most:
        return None, f"{detail}; {ONE_BY_ONE}"
    wider = "load it in float32, or " if most > TOLERANCE["float32"] else ""
    return False, f"{detail}; {wider}{WHAT_TO_DO}"


def _temperature(loaded: LoadedModel) -> str:
    """Return CIPHER's base temperature and its source; if nothing is known, measure it."""
    if layers_read_ids(loaded.model):
        return f"not measured: {LAYERS_READ_IDS}, so cipher is refused"
    base = base_temperature(loaded)
    if base.sure:
        return f"{base.value:g}, {base.why or 'named by its files'}"
    found, allowed = measure(loaded)
    *warmer, (chosen, readable) = found.items()
    figures = ", ".join(f"{likelihood:.2f} at {at:g}" for at, likelihood in ((chosen, readable), *warmer[-1:]))
    what = "the highest at which messages are readable"
    if readable < allowed:
        what = "the lowest tried; no message was readable"
    return f"{chosen:g}, {what}: as text {figures} nats a token, {allowed:.2f} allowed; set it with --temperature"


class _Asked(NamedTuple):
    """A user's turn of a chat."""

    parts: tuple[str]
    role: str = "user"


def measure(loaded: LoadedModel) -> tuple[dict[float, float], float]:
    """Go down the ladder to the highest temperature at which mean embeddings can be read as text.

    Messages of 48 steps are decoded on six prompts at each temperature and scored as plain text: the mean
    log-probability (nats) of their nearest tokens. A temperature is readable if its score is at least that of text
    drawn at 0.7, minus twice the standard deviation over the prompts. The reference is not 1, because text sampled from
    SmolLM2 at 1 is so poor (-2.7) that mean embeddings at 0.6 would pass, although half of them are noise (-2.9).

    Return the scores by temperature, ending at the first readable one if there is one, and the lowest readable score.
    Seeds are fixed; another machine may find the next temperature. SmolLM2 takes about 40 seconds on one core.
    """
    chats = [loaded.chat.encode([_Asked((text,))]) for text in PROMPTS]
    prompts, found = [tuple(chain.from_iterable(chat)) for chat in chats], dict[float, float]()
    drawn = _likelihoods(loaded, prompts, Feed(), [DRAWN_AT])[0]
    allowed = fmean(drawn) - 2 * stdev(drawn)
    for at in range(0, len(LADDER), TOGETHER):
        rungs = LADDER[at : at + TOGETHER]
        for temperature, each in zip(rungs, _likelihoods(loaded, prompts, Feed("mean"), rungs), strict=True):
            found[temperature] = fmean(each)
            if found[temperature] >= allowed:
                return found, allowed
    return found, allowed


def _likelihoods(
    loaded: LoadedModel, prompts: Sequence[tuple[int, ...]], feed: Feed, temperatures: Sequence[float]
) -> list[list[float]]:
    """Return the likelihoods of the replies to all prompts, by temperature, decoded in one batch."""
    requests = []
    for temperature in temperatures:
        for seed, prompt in enumerate(prompts):
            longest = min(LONGEST, (loaded.network.context or len(prompt) + LONGEST) - len(prompt))
            # The stop id is kept: a message that ends at once is then scored by its end, and no message is empty.
            stop = Stop(longest, loaded.stop_ids, by="nearest" if feed.kind == "mean" else "token", keep=True)
            requests.append(Request((Ids(prompt),), stop, feed=feed, sampling=Sampling(temperature, seed=seed)))
    replies = iter(loaded.engine.run_all(requests))
    return [[_likelihood(loaded, prompt, next(replies)) for prompt in prompts] for _ in temperatures]


@torch.inference_mode()
def _likelihood(loaded: LoadedModel, prompt: tuple[int, ...], reply: Reply) -> float:
    """Return the mean log-probability (nats) of a reply's tokens after the prompt, as plain text."""
    ids = torch.tensor([[*prompt, *reply.ids]], device=loaded.network.device)
    logits = loaded.model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1, : len(loaded.table)]
    logp = logits.float().log_softmax(-1).gather(-1, ids[0, len(prompt) :, None])
    return float(logp.mean())
