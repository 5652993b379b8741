"""Looking at schemes: `list`, `draw`, `symmetry`."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import typer
from pydantic import ConfigDict, Field

from sottovoce.channels.registry import PROTOCOLS
from sottovoce.checked import Checked
from sottovoce.commands.group import REPEAT, area, group
from sottovoce.evaluation.runs.question import QuestionOptions
from sottovoce.evaluation.symmetry import Looked, show_symmetry
from sottovoce.graphs import Scheme, schemes
from sottovoce.nodes.settings import Settings
from sottovoce.options import command
from sottovoce.prompts.kinds import KINDS
from sottovoce.retrievers.registry import described

commands = area()


class Drawing(Checked):
    """How a graph is drawn."""

    model_config = ConfigDict(title="Drawing")

    format: Literal["mermaid", "ascii"] = Field(default="mermaid", description="of the drawing")


def draw_graph(scheme: Scheme, settings: Settings, drawing: Drawing) -> None:
    """Print the graph that a scheme has with these settings."""
    graph = scheme.create(settings).compile().get_graph()
    typer.echo(graph.draw_mermaid() if drawing.format == "mermaid" else graph.draw_ascii())


@commands.command("list")
def list_() -> None:
    """List schemes, protocols, forms of answer and retrievers, also those that other packages bring."""
    for scheme in schemes():
        typer.echo(f"{scheme.command:18}{scheme.summary}")
    carried, asked = Settings.model_fields["protocol"].description, QuestionOptions.model_fields["kind"].description
    typer.echo(f"\n{'--protocol':18}{', '.join(PROTOCOLS.names())}: {carried}")
    typer.echo(f"{'--kind':18}{', '.join(KINDS.names())}: {asked}")
    typer.echo(f"{'--library':18}documents (the question's own), or a retriever, as `open_retriever` in code takes it:")
    for each in described():
        typer.echo(f"  {each.spec:28}{each.searches}{each.needs and f'; needs {each.needs}'}".rstrip())


draw = group(commands, "draw", "Draw a scheme's graph.")
symmetry = group(commands, "symmetry", "Tell which agents of a scheme could change places.")
for each in schemes():
    told: dict[str, Any] = {"name": each.command, "help": each.summary, "epilog": REPEAT}  # Any: as typer takes them
    draw.command(**told)(command(partial(draw_graph, each), each.settings, Drawing))
    symmetry.command(**told)(command(partial(show_symmetry, each.name), each.settings, Looked))
