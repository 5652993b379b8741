"""Data sets of the hub: a repository's copy is read as the hub's own would be, and what is not pinned is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datasets.test_datasets import GSM8K, file, read, said

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository as it is cloned from the hub: data files, and a card that says which are whose."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")  # not the user's own
    folder = tmp_path / "org" / "sums"
    (folder / "main").mkdir(parents=True)
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n  - split: test\n    path: main/test.jsonl\n---\n"
    )
    file(folder / "main", GSM8K, {**GSM8K, "answer": "so\n#### 1,200"}, name="test.jsonl")
    return folder


def test_a_copy_of_a_repository_is_read_with_its_config_and_split(copy: Path) -> None:
    found = read(f"gsm8k:{copy}")

    assert [each["target"] for each in found.questions] == ["7", "1200"]
    assert (found.taken, len(found.digest)) == ("all 2 rows of gsm8k (sums)", 64)
    assert "(config 'main', split 'train') cannot be loaded: Unknown split" in said(f"gsm8k/train:{copy}")


def test_parquet_is_read_with_the_columns_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    row = {"question": "1 + 1?", "subject": "sums", "choices": ["1", "2", "3", "4"], "answer": 1}
    (tmp_path / "mmlu" / "sums").mkdir(parents=True)
    datasets.Dataset.from_list([row]).to_parquet(tmp_path / "mmlu" / "sums" / "test-0.parquet")
    (tmp_path / "mmlu" / "README.md").write_text(
        "---\nconfigs:\n- config_name: sums\n  data_files:\n  - split: test\n    path: sums/test-*\n---\n"
    )

    (question,) = read(f"mmlu/sums:{tmp_path / 'mmlu'}").questions

    assert (question["id"], question["target"]) == ("mmlu/sums/0", "B")


@pytest.mark.parametrize("where", ["openai/gsm8k", "openai/gsm8k@main", f"openai/gsm8k@{COMMIT[:7]}"])
def test_a_repository_that_is_not_pinned_is_refused_with_how_to_pin_it(where: str) -> None:
    told = said(f"gsm8k:{where}")

    assert told.startswith(f"{where!r} is not a file and names no commit on the hub; expected a file, or openai/gsm8k@")
    assert "40 hexadecimal digits" in told


def test_a_folder_is_never_taken_for_a_pinned_repository(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy.parents[1])

    assert said(f"gsm8k:org/sums@{COMMIT}").startswith("the local folder 'org/sums' would be read instead")


def test_a_repository_that_cannot_be_reached_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)

    assert f"gsm8k of 'openai/gsm8k@{COMMIT}' (config 'main', split 'test') cannot be loaded: " in said(
        f"gsm8k:openai/gsm8k@{COMMIT}"
    )
