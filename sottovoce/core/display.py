"""Results as a notebook shows them: values of graphs and runs with `_repr_html_`; elsewhere they are plain values."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def html(result: object) -> str:
    """Return a result as HTML. The report draws it; its layer is above all callers, so it is imported late."""
    drawn: str = import_module("sottovoce.report.notebook").html(result)
    return drawn


class ShownDict(dict[str, Any]):  # Any: values of a JSON object
    """A JSON object that a notebook shows, such as a decision."""

    def _repr_html_(self) -> str:
        return html(self)


class ShownList(list[Any]):  # Any: messages, as JSON or LangChain's
    """Messages that a notebook shows as a transcript."""

    def _repr_html_(self) -> str:
        return html(self)
