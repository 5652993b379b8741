"""Which agents of a discussion could change places without changing it (CMD, arXiv 2402.18272, Appendix A).

A permutation of the agents is a symmetry if the calls can be permuted with it so that every call keeps its prompt
and every edge what it carries; with models, an agent also goes only where its own model is. Two readings:
an edge is labelled by what it carries (72 for CMD's two groups of three), or it is bare as in the paper's Definition 1
(720). The order of messages within a prompt is left out, and so is who wins a tie. Permutations are of the agents
that discuss; moderator, judge, secretary and summariser stay where they are, so that CMD's 72 are of 720.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import factorial
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sottovoce.evaluation.calls import Unrolled
from sottovoce.evaluation.unroll import spoken_by, unroll
from sottovoce.evaluation.views.printable import counted, one_line
from sottovoce.nodes.settings import Settings

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
    """The group of symmetries of a discussion, on the agents that discuss."""

    order: int
    generators: tuple[tuple[tuple[str, ...], ...], ...]
    """Each in cycles: ("a", "b") exchanges the two."""
    orbits: tuple[tuple[str, ...], ...]
    """Agents that can take one another's places stand together."""
    broken_by: tuple[Cause, ...]
    """What by itself leaves fewer permutations (prompts, models: than the graph does); () where all are left."""


def symmetry(unrolled: Unrolled, models: Models | None = None, *, labelled: bool = True) -> Symmetry:
    """The symmetries of a discussion: of its mechanism, or with `models` (by agent) of these agents in it."""
    agents = _discussing(unrolled)

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


def _discussing(unrolled: Unrolled) -> list[str]:
    return [name for name in unrolled.agents() if name not in unrolled.staff]


class _Coloured:
    """The auxiliary graph: vertices by number, the agents first; arrows from an agent to its calls, and between calls.

    A call's colour is its prompt, not its agent: which agent it belongs to, the arrows say. Who is of the staff
    has a colour of its own.
    """

    def __init__(self, unrolled: Unrolled, models: Models | None, *, prompts: bool, labelled: bool) -> None:
        agents, staff = _discussing(unrolled), unrolled.staff
        self.agents = len(agents)
        colours = [f"agent {models.get(name, '') if models else ''}" for name in agents]
        colours += [*(f"staff {name}" for name in staff), "question", "decision"]
        colours += [f"call {call.prompt if prompts else ''}" for call in unrolled.calls]
        self.colours = _numbered(colours)
        self.near: list[list[tuple[int, int]]] = [[] for _ in colours]
        starts, ends, labels = zip(*_arrows(unrolled, [*agents, *staff], labelled=labelled), strict=True)
        for start, end, label in zip(starts, ends, _numbered(labels), strict=True):
            self.near[start].append((2 * label, end))
            self.near[end].append((2 * label + 1, start))

    def fixing(self, vertices: Iterable[int]) -> list[int]:
        """Colours with these vertices told apart by their places, split by the neighbours' until none splits.

        Hashes of tuples of numbers are equal in every process, so the same generators are found.
        """
        colours = list(self.colours)
        for place, vertex in enumerate(vertices):
            colours[vertex] = hash((colours[vertex], place))
        while True:
            around = [tuple(sorted((label, colours[other]) for label, other in near)) for near in self.near]
            finer = [hash(pair) for pair in zip(colours, around, strict=True)]
            if len(set(finer)) == len(set(colours)):
                return finer
            colours = finer


def _arrows(unrolled: Unrolled, people: Sequence[str], *, labelled: bool) -> list[tuple[int, int, str]]:
    """Start, end and label; vertices are people, the question, the decision, and the calls."""
    question, decision = len(people), len(people) + 1
    at = {call: decision + 1 + i for i, call in enumerate(unrolled.calls)}
    arrows = [(people.index(call.agent), vertex, "calls") for call, vertex in at.items()]
    for edge in unrolled.edges:
        start = at[edge.speaker] if edge.speaker else question
        end = at[edge.hearer] if edge.hearer else decision
        arrows.append((start, end, edge.carries if labelled else "edge"))
    return arrows


