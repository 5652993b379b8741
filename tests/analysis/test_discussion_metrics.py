"""Each measure of a discussion by its definition, on debates whose answers were written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.analysis.discussion_metrics import observed, rates
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.run_tables import show_measures
from sottovoce.core.errors import UsageError
from sottovoce.nodes.question import Question
from sottovoce.runs.record import DiscussionRecord
from tests.runs.single import run_one
from tests.runs.support import held, task

ASKED: Question = {"question": "What is it?", "kind": "number", "target": "1", "id": "it"}
RIGHT, WRONG, OTHER, NONE = "The answer is 1.", "The answer is 2.", "The answer is 3.", "I cannot say."


def record(folder: Path, *answers: list[str]) -> DiscussionRecord:
    """A debate whose agents say these, round by round."""
    said = {f"agent_{i}": each for i, each in enumerate(answers, 1)}
    return held(said, folder, question=ASKED, answer_turn="off")


def told(*records: DiscussionRecord, by: str | None = None) -> dict[tuple[str, str], tuple[int, int]]:
    """How often each measure's thing happened, of how many."""
    found = rates(observed(records), by)
    return {(each.measure, each.of): (each.happened, each.n) for each in found}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # Right, then what the other held: it flips, abandons, and the wrong answer spread. The other heard, and stayed.
        (
            ([RIGHT, WRONG], [WRONG, WRONG]),
            {"accuracy": (1, 4), "agreement": (1, 2), "flips": (1, 2), "abandoning": (1, 1)}
            | {"obstinate": (1, 1), "propagation": (1, 1)},
        ),
        # From right to an answer that nobody held: abandoned, and nothing spread.
        (([RIGHT, OTHER], [WRONG, RIGHT]), {"abandoning": (1, 1), "obstinate": (0, 1), "propagation": (0, 1)}),
        # Two wrong ones that hear only wrong ones are not obstinate.
        (([WRONG, WRONG], [OTHER, OTHER]), {"accuracy": (0, 4), "flips": (0, 2), "agreement": (0, 2)}),
        # Abstentions agree with nothing, are wrong, and are no flip from one to the next.
        (([NONE, NONE], [NONE, RIGHT]), {"accuracy": (1, 4), "agreement": (0, 2), "flips": (1, 2)}),
        # It spreads later, too, and once is enough.
        (([RIGHT, RIGHT, WRONG], [WRONG, RIGHT, RIGHT]), {"propagation": (1, 1), "abandoning": (1, 3)}),
    ],
)
def test_a_measure_is_of_what_its_definition_says(
    tmp_path: Path, answers: tuple[list[str], ...], expected: dict[str, tuple[int, int]]
) -> None:
    found = told(record(tmp_path, *answers))
    assert {name: found.get((name, "")) for name in expected} == expected
    if expected.get("accuracy", (1, 4))[0] == 0:
        assert ("obstinate", "") not in found and ("abandoning", "") not in found


def test_who_hears_nobody_is_not_obstinate_and_takes_nothing_over(tmp_path: Path) -> None:
    """Under a control agents were called obstinate towards answers that they never heard."""
    said = {"agent_1": [RIGHT, WRONG], "agent_2": [WRONG, WRONG]}
    for control in ("own", "empty"):
        found = told(held(said, tmp_path, question=ASKED, answer_turn="off", control=control))
        assert ("obstinate", "") not in found and ("propagation", "") not in found
        assert found["abandoning", ""] == (1, 1)


def test_who_hears_no_message_that_was_kept_back_is_not_obstinate_towards_it(tmp_path: Path) -> None:
    said = {"agent_1": [WRONG, WRONG], "agent_2": [WRONG, WRONG], "agent_3": [RIGHT, RIGHT]}
    assert told(held(said, tmp_path, question=ASKED, answer_turn="off"))["obstinate", ""] == (2, 2)
    kept = held(said, tmp_path / "kept", question=ASKED, answer_turn="off", retain="agreeing")
    assert ("obstinate", "") not in told(kept)


def test_a_rule_that_averages_decides_on_nothing_that_could_be_right(tmp_path: Path) -> None:
    """Under `average` a discussion counted as decided right only if all agents were."""
    said = {"agent_1": [RIGHT], "agent_2": [RIGHT]}
    assert ("decided right", "") in told(held(said, tmp_path, question=ASKED, answer_turn="off"))
    averaged = held(said, tmp_path, question=ASKED, answer_turn="off", rule="average")
    assert ("decided right", "") not in told(averaged)


def test_inconsistent_is_by_round_limit_and_number_of_agents(tmp_path: Path) -> None:
    late = record(tmp_path / "a", [RIGHT, WRONG], [WRONG, WRONG])
    never = record(tmp_path / "b", [RIGHT, RIGHT], [WRONG, WRONG])
    early = record(tmp_path / "c", [RIGHT], [RIGHT])  # one that ended when they agreed counts at later limits, too
    trio = record(tmp_path / "d", [RIGHT], [RIGHT], [WRONG])

    found = told(late, never, early, trio, by="limit")

    assert found == {
        ("inconsistent", "2 agents, 1 round"): (2, 3),
        ("inconsistent", "2 agents, 2 rounds"): (1, 3),
        ("inconsistent", "3 agents, 1 round"): (1, 1),
        ("inconsistent", "3 agents, 2 rounds"): (1, 1),
    }


def test_a_judge_errs_where_answers_differ_and_the_right_one_is_among_them(tmp_path: Path) -> None:
    said = record(tmp_path / "a", [RIGHT], [WRONG])
    agreed = record(tmp_path / "b", [WRONG], [WRONG])
    for each in (said, agreed):
        assert each.decision is not None
        assert ("judge mistake", "") not in told(each)  # a vote is nobody's mistake
        each.decision = {**each.decision, "by": "judge", "answer": "2"}
    assert told(said)[("judge mistake", "")] == (1, 1) and ("judge mistake", "") not in told(agreed)


def test_rounds_agents_and_models_are_told_apart(tmp_path: Path) -> None:
    said = record(tmp_path, [RIGHT, WRONG], [WRONG, WRONG])
    assert told(said, by="round")[("accuracy", "round 1")] == (1, 2)
    assert told(said, by="round")[("flips", "round 2")] == (1, 2)  # of a step the later round
    assert told(said, by="agent")[("flips", "agent_2")] == (0, 1)
    assert told(said, by="model")[("accuracy", "bundled")] == (1, 4)


def test_each_line_has_its_denominator_and_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = task({"agent_1": [RIGHT, WRONG], "agent_2": [WRONG, WRONG]}, ASKED)
    run_one(made, PayloadStore(tmp_path / "payloads"), folder=tmp_path / "run")
    show_measures([str(tmp_path / "run")], "agent")
    out = capsys.readouterr().out
    assert out.startswith("`run`: 1 question\n\n| measure | of | happened | n | share | 95 % |\n")
    assert "| accuracy | agent_1 | 1 | 2 | 50.0% | " in out
    nobody = task({"agent_1": [RIGHT]}, {"question": "What is it?"})
    run_one(nobody, PayloadStore(tmp_path / "more"), folder=tmp_path / "open")
    with pytest.raises(UsageError, match="run 'open' has no answers to measure; expected questions with a target"):
        show_measures([str(tmp_path / "open")], None)


def test_one_text_under_two_ids_is_one_question(tmp_path: Path) -> None:
    """Wilson's interval was that of two questions."""
    first = record(tmp_path / "a", [RIGHT])
    again = first.model_copy(update={"question": {**ASKED, "id": "it again", "target": "1.0"}})
    assert {each.question for each in observed([first, again])} == {"it"}
