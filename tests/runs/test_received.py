"""What a run folder or an experiment file of somebody else cannot do: its own command line alone opens and runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.cli.experiment import findings_of
from sottovoce.cli.main import main
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.core.files import check_no_link
from sottovoce.core.trust import Trust, lies_in
from sottovoce.experiments.files import save
from sottovoce.experiments.rows import Row
from sottovoce.experiments.runner import RowRunner
from sottovoce.experiments.schema import Experiment
from sottovoce.graphs.codegen import CodeGen
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.single import Single
from sottovoce.runs.run import load_run, read_manifest
from sottovoce.runs.run_directory import LOG
from tests.runs.single import Task, run_one

PROBLEM = "def add(a, b):\n    '''Add.\n    >>> add(1, 1)\n    2\n    '''\n"
QUESTION: Any = {
    "question": PROBLEM,
    "id": "add",
    "game": {"entry_point": "add", "test": "def check(f):\n    assert f(1, 1) == 2\n"},
}


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that anybody may write to: programs run as another user where that can be."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def received(tmp_path: Path, outside: Path) -> tuple[Path, Path]:
    """A run of somebody's whose program writes a file outside, and says that limits alone are to contain it."""
    written = outside / "written"
    program = f"```python\nopen({str(written)!r}, 'w').write('x')\ndef add(a, b):\n    return a + b\n```"
    settings = CodeGen(agents=2, rounds=1, sandbox="limits", unsafe=True, answer_turn="off")
    run_one(
        Task("codegen", settings, QUESTION, models=ScriptedChatModel([program] * 8)),
        PayloadStore(tmp_path / "store"),
        folder=tmp_path / "run",
    )
    written.unlink()  # it was ours to run it
    return tmp_path / "run", written


def debated(folder: Path, root: Path) -> None:
    """A scripted debate, saved in a folder."""
    task = Task("debate", Debate(agents=2, rounds=1), {"question": "1 + 1?"}, models=ScriptedChatModel(["2"] * 9))
    run_one(task, PayloadStore(root / "store"), folder=folder)


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return code, f"{out}{err}"


def changed_head(folder: Path, **settings: Any) -> None:
    """Write other settings into a run, as somebody might who sends it."""
    head, *lines = (folder / LOG).read_text().splitlines()
    about = json.loads(head)
    about["settings"] |= settings
    (folder / LOG).write_text("\n".join([json.dumps(about), *lines]) + "\n")


def test_a_received_run_runs_its_programs_in_no_sandbox_of_its_own(
    received: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, written = received

    code, said = told(capsys, "runs", "verify", folder)
    assert (code, said.count("\n")) == (2, 1) and "--no-model" in said and not written.exists()
    assert "'limits' with --unsafe" in said and "add --sandbox isolated" in said
    assert load_run(folder).manifest.own_settings().sandbox is None  # type: ignore[attr-defined]  # of CodeGen


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"model": ["/somewhere/else"]}, "model '/somewhere/else'"),
        ({"model": ["hosted:openai:gpt"]}, "model 'hosted:openai:gpt'"),
        ({"prompts": "/somewhere/else"}, "prompt pack '/somewhere/else'"),
        ({"watch": ["/somewhere/else"]}, "monitor '/somewhere/else'"),
        ({"protocol": "cipher", "probe": "shuffled", "probe_from": "../x"}, "run '../x'"),
    ],
)
def test_a_received_run_opens_no_path_and_no_server_that_it_names(
    settings: dict[str, Any], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    debated(folder, tmp_path)
    changed_head(folder, **settings)
    (folder / LOG).write_text("\n".join((folder / LOG).read_text().splitlines()[:2]) + "\n")  # not over

    for command in (("runs", "verify", folder), ("runs", "resume", folder)):
        code, said = told(capsys, *command)
        assert (code, said.count("\n")) == (2, 1)
        assert f"names the {kind}, which is not opened for it; add --trust-paths if you trust who made it" in said


def test_a_run_is_resumed_in_the_sandbox_that_it_was_begun_in(
    received: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = received
    lines = (folder / LOG).read_text().splitlines()
    (folder / LOG).write_text("\n".join(lines[:2]) + "\n")

    code, said = told(capsys, "runs", "resume", folder, "--sandbox", "isolated")
    assert code == 2 and "was started in the sandbox 'limits', with --unsafe; resume it there" in said


def test_a_pack_of_a_received_run_is_one_that_ships(tmp_path: Path) -> None:
    debated(tmp_path / "run", tmp_path)
    head, *lines = (tmp_path / "run" / LOG).read_text().splitlines()
    about = {**json.loads(head), "packs": {"agent_1": "../../../etc"}}
    (tmp_path / "run" / LOG).write_text("\n".join([json.dumps(about), *lines]) + "\n")

    with pytest.raises(RecordError, match=r"packs.agent_1 is '../../../etc': .*expected one of bundled, "):
        load_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("questions: {file: ../out.jsonl}\nrows: {a: {scheme: single}}", "names the questions '"),
        ("questions: {dataset: gsm8k, hub: a/b@1}\nrows: {a: {scheme: single}}", "names the questions 'a/b@1'"),
        ("questions: {sample: arithmetic/1}\nrows: {a: {scheme: react, library: 'bm25:/x'}}", "retriever 'bm25:/x'"),
        (
            "questions: {sample: problems/1}\nrows: {a: {scheme: codegen, sandbox: limits, unsafe: true}}",
            "row 'a' names the sandbox 'limits' with --unsafe for programs of its models, and only this command line",
        ),
    ],
)
def test_an_experiment_file_opens_and_runs_nothing_beyond_its_folder(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.jsonl").write_text('{"question": "1?"}\n')
    (tmp_path / "in" / "table.yaml").write_text(text)

    code, said = told(capsys, "experiment", "run", tmp_path / "in" / "table.yaml", "--save", tmp_path / "kept")

    assert (code, said.count("\n")) == (2, 1) and expected in said and not (tmp_path / "kept").exists()


def test_files_in_the_folder_and_models_with_a_digest_need_no_trust(tmp_path: Path) -> None:
    inside = Debate(model=["smollm2"], prompts=str(tmp_path / "pack"))
    assert Trust().lacking(inside, "it", tmp_path) == ""
    (tmp_path / "link").symlink_to("/etc")
    assert "prompt pack" in Trust().lacking(Debate(prompts=str(tmp_path / "link")), "it", tmp_path)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "file.md").symlink_to("/etc/passwd")
    assert "prompt pack" in Trust().lacking(inside, "it", tmp_path), "a link in a folder leads out of it"


