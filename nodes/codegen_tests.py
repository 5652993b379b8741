"""The nodes of CodeGen that run programs of models, only in the sandbox that the settings name.

They are sync functions, which LangGraph runs in threads, so that no event loop waits for a sandbox.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from langchain_core.runnables import RunnableLambda

from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.environments import sandbox
from sottovoce.environments.codegen import assertions, ranks, reflections
from sottovoce.environments.sandbox import choice, exposed
from sottovoce.environments.test_runner import Report, Runner, report, tried
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
from sottovoce.nodes.contexts import Contexts
from sottovoce.nodes.decide import decided
from sottovoce.nodes.state import Decision, Discussion, Update, Vote, attempt_of, moment, said
from sottovoce.settings import CodeGen
from sottovoce.settings.codegen import PASSER, RANKER, REFLECTOR, TESTER

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
        if self.own_runner is None and "sandbox" not in run.memo:
            run.memo["sandbox"] = uncontained(run.settings)
        known: Update = {"errors": {}, "reviews": [], "ranked": [], "passed": {}, "kind": run.settings.answers_in}
        return known | {"notes": run.memo.get("sandbox", [])}

    def runner(self, settings: CodeGen) -> Runner:
        """Return the function that runs programs."""
        return self.own_runner or in_sandbox(settings)

    def check(self, contexts: Contexts[CodeGen]) -> RunnableLambda[Coding, Update]:
        """Return the Passer's node: checks that solutions run, and have the required function."""

        def check(state: Coding) -> Update:
            run = contexts.of(state)
            solutions = _solutions(replies_of(run, state), state)
            look = partial(tried, program=entry_point(state), run=self.runner(run.settings))
            errors = {coder: why or "" for coder, why in of_each(look, solutions).items()}
            lines = [f"{_named(n, coder)}: {why or 'runs'}" for n, (coder, why) in enumerate(errors.items(), 1)]
            return {"errors": errors, "board": [_rule_message(run, state, PASSER, CHECK, lines).to_dict()]}

        return RunnableLambda(check, name=PASSER)

    def report(self, contexts: Contexts[CodeGen]) -> RunnableLambda[Coding, Update]:
        """Return the node that runs the Tester's tests and collects the judges' replies for the coders."""

        def report(state: Coding) -> Update:
            run = contexts.of(state)
            replies = replies_of(run, state)
            tests = assertions(_reply(state, TESTER, TEST))
            reports = self._reports(run.settings, _solutions(replies, state), tests, state["errors"])
            spans = reflections(_reply(state, REFLECTOR, REVIEW), len(replies))
            reviews = [
                _review(coder, state["errors"][coder], reports[coder], spans[n] if spans else None)
                for n, coder in enumerate(replies)
            ]
            best, how = ranked(run, state, len(replies))
            lines = [*_lines(reviews, tests), *([] if spans else ["no reviews could be read"]), how]
            told = replace(_rule_message(run, state, TESTER, REPORT, lines), turn=REPORTED)
            shown = {"reviews": reviews, "ranked": [reviews[n]["agent"] for n in best]}
            return {**shown, "board": [told.to_dict()], "turn": REPORTED + 1}

        return RunnableLambda(report, name=REPORT)

    def final_tests(self, contexts: Contexts[CodeGen]) -> RunnableLambda[Coding, Update]:
        """Return the node that runs the tests of all rounds on each last solution."""

        def final_tests(state: Coding) -> Update:
            settings = contexts.of(state).settings
            solutions = {vote["agent"]: vote["answer"] for vote in state["votes"] if vote["answer"] is not None}
            reports = self._reports(settings, solutions, tests_of(state), {})
            return {"passed": {coder: len(found.passed) for coder, found in reports.items()}}

        return RunnableLambda(final_tests, name="final_tests")

    def by_tests(self, run: RunContext[CodeGen], state: Coding) -> Decision:
        """Decide by the solution that passes most tests, the first of several; the problem's own tests score it.

        If most coders wrote similar solutions, only theirs are candidates.
        """
        total, problem = len(tests_of(state)), problem_of(state)
        votes = [_with_tests(vote, state["passed"], total) for vote in state["votes"]]
        best = max(_candidates(run.settings, state, votes), key=_passes(state), default=None)
        if best is None or best["answer"] is None:
            score = None if problem is None else 0.0
            return {**decided("tests", "", [], votes, state), "score": score, "measures": {"pass": score}}
        why = f"{best['agent']}'s solution passes {state['passed'][best['agent']]} of {total} tests"
        score = None
        if problem is not None:
            wrong = tried(best["answer"], problem.program, self.runner(run.settings))
            score = float(wrong is None)
            failed = (wrong or "").removesuffix(": ")
            why += "; it solves the problem" if wrong is None else f"; it does not solve the problem: {failed}"
        decision = decided("tests", why, [], votes, state, (best["answer"],))
        return {**decision, "by": best["agent"], "score": score, "measures": {"pass": score}}

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
            f"bwrap and namespaces that is available), or one of these: {offers}; that one also needs --unsafe"
        )
    outcome = in_sandbox(settings)("")
    if outcome.status != "ok":
        why = outcome.reason or outcome.stderr.strip().partition("\n")[0]
        raise UsageError(f"codegen cannot run programs in the sandbox {settings.sandbox!r}: {why}")
    alone = choice(settings.sandbox, settings.unsafe) == "limits"
    return [f"programs of models run with limits alone; not contained: {exposed()}"] if alone else []


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


def _candidates(settings: CodeGen, state: Coding, votes: list[Vote]) -> list[Vote]:
    alike = agreed(state) if settings.consensus else []
    return [vote for vote in votes if vote["answer"] is not None and (not alike or vote["agent"] in alike)]


def _passes(state: Coding) -> Callable[[Vote], int]:
    return lambda vote: state["passed"][vote["agent"]]


def _with_tests(vote: Vote, passed: Mapping[str, int], total: int) -> Vote:
    return vote if vote["answer"] is None else {**vote, "note": f"{passed[vote['agent']]} of {total} tests"}


def _solutions(replies: Mapping[str, Message], state: Discussion) -> dict[str, str]:
    return {coder: solution_of(message, state) for coder, message in replies.items()}


def _reply(state: Discussion, agent: str, act: str) -> str:
    message = said(state, agent, state["round"], (act,))
    assert message is not None, "judges speak before the report"
    return message.text


def _review(coder: str, error: str, report: Report, span: tuple[int, int] | None) -> Review:
    failed = [[each.test, each.actual] for each in report.failed]
    return {
        "agent": coder,
        "error": error,
        "passed": [*report.passed],
        "failed": failed,
        "reflection": [*span] if span else None,
    }


def _lines(reviews: list[Review], tests: list[str]) -> list[str]:
    """Return lines for display: the number of tests that each solution passes, and its results on failed ones."""
    if not tests:
        return ["no tests could be read"]
    lines = list[str]()
    for number, review in enumerate(reviews, 1):
        lines.append(f"{_named(number, review['agent'])}: passes {len(review['passed'])} of {len(tests)}")
        lines += [f"  {test}: {actual}" for test, actual in review["failed"]]
    return lines


def _named(number: int, coder: str) -> str:
    return f"{number} ({coder})"


def _rule_message(run: RunContext[CodeGen], state: Discussion, agent: str, act: str, lines: list[str]) -> Message:
    epoch, round, turn = moment(state)
    attempt = attempt_of(state, agent, act)
    text = "\n".join(lines)
    return Message(agent, round, act, text, attempt, epoch=epoch, turn=turn, order=run.order(agent), source="rule")
