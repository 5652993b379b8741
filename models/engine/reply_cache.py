"""Replies in the prefix cache, found again where prompts quote them: reuse of keys and values that is approximate.

As in RelayCaching (arXiv 2603.13289), the keys and values of a reply that were computed while it was generated are
pasted where another prompt quotes it, rotated to their new positions. They saw the speaker's prompt instead of the
reader's, so results differ a little from reading. The first quoted positions, which change most, are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from sottovoce.models.engine.prefix_cache import PrefixCache, chain
from sottovoce.models.engine.request import Cached, Quote, Reply
from sottovoce.models.engine.sequence import Job
from sottovoce.models.engine.sequence import Sequence as Speaking
from sottovoce.models.huggingface.embedding_table import tensor_digest

READ_FIRST = 8  # quoted positions that are read
MIN_PASTED = 8  # positions: shorter pieces are read
ENTRIES = 1024  # replies, before those that were evicted are dropped

Spoken = tuple[int, Sequence[bytes]]
"""The first position of a reply, and the digests of its positions that were read."""


def reply_digest(contents: Sequence[int] | torch.Tensor, logprob: torch.Tensor) -> bytes:
    """Return the name of a reply: its tokens, or its rows (n, E) if it is read as rows, and its log-probabilities (n,).

    The latter depend on all that the speaker had read, so that equal words in other discussions have other names.
    """
    read = contents if isinstance(contents, torch.Tensor) else torch.tensor(contents)
    return bytes.fromhex(tensor_digest(read, logprob))


@dataclass
class ReplyCache:
    """The places in the prefix cache of the replies of one engine."""

    prefixes: PrefixCache
    table_key: str
    """The key of the model's own embedding table, in whose rows it reads its own means."""
    _replies: dict[bytes, Spoken] = field(default_factory=dict)
    """The replies by name."""
    _full: int = ENTRIES

    def add(self, speaking: Speaking, reply: Reply, digests: Sequence[bytes]) -> None:
        """Note a reply whose sequence is in the prefix cache, under `digests`."""
        start = speaking.length + len(speaking.thoughts)
        if reply.stats is None or not digests[start:]:
            return
        if len(self._replies) >= self._full:
            self._replies = {name: at for name, at in self._replies.items() if self.prefixes.known(at[1])}
            self._full = max(ENTRIES, 2 * len(self._replies))
        contents = reply.rows.get(self.table_key) if reply.rows else reply.ids
        if contents is not None:
            name = reply_digest(contents, reply.stats.logprob)
            self._replies[name] = start, digests[start : start + len(reply.ids)]

    def resolve(self, job: Job) -> None:
        """Replace quotes of known replies in a prompt by their keys and values.

        A reply that continues what its speaker had read stays: the prefix cache has it as it is.
        """
        job.resolved, keys, blocks, at = True, list(job.keys), list[bytes](), 0
        for piece in job.request.prompt:
            quote = None if isinstance(piece, Cached) else piece.quote
            spoken = self._replies.get(quote.reply) if quote else None
            if quote and spoken and quote.at:
                blocks = chain(keys[: at + 1], 1, blocks)
                if blocks[-1] not in spoken[1]:
                    self._paste(job, keys, at, quote, spoken)
            at += len(piece)
        if job.quoted:
            job.keys, job.blocks = keys, chain(keys[:-1], 1, blocks)

    def _paste(self, job: Job, keys: list[bytes], at: int, quote: Quote, spoken: Spoken) -> None:
        """Add what is not read of a quote at prompt position `at`, if it is long enough, and change its keys."""
        start, known = spoken
        first = at + READ_FIRST
        end = min(at + len(quote.at), job.request.length - 1)  # the last position is read
        end = min([end, *(edit.at for edit in job.request.edits if edit.at + len(edit.delta) > first)])
        places = [place for place in quote.at[READ_FIRST : max(end - at, 0)] if place < len(known)]
        if len(places) < MIN_PASTED or places != [*range(places[0], places[-1] + 1)]:
            return
        digests = known[places[0] : places[-1] + 1]
        pages = self.prefixes.pages(digests, start + places[0])
        if pages is None:
            return
        (page,) = pages  # keys and values of all layers have one shape, and take turns
        none = page.new_zeros(0, page.shape[1], 1, page.shape[3])
        positions = torch.arange(start + places[0], start + places[-1] + 1)
        job.quoted.append((first, Cached(page[0::2], page[1::2], tuple(range(len(page) // 2)), positions, none, none)))
        keys[first : first + len(places)] = [b"q" + digest for digest in digests]
