"""The transcript as a person sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.channels.message import Message, Place
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import Debate
from sottovoce.report import blocks, describe, transcript
from sottovoce.report.transcript import fenced, markdown
from sottovoce.runs.log import Reset
from sottovoce.runs.record import DiscussionRecord, ordered
from tests.cli.screen import printed
from tests.runs.support import QUESTION, carrying, held

NASTY = "\x1b[2J[red]not red[/red] :smile: \u202etxt\ud800 ```` <b>"

PLAIN = """\
debate · nl · bundled · seed 0
What is 14 + 3 * 5 - 7?
(form of the answer: number; --kind sets it)
Round 1 ────────────────────────────────────────────────────
╭─ agent_1 (hosted model) ─────────────────────────────────╮
│ 3 * 5 = 15; 29 - 7 = 22. The answer is 22.               │
│ words                                                    │
╰──────────────────────────────────────────────────────────╯
╭─ agent_2 (hosted model) ─────────────────────────────────╮
│ Who knows?                                               │
│ words · asked for the answer: it holds no number · it    │
│ says "22"                                                │
╰──────────────────────────────────────────────────────────╯
Round 2 ────────────────────────────────────────────────────
╭─ agent_1 (hosted model) ─────────────────────────────────╮
│ The answer is 22.                                        │
│ words                                                    │
╰──────────────────────────────────────────────────────────╯
╭─ agent_2 (hosted model) ─────────────────────────────────╮
│ Well.                                                    │
│ words · asked for the answer: it holds no number · it    │
│ says "well" · cannot be read: it holds no number         │
╰──────────────────────────────────────────────────────────╯
Decision ───────────────────────────────────────────────────
22  by majority: 1 of 2 say 22
agent_1: 22
agent_2: abstains (asked for the answer); nothing could be
read from: Well.
a reply without an answer of the kind number abstains;
--kind asks for another
right: the answer is 22
6 calls, tokens not reported, 1.5 s; of 4 answers 2 read at
once, 1 by the answer turn, 1 not to be read
"""


@pytest.fixture
def run(tmp_path: Path) -> DiscussionRecord:
    return held(
        {
            "agent_1": ["3 * 5 = 15; 29 - 7 = 22. The answer is 22.", "The answer is 22."],
            "agent_2": ["Who knows?", " 22", "Well.", " well"],
        },
        tmp_path,
        rounds=2,
        answer_turn="every",
    )


def test_a_plain_transcript_has_no_cursor_control(run: DiscussionRecord) -> None:
    assert printed(run).replace(" \n", "\n") == PLAIN


@pytest.mark.parametrize(
    ("source", "name"), [("model", "agent_1"), ("expert", "agent_1 (expert)"), ("hosted", "agent_1 (hosted model)")]
)
def test_a_speaker_that_is_no_local_model_is_marked(source: str, name: str) -> None:
    assert describe.speaker(Message("agent_1", 0, "answer", "29", source=source)) == name


def test_text_of_a_model_is_neither_markup_nor_control(tmp_path: Path) -> None:
    run = held({"agent_1": [NASTY] * 9}, tmp_path, rounds=1)

    shown = printed(run, 100)

    assert "\\x1b[2J[red]not red[/red] :smile: \\u202etxt\N{REPLACEMENT CHARACTER} ```` <b>" in shown
    assert not {"\x1b", "\u202e", "\ud800"} & set(shown + markdown(run))


def test_tokens_are_shaded_by_their_entropy(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path)
    message = carrying(Message("agent_1", 0, "answer", "so it is"), [(0, 2), (2, 5), (5, 8)], [0.0, 1.0, 3.0], store)

    text = transcript.shaded("", [*describe.shades(message)])

    assert text.plain == "so it is"
    assert [(text.plain[span.start : span.end], span.style) for span in text.spans] == [
        (" it", transcript.SHADES[0.25]),
        (" is", transcript.SHADES[0.75]),
    ]


@pytest.mark.parametrize(
    ("entropies", "limits"), [([0.04, 0.0, None], []), ([1.0, float("inf"), 4.0], [1.0, 2.0, 3.0, 4.0])]
)
def test_shades_begin_at_quarters_of_a_replys_highest_entropy(
    entropies: list[float | None], limits: list[float]
) -> None:
    assert transcript.scale([("x", entropy) for entropy in entropies]) == limits


def test_an_edited_message_is_not_shaded_and_says_that_it_was_edited(tmp_path: Path) -> None:
    said = carrying(Message("agent_1", 0, "answer", "22"), [(0, 2)], [1.0], PayloadStore(tmp_path))
    edited = Message(**{**vars(said), "text": "23", "stats": {"tokens_out": 27.0, "mean_entropy": 1.0}})

    assert list(describe.shades(edited)) == [("23", None)]
    assert describe.footer(edited).endswith("; edited since, heard in words")


def test_what_a_message_carried_is_told_with_its_size(tmp_path: Path) -> None:
    said = carrying(Message("agent_1", 0, "answer", "22"), [(0, 1), (1, 2)], [1.0, 1.0], PayloadStore(tmp_path))
    assert said.payload is not None

    assert describe.carried(said) == f"cipher: 2 rows × 8, float32, {said.payload.nbytes} bytes"
    assert describe.carried(Message("agent_1", 0, "answer", "22")) == "words"


def said(*messages: Message) -> DiscussionRecord:
    """A record of a debate of twelve that holds these messages."""
    settings = Debate(agents=12).model_dump(mode="json")
    return DiscussionRecord(scheme="debate", settings=settings, question=QUESTION, messages=ordered([*messages]))


def test_what_a_reset_withdrew_stands_under_a_heading_that_says_so() -> None:
    run = said(
        Message("agent_1", 0, "answer", "first"),
        Message("agent_1", 1, "revise", "lost", notes=("withdrawn: too unsure",)),
        Message("agent_1", 1, "revise", "again", epoch=1),
    )
    run.resets = [Reset(cut=[1, 0], why="too unsure")]

    shown = printed(run)

    assert [block.heading for block in blocks.rounds(run)] == [
        "Round 1", "Round 2, withdrawn", "Taken back to round 2", "Round 2",
    ]  # fmt: skip
    assert "words · withdrawn: too unsure" in shown
    assert [line for line in markdown(run).splitlines() if line.startswith("## ")] == [
        "## Round 1", "## Round 2, withdrawn", "## Taken back to round 2", "## Round 2", "## Decision",
    ]  # fmt: skip
    last = run.said("agent_1")
    assert last is not None and last.text == "again"


def test_equal_messages_of_a_round_are_one_panel_and_a_line(tmp_path: Path) -> None:
    run = held({name: ["The answer is 22."] for name in ("agent_1", "agent_2")}, tmp_path, rounds=1)

    assert printed(run).count("The answer is 22.") == 1
    assert "agent_2 (hosted model): the same as agent_1 (hosted model)" in printed(run, 80)
    assert "agent_1, agent_2: 22" in printed(run)
    run.messages[1] = replace(run.messages[1], notes=("asked again",))
    assert printed(run).count("The answer is 22.") == 2


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("a ```` b").splitlines() == ["`````text", "a ```` b", "`````"]
    assert fenced("plain").startswith("```text\n")


class Counted(Message):
    """A message that counts how often its place is looked at."""

    looks = 0

    @property
    def place(self) -> Place:
        Counted.looks += 1
        return super().place


def test_the_work_for_a_long_round_grows_with_its_length() -> None:
    # Seen: each message was searched for among all, so that a thousand samples took 20 s.
    messages = [Counted(f"sample_{n}", 0, "answer", "22") for n in range(4_000)]

    assert len(describe.last_attempts(messages)) == 4_000
    assert Counted.looks < 10 * 4_000


def test_a_message_whose_payload_is_gone_can_still_be_read(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path)
    said = carrying(Message("agent_1", 0, "answer", "22"), [(0, 2)], [1.0], store)
    assert said.payload is not None
    next(store.root.glob("*/*")).unlink()

    assert list(describe.shades(said)) == [("22", None)]


def test_agents_stand_side_by_side_where_there_is_room(run: DiscussionRecord) -> None:
    wide, narrow = printed(run, 160, terminal=True), printed(run, 60, terminal=True)

    assert any("agent_1" in line and "agent_2" in line for line in wide.splitlines())
    assert not any("agent_1" in line and "agent_2" in line for line in narrow.splitlines())