def test_an_experiment_s_own_words_move_no_cursor() -> None:
    rows = {"a": {"scheme": "single"}}
    given = {"about": "\x1b[2Jwords", "questions": {"sample": "arithmetic/1"}, "rows": rows}
    assert findings_of(Experiment.model_validate(given), {}).parts[0] == "\\x1b[2Jwords"


@pytest.mark.parametrize("is_folder", [False, True])
def test_an_experiment_s_folder_has_no_file_elsewhere_written(is_folder: bool, tmp_path: Path) -> None:
    """A received folder with a link in the place of the copy of its questions wrote over any file of the user's."""
    precious, folder = tmp_path / "precious", tmp_path / "received"
    precious.write_text("mine")
    own = tmp_path / "own" / "test.jsonl" if is_folder else tmp_path / "own.jsonl"
    own.parent.mkdir(exist_ok=True)
    own.write_text('{"question": "1 + 1?"}\n')
    given = {"questions": {"file": str(own.parent if is_folder else own), "dataset": "gsm8k"}, "rows": {}}
    save(given, folder)
    for link in (folder / "experiment.yaml", *folder.rglob("*.jsonl")):
        link.unlink()
        link.symlink_to(precious)

    save(given, folder)

    assert precious.read_text() == "mine"
    assert not link.is_symlink() and link.read_text() == own.read_text()


def test_links_in_a_loop_lie_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert not lies_in(tmp_path, tmp_path) and not lies_in(tmp_path, tmp_path / "loop")


@pytest.mark.parametrize("name", ["lock", "payloads/ab", LOG])
def test_a_run_with_a_link_in_it_is_not_written_to(name: str, tmp_path: Path) -> None:
    folder, away = tmp_path / "run", tmp_path / "away"
    debated(folder, tmp_path)
    (folder / LOG).write_text("\n".join((folder / LOG).read_text().splitlines()[:2]) + "\n")  # not over
    (folder / name).rename(away) if (folder / name).exists() else away.mkdir()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(away)
    before = away.read_bytes() if away.is_file() else [*away.iterdir()]

    with pytest.raises(RecordError, match=f"{name}' is a link, and nothing is written through it"):
        load_run(folder).resume()

    assert before == (away.read_bytes() if away.is_file() else [*away.iterdir()])


@pytest.mark.parametrize(
    ("field", "found", "line"),
    [
        ("vote", "", "a vote's answer is '': expected one of the kind number"),
        ("target", "two", "line 2: the target is 'two': expected one of the kind number"),
        ("model", [["bundled"]], "line 1: settings.model"),
    ],
)
def test_settings_and_votes_of_another_type_are_refused_as_a_log_is_read(
    field: str, found: Any, line: str, tmp_path: Path
) -> None:
    """A vote for "" and a target that is no number ended `measures`, a list of lists `runs list`, in a traceback."""
    model = ScriptedChatModel(["The answer is 2."] * 9)
    task = Task("debate", Debate(agents=2, rounds=1), {"question": "1 + 1?", "kind": "number"}, models=model)
    run_one(task, PayloadStore(tmp_path / "store"), folder=tmp_path / "run")
    log = tmp_path / "run" / LOG
    lines = [json.loads(each) for each in log.read_text().splitlines()]
    if field == "model":
        lines[0]["settings"]["model"] = found
    if field == "target":
        lines[1]["question"]["target"] = found
    for event in (each for one in lines for each in one.get("events", []) if field == "vote"):
        for vote in event.get("votes") or event.get("decision", {}).get("votes", ()):
            vote["answer"] = found
    log.write_text("".join(json.dumps(each) + "\n" for each in lines))

    with pytest.raises(RecordError, match=re.escape(line)):
        (read_manifest if field == "model" else load_run)(tmp_path / "run")


def test_rows_and_verdicts_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "row").symlink_to("away")
    row = Row("row", "single", Single(), [{"question": "1 + 1?"}], [0], None)

    with pytest.raises(RecordError, match="row' is a link"):
        RowRunner(tmp_path, models=ScriptedChatModel(["2"])).run(row)
    with pytest.raises(RecordError, match="row' is a link"):
        check_no_link(tmp_path / "row")


def test_unsafe_is_of_a_sandbox() -> None:
    with pytest.raises(UsageError, match="`unsafe=` needs a sandbox, but no sandbox is set"):
        Trust(unsafe=True)
