"""Formulae are worked out in a process of their own, which hostile ones end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from blockbuster import blockbuster_ctx

from sottovoce.prompts.kinds import read_field
from sottovoce.prompts.kinds.latex import Worker
from sottovoce.prompts.kinds.number import LONGEST_FORMULA
from tests.tables import some


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.end()


VALUES = {
    r"\sqrt{16}": 4.0,
    r"2\sqrt{3}": 3.4641016151377544,
    r"3\pi": 9.42477796076938,
    r"-\frac{\sqrt{9}}{2}": -1.5,
    "5!": 120.0,
    r"\log_2 8": 3.0,
    "10^{-3}": 0.001,
    **dict.fromkeys(["x + 1", r"\infty", r"\sqrt{-1}", r"\frac{1}{0}", "(1, 2)", r"\{1, 2\}", r"\frac{", ""]),
    "__import__('os').getpid()": None,
}


def test_a_formula_has_its_value_or_none(worker: Worker) -> None:
    for latex, value in VALUES.items():
        assert worker.ask(latex) == (None if value is None else pytest.approx(value, rel=1e-15)), latex


HOSTILE = ["9^{9^{9^{9}}}", "9^9^9^9", r"(10^{8})!", "{" * 90 + "1" + "}" * 90]


@pytest.mark.parametrize("latex", some(HOSTILE, HOSTILE[0], HOSTILE[3]))
def test_a_hostile_formula_ends_soon_and_the_next_one_is_answered(worker: Worker, latex: str) -> None:
    assert worker.ask(latex) in (None, 1.0)  # a hostile formula would take years
    assert worker.ask(r"\sqrt{16}") == 4.0


def test_threads_share_one_process(worker: Worker) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(worker.ask, [f"{n}^2" for n in range(2, 22)])] == [float(n * n) for n in range(2, 22)]


def test_an_event_loop_that_refuses_blocking_calls_may_ask(worker: Worker) -> None:
    """The server behind Studio runs acts in such a loop; starting a process in its thread raised a BlockingError."""
    worker.end()

    async def ask() -> float | None:
        found: float | None = worker.ask(r"\sqrt{25}")
        return found

    with blockbuster_ctx() as refused:
        refused.functions["threading.Lock.acquire"].deactivate()  # as the server has it
        assert asyncio.run(ask()) == 5.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_a_forked_process_starts_its_own() -> None:
    code = (
        "import os; from sottovoce.prompts.kinds.number import worked_out\n"
        "assert worked_out('2^3') == 8; child = os.fork()\n"
        "if not child: os._exit(0 if worked_out('2^4') == 16 else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), worked_out('2^5'))"
    )
    assert run(code) == "0 32.0"


def test_plain_numbers_start_no_process_and_load_no_sympy() -> None:
    said = ["22", r"\boxed{1{,}234}", "1 1/2", "3 dozen", "36 cm^2"]
    code = (
        "import sys; from sottovoce.prompts.kinds import read_field\n"
        "from sottovoce.prompts.kinds.number import WORKER\n"
        f"print([read_field(each, {{'kind': 'number'}}) for each in {said!r}], WORKER._process, 'sympy' in sys.modules)"
    )
    assert run(code) == "['22', '1234', '1.5', '36', '36'] None False"


def test_the_process_ends_with_ours_even_where_ours_is_killed() -> None:
    code = (
        "import os, signal; from sottovoce.prompts.kinds.number import WORKER, worked_out; worked_out('2^3')\n"
        "print(WORKER._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    while _runs(pid):  # a hang is the test run's to end
        time.sleep(0.1)


def test_a_formula_longer_than_any_answer_is_not_asked_for() -> None:
    assert read_field(r"\sqrt{" + "1+" * LONGEST_FORMULA + "1}", {"kind": "number"}) is None


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().split(") ")[1][0] != "Z"
    except OSError:
        return False
