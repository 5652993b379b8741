"""The commands of `graph`: list schemes, draw their graphs, and show their symmetries."""

from __future__ import annotations

from sottovoce.analysis.symmetry import show_symmetry
from sottovoce.channels import PROTOCOLS
from sottovoce.cli.command import Commands, SchemeCommands
from sottovoce.core.errors import UsageError
from sottovoce.core.text import one_line
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.prompts.kinds import KINDS
from sottovoce.retrievers.registry import described
from sottovoce.settings import Settings

commands = Commands("graph")


@commands.add()
def list_() -> None:
    """List schemes, protocols, kinds of answer and retrievers, also those of other packages."""
    from sottovoce.report.tables import show  # late: the help needs none of it

    carried, form = Settings.model_fields["protocol"].description, QuestionOptions.model_fields["kind"].description
    lines = [
        *(f"{name.replace('_', '-'):18}{_summary(name)}" for name in SCHEMES),
        "",
        f"{'--protocol':18}{', '.join(PROTOCOLS.names())}: {carried}",
        f"{'--kind':18}{', '.join(KINDS.names())}: {form}",
        f"{'--library':18}documents (the question's own), or a retriever, as `open_retriever` in code takes it:",
        *(f"  {each.spec:28}{each.searches}{each.needs and f'; needs {each.needs}'}".rstrip() for each in described()),
    ]
    show("\n".join(lines))


def _summary(name: str) -> str:
    try:
        return scheme(name).summary
    except UsageError as error:
        return one_line(str(error))


def draw(name: str, settings: Settings) -> None:
    """Print the graph of a scheme with these settings, in Mermaid."""
    print(scheme(name).create(settings).compile().get_graph().draw_mermaid())


commands.add_command(SchemeCommands("draw", "Draw a scheme's graph.", draw))
commands.add_command(SchemeCommands("symmetry", "Show which agents of a scheme could change places.", show_symmetry))
