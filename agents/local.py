"""`LocalModel`: a local model as an agent, from a request's turns to a message.

The protocol encodes the turns, the engine generates, and the protocol records the reply, whose payload is stored. Work
that waits for files leaves an application's event loop (`off_loop`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sottovoce.agents.ask import CUT, WORDS, Ask
from sottovoce.agents.thinking import Thoughts, reply_behind, request_for, skipped, thoughts_of
from sottovoce.channels import create
from sottovoce.channels.message import Message, MessageRef, Part, Turn, with_readable_payloads, words
from sottovoce.channels.options import LONGEST_REPLY
from sottovoce.channels.payload import degeneration, repeated, surprise
from sottovoce.core.any_types import Keywords, Unimported
from sottovoce.core.bounds import Size, Thinking
from sottovoce.core.errors import LateReply, PayloadError
from sottovoce.core.event_loop import off_loop
from sottovoce.core.text import one_line
from sottovoce.core.thoughts import Markers, most_thoughts
from sottovoce.prompts import TRAINED
from sottovoce.prompts.structured import encodable

if TYPE_CHECKING:
    from sottovoce.channels.payload import Payload
    from sottovoce.channels.protocol import Prompt, Protocol
    from sottovoce.channels.store import PayloadRef, PayloadStore
    from sottovoce.models import LoadedModel, Reply, Request, Sampling

SMALL = 1_000_000_000
"""Parameters below which a model is small: it would copy a request for a marked line, so it is asked for a sentence."""
CACHED = ("loaded", "channel", "payloads")
"""Properties that a copy computes for itself, from fields that may be others."""
SAMPLED = ("temperature", "top_p", "top_k", "repetition_penalty")
Grew = Callable[[str], None]
"""Takes the text of a reply so far, each time it grows; it is called from the engine's thread."""


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt as the model reads it."""

    prompt: Prompt
    start: Turn
    """The prefill of the reply."""
    loaded: LoadedModel
    """The model; with tools, one whose chat template shows them."""
    notes: tuple[str, ...]
    """A note on each message that is read in words, since its payload is lost."""


class LocalModel(BaseModel):
    """A local causal language model that hears and speaks by a protocol.

    Values left None are the model's own defaults. The thoughts of a model that thinks are not part of a reply's text;
    their tokens count apart from `max_tokens`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    model: str = "bundled"
    """`bundled`, a pulled model, a folder, a GGUF file, or a hub id."""
    protocol: str = WORDS
    options: dict[str, Keywords] = Field(default_factory=dict)
    """Options of the protocol: compat, layers, inject, partial, ..."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    max_tokens: int = LONGEST_REPLY
    stop: list[str] | None = None
    seed: int | None = None
    """The seed of every call; None draws a new one each time."""
    timeout: float | None = None
    """Seconds after which a call is aborted and its resources are freed."""
    dtype: str = "auto"
    weights: str = "auto"
    device: str | dict[str, int | str] = "auto"
    """The device, as for `sottovoce.models.load`."""
    thinking: Thinking | None = None
    """True or False for thoughts before replies, or their maximum number of tokens; None is the default."""
    thinking_markers: tuple[str, str] | None = None
    """The markers that open and close its thoughts, if no known family has them."""
    brief: bool = False
    """True if its replies are so short that a model with a switch for thinking does not think by default."""
    share_thoughts: bool = False
    """True if others hear its thoughts: their payload then is the protocol's, and otherwise has statistics alone."""
    memory: Size | None = None
    """Bytes, or a size like "4GB", for keys and values; None is a share of the free memory."""
    exact: bool = False
    """Bitwise equal results whatever runs at the same time, at the cost of full batches; for float32 on a CPU.

    Agents of one model that differ in `memory` or `exact` share its weights but not its engine.
    """
    # Any: a LoadedModel; naming its type would import torch
    preloaded: Any = Field(default=None, repr=False, exclude=True)
    """A model that is already loaded, to use instead of loading `model`."""
    store: Unimported = Field(default=None, repr=False, exclude=True)
    """The store of payloads; None is the default folder."""
    # Any: LocalModels; the type would be recursive
    hearers: tuple[Any, ...] = Field(default=(), repr=False, exclude=True)
    """The models of the agents that will hear this one."""

    @cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model, shared by all agents with the same name of a model."""
        from sottovoce.models import load

        _ = self.channel  # wrong options are refused before a model is loaded
        loaded: LoadedModel = self.preloaded or load(
            self.model,
            dtype=self.dtype,  # type: ignore[arg-type]  # checked by load
            weights=self.weights,  # type: ignore[arg-type]  # likewise
            device=self.device,
            memory=self.memory,
            exact=self.exact,
        )
        wish = None if self.thinking is None else self.thinking is not False
        if wish is None and self.brief and loaded.chat.switch:
            wish = False
        markers = Markers(*self.thinking_markers) if self.thinking_markers else None
        return loaded if wish is None and markers is None else loaded.thinking(wish, markers)

    @property
    def most_thoughts(self) -> int:
        """The limit of the thoughts before a reply, in tokens, or 0 if the model does not think."""
        block = self.loaded.chat.block
        return most_thoughts(self.thinking) if block and block.is_on else 0

    @property
    def pack(self) -> str | None:
        """The name of the prompt pack that the model was trained on, or None for any model but the bundled one."""
        trained = TRAINED.get(self.model)
        return trained.pack if trained else None

    @property
    def wording(self) -> Literal["short", "sentence"]:
        """The wording of requests for answers; small models would copy a request for a marked line."""
        return "sentence" if self.loaded.parameters < SMALL else "short"

    @cached_property
    def channel(self) -> Protocol:
        """The protocol with its options."""
        return create(self.protocol, **self.options)

    @cached_property
    def payloads(self) -> PayloadStore:
        """The store in use."""
        from sottovoce.channels.store import PayloadStore

        return self.store or PayloadStore()

    async def reply(self, ask: Ask, grew: Grew | None = None) -> Message:
        """Return the reply to a request, after storing its payload and that of its thoughts.

        Raises:
            LateReply: it took longer than `timeout`.
            ContextOverflow: the prompt has no room in the model's context.
            PayloadError: a heard message's payload is lost, and the settings do not allow to read it in words.
        """
        encoded = await off_loop(self.encode, ask)
        thoughts = await self._think(ask, encoded)
        request = await off_loop(self.request, ask, encoded, thoughts)
        return await off_loop(self.message, ask, await self._generated(request, grew), thoughts, encoded.notes)

    def encode(self, ask: Ask) -> EncodedPrompt:
        """Return the turns of a request as the model reads them."""
        loaded = ask.tools.loaded if ask.tools else self.loaded
        start = Turn("assistant", (ask.prefill,) if isinstance(ask.prefill, str) else ask.prefill)
        in_words = not self.channel.latent or (self.store is not None and self.store.on_missing == "words")
        *turns, start = with_readable_payloads([*ask.turns, start], self._load, in_words=in_words)
        pairs = zip(_messages(ask.turns), _messages(turns), strict=True)
        lost = [old for old, new in pairs if old.latent and not new.payload]
        notes = [f"read {each.agent} of round {each.round + 1} in words: its payload is lost" for each in lost]
        prompt = self.channel.encode_prompt(turns, loaded, self._load)
        return EncodedPrompt(prompt, start, loaded, tuple(dict.fromkeys(notes)))

    def heard_bytes(self, reference: MessageRef) -> float:
        """Return the bytes that it hears of a message besides its words, or 0 for words or a lost payload."""
        with suppress(PayloadError):
            return self.channel.heard_bytes(reference, self.loaded, self._load)
        return 0

    def request(self, ask: Ask, encoded: EncodedPrompt, thoughts: Thoughts | None = None) -> Request:
        """Return the engine's request for a reply, behind the thoughts of the model."""
        from sottovoce.models import Ids

        prompt = encoded.prompt.with_block(thoughts.block if thoughts else ())
        prompt = self.channel.with_prefill(prompt, encoded.start, self.loaded, self._load)
        if ask.tools and ask.tools.preface:
            prompt = prompt.with_encoded(Ids(ask.tools.preface))
        plain = prompt.request(
            self.loaded,
            0 if self._is_silent(ask) else self._longest(ask),
            self.sampling(ask),
            stop=ask.stop or tuple(self.stop or ()),
            prefill=encoded.start.text,
            form=ask.tools.form if ask.tools else ask.response_format,
        )
        hearers = [hearer.loaded for hearer in self.hearers]
        request = reply_behind(self._spoken(ask).make_request(plain, self.loaded, hearers), self.loaded)
        if request.form is not None:
            self.loaded.engine.check(request)  # here, since the first format of a vocabulary takes a while
        return request

    def message(self, ask: Ask, reply: Reply, thoughts: Thoughts | None, notes: Sequence[str] = ()) -> Message:
        """Return a reply as a message, after storing its payload and that of its thoughts."""
        payload = self._spoken(ask).record_reply(reply, self.loaded)
        thoughts = thoughts if thoughts and thoughts.tokens else None
        spoken = self.payloads.put(thoughts.payload) if thoughts and thoughts.payload else None
        at_limit = reply.finish == "length"
        marks = "" if ask.tools else self._marks(payload)
        signs = [*degeneration(payload), self._latent_steps(payload), thoughts.note if thoughts else "", marks]
        return Message(
            **ask.place._asdict(),
            text=encodable(payload.label.text),
            begun=words(ask.prefill),
            asked=ask.asked,
            payload=self.payloads.put(payload),
            ended="limit" if at_limit else "",
            cut=at_limit and not reply.complete,  # a format is complete where it could be written at the limit
            notes=(*filter(None, [CUT if at_limit else "", *signs]), *notes),
            stats={**summary(payload, self.sampling(ask).temperature), **_tokens(reply, thoughts)},
            thoughts=encodable(thoughts.text) if thoughts else "",
            thoughts_payload=spoken,
        )

    def sampling(self, ask: Ask) -> Sampling:
        """Return the sampling of a reply: as asked, else as set, else the model's own."""
        asked = {name: getattr(self, name) for name in SAMPLED}
        given = {"temperature": ask.temperature, **ask.sampling}
        asked |= {name: value for name, value in given.items() if value is not None}
        set_ = {name: value for name, value in asked.items() if value is not None}
        seed = self.seed if ask.seed is None else ask.seed
        return replace(
            self._spoken(ask).sampling(self.loaded), **set_, seed=secrets.randbits(63) if seed is None else seed
        )

    async def _think(self, ask: Ask, encoded: EncodedPrompt) -> Thoughts | None:
        """Return the thoughts before a reply, or their replacement, or None if there is neither."""
        if self._is_silent(ask):
            return None
        if not ask.thinks or not (most := self.most_thoughts):
            return skipped(self.loaded)
        recorder = self._recorder_of_thoughts(ask)
        record = recorder.to_record(self.loaded)
        record = replace(record, cache=("words",) if record.cache else ())
        reply = self._longest(ask) + len(self.loaded.chat.ids(words(ask.prefill)))
        request = request_for(encoded.prompt, self.loaded, self.sampling(ask), most, record, reply)
        if request is None:
            return skipped(self.loaded)
        return thoughts_of(await self._generated(request), self.loaded, recorder)

    async def _generated(self, request: Request, grew: Grew | None = None) -> Reply:
        """Wait for the engine's reply; the request is cancelled with the waiting task."""
        future = self.loaded.engine.submit(request, grew)
        try:
            async with asyncio.timeout(self.timeout) as scope:
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise LateReply(f"no reply within {self.timeout:g} s; raise `timeout` or lower `max_tokens`") from error
        finally:
            future.cancel()

    def _longest(self, ask: Ask) -> int:
        return self.max_tokens if ask.max_tokens is None else ask.max_tokens

    def _is_silent(self, ask: Ask) -> bool:
        return ask.silent and self._spoken(ask).silent

    def _spoken(self, ask: Ask) -> Protocol:
        """Return the protocol of a reply: the model's own, or words."""
        if ask.protocol in (None, self.protocol):
            return self.channel
        return create(ask.protocol, compat=self.channel.compat)

    def _recorder_of_thoughts(self, ask: Ask) -> Protocol:
        """Return the protocol that records thoughts: words if nobody hears them, or if they carry no more."""
        spoken = self._spoken(ask)
        if self.share_thoughts and not spoken.averages and spoken.carries_words:
            return spoken
        return create(WORDS, compat=self.channel.compat)

    def _load(self, ref: PayloadRef) -> Payload:
        return ref.load(self.store)

    def _latent_steps(self, payload: Payload) -> str:
        """Return a note on latent steps for readers: the tokens nearest to them, which nobody hears."""
        if (found := payload.tensors.get("thought_ids")) is None or not len(found):
            return ""
        text = self.loaded.detokenizer(special=True).text(tuple(found.tolist()))
        return f"thinks {len(found)} steps; the nearest tokens, which nobody hears: {one_line(text)!r}"

    def _marks(self, payload: Payload) -> str:
        """Return a note on tokens of a reply that no text can spell, such as role marks; its readers get them."""
        drawn = {*payload.ids}.difference(self.loaded.stop_ids)
        marks = [token.content for id, token in self.loaded.chat.marks.items() if id in drawn]
        return f"has tokens that no text can spell, read as generated: {', '.join(marks)}" if marks else ""


