"""llama.cpp as a rival, through `llama-cpp-python` if installed: greedy, all sequences in one batch.

It reads a GGUF file itself, and its own kernels multiply packed weights by packed activations.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 2048  # positions of all sequences together


def installed() -> bool:
    """Return whether llama.cpp is installed."""
    return find_spec("llama_cpp") is not None


class LlamaCpp:
    """A GGUF file loaded with a context for `batch` sequences."""

    def __init__(self, file: Path, batch: int, threads: int) -> None:
        import llama_cpp  # type: ignore[import-not-found]  # an optional rival, not a dependency

        self._api: Any = llama_cpp  # Any: ctypes, mostly untyped
        self._api.llama_log_set(_silent(llama_cpp), None)
        self._api.llama_backend_init()
        self._model = self._api.llama_model_load_from_file(str(file).encode(), self._api.llama_model_default_params())
        size = self._api.llama_context_default_params()
        size.n_ctx = size.n_batch = size.n_ubatch = LONGEST * max(batch // 8, 1)
        size.n_seq_max, size.n_threads, size.n_threads_batch, size.no_perf = batch, threads, threads, True
        size.kv_unified = True
        self._context = self._api.llama_init_from_model(self._model, size)
        self._vocabulary = self._api.llama_vocab_n_tokens(self._api.llama_model_get_vocab(self._model))

    def generate(self, prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
        """Return `new` tokens after each prompt, ignoring end-of-sequence tokens."""
        api = self._api
        api.llama_memory_clear(api.llama_get_memory(self._context), True)
        chosen = self._pass(
            [(i, at, id, at == len(ids) - 1) for i, ids in enumerate(prompts) for at, id in enumerate(ids)]
        )
        made = [[id] for id in chosen]
        for step in range(new - 1):
            chosen = self._pass([(i, len(ids) + step, made[i][-1], True) for i, ids in enumerate(prompts)])
            for ids, id in zip(made, chosen, strict=True):
                ids.append(id)
        return made

    def _pass(self, read: Sequence[tuple[int, int, int, bool]]) -> list[int]:
        """Read (sequence, position, id, whether to return logits), and return the best id at each of the latter."""
        batch = self._api.llama_batch_init(len(read), 0, 1)
        batch.n_tokens = len(read)
        for j, (sequence, position, id, counts) in enumerate(read):
            batch.token[j], batch.pos[j], batch.logits[j] = id, position, counts
            batch.n_seq_id[j], batch.seq_id[j][0] = 1, sequence
        failed = self._api.llama_decode(self._context, batch)
        self._api.llama_batch_free(batch)
        if failed:
            raise RuntimeError(f"llama_decode returned {failed}")
        return [self._best(j) for j, (*_, counts) in enumerate(read) if counts]

    def _best(self, j: int) -> int:
        logits = self._api.llama_get_logits_ith(self._context, j)
        return int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())


def _silent(api: Any) -> Any:  # Any: a ctypes callback, which must outlive its use
    global _callback
    _callback = api.llama_log_callback(lambda level, text, data: None)
    return _callback


_callback: Any = None
