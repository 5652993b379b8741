from pathlib import Path

import pytest

from sottovoce.channels.store import PayloadStore
from sottovoce.runs.record import Result
from sottovoce.runs.run import load_run
from tests.runs.single import run_one
from tests.runs.support import task

RIGHT, WRONG, SILENT = "So it is 22.\nThe answer is 22.", "The answer is 23.", "I cannot say."


def result(folder: Path, *replies: str, rule: str) -> Result:
    """What a debate of one round came to."""
    said = {f"agent_{i}": [reply] for i, reply in enumerate(replies, 1)}
    run_one(task(said, rule=rule, answer_turn="off"), PayloadStore(folder / "payloads"), folder=folder)
    (found,) = load_run(folder).results()
    return found


@pytest.mark.parametrize(
    ("replies", "rule", "answer", "score", "abstained"),
    [
        ([RIGHT, RIGHT], "majority", "22", 1.0, False),
        ([SILENT, SILENT], "majority", None, 0.0, True),
        ([RIGHT, WRONG], "average", None, 0.5, False),  # was counted as an abstention: no single answer comes of it
        ([SILENT, WRONG], "average", None, 0.0, False),
        ([SILENT, SILENT], "average", None, 0.0, True),
    ],
)
def test_a_discussion_abstains_where_no_answer_came_of_it(
    tmp_path: Path, replies: list[str], rule: str, answer: str | None, score: float, abstained: bool
) -> None:
    found = result(tmp_path / "run", *replies, rule=rule)
    assert (found.answer, found.score, found.abstained, found.target) == (answer, score, abstained, "22")
