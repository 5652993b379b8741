"""Tables of parameters: a few cases stand for all at every test, the others are slow tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import pytest


def some(values: Sequence[Any], *fast: object) -> list[Any]:
    """The values of a parameter; all but those that are named are slow."""
    return [_case(each in fast, each) for each in values]


def pairs(rows: Sequence[Any], columns: Sequence[Any], every: int = 4) -> list[Any]:
    """All pairs of two parameters; each row has one in `every` of its columns, in turn, and the others are slow."""
    return [_case((i + j) % every == 0, row, column) for i, row in enumerate(rows) for j, column in enumerate(columns)]


def _case(fast: bool, *values: Any) -> Any:
    return pytest.param(*values, marks=() if fast else pytest.mark.slow)


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a test on every row of a cheap table as one case; all rows that fail are told."""
    named, kept = names.split(", ") if isinstance(names, str) else list(names), list(rows)

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def every(**fixtures: Any) -> None:
            failed = list[Exception]()
            for row in kept:
                try:
                    test(**fixtures, **dict(zip(named, row if len(named) > 1 else [row], strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"with {', '.join(named)} = {row!r}")
                    failed.append(error if isinstance(error, Exception) else AssertionError(f"{error}, {row!r}"))
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(kept)} rows fail", failed)

        given = signature(test)
        own = [parameter for name, parameter in given.parameters.items() if name not in named]
        every.__signature__ = given.replace(parameters=own)  # type: ignore[attr-defined]  # pytest reads it
        return every

    return decorated
