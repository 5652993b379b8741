"""Replies of writers who played strong models without seeing the readers are read as meant, or asked for."""

from __future__ import annotations

from collections import Counter

from tests.played.reading import played, read, verdict

ASKED = 0.03  # share of replies that state no answer, at most


def test_replies_of_writers_are_read_as_meant_and_none_as_something_else() -> None:
    replies = list(played())
    verdicts = [verdict(reply) for reply in replies]
    others = [
        (verdict, reply["scheme"], reply["act"], reply["meant"], read(reply), reply["reply"][-200:])
        for verdict, reply in zip(verdicts, replies, strict=True)
        if verdict != "agrees"
    ]
    counts = Counter(verdicts)

    assert not counts["misreads"] and counts["asked"] <= ASKED * len(replies), others


def test_writers_played_every_kind_of_answer_in_every_scheme_that_has_one() -> None:
    seen = {(reply["scheme"], reply["kind"]): 0 for reply in played()}
    asked = {(reply["scheme"], reply["kind"], reply["question"]) for reply in played()}
    for scheme, kind, _ in asked:
        seen[scheme, kind] += 1

    assert len(seen) % 5 == 0 and min(seen.values()) >= 5
