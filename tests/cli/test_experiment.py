"""Tests of `experiment run`, `layers` and `tune` on a tiny model with random weights."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from sottovoce.models import unload
from sottovoce.runs.run_directory import runs_folder
from tests.cli.conftest import Call, Models
from tests.shared import shared
from tests.support import tiny_model, tiny_tokenizer

TABLE = """
about: Which is better?
questions: {{sample: arithmetic/1, limit: 2}}
settings: {{model: {model}, max-tokens: 4, rounds: 2, answer-turn: off}}
rows:
  alone: {{scheme: single}}
  pair: {{scheme: debate}}
against: alone
"""


@pytest.fixture
def table(tmp_path: Path, models: Models) -> Path:
    path = tmp_path / "table.yaml"
    path.write_text(TABLE.format(model=models.tiny))
    return path


def test_the_comparison_is_on_stdout_progress_on_stderr_and_a_finished_experiment_is_printed_again(
    call: Call, table: Path
) -> None:
    typed = ("experiment", "run", table, "--limit", 2, "--trust-paths")
    first, folder = call(*typed), runs_folder() / "table-limit-2"
    table.write_text(table.read_text().replace("about: Which", "about: What"))

    again, there = call(*typed), call("experiment", "run", folder, "--trust-paths")

    assert first.out.startswith("Which is better?\n\n| run | questions | discussions |")
    assert "| `pair` | `alone` | 2 |" in first.out and first.out.endswith(f"saved in {folder}\n")
    assert first.err.startswith("alone: single · nl · ")
    assert "pair: 0.0% right of 2, " in first.err and " 8 calls" in first.err
    assert [answer.code for answer in (first, again, there)] == [0, 0, 0] and again.err == there.err == ""
    assert first.out.partition("\n")[2] == again.out.partition("\n")[2] == there.out.partition("\n")[2]
    assert again.out.startswith("What is better?") and there.out == again.out


def test_the_option_for_a_model_is_short_for_the_setting(call: Call, table: Path, models: Models) -> None:
    """Its rows were in the folder of those with the file's own model, and a path that was typed was refused."""
    asked = ("experiment", "run", table, "--rows", "alone")
    short, long = call(*asked, "--model", models.tiny), call(*asked, "--set", f"model={models.tiny}")
    assert "which is not opened for it; add --trust-paths" in call(*asked, "--set", "rounds=2").err

    assert short.out == long.out and short.code == long.code == 0
    assert "table-model-" in short.out.splitlines()[-1]


def test_rows_of_a_model_that_changed_are_not_mixed(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (tmp_path / "table.yaml").write_text(TABLE.format(model="./model"))
    for seed, row in ((0, "alone"), (1, "pair")):
        tiny_model(seed=seed, max_position_embeddings=1024).save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        answer = call("experiment", "run", tmp_path / "table.yaml", "--rows", row, "--save", tmp_path / "kept")
        unload(folder)

    assert answer.code == 1 and not (tmp_path / "kept" / "pair").exists()
    assert answer.err.startswith(f"sottovoce: row 'pair' has changed: the model {str(folder)!r} had the weights ")
    assert answer.err.endswith("to run the row again, or give another folder (--save)\n")


FAST = ("--rounds", 1, "--max-tokens", 4, "--answer-turn", "off")


@pytest.fixture(scope="session")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    tiny_model(num_hidden_layers=4, max_position_embeddings=1024).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """A file of two questions under four ids."""
    rows = [f'{{"id": "{n}", "question": "What is {n % 2} + 1?", "target": "{n % 2 + 1}"}}' for n in range(4)]
    (tmp_path / "copies.jsonl").write_text("\n".join(rows))
    return tmp_path / "copies.jsonl"


def test_layers_are_ranked_and_ranked_again(call: Call, deep: Path, copies: Path, tmp_path: Path) -> None:
    asked = ("--scheme", "debate", "--model", deep, *FAST, "--questions", copies, "--halving", "--save")
    first = call("experiment", "layers", *asked, tmp_path / "kept")
    again = call("experiment", "layers", *asked, tmp_path / "kept")

    assert (first.code, again.code) == (0, 0) and again.out == first.out, first.err
    assert first.out.startswith(
        "| layer | questions | score | 95 % | EM | F1 |\n|---|---|---|---|---|---|\n| 2 | 2 | 0 | 0 to 0.658 |"
    )
    assert "equally good on these questions: 2" in first.out and "use it with `--layers 2`" in first.out
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"runs", "trials.csv", "trials.svg"}


def test_temperatures_are_tuned(call: Call, models: Models, copies: Path, tmp_path: Path) -> None:
    asked = ("debate", "--model", models.tiny, *FAST, "--questions", copies, "--trials", 1)
    answer = call("experiment", "tune", *asked, "--save", tmp_path / "kept")

    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "| temperatures | score | 95 % |" and lines[2].endswith(" | 0.0% | 0.0% to 65.8% |")
    assert lines[4].startswith("the best of many trials looks better than it is")
    assert lines[5].startswith("use it with `--temperature ") and lines[6] == f"saved in {tmp_path / 'kept'}"


def test_a_model_of_two_layers_leaves_nothing_to_choose(call: Call, models: Models, tmp_path: Path) -> None:
    answer = call(
        "experiment", "layers", "--scheme", "debate", "--model", models.tiny, *FAST, "--save", tmp_path / "new"
    )

    assert answer.code == 2 and "has 2 layers, and the last is never read: nothing to choose" in answer.err


