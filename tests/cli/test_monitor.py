"""Tests of the commands of `monitor`, and of watched runs and their replay."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from sottovoce.analysis.monitors import _tokenizer
from sottovoce.monitors.dataset import read_rows
from sottovoce.monitors.settings import Measure
from sottovoce.runs.run import load_run
from sottovoce.runs.run_directory import saved_runs
from tests.cli.conftest import Call, Models
from tests.cli.test_errors import USAGE, refused
from tests.monitors.synthetic import rows, written
from tests.nodes.test_guard import monitor as watching

SMALL = ("--features", "entropy", "--degree", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows to train on, and others."""
    made = tmp_path_factory.mktemp("monitor")
    written(made / "train.jsonl", rows(100, seed=0), measured={"positions": "id"})
    written(made / "test.jsonl", rows(100, seed=1), measured={"positions": "id"})
    written(made / "top.jsonl", rows(20, seed=1), measured={"positions": "id", "distribution": "top"})
    written(made / "other.jsonl", rows(20, seed=1), role="other")
    return made


@pytest.fixture
def monitor(call: Call, folder: Path) -> Path:
    """A monitor of one candidate."""
    assert call("monitor", "train", folder / "train.jsonl", "--to", folder / "m.json", *SMALL, "--force").code == 0
    return folder / "m.json"


def test_a_monitor_is_trained_and_told(call: Call, folder: Path) -> None:
    answer = call("monitor", "train", folder / "train.jsonl", "--to", folder / "best.json", "--false-alarms", 0.2)

    lines = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert lines[0].startswith("role player: 70 games fitted to (") and lines[0].endswith(" failed), 35 candidates")
    assert len([line for line in lines if line.endswith(" |")]) == 1 + 5  # headings, and the best of them
    assert "These are the best of 3,535 choices of candidate and threshold on 15 games" in answer.out
    assert re.search(r"the gain on the rest is [+-]\d+\.\d points \(95 % [+-]\d+\.\d to [+-]\d+\.\d\)\.", answer.out)
    assert lines[-1] == f"written to {folder / 'best.json'}"
    assert call("monitor", "show", folder / "best.json").out.splitlines() == lines[-7:-1]
    assert "threshold by false alarms of 0.2, where the gain is +" in lines[-3]


def test_a_monitor_is_evaluated_beside_dice(call: Call, folder: Path, monitor: Path) -> None:
    answer = call("monitor", "evaluate", monitor, folder / "test.jsonl")

    table = [line.split(" | ") for line in answer.out.splitlines() if line.startswith("| ")]
    assert (answer.code, answer.err) == (0, "")
    assert [row[0] for row in table[1:]] == ["| monitor", "| random, as many resets", "| random, chosen by gain"]
    assert table[1][2] == table[2][2]
    assert "points more than by chance (95 % +" in answer.out and answer.out.endswith("; 100 games)\n")


FEW = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 2, "--seeds", 0, "--seeds", 1)


def test_rows_are_collected_from_kept_runs(call: Call, models: Models, tmp_path: Path) -> None:
    call("debate", "2 + 2?", "--target", 4, "--model", models.tiny, *FEW)
    call("debate", "3 + 2?", "--model", models.tiny, *FEW)
    target, other = saved_runs()

    answer = call("monitor", "collect", target, other, target, "--to", tmp_path / "rows.jsonl")

    found = read_rows(tmp_path / "rows.jsonl").rows
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == (
        "8 turns of 2 games, 2 failed; 8 of 8 turns have features: positions all, whole distributions; "
        f"skipped: 2 discussions without a score; written to {tmp_path / 'rows.jsonl'}\n"
    )
    assert {(row.role, row.turn) for row in found} == {(f"agent_{n}", turn) for n in (1, 2) for turn in (0, 1)}
    assert len({row.game for row in found}) == 2 and {row.measured for row in found} == {Measure()}
    run = load_run(target)
    message = next(iter(run.records.values())).messages[0]
    assert message.payload is not None and found[0].features is not None
    entropy = message.payload.load(run.store()).tensors["entropy"]
    assert found[0].features["entropy"] == pytest.approx(float(entropy.max()))


