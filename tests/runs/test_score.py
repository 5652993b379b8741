"""Saved replies that are read again by today's readers, rules and scorers: no model is asked, and the log stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.main import main
from sottovoce.core.errors import UsageError
from sottovoce.graphs.cmd import CMD
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.govsim import draw_games as lakes
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.runs.run import load_run
from sottovoce.runs.run_directory import LOG
from sottovoce.runs.score import scored_again
from tests.cli.test_kept_runs import content
from tests.runs import schemes
from tests.runs.schemes import ASKED, BOOK, CHOSEN, JUDGED, LIVED, SENT, VOTED, WEIGHED, Replies, says
from tests.runs.support import QUESTION

DEBATE: tuple[Settings, Replies] = (
    Debate(agents=3, rounds=2),
    {f"agent_{n}": [says(22), says(22 if n < 3 else 21)] for n in (1, 2, 3)},
)


def rewrite(folder: Path, change: Callable[[Any], None]) -> None:
    """Change the steps of a log, as another version would have written them."""
    lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    for line in lines:
        if line["line"] == "step":
            change(line)
    (folder / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines))


def misread(step: Any) -> None:
    """Let another version's reader have found 20 in what agent_1 said last."""
    for values in (step["update"], *step["events"]):
        for votes in (values.get("votes"), values.get("decision", {}).get("votes")):
            for vote in votes or ():
                vote["answer"] = "20"
        if "decision" in values:
            values["decision"] |= {"answer": "20", "score": 0.0}


def said_otherwise(step: Any) -> None:
    """Let half of the agents have said another number, so that a vote would have been a tie."""
    for event in step["events"]:
        if event["event"] == "said" and event["agent"] in ("agent_1", "agent_2", "agent_3"):
            event["text"] = says(21)


@pytest.mark.parametrize(
    ("scheme", "question"),
    [
        *((each, QUESTION) for each in (DEBATE, VOTED, JUDGED, WEIGHED, ASKED, SENT)),
        (CHOSEN, BOOK),
        (LIVED, lakes(1, LIVED[0])[0]),  # type: ignore[arg-type]  # settings of the world
    ],
)
def test_replies_that_are_read_as_before_have_the_recorded_answers(
    scheme: tuple[Settings, Replies], question: Question, tmp_path: Path
) -> None:
    schemes.held(*scheme, tmp_path, question=question)

    run = load_run(tmp_path / "run")
    again, other = scored_again(run)

    assert again.only == run.only and other == {}


def test_answers_that_another_version_read_otherwise_are_told_beside_those_of_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schemes.held(*DEBATE, tmp_path)
    rewrite(tmp_path / "run", misread)
    before = content(tmp_path)

    code = main(["runs", "score", str(tmp_path / "run")])

    assert code == 0 and content(tmp_path) == before
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines()]
    assert ["ours", "1", "0", "0 to 0.793", "1", "0.207 to 1"] in rows
    (name,) = {row[0] for row in rows if row[2:3] == ["the decision"]}
    assert [row[1:] for row in rows if row[0] == name] == [
        ["0", "the decision", "20, score 0", "22, score 1"],
        ["0", "agent_1", "20", "22"],
        ["0", "agent_2", "20", "22"],
        ["0", "agent_3", "20", "21"],
    ]
    assert "1 of 1 discussion read differently by this version; the log stays as it is" in out
    run = load_run(tmp_path / "run")
    run.verdicts = {"judged": dict.fromkeys(run.records, 0.0)}
    assert scored_again(run)[0].verdicts == {"judged": {}}  # the judge saw another answer


def test_a_discussion_that_would_ask_a_model_keeps_its_recorded_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agreed = {f"agent_{n}": [says(22)] * 2 for n in range(1, 7)}
    schemes.held(CMD(rounds=2), agreed, tmp_path)
    rewrite(tmp_path / "run", said_otherwise)

    run = load_run(tmp_path / "run")
    again, other = scored_again(run)

    assert again.only == run.only
    assert [*other.values()] == ["another step would follow than the recorded ones: 8/secretary"]
    main(["runs", "score", str(tmp_path / "run")])
    assert "keeps its recorded answers: another step would follow" in capsys.readouterr().out


def test_files_that_a_run_names_are_opened_only_if_the_command_line_trusts_it(tmp_path: Path) -> None:
    schemes.held(*DEBATE, tmp_path)
    log = tmp_path / "run" / LOG
    log.write_text(log.read_text().replace('"prompts":null', '"prompts":"/there/pack"', 1))

    with pytest.raises(UsageError, match="names the prompt pack '/there/pack', which is not opened for it"):
        scored_again(load_run(tmp_path / "run"))
