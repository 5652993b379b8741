"""The files in experiments/: each can run, and the bundled model's rows show the effect that they are for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.two_facts import right, tables
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.rows import prepare
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.experiments.schema import Experiment
from sottovoce.nodes.question import passages_of
from tests.shared import shared

FOLDER = Path(__file__).parents[2] / "experiments"
FILES = sorted(FOLDER.glob("*.yaml"))
AGENTS = ("agent_1", "agent_2")
ROWS = {
    "ecqa_test.csv": "ecqa_test_first100.csv",
    "aqua_test.jsonl": "aqua_test_first60.jsonl",
    "high_school_mathematics_test.csv": "mmlu_high_school_mathematics_first60.csv",
}
"""As an experiment names them, and as the first rows of them are called."""


def test_there_are_experiments() -> None:
    assert {path.stem for path in FILES} >= {"card_arithmetic", "card_split", "two_facts", "relay", "ia"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_can_run_as_it_is(path: Path, tmp_path: Path) -> None:
    experiment = read_experiment(with_data(path, tmp_path))

    asked = [prepare(experiment, name).questions for name in experiment.rows]

    assert experiment.about and experiment.against in experiment.rows
    assert len({tuple(each["question"] for each in questions) for questions in asked}) == 1
    assert len(asked[0]) == sum(each.limit or 0 for each in experiment.questions)


def with_data(path: Path, folder: Path) -> Path:
    """The file beside the rows that it asks of published data sets, where it does."""
    if "dataset" not in path.read_text(encoding="utf-8"):
        return path
    (folder / "data").mkdir()
    for name, slice in ROWS.items():
        (folder / "data" / name).symlink_to(shared(f"datasets/{slice}"))
    return Path(shutil.copy(path, folder))


def test_the_file_of_the_how_to_can_run(tmp_path: Path) -> None:
    page = (FOLDER.parent / "docs" / "howto" / "experiments.md").read_text(encoding="utf-8")
    (tmp_path / "table.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])

    experiment = read_experiment(tmp_path / "table.yaml")

    assert [len(prepare(experiment, name).questions) for name in experiment.rows] == [100] * 4


def test_the_bundled_model_needs_the_other_agents_message_for_split_knowledge(tmp_path: Path) -> None:
    experiment = read_experiment(FOLDER / "card_split.yaml", limit=3)

    runs, _ = run_experiment(experiment, RowRunner(tmp_path), names=["nl-greedy", "own", "empty", "withheld"])

    scores = {name: [result.score for result in run.results()] for name, run in runs.items()}
    assert scores == {"nl-greedy": [1.0] * 3, "own": [0.0] * 3, "empty": [0.0] * 3, "withheld": [0.0] * 3}


def test_two_facts_are_told_by_what_an_agent_holds_and_by_round(tmp_path: Path) -> None:
    given = read_experiment(FOLDER / "two_facts.yaml", limit=1).content
    given["settings"] = {"rounds": 2}  # a scripted model brings its own
    given["rows"] = {"nl": given["rows"]["nl"]}
    experiment = Experiment.model_validate(given)
    (question,) = prepare(experiment, "nl").questions
    answer, wrong = f"The answer is {question['target']}.", "The answer is Nowhere."
    first, last = sorted(AGENTS, key=lambda name: question["solution"].index(passages_of(question, name)[0]["text"]))
    model = ScriptedChatModel({first: [wrong, answer], last: [answer, wrong]})

    runs, _ = run_experiment(experiment, RowRunner(tmp_path, models=model))

    assert right(runs["nl"].only) == {"first": [False, True], "last": [True, False]}
    cells = [cell.strip() for cell in tables(runs).splitlines()[-1].strip("|").split("|")]
    assert [cells[at] for at in (0, 1, 2, 4, 5, 6, 8)] == ["`nl`", "0.0%", "100.0%", "+1 -0", "100.0%", "0.0%", "+0 -1"]