def test_positions_by_tokens_need_the_tokenizer_of_the_run(call: Call, models: Models, tmp_path: Path) -> None:
    model = shutil.copytree(models.tiny, tmp_path / "model")
    call("debate", "2 + 2?", "--target", 4, "--model", model, *FEW[:-4])
    # `--trust-paths`: the tokenizer lies in a folder that the run names
    taken = ("monitor", "collect", "latest", "--positions", "id_x_action", "--trust-paths", "--force")
    collect = (*taken, "--to", tmp_path / "rows.jsonl")

    assert "; 0 of 4 turns have features: positions id_x_action" in call(*collect).out

    shutil.copy(models.other_vocabulary / "tokenizer.json", model)
    _tokenizer.cache_clear()
    assert "has changed since the run, so its token ids would decode to other texts" in call(*collect).err


def test_the_random_baseline(call: Call, models: Models, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "random.json"
    made = call("monitor", "train", folder / "train.jsonl", "--to", file, "--rank", "random", *SMALL)
    evaluated = call("monitor", "evaluate", file, folder / "test.jsonl").out.splitlines()
    role = {**json.loads(file.read_text()), "role": "all", "threshold": 0.0}
    (tmp_path / "all.json").write_text(json.dumps(role))
    played = call("debate", "2 + 2?", "--model", models.tiny, *FEW[:-4], "--watch", tmp_path / "all.json", "--cap", 9)

    assert made.code == 0 and "draws a uniform number at each turn: triggers in " in made.out
    rows = {line.split(" | ")[0]: line.split(" | ")[1:] for line in evaluated if line.startswith("| ")}
    assert rows["| monitor"] == rows["| random, chosen by gain"]  # the same threshold, by the same gain
    assert "interventions in 1 of 1 discussion" in played.out or "the random number of agent_1 is 0." in played.out
    again = ("--to", file, "--force", "--rank", "random", "--false-alarms", 0.2)
    refused = call("monitor", "train", folder / "train.jsonl", *again)
    assert refused.err.startswith("sottovoce: only a fitted monitor can limit false alarms")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("train {}/none.jsonl --to x", "file of rows '{}/none.jsonl' cannot be read: No such file"),
        ("train {}/train.jsonl --to x --role coder", "unknown role 'coder'; choose from: player"),
        ("train {}/train.jsonl --to x --features entropy --degree 1 --rank worst", "worst needs several candidates"),
        ("evaluate {}/m.json {}/other.jsonl", "unknown role 'player'; choose from: other"),
        ("evaluate {}/m.json {}/top.jsonl", "the monitor was trained on features of positions id, whole distributions"),
        ("show {}/train.jsonl", "monitor file '{}/train.jsonl' is not JSON: Extra data"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused(call: Call, folder: Path, monitor: Path, words: str, told: str) -> None:
    line = refused(call, USAGE, "monitor", *words.replace("{}", str(folder)).split())

    assert line.startswith(told.replace("{}", str(folder)))


FEW_WATCHED = ("--max-tokens", 4, "--answer-turn", "off", "--rounds", 1, "--target", "4")


def saved(folder: Path, threshold: float) -> Path:
    """The file of a monitor of everybody, whose score is the entropy in nats."""
    file = folder / "monitor.json"
    watching("all", threshold).model_copy(update={"measured": Measure()}).save(file)
    return file


def test_a_watched_run_tells_its_interventions(call: Call, models: Models, tmp_path: Path) -> None:
    given = ("2 + 2?", "--model", models.tiny, *FEW_WATCHED, "--intervention", "again", "--temperature", 1)
    shown = call("debate", *given, "--watch", saved(tmp_path, 0.0), "--save", tmp_path / "run")
    assert shown.code == 0 and "again at agent_1, turn 1" in shown.out
