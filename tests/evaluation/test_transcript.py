"""The transcript as a person sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.evaluation import describe, parts, transcript, votes
from sottovoce.evaluation.markdown import fenced, markdown
from sottovoce.evaluation.record import Run
from tests.evaluation.screen import printed
from tests.evaluation.support import carrying, held

NASTY = "\x1b[2J[red]not red[/red] :smile: \u202etxt\ud800 ```` <b>"

PLAIN = """\
debate · nl · bundled · seed 0
What is 14 + 3 * 5 - 7?
Round 1 ────────────────────────────────────────────────────
╭─ agent_1 (hosted model) ─────────────────────────────────╮
│ 3 * 5 = 15; 29 - 7 = 22. The answer is 22.               │
│ words                                                    │
╰──────────────────────────────────────────────────────────╯
╭─ agent_2 (hosted model) ─────────────────────────────────╮
│ I do not know.                                           │
│ words                                                    │
╰──────────────────────────────────────────────────────────╯
Round 2 ────────────────────────────────────────────────────
╭─ agent_1 (hosted model) ─────────────────────────────────╮
│ The answer is 22.                                        │
│ words                                                    │
╰──────────────────────────────────────────────────────────╯
╭─ agent_2 (hosted model) ─────────────────────────────────╮
│ Well.                                                    │
│ words                                                    │
╰──────────────────────────────────────────────────────────╯
Decision ───────────────────────────────────────────────────
22  by majority: 1 of 2 say 22
agent_1: 22
agent_2: abstains; nothing could be read from: Well.
right: the answer is 22
4 calls, 0 tokens read, 0 tokens written, 1.5 s
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return held(
        {
            "agent_1": ["3 * 5 = 15; 29 - 7 = 22. The answer is 22.", "The answer is 22."],
            "agent_2": ["I do not know.", "Well."],
        },
        tmp_path,
    )


def test_a_plain_transcript_has_no_cursor_control(run: Run) -> None:
    assert printed(run) == PLAIN


def test_agents_stand_side_by_side_where_there_is_room(run: Run) -> None:
    wide, narrow = printed(run, 160, terminal=True), printed(run, 60, terminal=True)

    assert any("agent_1" in line and "agent_2" in line for line in wide.splitlines())
    assert not any("agent_1" in line and "agent_2" in line for line in narrow.splitlines())


def test_text_of_a_model_is_neither_markup_nor_control(tmp_path: Path) -> None:
    run = held({"agent_1": [NASTY]}, tmp_path)

    shown = printed(run, 100)

    assert r"\x1b[2J[red]not red[/red] :smile: \u202etxt\ud800 ```` <b>" in shown
    assert not {"\x1b", "\u202e", "\ud800"} & set(shown + markdown(run))


def test_tokens_are_shaded_by_their_entropy(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path)
    message = carrying(Message("agent_1", 0, "answer", "so it is"), [(0, 2), (2, 5), (5, 8)], [0.0, 0.5, 3.0], store)

    text = transcript.shaded(message)

    assert text.plain == "so it is"
    assert [(text.plain[span.start : span.end], span.style) for span in text.spans] == [
        (" it", transcript.LEVELS[1][1]),
        (" is", transcript.LEVELS[3][1]),
    ]


def test_tokens_that_share_a_character_show_it_once(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path)
    message = carrying(Message("agent_1", 0, "answer", "aéz"), [(0, 1), (1, 2), (1, 2), (2, 3)], [0.0] * 4, store)

    assert "".join(piece for piece, _ in describe.shades(message)) == "aéz"


def test_an_edited_message_is_not_shaded_and_says_that_it_was_edited(tmp_path: Path) -> None:
    said = carrying(Message("agent_1", 0, "answer", "22"), [(0, 2)], [1.0], PayloadStore(tmp_path))
    edited = Message(**{**vars(said), "text": "23"})

    assert describe.shades(edited) == [("23", None)]
    assert describe.carried(edited).endswith("; edited since, heard in words")


def test_a_message_whose_payload_is_gone_can_still_be_read(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path)
    said = carrying(Message("agent_1", 0, "answer", "22"), [(0, 2)], [1.0], store)
    assert said.payload is not None
    store.mdelete([said.payload.sha256])

    assert describe.shades(said) == [("22", None)]


def test_what_a_message_carried_is_told_with_its_size(tmp_path: Path) -> None:
    said = carrying(Message("agent_1", 0, "answer", "22"), [(0, 1), (1, 2)], [1.0, 1.0], PayloadStore(tmp_path))
    assert said.payload is not None

    assert describe.carried(said) == f"cipher: 2 rows × 8, float32, {said.payload.nbytes} B"
    assert describe.carried(Message("agent_1", 0, "answer", "22")) == "words"


def test_notes_sources_and_summaries_are_marked() -> None:
    message = Message("agent_1", 0, "answer", "22", source="expert", notes=("cut at the token limit",))

    assert describe.speaker(message) == "agent_1 (expert)"
    assert describe.footer(message) == "words · cut at the token limit"
    assert describe.speaker(Message("summariser", 0, "summarise", "all say 22")) == "summariser sums up"


def test_summaries_have_a_row_of_their_own() -> None:
    messages = [Message(f"agent_{i}", 0, act, "") for act in ("summarise", "answer") for i in (10, 2)]

    assert [(part.heading, [each.agent for each in part.messages]) for part in parts.rounds(messages, {}, [])] == [
        ("Round 1", ["agent_2", "agent_10"]),
        ("Summaries of round 1", ["agent_2", "agent_10"]),
    ]


def test_the_score_of_an_average_is_told(tmp_path: Path) -> None:
    run = held({"agent_1": ["22"], "agent_2": ["23"]}, tmp_path, rule="average")

    assert "no answer  by average" in printed(run)
    assert votes.verdict(run) == "score 0.50: share of agents that say 22"


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("a ```` b").splitlines() == ["`````text", "a ```` b", "`````"]
    assert fenced("plain").startswith("```text\n")


def test_markdown_shows_names_and_answers_as_they_are(tmp_path: Path) -> None:
    question = {"question": "Which *?", "kind": "text", "target": "*b*"}
    run = held({"agent_1": ["The answer is *b*_c"]}, tmp_path, question=question)

    text = markdown(run)

    assert "### agent\\_1" in text and "**\\*b\\*\\_c** by majority" in text
    assert "```text\nThe answer is *b*_c\n```" in text


def test_one_group_is_not_worth_a_line(run: Run) -> None:
    assert len(run.levels) == 1 and "group" not in printed(run)
