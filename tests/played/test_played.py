"""Replies of writers who played strong models, and had not seen the readers, are read as they were meant."""

from __future__ import annotations

from collections import Counter

from tests.played.reading import played, read, verdict

AGREE, MISREAD = 0.99, 0.004  # shares: at least, at most


def test_replies_of_writers_are_read_as_meant_and_none_as_something_else() -> None:
    replies = list(played())
    verdicts = [verdict(reply) for reply in replies]
    others = [
        (verdict, reply["scheme"], reply["act"], reply["meant"], read(reply), reply["reply"][-200:])
        for verdict, reply in zip(verdicts, replies, strict=True)
        if verdict != "agrees"
    ]
    counts = Counter(verdicts)

    assert counts["agrees"] >= AGREE * len(replies), others
    assert counts["misreads"] <= MISREAD * len(replies), others


def test_writers_played_every_kind_of_answer_in_every_scheme_that_has_one() -> None:
    seen = {(reply["scheme"], reply["kind"]): 0 for reply in played()}
    asked = {(reply["scheme"], reply["kind"], reply["question"]) for reply in played()}
    for scheme, kind, _ in asked:
        seen[scheme, kind] += 1

    assert len(seen) % 5 == 0 and min(seen.values()) >= 5
