"""Which agents of a discussion could change places without changing it (CMD, arXiv 2402.18272, Appendix A).

A permutation of the agents is a symmetry if the calls can be permuted with it so that every call keeps its prompt
and every edge what it carries; with models, an agent also goes only where its own model is. Two readings:
an edge is labelled by what it carries (72 for CMD's two groups of three), or it is bare as in the paper's Definition 1
(720). The order of messages within a prompt is left out, and so is who wins a tie.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import factorial
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from sottovoce.evaluation.calls import Unrolled
from sottovoce.evaluation.printable import counted, one_line
from sottovoce.evaluation.unroll import spoken_by, unroll
from sottovoce.nodes.settings import Settings

if TYPE_CHECKING:
    import networkx as nx

Cause = Literal["graph", "prompts", "models"]
CAUSES: dict[Cause, str] = {
    "graph": "who hears whom",
    "prompts": "what agents are told",
    "models": "who thinks, and how",
}
Models = Mapping[str, str]
Image = list[int]
"""Where a permutation takes each agent, by index."""


@dataclass(frozen=True)
class Symmetry:
    """The group of symmetries of a discussion, on its agents."""

    order: int
    generators: tuple[tuple[tuple[str, ...], ...], ...]
    """Each in cycles: ("a", "b") exchanges the two."""
    orbits: tuple[tuple[str, ...], ...]
    """Agents that can take one another's places stand together."""
    broken_by: tuple[Cause, ...]
    """What by itself leaves fewer permutations (prompts, models: than the graph does); () where all are left."""


def symmetry(unrolled: Unrolled, models: Models | None = None, *, labelled: bool = True) -> Symmetry:
    """The symmetries of a discussion: of its mechanism, or with `models` (by agent) of these agents in it."""
    agents = unrolled.agents()

    def order(*, prompts: bool = False, models: Models | None = None) -> int:
        return _order(_images(_Coloured(unrolled, models, prompts=prompts, labelled=labelled)), len(agents))

    of_graph = order()
    broken: dict[Cause, bool] = {
        "graph": of_graph < factorial(len(agents)),
        "prompts": order(prompts=True) < of_graph,
        "models": models is not None and order(models=models) < of_graph,
    }
    images = _images(_Coloured(unrolled, models, prompts=True, labelled=labelled))
    return Symmetry(
        _order(images, len(agents)),
        tuple(_cycles(image, agents) for image in images),
        _orbits(images, agents),
        tuple(cause for cause, breaks in broken.items() if breaks),
    )


class _Coloured:
    """The auxiliary graph: vertices by number, the agents first; agent -> its calls; an edge is a vertex between two.

    A call's colour is its prompt, not its agent: which agent it belongs to, the arrows say.
    """

    def __init__(self, unrolled: Unrolled, models: Models | None, *, prompts: bool, labelled: bool) -> None:
        agents = unrolled.agents()
        self.agents = len(agents)
        self.colours = [f"agent {models.get(name, '') if models else ''}" for name in agents]
        self.colours += ["question", "decision"]
        self.colours += [f"call {call.prompt if prompts else ''}" for call in unrolled.calls]
        first = {call: self.agents + 2 + i for i, call in enumerate(unrolled.calls)}
        self.arrows = [(agents.index(call.agent), vertex) for call, vertex in first.items()]
        for edge in unrolled.edges:
            start = first[edge.speaker] if edge.speaker else self.agents
            end = first[edge.hearer] if edge.hearer else self.agents + 1
            self.arrows += [(start, len(self.colours)), (len(self.colours), end)]
            self.colours.append(f"edge {edge.carries if labelled else ''}")

    def fixing(self, agents: Sequence[int]) -> nx.DiGraph[int]:
        """The graph with these agents told apart, each by its place in the list, and its colours refined."""
        import networkx as nx

        graph: nx.DiGraph[int] = nx.DiGraph(self.arrows)
        rank = {colour: i for i, colour in enumerate(sorted(set(self.colours)))}
        colours = {vertex: rank[colour] for vertex, colour in enumerate(self.colours)}
        colours |= {agent: hash((colours[agent], place)) for place, agent in enumerate(agents)}
        nx.set_node_attributes(graph, _refined(graph, colours), "colour")
        return graph


def _refined(graph: nx.DiGraph[int], colours: dict[int, int]) -> dict[int, int]:
    """Colours split by those of the neighbours until nothing is left to split: wrong matches then fail at once.

    Hashes of tuples of numbers are equal in every process, so the same generators are found.
    """
    while True:
        around = {v: [tuple(sorted(colours[u] for u in side[v])) for side in (graph.pred, graph.succ)] for v in graph}
        finer = {v: hash((colours[v], *around[v])) for v in graph}
        if len(set(finer.values())) == len(set(colours.values())):
            return finer
        colours = finer


