"""A pass that the device is given before the results of the last one are read: replies are those of the plain loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from sottovoce.core.errors import EngineError
from sottovoce.models import Feed, Ids, Record, Reply, Request, Sampling, Stop
from sottovoce.models.engine.cache import Limits
from sottovoce.models.engine.loop import Loop
from sottovoce.models.engine.recorder import Pending
from sottovoce.models.engine.runner import Runner
from sottovoce.models.engine.scheduler import Statistics
from sottovoce.models.engine.sequence import Sequence
from sottovoce.models.huggingface.text import Detokenizer, overlapping, partial_stop, settled
from tests.models.support import finish, others, words
from tests.support import ids, request, same_reply, tiny_loaded

LOADED = tiny_loaded(sharp=0.15)
ALL = Record((0, 1), stats=True, top=3, sparse=4)
MEAN = Feed("mean")
NEW = 24


class Counting(Loop):
    """A loop that counts the passes given before the last results were read."""

    followed = 0

    def _follow(self, batch: Any) -> Any:
        following = super()._follow(batch)
        self.followed += following is not None
        return following


def replies(requests: list[Request], slots: int = 8, *, overlap: bool) -> tuple[list[Reply], list[list[str]], Counting]:
    """Replies, the texts that were streamed, and the loop."""
    loop = Counting(LOADED.network, Limits(slots, memory=1 << 24), Statistics(), overlap)
    return *finish(loop, LOADED, requests), loop


PLAIN = Feed()


def asked(feed: Feed = PLAIN, temperature: float = 0.0, record: Record = ALL) -> list[Request]:
    """Requests that stop at different passes, in the middle of what they would say, or say it to the end."""
    plain = [
        request((words(5 + n, seed=n),), NEW, feed=feed, sampling=Sampling(temperature, seed=n), record=record)
        for n in range(6)
    ]
    said, _, _ = replies(plain, overlap=False)
    stops = [(reply.ids[3 * n + 2],) if n < 5 else () for n, reply in enumerate(said)]
    return [
        replace(each, stop=Stop(NEW, ids, keep=bool(n % 2)))
        for n, (each, ids) in enumerate(zip(plain, stops, strict=True))
    ]


@pytest.mark.parametrize(("feed", "temperature", "slots"), [(PLAIN, 0.0, 3), (PLAIN, 1.0, 8), (MEAN, 1.0, 3)])
def test_late_stops_change_no_reply(feed: Feed, temperature: float, slots: int) -> None:
    requests = asked(feed, temperature)

    expected, shown, plain = replies(requests, slots, overlap=False)
    found, streamed, loop = replies(requests, slots, overlap=True)

    assert plain.followed == 0 < loop.followed
    assert all(same_reply(a, b) for a, b in zip(found, expected, strict=True))
    assert [a.ids for a in found] == [a.ids for a in expected] and streamed == shown
    assert len({len(reply.ids) for reply in expected}) > 3  # they ended one after another


def test_a_reply_that_stopped_late_is_reused_as_it_was_said() -> None:
    requests = asked()
    said, _, loop = replies(requests, overlap=True)
    assert loop.followed
    going_on = [
        request((each.prompt[0], Ids((*reply.ids, 7, 8, 9))), 6, record=ALL)
        for each, reply in zip(requests, said, strict=True)
    ]

    found, _ = finish(loop, LOADED, going_on)

    assert min(reply.usage.reused - len(each.prompt[0]) for reply, each in zip(found, requests, strict=True)) > 0
    expected, _, _ = replies(going_on, overlap=False)
    assert all(same_reply(a, b) for a, b in zip(found, expected, strict=True))


def test_a_pass_that_fails_before_its_turn_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    requests, run = asked(), Runner.run
    failed: list[Any] = []

    def fails(self: Runner, batch: Any, cache: Any, ahead: int = 0) -> Any:
        if ahead and len(failed) < 3:
            failed.append(batch)
            raise RuntimeError("out of memory")
        return run(self, batch, cache, ahead)

    expected, _, _ = replies(requests, overlap=False)
    monkeypatch.setattr(Runner, "run", fails)
    found, _, loop = replies(requests, overlap=True)

    assert len(failed) == 3 and loop.followed and loop.scheduler._statistics.restarts == 0
    assert all(same_reply(a, b) for a, b in zip(found, expected, strict=True))


def test_what_depends_on_the_last_tokens_waits_for_them() -> None:
    penalised = [replace(each, sampling=Sampling(repetition_penalty=1.3)) for each in asked()]

    expected, _, _ = replies(penalised, overlap=False)
    found, _, loop = replies(penalised, overlap=True)

    assert loop.followed == 0 and [each.ids for each in found] == [each.ids for each in expected]


def test_a_request_that_is_cancelled_before_its_pass_is_read_leaves_the_others_as_they_are() -> None:
    requests = [replace(each, stop=Stop(NEW)) for each in asked()]
    expected, _, _ = replies(requests, overlap=False)
    loop = Counting(LOADED.network, Limits(8, memory=1 << 24), Statistics(), True)

    found = others(loop, LOADED, requests, lambda: loop.followed > 0)

    assert all(map(same_reply, found, expected[1:]))


def test_a_listener_that_fails_is_not_called_again() -> None:
    loop = Counting(LOADED.network, Limits(8), Statistics(), True)
    failed: list[str] = []

    def listens(text: str) -> None:
        if loop.followed > 2:
            failed.append(text)
            raise RuntimeError(text)

    sequence = Sequence(request(max_new=NEW), LOADED.tokenizer, on_text=listens)
    loop.scheduler.waiting.append(sequence)
    while loop.scheduler.busy:
        loop.step()

    assert isinstance(sequence.future.exception(), EngineError) and len(failed) == 1


PLAINLY = Detokenizer(LOADED.tokenizer)


class Decoder:
    """A tokenizer that counts the tokens that it decodes."""

    decoded = 0

    def decode(self, ids: list[int], **how: Any) -> Any:
        self.decoded += len(ids)
        return LOADED.tokenizer.decode(ids, **how)


def test_what_may_belong_to_a_stop_string_is_not_streamed_and_costs_no_second_decoding_of_the_reply() -> None:
    # The whole reply was decoded token by token at each beginning of a stop string: 0.4 s after 16,000 tokens.
    said = (*ids("14 = 3 * 5,\n£ 日 "), ids("£")[0], *ids(" = ")) * 20  # with a character that is never finished
    stops, decoder, streamed = (" = x", "\n£ y", "日本"), Decoder(), [""]
    sequence = Sequence(request(stop=Stop(1000, texts=stops)), cast(Any, decoder), on_text=streamed.append)
    sequence.start(Pending(LOADED.table), 1)
    for n, id in enumerate(said, 1):
        sequence.keep(id)
        text, spans, before = settled(PLAINLY.text(said[:n])), PLAINLY.spans(said[:n]), len(streamed[-2:][0])
        partial = partial_stop(text, stops)
        first, _ = overlapping(spans, (len(text) - partial, len(text)))
        assert len(streamed[-1]) == max(before, spans[first][0] if partial else len(text))

    assert len(streamed) > 100 and decoder.decoded < 100 * len(said)
