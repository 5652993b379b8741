"""The nodes of CodeGen that run programs of models, only in the sandbox that the settings name.

They are sync functions, which LangGraph runs in threads, so that no event loop waits for a sandbox.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.environments import sandbox
from sottovoce.environments.codegen import assertions, ranks, reflections
from sottovoce.environments.problems import Report, Runner, report, tried
from sottovoce.environments.sandbox import EXPOSED, choice
from sottovoce.graphs.codegen import PASSER, RANKER, REFLECTOR, TESTER, CodeGen
from sottovoce.nodes.codegen import (
    RANK,
    REVIEW,
    TEST,
    Coding,
    Review,
    agreed,
    entry_point,
    problem_of,
    replies_of,
    solution_of,
    tests_of,
)
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.decide import decided, with_unreadable
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, said

CHECK, REPORT = "check", "report"
REPORTED = 1
"""The turn after the judges' and before the coders'."""
AT_ONCE = 4  # programs that run in parallel
T = TypeVar("T")


@dataclass(frozen=True)
class ProgramTests:
    """The nodes that run programs, by the settings or by a given runner."""

    own_runner: Runner | None = None

    def begin(self, run: RunContext[CodeGen], state: Discussion) -> Update:
        """Return the first state, before any solution.

        Raises:
            UsageError: no sandbox is set, it is not available, or the question's problem is invalid.
        """
        problem_of(state)
        notes = [] if self.own_runner else run.once("sandbox", lambda: uncontained(run.settings))
        known: Update = {"errors": {}, "reviews": [], "ranked": [], "passed": {}, "kind": run.settings.answers_in}
        return known | {"notes": notes}

    def runner(self, settings: CodeGen) -> Runner:
        """Return the function that runs programs."""
        return self.own_runner or in_sandbox(settings)

    def check(self, run: RunContext[CodeGen], state: Coding) -> Update:
        """Check that solutions run, and have the required function: the Passer's step."""
        solutions = _solutions(replies_of(run, state), state)
        look = partial(tried, program=entry_point(state), run=self.runner(run.settings))
        errors = {coder: why or "" for coder, why in of_each(look, solutions).items()}
        lines = [f"{n} ({coder}): {why or 'runs'}" for n, (coder, why) in enumerate(errors.items(), 1)]
        return {"errors": errors, "board": [run.message(state, PASSER, CHECK, "\n".join(lines))]}

    def report(self, run: RunContext[CodeGen], state: Coding) -> Update:
        """Run the Tester's tests, and collect the judges' replies for the coders."""
        replies = replies_of(run, state)
        tests = assertions(_reply(state, TESTER, TEST))
        reports = self._reports(run.settings, _solutions(replies, state), tests, state["errors"])
        spans = reflections(_reply(state, REFLECTOR, REVIEW), len(replies))
        reviews: list[Review] = [
            {
                "agent": coder,
                "error": state["errors"][coder],
                "passed": [*reports[coder].passed],
                "failed": [[each.test, each.actual] for each in reports[coder].failed],
                "reflection": [*spans[n]] if spans else None,
            }
            for n, coder in enumerate(replies)
        ]
        best, how = ranked(run, state, len(replies))
        lines = [*_lines(reviews, tests), *([] if spans else ["no reviews could be read"]), how]
        told = run.message(state, TESTER, REPORT, "\n".join(lines), turn=REPORTED)
        shown = {"reviews": reviews, "ranked": [reviews[n]["agent"] for n in best]}
        return {**shown, "board": [told], "turn": REPORTED + 1}

    def final_tests(self, run: RunContext[CodeGen], state: Coding) -> Update:
        """Run the tests of all rounds on each last solution."""
        solutions = {vote["agent"]: vote["answer"] for vote in state["votes"] if vote["answer"] is not None}
        reports = self._reports(run.settings, solutions, tests_of(state), {})
        return {"passed": {coder: len(found.passed) for coder, found in reports.items()}}

    def by_tests(self, run: RunContext[CodeGen], state: Coding) -> Decision:
        """Decide by the solution that passes most tests, the first of several; the problem's own tests score it.

        If most coders wrote similar solutions, only theirs are candidates.
        """
        total, problem = len(tests_of(state)), problem_of(state)
        unread = sum(vote["answer"] is None for vote in state["votes"]), len(state["votes"]), "solutions are not Python"
        passed, alike = state["passed"], agreed(state) if run.settings.consensus else []
        votes: list[Vote] = [
            {**vote, "note": f"{passed[vote['agent']]} of {total} tests"} if total and vote["agent"] in passed else vote
            for vote in state["votes"]
        ]
        candidates = [vote for vote in votes if vote["answer"] is not None and (not alike or vote["agent"] in alike)]
        best = max(candidates, key=lambda vote: passed[vote["agent"]], default=None)
        if best is None or best["answer"] is None:
            score = None if problem is None else 0.0
            lost: Decision = {**decided("tests", "", [], votes, state), "score": score, "measures": {"pass": score}}
            return with_unreadable(lost, *unread)
        why = f"{best['agent']}'s solution "
        why += f"passes {passed[best['agent']]} of {total} tests" if total else "is the first; there are no tests"
        score = None
        if problem is not None:
            wrong = tried(best["answer"], problem.program, self.runner(run.settings))
            score = float(wrong is None)
            failed = (wrong or "").removesuffix(": ")
            why += "; it solves the problem" if wrong is None else f"; it does not solve the problem: {failed}"
        decision = decided("tests", why, [], votes, state, (best["answer"],))
        made: Decision = {**decision, "by": best["agent"], "score": score, "measures": {"pass": score}}
        return with_unreadable(made, *unread)

    def _reports(
        self, settings: CodeGen, solutions: Mapping[str, str], tests: list[str], errors: Mapping[str, str]
    ) -> dict[str, Report]:
        """Return the test report of each solution; one that does not run has an empty report."""
        run = self.runner(settings)
        whole = {coder: solution for coder, solution in solutions.items() if not errors.get(coder)}
        found = of_each(partial(report, tests=tests, run=run), whole)
        return {coder: found.get(coder, Report()) for coder in solutions}


