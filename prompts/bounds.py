"""Limits on a prompt pack's templates: they may only name slots, loop over them and choose, so they always end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

LONGEST_FILE = 64 * 1024  # bytes; our longest file has 2,000
LONGEST_PROMPT = 10_000_000  # characters
MOST_READ = 100_000_000  # characters read and created while rendering; copying them takes a fraction of a second
MOST_TURNS = 10_000  # iterations of all loops of a prompt together
DEEPEST = 3  # nested loops
LARGEST = 10**12  # absolute value of factors
LONGEST_REPEATED = 1000  # characters of a repeated text
WIDTH = re.compile(r"%[^a-zA-Z%]*(?:\d{3}|\*)")
"""A width or precision of three digits or more in a % format."""
KNOWN: tuple[type[nodes.Node], ...] = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.For, nodes.If, nodes.CondExpr),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Test, nodes.Compare, nodes.Operand),
    *(nodes.Tuple, nodes.List, nodes.Dict, nodes.Pair, nodes.Concat, nodes.And, nodes.Or, nodes.Not),
    *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Pos),
)
FILTERS = (
    *("abs", "capitalize", "count", "default", "first", "float", "int", "join", "last", "length", "list", "lower"),
    *("max", "min", "reverse", "sort", "string", "sum", "title", "trim", "truncate", "unique", "upper"),
)
FORBIDDEN = {"Call": "calls", "Assign": "set", "Macro": "macro", "Pow": "**", "For": "recursive loops"}
"""Names of forbidden nodes in messages."""
TURNS, TURN = "_turns", "_turn"
LEFT, READ, PLAIN = "_left", "_read", "_plain_"


class Bounded(SandboxedEnvironment):
    """jinja2's sandbox with limits on sums, products, formats and the results of filters."""

    intercepted_binops = frozenset(["+", "*", "%"])

    def __init__(self, **options: Any) -> None:  # Any: jinja2's own
        """Take jinja2's options."""
        super().__init__(**options)
        self.filters |= {PLAIN + name: self.filters[name] for name in FILTERS}
        self.filters |= {name: _bounded(name) for name in FILTERS}
        self.filters |= {TURN: _counted, READ: _read}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # Any: a template's values
        """Compute a sum, a product of numbers, a short repeated text, or a format without wide fields."""
        if operator == "+":
            return _read(context, super().call_binop(context, operator, left, right))
        is_allowed = all(isinstance(value, int | float) and abs(value) <= LARGEST for value in (left, right))
        if isinstance(left, str) and operator == "%":
            is_allowed = WIDTH.search(left) is None
        elif isinstance(left, str):
            is_allowed = isinstance(right, int) and len(left) * right <= LONGEST_REPEATED
        if not is_allowed:
            raise TemplateError(
                f"{operator} is for numbers to {LARGEST:.0e}, texts up to {LONGEST_REPEATED} characters in all, and "
                "fields of texts to 99 characters"
            )
        return super().call_binop(context, operator, left, right)


def limited(tree: nodes.Template) -> nodes.Template:
    """Return a template of a pack with counters for its loops and for the characters that it reads.

    Raises:
        TemplateError: it does something that packs may not; the message says what.
    """
    _look(tree, 0)
    for loop in [*tree.find_all(nodes.For)]:
        loop.iter = nodes.Filter(loop.iter, TURN, [], [], None, None, lineno=loop.lineno)
    _Counting().visit(tree)
    return tree


class _Counting(NodeTransformer):
    """A transformer that counts what a template reads: all output consists of that, so nothing can grow in loops."""

    def generic_visit(self, node: nodes.Node, *arguments: Any, **keywords: Any) -> nodes.Node:  # Any: jinja2's own
        """Wrap each named value in a filter that counts its size."""
        super().generic_visit(node, *arguments, **keywords)
        if not isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem) or node.ctx != "load":
            return node
        return nodes.Filter(node, READ, [], [], None, None, lineno=node.lineno)


def rendered(template: Template, slots: dict[str, Any]) -> str:  # Any: see `Prompts.render`
    """Render a template with its slots."""
    pieces, length = list[str](), 0
    for piece in template.generate(**slots, **{TURNS: [MOST_TURNS], LEFT: [MOST_READ]}):
        length += len(piece)
        if length > LONGEST_PROMPT:
            raise TemplateError(f"it has more than {LONGEST_PROMPT:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _look(node: nodes.Node, loops: int) -> None:
    if not isinstance(node, KNOWN) or (isinstance(node, nodes.For) and node.recursive):
        kind = type(node).__name__
        has = f"a pack names slots, loops over them and chooses; it has no {FORBIDDEN.get(kind, kind)}"
        raise TemplateError(f"line {node.lineno}: {has}")
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise TemplateError(
            f"line {node.lineno}: a pack has no filter {node.name!r}; choose from: {', '.join(FILTERS)}"
        )
    loops += isinstance(node, nodes.For)
    if loops > DEEPEST:
        raise TemplateError(f"line {node.lineno}: more than {DEEPEST} nested loops")
    for child in node.iter_child_nodes():
        _look(child, loops)


@pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterator[Any]:  # Any: a template's values
    left: Any = context.resolve(TURNS)  # Any: a list of one number, unless jinja2 finds another value
    for item in items:
        left[0] -= 1
        if left[0] < 0:
            raise TemplateError(f"its loops have more than {MOST_TURNS:,} iterations")
        yield item


@pass_context
def _read(context: Context, value: Any, times: int = 1) -> Any:  # Any: a template's value
    """Return a value, and count its size; `times` counts the copies that are made of it."""
    left: Any = context.resolve(LEFT)  # Any: see `_counted`; it is missing while jinja2 folds constants
    left = left if isinstance(left, list) else [MOST_READ]
    left[0] -= times * _size(value)
    if left[0] < 0:
        raise TemplateError(f"it reads and creates more than {MOST_READ:,} characters")
    return value


def _size(value: Any) -> int:  # Any: a template's value
    """Return the number of characters and items of a value, including nested ones."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        value = [*value.values()]
    return sum(1 + _size(item) for item in value) if isinstance(value, list | tuple) else 0


def _bounded(name: str) -> Callable[..., Any]:  # Any: as above
    """Return a filter of jinja2 that counts the size of its result; its input was counted when it was read."""

    @pass_context
    def bounded(context: Context, value: Any, *arguments: Any, **keywords: Any) -> Any:
        if name == "join":
            value = [*value]
            _read(context, next(iter([*arguments, *keywords.values()]), ""), len(value))
        if name == "sum" and (len(arguments) > 1 or "start" in keywords):
            raise TemplateError("sum is for numbers only, and starts at 0")
        return _read(context, context.environment.call_filter(PLAIN + name, value, arguments, keywords, context))

    return bounded
