"""Only regular files are read, wherever a path comes from: a pipe or a device is refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.core.files import OutputFile, bytes_of, opened, read_yaml, text_of
from tests import warm

DOORS = [
    ["debate", "2 + 2?", "--settings", "FILE"],
    ["debate", "2 + 2?", "--prompts", "FOLDER"],
    ["debate", "2 + 2?", "--model", "FILE"],
    ["debate", "2 + 2?", "--model", "FOLDER"],
    ["debate", "2 + 2?", "--watch", "FILE"],
    ["debate", "--questions", "FILE.jsonl"],
    ["govsim", "--game", "FILE"],
    ["whodunit", "--attribute-list", "FILE"],
    ["experiment", "run", "FILE"],
    ["runs", "show", "FOLDER"],
    ["runs", "verify", "FOLDER"],
    ["runs", "report", "FOLDER", "--html", "NEW"],
    ["monitor", "train", "FILE.jsonl", "--to", "NEW"],
    ["data", "index", "FILE.jsonl", "--to", "NEW"],
]


def fifo(folder: Path, name: str) -> Path:
    """A pipe that nobody writes to."""
    os.mkfifo(folder / name)
    return folder / name


def test_a_regular_file_is_read_as_ever(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\r\ntwo\r\xc3\xa9")
    (tmp_path / "link").symlink_to("file")

    assert bytes_of(tmp_path / "link") == b"one\r\ntwo\r\xc3\xa9"
    assert text_of(tmp_path / "file") == (tmp_path / "file").read_text(encoding="utf-8")


def test_the_null_device_is_an_empty_file() -> None:
    assert bytes_of(os.devnull) == b""


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_nothing_else_is_opened(kind: str, tmp_path: Path) -> None:
    made = {"fifo": fifo(tmp_path, "fifo"), "device": Path("/dev/zero"), "folder": tmp_path}[kind]
    with pytest.raises(OSError, match=r"give a regular file|Is a directory"):
        opened(made)


def test_a_strangers_manifest_is_no_pipe(tmp_path: Path) -> None:
    fifo(tmp_path, "manifest.json")
    OutputFile(tmp_path / "new", "--to").write("text")


@pytest.mark.parametrize(
    "kind", ["fifo", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("/dev/zero", "folder"))]
)
def test_each_door_refuses_it_in_one_line(kind: str, tmp_path: Path) -> None:
    # Seen: a FIFO as a file of questions, settings, games or a log held the command for ever.
    file = Path(kind) if kind.startswith("/") else tmp_path / "file"
    for name in ("log.jsonl", "config.json", "model.safetensors", "question.md", "file", "file.jsonl"):
        if kind == "fifo":
            fifo(tmp_path, name)
        elif kind == "folder":
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).symlink_to(kind)
    names = {
        "FILE": str(file),
        "FILE.jsonl": str(tmp_path / "file.jsonl"),
        "FOLDER": str(tmp_path),
        "NEW": str(tmp_path / "new"),
    }
    lines = [[names.get(word, word) for word in line] for line in DOORS]
    code = f"import sys; from sottovoce.cli.main import main\nfor line in {lines!r}:\n    print(main(line), flush=True)"

    got = warm.run(code, cwd=tmp_path)

    assert "Traceback" not in got.stderr, got.stderr
    assert len(got.stdout.splitlines()) == len(DOORS) and "0" not in got.stdout.split(), got.stdout + got.stderr
    assert len(got.stderr.splitlines()) == len(DOORS), got.stderr
    assert "No such command" not in got.stderr and "No such option" not in got.stderr, got.stderr


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}"])
def test_yaml_is_measured_with_its_aliases_before_it_is_built(form: str, tmp_path: Path) -> None:
    path, start = tmp_path / "grows.yaml", "a0: &a0 {x: 1}\n"
    path.write_text(start + "".join(f"a{i}: &a{i} {form.format(f'*a{i - 1},' * 9)}\n" for i in range(1, 9)))

    with pytest.raises(UsageError, match=r"grows.yaml' becomes larger than 1,000,000 characters with its aliases"):
        read_yaml(path, "settings file", "rounds: 2")
    path.write_text(f"{start}own: {{<<: *a0, y: 2}}\n")
    assert read_yaml(path, "settings file", "rounds: 2")["own"] == {"x": 1, "y": 2}
