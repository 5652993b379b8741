"""A scheme and a protocol in packages of their own (tests/plugin): they reach every feature that ours reach."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from sottovoce.core.any_types import JSON
from sottovoce.graphs import NAMES
from tests import warm

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = Path(__file__).parent / "plugin"
SCRIPT = """
import contextlib, io, json, sys
from sottovoce.cli.main import main
results = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps([results, sorted({"torch", "panel", "broken"} & {*sys.modules})]))
"""
PYTHON = """
import test_panel
from sottovoce import SCHEMES, run_questions
from sottovoce.graphs.__main__ import main as studio
test_panel.test_the_chair_reads_the_experts_and_votes()
done = run_questions("panel", "What is 1 + 1?", {"model": "bundled", "rounds": 1, "max_tokens": 8})
print(json.dumps([SCHEMES.package("panel"), len(done.records[0].decision["votes"])]))
studio()
"""
BROKEN = {
    "module": (
        "no_such_module:SCHEME",
        "of 'no_such_module:SCHEME' cannot be imported: No module named 'no_such_module'",
    ),
    "raises": ("broken_raises:SCHEME", "of 'broken_raises:SCHEME' cannot be imported: ValueError: it is broken"),
    "thing": ("broken_thing:SCHEME", "is of type int; expected the package's `Scheme` record"),
    "other_name": ("panel:SCHEME", "calls itself 'panel'; give the record and the entry point the same name"),
}


class Done(list[tuple[int, str, str]]):
    """Exit code, stdout and stderr of each command; and which modules the process had loaded in the end."""

    loaded: list[str]


def installed(path: Path = PLUGIN) -> dict[str, str]:
    """The environment of a process that has the package installed."""
    ours = os.pathsep.join({str(path): None, str(PLUGIN): None, str(ROOT): None})
    return {**os.environ, "PYTHONPATH": ours, "COLUMNS": "200"}


def process(*command: str, cwd: Path = PLUGIN, env: dict[str, str] | None = None) -> str:
    """What a process prints that has the package installed."""
    command = (sys.executable, *command)
    return printed(subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env or installed()))


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*commands: str, path: Path = PLUGIN, starts: str = "warm") -> Done:
    """Commands, one after another in one process; one that starts "cold" has imported nothing."""
    told, env = json.dumps([each.split() for each in commands]), installed(path)
    if starts == "cold":
        found = json.loads(process("-c", SCRIPT, told, cwd=path, env=env))
    else:
        found = json.loads(printed(warm.run(SCRIPT, told, cwd=path, env=env)))
    done = Done((code, out, err) for code, out, err in found[0])
    done.loaded = found[1]
    return done


def log(folder: Path) -> list[JSON]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs: one that is over, and one that stopped half-way."""
    folder = tmp_path_factory.mktemp("panels")
    over, stopped = folder / "over", folder / "stopped"
    asked = "panel --model bundled --sample arithmetic --limit 2 --max-tokens 48"
    done = run(
        f"{asked} --save {over}",
        f"{asked} --rounds 1 --protocol cipher --at-once 1 --call-limit 3 --save {stopped}",
    )
    assert done[0][0] == 0 and done[1][0] != 0 and "runs resume" in done[1][2], done
    return [over, stopped]


def test_it_has_a_command_with_its_own_options_prompts_and_judge_who_votes(two: list[Path]) -> None:
    lines = log(two[0])
    events = [event for line in lines for event in line.get("events", [])]
    head, decided = lines[0], [each["decision"] for each in events if each["event"] == "decided"]
    said = {(each["agent"], each["act"]) for each in events if each["event"] == "said"}

    assert (head["scheme"], head["settings"]["experts"], head["settings"]["rounds"]) == ("panel", 2, 2)
    assert ("chair", "conclude") in said
    assert [[vote["agent"] for vote in each["votes"]] for each in decided] == [["expert_1", "expert_2", "chair"]] * 2
    assert all(vote["counts"] for each in decided for vote in each["votes"])


