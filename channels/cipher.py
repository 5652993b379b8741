"""The protocol cipher: an agent sends the mean embedding under its distribution instead of a sampled token.

CIPHER (arXiv 2310.06272): the next input is the mean of the embedding table under
softmax(logits / T), and the sequence of those means is the message. Its text is the nearest token
of each mean. The receiver reads the means themselves, in the space of its own table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from sottovoce.channels import shared_vocabulary
from sottovoce.channels.message import MessageRef
from sottovoce.channels.options import CipherOptions, CriterionAt, Partial
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Encoded, Protocol, payload_ids
from sottovoce.core.errors import ProtocolError
from sottovoce.models import Feed, LoadedModel, Reply, Request, Rows, Table, layers_read_ids

SPARSE = 16  # largest weights stored per position, as an approximation
THRESHOLDS = {"entropy": 1.869, "max": 0.8}  # from CIPHER's experiments; nats and probability


@dataclass(frozen=True)
class Weights:
    """Averaging weights of partial CIPHER: the distribution where uncertain, else the argmax.

    The criterion is computed at temperature one, as in the published code, or on the averaged
    distribution, as in the paper: entropy >= threshold or largest probability <= threshold means
    uncertain. The reversed variants average where the model is certain.
    """

    criterion: Partial
    threshold: float
    at: CriterionAt = "one"
    true_one_hot: bool = True
    max_at_threshold: Literal["averaged", "greedy"] = "averaged"
    """The case of the largest probability equal to the threshold: the published code decodes greedily from there."""

    def __call__(self, logits: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        """Return averaging weights (b, V) from logits (b, V) and probabilities (b, V) at the agent's temperature."""
        q, by_entropy = logits.softmax(-1) if self.at == "one" else p, self.criterion.startswith("entropy")
        level = -(q * q.clamp_min(torch.finfo(q.dtype).tiny).log()).sum(-1) if by_entropy else q.amax(-1)
        level = level[:, None]
        at_most = torch.lt if self.max_at_threshold == "greedy" else torch.le
        uncertain = level >= self.threshold if by_entropy else at_most(level, self.threshold)
        average = ~uncertain if self.criterion.endswith("reversed") else uncertain
        if self.true_one_hot:
            certain = torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(p)
        else:  # the published code's mask: not one-hot if several tokens, or none, reach the level
            certain = (p >= level).to(p)
        return torch.where(average, p, certain)


class Cipher(Protocol):
    """The protocol of expected embeddings."""

    Options = CipherOptions
    options: CipherOptions
    name: ClassVar[str] = "cipher"
    averages: ClassVar[bool] = True
    final_rule: ClassVar[str] = "lowest_temperature"
    ignores: ClassVar[tuple[str, ...]] = ("top_p", "top_k", "repetition_penalty")
    _special: ClassVar[bool] = True

    def temperature(self, i: int, n: int, default: float) -> float:
        """Return (i + 1)/n of the model's default for agent i of n (as in SDE's code for its CIPHER runs)."""
        return default * (i + 1) / n

    def check(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        """Require one vocabulary of both models, or shared tokens; embedding tables and hidden sizes may differ."""
        _check_rows(speaker)
        _check_rows(hearer)
        if speaker.vocabulary_key == hearer.vocabulary_key:
            return None
        if not self.options.shared_vocabulary:
            raise ProtocolError(
                f"cipher needs one vocabulary, but {speaker.name!r} ({len(speaker.table)} tokens) and "
                f"{hearer.name!r} ({len(hearer.table)} tokens) have different ones",
                "use models that share a tokenizer, add `shared_vocabulary=True`, or carry that edge in words with "
                "`fallback='nl'`",
            )
        share = shared_vocabulary.between(speaker, hearer).share
        return (
            f"by cipher over the shared vocabulary: {share:.0%} of the tokens of {speaker.name!r} are shared, the rest "
            "is heard as words, which is outside the paper"
        )

    def make_request(self, plain: Request, loaded: LoadedModel, hearers: Sequence[LoadedModel] = ()) -> Request:
        """Return a request for mean embeddings at the agent's temperature, which records the sparse distribution too.

        Other logits processors have no effect.
        """
        _check_rows(loaded)
        cold = plain.sampling.temperature == 0 and not self.rules.cold_is_one_hot
        eos = loaded.stop_ids[:1] if loaded.eos is None else (loaded.eos,)
        stop = replace(
            plain.stop,
            ids=loaded.stop_ids if self.rules.every_eos else eos,
            by=self.rules.stop_by,
            keep=self.rules.keep_stop_row,
            special=self._special,
        )
        request = super().make_request(plain, loaded, hearers)
        return replace(
            request,
            stop=stop,
            record=replace(request.record, sparse=SPARSE),
            feed=Feed("mean", self._weigh(), self._tables(loaded, hearers)),
            sampling=replace(plain.sampling, temperature=1.0) if cold else plain.sampling,
        )

    def payload_tensors(self, reply: Reply, loaded: LoadedModel) -> dict[str, torch.Tensor]:
        """Return rows in every receiver's space, those over shared vocabularies by name, and the sparse weights."""
        prefix = shared_vocabulary.SHARED
        carried = {key if key.startswith(prefix) else f"rows.{key}": rows for key, rows in reply.rows.items()}
        if reply.sparse is not None:
            carried |= {f"sparse.{name}": getattr(reply.sparse, name) for name in ("ids", "weights", "covered")}
        return carried

    def encode_message(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return rows in the hearer's space, computed from the sparse distribution if it was not a known receiver."""
        rows = payload.rows_over(loaded.table)
        if rows is None:  # a message in words, or of another protocol
            return payload_ids(reference, payload), ()
        return Rows(rows[payload.tokens(reference.spans)]), ()

    def encode_across_vocabularies(self, reference: MessageRef, payload: Payload, loaded: LoadedModel) -> Encoded:
        """Return rows over the shared vocabulary, and words elsewhere."""
        means = shared_vocabulary.mean_rows(payload, loaded) if self.options.shared_vocabulary else None
        if means is None:
            return super().encode_across_vocabularies(reference, payload, loaded)
        return Rows(shared_vocabulary.read_rows(payload, means, payload.tokens(reference.spans), loaded)), ()

    def _tables(self, loaded: LoadedModel, hearers: Sequence[LoadedModel]) -> tuple[Table, ...]:
        """Return the tables of hearers other than the speaker's own; of other vocabularies those of shared tokens."""
        tables = list[Table]()
        for hearer in hearers:
            if hearer.vocabulary_key == loaded.vocabulary_key:
                tables.append(hearer.table)
            elif self.options.shared_vocabulary:
                with suppress(ProtocolError):  # `check` has reported it: that edge uses words
                    tables.append(shared_vocabulary.between(loaded, hearer).table)
        return tuple({table.key: table for table in tables if table.key != loaded.table.key}.values())

    def _weigh(self) -> Weights | None:
        options = self.options
        if options.partial is None:
            return None
        usual = THRESHOLDS[options.partial.removesuffix("_reversed")]
        threshold = usual if options.threshold is None else options.threshold
        return Weights(
            options.partial, threshold, options.partial_at, self.rules.true_one_hot, self.rules.max_at_threshold
        )


def _check_rows(loaded: LoadedModel) -> None:
    """Refuse a model that cannot read embeddings alone, because its layers also use token ids."""
    if layers_read_ids(loaded.model):
        raise ProtocolError(
            f"cipher feeds embeddings, but the layers of {loaded.name!r} also need token ids",
            "use nl, sde or hidden",
        )
