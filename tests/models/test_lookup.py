"""Tokens that are proposed from what was said before change no reply: they only make it come in fewer passes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from sottovoce.core.response_format import Form
from sottovoce.models import Cached, Feed, Ids, LoadedModel, Record, Reply, Request, Rows, Sampling, Stop
from sottovoce.models.engine import sequence
from sottovoce.models.engine.cache import Limits
from sottovoce.models.engine.lookup import LATENT, MAX_PROPOSED, Costs, Lookup
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.recorder import Pending
from sottovoce.models.engine.request import Thinking
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.engine.sequence import Sequence
from tests.models.support import finish, others, plain, words
from tests.support import HIDDEN, VOCABULARY, close, ids, noise, reciting_loaded, request, same_reply, tiny_loaded

ALL = Record((0, 1), stats=True, top=3, cache=("prompt", "words"))
NEW = 30
FREE = Costs((1, 0), (1, 0, 0), 1 << 10)  # checks that cost nothing are always made


class Known(Lookup):
    """Proposals of what a sequence will say, as plain decoding said it, with every fifth token wrong."""

    replies: ClassVar[dict[int, tuple[int, ...]]] = {}
    """What plain decoding said, by the prompt."""

    def propose(self, said: Any, most: int) -> Any:
        known = (*self.replies.get(id(self.prompt), ()), *[7] * most)
        ids = [(id + (at % 5 == 4)) % VOCABULARY for at, id in enumerate(known)]
        return ids[len(said) : len(said) + most], 0.9


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "Lookup", Known)


def looped(
    loaded: LoadedModel, requests: list[Request], *, lookup: bool = True, **options: Any
) -> tuple[list[Reply], list[list[str]], Loop]:
    """Replies, the texts that were streamed, and the loop."""
    overlap = options.pop("overlap", False)
    limits = Limits(**{"slots": 8, "memory": 1 << 24, "lookup": lookup, **options})
    loop = Loop(loaded.network, limits, Statistics(), overlap)
    loop.scheduler.costs = FREE
    replies, streamed = finish(loop, loaded, requests)
    if not lookup:
        Known.replies |= {id(each.prompt): reply.ids for each, reply in zip(requests, replies, strict=True)}
    return replies, streamed, loop


def prompted(n: int, t: float = 0.0) -> list[Request]:
    """Requests with prompts of n lengths."""
    return [request((words(9 + i, seed=i),), NEW, sampling=Sampling(t, seed=i), record=ALL) for i in range(n)]


def alike(found: Reply, expected: Reply) -> bool:
    """Equal tokens, and states, statistics, keys and values within what another order of sums changes."""
    if not same_reply(found, expected):
        return False
    pairs = []
    if found.cache is not None and expected.cache is not None:
        pairs += [(found.cache.keys, expected.cache.keys), (found.cache.values, expected.cache.values)]
    if found.stats is not None and expected.stats is not None:
        assert torch.equal(found.stats.top_ids, expected.stats.top_ids)
        pairs += [(found.stats.varentropy, expected.stats.varentropy)]
    return all(close(left, right, 1e-4) for left, right in pairs)


def check(loaded: LoadedModel, requests: list[Request], **options: Any) -> Loop:
    """Check that replies and streamed texts are those of plain decoding, in fewer steps."""
    expected, shown, before = looped(loaded, requests, lookup=False)
    found, streamed, loop = looped(loaded, requests, **options)

    assert [reply.ids for reply in found] == [reply.ids for reply in expected]
    assert all(alike(a, b) for a, b in zip(found, expected, strict=True))
    assert [reply.finish for reply in found] == [reply.finish for reply in expected] and streamed == shown
    statistics, plainly = loop.scheduler._statistics, before.scheduler._statistics
    assert plainly.proposed == 0 < statistics.accepted <= statistics.proposed
    assert statistics.stepped + statistics.accepted == plainly.stepped
    return loop


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(("family", "t"), [("qwen2", 0.0), ("gemma3_text", 0.7), ("gpt2", 0.7)])
def test_replies_their_states_statistics_keys_and_values_are_those_of_plain_decoding(family: str, t: float) -> None:
    record = replace(ALL, cache=ALL.cache if family == "qwen2" else ())
    check(tiny_loaded(family), [replace(each, record=record) for each in prompted(4, t)])


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("slots", [2, 8])
def test_sequences_that_join_and_leave_and_passes_given_ahead_change_nothing(slots: int) -> None:
    requests = [replace(each, stop=Stop(7 + 5 * i)) for i, each in enumerate(prompted(5))]
    check(tiny_loaded(), requests, slots=slots, overlap=True)


CHOICE = Form(choices=("red red red red red", "blue"), after="Answer:")


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "change",
    [
        {"sampling": Sampling(repetition_penalty=0.8)},
        {"sampling": Sampling(0.9, top_k=20, top_p=0.9, repetition_penalty=0.9, seed=3)},
        {"banned": tuple(range(100, 200))},
        {"form": Form(pattern="(ab|cd){4,9}")},
        {"form": Form.of_object("a", "aa"), "stop": Stop(60, (0, 2))},
        {"form": CHOICE, "stop": Stop(60, (0, 2))},
        {"form": CHOICE, "stop": Stop(60, (0, 2)), "sampling": Sampling(1.0, seed=1)},
        {"stop": Stop(NEW, texts=("a", "b", "is")), "record": Record((1,), final_norm=True)},
        {"stop": Stop(NEW, tuple(range(50, 90)), keep=True)},
    ],
    ids=["penalty", "truncated", "banned", "pattern", "object", "choice", "choice drawn", "stop texts", "kept stops"],
)
def test_what_changes_a_choice_acts_at_each_position(change: dict[str, Any]) -> None:
    check(tiny_loaded(), [replace(each, **change) for each in prompted(4)])


@pytest.mark.usefixtures("known")
def test_a_reply_behind_latent_steps_begins_with_their_last() -> None:
    requests = [replace(each, thinking=Thinking(i, 1.0)) for i, each in enumerate(prompted(5))]
    check(tiny_loaded(), [replace(each, record=replace(ALL, cache=("thoughts", "words"))) for each in requests])


@pytest.mark.usefixtures("known")
def test_received_keys_and_latent_rows_are_no_tokens() -> None:
    loaded = tiny_loaded()
    (source,), _, _ = looped(loaded, [request((words(9),), 12, record=ALL)])
    kept, latent = source.cache, Rows(noise(3, HIDDEN))
    assert kept is not None
    heard = Cached(kept.keys[1:], kept.values[1:], (1,), kept.at, kept.keys[:1, :, :1], kept.values[:1, :, :1])

    check(loaded, [request((words(5), heard, latent, *each.prompt), NEW) for each in prompted(4)])

    lookup = Lookup((words(5), latent, words(2)))
    assert list(lookup.propose((), 9)[0]) == list(words(5).ids[2:])  # up to the rows
    assert lookup._ids.count(LATENT) == 3


@pytest.mark.parametrize("n", [1, 2, 7, 13])
def test_a_reply_that_ends_among_the_proposed_tokens_is_cut_where_it_ends(n: int) -> None:
    loaded = reciting_loaded("0 answer is 22 pears.")
    cycle = ids("0 answer is 22 pears.")
    prompt, said = (Ids(cycle * 2 + cycle[:1]),), (cycle * 4)[1:]
    stops = [Stop(n), Stop(2 * len(cycle), (said[n - 1],)), Stop(2 * len(cycle), (said[n - 1],), keep=True)]
    stops += [Stop(2 * len(cycle), texts=(word,)) for word in ("pears", "2 p", "swer")]

    check(loaded, [request(prompt, stop=Stop(40), record=ALL), *(request(prompt, stop=s, record=ALL) for s in stops)])


@pytest.mark.usefixtures("known")
def test_equal_seeds_give_equal_texts_beside_any_others() -> None:
    loaded, requests = tiny_loaded(sharp=0.2), [replace(each, record=Record()) for each in prompted(7, 0.7)]
    plainly = [looped(loaded, [each], lookup=False)[0][0].ids for each in requests]
    together, _, loop = looped(loaded, requests)
    alone = [looped(loaded, [each])[0][0].ids for each in requests]

    assert loop.scheduler._statistics.accepted > 0
    assert [reply.ids for reply in together] == alone == plainly


@pytest.mark.usefixtures("known")
def test_a_request_that_is_cancelled_between_checks_leaves_the_others_as_they_are() -> None:
    loaded, requests = tiny_loaded(), prompted(4)
    expected, _, _ = looped(loaded, requests, lookup=False)
    loop = Loop(loaded.network, Limits(8, memory=1 << 24), Statistics())
    loop.scheduler.costs = FREE

    found = others(loop, loaded, requests, lambda: loop.scheduler._statistics.accepted > 0)

    assert all(map(alike, found, expected[1:]))


@pytest.mark.usefixtures("known")
def test_what_was_read_in_checks_is_reused_as_it_was_said() -> None:
    loaded, requests = tiny_loaded(), prompted(4)
    looped(loaded, requests, lookup=False)
    said, _, loop = looped(loaded, requests)
    going_on = [
        request((*each.prompt, Ids((*reply.ids, 7, 8, 9))), 12, record=ALL)
        for each, reply in zip(requests, said, strict=True)
    ]

    expected, _, _ = looped(loaded, going_on, lookup=False, reuse=False)
    found, _ = finish(loop, loaded, going_on)

    assert all(reply.usage.reused >= each.length + NEW for reply, each in zip(found, requests, strict=True))
    assert all(alike(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.usefixtures("known")
def test_nothing_is_proposed_where_it_is_off_or_the_next_input_is_no_token() -> None:
    loaded, (first, *_) = tiny_loaded(), prompted(1)
    means = replace(first, feed=Feed("mean"), record=Record())
    bloom = replace(first, record=Record())
    for where, each, options in (
        (loaded, first, {"exact": True}),
        (loaded, first, {"lookup": False}),
        (loaded, means, {}),
        (tiny_loaded("bloom"), bloom, {}),
        (loaded, replace(first, stop=Stop(NEW, by="argmax")), {}),
    ):
        _, _, loop = looped(where, [each], **options)
        assert loop.scheduler._statistics.proposed == 0

    with_hook = loaded.model.register_forward_hook(lambda *_: None)
    _, _, loop = looped(loaded, [first])
    with_hook.remove()
    assert loop.scheduler._statistics.proposed == 0


def test_what_followed_the_last_tokens_is_proposed_as_the_reply_grows() -> None:
    prompt, said = (3, 1, 4, 1, 5, 9, 2, 6), (3, 1, 4, 1, 5, 9)
    lookup = Lookup((Ids(prompt),))
    found = [list(lookup.propose(said[:n], 4)[0]) for n in range(len(said) + 1)]
    assert found == [[], [], [4, 1, 5, 9], [1, 5, 9, 2], [5, 9, 2, 6], [9, 2, 6, 3], [2, 6, 3, 1]]
    lookup = Lookup((Ids((7,)),))
    found = [list(lookup.propose((1, 2, 3, 1, 2)[:n], 4)[0]) for n in range(6)]
    assert found == [[], [], [], [], [], [3, 1, 2]]  # from the reply itself


def test_a_draft_ends_where_a_format_has_no_tokens_left_for_more() -> None:
    loaded, more = tiny_loaded(), ids("b" * 8)
    near = request((words(5),), stop=Stop(6), form=Form(pattern="b+!", unknown=False))
    sequence = Sequence(near, loaded.tokenizer, grammar=loaded.engine.check(near))
    sequence.start(Pending(loaded.table), 1)
    assert sequence.follow(more).ids == more[:5]  # the sixth is the mark


# How many


def test_the_width_is_that_with_the_most_tokens_for_the_time() -> None:
    costs = Costs((10, 1), (12, 0, 1), 1 << 10)

    assert costs.width([(MAX_PROPOSED, 0.95)]) == MAX_PROPOSED
    assert costs.width([(3, 0.95)]) == 3  # no further than any proposal goes
    assert costs.width([(MAX_PROPOSED, 0.1)]) == 0
    assert 0 < costs.width([(MAX_PROPOSED, 0.6)]) < MAX_PROPOSED
    assert costs.width([(MAX_PROPOSED, 0.95)] + [(0, 0.0)] * 7) == 0  # each row pays for its padding
    assert (
        replace(costs, most=4).width([(MAX_PROPOSED, 0.95)]) == 3
    )  # the logits of more positions take too much memory


def test_misses_end_the_proposals_and_a_while_later_they_are_tried_again() -> None:
    lookup, costs = Lookup((Ids((9, 1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3)),)), Costs((24, 2), (40, 0, 1), 1 << 10)

    def width() -> int:
        ids, chance = lookup.propose((), MAX_PROPOSED)
        return costs.width([(len(ids), chance)])

    lookup.learn(3, 3)
    assert width() > 0
    for _ in range(4):
        lookup.learn(3, 0)
    assert width() == 0
    assert any(width() for _ in range(200))


def test_tokens_behind_the_first_wrong_one_were_not_checked() -> None:
    lookups = [Lookup((Ids((9, 1, 2, 3, 9, 1)),)) for _ in range(2)]
    for lookup, proposed in zip(lookups, (2, 8), strict=True):
        lookup.learn(proposed, 1)
    few, many = (lookup.propose((), 4) for lookup in lookups)
    assert few == many and few[0] == [2, 3, 9, 1]


@pytest.mark.slow
@pytest.mark.usefixtures("known")
def test_tokens_that_are_checked_are_drawn_from_their_distribution() -> None:
    """Chi-squared over the first three tokens of 20,000 replies, of which the second and third were proposed to all."""
    loaded, n, prompt = tiny_loaded(sharp=0.2), 20_000, (words(9),)
    looped(loaded, [request(prompt, 4)], lookup=False)  # its tokens, which are the likeliest, are proposed
    requests = [request(prompt, 4, sampling=Sampling(1.0, top_k=4, seed=seed)) for seed in range(n)]

    found, _, loop = looped(loaded, requests, slots=500)

    assert n / 20 < loop.scheduler._statistics.accepted < n and loop.scheduler._statistics.proposed > n
    said = Counter(reply.ids[:3] for reply in found)
    chances = {
        (a, b, c): p * q * r
        for a, p in following(loaded, *prompt[0].ids)
        for b, q in following(loaded, *prompt[0].ids, a)
        for c, r in following(loaded, *prompt[0].ids, a, b)
    }
    assert set(said) <= set(chances) and len(chances) == 64
    chi_squared = sum((said[each] - n * p) ** 2 / (n * p) for each, p in chances.items())
    assert chi_squared < 103.4  # 63 degrees of freedom: larger in one of a thousand tries


def following(loaded: LoadedModel, *ids: int) -> list[tuple[int, float]]:
    """The four tokens that may follow, with their probabilities."""
    logits, best = plain(loaded, request((Ids(ids),))).logits[0, -1, :VOCABULARY].topk(4)
    return list(zip(best.tolist(), logits.double().softmax(-1).tolist(), strict=True))