@pytest.mark.slow
def test_its_runs_are_resumed_shown_compared_measured_reported_and_verified(two: list[Path], tmp_path: Path) -> None:
    over, stopped = two
    done = run(
        f"runs resume {stopped}",
        f"runs show {stopped}",
        f"runs compare {over} {stopped}",
        f"runs measures {over}",
        f"runs report {over} --html {tmp_path / 'page.html'}",
        f"runs verify {over}",
    )

    assert [code for code, _, _ in done] == [0] * len(done), done
    assert "0 findings" in done[-1][1]
    assert "panel" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_without_its_package_says_so_and_hides_no_other_run(two: list[Path], tmp_path: Path) -> None:
    shutil.copytree(two[0], tmp_path / "a-panel")
    asked = "debate --model bundled --sample arithmetic --limit 1 --rounds 1 --max-tokens 8 --answer-turn off"
    run(f"{asked} --protocol louder --option gain=3 --save {tmp_path / 'b-louder'}")
    head, *lines = log(tmp_path / "b-louder")
    assert (head["settings"]["protocol"], head["settings"]["option"]) == ("louder", {"gain": 3})
    said = [event for line in lines for event in line.get("events", []) if event["event"] == "said"]
    assert {event["payload"]["protocol"] for event in said} == {"louder"}
    for name, old, new in (
        ("c-kind", '"kind":"number"', '"kind":"colour"'),
        ("d-newer", '"version":1', '"version":2'),
        ("e-old", re.search('"packages":{.*?},', (tmp_path / "a-panel" / "log.jsonl").read_text())[0], ""),  # type: ignore[index]
    ):
        shutil.copytree(tmp_path / ("a-panel" if name == "e-old" else "b-louder"), tmp_path / name)
        path = tmp_path / name / "log.jsonl"
        path.write_text(path.read_text().replace(old, new))
    names = [path.name for path in sorted(tmp_path.iterdir())]
    commands = ["runs list".split(), *(["runs", "show", name] for name in names)]
    commands += [["runs", "report", name, "--html", str(tmp_path / f"{name}.html")] for name in names]
    bare = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "SOTTOVOCE_RUNS": str(tmp_path)}
    done = json.loads(printed(warm.run(SCRIPT, json.dumps(commands), cwd=ROOT, env=bare)))[0]

    told = {
        "a-panel": "needs the scheme 'panel', which is not installed; install the package that provides it "
        "(its log names 'sottovoce-panel 1.0')",
        "b-louder": "its protocol 'louder' is not installed (its log names 'louder 1.0')",
        "c-kind": "needs the kind of answer 'colour', which is not installed; install the package that provides it",
        "d-newer": "has format 2, written by sottovoce '0.1.0'; expected format 1",
        "e-old": "needs the scheme 'panel', which is not installed; install the package that provides it",
    }
    listed, reported = done[0][1], (tmp_path / "b-louder.html").read_text(encoding="utf-8")
    assert [name for name in told if name != "c-kind" and told[name] not in listed] == []
    assert [name for name, (_, out, err) in zip(told, done[1:], strict=False) if told[name] not in out + err] == []
    assert [code for code, _, _ in done] == [0, *[1, 0, 1, 1, 1] * 2] and "damaged" not in str(done)
    assert "its log names" not in str(done[1 + names.index("e-old")])
    assert "protocol &#39;louder&#39; is not installed" in reported


@pytest.mark.slow
def test_it_is_listed_drawn_stepped_through_and_searched_for_symmetry() -> None:
    done = run(
        "graph list",
        "graph draw panel --experts 3",
        "graph symmetry panel --experts 3",
        "graph draw panel --chairs 2",
        "step --help",
    )

    assert [code for code, _, _ in done] == [0, 0, 0, 2, 0]
    assert "panel             Experts answer, read one another" in done[0][1]
    assert "expert_3" in done[1][1] and "role = chair" in done[1][1]
    assert "{expert_1, expert_2, expert_3}" in done[2][1]
    assert "--chairs" in done[3][2] and done[3][2].count("\n") == 1
    assert "A panel of experts whose chair votes too (package sottovoce-panel)." in done[4][1]


def test_help_lists_it_and_loads_nothing_of_it() -> None:
    done = run("--help", "graph draw --help", starts="cold")

    assert all("panel" in out and "(package sottovoce-panel)" in out for _, out, _ in done)
    assert done.loaded == []


