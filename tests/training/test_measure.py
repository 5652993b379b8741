import pytest

from sottovoce.training.measure import TASKS, WORK, measure, results_of, sample, tables

ROWS = [(task, name) for task, rows in TASKS.items() for name in rows]


@pytest.mark.parametrize(("task", "name"), ROWS)
def test_every_row_asks_the_same_questions_of_its_task(task: str, name: str) -> None:
    asked = sample(task, TASKS[task][name], 5)
    first = sample(task, TASKS[task]["single"], 5)
    assert name == "easy" or [question["question"] for question in asked] == [q["question"] for q in first]


def test_a_withheld_document_is_the_other_agents() -> None:
    whole = sample("split", TASKS["split"]["nl"], 5)
    withheld = sample("split", TASKS["split"]["withheld"], 5)
    for question, without in zip(whole, withheld, strict=True):
        documents = question["documents"]
        assert isinstance(documents, dict)
        assert without["documents"] == {"agent_1": documents["agent_1"]}


@pytest.mark.parametrize(("name", "right"), [("nl-greedy", [True] * 3), ("echo", [False] * 3), ("mute", [False] * 3)])
def test_the_bundled_model_needs_the_others_message_for_split_knowledge(name: str, right: list[bool]) -> None:
    assert measure(f"split/{name}", 3) == {"right": right, "looked_up": right}


def test_the_rows_of_another_model_are_kept_in_a_file_of_their_own() -> None:
    kept = {results_of("measure", model) for model in ("bundled", "Qwen/Qwen3-0.6B", "../bundled")}
    assert len(kept) == 3
    assert {path.parent for path in kept} == {WORK}


def test_the_table_shows_what_was_measured_with_its_tests() -> None:
    shares = {"single": [True, False] * 50, "nl": [True] * 100}
    text = tables({f"arithmetic/{name}": {"right": right, "looked_up": []} for name, right in shares.items()})
    assert "| single, greedy | 50.0% | 40.4% to 59.6% |" in text
    assert "| debate, words, T = 0.7 | 100.0% | 96.3% to 100.0% |  | < 0.001 |  | `arithmetic/nl` |" in text
    assert "CIPHER" not in text
