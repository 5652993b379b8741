"""Ten seconds that tell whether a model computes as the decoding loop relies on, whatever its family."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from sottovoce.models.family import LAYERS_READ_IDS, layers_read_ids
from sottovoce.models.finding import Finding
from sottovoce.models.mind import Mind
from sottovoce.models.network import Past, apply_edits, prompt_inputs
from sottovoce.models.request import Edit, Feed, Ids, Record, Reply, Request, Sampling, Stop

BUDGET = 6.0  # seconds, about; a model too slow for it gets the shortest test
FORWARDS, REPLIES = 14, 4  # what the checks take, about
TOLERANCE = {  # of the largest logit: what another order of sums may change
    torch.float64: 2e-5,
    torch.float32: 2e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
TEXT = "Three agents discuss a question. Each answers, reads what the others answered, and answers again. "
WHAT_TO_DO = "use an attention-based causal language model"
NEED_ROWS = ("ids = embeddings", "cold cipher = greedy")  # what no protocol relies on where rows are refused

Prompt = tuple[int, ...]


def self_test(mind: Mind) -> list[Finding]:
    """Run every check; one that breaks inside the model's own code is a failed finding."""
    try:
        trial = _Trial.of(mind)
    except Exception as error:  # see above
        return [_broken("self-test", error)]
    checks: dict[str, Callable[[], Finding]] = {
        "ids = embeddings": trial.embeddings,
        "batch = single": trial.batch,
        "cropped = fresh": trial.cropped,
        "edit of zeros": trial.zeros,
        "cold cipher = greedy": trial.cold,
        "same request, same reply": trial.repeat,
    }
    findings = []
    for name in NEED_ROWS if layers_read_ids(mind.model) else ():
        findings.append(Finding(name, None, f"not tested: {LAYERS_READ_IDS}, so cipher is refused"))
        del checks[name]
    for name, check in checks.items():
        try:
            with torch.inference_mode():
                findings.append(check())
        except Exception as error:  # see above
            findings.append(_broken(name, error))
    return findings