def summary(payload: Payload, temperature: float) -> dict[str, float]:
    """Return summary statistics for the state and the transcript: plain floats, most of them rounded to four digits."""
    from sottovoce.channels import shared_vocabulary  # late: it imports torch

    entropy, logprob = payload.tensors["entropy"], payload.tensors["logprob"]
    return {
        "temperature": float(temperature),
        **({"mean_nll": round(-float(logprob.mean()), 4)} if len(logprob) else {}),
        "mean_entropy": round(float(entropy.mean()), 4) if len(entropy) else 0.0,
        "max_entropy": round(float(entropy.max()), 4) if len(entropy) else 0.0,
        "repeated": round(repeated(payload.ids), 4),
        "surprise": round(surprise(payload), 4),
        **shared_vocabulary.measured(payload),
        **({"thoughts": float(len(thoughts))} if (thoughts := payload.tensors.get("thought_ids")) is not None else {}),
        **({"carried_bytes": float(payload.carried_bytes)} if payload.carried_bytes else {}),
    }


def _tokens(reply: Reply, thoughts: Thoughts | None) -> dict[str, float]:
    """Return the token counts of a reply; its prompt is the one before the thoughts."""
    used, reused = reply.usage.prompt, reply.usage.reused
    if thoughts:
        used, reused = thoughts.prompt, thoughts.reused
    counts: dict[str, float] = {"tokens_in": used, "tokens_reused": reused, "tokens_out": reply.usage.new}
    return counts | ({"tokens_thoughts": thoughts.tokens} if thoughts else {}) if used else {}


def _messages(turns: Sequence[Turn]) -> list[Message]:
    """Return the messages in a prompt that are heard whole."""
    parts: list[Part] = [part for turn in turns for part in turn.parts]
    return [part.message for part in parts if isinstance(part, MessageRef) and not part.in_public]
