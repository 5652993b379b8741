"""CodeGen: replies read, solutions tested in a sandbox, and how they are counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.environments.codegen import agreeing, assertions, bleu, program, ranks, reflections, scores
from sottovoce.environments.problems import (
    BundledProblem,
    Problem,
    Report,
    Runner,
    bundled_problems,
    report,
    tried,
    watched,
)
from sottovoce.environments.sandbox import Limits, Outcome, run, why_not
from tests.environments.players import replied
from tests.tables import each_row, some

PROBLEM = 'def add(a, b):\n    """The sum."""\n'
ADD = "def add(a, b):\n    return a + b"


def stated(reply: str, *, cut: bool = False) -> str | None:
    found = program(replied(reply, cut=cut), PROBLEM, "add")
    return found and found.text


BLOCK = f"```python\n{ADD}\n```"
OTHER = "def add(a, b):\n    return a - b"


@each_row(
    ("reply", "found"),
    [
        (f"```Python3\n{ADD}\n```", ADD),
        (f"~~~\n{ADD}\n~~~", ADD),
        (ADD, ADD),
        (f"{ADD}\n\nHelp: [[1, 2, 3]]", ADD),
        ("    return a + b\n", f"{PROBLEM.rstrip()}\n    return a + b"),
        ("```python\n    return a + b\n```", f"{PROBLEM.rstrip()}\n    return a + b"),
        ("1. Here:\n\n   ```python\n   def add(a, b):\n       return a + b\n   ```", ADD),
        ("```python\ndef add(a, b) return a\n```", "def add(a, b) return a"),  # an error that the Passer tells
        # its use, and other languages
        (f"{BLOCK}\n\nUsage:\n```python\nprint(add(1, 2))\n```\nShell:\n```bash\npython add.py\n```", ADD),
        (f"{BLOCK}\n\n```python\ndef test_add():\n    assert add(1, 2) == 3\n```", ADD),
        # another's, and denied ones
        (f"{BLOCK}\n\nThe wrong variant is:\n```python\n{OTHER}\n```", ADD),
        (f"Agent 2 wrote:\n```python\n{OTHER}\n```\nMy program:\n{BLOCK}", ADD),
        (f"{BLOCK}\nOnce more:\n{BLOCK}", ADD),
        (f"{BLOCK}\n\n```python\n{OTHER}\n```", None),
        # nothing
        ("", None),
        ("Yes", None),
        ("I would add them.", None),
        ("    # to be done", None),
        (f"```python\n{PROBLEM}```", None),
        ("```python\n```", None),
        ("```python\ndef subtract(a, b):\n    return a - b\n```", None),
        ("```python\nreturn a + b\n```", None),
        (f"```python\n{ADD}", None),  # its end may be missing
    ],
)
def test_a_program_is_the_only_one_that_a_reply_states(reply: str, found: str | None) -> None:
    assert stated(reply) == found


def test_a_reply_that_was_cut_holds_no_program_test_review_or_rank() -> None:
    assert stated(BLOCK, cut=True) is None
    assert assertions(replied("assert add(1, 2) == 3", cut=True)) == []
    assert reflections(replied("[reflection 1]: Good, but", cut=True), 1) is None
    assert ranks(replied("Best: [1, 2]", cut=True), 4) is None and scores(replied("[[1, 2]]", cut=True), 2) is None


def test_it_is_found_where_it_stands() -> None:
    reply = "So:\n```python\n\n    return 1\n\n```\n[[1, 2, 3]]"
    found = program(replied(reply), PROBLEM, "add")

    assert found and reply[slice(*found.span)] == "    return 1"


@pytest.mark.parametrize(
    "text", ["```python\n", "~~~\n````\n", "assert(\n", "- `assert", "\n\n    ", "[[1, ", "best: "]
)
def test_a_hostile_reply_ends_soon(text: str) -> None:
    reply, began = replied(text * (50_000 // len(text))), time.process_time()
    for read in (partial(program, problem=PROBLEM, name="add"), assertions, partial(ranks, solutions=4)):
        assert not read(reply)
    assert scores(reply, 3) is None and reflections(reply, 4) is None
    assert time.process_time() - began < 3  # seconds, where 0.2 is usual


def test_tests_are_lines_that_assert_and_are_python() -> None:
    reply = """Here are my tests:
    1. `assert add(1, 2) == 3`
    assert add(1, 2) == 3
    assert add(1, 2 == 3
    assert
    assert add(0, 0) == 0, "zero"
    I assert that it works.
    I first thought of `assert add(1, 1) == 3`.
    Wrong: assert add(1, 1) == 4
    assert x; import os
    """

    assert assertions(replied(reply)) == ["assert add(1, 2) == 3", 'assert add(0, 0) == 0, "zero"']
    assert assertions(replied("assert f(\n    1,\n) == 2\nprint(3)")) == ["assert f(\n    1,\n) == 2"]


def test_there_are_ten_tests_at_most_and_none_too_long_to_read() -> None:
    lines = [f"assert f({n}) == {n}" for n in range(20)]

    assert assertions(replied("\n".join(lines))) == lines[:10]
    assert assertions(replied(f"assert {'(' * 1500}1{')' * 1500}\nassert f() == {'1' * 5000}")) == []


@given(st.text(alphabet="asert (){}[]=\\\0\ud800'\n\u00e9:"))
def test_any_text_can_be_searched_for_tests(text: str) -> None:
    assert len(assertions(replied(text))) <= 10


@each_row(
    ("parsed", "reply", "found"),
    [
        (scores, "[[1, 1, 1]], [[1, 1, 1]]", [1, 1, 1]),
        (scores, "Not [[1, 1, 1]].\nHelp: [[2, 2, 2]]", [2, 2, 2]),
        (scores, "[[1, 1, 1]] no, [[2, 2, 2]]", None),
        *((scores, reply, None) for reply in ("[[5, 1]]", "[[5, 1, 6]]", "[[5, 1, x]]")),
        (ranks, "The best are [2, 3].", (1, 2)),
        (ranks, "[1, 2] was my first thought.\nBest: [2, 3]", (1, 2)),
        (ranks, "Best: [1, 2]\nBest: [2, 3]", None),
        (ranks, "[1, 2], or [2, 3]", None),
        *((ranks, reply, None) for reply in ("[2, 2]", "[0, 1]", "[1, 4]", "[1, 2, 3]", "[[1, 2]]")),
    ],
)  # fmt: skip
def test_scores_of_judges_and_the_best_two_are_read_or_are_none(
    parsed: Callable[[Message, int], object], reply: str, found: object
) -> None:
    assert parsed(replied(reply), 3) == found


@each_row(
    ("reply", "found"),
    [
        ("[reflection 1]: Good.\n[reflection 2]:\nBad. ", ["Good.", "Bad."]),
        ("Hm.\n[Reflection 2] Bad.\n[reflection 1]: Good.", ["Good.", "Bad."]),
        ("Hm. [Reflection 2] Bad.\n[reflection 1]: Good.", None),
        ("[reflection 1]: a [reflection 2]: b [reflection 3]: c", None),
        ("[reflection 1]: a [reflection 1]: b", None),
        ("[reflection 1]:\n[reflection 2]:", ["", ""]),
    ],
)
def test_reviews_of_all_solutions_are_found_or_none(reply: str, found: list[str] | None) -> None:
    spans = reflections(replied(reply), 2)

    assert (None if spans is None else [reply[slice(*span)] for span in spans]) == found


# Counting


@each_row(
    ("one", "other", "found"),
    [
        (ADD, ADD, 100.0),
        (ADD, "def add(x, y):\n    return x + y", 22.78155605106205),
        (ADD, "def add(a, b):\n    # sum\n    return a+b", 70.63486135430558),
        (ADD, "DEF add(a, b):\n    return b + a", 76.32661822742675),
        ("a -11& -\n", "\n\na(b&\n(b+.,", 5.4424142191183185),
        ("x", "", 0.0),
    ],
)
def test_bleu_is_what_sacrebleu_says(one: str, other: str, found: float) -> None:
    """`sacrebleu.sentence_bleu(one, [other], lowercase=True).score` of sacrebleu 2.6.0."""
    assert bleu(one, other) == pytest.approx(found, abs=1e-9)


def test_those_agree_who_are_like_the_one_that_most_are_like() -> None:
    assert agreeing([ADD, "x", ADD, "y"]) == [0, 2]
    assert agreeing(["x", "y"]) == [0] and agreeing([]) == []


# Tests on solutions


def test_a_test_keeps_what_it_looks_at() -> None:
    assert watched("assert f(1) == 2, 'no'") == "__seen__['value'] = f(1)\nassert __seen__['value'] == 2, 'no'\n"
    assert watched("assert not f(1)") == "__seen__['value'] = not f(1)\nassert __seen__['value']\n"
    assert watched("assert 1 < f(1) < 3") == "__seen__['value'] = 1 < f(1) < 3\nassert __seen__['value']\n"


def test_a_refusal_is_not_a_wrong_solution() -> None:
    with pytest.raises(UsageError, match="the sandbox is off"):
        report(ADD, ["assert add(1, 2) == 3"], run)


def test_what_a_program_only_prints_is_no_verdict() -> None:
    said = Outcome("ok", stdout='[true, ""]\n')

    assert report(ADD, ["assert 1"], lambda _: said) == Report((), (("assert 1", "it ended before the test did"),))


def runner(seconds: float = 60.0, backend: str = "isolated") -> Runner:
    """A sandbox, the best that is there, or a skipped test where there is none."""
    if why := why_not("limits"):
        pytest.skip(f"no program can be run here: {why}")
    return partial(run, limits=Limits(seconds=seconds), backend=backend, unsafe=True)


@pytest.mark.parametrize(
    ("solution", "test", "found"),
    [
        (ADD, "assert add(1, 2) == 3", None),
        (ADD, "assert add(1, 2) == 4", "3"),
        (ADD, "assert add('a', 'b') == 'c'", "'ab'"),
        (ADD, "assert add(1) == 1", "TypeError: add() missing 1 required positional argument: 'b'"),
        ("from __future__ import annotations\n" + ADD, "assert add(1, 2) == 3", None),
        (f"{ADD}\nif __name__ == '__main__':\n    input()", "assert add(1, 2) == 3", None),
        ("def add(a, b) return a", "assert add(1, 2) == 3", "SyntaxError: expected ':' (solution.py, line 1)"),
        ("import sys\nsys.exit(0)", "assert add(1, 2) == 3", "SystemExit: 0"),
        ("print('[true, \"\"]')\nimport os\nos._exit(0)", "assert add(1, 2) == 3", "it ended before the test did"),
        ("def add(a, b):\n    print('loud', end='')\n    return 3", "assert add(1, 2) == 3", None),
        ("import sys\nsys.stdout = None\n" + ADD, "assert add(1, 2) == 3", None),
        (
            "class add:\n    def __init__(*_): 0\n    def __repr__(_): 1/0",
            "assert add(1, 2) == 3",
            "ZeroDivisionError: di",
        ),
        ("import atexit\natexit.register(print, 'end')\n" + ADD, "assert add(1, 2) == 3", None),
        # Seen: the test was a file, so that these wrong solutions passed and the right ones after them failed.
        ("open('test.py', 'w').close()\nadd = lambda *_: 4", "assert add(1, 2) == 3", "4"),
        ("import runpy\nrunpy.run_path = lambda *_, **__: {}\nadd = lambda *_: 4", "assert add(1, 2) == 3", "4"),
        ("import os, sys\nos.chdir('/')\nsys.modules.clear()\n" + ADD, "assert add(1, 2) == 3", None),
        (
            "from __future__ import annotations\nimport dataclasses, pickle\n"
            "@dataclasses.dataclass\nclass A:\n    x: int\n"
            "def add(a, b): return pickle.loads(pickle.dumps(A(a + b))).x",
            "assert add(1, 2) == 3",
            None,
        ),
    ],
)
def test_a_solution_is_tested_in_a_sandbox(solution: str, test: str, found: str | None) -> None:
    failed = report(solution, [test], runner()).failed

    assert not failed if found is None else failed[0][1].startswith(found)


ADDS = "\nadd = lambda *_: Add()"
HOSTILE = {
    "json writes what is none": "import json\njson.dumps = lambda *_, **__: '[['",
    "equal to nothing": "class Add:\n    __eq__ = lambda *_: False" + ADDS,
    "several lines": "class Add:\n    def __repr__(_): return 'a\\nb\\r\\x00' * 1000" + ADDS,
    "a text that is none": "class T(str):\n    __getitem__ = __format__ = None\n"
    "class Add:\n    def __repr__(_): return T('x')" + ADDS,
    "comparison that kills": "import os\nclass Add:\n    def __eq__(*_): os.kill(os.getpid(), 40)" + ADDS,
    "error that cannot be shown": "class E(BaseException):\n    def __str__(_): raise E\ndef add(*_): raise E",
    "recursion": "def add(*_): return add()",
    "nested deep": "def add(*_):\n    a = []\n    for _ in range(100000): a = [a]\n    return a",
    "closed": "import os\nos.closerange(0, 64)",
    "no writer": "import os\nos.write = os._exit = None",
    "forged": "print('\\n' + '0' * 32 + 'passed')\nimport os\nos._exit(0)",
    "no end": "import os\nos._exit = lambda _: None\nimport atexit\natexit.register(print, 'after')",
    "surrogate": "raise ValueError('\\ud800\\ue0000\\ue001')",
}


@pytest.mark.parametrize("solution", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("backend", some(["isolated", "limits"], "isolated"))
def test_whatever_a_solution_does_is_a_verdict(solution: str, backend: str) -> None:
    # Seen: one that replaced json.dumps crashed the judge, and its question left accuracy.
    sandbox = runner(60.0, backend)
    solution = solution if "add" in solution else f"{solution}\nadd = lambda *_: 3"

    found = report(solution, ["assert add(1, 2) == 4"], sandbox)
    wrong = tried(solution, "assert add(1, 2) == 4", sandbox)

    assert found.passed == () and wrong
    assert all(text.isprintable() for text in (found.failed[0][1], wrong))


@each_row("said", ["passed", "passed \n", "failed", "[]\n", "passed\n\n", "\n", "failed \ud800\n", "failed \x00\nx\n"])
def test_no_verdict_that_is_broken_is_taken_for_one_that_passed(said: str) -> None:
    def broken(program: str) -> Outcome:
        return Outcome("ok", stdout="\n" + program.rstrip(")\n'")[-32:] + said)

    assert tried(ADD, "assert 1", broken)


def test_a_test_that_never_ends_costs_the_others_nothing() -> None:
    sandbox = runner(2.0, "isolated")
    tests = ["assert f(1) == 1", "assert f(2) == 1", "assert f(1) == 1, 'again'"]

    got = report("def f(n):\n    while n > 1: pass\n    return n", tests, sandbox)

    assert got.passed == (tests[0], tests[2])
    assert got.failed == ((tests[1], "ran longer than 2 s"),)


# Problems


@each_row("problem", bundled_problems())
def test_the_solution_of_a_problem_that_ships_solves_it_and_its_beginning_does_not(problem: BundledProblem) -> None:
    sandbox = runner(20.0, "isolated")
    hidden = Problem(test=[f"assert {test}" for test in problem.tests], entry_point=problem.name).program

    assert tried(problem.prompt + problem.body, hidden, sandbox) is None
    assert tried(f"{problem.prompt}    pass\n", hidden, sandbox) == "AssertionError: "


def test_problems_that_ship_have_names_of_their_own_and_some_tests_each() -> None:
    assert 10 <= len({problem.name for problem in bundled_problems()}) == len(bundled_problems())
    assert all(len(problem.tests) >= 3 for problem in bundled_problems())


def test_the_distance_between_the_ends_is_no_largest_gap() -> None:
    """SmolLM2 wrote it, and the tests did not tell."""
    gap = next(each for each in bundled_problems() if each.name == "largest_gap")
    hidden = Problem(test=[f"assert {test}" for test in gap.tests], entry_point=gap.name).program
    between_ends = "def largest_gap(n): return max(n, default=0) - min(n, default=0)"
    assert tried(between_ends, hidden, runner(20.0, "isolated")) == "AssertionError: "
