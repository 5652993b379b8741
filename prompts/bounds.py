"""What a prompt pack's templates may do: name slots, loop over them, choose. So they end, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

LONGEST_FILE = 64 * 1024  # bytes; the longest of ours has 2,000
LONGEST_PROMPT = 10_000_000  # characters
MOST_READ = 100_000_000  # characters that are read and made on the way to one; copying them takes a part of a second
MOST_TURNS = 10_000  # of all loops of a prompt together
DEEPEST = 3  # loops within loops
LARGEST = 10**12  # what may be multiplied
LONGEST_REPEATED = 1000  # characters of a text that is repeated
WIDTH = re.compile(r"%[^a-zA-Z%]*(?:\d{3}|\*)")
"""A width or precision of three digits or more, in what % formats."""
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
TURNS, TURN = "_turns", "_turn"
LEFT, READ, PLAIN = "_left", "_read", "_plain_"


class Bounded(SandboxedEnvironment):
    """jinja2's sandbox, whose sums, products and formats stay small."""

    intercepted_binops = frozenset(["+", "*", "%"])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # Any: as a template has it
        """A sum; a product of numbers, a text a few times, or a text that is formatted without wide fields."""
        if operator == "+":
            return _read(context, super().call_binop(context, operator, left, right))
        numbers = all(isinstance(each, int | float) and abs(each) <= LARGEST for each in (left, right))
        if not (numbers or _is_short(operator, left, right)):
            raise TemplateError(
                f"{operator} is for numbers to {LARGEST:.0e}, texts up to {LONGEST_REPEATED} characters in all, and "
                "fields of texts to 99 characters"
            )
        return super().call_binop(context, operator, left, right)


def _is_short(operator: str, left: Any, right: Any) -> bool:  # Any: as a template has them
    if not isinstance(left, str):
        return False
    if operator == "%":
        return WIDTH.search(left) is None
    return isinstance(right, int) and len(left) * right <= LONGEST_REPEATED


def environment(**options: Any) -> SandboxedEnvironment:  # Any: jinja2's own
    """The sandbox in which packs are rendered."""
    made = Bounded(**options)
    made.filters |= {PLAIN + name: made.filters[name] for name in FILTERS}
    made.filters |= {name: _bounded(name) for name in FILTERS}
    made.filters |= {TURN: _counted, READ: _read}
    return made


def checked(tree: nodes.Template) -> nodes.Template:
    """Return a template that does only what packs may, with its loops counted, and what it reads.

    Raises:
        TemplateError: says what it does besides.
    """
    _look(tree, 0)
    for loop in [*tree.find_all(nodes.For)]:
        loop.iter = nodes.Filter(loop.iter, TURN, [], [], None, None, lineno=loop.lineno)
    _Counting().visit(tree)
    return tree


class _Counting(NodeTransformer):
    """Counts what a template reads: all that it makes is made of that, so that nothing grows in loops."""

    def generic_visit(self, node: nodes.Node, *given: Any, **named: Any) -> nodes.Node:  # Any: as jinja2 has it
        """Have each value that has a name pass the count."""
        super().generic_visit(node, *given, **named)
        if not isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem) or node.ctx != "load":
            return node
        return nodes.Filter(node, READ, [], [], None, None, lineno=node.lineno)


def written(template: Template, slots: dict[str, Any]) -> str:  # Any: see `Prompts.render`
    """What a template makes of its slots.

    Raises:
        TemplateError: more than a prompt can be.
    """
    pieces, length = list[str](), 0
    for piece in template.generate(**slots, **{TURNS: [MOST_TURNS], LEFT: [MOST_READ]}):
        length += len(piece)
        if length > LONGEST_PROMPT:
            raise TemplateError(f"it has more than {LONGEST_PROMPT:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _look(node: nodes.Node, loops: int) -> None:
    if not isinstance(node, KNOWN) or (isinstance(node, nodes.For) and node.recursive):
        raise TemplateError(
            f"line {node.lineno}: a pack names slots, loops over them and chooses; it has no {_said(node)}"
        )
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise TemplateError(
            f"line {node.lineno}: a pack has no filter {node.name!r}; choose from: {', '.join(FILTERS)}"
        )
    loops += isinstance(node, nodes.For)
    if loops > DEEPEST:
        raise TemplateError(f"line {node.lineno}: more than {DEEPEST} loops stand in one another")
    for child in node.iter_child_nodes():
        _look(child, loops)


def _said(node: nodes.Node) -> str:
    names = {"Call": "calls", "Assign": "set", "Macro": "macro", "Pow": "**", "For": "recursive loops"}
    return names.get(type(node).__name__, type(node).__name__)


@pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterator[Any]:  # Any: as a template has them
    left: Any = context.resolve(TURNS)  # Any: a list of one number, whatever jinja2 may find elsewhere
    for item in items:
        left[0] -= 1
        if left[0] < 0:
            raise TemplateError(f"its loops take more than {MOST_TURNS:,} turns")
        yield item


@pass_context
def _read(context: Context, value: Any) -> Any:  # Any: as a template has it
    _spend(context, _size(value))
    return value


def _spend(context: Context, size: int) -> None:
    left: Any = context.resolve(LEFT)  # Any: see `_counted`; there is none while jinja2 works out what is constant
    left = left if isinstance(left, list) else [MOST_READ]
    left[0] -= size
    if left[0] < 0:
        raise TemplateError(f"it reads and makes more than {MOST_READ:,} characters on the way")


def _size(value: Any) -> int:  # Any: as a template has it
    """How many characters and items a value has, those within it included."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        value = [*value.values()]
    return sum(1 + _size(each) for each in value) if isinstance(value, list | tuple) else 0


def _bounded(name: str) -> Callable[..., Any]:  # Any: as above
    """A filter of jinja2's whose result is counted; what it is given was, when it was read."""

    @pass_context
    def bounded(context: Context, value: Any, *given: Any, **named: Any) -> Any:
        if name == "join":
            between = next(iter([*given, *named.values()]), "")
            value = [*value]
            _spend(context, len(value) * _size(between))
        if name == "sum" and (len(given) > 1 or "start" in named):
            raise TemplateError("sum is for numbers, from 0 on")
        return _read(context, context.environment.call_filter(PLAIN + name, value, given, named, context))

    return bounded