def in_sandbox(settings: CodeGen) -> Runner:
    """Return a runner in the sandbox that the settings name."""
    limits = sandbox.Limits(seconds=settings.seconds)
    return partial(sandbox.run, limits=limits, backend=settings.sandbox, unsafe=settings.unsafe)


def uncontained(settings: CodeGen) -> list[str]:
    """Return a note, before anything runs, on what the sandbox does not contain.

    Raises:
        UsageError: no sandbox is set, or it is not available.
    """
    if settings.sandbox is None:
        offers = "; ".join(f"{name} ({what})" for name, what in sandbox.described())
        raise UsageError(
            "codegen runs programs that models write, but no sandbox was named; add --sandbox isolated (the first of "
            f"bwrap, podman and docker that is available), or one of these: {offers}; that one also needs --unsafe"
        )
    outcome = in_sandbox(settings)("")
    if outcome.status != "ok":
        why = outcome.reason or outcome.stderr.strip().partition("\n")[0]
        raise UsageError(f"codegen cannot run programs in the sandbox {settings.sandbox!r}: {why}")
    alone = choice(settings.sandbox, settings.unsafe) == "limits"
    return [f"programs of models run with limits alone; not contained: {EXPOSED}"] if alone else []


def of_each(look: Callable[[str], T], solutions: Mapping[str, str]) -> dict[str, T]:
    """Return `look` of each solution, some in parallel; equal solutions are processed once."""
    distinct = list(dict.fromkeys(solutions.values()))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(distinct, pool.map(look, distinct), strict=True))
    return {coder: found[solution] for coder, solution in solutions.items()}


def ranked(run: RunContext[CodeGen], state: Coding, count: int) -> tuple[tuple[int, int], str]:
    """Return the two best solutions (0-based), and a note; if the Ranker names none, they are drawn by seed."""
    found, how = ranks(_reply(state, RANKER, RANK), count), "ranked best"
    if found is None:
        first, second = random.Random(run.seed(state, RANKER, RANK)).sample(range(count), 2)
        found, how = (first, second), "no two best could be read; drawn"
    return found, f"{how}: {found[0] + 1}, {found[1] + 1}"


def _solutions(replies: Mapping[str, Message], state: Discussion) -> dict[str, str]:
    return {coder: solution_of(message, state) for coder, message in replies.items()}


def _reply(state: Discussion, agent: str, act: str) -> str:
    message = said(state, agent, state["round"], (act,))
    assert message is not None, "judges speak before the report"
    return message.text


def _lines(reviews: list[Review], tests: list[str]) -> list[str]:
    """Return lines for display: the number of tests that each solution passes, and its results on failed ones."""
    if not tests:
        return ["no tests could be read"]
    lines = list[str]()
    for number, review in enumerate(reviews, 1):
        lines.append(f"{number} ({review['agent']}): passes {len(review['passed'])} of {len(tests)}")
        lines += [f"  {test}: {actual}" for test, actual in review["failed"]]
    return lines