def _images(graph: _Coloured) -> list[Image]:
    """Generators, the last agents' first: each stabiliser's orbit is filled by one match for each agent it lacks."""
    found: list[Image] = []
    for agent in reversed(range(graph.agents)):
        before = list(range(agent))  # these stay where they are; so they do under all that was found so far
        for other in range(agent + 1, graph.agents):
            if other not in _orbit(found, agent):
                swap = [
                    {agent: other, other: agent}.get(i, i) for i in range(graph.agents)
                ]  # quickly tried, often right
                image = _match(graph, swap) or _match(graph, [*before, other])
                found += [image] if image else []
    return found


def _match(graph: _Coloured, image: Image) -> Image | None:
    """An automorphism that takes agent i to image[i], as far as these are given; the others are tried in turn."""
    import networkx as nx

    here, there = graph.fixing(range(len(image))), graph.fixing(image)
    colours, targets = (dict(side.nodes(data="colour")) for side in (here, there))
    if sorted(colours.values()) != sorted(targets.values()):
        return None
    if len(image) == graph.agents:  # with every agent fixed hardly a choice is left
        return image if nx.vf2pp_isomorphism(here, there, node_label="colour") else None
    fitting = [i for i in range(graph.agents) if i not in image and targets[i] == colours[len(image)]]
    return next((whole for i in fitting if (whole := _match(graph, [*image, i]))), None)


def _orbit(images: list[Image], agent: int) -> set[int]:
    orbit = {agent}
    while new := {image[i] for image in images for i in orbit} - orbit:
        orbit |= new
    return orbit


def _order(images: list[Image], agents: int) -> int:
    from sympy.combinatorics import Permutation, PermutationGroup

    return int(PermutationGroup([Permutation(image) for image in images or [list(range(agents))]]).order())


def _orbits(images: list[Image], agents: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    sets = dict.fromkeys(tuple(sorted(_orbit(images, i))) for i in range(len(agents)))
    return tuple(tuple(agents[i] for i in orbit) for orbit in sets)


def _cycles(image: Image, agents: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    from sympy.combinatorics import Permutation

    return tuple(tuple(agents[i] for i in cycle) for cycle in Permutation(image).cyclic_form)


# For a reader


class Looked(BaseModel):
    """How symmetry is looked at."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Symmetry")

    private: bool = Field(default=False, description="each agent has documents of its own: they count as its prompt")
    as_json: bool = Field(default=False, alias="json", description="one JSON object on stdout, and nothing else")


def show_symmetry(scheme: str, settings: Settings, looked: Looked) -> None:
    """Print the symmetries of a scheme with these settings, edges labelled by what they carry and bare."""
    unrolled, models = unroll(scheme, settings), spoken_by(settings)
    if looked.private:
        unrolled = unrolled.told({name: f"documents of {name}" for name in settings.owners() or []})
    readings = {name: symmetry(unrolled, models, labelled=name == "labelled") for name in ("labelled", "bare")}
    mechanism = symmetry(unrolled)
    if looked.as_json:
        found = {"mechanism": mechanism, **readings}
        spoken = {name: models[name] for name in unrolled.agents()}
        print(json.dumps({"scheme": scheme, "models": spoken, **{name: asdict(each) for name, each in found.items()}}))
        return
    print(f"{counted(len(unrolled.agents()), 'agent')}, {counted(len(unrolled.calls), 'call')}")
    print("\n".join(lines(readings["labelled"])))
    print(f"{'without models':15}{mechanism.order:,}: of the mechanism alone, whoever speaks")
    print(f"{'bare edges':15}{readings['bare'].order:,}: counting that one is heard, not what of it")


def lines(found: Symmetry) -> list[str]:
    """Order, orbits, generators and what breaks the symmetry, a line each."""
    agents = sum(map(len, found.orbits))
    generators = ", ".join("".join(f"({' '.join(cycle)})" for cycle in cycles) for cycles in found.generators)
    orbits = ", ".join(f"{{{', '.join(orbit)}}}" for orbit in found.orbits)
    broken = ", ".join(f"{cause} ({CAUSES[cause]})" for cause in found.broken_by)
    return [
        f"{'order':15}{found.order:,} of {counted(factorial(agents), 'permutation')}",
        f"{'orbits':15}{one_line(orbits)}",
        f"{'generators':15}{one_line(generators) or 'none'}",
        f"{'broken by':15}{broken or 'nothing'}",
    ]