@pytest.mark.slow
def test_studio_s_configuration_names_it_and_serves_its_settings_and_the_protocol_in_its_form() -> None:
    made = warm.run("from sottovoce.graphs.__main__ import main; main()", cwd=PLUGIN, env=installed())
    config = json.loads(printed(made))
    assert [*config["graphs"]] == [*NAMES, "panel"]
    module, name = config["graphs"]["panel"]["path"].split(":")
    code = (
        f"import json, sys; from {module} import {name} as make; graph = make({{'configurable': {{'experts': 3}}}});"
        "form = graph.get_context_jsonschema()['properties']; loaded = 'louder' in sys.modules; "
        "print(json.dumps([[*graph.get_graph().nodes], [*form][:8], form['protocol']['enum'], loaded]))"
    )
    nodes, fields, protocols, is_loaded = json.loads(printed(warm.run(code, cwd=PLUGIN, env=installed())))
    assert {"expert_3", "chair", "decide"} <= {*nodes} and fields[0] == "rounds" and "experts" in fields
    assert protocols == ["nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft", "louder"] and not is_loaded


@pytest.mark.slow
def test_its_prompts_can_be_replaced_by_a_pack_and_are_part_of_a_run_s_digest(tmp_path: Path) -> None:
    (tmp_path / "panel").mkdir()
    (tmp_path / "panel" / "others.md").write_text("{% for message in others %}A colleague: {{ message }}{% endfor %}")
    code = f"""
from panel import Panel
from sottovoce.runs.manifest import prompts_digest
print(prompts_digest("panel", Panel(), {{}}) != prompts_digest("panel", Panel(prompts={str(tmp_path)!r}), {{}}))
"""
    assert printed(warm.run(code, cwd=PLUGIN, env=installed())) == "True\n"


def test_a_broken_package_is_told_in_one_line_and_breaks_no_other_command(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    entries = "".join(f"{name} = {where}\n" for name, (where, _) in BROKEN.items())
    (info / "entry_points.txt").write_text(f"[sottovoce.schemes]\n{entries}")
    (tmp_path / "broken_raises.py").write_text("raise ValueError('it is broken')\n")
    (tmp_path / "broken_thing.py").write_text("SCHEME = 7\n")
    good, broken = (
        ("--help", "graph list", "graph draw debate", "panel --help"),
        [name.replace("_", "-") for name in BROKEN],
    )
    done = run(*good, *broken, *(f"{name} --help" for name in broken), path=tmp_path)

    assert [code for code, _, _ in done] == [0] * 4 + [2] * 8
    assert done[0][1].count("From the package broken.") == len(BROKEN)
    lines = [f"scheme {name!r} {line}" for name, (_, line) in BROKEN.items()]
    assert [line for line in lines if line not in done[1][1]] == []
    assert [err for _, _, err in done[4:]] == [f"sottovoce: {line}\n" for line in lines * 2]


@pytest.mark.slow  # pip takes most of it
def test_the_package_of_the_page_is_installed_by_pip_and_reaches_everything(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "scheme.md").read_text(encoding="utf-8")
    for name, text in re.findall(
        r"^`([\w./]+)`[^\n]*\n+(?:<!--[^\n]*\n)?```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    ):
        (tmp_path / "package" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "package" / name).write_text(text, encoding="utf-8")
    python, packages = empty_environment(tmp_path / "venv")
    pip = "-m pip --disable-pip-version-check --quiet --python".split()
    process(
        *pip, python, *"install --no-index --no-build-isolation".split(), str(tmp_path / "package"), env={**os.environ}
    )
    commands = [
        f"panel --model bundled --sample arithmetic --limit 1 --rounds 1 --max-tokens 8 --save {tmp_path / 'run'}",
        f"runs report {tmp_path / 'run'} --html {tmp_path / 'page.html'}",
    ]
    (tmp_path / "package" / "test_panel.py").rename(packages / "test_panel.py")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]), "COLUMNS": "200"}
    done = warm.run(SCRIPT + PYTHON, json.dumps([each.split() for each in commands]), cwd=tmp_path, env=env)
    lines = printed(done).splitlines()

    assert [(code, err) for code, _, err in json.loads(lines[0])[0]] == [(0, "")] * 2
    assert "panel" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert json.loads(lines[1]) == ["sottovoce-panel 0.1.0", 3]
    assert "panel" in json.loads("".join(lines[2:]))["graphs"]


def empty_environment(folder: Path) -> tuple[str, Path]:
    """A virtual environment with nothing of its own that sees the packages of this one: its python, and its folder."""
    process("-m", "venv", "--without-pip", str(folder))
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "seen.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return str(folder / "bin" / "python"), packages
