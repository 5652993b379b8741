"""Replies labelled by people: how far the readers agree.

One file a kind, replies/KIND.jsonl, an object a line: `text`, a model's reply as it came; `label`, what a person says
it answers, null where it answers nothing; `question`; `choices` where there are any; `target` and `model` for whoever
reads the file. A label is written as answers are: "22", "B", "yes", a label of the choices, a few words. The files
strong_KIND.jsonl are written by hand, before the readers were made for them: half of the replies end with the line
`Answer: X` that prompts ask for, half state their answer in other ways. hard.jsonl has strings of every kind as models
write them, each with `why` it is hard; all of them are read as labelled. named.jsonl has sentences that answer free
questions and name a `target` (or, if `right` is false, do not); sentences.jsonl has such with the few words that each
comes to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.prompts.kinds import KINDS, normalise, read_reply, reading, right, same

REPLIES = Path(__file__).with_name("replies")
AGREEMENT, MISREADINGS = 0.97, 0.01  # what is aimed at, as shares: at least, at most
REACHED = {
    "number": (0.97, 0.017),
    "option": (0.98, 0.005),
    "yes_no": (0.985, 0.01),
    "label": (0.955, 0.015),
    "text": (0.955, 0.025),
}
"""What is reached: it may only grow. Most of what is missed is prose that contradicts itself."""


def replies(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (REPLIES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


HARD = replies("hard")


@pytest.mark.parametrize("reply", HARD, ids=lambda reply: f"{reply['kind']} {reply['text'][:40]!r}")
def test_a_hard_string_is_read_as_what_was_meant(reply: dict[str, Any]) -> None:
    found = read_reply(reply["text"], {"question": "", **reply})

    is_same = reply["kind"] == "text" and same(found, reply["label"], "text")
    assert found == reply["label"] or is_same, reply.get("why")


def test_there_are_some_sixty_of_every_kind() -> None:
    assert min(sum(reply["kind"] == kind for reply in HARD) for kind in KINDS.names()) >= 60


@pytest.mark.parametrize("reply", replies("named"), ids=lambda reply: reply["text"])
def test_a_reply_to_a_free_question_is_right_if_it_names_the_target(reply: dict[str, Any]) -> None:
    question = {**reply, "kind": "text"}
    found = read_reply(reply["text"], question)

    assert found is None if reply["target"] is None else right(found, question) is reply.get("right", True)


@pytest.mark.parametrize("reply", replies("sentences"), ids=lambda reply: reply["text"])
@pytest.mark.parametrize("mark", ["", "Answer: "])
def test_a_sentence_is_read_as_the_words_that_its_question_asks_for(mark: str, reply: dict[str, Any]) -> None:
    found = reading(mark + reply["text"], {"question": reply["question"], "kind": "text"}).answer

    if reply["label"] is None:  # not plain enough: nothing of it alone
        assert found is None or found == reply["text"].removesuffix(".")
    else:
        assert normalise(found or "") == normalise(reply["label"])


def judged(reply: dict[str, Any], kind: str) -> str:
    """Whether the reader agrees with the label, abstains where it has one, or reads something else than was said."""
    question = {"question": reply["question"], "kind": kind, "choices": reply.get("choices") or []}
    found, label = read_reply(reply["text"], question), reply["label"]
    if found is None or label is None:
        return "agrees" if found == label else "abstains" if found is None else "misreads"
    return "agrees" if right(found, {**question, "target": label}) else "misreads"


@pytest.mark.parametrize("kind", ["number", "option", "yes_no", "label", "text"])
def test_readers_agree_with_people_on_replies_that_models_gave(kind: str) -> None:
    given = replies(kind)
    verdicts = [judged(reply, kind) for reply in given]
    others = [
        (verdict, reply["label"], reply["text"][-200:])
        for verdict, reply in zip(verdicts, given, strict=True)
        if verdict != "agrees"
    ]

    least, most = REACHED[kind]
    assert len(given) >= 200
    assert verdicts.count("agrees") >= min(AGREEMENT, least) * len(given), others
    assert verdicts.count("misreads") <= max(MISREADINGS, most) * len(given), others


@pytest.mark.parametrize("kind", ["number", "option", "yes_no", "label", "text"])
def test_what_a_strong_model_writes_is_read_as_it_was_meant(kind: str) -> None:
    given = replies(f"strong_{kind}")
    verdicts = [judged(reply, kind) for reply in given]

    assert len(given) >= 50 and {reply["model"] for reply in given} == {"written"}
    assert verdicts.count("agrees") >= 0.99 * len(given) and "misreads" not in verdicts, [
        (verdict, reply) for verdict, reply in zip(verdicts, given, strict=True) if verdict != "agrees"
    ]


@pytest.mark.parametrize(
    ("text", "label", "verdict"),
    [
        ("Answer: 22", "22", "agrees"),
        ("Answer: 22", "21", "misreads"),
        ("Hm.", "22", "abstains"),
        ("Hm.", None, "agrees"),
        ("22", None, "misreads"),
    ],
)
def test_a_reading_is_judged_by_its_label(text: str, label: str | None, verdict: str) -> None:
    assert judged({"question": "14 + 8?", "text": text, "label": label}, "number") == verdict
