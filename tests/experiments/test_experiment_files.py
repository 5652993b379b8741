"""The files in experiments/: each can run, and the bundled model's rows show the effect that they are for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.rows import prepare
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.report.comparison import carried, comparison_of
from tests.shared import shared
from tests.tables import some

FOLDER = Path(__file__).parents[2] / "experiments"
FILES = sorted(FOLDER.glob("*.yaml"))
LONG = ("channel_briefing", "channel_arithmetic", "channel_split", "card_arithmetic", "compression")
"""Files with so many rows that they are read in the slow tests."""
SHORT = [path for path in FILES if path.stem not in LONG]
ROWS = {
    "ecqa_test.csv": "ecqa_test_first100.csv",
    "aqua_test.jsonl": "aqua_test_first60.jsonl",
    "gsm8k_test.jsonl": "gsm8k_test_first200.jsonl",
    "high_school_mathematics_test.csv": "mmlu_high_school_mathematics_first60.csv",
}
"""As an experiment names them, and as the first rows of them are called."""


@pytest.mark.parametrize("path", some(FILES, *SHORT), ids=lambda path: path.stem)
def test_every_file_can_run_as_it_is(path: Path, tmp_path: Path) -> None:
    experiment = read_experiment(with_data(path, tmp_path))
    asked = {name: prepare(experiment, name).questions for name in experiment.rows}
    assert experiment.about and experiment.against in {row.name for row in experiment.rows.values()}
    for point in experiment.points or [""]:
        here = [name for name, row in experiment.rows.items() if row.point == point]
        assert len({tuple(each["question"] for each in asked[name]) for name in here}) == 1
        assert len(asked[here[0]]) == sum(each.limit or 0 for each in experiment.sources(here[0]))


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


@pytest.mark.slow
def test_the_bundled_model_needs_the_other_agents_message_for_split_knowledge(tmp_path: Path) -> None:
    experiment = read_experiment(FOLDER / "card_split.yaml", limit=1)
    runs, _ = run_experiment(experiment, RowRunner(tmp_path), names=["nl-greedy", "own", "withheld"])
    scores = {name: [result.score for result in run.results()] for name, run in runs.items()}
    assert scores == {"nl-greedy": [1.0], "own": [0.0], "withheld": [0.0]}


def test_keys_and_values_of_split_knowledge_take_over_a_hundred_times_the_bytes_of_words(tmp_path: Path) -> None:
    content = yaml.safe_load((FOLDER / "channel_split.yaml").read_text(encoding="utf-8"))
    content |= {"points": {"split": {"questions": content.pop("questions")}}, "floor": "empty"}  # as only points have
    (tmp_path / "split.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    experiment = read_experiment(tmp_path / "split.yaml", limit=1)
    runs, _ = run_experiment(experiment, RowRunner(tmp_path / "runs"), names=["nl.split", "kv.split", "empty.split"])
    words, cache, empty = carried(experiment, runs, comparison_of(runs, experiment.baselines).runs)
    assert (empty.message_bytes, empty.per_kilobyte) == (None, None)
    assert words.right and empty.right and words.right.value > empty.right.value
    assert words.message_bytes and cache.message_bytes and cache.message_bytes > 100 * words.message_bytes
    assert words.per_kilobyte and words.per_kilobyte * words.message_bytes * 2 == pytest.approx(1000)  # 2 are heard
