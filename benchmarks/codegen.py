"""How many tests of CodeGen a second a sandbox runs: `python -m benchmarks.codegen [BACKEND]`; "isolated" unless named.

The solutions and tests of the problems that ship, each test in a process of its own, one after another, without a
model; the first, which also looks at what the machine offers, is left out.
"""

from __future__ import annotations

import sys
from functools import partial
from time import perf_counter

from sottovoce.environments import sandbox
from sottovoce.environments.problems import PROBLEMS
from sottovoce.environments.trying import report


def main(backend: str) -> None:
    """Print a line."""
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
