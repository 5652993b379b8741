"""The commands of `bridge`, and `models doctor --with`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sottovoce.bridges.fit import STATE, Settings
from sottovoce.channels.bridge_files import LABEL, TENSORS, read_label
from tests.bridges.support import TOKENS, deep, narrow, random_bridge
from tests.cli.conftest import Call

STEPS = ("--steps", 2)
DEEP = "deep-0.5B"  # seen: what follows the point was no part of the default folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of two models that share nothing."""
    root = tmp_path_factory.mktemp("two")
    for name, loaded in (("narrow", narrow()), (DEEP, deep())):
        loaded.model.save_pretrained(root / name)
        loaded.tokenizer.save_pretrained(root / name)
    return [root / "narrow", root / DEEP]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few texts, and a test of two questions."""
    monkeypatch.setattr("sottovoce.bridges.fit.Settings", partial(Settings, tokens=TOKENS, questions=2))


def test_a_bridge_is_fitted_listed_and_shown(
    call: Call, two: list[Path], quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fitted = call("bridge", "fit", *two, *STEPS)
    folder = Path(f"bridges/narrow-{DEEP}")
    label = read_label(folder)
    assert fitted.code == 0
    assert fitted.err.splitlines() == [
        f"{step} ..." for step in ("loading the models", "reading", "solving", "refining", "testing")
    ]
    *shown, use = fitted.out.splitlines()
    assert shown[0] == f"{folder}: narrow to {DEEP}, {label.digest[:12]}, {shown[0].rpartition(', ')[2]}"
    assert shown[1].startswith("from narrow: 2 layers, 2 heads of 8; weights ")
    assert shown[2].startswith(f"to   {DEEP}: 3 layers, 1 heads of 16; weights ")
    assert shown[3] == f"fit  {label.tokens:,} tokens read, 2 of 2 steps, seed 0"
    assert shown[4].startswith("right answers of 2 about one of four facts")
    assert use == f"use it as --protocol kv --bridge {folder}; `--steps 2` gives the same bytes again"

    assert call("bridge", "show", folder).out.splitlines() == shown
    listed = call("bridge", "list").out
    head = "| bridge | from | to | right with it, with own keys and values |"
    assert listed.splitlines()[0] == head  # seen: one heading for four columns, an error on a terminal
    assert f"| {folder} | narrow | {DEEP} | 0 and 0 of 2 |" in listed

    again = call("bridge", "fit", *two, *STEPS)
    assert (again.code, again.out, again.err.splitlines()[-1]) == (
        2,
        "",
        f"sottovoce: '{folder}' has a bridge already; add --resume if it was stopped, --force to replace it, "
        "or --to another folder",
    )
    before = (folder / TENSORS).read_bytes()
    assert call("bridge", "fit", *two, *STEPS, "--force").code == 0
    assert (folder / TENSORS).read_bytes() == before


def test_a_stopped_fit_says_how_it_goes_on(
    call: Call, two: list[Path], quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: that the same command resumes, which was refused."""

    def stopped(*arguments: Any) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "bridge"
    with monkeypatch.context() as patch:
        patch.setattr("sottovoce.bridges.pairs.features", stopped)
        early = call("bridge", "fit", *two, *STEPS, "--to", folder)
    assert (early.code, early.err.splitlines()[-1]) == (130, "sottovoce: stopped; there is no map yet")
    with monkeypatch.context() as patch:
        patch.setattr("sottovoce.bridges.fit.trial", stopped)
        late = call("bridge", "fit", *two, *STEPS, "--to", folder)
    assert (late.code, late.err.splitlines()[-1]) == (
        130,
        "sottovoce: stopped; the map so far is kept, and --resume goes on",
    )
    assert "not tested: the fit was stopped; `bridge fit ... --resume` goes on" in call("bridge", "show", folder).out
    for place in (tmp_path, folder):
        assert "not tested (the fit was stopped)" in call("bridge", "list", place).out

    assert call("bridge", "fit", *two, *STEPS, "--to", folder).code == 2
    state = (folder / STATE).read_bytes()
    assert call("bridge", "fit", two[0], two[0], "--to", folder, "--force").code == 2
    assert (folder / STATE).read_bytes() == state  # seen: lost by a call that was refused
    with monkeypatch.context() as patch:
        patch.setattr("sottovoce.bridges.pairs.features", stopped)
        for seed, how, line in (
            (1, "--force", "stopped; there is no map yet"),  # seen: that of another fit was said to be kept
            (0, "--resume", "stopped; the map so far is kept, and --resume goes on"),
            (
                1,
                "--resume",
                f"{str(folder / STATE)!r} is of another fit: other models, texts or seed; name another folder, or "
                "--force",
            ),
        ):
            again = call("bridge", "fit", *two, *STEPS, "--to", folder, "--seed", seed, how)
            assert again.err.splitlines()[-1] == f"sottovoce: {line}"
    assert call("bridge", "fit", *two, *STEPS, "--to", folder, "--resume").code == 0
    assert read_label(folder).carried is not None and not (folder / STATE).exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["bridge", "fit", "{narrow}", "{narrow}"], "have the same weights; kv needs no bridge between them"),
        (["bridge", "fit", "{narrow}", "{narrow}/nowhere"], "nowhere"),
        (["bridge", "fit", "{narrow}", "{deep}", "--resume"], "has no fit that was stopped; leave out --resume"),
        (["bridge", "fit", "{narrow}", "{deep}", "--texts", "{folder}/no.jsonl"], "is neither a file of passages"),
        (["bridge", "fit", "{narrow}", "{deep}", "--minutes", "0"], "minutes"),
        (["bridge", "fit", "{narrow}", "{deep}", "--steps", "0"], "steps"),
        (["bridge", "fit", "{narrow}"], "RECEIVER"),
        (["bridge", "show", "{folder}/nowhere"], "cannot be read: No such file or directory; expected a folder that"),
        (["bridge", "fit", "openai:gpt-4o", "{deep}"], "openai:gpt-4o"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    arguments: list[str], line: str, call: Call, two: list[Path], tmp_path: Path
) -> None:
    names = {"narrow": two[0], "deep": two[1], "folder": tmp_path}
    answer = call(
        *(each.format(**names) for each in arguments), *(["--to", tmp_path / "to"] if "fit" in arguments else [])
    )
    told = [each for each in answer.err.splitlines() if not each.endswith(" ...")]
    assert answer.code in (1, 2) and answer.out == "" and len(told) == 1 and line in told[0], told
    assert not (tmp_path / "to").exists()


