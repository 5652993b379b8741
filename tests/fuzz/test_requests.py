"""Requests of every kind in one engine: each gets the reply that it gets alone, without lookup and prefix reuse."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import torch

from sottovoce.core.errors import SottovoceError
from sottovoce.core.response_format import Form
from sottovoce.models import Cached, Edit, Feed, Ids, LoadedModel, Piece, Record, Reply, Request, Rows, Sampling, Stop
from sottovoce.models.engine.cache import Limits, chain
from sottovoce.models.engine.lookup import Costs, Lookup
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.request import How, Thinking, position_keys
from sottovoce.models.engine.sampling import Draws, Uniforms
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.engine.sequence import Sequence
from tests.fuzz.cases import drawn, held
from tests.models.support import words
from tests.support import FLOAT32, HIDDEN, VOCABULARY, noise, same_reply, tiny_loaded

ROTARY = ("llama", "qwen2", "qwen3", "gpt_neox")
"""The families of which keys and values are handed over."""
EIGHT = (*ROTARY, "gemma2", "gpt2", "mistral-window", "opt-narrow")
TOGETHER = 10  # requests of a case
WITHIN = 1e-4  # of the scale of recorded numbers: what edits and latent inputs make of float32 rounding
FED_BACK = 1e-3  # likewise where means or thoughts are fed back
FREE = Costs((1, 0), (1, 0, 0), 1 << 10)  # checks that cost nothing are always made
FORMS = (
    Form(pattern="(ab|cd){4,9}"),
    Form.of_object("a", "aa"),
    Form(choices=("red red red red", "blue"), after="Answer:"),
    Form(choices=("yes", "no")),
)


class Likely(Lookup):
    """Proposals of the reply that is known, with some tokens changed."""

    known: tuple[int, ...] = ()

    def propose(self, said: Any, most: int) -> Any:
        ids = [(id + (at % 7 == 6)) % VOCABULARY for at, id in enumerate(self.known)]
        return ids[len(said) : len(said) + most], 0.9


class Expected(Sequence):
    """A sequence whose reply is likely to be a known one."""

    known: tuple[int, ...] = ()

    def start(self, *args: Any) -> None:
        super().start(*args)
        self.lookup = Likely(self.request.prompt)
        self.lookup.known = self.known


def piece(rng: random.Random, reply: Reply) -> Cached:
    """Keys and values of an earlier request as a piece of a prompt."""
    kept = reply.cache
    assert kept is not None
    layers = rng.choice([(0, 1), (0, 1), (0,), (1,)])
    rest = [layer for layer in (0, 1) if layer not in layers]
    first = kept.keys[rest, :, :1], kept.values[rest, :, :1]
    turned, causal = rng.random() < 0.8, rng.random() < 0.8
    found = Cached(kept.keys[[*layers]], kept.values[[*layers]], layers, kept.at, *first, turned, kept.masked, causal)
    return found if rng.random() < 0.7 else found.without_first()


def sibling(rng: random.Random, asked: Request) -> Request:
    """An earlier request with the same tensors, some of which act in another way."""

    def changed(each: Piece) -> Piece:
        if not isinstance(each, Cached):
            return each
        lacking = noise(2, len(each), seed=rng.randrange(99)) > 1
        ways: list[dict[str, Any]] = [{"turned": not each.turned}, {"causal": not each.causal}, {"masked": lacking}]
        return replace(each, **rng.choice(ways))

    hows: list[How] = ["add", "replace", "mean"]
    edits = tuple(replace(each, how=rng.choice(hows)) for each in asked.edits)
    return replace(asked, prompt=tuple(map(changed, asked.prompt)), edits=edits)


def request(rng: random.Random, family: str, loaded: LoadedModel, before: list[tuple[Request, Reply]]) -> Request:
    """Any request; some begin as earlier ones did, with their replies or their keys and values."""
    prompt: list[Piece] = [words(rng.choice([8, 20, 40]), seed=rng.randrange(3))]
    earlier = [(asked, reply) for asked, reply in before if asked.longest < 120]
    told = [asked for asked, _ in before if asked.edits or asked.cached]
    if told and rng.random() < 0.2:
        return sibling(rng, rng.choice(told))
    handed = [reply for _, reply in earlier if reply.cache is not None]
    if earlier and rng.random() < 0.3:
        asked, reply = rng.choice(earlier)
        prompt = [*asked.prompt, Ids(reply.ids)]
    if handed and rng.random() < 0.6:
        prompt.insert(rng.choice([0, len(prompt)]), piece(rng, rng.choice(handed)))
    if rng.random() < 0.2:
        prompt.append(Rows(noise(rng.randint(1, 9), loaded.table.width, seed=rng.randrange(5))))
    prompt.append(words(rng.randint(1, 12), seed=rng.randrange(20)))
    edits = []
    while rng.random() < 0.25 and not any(isinstance(each, Cached) for each in prompt):
        n = rng.randint(1, min(3, sum(map(len, prompt))))
        at = rng.randrange(sum(map(len, prompt)) - n + 1)
        how: How = rng.choice(["add", "add", "replace", "mean"])
        edits.append(Edit(rng.randrange(2), at, noise(n, HIDDEN, seed=rng.randrange(9)), how))
    feed = Feed(rng.choice(["token", "token", "token", "mean"]))
    sampling = Sampling(
        rng.choice([0.0, 0.0, 0.8]), rng.choice([1.0, 0.9]), rng.choice([0, 20]), 1.0, seed=rng.randrange(2**40)
    )
    n = rng.randint(1, 3) if feed.kind == "mean" else rng.choice([1, 4, 12, 24])
    way = rng.randrange(8)
    stop, form = Stop(n, special=rng.random() < 0.2), None
    if way == 0:
        stop = replace(stop, ids=tuple(rng.sample(range(VOCABULARY), 40)), keep=rng.random() < 0.3)
    elif way == 1:
        stop = replace(stop, texts=("a", "is", " p"))
    elif way == 2:
        form, stop, feed = rng.choice(FORMS), Stop(60, (0, 2)), Feed()
    elif way == 3 and feed.kind == "token":
        sampling = replace(sampling, repetition_penalty=rng.choice([0.8, 1.2]))
    thinks = family != "opt-narrow" and form is None and rng.random() < 0.1
    record = Record(rng.choice([(), (0, 1)]), rng.random() < 0.3, True, VOCABULARY)
    if family in ROTARY and rng.random() < 0.7:
        record = replace(record, cache=rng.choice([("received", "prompt", "words"), ("prompt",), ("words",)]))
    banned = tuple(rng.sample(range(3, VOCABULARY), 50)) if form is None and rng.random() < 0.2 else ()
    thinking = Thinking(rng.randint(1, 3), 1.0) if thinks else None
    return Request(tuple(prompt), stop, tuple(edits), feed, sampling, record, form, thinking, banned)


def looped(loaded: LoadedModel, limits: Limits, *, overlap: bool = False) -> Loop:
    loop = Loop(loaded.network, limits, Statistics(), overlap)
    loop.scheduler.costs = FREE
    return loop


def in_company(
    rng: random.Random, loop: Loop, loaded: LoadedModel, expected: list[tuple[Request, Reply]]
) -> list[tuple[Sequence, list[str]]]:
    """Run requests that arrive at any pass; some are cancelled at any other. Return them with what was streamed."""
    started, waiting = list[tuple[Sequence, list[str]]](), expected[:]
    while waiting or loop.scheduler.busy:
        while waiting and (not loop.scheduler.busy or rng.random() < 0.3):
            asked, reply = waiting.pop(0)
            keys, shown = position_keys(asked, loaded.table.rows.dtype), list[str]()
            listener = shown.append if rng.random() < 0.4 else None
            kind = Expected if rng.random() < 0.7 else Sequence
            sequence = kind(asked, loaded.tokenizer, keys, chain(keys[:-1], 1), loaded.engine.check(asked), listener)
            if isinstance(sequence, Expected):
                sequence.known = reply.ids
            started.append((sequence, shown))
            loop.scheduler.waiting.append(sequence)
        if rng.random() < 0.02:
            rng.choice(started)[0].future.cancel()
        loop.step()
    return started


def unsure(asked: Request, found: Reply, alone: Reply) -> bool:
    """Whether rounding decides between the first two tokens that differ: by logits, or by the number that is drawn."""
    assert alone.stats is not None
    at = next((i for i, pair in enumerate(zip(found.ids, alone.ids, strict=False)) if pair[0] != pair[1]), None)
    if at is None or asked.feed.kind == "mean":
        return False
    logits = torch.empty(VOCABULARY).index_copy(0, alone.stats.top_ids[at], alone.stats.top_logprobs[at])
    margin = FLOAT32 * (logits.max() - logits.min())
    if asked.sampling.temperature == 0:
        return bool((logits[found.ids[at]] - logits[alone.ids[at]]).abs() < margin)
    u, draws = Uniforms(asked.sampling.seed).at(at), Draws([asked.sampling], torch.device("cpu"))
    return found.ids[at] in [int(draws(logits[None], torch.tensor([u + way * margin]))) for way in (-1, 1)]


@drawn("requests")
def test_each_request_gets_the_reply_that_it_gets_alone(seeds: range) -> None:
    passes = Statistics()

    def case(rng: random.Random) -> None:
        family = rng.choice(EIGHT)
        loaded = tiny_loaded(family, seed=10)
        single, expected = looped(loaded, Limits(1, 1 << 24, reuse=False, lookup=False)), list[tuple[Request, Reply]]()
        for _ in range(TOGETHER):
            asked = request(rng, family, loaded, expected)
            alone = Sequence(asked, loaded.tokenizer, grammar=loaded.engine.check(asked))
            single.scheduler.waiting.append(alone)
            while single.scheduler.busy:
                single.step()
            expected.append((asked, alone.future.result()))
        limits = Limits(rng.choice([2, 4, 8]), rng.choice([1 << 18, 1 << 24]))
        loop = looped(loaded, limits, overlap=rng.random() < 0.5)

        ended = in_company(rng, loop, loaded, expected)

        text = {special: loaded.detokenizer(special=special).text for special in (True, False)}
        for (sequence, shown), (asked, reply) in zip(ended, expected, strict=True):
            if sequence.future.cancelled():
                continue
            found = sequence.future.result()
            within = WITHIN if asked.feed.kind == "token" and not asked.thinking else FED_BACK
            assert same_reply(found, reply, within) or unsure(asked, found, reply), (family, asked, found, reply)
            assert not shown or shown[-1] == text[asked.stop.special](found.ids)
        statistics = loop.scheduler._statistics
        passes.reused += statistics.reused
        passes.accepted += statistics.accepted

    def without_error(rng: random.Random) -> None:
        try:
            case(rng)
        except SottovoceError as error:
            raise AssertionError("no request here may fail") from error

    held("requests", seeds, without_error)
    assert passes.reused > len(seeds) and passes.accepted > len(seeds)
