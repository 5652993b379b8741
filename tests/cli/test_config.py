"""Tests of the config file: which file is read, what takes precedence, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cli.config import config_path, read_config
from sottovoce.cli.options import build
from sottovoce.core.errors import UsageError
from sottovoce.settings import Debate, Settings, Single
from tests.cli.conftest import Call

TEXT = """
[models.small]
model = "smollm2"
weights = "int4"

[models.wide]
model = "some/folder"
temperature = 0.5

[defaults]
protocol = "cipher"
rounds = 5
top-p = 0.9

[defaults.debate]
rounds = 2

[defaults.self-consistency]
samples = 7
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sottovoce.toml"
    path.write_text(TEXT)
    monkeypatch.setenv("SOTTOVOCE_CONFIG", str(path))
    return path


def test_a_scheme_takes_the_defaults_that_it_has_and_its_own_win(file: Path) -> None:
    assert build(Debate, {}) == Debate(protocol="cipher", rounds=2, top_p=0.9)
    assert build(Single, {}) == Single(protocol="cipher", top_p=0.9)
    assert build(Settings, {}) == Settings(protocol="cipher", top_p=0.9)


def test_the_command_line_wins_over_the_settings_file_and_that_over_defaults(file: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("rounds: 4\nprotocol: sde\n")

    built = build(Debate, {"settings": str(tmp_path / "settings.yaml"), "protocol": "nl"})

    assert built == Debate(protocol="nl", rounds=4, top_p=0.9)


@pytest.mark.parametrize(
    ("given", "model", "others"),
    [
        ({"model": ["small"]}, ["smollm2"], {"weights": ["int4"]}),
        ({"model": ["small"], "weights": ["float32"]}, ["smollm2"], {"weights": ["float32"]}),
        ({"model": ["small", "bundled"]}, ["smollm2", "bundled"], {"weights": ["int4", "auto"]}),
        ({"model": ["wide"], "temperature": ["0", "1"]}, ["some/folder"], {"temperature": [0.0, 1.0]}),
        ({"model": ["wide"]}, ["some/folder"], {"temperature": [0.5]}),
    ],
)  # fmt: skip
def test_a_name_stands_for_a_model_with_what_it_is_loaded_by(
    file: Path, given: dict[str, list[str]], model: list[str], others: dict[str, list[object]]
) -> None:
    expected = {"protocol": "cipher", "rounds": 2, "top_p": 0.9, "model": model, **others}

    assert build(Debate, given) == Debate.model_validate(expected)


def test_what_one_of_two_models_has_and_cannot_be_left_open_is_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="temperature is set for other models, but not for 'small'; set it there"):
        build(Debate, {"model": ["small", "wide"]})


def test_a_line_says_what_the_file_gave(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(Debate, {"model": ["small"], "protocol": "nl"})

    assert capsys.readouterr().err == (
        f"sottovoce: config file '{file}': defaults rounds 2, top_p 0.9; small is model smollm2, weights int4\n"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[defaults]\nrouns = 2", "unknown setting 'rouns'; the nearest known one is 'rounds'"),
        ("[defaults.debat]\nrounds = 2", "unknown setting 'debat'; the nearest known one is 'debate'"),
        ("[model.small]\nmodel = 'x'", "unknown key 'model'; the nearest known one is 'models'"),
        ("[models.small]\nmodel = ['a', 'b']", "model of model 'small' is a list; expected the value of one model"),
        ("models = 3", "models is 3; expected a table: [models]"),
        ("[defaults\n", "config file '{file}' is not TOML: "),
        ("[defaults]\nrounds = 'many'", "rounds is 'many': expected a valid integer"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(call: Call, file: Path, text: str, told: str) -> None:
    file.write_text(text)

    answer = call("graph", "draw", "debate")

    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith(f"sottovoce: {told.replace('{file}', str(file))}") and str(file) in answer.err


def test_the_first_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    for folder in (here, home / "sottovoce"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.delenv("SOTTOVOCE_CONFIG")

    found = [config_path()]
    for path in (home / "sottovoce" / "sottovoce.toml", here / "sottovoce.toml"):
        path.write_text("[defaults]\nrounds = 4\n")
        found.append(config_path())
    monkeypatch.setenv("SOTTOVOCE_CONFIG", "nowhere.toml")

    assert found == [None, home / "sottovoce" / "sottovoce.toml", Path("sottovoce.toml")]
    with pytest.raises(UsageError, match=r"config file 'nowhere.toml' cannot be read: No such file"):
        read_config()


@pytest.mark.parametrize(
    "text",
    [
        "codegen.sandbox = 'limits'",
        "unsafe = true",
        "rerank = 'a.b:c'",
        "library = 'a.b:c'",
    ],
)
def test_a_config_file_of_the_working_folder_runs_no_code(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOTTOVOCE_CONFIG")
    Path("sottovoce.toml").write_text(f"[defaults]\n{text}\n")

    with pytest.raises(
        UsageError, match=r"which lets code run, and the folder may come from somebody else; .*toml'\)$"
    ):
        read_config()
    monkeypatch.setenv("SOTTOVOCE_CONFIG", "sottovoce.toml")
    assert read_config().path == Path("sottovoce.toml")


def test_config_tells_what_is_in_force(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("config").out.splitlines() == [
        f"file: {file}",
        "model small: model smollm2, weights int4",
        "model wide: model some/folder, temperature 0.5",
        "defaults: protocol cipher, rounds 5, top_p 0.9",
        "defaults of debate: rounds 2",
        "defaults of self-consistency: samples 7",
    ]
    monkeypatch.setenv("SOTTOVOCE_CONFIG", "")
    monkeypatch.chdir(file.parent / "..")
    assert call("config").out.startswith("file: none of sottovoce.toml, ")
