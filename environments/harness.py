"""The harness for one test of one solution; it runs inside the sandbox.

`problems.py` passes this file as text, followed by a call of `main`. It imports nothing of this package. It prints
the verdict last, after a random word that the solution is not given, so a solution that exits early or prints a verdict
does not pass. A solution that is written to deceive can still find the word in this process or in its program file,
or return an object that equals everything.
"""

import contextlib
import os
import site
import sys
import types

SEEN = "__seen__"
LONGEST = 300  # characters of what a solution returned


def one_line(error: BaseException) -> str:
    """Return an exception in one line."""
    return f"{type(error).__name__}: {error}"[:LONGEST]


def shown(seen: dict[str, object]) -> str:
    """Return the repr of the value that the test checked, or the exception that its repr raises."""
    try:
        return repr(seen["value"])[:LONGEST] if "value" in seen else ""
    except BaseException as error:
        return one_line(error)


def tried(solution: str, test: str) -> tuple[bool, str]:
    """Return True if a solution passes a test, else False and the value or error instead.

    The test is compiled first, so the solution cannot change it by changing a file or a library. It runs with the
    solution's names, as in the data sets: a solution may define a name that the test calls, such as `abs`.
    """
    seen: dict[str, object] = {}
    run = exec  # a solution may replace the builtin
    try:
        code = compile(test, "test.py", "exec", dont_inherit=True)
        module = types.ModuleType("solution")  # not __main__: that would start its own trials
        sys.modules["solution"] = module  # where pickle and dataclasses look for it
        run(compile(solution, "solution.py", "exec", dont_inherit=True), module.__dict__)
        run(code, {**module.__dict__, SEEN: seen})
    except AssertionError as error:
        return False, shown(seen) or one_line(error)
    except BaseException as error:  # SystemExit too
        return False, one_line(error)
    return True, ""


def main(solution: str, test: str, word: str) -> None:
    """Run the test, print the verdict, and exit before anything that the solution left to run at exit.

    The verdict is a word and a text: a solution could replace the writer of any richer format.
    """
    out = os.dup(1)
    site.setquit()  # `exit` and `quit`, which a Python without packages (-S) lacks
    passed, actual = tried(solution, test)
    with contextlib.suppress(BaseException):  # a solution may have replaced it
        sys.stdout.flush()
    verdict = "passed" if passed else f"failed {actual}"
    os.write(out, f"\n{word}{verdict}\n".encode("utf-8", "backslashreplace"))
    os._exit(0)
