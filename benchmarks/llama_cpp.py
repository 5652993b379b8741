"""llama.cpp as a rival, through `llama-cpp-python` where that is installed: greedy, one thread, sequences in one batch.

It reads a GGUF file itself, with products of its own that multiply packed weights by packed activations.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 2048  # positions of all sequences together


def installed() -> bool:
    """Whether there is a llama.cpp to run against."""
    return find_spec("llama_cpp") is not None


class LlamaCpp:
    """One file with a context for so many sequences."""

    def __init__(self, file: Path, batch: int, threads: int) -> None:
        import llama_cpp  # type: ignore[import-not-found]  # no dependency: whoever compares installs it

        self._api: Any = llama_cpp  # Any: ctypes, of which it types little
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
        """As many new tokens after each prompt, whatever they are."""
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
        """Read (sequence, position, id, whether its logits count), and take the best after those that count."""
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
    global _kept
    _kept = api.llama_log_callback(lambda level, text, data: None)
    return _kept


_kept: Any = None
