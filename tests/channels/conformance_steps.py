"""Steps and models of the conformance tests: ask, run and record with one protocol, and compare what comes out."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import dropwhile, zip_longest
from typing import Any, Literal
from unittest import SkipTest  # pytest reads it as a skip

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from sottovoce.channels.compress import is_carried
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.store import PayloadRef
from sottovoce.core.errors import ProtocolError, UsageError
from sottovoce.models import Cached, Ids, LoadedModel, Reply, Request, Rows, Sampling, assemble, load, tensor_digest
from sottovoce.models.huggingface.layers import is_idle

Difference = Literal["other weights", "other shape", "other vocabulary"]
"""The differences between a hearer and the speaker; all else is equal, except that weights differ in all three."""
DIFFERENCES: tuple[Difference, ...] = ("other weights", "other shape", "other vocabulary")

QUESTION, OTHER_QUESTION = "What is 14 + 3 * 5 - 7?", "What is 8 * 9 + 1?"
BEFORE, AFTER = "Another agent answered:\n", "\nWhat is right?"
WORDS = 8  # tokens that an agent of these tests may say
ENOUGH = 4  # tokens that a message needs so that a part of it can be heard
WARM = 1.5  # the bundled model is certain about sums: a temperature at which means are not table rows
SPREAD = 0.1  # standard deviation of random weights; with the default 0.02 distributions are nearly flat
FLOAT32 = 2e-5  # tolerance, relative to the largest magnitude, for other orders of float32 sums (as in the engine)


class ProtocolSteps:
    """Attributes that a subclass sets, and steps that the tests share."""

    refuses: Collection[Difference] = ()
    """The differences between hearer and speaker with which `check` refuses an edge."""
    retokenises: bool = False
    """True if a message and the words around it are tokenized together, as text (nl's `reference`)."""

    @property
    def protocol(self) -> Protocol:
        """The protocol under test; a subclass must set it."""
        raise NotImplementedError(f"{type(self).__name__} sets no protocol; write `protocol = YourProtocol()` in it")

    @property
    def loaded(self) -> LoadedModel:
        """The model that speaks and hears: the bundled one."""
        return bundled()

    def different(self, difference: Difference) -> LoadedModel:
        """Return a model that differs from `loaded`; override both together."""
        return different_model(difference)

    def demand(self, condition: object, message: str) -> None:
        """Raise an AssertionError with what was found, what was expected and what to do, unless the promise is kept."""
        if not condition:  # no assert statement: under `python -O` everything would pass
            raise AssertionError(f"{self.protocol.name}: {message}")

    def equal(self, actual: object, expected: object, name: str, to_do: str) -> None:
        """Fail unless two values are equal; for two prompts, report their first difference."""
        left, right, where = actual, expected, ""
        if isinstance(actual, list) and isinstance(expected, list):
            pairs = enumerate(zip_longest(actual, expected, fillvalue="nothing"))
            at, (left, right) = next((item for item in pairs if item[1][0] != item[1][1]), (0, ("", "")))
            where = f" position {at} of {len(actual)} (expected {len(expected)})"
        self.demand(actual == expected, f"{name}:{where} found {left}; expected {right}: {to_do}")

    def request(
        self,
        protocol: Protocol,
        turns: Sequence[Turn],
        loaded: LoadedModel,
        max_new: int = WORDS,
        temperature: float = WARM,
        stop: tuple[str, ...] = (),
        hearers: Sequence[LoadedModel] = (),
    ) -> Request:
        """Return the request for a reply, sampled with a fixed seed."""
        sampling = Sampling(temperature, seed=7)
        plain = protocol.encode_prompt(turns, loaded, self.load).request(loaded, max_new, sampling, stop=stop)
        return protocol.make_request(plain, loaded, hearers)

    def ask(self, *turns: Turn, loaded: LoadedModel | None = None, **how: Any) -> Request:
        """Lower a chat to a request, and check that it fits its model."""
        loaded = loaded or self.loaded
        try:
            request = self.request(self.protocol, turns, loaded, **how)
            loaded.engine.check(request)
        except Exception as error:  # a protocol's own code may raise anything
            heard = [part.message.agent for turn in turns for part in turn.parts if isinstance(part, MessageRef)]
            raise AssertionError(
                f"{self.protocol.name}: hearing {heard}: {error!r}; expected a request that {loaded.name!r} can run: "
                "fix `encode_message`, and read the ids of payloads of other protocols"
            ) from error
        return request

    def say(self, question: str = QUESTION, loaded: LoadedModel | None = None, **how: Any) -> Payload:
        """Ask, run and record; check that a default reply has enough tokens to cut."""
        loaded = loaded or self.loaded
        request = self.ask(Turn("user", (question,)), loaded=loaded, **how)
        payload = self.protocol.record_reply(loaded.engine.run(request), loaded)
        few = f"{loaded.name!r} said {len(payload)} tokens to {question!r}; expected {ENOUGH}: give another `loaded`"
        self.demand(how or len(payload) >= ENOUGH, few)
        return payload

    def message(self, payload: Payload | None = None, *, agent: str = "agent_1") -> Message:
        """Return a message whose payload is loaded from the bytes of its file; by default, a new reply."""
        payload = self.say() if payload is None else payload
        data = payload.to_bytes()
        ref = PayloadRef.of(payload, data)
        self._said[ref.sha256] = Payload.from_bytes(data)
        return Message(agent, 0, "answer", payload.label.text, payload=ref)

    @cached_property
    def _said(self) -> dict[str, Payload]:
        return {}

    def load(self, ref: PayloadRef) -> Payload:
        """Return the payload of a message."""
        return self._said[ref.sha256]

    def request_with(self, reference: MessageRef, *, loaded: LoadedModel | None = None, **how: Any) -> Request:
        """Return the request of an agent that reads a message between words."""
        return self.ask(Turn("user", (BEFORE, reference, AFTER)), loaded=loaded, **how)

    def read_positions(self, reference: MessageRef) -> list[str]:
        """Return the positions of a heard message, after checking that the words around it are unchanged."""
        if self.retokenises:
            raise SkipTest("the protocol tokenizes a message together with the words around it")
        chat, request = [Turn("user", (BEFORE, reference, AFTER))], self.request_with(reference)
        if any(isinstance(piece, Cached) for piece in besides(request).prompt):
            raise SkipTest("keys and values stand in place of the message's words")
        found = positions(besides(request) if self.protocol.hands_over else request)
        start = self.expected(chat, ["here"]).index("here")
        place = found[start : start + len(found) - len(self.expected(chat, []))]
        self.equal(found, self.expected(chat, place), "the words around a message", "edits count from its first token")
        return place

    def expected(self, chat: Sequence[Turn], *messages: Sequence[str]) -> list[str]:
        """Return the positions of a chat as its template renders it, with these positions for its messages."""
        places, read = iter(messages), list[str]()
        for piece in self.loaded.chat.encode(chat, pasted=self.protocol.latent and self.protocol.rules.pasted):
            read += of_words(piece) if isinstance(piece, tuple) else next(places)
        return read

    def _contains(self, words: str, request: Request, loaded: LoadedModel | None = None) -> None:
        loaded = loaded or self.loaded
        ids: list[int] = []
        for piece in request.prompt:
            if isinstance(piece, Cached):
                continue
            ids += piece.ids if isinstance(piece, Ids) else loaded.table.nearest(piece.rows).tolist()
        text = loaded.detokenizer(special=True).text(ids)
        self.demand(words in text, f"a prompt reads {text!r}; expected {words!r} in it: read its tokens, or its words")

    def _shaped(self, payload: Payload) -> None:
        n, layers = len(payload), len(payload.label.layers)
        if payload.positions is not None:
            sizes = {
                tensor.shape[-2] for name, tensor in payload.tensors.items() if name in ("keys", "values", "state")
            }
            self.equal(sizes, {payload.positions}, "the number of positions", "keep what the reply brings")
            return
        carried = {
            ".".join(name.split(".")[: 1 + name.startswith("rows.")]) for name in payload.tensors if is_carried(name)
        }
        for name in sorted(carried):
            read = payload.states if name == "states" else payload.rows(name.removeprefix("rows."))
            shape = (layers, n, self.loaded.network.hidden) if name == "states" else (n,)
            found = None if read is None else tuple(read.shape[: len(shape)])
            self.equal(found, shape, f"the shape of {name!r}", "keep what the reply brings")
            if name in payload.tensors and not getattr(self.protocol.options, "compresses", False):
                self.equal(payload.tensors[name].dtype, self.loaded.dtype, f"{name!r}", "keep what the reply brings")

    def _under(self, probe: str, reference: MessageRef) -> list[str] | None:
        """Return the positions under a probe; None if the protocol rightly refuses it (words, other vocabularies)."""
        try:
            protocol = type(self.protocol)(**{**self.protocol.options.model_dump(), "probe": probe})
            turns = [Turn("user", (BEFORE, reference, AFTER))]
            found = positions(self.request(protocol, turns, self.loaded))
        except UsageError:
            return None
        self.demand(protocol.latent, f"words alone took the probe {probe!r}; expected a refusal: call `__init__`")
        return found

    def _hooks(self) -> int:
        own = [
            hooks for each in self.loaded.model.modules() for hooks in (each._forward_hooks, each._forward_pre_hooks)
        ]
        return sum(not is_idle(hook) for hooks in own for hook in hooks.values())

    def _refusal(self, speaker: LoadedModel, hearer: LoadedModel) -> str | None:
        try:
            self.protocol.check(speaker, hearer)
        except ProtocolError as error:
            return str(error)
        except Exception as error:  # what else it may be is the question
            raise AssertionError(f"{self.protocol.name}: `check` raised {error!r}; expected a ProtocolError") from error
        return None


def positions(request: Request) -> list[str]:
    """Return what a model reads at each position of a prompt: a token or an embedding row, and added states."""
    read: list[str] = []
    for piece in request.prompt:
        if isinstance(piece, Cached):
            read += [f"position {i} of {piece.digest.hex()}" for i in range(len(piece))]
        else:
            rows = () if isinstance(piece, Ids) else piece.rows
            read += of_words(piece.ids) if isinstance(piece, Ids) else [f"row {tensor_digest(row)}" for row in rows]
    for edit in request.edits:
        for at, row in enumerate(edit.delta, start=edit.at):
            read[at] += f" with {tensor_digest(row)} added at layer {edit.layer}"
    return read


def besides(request: Request) -> Request:
    """Return a request without keys and values before its prompt, and without changes of its last position."""
    pieces = list(dropwhile(lambda piece: isinstance(piece, Cached), request.prompt))
    last = request.length - 1
    edits = tuple(edit for edit in request.edits if edit.at != last)
    return replace(request, prompt=tuple(pieces), edits=edits)


def of_words(ids: Sequence[int]) -> list[str]:
    """Return the positions of tokens without edits."""
    return [f"token {id}" for id in ids]


def is_latent(request: Request) -> bool:
    """Return whether a prompt has rows or edits besides tokens."""
    return bool(request.edits) or any(isinstance(piece, Rows | Cached) for piece in request.prompt)


def unlike(actual: Reply, expected: Reply) -> str:
    """Return how two replies differ beyond float32 rounding; empty if they do not."""
    if (actual.ids, actual.finish) != (expected.ids, expected.finish):
        return f"tokens {actual.ids} ({actual.finish}), expected {expected.ids} ({expected.finish})"
    ours, theirs = ({**reply.rows, **reply.states} for reply in (actual, expected))
    for name, tensor in theirs.items():
        room = FLOAT32 * (tensor.abs().max().item() if tensor.numel() else 0.0)
        if not torch.allclose(ours[name], tensor, rtol=0.0, atol=room):
            return f"rows of table or states of layer {name}"
    return ""


def bundled() -> LoadedModel:
    """Return the bundled model on the CPU, where the float32 tolerances hold."""
    return load(device="cpu")


@cache
def different_model(difference: Difference) -> LoadedModel:
    """Return a model with random weights that differs from the bundled one in this way."""
    loaded = bundled()
    config = copy.deepcopy(loaded.model.config)
    config.initializer_range = SPREAD
    if difference == "other shape":
        config.hidden_size = 96  # as many layers: a protocol may name some
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(DIFFERENCES.index(difference))
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    tokenizer = _renumbered(loaded.tokenizer) if difference == "other vocabulary" else loaded.tokenizer
    return assemble(difference, model, tokenizer)


def _renumbered(like: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    """Return a tokenizer with the same tokens under other ids, except special ones; all ids stay in range."""
    backend = json.loads(like.backend_tokenizer.to_str())
    vocabulary, special = backend["model"]["vocab"], set(like.added_tokens_decoder)
    ids = sorted(set(vocabulary.values()) - special)
    renumbered = dict(zip(ids, reversed(ids), strict=True))
    backend["model"]["vocab"] = {token: renumbered.get(id, id) for token, id in vocabulary.items()}
    again = Tokenizer.from_str(json.dumps(backend))
    names = {"eos_token": like.eos_token, "pad_token": like.pad_token, "chat_template": like.chat_template}
    return PreTrainedTokenizerFast(tokenizer_object=again, **names)
