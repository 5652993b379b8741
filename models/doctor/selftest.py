"""Ten seconds that tell whether a model computes as the decoding loop relies on, whatever its family."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from sottovoce.models.engine.engine import Engine
from sottovoce.models.engine.request import Edit, Feed, Ids, Record, Reply, Request, Rows, Sampling, Stop
from sottovoce.models.huggingface.family import LAYERS_READ_IDS, layers_read_ids
from sottovoce.models.loaded import LoadedModel

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
Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis: what was looked at and what was found."""

    check: str
    ok: bool | None
    """None where a fact is neither good nor bad."""
    detail: str
    """Where something is wrong it ends with what to do."""


def self_test(loaded: LoadedModel) -> list[Finding]:
    """Run every check; one that breaks inside the model's own code is a failed finding."""
    try:
        trial = _Trial.of(loaded)
    except Exception as error:  # whatever a model's own code breaks on
        return [_broken("self-test", error)]
    checks: dict[str, Callable[[str], Finding]] = {
        "engine = plain pass": trial.plain,
        "ids = embeddings": trial.embeddings,
        "batch = single": trial.batch,
        "reused = fresh": trial.reused,
        "edit of zeros": trial.zeros,
        "cold cipher = greedy": trial.cold,
        "same request, same reply": trial.repeat,
    }
    skipped = NEED_ROWS if layers_read_ids(loaded.model) else ()
    untested = [Finding(name, None, f"not tested: {LAYERS_READ_IDS}, so cipher is refused") for name in skipped]
    return untested + [_checked(name, check) for name, check in checks.items() if name not in skipped]


def _checked(name: str, check: Callable[[str], Finding]) -> Finding:
    try:
        with torch.inference_mode():
            return check(name)
    except Exception as error:  # as above
        return _broken(name, error)


