"""Ten seconds that tell whether a model computes as the decoding loop relies on, whatever its family."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from sottovoce.models.engine import Engine
from sottovoce.models.family import LAYERS_READ_IDS, layers_read_ids
from sottovoce.models.finding import Finding
from sottovoce.models.keys import common
from sottovoce.models.loaded import LoadedModel
from sottovoce.models.request import Edit, Feed, Ids, Record, Reply, Request, Rows, Sampling, Stop

BUDGET = 6.0  # seconds, about; a model too slow for it gets the shortest test
FORWARDS, REPLIES = 16, 4  # what the checks take, about
TOLERANCE = {  # of the largest log-probability: what another order of sums may change
    torch.float64: 2e-5,
    torch.float32: 2e-5,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
TEXT = "Three agents discuss a question. Each answers, reads what the others answered, and answers again. "
WHAT_TO_DO = "use an attention-based causal language model"
NEED_ROWS = ("ids = embeddings", "cold cipher = greedy")  # what no protocol relies on where rows are refused

Prompt = tuple[int, ...]


def self_test(loaded: LoadedModel) -> list[Finding]:
    """Run every check; one that breaks inside the model's own code is a failed finding."""
    try:
        trial = _Trial.of(loaded)
    except Exception as error:  # see above
        return [_broken("self-test", error)]
    checks: dict[str, Callable[[], Finding]] = {
        "engine = plain pass": trial.plain,
        "ids = embeddings": trial.embeddings,
        "batch = single": trial.batch,
        "reused = fresh": trial.reused,
        "edit of zeros": trial.zeros,
        "cold cipher = greedy": trial.cold,
        "same request, same reply": trial.repeat,
    }
    findings = []
    for name in NEED_ROWS if layers_read_ids(loaded.model) else ():
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
    """What the checks share: a prompt, the length of replies, and the log-probabilities that are right."""

    loaded: LoadedModel
    prompt: Prompt
    new: int
    fresh: Engine
    """One that reuses nothing."""
    expected: torch.Tensor
    """(V,) after the prompt, by the model without any of our machinery."""

    @classmethod
    @torch.inference_mode()
    def of(cls, loaded: LoadedModel) -> _Trial:
        """Fit the lengths to the model's speed and context."""
        words = loaded.chat.ids(TEXT)
        context = loaded.network.context or 1024
        _plain(loaded, words[:8])  # the first pass of a process is no measure
        seconds = min(_seconds(lambda: _plain(loaded, words[:8])) for _ in range(2))
        # A step takes no longer than these 8 tokens.
        length = int(8 * BUDGET / 2 / FORWARDS / seconds)
        new = min(max(int(BUDGET / 2 / REPLIES / seconds), 2), 16, context // 4)
        prompt = (words * 4)[: min(max(length, 8), 48, context // 2)]
        return cls(loaded, prompt, new, loaded.engine.twin(reuse=False), _plain(loaded, prompt))

    def plain(self) -> Finding:
        """After the prompt, and after a token that was decoded."""
        read = self._read(self.prompt, new=2)
        further = _plain(self.loaded, (*self.prompt, read.ids[0]))
        return self._close("engine = plain pass", [(read.first, self.expected), (read.second, further)])

    def embeddings(self) -> Finding:
        ids = torch.tensor(self.prompt, device=self.loaded.network.device)
        rows = Rows(self.loaded.network.embed(ids).detach())
        return self._close("ids = embeddings", [(self._read(rows).first, self.expected)])

    def batch(self) -> Finding:
        """Two prompts of two lengths, together; then one step more."""
        short = self.prompt[: len(self.prompt) // 2]
        together = self._read_all([self.prompt, short], new=2)
        pairs = []
        for prompt, read in zip((self.prompt, short), together, strict=True):
            alone = self._read(prompt, new=2)
            pairs += [(read.first, alone.first), (read.second, alone.second)] if read.ids == alone.ids else []
            pairs.append((read.first, alone.first))
        return self._close("batch = single", pairs)

    def reused(self) -> Finding:
        """The prompt and its reply, then more after them: as if all were read at once."""
        reply = self._reply(Feed(), Sampling())
        longer = (*self.prompt, *reply.ids, *self.prompt[:2])
        found = self._read(longer, reuse=True)
        close = self._close("reused = fresh", [(found.first, _plain(self.loaded, longer))])
        if not close.ok:
            return close
        return Finding(close.check, True, f"{close.detail}; {found.reused} of {len(longer)} positions reused")

    def zeros(self) -> Finding:
        hidden = self.loaded.network.hidden
        layers = self.loaded.latent_layers()
        edits = tuple(Edit(layer, 0, torch.zeros(len(self.prompt), hidden)) for layer in layers)
        return self._close("edit of zeros", [(self._read(self.prompt, edits=edits).first, self.expected)])

    def cold(self) -> Finding:
        words, mean = self._reply(Feed(), Sampling()), self._reply(Feed("mean"), Sampling())
        same = common(words.ids, mean.ids)
        if same == self.new:
            return Finding("cold cipher = greedy", True, f"{same} of {same} tokens")
        assert words.stats is not None, "asked for"
        best = words.stats.top_logprobs[same]
        margin = float(best[0] - best[1]) / float(self.expected.abs().max())
        detail = f"{same} of {self.new} tokens; then the two best were {margin:.1e} of their scale apart"
        if margin <= self._allowed:
            return Finding("cold cipher = greedy", True, f"{detail}: a tie")
        return Finding("cold cipher = greedy", False, f"{detail}; use nl or sde with this model")

    def repeat(self) -> Finding:
        sampling = Sampling(temperature=1.0, seed=7)
        first, second = (self._reply(Feed(), sampling) for _ in range(2))
        same = common(first.ids, second.ids)
        detail = f"{same} of {self.new} tokens, sampled at temperature 1"
        if same == self.new:
            return Finding("same request, same reply", True, detail)
        return Finding("same request, same reply", False, f"{detail}; switch off what is random in the model's kernels")

    @property
    def _allowed(self) -> float:
        return TOLERANCE.get(self.loaded.dtype, TOLERANCE[torch.bfloat16])

    def _reply(self, feed: Feed, sampling: Sampling) -> Reply:
        record = Record(stats=True, top=2)
        return self.loaded.engine.run(Request((Ids(self.prompt),), Stop(self.new), (), feed, sampling, record))

    def _read(self, prompt: Prompt | Rows, *, new: int = 1, edits: tuple[Edit, ...] = (), reuse: bool = False) -> _Read:
        return self._read_all([prompt], new=new, edits=edits, reuse=reuse)[0]

    def _read_all(
        self,
        prompts: Sequence[Prompt | Rows],
        *,
        new: int = 1,
        edits: tuple[Edit, ...] = (),
        reuse: bool = False,
    ) -> list[_Read]:
        size = len(self.loaded.table)
        asked = [
            Request(
                (prompt if isinstance(prompt, Rows) else Ids(prompt),),
                Stop(new),
                edits,
                record=Record(stats=True, top=size),
            )
            for prompt in prompts
        ]
        engine = self.loaded.engine if reuse else self.fresh
        return [_Read.of(reply, size) for reply in engine.run_all(asked)]

    def _close(self, check: str, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Finding:
        apart = max(float((found - right).abs().max() / right.abs().max()) for found, right in pairs)
        dtype = str(self.loaded.dtype).removeprefix("torch.")
        detail = f"{apart:.1e} of their scale apart, {self._allowed:g} allowed in {dtype}"
        if apart <= self._allowed:  # false for NaN too
            return Finding(check, True, detail)
        half = self.loaded.dtype.itemsize == 2
        return Finding(check, False, f"{detail}; {'load it in float32, or ' if half else ''}{WHAT_TO_DO}")


@dataclass(frozen=True, eq=False)
class _Read:
    """What the engine gave: log-probabilities (V,) after the prompt, and after the first token."""

    ids: Prompt
    first: torch.Tensor
    second: torch.Tensor
    reused: int

    @classmethod
    def of(cls, reply: Reply, size: int) -> _Read:
        """Put the numbers of the whole vocabulary in the order of the ids."""
        assert reply.stats is not None, "asked for"
        after = torch.empty(len(reply.ids), size).scatter_(1, reply.stats.top_ids, reply.stats.top_logprobs)
        return cls(reply.ids, after[0], after[-1], reply.usage.reused)


@torch.inference_mode()
def _plain(loaded: LoadedModel, prompt: Prompt) -> torch.Tensor:
    """Log-probabilities (V,) after a prompt, by the model alone."""
    ids = torch.tensor([prompt], device=loaded.network.device)
    logits: torch.Tensor = loaded.model(input_ids=ids, use_cache=False).logits
    return logits[0, -1, : len(loaded.table)].float().log_softmax(-1).cpu()


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return max(time.perf_counter() - start, 1e-6)


def _broken(check: str, error: Exception) -> Finding:
    first = str(error).strip().split("\n")[0]
    return Finding(check, False, f"the model broke: {type(error).__name__}: {first}; {WHAT_TO_DO}")
