"""Replies that prompts quote, with the keys and values of their speakers: `reuse` "approximate"."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sottovoce.core.errors import ModelError, UsageError
from sottovoce.models import (
    Cached,
    Feed,
    Ids,
    LoadedModel,
    Quote,
    Record,
    Reply,
    Request,
    Rows,
    Stop,
    assemble,
    reply_digest,
)
from sottovoce.models.engine import reply_cache
from sottovoce.models.engine.reply_cache import MIN_PASTED, READ_FIRST
from tests.models.support import together, words
from tests.support import GREEDY, HIDDEN, close, edit, noise, same_reply, tiny_loaded, tiny_model, tiny_tokenizer

A, B, Q = words(9, 1), words(7, 2), words(5, 3)
ALL = Record(stats=True, top=300)
WORDS = Feed()
NEW = READ_FIRST + MIN_PASTED + 6


def approximate() -> LoadedModel:
    model = tiny_model("llama", seed=3, sharp=0.15)
    return assemble("approximate", model, tiny_tokenizer(), reuse="approximate")


def exact(loaded: LoadedModel) -> LoadedModel:
    return assemble("exact", loaded.model, tiny_tokenizer())


def asked(*pieces: Ids | Rows | Cached, max_new: int = NEW, feed: Feed = WORDS) -> Request:
    return Request(pieces, Stop(max_new), sampling=GREEDY, record=ALL, feed=feed)


def quoted(reply: Reply, start: int = 0, end: int | None = None) -> Ids:
    """A reply, or a part of it, as the prompt of another agent quotes it."""
    assert reply.stats is not None
    places = range(len(reply.ids))[start:end]
    return Ids(tuple(reply.ids[i] for i in places), Quote(reply_digest(reply.ids, reply.stats.logprob), tuple(places)))


def test_a_quoted_reply_is_pasted_but_for_its_first_positions_and_what_was_not_read() -> None:
    loaded = approximate()
    said = loaded.engine.run(asked(A))
    assert len(said.ids) == NEW
    found = loaded.engine.run(asked(B, quoted(said), Q))
    assert found.usage.prompt == 7 + NEW + 5
    assert found.usage.reused == NEW - READ_FIRST - 1  # the last token of a reply is not read
    assert loaded.engine.statistics.passes == 2
    part = loaded.engine.run(asked(Q, quoted(said, 2, 2 + READ_FIRST + MIN_PASTED), A))
    assert part.usage.reused == MIN_PASTED
    short = loaded.engine.run(asked(words(4, 8), quoted(said, 3, 2 + READ_FIRST + MIN_PASTED), A))
    assert short.usage.reused == 0
    last = loaded.engine.run(asked(A, B, quoted(said, 0, NEW - 1)))
    assert last.usage.reused == len(A) + NEW - READ_FIRST - 2  # the prompt's last position is read


def test_a_reply_behind_what_its_speaker_had_read_is_exact() -> None:
    loaded = approximate()
    said = loaded.engine.run(asked(A))
    (request, n), expected = (asked(A, quoted(said), Q), len(A) + NEW - 1), asked(A, Ids(said.ids), Q)
    found = loaded.engine.run(request)
    assert found.usage.reused == n  # the last token of the reply was not read
    assert same_reply(found, exact(loaded).engine.run(expected))
    loaded.engine.forget()
    assert loaded.engine.run(request).usage.reused == 0
    assert loaded.engine.run(expected).usage.reused == len(A) + NEW + len(Q) - 1  # it was read as other words are


def test_behind_an_equal_beginning_in_other_form_it_is_what_reading_gives() -> None:
    loaded = approximate()
    said = loaded.engine.run(asked(A))
    expected = exact(loaded).engine.run(asked(A, Ids(said.ids), Q))
    found = loaded.engine.run(asked(Rows(loaded.table.rows[list(A.ids)]), quoted(said), Q))
    assert found.usage.reused == NEW - READ_FIRST - 1 and found.ids == expected.ids
    assert found.stats is not None and expected.stats is not None
    assert close(found.stats.top_logprobs[0], expected.stats.top_logprobs[0], 1e-4)


def test_keys_and_values_are_the_speakers_at_the_readers_positions() -> None:
    loaded = approximate()
    said = loaded.engine.run(replace(asked(A), record=replace(ALL, cache=("words",))))
    assert said.cache is not None
    spoken, n = said.cache, NEW - READ_FIRST  # to be recorded, its last token was read
    cut = slice(READ_FIRST, NEW)
    none = spoken.keys.new_zeros(0, spoken.keys.shape[1], 1, spoken.keys.shape[3])
    piece = Cached(spoken.keys[:, :, cut], spoken.values[:, :, cut], (0, 1), spoken.at[cut], none, none)
    expected = exact(loaded).engine.run(asked(B, Ids(said.ids[:READ_FIRST]), piece, Q))
    found = loaded.engine.run(asked(B, quoted(said), Q))
    read = exact(loaded).engine.run(asked(B, Ids(said.ids), Q))
    assert found.usage.reused == expected.usage.reused == n
    for reply, same in ((expected, True), (read, False)):
        assert found.stats is not None and reply.stats is not None
        assert close(found.stats.top_logprobs[0], reply.stats.top_logprobs[0], 1e-5) is same


def test_a_mean_reply_is_pasted_where_its_own_rows_are_read() -> None:
    loaded = approximate()
    said = loaded.engine.run(replace(asked(A, feed=Feed("mean")), sampling=replace(GREEDY, temperature=0.7)))
    rows = said.rows[loaded.table.key]
    assert said.stats is not None
    quote = Quote(reply_digest(rows, said.stats.logprob), tuple(range(len(rows))))
    n = len(rows) - READ_FIRST - 1
    assert loaded.engine.run(asked(B, Rows(rows, quote), Q)).usage.reused == n
    others = Quote(reply_digest(rows.flip(0), said.stats.logprob), quote.at)
    assert loaded.engine.run(asked(A, B, Rows(rows.flip(0), others), Q)).usage.reused == len(A)


def test_equal_words_of_another_discussion_are_not_used() -> None:
    """Their log-probabilities differ; so the company of a discussion does not change its replies."""
    loaded = approximate()
    said = loaded.engine.run(asked(A))
    other = replace(said, stats=replace(said.stats, logprob=said.stats.logprob + 0.5))  # type: ignore[type-var,union-attr]
    assert loaded.engine.run(asked(B, quoted(other), Q)).usage.reused == 0


def test_edited_positions_and_what_follows_them_are_read() -> None:
    loaded = approximate()
    said = loaded.engine.run(asked(A))
    cases = (
        ((edit(0, 2, 25),), 0),
        ((edit(0, 2, 3), edit(1, 7 + NEW, 4)), NEW - READ_FIRST - 1),
        ((edit(0, 7 + READ_FIRST + MIN_PASTED, 1),), MIN_PASTED),
    )
    for seed, (edits, n) in enumerate(cases):
        prompt = asked(Rows(noise(7, HIDDEN, seed=seed)), quoted(said), Q)
        assert loaded.engine.run(replace(prompt, edits=edits)).usage.reused == n


def test_what_follows_a_pasted_reply_is_found_again_but_never_by_a_prompt_that_was_read() -> None:
    loaded = approximate()
    said = loaded.engine.run(asked(A))
    first, second = (loaded.engine.run(asked(B, quoted(said), Q)) for _ in range(2))
    assert second.usage.reused == 7 + NEW + 5 - 1 and second.ids == first.ids
    read = loaded.engine.run(asked(B, Ids(said.ids), Q))
    assert read.usage.reused == 7 + READ_FIRST


def test_results_do_not_depend_on_what_runs_beside() -> None:
    loaded = approximate()
    said = [loaded.engine.run(asked(words(9, seed))) for seed in range(4)]
    prompts = [asked(words(6, 20 + i), quoted(reply), Q) for i, reply in enumerate(said)]
    batch = together(loaded.engine, prompts)
    for seed, (prompt, found) in enumerate(zip(prompts, batch, strict=True)):
        alone = assemble("alone", loaded.model, tiny_tokenizer(), reuse="approximate")
        alone.engine.run(asked(words(9, seed)))
        expected = alone.engine.run(prompt)
        assert found.ids == expected.ids and found.usage.reused == expected.usage.reused > 0


def test_evicted_and_forgotten_replies_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_cache, "ENTRIES", 2)
    loaded = approximate()
    said = [loaded.engine.run(asked(words(9, seed))) for seed in range(5)]
    assert all(loaded.engine.run(asked(B, quoted(each), Q)).usage.reused for each in said)
    loaded.engine.forget()
    found = loaded.engine.run(asked(B, quoted(said[0]), Q))
    assert found.usage.reused == 0
    expected = exact(loaded).engine.run(asked(B, Ids(said[0].ids), Q))
    assert found.ids == expected.ids


def test_repetition_penalties_see_the_quoted_words() -> None:
    loaded = approximate()
    said = loaded.engine.run(asked(A))
    harsh = replace(asked(B, quoted(said), Q), sampling=replace(GREEDY, repetition_penalty=1000.0))
    assert not {*loaded.engine.run(harsh).ids[:1]} & {*said.ids, *B.ids, *Q.ids}


def test_without_it_quotes_are_read() -> None:
    loaded = exact(approximate())
    said = loaded.engine.run(asked(A))
    assert loaded.engine.run(asked(B, quoted(said), Q)).usage.reused == 0
    assert loaded.engine.run(asked(B, Ids(said.ids), Q)).usage.reused == 7 + NEW + 5 - 1


def test_a_reply_of_one_token_is_read_where_it_is_quoted() -> None:
    """Its one log-probability is a view with a stride, and the digest once refused it."""
    loaded = approximate()
    said = loaded.engine.run(asked(A, max_new=1))
    assert loaded.engine.run(asked(B, quoted(said), Q)).usage.reused == 0


@pytest.mark.parametrize("family", ["gpt2", "bloom"])
def test_models_whose_keys_cannot_be_moved_are_refused(family: str) -> None:
    with pytest.raises(ModelError, match="reuse cannot be 'approximate' for this model: "):
        tiny_loaded(family).engine.twin(reuse="approximate")


def test_exact_results_rule_it_out() -> None:
    with pytest.raises(UsageError, match="reuse is 'approximate', which exact rules out"):
        tiny_loaded("llama").engine.twin(reuse="approximate", exact=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_quotes_too(dtype: torch.dtype) -> None:
    model = tiny_model("llama", seed=3, sharp=0.15)
    model = model.bfloat16() if dtype == torch.bfloat16 else model.half()
    loaded = assemble("half", model, tiny_tokenizer(), reuse="approximate")
    said = loaded.engine.run(asked(A))
    assert loaded.engine.run(asked(B, quoted(said), Q)).usage.reused == NEW - READ_FIRST - 1
