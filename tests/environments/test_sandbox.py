"""Programs of strangers: what is contained, what is refused, and what is told about them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.environments.isolation import bubblewrap, command
from sottovoce.environments.sandbox import (
    BACKENDS,
    ISOLATED,
    Limits,
    Outcome,
    _verdict,
    described,
    run,
    why_not,
)
from tests.environments.hostile import Bait, bait, corpus, tried
from tests.needs import missing

FAST = Limits(seconds=60.0, memory=256 << 20)
"""Where only what a program says matters: a busy machine changes nothing."""


def needed(backend: str) -> str:
    """A backend, or a skipped test where the machine does not have it."""
    if why := why_not(backend):
        missing(f"{backend}, which works ({why})", "bubblewrap")
    return backend


@pytest.fixture(params=["bwrap", "limits"])
def backend(request: pytest.FixtureRequest) -> str:
    return needed(request.param)


@pytest.fixture(scope="module")
def attacked() -> Iterator[tuple[dict[str, Outcome], Bait]]:
    """What came of the whole corpus in bwrap, and the bait that it was set upon."""
    with bait() as found:
        yield tried(corpus(), needed("bwrap"), found), found


def test_hostile_programs_are_contained(attacked: tuple[dict[str, Outcome], Bait]) -> None:
    outcomes, found = attacked
    wrong = {
        program.name: got
        for program in corpus()
        if (got := outcomes[program.name]).status not in program.ends
        or got.seconds > program.limits.seconds + 60  # of a busy machine
        or "ESCAPED" in got.stdout
        or len(got.stdout) + len(got.stderr) > 2 * program.limits.output
    }

    assert wrong == {} and found.harm() == [] and len(outcomes) == len(corpus()) >= 60


def test_harm_is_seen() -> None:
    with bait() as found:
        (found.folder / "new").touch()
        found.victim.kill()
        found.victim.wait()

        assert len(found.harm()) == 2


@pytest.mark.parametrize("name", ["endless loop", "memory by lists", "memory by many", "endless output", "fork bomb"])
def test_limits_alone_end_what_exceeds_them(name: str) -> None:
    program = next(each for each in corpus() if each.name == name)

    assert run(program.source, program.limits, needed("limits"), unsafe=True).status in program.ends


# What comes of a program


def test_a_program_runs_and_says_what_it_prints(backend: str) -> None:
    got = run("import sys\nprint('one é')\nprint('two', file=sys.stderr)", FAST, backend, unsafe=True)

    assert (got.status, got.stdout, got.stderr, got.reason) == ("ok", "one é\n", "two\n", "")
    assert 0 < got.seconds < FAST.seconds


def test_an_error_comes_with_its_traceback(backend: str) -> None:
    got = run("def f():\n    raise KeyError('x')\nf()", FAST, backend, unsafe=True)

    assert (got.status, got.reason) == ("error", "KeyError: 'x'")
    assert got.stderr.startswith("Traceback") and "line 2, in f" in got.stderr


def test_the_scratch_folder_can_be_written_and_is_gone_afterwards(backend: str) -> None:
    text = "import os\nopen('a', 'w').write('b')\nos.makedirs('c/d')\nos.chmod('c', 0)"
    text += "\nprint(os.getcwd(), open('a').read())"
    folder, _, read = run(text, FAST, backend, unsafe=True).stdout.partition(" ")

    assert read == "b\n"
    assert folder == "/tmp" if backend == "bwrap" else not Path(folder).exists()


def test_within_walls_nothing_but_scratch_can_be_written() -> None:
    text = """
        for line in open("/proc/self/mountinfo"):
            path, options = line.split()[4:6]
            if "rw" in options.split(",") and not path.startswith(("/proc", "/dev/")):
                print(path)
    """

    assert run(dedent(text), FAST, needed("bwrap")).stdout == "/tmp\n"


def test_within_walls_no_socket_of_any_family_can_be_opened() -> None:
    # Seen: AF_VSOCK, a way to the machine below, passed the walls.
    text = """
        import ctypes
        libc = ctypes.CDLL(None)
        print([family for family in range(256) for kind in (1, 2, 3, 5) if libc.socket(family, kind, 0) != -1])
        print(libc.syscall(425, 1, None))
    """

    assert run(dedent(text), FAST, needed("bwrap")).stdout == "[]\n-1\n"  # io_uring opens them too


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
    if "getuid" in program and os.geteuid() != 0:
        printed = run("import os\nprint(os.getuid() != 0)", FAST, backend, unsafe=True).stdout
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
    ("code", "why", "errors", "expected"),
    [
        (0, "", "MemoryError", ("ok", "")),
        (1, "", "x\nMemoryError\n", ("memory", "took more than 67108864 bytes of memory")),
        (7, "", "", ("error", "exit code 7")),
        (-11, "", "x", ("error", "ended by SIGSEGV")),
        (139, "", "x", ("error", "ended by SIGSEGV")),
        (-40, "", "", ("error", "ended by signal 40")),  # seen: a ValueError of ours
        (152, "", "", ("timeout", "ran longer than 2 s")),
        (-9, "output", "", ("output", "wrote more than 65536 bytes")),
        (-9, "memory", "", ("memory", "took more than 67108864 bytes of memory")),
    ],
)
def test_how_a_program_ended_is_told(code: int, why: str, errors: str, expected: tuple[str, str]) -> None:
    assert _verdict(code, why, errors, Limits(seconds=2, memory=64 << 20), "bwrap") == expected


# What is asked for


def test_nothing_runs_unless_a_backend_is_named_and_limits_alone_only_what_somebody_calls_unsafe() -> None:
    off, alone = run("print(1)"), run("print(1)", backend="limits")

    assert off.status == alone.status == "refused"
    assert "the sandbox is off" in off.reason and "the network" in alone.reason


def test_without_isolation_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.environments.sandbox.why_not", lambda name: f"{name} is not installed")
    got = run("print(1)", backend="isolated")

    assert got.status == "refused" and "apt-get install bubblewrap" in got.reason and "\n" not in got.reason
    assert "`sandbox='limits'` `unsafe=True`" in got.reason


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


def test_isolated_is_the_first_that_is_there_and_every_backend_is_described() -> None:
    there = [name for name in ISOLATED if not why_not(name)]
    told = dict(described())

    assert run("", FAST, "isolated").status == ("ok" if there else "refused")
    assert list(told) == list(BACKENDS)
    assert all(text.startswith("no: ") == bool(why_not(name)) for name, text in told.items())


# The command lines


def test_bubblewrap_shows_nothing_but_the_system_and_leaves_nothing_writable_but_scratch() -> None:
    line = bubblewrap("/opt/python", Limits(scratch=12345), 7)
    bound = [line[at + 1] for at, word in enumerate(line) if word in ("--ro-bind", "--bind", "--dev-bind")]

    assert "--bind" not in line and "--dev-bind" not in line
    system = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache"}
    assert {"/usr", "/opt/python"} <= {*bound} <= system | {"/opt/python"}
    assert line[line.index("/tmp") - 3 : line.index("/tmp") + 1] == ["--size", "12345", "--tmpfs", "/tmp"]
    assert {"--unshare-all", "--unshare-user", "--disable-userns", "--new-session", "--seccomp"} <= {*line}


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_the_command_line_of_a_container_is_closed_on_all_sides(kind: str) -> None:
    limits = Limits(memory=100 << 20, processes=5, scratch=4096)
    line = " ".join(command(kind, limits, 61_200, "one")[:-2])

    assert line == (
        f"{kind} run --rm --interactive --pull never --name one --network none --ipc private --read-only "
        "--cap-drop ALL --security-opt no-new-privileges --user 61200:61200 --memory 104857600 "
        "--memory-swap 104857600 --pids-limit 6 --cpus 1 --tmpfs /tmp:rw,nosuid,nodev,mode=1777,size=4096 "
        "--workdir /tmp --entrypoint python3 python:3.11-slim -I -S -B -c"
    )
    other = command(f"{kind}:registry:5000/mine:1", Limits(), None, "one")
    assert "registry:5000/mine:1" in other and "0:0" not in other