@dataclass(frozen=True, eq=False)
class _Trial:
    """What the checks share: a prompt, the length of replies, and the logits that are right."""

    mind: Mind
    prompt: Prompt
    new: int
    expected: torch.Tensor
    """Logits (1, V) after the prompt, read alone as ids."""

    @classmethod
    @torch.inference_mode()
    def of(cls, mind: Mind) -> _Trial:
        """Fit the lengths to the model's speed and context."""
        words = mind.chat.ids(TEXT)
        context = mind.network.context or 1024
        _logits(mind, [words[:8]])  # the first pass of a process is no measure
        seconds = min(_seconds(lambda: _logits(mind, [words[:8]])) for _ in range(2))
        # A step takes no longer than these 8 tokens.
        length = int(8 * BUDGET / 2 / FORWARDS / seconds)
        new = min(max(int(BUDGET / 2 / REPLIES / seconds), 2), 16, context // 4)
        prompt = (words * 4)[: min(max(length, 8), 48, context // 2)]
        return cls(mind, prompt, new, _logits(mind, [prompt]))

    def embeddings(self) -> Finding:
        return self._close("ids = embeddings", [(_logits(self.mind, [self.prompt], as_rows=True), self.expected)])

    def batch(self) -> Finding:
        """Rows of two lengths, the shorter padded on the left; then one step more."""
        short, then = self.prompt[: len(self.prompt) // 2], self.prompt[-1]
        pairs = []
        for steps in ((), (then,)):
            together = _logits(self.mind, [self.prompt, short], steps)
            alone = torch.cat([_logits(self.mind, [self.prompt], steps), _logits(self.mind, [short], steps)])
            pairs.append((together, alone))
        return self._close("batch = single", pairs)

    def cropped(self) -> Finding:
        """The prompt, more tokens, the cache cut back to the prompt, a step: as if all were read at once."""
        network, ids = self.mind.network, torch.tensor([self.prompt], device=self.mind.network.device)
        past = Past([len(self.prompt)], 4, network.device)
        network.forward(ids, past, {})
        network.forward(ids[:, :4], past, {})
        past.cache.crop(-4)  # a count to remove: transformers 5.23 takes no length to keep
        past.seen -= 4
        found = network.forward(ids[:, :1], past, {})
        return self._close("cropped = fresh", [(found, _logits(self.mind, [self.prompt + self.prompt[:1]]))])

    def zeros(self) -> Finding:
        hidden = self.mind.network.hidden
        layers = self.mind.latent_layers()
        edits = [Edit(layer, 0, torch.zeros(len(self.prompt), hidden), "zeros") for layer in layers]
        return self._close("edit of zeros", [(_logits(self.mind, [self.prompt], edits=edits), self.expected)])

    def cold(self) -> Finding:
        words, mean = self._reply(Feed(), Sampling()), self._reply(Feed("mean"), Sampling())
        same = _common(words.ids, mean.ids)
        if same == self.new:
            return Finding("cold cipher = greedy", True, f"{same} of {same} tokens")
        assert words.stats is not None, "asked for"
        best = words.stats.top_logprobs[same]
        margin = float(best[0] - best[1]) / float(self.expected.abs().max())
        detail = f"{same} of {self.new} tokens; then the two best were {margin:.1e} of the logits' scale apart"
        if margin <= self._allowed:
            return Finding("cold cipher = greedy", True, f"{detail}: a tie")
        return Finding("cold cipher = greedy", False, f"{detail}; use nl or sde with this model")

    def repeat(self) -> Finding:
        sampling = Sampling(temperature=1.0, seed=7)
        first, second = (self._reply(Feed(), sampling) for _ in range(2))
        same = _common(first.ids, second.ids)
        detail = f"{same} of {self.new} tokens, sampled at temperature 1"
        if same == self.new:
            return Finding("same request, same reply", True, detail)
        return Finding("same request, same reply", False, f"{detail}; switch off what is random in the model's kernels")

    @property
    def _allowed(self) -> float:
        return TOLERANCE.get(self.mind.dtype, TOLERANCE[torch.bfloat16])

    def _reply(self, feed: Feed, sampling: Sampling) -> Reply:
        record = Record(stats=True, top=2)
        return self.mind.engine.run(Request((Ids(self.prompt),), Stop(self.new), (), feed, sampling, record))

    def _close(self, check: str, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Finding:
        apart = max(float((found - right).abs().max() / right.abs().max()) for found, right in pairs)
        dtype = str(self.mind.dtype).removeprefix("torch.")
        detail = f"{apart:.1e} of the logits' scale apart, {self._allowed:g} allowed in {dtype}"
        if apart <= self._allowed:  # false for NaN too
            return Finding(check, True, detail)
        half = self.mind.dtype.itemsize == 2
        return Finding(check, False, f"{detail}; {'load it in float32, or ' if half else ''}{WHAT_TO_DO}")


def _logits(
    mind: Mind, prompts: Sequence[Prompt], steps: Prompt = (), *, as_rows: bool = False, edits: Sequence[Edit] = ()
) -> torch.Tensor:
    """Logits (b, V) after the prompts and the same further tokens in each row, one a step."""
    network = mind.network
    requests = [Request((Ids(prompt),), Stop(1), tuple(edits)) for prompt in prompts]
    past = Past([len(prompt) for prompt in prompts], len(steps), network.device)
    logits = network.forward(prompt_inputs(network, requests, as_rows=as_rows), past, apply_edits(requests, {}))
    for id in steps:
        logits = network.forward(torch.full((len(prompts), 1), id, device=network.device), past, {})
    return logits


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return max(time.perf_counter() - start, 1e-6)


def _common(left: Prompt, right: Prompt) -> int:
    """How many tokens two replies share before they part."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b), len(left))


def _broken(check: str, error: Exception) -> Finding:
    first = str(error).strip().split("\n")[0]
    return Finding(check, False, f"the model broke: {type(error).__name__}: {first}; {WHAT_TO_DO}")
