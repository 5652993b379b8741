"""Programs of strangers: what is contained, what is refused, and what is told about them."""

from __future__ import annotations

import ast
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.environments.sandbox import Limits, described, run, why_not
from sottovoce.environments.sandbox.backends import (
    BACKENDS,
    ISOLATED,
    Interpreter,
    bubblewrap,
    command,
    supervisor_source,
)
from sottovoce.environments.sandbox.limits import Outcome
from sottovoce.environments.sandbox.sandboxed_process import SupervisorReport, clean_up, outcome
from tests.environments.hostile import Bait, Hostile, bait, corpus, tried

FAST = Limits(seconds=60.0, memory=256 << 20)
"""Where only what a program says matters: a busy machine changes nothing."""
ANYWHERE = [pytest.param("bwrap", marks=pytest.mark.slow), "namespaces", "limits"]
PYTHON = Interpreter("/usr/bin/python3", "/usr")
SANDBOX = Path(__file__).resolve().parents[2] / "environments" / "sandbox"


def needed(backend: str) -> str:
    """A backend, or a skipped test where the machine does not have it."""
    if why := why_not(backend):
        pytest.skip(f"{backend} is not available here: {why}")
    return backend


@pytest.fixture(params=ANYWHERE)
def backend(request: pytest.FixtureRequest) -> str:
    return needed(request.param)


@pytest.fixture(scope="module", params=[*ANYWHERE[:2], pytest.param("limits", marks=pytest.mark.slow)])
def attacked(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, Outcome], Bait]]:
    """What came of the whole corpus in a backend, and the bait that it was set upon."""
    name = needed(request.param)
    with bait() as found:
        yield name, tried(corpus(), name, found), found


# The corpus


def test_the_corpus_holds_enough_programs_of_both_sorts() -> None:
    programs = corpus()
    by = [each.contained_by for each in programs]

    assert len({each.name for each in programs}) == len(programs) >= 40
    assert min(by.count("limits"), by.count("isolation")) >= 15


@pytest.mark.parametrize("program", corpus(), ids=lambda each: each.name)
def test_a_hostile_program_is_contained_or_refused(
    program: Hostile, attacked: tuple[str, dict[str, Outcome], Bait]
) -> None:
    name, outcomes, _ = attacked
    got = outcomes[program.name]

    if name == "limits" and program.contained_by == "isolation":
        assert got.status == "refused"
        return
    assert got.status in program.ends, got
    assert got.seconds < program.limits.seconds + 60  # of a busy machine
    assert "ESCAPED" not in got.stdout and len(got.stdout) + len(got.stderr) <= 2 * program.limits.output


def test_nothing_of_ours_was_harmed_by_any_of_them(attacked: tuple[str, dict[str, Outcome], Bait]) -> None:
    _, _, found = attacked

    assert found.harm() == []


def test_harm_is_seen() -> None:
    with bait() as found:
        (found.folder / "new").touch()
        found.victim.kill()
        found.victim.wait()

        assert len(found.harm()) == 2


def test_every_hostile_program_is_on_the_page_about_the_sandbox() -> None:
    page = (SANDBOX.parents[1] / "docs/howto/sandbox.md").read_text(encoding="utf-8")

    assert [each.name for each in corpus() if f"| {each.name} | {each.tries} | {each.contained_by} |" not in page] == []


# What comes of a program


def test_a_program_runs_and_says_what_it_prints(backend: str) -> None:
    got = run("import sys\nprint('one é')\nprint('two', file=sys.stderr)", FAST, backend, unsafe=True)

    assert (got.status, got.stdout, got.stderr, got.reason) == ("ok", "one é\n", "two\n", "")
    assert 0 < got.seconds < FAST.seconds


def test_an_error_comes_with_its_traceback(backend: str) -> None:
    got = run("def f():\n    raise KeyError('x')\nf()", FAST, backend, unsafe=True)

    assert (got.status, got.reason) == ("error", "KeyError: 'x'")
    assert got.stderr.startswith("Traceback") and 'program.py", line 2, in f' in got.stderr


def test_the_scratch_folder_can_be_written_and_is_gone_afterwards(backend: str) -> None:
    text = "import os\nopen('a', 'w').write('b')\nos.mkdir('c')\nprint(os.getcwd(), open('a').read())"
    folder, _, read = run(text, FAST, backend, unsafe=True).stdout.partition(" ")

    assert read == "b\n"
    assert folder == "/tmp" if backend in ISOLATED else not Path(folder).exists()