def _broken(name: str, error: Exception) -> Finding:
    first = str(error).strip().split("\n")[0]
    return Finding(name, False, f"the model broke: {type(error).__name__}: {first}; {WHAT_TO_DO}")


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
        words, context = loaded.chat.ids(TEXT), loaded.network.context or 1024
        _plain(loaded, words[:8])  # the first pass of a process is no measure
        start = time.perf_counter()
        _plain(loaded, words[:8])
        seconds = max(time.perf_counter() - start, 1e-6)  # and a step takes no longer than these 8 tokens
        length = int(8 * BUDGET / 2 / FORWARDS / seconds)
        new = min(max(int(BUDGET / 2 / REPLIES / seconds), 2), 16, context // 4)
        prompt = (words * 4)[: min(max(length, 8), 48, context // 2)]
        return cls(loaded, prompt, new, loaded.engine.twin(reuse=False), _plain(loaded, prompt))

    def plain(self, name: str) -> Finding:
        """After the prompt, and after a token that was decoded."""
        ids, after = self._read(self.prompt, new=2)[0]
        further = _plain(self.loaded, (*self.prompt, ids[0]))
        return self._close(name, (after[0], self.expected), (after[-1], further))

    def embeddings(self, name: str) -> Finding:
        ids = torch.tensor(self.prompt, device=self.loaded.network.device)
        rows = Rows(self.loaded.network.embed(ids).detach())
        return self._close(name, (self._read(rows)[0][1][0], self.expected))

    def batch(self, name: str) -> Finding:
        """Two prompts of two lengths, together; then one step more, where both said the same."""
        asked = (self.prompt, self.prompt[: len(self.prompt) // 2])
        alone = [self._read(prompt, new=2)[0] for prompt in asked]
        pairs: list[Pair] = []
        for (ids, found), (expected_ids, expected) in zip(self._read(*asked, new=2), alone, strict=True):
            n = 2 if ids == expected_ids else 1
            pairs += zip(found[:n], expected[:n], strict=True)
        return self._close(name, *pairs)

    def reused(self, name: str) -> Finding:
        """The prompt and its reply, then more after them: as if all were read at once."""
        longer = (*self.prompt, *self._reply(Feed(), Sampling()).ids, *self.prompt[:2])
        reply = self.loaded.engine.run(self._asked(longer))
        close = self._close(name, (self._after(reply)[0], _plain(self.loaded, longer)))
        more = f"; {reply.usage.reused} of {len(longer)} positions reused" if close.ok else ""
        return Finding(name, close.ok, close.detail + more)

    def zeros(self, name: str) -> Finding:
        hidden = self.loaded.network.hidden
        none = tuple(Edit(at, 0, torch.zeros(len(self.prompt), hidden)) for at in self.loaded.latent_layers())
        return self._close(name, (self._read(self.prompt, edits=none)[0][1][0], self.expected))

    def cold(self, name: str) -> Finding:
        words, mean = self._reply(Feed(), Sampling()), self._reply(Feed("mean"), Sampling())
        same = common(words.ids, mean.ids)
        if same == self.new:
            return Finding(name, True, f"{same} of {same} tokens")
        assert words.stats is not None, "asked for"
        best, second = words.stats.top_logprobs[same].tolist()
        margin = (best - second) / float(self.expected.abs().max())
        detail = f"{same} of {self.new} tokens; then the two best were {margin:.1e} of their scale apart"
        tie = margin <= self._allowed
        return Finding(name, tie, f"{detail}: a tie" if tie else f"{detail}; use nl or sde with this model")

    def repeat(self, name: str) -> Finding:
        first, second = (self._reply(Feed(), Sampling(temperature=1.0, seed=7)) for _ in range(2))
        same = common(first.ids, second.ids)
        remedy = "" if same == self.new else "; switch off what is random in the model's kernels"
        return Finding(name, not remedy, f"{same} of {self.new} tokens, sampled at temperature 1{remedy}")

    @property
    def _allowed(self) -> float:
        return TOLERANCE.get(self.loaded.dtype, TOLERANCE[torch.bfloat16])

    def _reply(self, feed: Feed, sampling: Sampling) -> Reply:
        record = Record(stats=True, top=2)
        return self.loaded.engine.run(Request((Ids(self.prompt),), Stop(self.new), (), feed, sampling, record))

    def _asked(self, prompt: Prompt | Rows, new: int = 1, edits: tuple[Edit, ...] = ()) -> Request:
        piece = prompt if isinstance(prompt, Rows) else Ids(prompt)
        return Request((piece,), Stop(new), edits, record=Record(stats=True, top=len(self.loaded.table)))

    def _read(
        self, *prompts: Prompt | Rows, new: int = 1, edits: tuple[Edit, ...] = ()
    ) -> list[tuple[Prompt, torch.Tensor]]:
        """Of each prompt, read afresh: the tokens that were decoded, and the log-probabilities before each (n, V)."""
        replies = self.fresh.run_all([self._asked(prompt, new, edits) for prompt in prompts])
        return [(reply.ids, self._after(reply)) for reply in replies]

    def _after(self, reply: Reply) -> torch.Tensor:
        """The numbers of the whole vocabulary in the order of the ids: (n, V)."""
        assert reply.stats is not None, "asked for"
        whole = torch.empty(len(reply.ids), len(self.loaded.table))
        return whole.scatter_(1, reply.stats.top_ids, reply.stats.top_logprobs)

    def _close(self, name: str, *pairs: Pair) -> Finding:
        apart = max(float((found - right).abs().max() / right.abs().max()) for found, right in pairs)
        dtype = str(self.loaded.dtype).removeprefix("torch.")
        detail = f"{apart:.1e} of their scale apart, {self._allowed:g} allowed in {dtype}"
        if apart <= self._allowed:  # false for NaN too
            return Finding(name, True, detail)
        half = "load it in float32, or " if self.loaded.dtype.itemsize == 2 else ""
        return Finding(name, False, f"{detail}; {half}{WHAT_TO_DO}")


@torch.inference_mode()
def _plain(loaded: LoadedModel, prompt: Prompt) -> torch.Tensor:
    """Log-probabilities (V,) after a prompt, by the model alone."""
    ids = torch.tensor([prompt], device=loaded.network.device)
    logits: torch.Tensor = loaded.model(input_ids=ids, use_cache=False).logits
    return logits[0, -1, : len(loaded.table)].float().log_softmax(-1).cpu()


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many elements two have in common at their beginnings."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
