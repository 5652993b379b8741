"""The commands of `graph`: list schemes, draw their graphs, and show their symmetries."""

from __future__ import annotations

from math import factorial

from sottovoce.channels import PROTOCOLS
from sottovoce.cli.command import Commands, SchemeCommands
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted, one_line, say
from sottovoce.datasets.question_source import QuestionOptions
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import KINDS
from sottovoce.retrievers import described

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
    """Print the graph of a scheme with these settings, in Mermaid, with thick arrows if not all agents hear all."""
    drawn = scheme(name).create(settings).compile().get_graph()
    heard = settings.edges() if getattr(settings, "hears", "all") != "all" else []
    arrows = [
        f"\t{speaker} == is heard by ==> {hearer};\n"
        for speaker, hearer in heard
        if {speaker, hearer} <= {*drawn.nodes}
    ]
    print(drawn.draw_mermaid() + "".join(arrows))


def show_symmetry(name: str, settings: Settings) -> None:
    """Print the symmetries of a scheme with these settings, both with labeled edges and with unlabeled ones.

    Raises:
        UsageError: the scheme's calls are not known before they are made.
    """
    if why := scheme(name).unrolls:
        raise UsageError(f"{name} has no symmetries to show: {why}; `graph draw {name}` shows its graph")

    from sottovoce.analysis.symmetry import CAUSES, spoken_by, symmetry, unroll  # late: langchain

    unrolled = unroll(scheme(name).create, settings, scheme(name).answers)
    models = spoken_by(settings, [*unrolled.agents(), *unrolled.others])
    mechanism, labelled = symmetry(unrolled), symmetry(unrolled, models)
    bare = symmetry(unrolled, models, labelled=False)
    agents, others = len(unrolled.agents()), ", ".join(unrolled.others)
    cycles = ["".join(f"({' '.join(cycle)})" for cycle in generator) for generator in labelled.generators]
    rows = {
        "order": f"{labelled.order:,} of {counted(factorial(agents), 'permutation')}",
        "orbits": ", ".join(f"{{{', '.join(orbit)}}}" for orbit in labelled.orbits),
        "generators": ", ".join(cycles) or "none",
        "broken by": ", ".join(f"{cause} ({CAUSES[cause]})" for cause in labelled.broken_by) or "nothing",
        "without models": f"{mechanism.order:,}: of the mechanism alone, with any models",
        "bare edges": f"{bare.order:,}: considering only who hears whom, not what is sent",
        "others": others and f"{others}: fixed; only agents are permuted",
        "left out": unrolled.left_out,
    }
    say(f"{counted(agents, 'agent')}, {counted(len(unrolled.calls), 'call')}")
    say("\n".join(f"{name:15}{text}" for name, text in rows.items() if text))


commands.add_command(SchemeCommands("draw", "Draw a scheme's graph.", draw))
commands.add_command(SchemeCommands("symmetry", "Show which agents of a scheme could change places.", show_symmetry))