@pytest.mark.parametrize("backend", ANYWHERE[:2], indirect=True)
def test_within_walls_nothing_but_scratch_can_be_written(backend: str) -> None:
    text = """
        for line in open("/proc/self/mountinfo"):
            path, options = line.split()[4:6]
            if "rw" in options.split(",") and not path.startswith(("/proc", "/dev/")):
                print(path)
    """

    assert run(dedent(text), FAST, backend).stdout == "/tmp\n"


def test_no_socket_of_any_family_can_be_opened(backend: str) -> None:
    # Seen: AF_VSOCK, a way to the machine below, passed the walls.
    text = """
        import ctypes
        libc, pair = ctypes.CDLL(None), (ctypes.c_int * 2)()
        print([family for family in range(256) for kind in (1, 2, 3, 5) if libc.socket(family, kind, 0) != -1])
        print([family for family in range(256) if libc.socketpair(family, 1, 0, pair) != -1])
        print(libc.syscall(425, 1, None))
    """

    assert run(dedent(text), FAST, backend, unsafe=True).stdout == "[]\n[1]\n-1\n"  # io_uring opens them too


def test_clearing_up_that_takes_long_goes_on_without_us(tmp_path: Path) -> None:
    # Seen: a program with a limit of 2 seconds left folders whose removal took 93.
    os.mkfifo(tmp_path / "wait")

    clean_up(["sh", "-c", 'read line < "$1"; echo done > "$1"', "sh", str(tmp_path / "wait")], seconds=0.01)

    (tmp_path / "wait").write_text("go\n")  # it waits still
    assert (tmp_path / "wait").read_text() == "done\n"


def test_deep_and_locked_folders_are_cleared_away() -> None:
    text = "import os\nprint(os.getcwd())\nfor _ in range(50):\n    os.mkdir('d'); os.chdir('d'); os.chmod('.', 0o300)"

    got = run(text, FAST, needed("limits"), unsafe=True)

    assert got.status == "ok"
    while Path(got.stdout.strip()).exists():  # where the machine is busy, it goes on without us
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("program", "printed", "status"),
    [
        ("print('\ud800')", "", "error"),  # text that is no Unicode
        ("import asyncio\nasync def f(): return 5\nprint(asyncio.run(f()))", "5\n", "ok"),  # it needs a pair of sockets
        ("import sys\nprint(any('-packages' in path for path in sys.path))", "False\n", "ok"),
        ("print(open('/proc/self/oom_score_adj').read())", "1000\n\n", "ok"),  # without memory it is ended first
        ("import os\nprint(os.getuid() != 0)\nimport torch", "True\n", "error"),
    ],
    ids=["surrogate", "asyncio", "packages", "memory", "user"],
)
def test_a_program_finds_only_what_it_may(program: str, printed: str, status: str, backend: str) -> None:
    got = run(program, FAST, backend, unsafe=True)

    assert (got.stdout, got.status) == (printed, status)


def test_programs_that_run_at_once_keep_apart(backend: str) -> None:
    texts = [f"import time\nopen('a', 'w').write('{n}')\ntime.sleep(0.2)\nprint(open('a').read())" for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda text: run(text, FAST, backend, unsafe=True).stdout, texts))

    assert got == ["0\n", "1\n", "2\n", "3\n"]


def test_no_process_and_no_open_file_of_ours_is_left(backend: str) -> None:
    run("print(1)", FAST, backend, unsafe=True)
    before = sorted(os.listdir("/proc/self/fd"))
    run("print(1)", FAST, backend, unsafe=True)

    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("report", "seconds", "said", "status", "reason"),
    [
        ({"code": 0, "why": "", "stderr": "MemoryError"}, 0.5, "", "ok", ""),
        ({"code": 1, "why": "", "stderr": "x\nMemoryError\n"}, 0.5, "", "memory", "took more than 67108864 bytes of"),
        ({"code": 7, "why": "", "stderr": ""}, 0.5, "", "error", "exit code 7"),
        ({"code": -11, "why": "", "stderr": "x"}, 0.5, "", "error", "ended by SIGSEGV"),
        ({"code": -40, "why": "", "stderr": ""}, 0.5, "", "error", "ended by signal 40"),  # seen: a ValueError of ours
        ({"code": -24, "why": "", "stderr": ""}, 0.5, "", "timeout", "ran longer than 2 s"),
        ({"code": -9, "why": "timeout", "stderr": ""}, 0.5, "", "timeout", "ran longer than 2 s"),
        ({"code": -9, "why": "output", "stderr": ""}, 0.5, "", "output", "wrote more than 65536 bytes"),
        ({"code": 0, "why": "memory", "stderr": ""}, 0.5, "", "memory", "took more than 67108864 bytes of"),
        (None, None, "bwrap: no\nbwrap: no namespaces\n", "refused", "bwrap: no namespaces"),
        (None, None, "", "refused", "its supervisor did not start"),
        ({"refused": "unshare: no"}, None, "", "refused", "unshare: no"),
        (None, 0.5, "", "error", "its supervisor ended before it"),
        (None, 2.5, "", "timeout", "ran longer than 2 s"),
    ],
)
def test_a_report_or_its_absence_is_read(
    report: dict[str, object] | None, seconds: float | None, said: str, status: str, reason: str
) -> None:
    answer = SupervisorReport(report and {"stdout": "", **report}, seconds)
    got = outcome(answer, Limits(seconds=2, memory=64 << 20), said)

    assert got.status == status and got.reason.startswith(reason)


