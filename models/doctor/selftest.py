"""Short checks that a model computes as the decoding loop expects, whatever its family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from sottovoce.models.engine.engine import Engine
from sottovoce.models.engine.request import Feed, Ids, Record, Reply, Request, Rows, Stop
from sottovoce.models.huggingface.family import LAYERS_READ_IDS, layers_read_ids
from sottovoce.models.loaded import LoadedModel

TOLERANCE = {  # relative to the largest log-probability: the effect of another order of sums or another kernel
    "float64": 2e-5,
    "float32": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "int8": 3e-2,
    "int4": 3e-2,
}
TEXT = "Three agents discuss a question. Each answers, reads what the others answered, and answers again. "
READ, NEW = 24, 6  # tokens of the prompt and of a reply, at most
WHAT_TO_DO = "use an attention-based causal language model"


class Said(NamedTuple):
    """A turn of a chat; a number stands for a message."""

    role: str
    parts: tuple[str | int, ...]


Prompt = tuple[int, ...]
Pair = tuple[torch.Tensor, torch.Tensor]
Found = tuple[bool | None, str]
"""True, False, or None for a fact that is neither; and the result, with what to do if it is wrong."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The context of the checks: a prompt, and the results of the model alone, without our engine."""

    loaded: LoadedModel
    prompt: Prompt
    fresh: Engine
    """An engine that reuses nothing."""

    @classmethod
    def of(cls, loaded: LoadedModel) -> Trial:
        """Take a prompt that fits in the model's context."""
        length = min(READ, (loaded.network.context or 2 * READ) // 2)
        return cls(loaded, loaded.chat.ids(TEXT)[:length], loaded.engine.twin(reuse=False))

    def embeddings(self) -> Found:
        """Check that a prompt of embedding rows is read as its tokens are."""
        if layers_read_ids(self.loaded.model):
            return None, f"not tested: {LAYERS_READ_IDS}, so cipher is refused"
        rows = Rows(self.loaded.network.embed(torch.tensor(self.prompt, device=self.loaded.network.device)).detach())
        return self._close((self._after(self.fresh.run(self._request(rows)))[0], self._plain(self.prompt)))

    def batch(self) -> Found:
        """Check two prompts of different lengths in one batch, and a step after each, against the model alone."""
        prompts = (self.prompt, self.prompt[: len(self.prompt) // 2])
        replies = self.fresh.run_all([self._request(Ids(prompt), 2) for prompt in prompts])
        pairs: list[Pair] = []
        for prompt, reply in zip(prompts, replies, strict=True):
            for i, found in enumerate(self._after(reply)):
                pairs.append((found, self._plain((*prompt, *reply.ids[:i]))))
        return self._close(*pairs)

    def reused(self) -> Found:
        """Check a prompt, its reply and more tokens, read with cached prefixes, against all of it read at once."""
        longer = (*self.prompt, *self._reply(Feed()).ids, *self.prompt[:2])
        reply = self.loaded.engine.run(self._request(Ids(longer)))
        ok, detail = self._close((self._after(reply)[0], self._plain(longer)))
        return ok, f"{detail}; {reply.usage.reused} of {len(longer)} positions reused" if ok else detail

    def cold(self) -> Found:
        """Check that means at temperature 0 are the tokens of a greedy reply."""
        if layers_read_ids(self.loaded.model):
            return None, f"not tested: {LAYERS_READ_IDS}, so cipher is refused"
        words, means = self._reply(Feed()), self._reply(Feed("mean"))
        pairs = zip(words.ids, means.ids, strict=False)
        same = next((i for i, (word, mean) in enumerate(pairs) if word != mean), len(words.ids))
        if same == len(words.ids):
            return True, f"{same} of {same} tokens"
        assert words.stats is not None, "requested"
        best, second = words.stats.top_logprobs[same].tolist()
        margin = (best - second) / float(self._plain(self.prompt).abs().max())
        detail = f"{same} of {len(words.ids)} tokens; then the two best were apart by {margin:.1e} of their scale"
        tie = margin <= self._allowed
        return tie, f"{detail}: a tie" if tie else f"{detail}; use nl or sde with this model"

    @property
    def _allowed(self) -> float:
        return TOLERANCE.get(self.loaded.format, TOLERANCE["bfloat16"])

    def _reply(self, feed: Feed) -> Reply:
        request = Request((Ids(self.prompt),), Stop(NEW), feed=feed, record=Record(stats=True, top=2))
        return self.loaded.engine.run(request)

    def _request(self, prompt: Ids | Rows, new: int = 1) -> Request:
        return Request((prompt,), Stop(new), record=Record(stats=True, top=len(self.loaded.table)))

    def _after(self, reply: Reply) -> torch.Tensor:
        """Return the log-probabilities (n, V) before each token of a reply, in the order of the ids."""
        assert reply.stats is not None, "requested"
        whole = torch.empty(len(reply.ids), len(self.loaded.table))
        return whole.scatter_(1, reply.stats.top_ids, reply.stats.top_logprobs)

    @torch.inference_mode()
    def _plain(self, prompt: Prompt) -> torch.Tensor:
        """Return the log-probabilities (V,) after a prompt, from the model alone."""
        ids = torch.tensor([prompt], device=self.loaded.network.device)
        logits: torch.Tensor = self.loaded.model(input_ids=ids, use_cache=False).logits
        return logits[0, -1, : len(self.loaded.table)].float().log_softmax(-1).cpu()

    def _close(self, *pairs: Pair) -> Found:
        apart = max(float((found - right).abs().max() / right.abs().max()) for found, right in pairs)
        detail = f"apart by {apart:.1e} of their scale; {self._allowed:g} allowed in {self.loaded.format}"
        if apart <= self._allowed:  # false for NaN too
            return True, detail
        half = "load it in float32, or " if self._allowed > TOLERANCE["float32"] else ""
        return False, f"{detail}; {half}{WHAT_TO_DO}"


CHECKS: Mapping[str, Callable[[Trial], Found]] = {
    "ids = embeddings": Trial.embeddings,
    "batch = single": Trial.batch,
    "reused = fresh": Trial.reused,
    "cold cipher = greedy": Trial.cold,
}