def test_an_empty_folder_has_no_bridges(call: Call, tmp_path: Path) -> None:
    answer = call("bridge", "list", tmp_path)
    assert (answer.code, answer.out) == (0, f"{tmp_path} has no bridges; `bridge fit SENDER RECEIVER` makes one\n")


def test_a_damaged_bridge_is_listed_beside_the_others(call: Call, tmp_path: Path) -> None:
    """Seen: one damaged label hid all bridges of a folder."""
    random_bridge(narrow(), deep(), tmp_path / "good")
    random_bridge(narrow(), deep(), tmp_path / "bad")
    label = json.loads((tmp_path / "bad" / LABEL).read_text())
    (tmp_path / "bad" / LABEL).write_text(json.dumps({**label, "format": 9}))
    answer = call("bridge", "list", tmp_path)
    assert answer.code == 0 and "qwen2-0" in answer.out and "format 9" in " ".join(answer.out.split())


def test_doctor_says_which_protocols_connect_two_models(call: Call, two: list[Path]) -> None:
    answer = call("models", "doctor", two[0], "--with", two[1])
    found = {line[:26].strip(): line[26:].strip() for line in answer.out.splitlines()}
    assert answer.code == 0 and list(found)[-1] == "bridge"
    assert {name for name, line in found.items() if line.startswith("ok")} == {"nl", "cipher"}
    assert found["cipher"].startswith("ok     with `shared_vocabulary=True`: ")
    assert "or a bridge, but" in found["kv"] and "bridge" not in found["thoughts"]
    assert found["bridge"].startswith(f"`bridge fit {two[0]} {two[1]}` makes one, of ")
    same = call("models", "doctor", two[0], "--with", two[0])
    assert "bridge fit" not in same.out and same.out.count("ok  ") >= 6
