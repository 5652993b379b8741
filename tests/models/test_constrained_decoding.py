"""A reply is kept to its form while it is decoded: for any model, feed, batch and budget, and nothing else changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from sottovoce.core.response_format import UNKNOWN, Form
from sottovoce.models import Feed, Ids, LoadedModel, Record, Reply, Request, Sampling, Stop
from tests.support import VOCABULARY, close, ids, reciting_loaded, request, same_reply, text, tiny_loaded
from tests.tables import pairs, some

MEAN = Feed("mean")
NAMES = ("reasoning", "answer", "confidence_level")
OBJECT = Form.of_object(*NAMES)
NUMBER = Form(pattern=r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?")
COLOURS = Form(choices=("red", "blue", "not known", "no"))
AFTER = replace(COLOURS, after="Answer:")
FAMILIES = ["qwen2", "gemma3_text", "opt"]
WARM = [Sampling(1.0, seed=seed) for seed in range(4)]
RECORD = Record(layers=(1,), stats=True, top=2, sparse=3)
STOP = (0, 2)


def said(reply: Reply) -> str:
    return text(reply.ids)


def ask(form: Form | None, n: int, *, loaded: LoadedModel | None = None, **options: Any) -> Reply:
    """A reply of a tiny model, which ends at its stop ids."""
    asked = request(stop=Stop(n, STOP), form=form, **options)
    return (loaded or tiny_loaded()).engine.run(asked)


# Always in its form


@pytest.mark.parametrize(("family", "n"), pairs(FAMILIES, [54, 70], 2))
def test_any_model_writes_an_object_with_its_fields_in_any_number_of_tokens(family: str, n: int) -> None:
    for sampling in (Sampling(), WARM[0]):
        reply = ask(OBJECT, n, loaded=tiny_loaded(family), sampling=sampling)

        found = json.loads(said(reply))
        assert tuple(found) == NAMES and all(isinstance(each, str) for each in found.values())
        assert len(reply.ids) <= n


@pytest.mark.parametrize("form", [COLOURS, AFTER, NUMBER, replace(NUMBER, after="Answer:")])
@pytest.mark.parametrize("feed", [Feed(), MEAN])
@pytest.mark.parametrize("n", some([22, 60], 22))
def test_a_choice_or_a_number_stands_alone_or_behind_its_marker(form: Form, feed: Feed, n: int) -> None:
    allowed = [re.escape(choice) for choice in form.choices] or [form.pattern or ""]
    expected = re.compile(f"(?:{'|'.join([*allowed, UNKNOWN])})")
    for sampling in (Sampling(), WARM[0]):
        reply = ask(form, n, feed=feed, sampling=sampling)

        answer = said(reply)
        if form.after:
            answer = re.split(r"^Answer: ", answer, flags=re.MULTILINE)[1]
        assert expected.fullmatch(answer), answer
        assert len(reply.ids) <= n


def test_unknown_is_offered_unless_the_form_wants_none() -> None:
    offered = [ask(Form(choices=("a",)), 9, sampling=Sampling(3.0, seed=seed)) for seed in range(12)]
    assert {said(reply) for reply in offered} == {"a", UNKNOWN}
    closed = [ask(Form(choices=("a",), unknown=False), 9, sampling=Sampling(3.0, seed=seed)) for seed in range(12)]
    assert {said(reply) for reply in closed} == {"a"}


# Free first


def test_the_marker_is_written_where_the_reply_stops() -> None:
    loaded = reciting_loaded("\nabcde")
    stops = request("\n", stop=Stop(40, ids("e")), form=AFTER)

    reply = loaded.engine.run(stops)

    assert said(reply).startswith("abcd\nAnswer: ") and reply.finish == "stop"
    assert loaded.engine.run(replace(stops, form=None)).ids == reply.ids[:4]


def test_a_marker_of_the_models_own_begins_the_form() -> None:
    own = reciting_loaded("\nxAnswer: y")
    tokens = ids("Answer:")
    spoken = own.engine.run(request("\n", stop=Stop(30, ids("y")), form=AFTER))
    begun = own.engine.run(request("x", stop=Stop(30), form=AFTER))

    # Not at a line's beginning it is not the marker.
    assert re.fullmatch(r"xAnswer: \nAnswer: \w+( \w+)?", said(spoken))
    assert begun.ids[: len(tokens)] == tokens and re.fullmatch(r"Answer: \w+( \w+)?", said(begun))


def test_no_second_line_break_is_written_behind_one_and_none_at_the_beginning() -> None:
    loaded = reciting_loaded("ab\nc")

    broken = loaded.engine.run(request("a", stop=Stop(30, ids("c")), form=AFTER))
    empty = loaded.engine.run(request("\n", stop=Stop(30, ids("c")), form=AFTER))

    assert said(broken).startswith("b\nAnswer: ") and said(empty).startswith("Answer: ")


@pytest.mark.parametrize("feed", [Feed(), MEAN])
def test_of_one_line_the_marker_is_written_where_it_breaks(feed: Feed) -> None:
    loaded, one_line = reciting_loaded("ab\nc"), replace(AFTER, one_line=True)

    broken = loaded.engine.run(request("a", stop=Stop(30), form=one_line, feed=feed))
    blank = loaded.engine.run(request("b", stop=Stop(30), form=one_line, feed=feed))

    assert re.fullmatch(r"b\nAnswer: [\w ]+", said(broken)) and broken.finish == "stop"
    assert re.fullmatch(r"\ncab\nAnswer: [\w ]+", said(blank))  # nothing was said before its first line


@pytest.mark.parametrize("feed", [Feed(), MEAN])
def test_a_form_that_is_not_forced_holds_only_a_line_that_the_model_begins(feed: Feed) -> None:
    loaded, offered = reciting_loaded("abcde\nxAnswer: y"), replace(AFTER, forced=False)

    ends = loaded.engine.run(request("a", stop=Stop(30, ids("e")), form=offered, feed=feed))
    cut = loaded.engine.run(request("a", stop=Stop(12), form=offered, feed=feed))
    own = loaded.engine.run(request("x", stop=Stop(30), form=offered, feed=feed))
    late = loaded.engine.run(request("x", stop=Stop(12), form=offered, feed=feed))

    assert (said(ends), ends.finish) == ("bcd", "stop") and (said(cut), cut.finish) == ("bcde\nxAnswer: y", "length")
    assert re.fullmatch(r"Answer: \w+( \w+)?", said(own)) and own.finish == "stop"
    assert late.finish == "length" and len(late.ids) == 12  # too few were left for the form


# What is kept of it


def test_recorded_tensors_have_one_entry_a_token() -> None:
    for feed, form in ((Feed(), OBJECT), (MEAN, AFTER), (MEAN, NUMBER)):
        reply = ask(form, 60, feed=feed, sampling=WARM[0], record=RECORD)

        n = len(reply.ids)
        assert reply.stats is not None and len(reply.stats.logprob) == n
        assert reply.states[1].shape[0] == n + 1
        assert all(len(rows) == n for rows in reply.rows.values())
        assert reply.sparse is None or len(reply.sparse.covered) == n


def test_statistics_are_those_of_the_raw_logits() -> None:
    form = Form(choices=("red", "blue"))
    reply = ask(form, 9, record=RECORD)
    free = ask(None, 9, record=RECORD)

    assert reply.stats is not None and free.stats is not None
    assert reply.ids[0] != free.ids[0]
    assert close(reply.stats.entropy[0], free.stats.entropy[0])
    assert reply.stats.top_ids[0].tolist() == free.stats.top_ids[0].tolist()


def test_under_a_mean_feed_the_reasoning_is_means_and_the_guided_span_tokens() -> None:
    loaded = tiny_loaded()
    reply = ask(AFTER, 40, feed=MEAN, sampling=Sampling(1.0), record=RECORD)

    (rows,) = reply.rows.values()
    one_hot = (rows == loaded.table.rows[list(reply.ids)]).all(-1).tolist()
    begun = len(ids(said(reply).partition("\nAnswer:")[0]))
    marker = one_hot.index(True)
    assert not any(one_hot[:marker]) and all(one_hot[marker:])
    assert 0 < marker <= begun
    assert reply.sparse is not None
    assert reply.sparse.weights[marker:, 0].tolist() == [1.0] * (len(reply.ids) - marker)
    assert reply.sparse.ids[marker:, 0].tolist() == list(reply.ids[marker:])


def test_a_format_writes_into_no_weights_of_the_callers() -> None:
    loaded = tiny_loaded()
    equal = torch.full((1, len(loaded.table)), 1 / len(loaded.table))
    feed = Feed("mean", lambda _, p: equal.expand(len(p), -1))

    ask(COLOURS, 20, feed=feed, record=RECORD)

    assert equal.unique().numel() == 1


# Beside others


def mixed(n: int = 60) -> list[Request]:
    forms = [None, OBJECT, AFTER, NUMBER, None, COLOURS, replace(NUMBER, after="Answer:"), OBJECT]
    feeds = [Feed(), Feed(), MEAN, Feed(), MEAN, MEAN, Feed(), MEAN]
    return [
        request(
            f"What is {i} + 3?", stop=Stop(n, STOP), form=form, feed=feed, sampling=Sampling(0.8, seed=i), record=RECORD
        )
        for i, (form, feed) in enumerate(zip(forms, feeds, strict=True))
    ]


def test_a_batch_gives_each_request_what_it_gets_alone() -> None:
    loaded = tiny_loaded()
    asked = [replace(each, record=Record(stats=True)) for each in mixed() if each.feed.kind == "token"]
    alone = [loaded.engine.run(each) for each in asked]
    engine = loaded.engine.twin()

    together = engine.run_all(asked)

    assert engine.statistics.widest > 3
    assert all(same_reply(*pair) for pair in zip(together, alone, strict=True))


def test_exact_replies_are_equal_to_the_bit_whatever_runs_beside() -> None:
    loaded = tiny_loaded()
    engine = loaded.engine.twin(exact=True)
    asked = mixed(58)[:4]
    alone = [engine.run(each) for each in asked]

    together = engine.run_all(asked)

    for found, expected in zip(together, alone, strict=True):
        assert found.ids == expected.ids
        assert torch.equal(found.states[1], expected.states[1])
        assert all(torch.equal(found.rows[key], expected.rows[key]) for key in expected.rows)


def test_a_request_that_begins_anew_is_guided_from_its_beginning() -> None:
    """Whoever was in a pass that broke is sent back to wait."""
    broken = []

    def weigh(_logits: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        broken.append(len(p))
        if len(broken) == 9:
            raise ValueError("broken")
        return p

    engine = tiny_loaded().engine.twin(reuse=False)
    spoiler = request(max_new=20, feed=Feed("mean", weigh))
    guided = [each for each in mixed() if each.form is not None and each.feed.kind == "token"]

    futures = [engine.submit(each) for each in [spoiler, *guided]]

    found = [future.result() for future in futures[1:]]
    assert engine.statistics.restarts
    assert all(same_reply(*pair) for pair in zip(found, [engine.run(each) for each in guided], strict=True))


def test_a_continued_conversation_reuses_what_was_guided() -> None:
    loaded = tiny_loaded()
    engine = loaded.engine.twin()
    asked = request(stop=Stop(40, STOP), form=AFTER)
    reply = engine.run(asked)
    prompt = (*asked.prompt, Ids((*reply.ids, *ids(" Why?"))))

    again = engine.run(request(prompt, record=RECORD))
    fresh = engine.twin(reuse=False).run(request(prompt, record=RECORD))

    assert again.usage.reused >= asked.length + len(reply.ids) - 1
    assert same_reply(again, fresh)


# While it grows


@pytest.mark.parametrize("form", [OBJECT, AFTER, NUMBER, COLOURS])
def test_what_was_shown_is_never_taken_back(form: Form) -> None:
    for sampling in WARM[:1]:
        shown: list[str] = []
        asked = request(stop=Stop(60, STOP), form=form, sampling=sampling)

        reply = tiny_loaded().engine.submit(asked, shown.append).result()

        assert all(after.startswith(before) for before, after in pairwise(shown))
        assert (shown or [""])[-1] == said(reply)
        assert len(shown) > 3 or form in (NUMBER, COLOURS)


def test_what_completes_no_form_is_held_back() -> None:
    shown: list[str] = []
    reciting_loaded("\n42.Abc").engine.submit(request("\n", stop=Stop(9), form=NUMBER), shown.append).result()
    assert shown[-1] == "42"


@pytest.mark.parametrize(
    ("pattern", "text", "ends", "complete"),
    [(r"[^\n]+", "ab", "stop_text", True), ("abcde", "ab", "stop_text", False), ("ab|abcd", "ab", "stop_text", True)],
)
def test_a_stop_string_ends_a_format_earlier(pattern: str, text: str, ends: str, complete: bool) -> None:
    """Showed as "3 * 5 = ": the stop string stayed in where the format was complete behind it."""
    shown: list[str] = []
    asked = request("\n", stop=Stop(9, texts=("cd",)), form=Form(pattern=pattern))
    reply = reciting_loaded("\nabcde").engine.submit(asked, shown.append).result()

    assert (said(reply), reply.finish, reply.complete) == (text, ends, complete)
    assert not any("c" in each for each in shown)


def test_special_tokens_are_never_written_into_a_form() -> None:
    for sampling in WARM[:2]:
        reply = ask(OBJECT, 100, sampling=sampling)
        assert not {0, 1, 2} & {*reply.ids} and max(reply.ids) < VOCABULARY