def _numbered(labels: Sequence[str]) -> list[int]:
    rank = {label: i for i, label in enumerate(sorted(set(labels)))}
    return [rank[label] for label in labels]


def _images(graph: _Coloured) -> list[Image]:
    """Generators, the last agents' first: each stabiliser's orbit is filled by one match for each agent it lacks."""
    found: list[Image] = []
    colours = graph.fixing(())  # agents of different ones never change places
    for agent in reversed(range(graph.agents)):
        stay = {i: i for i in range(agent)}  # so they do under all that was found so far
        for other in range(agent + 1, graph.agents):
            if colours[agent] == colours[other] and other not in _orbit(found, agent):
                swap = {i: i for i in range(graph.agents)} | {agent: other, other: agent}  # often right
                image = _match(graph, swap) or _match(graph, {**stay, agent: other})
                found += [image] if image else []
    return found


def _match(graph: _Coloured, image: Mapping[int, int]) -> Image | None:
    """An automorphism that takes vertices to these, as far as they are given; others are tried in turn.

    Where every vertex has a colour of its own, equal colours are equal neighbours: then the match is one.
    """
    here, there = graph.fixing(image), graph.fixing(image.values())
    if sorted(here) != sorted(there):
        return None
    alike = Counter(here)
    doubtful = next((vertex for vertex, colour in enumerate(here) if alike[colour] > 1), None)
    if doubtful is None:
        return [there.index(colour) for colour in here[: graph.agents]]
    fitting = [vertex for vertex, colour in enumerate(there) if colour == here[doubtful]]
    return next((whole for vertex in fitting if (whole := _match(graph, {**image, doubtful: vertex}))), None)


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

    private: bool = Field(
        default=False,
        description="each agent has documents (or a wording, or a starting view) of its own: they count as its prompt",
    )
    as_json: bool = Field(default=False, alias="json", description="one JSON object on stdout, and nothing else")


def show_symmetry(scheme: str, settings: Settings, looked: Looked) -> None:
    """Print the symmetries of a scheme with these settings, edges labelled by what they carry and bare."""
    unrolled, models = unroll(scheme, settings), spoken_by(settings)
    if looked.private:
        unrolled = unrolled.told({name: f"documents of {name}" for name in settings.owners() or []})
    bare = symmetry(unrolled, models, labelled=False)
    found = {"mechanism": symmetry(unrolled), "labelled": symmetry(unrolled, models), "bare": bare}
    if looked.as_json:
        spoken = {name: models[name] for name in unrolled.agents()}
        about = {"scheme": scheme, "models": spoken, "staff": unrolled.staff, "left_out": unrolled.left_out}
        print(json.dumps({**about, **{name: asdict(each) for name, each in found.items()}}))
    else:
        print("\n".join(lines(unrolled, **found)))


def lines(unrolled: Unrolled, mechanism: Symmetry, labelled: Symmetry, bare: Symmetry) -> list[str]:
    """Order, orbits, generators and what breaks the symmetry, a line each, and what it comes to otherwise."""
    agents = len(_discussing(unrolled))
    generators = ", ".join("".join(f"({' '.join(cycle)})" for cycle in cycles) for cycles in labelled.generators)
    orbits = ", ".join(f"{{{', '.join(orbit)}}}" for orbit in labelled.orbits)
    staff = f"{', '.join(unrolled.staff)}: kept in place, for the permutations are of agents alone"
    rows = {
        "order": f"{labelled.order:,} of {counted(factorial(agents), 'permutation')}",
        "orbits": one_line(orbits),
        "generators": one_line(generators) or "none",
        "broken by": ", ".join(f"{cause} ({CAUSES[cause]})" for cause in labelled.broken_by) or "nothing",
        "without models": f"{mechanism.order:,}: of the mechanism alone, whoever speaks",
        "bare edges": f"{bare.order:,}: counting that one is heard, not what of it",
        "staff": staff if unrolled.staff else "",
        "left out": unrolled.left_out,
    }
    told = [f"{name:15}{text}" for name, text in rows.items() if text]
    return [f"{counted(agents, 'agent')}, {counted(len(unrolled.calls), 'call')}", *told]