# What is asked for


def test_nothing_runs_unless_a_backend_is_named_and_limits_alone_only_what_somebody_calls_unsafe() -> None:
    off, alone = run("print(1)"), run("print(1)", backend="limits")

    assert off.status == alone.status == "refused"
    assert "the sandbox is off" in off.reason and "the network" in alone.reason


@pytest.mark.parametrize("name", ["", "chroot", "bwrap:x", "limits:", "docker:"])
def test_an_unknown_backend_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown backend"):
        run("print(1)", backend=name)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"seconds": 0}, "seconds 0"), ({"processes": -1}, "processes -1"), ({"memory": 1 << 20}, "at least 67108864")],
)
def test_limits_in_which_nothing_runs_are_refused(wrong: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Limits(**wrong)


def test_isolated_is_the_best_that_is_there() -> None:
    there = [name for name in ISOLATED if not why_not(name)]
    got = run("print(open('/proc/1/cmdline', 'rb').read(4))", FAST, "isolated")

    assert got.status == ("ok" if there else "refused")


def test_every_backend_is_described() -> None:
    told = dict(described())

    assert list(told) == list(BACKENDS)
    assert all(text.startswith("no: ") == bool(why_not(name)) for name, text in told.items())


# The supervisor and the command lines


def test_the_keeper_is_one_text_that_imports_nothing_of_ours() -> None:
    names = {
        alias.name.partition(".")[0] if isinstance(node, ast.Import) else (node.module or "").partition(".")[0]
        for node in ast.walk(ast.parse(supervisor_source()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    assert names <= sys.stdlib_module_names


def test_bubblewrap_shows_nothing_but_the_system_and_leaves_nothing_writable_but_scratch() -> None:
    line = bubblewrap(PYTHON, Limits(scratch=12345))
    bound = [line[at + 1] for at, word in enumerate(line) if word in ("--ro-bind", "--bind", "--dev-bind")]

    assert "--bind" not in line and "--dev-bind" not in line
    assert (
        {"/usr"} <= set(bound) <= {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache"}
    )
    assert line[line.index("/tmp") - 3 : line.index("/tmp") + 1] == ["--size", "12345", "--tmpfs", "/tmp"]
    assert {"--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--new-session"} <= set(line)
    line = bubblewrap(Interpreter("/opt/python/bin/python3", "/opt/python"), Limits())
    assert line[line.index("/opt/python") - 1 : line.index("/opt/python") + 2] == ["--ro-bind", *["/opt/python"] * 2]


def test_the_docker_command_line_is_closed_on_all_sides() -> None:
    limits = Limits(memory=100 << 20, processes=5, scratch=4096)
    line = " ".join(command("docker", PYTHON, limits, 2_000_000_001, "one")[:-1])

    assert line == (
        "docker run --rm --interactive --pull never --name one --network none --ipc private --read-only --cap-drop ALL "
        "--security-opt no-new-privileges --user 2000000001:2000000001 --memory 104857600 --memory-swap 104857600 "
        "--pids-limit 7 --cpus 1 --tmpfs /tmp:rw,nosuid,nodev,mode=1777,size=4096 --workdir /tmp "
        "--entrypoint python3 python:3.11-slim -I -S -B -c"
    )
    assert command("docker", PYTHON, limits, None, "one")[-1] == supervisor_source()
    other = command("docker:registry:5000/mine:1", PYTHON, Limits(), None, "one")
    assert "registry:5000/mine:1" in other and "0:0" not in other
