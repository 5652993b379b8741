"""What CodeGen's tests need: a runner by script, replies of coders and judges."""

from __future__ import annotations

import ast
from collections.abc import Callable

from sottovoce.environments.codegen import statements
from sottovoce.environments.sandbox import Outcome

Verdict = Callable[[str, str], str | None]
"""Solution and program -> what goes wrong, or None."""


def runs(solution: str, program: str) -> str | None:
    """Nothing ever goes wrong."""
    return None


class ScriptedRunner:
    """Stands in for a sandbox: runs nothing, and says of each solution and program what a verdict says."""

    def __init__(self, verdict: Verdict = runs) -> None:
        self.verdict = verdict
        self.asked: list[tuple[str, str]] = []
        """Solution and program of each run."""

    def __call__(self, program: str) -> Outcome:
        call = (statements(program) or [])[-1]
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        solution, test, word = (str(ast.literal_eval(each)) for each in call.value.args)
        self.asked.append((solution, test))
        wrong = self.verdict(solution, test)
        return Outcome("ok", stdout=f"\n{word}{'passed' if wrong is None else f'failed {wrong}'}\n")


def block(code: str, scores: str = "") -> str:
    """A coder's reply."""
    return f"```python\n{code}\n```\n{scores}"


def reviews(*texts: str) -> str:
    """A Reflector's reply."""
    return "\n".join(f"[reflection {n}]: {text}" for n, text in enumerate(texts, 1))
