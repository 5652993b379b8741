"""What a prompt pack's templates may do: name slots, loop over them, choose. So they end, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

LONGEST_FILE = 64 * 1024  # bytes; the longest of ours has 2,000
LONGEST_PROMPT = 10_000_000  # characters
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


class Bounded(SandboxedEnvironment):
    """jinja2's sandbox, whose products and formats stay small."""

    intercepted_binops = frozenset(["*", "%"])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # Any: as a template has it
        """A product of numbers, a text a few times, or a text that is formatted without wide fields."""
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
    made.filters[TURN] = _counted
    return made


def checked(tree: nodes.Template) -> nodes.Template:
    """A template that does only what packs may, with its loops counted.

    Raises:
        TemplateError: says what it does besides.
    """
    _look(tree, 0)
    for loop in [*tree.find_all(nodes.For)]:
        loop.iter = nodes.Filter(loop.iter, TURN, [], [], None, None, lineno=loop.lineno)
    return tree


def written(template: Template, slots: dict[str, Any]) -> str:  # Any: see `Prompts.render`
    """What a template makes of its slots.

    Raises:
        TemplateError: more than a prompt can be.
    """
    pieces, length = list[str](), 0
    for piece in template.generate(**slots, **{TURNS: [MOST_TURNS]}):
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