def test_the_list_has_our_experiments_and_the_papers_tables_and_describes_one(call: Call) -> None:
    lines = call("experiment", "list").out

    assert (
        "| `two_facts` |  | 28 | 9 |" in lines
        and "| `sde_table2` | SDE (arXiv 2506.19209), Table 2 | 4 | 12 |" in lines
    )
    described = call("experiment", "list", "sde_table2").out
    assert "- point: `qwen-7b.gsm8k`" in described and "- overlap: none" in described
    assert "did you mean 'sde_table" in call("experiment", "list", "sde_table").err


def test_a_published_table_runs_by_name_with_another_model_and_shows_both_figures(call: Call, tmp_path: Path) -> None:
    (tmp_path / "data/gsm8k").mkdir(parents=True)
    (tmp_path / "data/gsm8k/test.jsonl").write_text('{"question": "What is 3 + 4?", "answer": "It is 7.\\n#### 7"}\n')
    chosen = ["--data", tmp_path / "data", "--rows", "single.qwen-7b.gsm8k", "--model", "bundled", "--limit", 1]

    answer = call("experiment", "run", "sde_table2", *chosen, "--save", tmp_path / "out")

    assert answer.code == 0, answer.err
    assert "| `single` | qwen-7b.gsm8k | accuracy | 0.8" in answer.out and "- differs: Prompts are our" in answer.out
    assert len([*(tmp_path / "out").glob("*.jsonl")]) == 1


def test_questions_under_columns_of_their_own_are_asked_and_without_targets_that_is_said_first(
    call: Call, models: Models, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("prompt,gold\n1 + 1?,2\n2 + 3?,5\n")
    table = tmp_path / "mine.yaml"
    settings = f"{{model: {models.tiny}, max-tokens: 4, answer-turn: off}}"
    table.write_text(
        "questions: {file: mine.csv, column: {question: prompt}}\n"
        f"settings: {settings}\nrows: {{alone: {{scheme: single}}}}\n"
    )
    unscored = (
        "no question has a target, so accuracy cannot be computed; answers are saved. If a column of the file has"
    )

    named = call("experiment", "run", table, "--trust-paths")
    table.write_text(table.read_text().replace("{question: prompt}", "'question=prompt,target=gold'"))
    scored = call("experiment", "run", table, "--trust-paths", "--save", tmp_path / "scored")
    own = ("single", "--questions", tmp_path / "mine.csv", "--model", models.tiny, "--max-tokens", 4)
    typed = call(*own, "--column", "question=prompt", "--json")

    assert [each.code for each in (named, scored, typed)] == [0, 0, 0]
    assert named.err.splitlines()[1].startswith(f"alone: {unscored}")
    assert "no question" not in scored.err and "0.0% right of 2" in scored.err
    assert typed.err.startswith(unscored) and '"1 + 1?"' not in typed.err
    assert "row 2: 2 + 3?" in call("runs", "show", tmp_path / "scored" / "alone").out
    for name in ("row 2", "row 2: 2 + 3?"):
        one = call("runs", "show", tmp_path / "scored" / "alone", "--question", name).out
        assert "2 + 3?" in one and "1 + 1?" not in one
    unknown = call("runs", "show", tmp_path / "scored" / "alone", "--question", "row 3").err
    assert unknown.endswith("choose from: row 1: 1 + 1?, row 2: 2 + 3?\n") or "Choose from: row 1: 1 + 1?" in unknown
    call("runs", "export", tmp_path / "scored" / "alone", tmp_path / "table.csv")
    assert [each["asked"] for each in csv.DictReader((tmp_path / "table.csv").read_text().splitlines())] == [
        "row 1: 1 + 1?",
        "row 2: 2 + 3?",
    ]
    assert "--question 'row 1'" in call(*own, "--column", "question=prompt").out


def test_real_questions_of_a_papers_table_on_a_model_of_ones_own_stand_beside_its_figures(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "test.jsonl").symlink_to(shared("datasets/gsm8k_test_first200.jsonl"))
    roomy = tmp_path / "roomy"  # the paper's worked examples are long
    tiny_model(max_position_embeddings=4096).save_pretrained(roomy)
    tiny_tokenizer().save_pretrained(roomy)
    own = ("--set", f"model={roomy}", "--set", "max_tokens=4", "--set", "layers=[0]", "--data", tmp_path)
    table = ("experiment", "run", "sde_table2", "--limit", 1, *own)

    refused = call(*table)
    answer = call(*table, "--rows", "nl.qwen-7b.gsm8k", "--to", tmp_path / "table.tex")

    assert refused.code == 2 and "9 of 12 points have no data here, the first is" in refused.err
    assert "or run the rows whose data are here: --rows '*.qwen-7b.gsm8k' --rows '*.llama-8b.gsm8k'" in refused.err
    assert answer.code == 0 and "| `nl` | qwen-7b.gsm8k | accuracy | 0.9061 | 0 |" in answer.out
    assert r"\texttt{nl} & qwen-7b.gsm8k & accuracy & 0.9061 & 0 &" in (tmp_path / "table.tex").read_text()
    assert "sde_table2-limit-1-model-" in answer.out.splitlines()[-1]
