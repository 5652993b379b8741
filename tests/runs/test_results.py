from pathlib import Path

import pytest

from sottovoce.channels.store import PayloadStore
from sottovoce.nodes.question import Question, content_of, same_questions
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


CAFE: Question = {"question": "How many caf\u00e9s?", "kind": "number", "target": "29", "documents": ["a caf\u00e9"]}


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"id": "b", "question": "How many cafe\u0301s?", "documents": [{"text": "a cafe\u0301", "id": "d1"}]}, True),
        ({"target": "29.0"}, True),
        ({"target": "30"}, False),
        ({"question": "How many bars?"}, False),
        ({"documents": ["a bar"]}, False),
        ({"choices": ["29", "30"]}, False),
        ({"kind": "text", "target": "29.0"}, False),
    ],
)
def test_questions_are_one_by_their_content_and_not_by_their_ids(other: Question, is_same: bool) -> None:
    changed: Question = {**CAFE, **other}
    assert same_questions({"a": content_of(CAFE), "b": content_of(changed)}) == {"a": "a", "b": "a" if is_same else "b"}
