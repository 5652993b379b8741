"""CodeGen tests per second in a sandbox: `python -m benchmarks.codegen [BACKEND]`; the default is "isolated".

Solutions and tests of the bundled problems, without a model, each test in its own process, one after another. A first
run, which also checks what the machine supports, is not timed.
"""

from __future__ import annotations

import sys
from functools import partial
from time import perf_counter

from sottovoce.environments import sandbox
from sottovoce.environments.problems import PROBLEMS
from sottovoce.environments.test_runner import report


def main(backend: str) -> None:
    """Print the result in a line."""
    run = partial(sandbox.run, backend=backend)
    cases = [(f"{each.prompt}{each.body}", [f"assert {test}" for test in each.tests]) for each in PROBLEMS]
    report(*cases[0], run)
    began = perf_counter()
    found = [report(*case, run) for case in cases]
    took, tests = perf_counter() - began, sum(len(tests) for _, tests in cases)
    passed = sum(len(each.passed) for each in found)
    print(f"{backend}: {passed} of {tests} tests passed, {tests / took:.1f} tests/s")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "isolated")
