"""What transcripts show of the schemes that judge, vote, divide or ask again."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.graphs.cmd import CMD
from sottovoce.graphs.govsim import draw_games as lakes
from sottovoce.graphs.whodunit import draw_games
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.report.transcript import markdown
from sottovoce.runs.run import load_run
from tests.cli.screen import printed
from tests.runs import schemes
from tests.runs.schemes import ASKED, BOOK, CHOSEN, JUDGED, LIVED, PLAYED, SENT, WEIGHED
from tests.runs.support import QUESTION


def follows(text: str, *pieces: str) -> bool:
    """Whether the pieces stand in the text in this order."""
    at = 0
    for piece in pieces:
        at = text.find(piece, at) + len(piece)
        if at < len(piece):
            return False
    return True


def test_a_vote_with_weights_tells_stated_confidence_and_recalibrated_weight(tmp_path: Path) -> None:
    shown = printed(schemes.held(*WEIGHED, tmp_path), 120)

    assert (
        """
Vote after round 1:
  22 ×1, weight 0.8: agent_1 (confidence 0.95, weight 0.8)
  21 ×1, weight 0.5: agent_2 (confidence 0.85, weight 0.5)
  abstains: agent_3
"""
        in shown
    )
    assert """
22  by weighted: 0.8 of 1.6 in weight for 22 after round 2; a tie of 2 answers, agent_1 spoke first
tied: 22 and 21; decided by the first to speak
by plain it would be 21
agent_1: 22 (confidence 0.95, weight 0.8)
agent_2: 21 (confidence 0.85, weight 0.5)
agent_3: 21 (confidence 0.7, weight 0.3)
right: the answer is 22
""" in shown  # fmt: skip


ROW = ("╭─ affirmative", "╭─ negative", "╭─ debater_3", "╭─ moderator")


@pytest.mark.parametrize(
    ("scheme", "question", "pieces"),
    [
        (
            JUDGED,
            QUESTION,
            (
                "Round 1", *ROW, "Round 2", *ROW, "Candidates listed by the judge after round 2", "22, 21 or 20",
                "The judge's choice after round 2", "22  by judge",
            ),
        ),
        (
            CHOSEN,
            BOOK,
            (
                "2 debaters, at most 3 rounds · evidence: 2 of encyclopedia, at most 3 chosen",
                "Evidence", "─ library", "[0] The Salt Ledger (encyclopedia:The Salt Ledger, rank 1)",
                "Round 1", "─ agent_1 chooses evidence", "chose [1]",
                "─ agent_2 chooses evidence", "chose [0] The Salt",
                "The judge after round 1", "Round 2", "chose no evidence",
                "The judge after round 2", "The summarizer after round 2",
                "Greyholt  by summarizer: they agreed in round 2",
            ),
        ),
        (
            PLAYED,
            draw_games(1, PLAYED[0])[0],  # type: ignore[arg-type]  # settings of the world
            (
                "Accuser Beth and Intel Alex in turn, at most 31 turns", "Which character is the winner?",
                "Turn 1", "─ Beth", "published: Beth asks: does character 1 wear a brown hat?", "3 of 3 remain",
                "Turn 2", "─ Alex", "first attempt: asked again: There was no JSON object",
                "Turn 3", "published: Beth awards character 2.", "2  by award: Beth chose character 2 in turn 3",
            ),
        ),
        (
            LIVED,
            lakes(1, LIVED[0])[0],  # type: ignore[arg-type]  # settings of the world
            (
                "2 agents, at most 2 months, at most 1 utterance a talk", "How many tons of fish do you catch",
                "Month 1", "─ John", "wants 25 tons", "─ Kate", "wants 30 tons", "─ lake",
                "Month 1: John caught 25 tons and Kate caught 30 tons.", "45 tons left of 100; they double to 90",
                "Talk", "Say: 25 each?", "names Kate", "Summary of the talk", "He wants 25 each.", "Notes", "Plan: 30.",
                "Month 2", "cannot be read: it states no", "30 tons left of 90; they double to 60",
                "Talk", "ends the talk", "2 months  by survival: the fish lasted all 2 months, with 30 tons left",
                "survived 1, months 2, gain 57.5",
            ),
        ),
    ],
    ids=["mad", "madra", "whodunit", "govsim"],
)  # fmt: skip
def test_a_discussion_is_told_in_the_order_and_the_words_of_its_scheme(
    scheme: tuple[Settings, schemes.Replies], question: Question, pieces: tuple[str, ...], tmp_path: Path
) -> None:
    run = schemes.held(*scheme, tmp_path, question=question)

    for shown in (printed(each, 100) for each in (run, load_run(tmp_path / "run").only)):
        assert follows(shown, *pieces) and "Shown to nobody" not in shown


def test_only_the_latest_reply_is_shown_with_the_reason_why_it_was_asked_for(tmp_path: Path) -> None:
    run = schemes.held(*WEIGHED, tmp_path)

    for shown in (printed(run, 400), markdown(run)):
        assert "Hm!" in shown and "Hm." not in shown
        assert shown.count("first attempt: asked again: ") == shown.count("cannot be read: ") == 1


def test_what_an_answer_turn_says_stands_under_its_reply_and_not_in_its_place(tmp_path: Path) -> None:
    run = schemes.held(*ASKED, tmp_path)

    for shown in (printed(run, 400), markdown(run)):
        assert "Both." in shown and "Answer:" not in shown
        assert shown.count('words · asked for the answer: it holds no number · it says "22"') == 2
        assert 'asked for the answer: it holds no number · it says "hm" · cannot be read: it holds no number' in shown
    assert [message.text for message in run.messages if message.agent == "secretary"] == ["Both.", " 22"]


def test_answers_and_views_are_neither_markup_nor_control(tmp_path: Path) -> None:
    nasty, shown_as = "\x1b2J no*t <x> \u202etxt", r"\x1b2J no*t <x> \u202etxt"
    question: Question = {"question": "Which?", "kind": "text", "starting_views": {"agent_1": nasty}}
    replies = {"agent_1": [f"[{nasty}]"], "agent_2": ["[plain]"]}
    run = schemes.held(CMD(agents=2, rounds=1, secretary=False), replies, tmp_path, question=question)

    lines = printed(run, 400).splitlines()
    for start in ("Vote after round 1: ", "tied: ", "starting view of agent_1: "):
        assert shown_as in next(line for line in lines if line.startswith(start))
    assert not {"\x1b", "\u202e"} & set("".join(lines) + markdown(run))
    assert r"no\*t \<x\>" in next(line for line in markdown(run).splitlines() if "Vote after" in line)


def test_markdown_has_the_votes_the_levels_and_the_tie(tmp_path: Path) -> None:
    weighed, sent = markdown(schemes.held(*WEIGHED, tmp_path)), markdown(schemes.held(*SENT, tmp_path / "sent"))

    assert "- Vote after round 2:\n  - 22 ×1, weight 0.8: agent\\_1 (confidence 0.95, weight 0.8)\n  - 21 ×2" in weighed
    assert "- tied: 22 and 21; decided by the first to speak\n- by plain it would be 21\n" in weighed
    assert "- group 2: agent\\_4, agent\\_5, agent\\_6\n\n## Round 1" in sent
    assert "## Level 2\n\n- group 1: agent\\_1 represents agent\\_1, agent\\_2, agent\\_3;" in sent
