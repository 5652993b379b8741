"""Which agents of a discussion could change places without changing it (CMD, arXiv 2402.18272, Appendix A).

A permutation of the agents is a symmetry if the calls can be permuted with it, the first of an agent to the first of
the other and so on, so that every call keeps its prompt and every edge what it carries; with models, an agent also
goes only where its own model is. Two readings: an edge is labelled by what it carries (72 for CMD's two groups of
three), or it is bare as in the paper's Definition 1 (720). The order of messages within a prompt is left out, and so
is who wins a tie. Permutations are of the agents that discuss; moderator, judge, secretary and summariser stay where
they are, so that CMD's 72 are of 720.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import factorial
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sottovoce.evaluation.calls import Call, Unrolled, unroll
from sottovoce.evaluation.views.printable import counted, one_line
from sottovoce.graphs import scheme
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
    agents = unrolled.agents()

    def group(*, prompts: bool = False, models: Models | None = None) -> _Group:
        return _group(_related(unrolled, models, prompts=prompts, labelled=labelled))

    of_graph, whole = group().order, group(prompts=True, models=models)
    broken: dict[Cause, bool] = {
        "graph": of_graph < factorial(len(agents)),
        "prompts": group(prompts=True).order < of_graph,
        "models": group(models=models).order < of_graph,
    }
    orbits = dict.fromkeys(tuple(sorted(_orbit(whole.generators, i))) for i in range(len(agents)))
    return Symmetry(
        whole.order,
        tuple(tuple(tuple(agents[i] for i in cycle) for cycle in _cycles(image)) for image in whole.generators),
        tuple(tuple(agents[i] for i in orbit) for orbit in orbits),
        tuple(cause for cause, breaks in broken.items() if breaks),
    )


@dataclass(frozen=True)
class _Related:
    """What is told apart, as numbers: equal ones may change places."""

    colours: tuple[int, ...]
    """By agent: its model, its calls, and what they hear of the question and of who does not discuss."""
    pairs: tuple[tuple[int, ...], ...]
    """By two agents: which calls of theirs hear which of the other's."""

    def fixing(self, agents: Iterable[int]) -> list[int]:
        """Colours with these agents told apart by their places, split by all others' until none splits.

        Hashes of tuples of numbers are equal in every process, so the same generators are found.
        """
        colours = list(self.colours)
        for place, agent in enumerate(agents):
            colours[agent] = hash((colours[agent], place))
        while True:
            finer = [
                hash((own, *sorted(zip(row, colours, strict=True))))
                for own, row in zip(colours, self.pairs, strict=True)
            ]
            if len(set(finer)) == len(set(colours)):
                return finer
            colours = finer

    def keeps(self, image: Image) -> bool:
        """Whether a permutation is a symmetry."""
        moved = [[self.pairs[i][j] for j in image] for i in image]
        return [self.colours[i] for i in image] == [*self.colours] and moved == [[*row] for row in self.pairs]


def _related(unrolled: Unrolled, models: Models | None, *, prompts: bool, labelled: bool) -> _Related:
    agents, calls = unrolled.agents(), defaultdict[str, list[Call]](list)
    for call in unrolled.calls:
        calls[call.agent].append(call)
    at = {call: (name, number) for name, own in calls.items() for number, call in enumerate(own)}
    between = defaultdict[tuple[str, str], list[tuple[int, int, str]]](list)
    for edge in unrolled.edges:  # the question and the decision are nobody's
        one, i = at[edge.speaker] if edge.speaker else ("", 0)
        other, j = at[edge.hearer] if edge.hearer else ("", 0)
        between[one, other].append((i, j, edge.carries if labelled else ""))

    def pair(one: str, other: str) -> Hashable:
        return tuple(sorted(between[one, other])), tuple(sorted(between[other, one]))

    def own(name: str) -> Hashable:
        told = tuple(call.prompt if prompts else "" for call in calls[name])
        return models[name] if models else "", told, tuple(pair(name, other) for other in (name, "", *unrolled.others))

    numbers = _numbered(pair(one, other) for one in agents for other in agents)
    rows = tuple(numbers[i : i + len(agents)] for i in range(0, len(numbers), len(agents)))
    return _Related(_numbered(map(own, agents)), rows)


def _numbered(values: Iterable[Hashable]) -> tuple[int, ...]:
    """Equal values get equal numbers, in the order in which they first come."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for value in values)


@dataclass(frozen=True)
class _Group:
    generators: list[Image]
    order: int


@lru_cache(maxsize=64)
def _group(related: _Related) -> _Group:
    """The group, from the last agents' on: what keeps all before an agent in place takes it to each of its orbit."""
    found, order, everybody = list[Image](), 1, range(len(related.colours))
    for agent in reversed(everybody):
        colours, orbit = related.fixing(range(agent)), {agent}
        for other in everybody[agent + 1 :]:
            if colours[other] != colours[agent] or other in orbit:
                continue
            swap = [{agent: other, other: agent}.get(i, i) for i in everybody]  # often right
            image = swap if related.keeps(swap) else _match(related, [*range(agent), agent], [*range(agent), other])
            if image is not None:
                found.append(image)
                orbit = _orbit(found, agent)
        order *= len(orbit)
    return _Group(found, order)


def _match(related: _Related, agents: list[int], images: list[int]) -> Image | None:
    """A symmetry that takes these agents to these images; the others go in order, or are tried in turn."""
    here, there = related.fixing(agents), related.fixing(images)
    if sorted(here) != sorted(there):
        return None
    alike = {colour: [i for i, other in enumerate(there) if other == colour] for colour in there}
    places = {colour: iter(fitting) for colour, fitting in alike.items()}
    if related.keeps(image := [next(places[colour]) for colour in here]):
        return image
    doubtful = next(i for i, colour in enumerate(here) if len(alike[colour]) > 1)  # where none is, it is kept
    tried = (_match(related, [*agents, doubtful], [*images, one]) for one in alike[here[doubtful]])
    return next((whole for whole in tried if whole is not None), None)


def _orbit(images: Sequence[Image], agent: int) -> set[int]:
    orbit = {agent}
    while new := {image[i] for image in images for i in orbit} - orbit:
        orbit |= new
    return orbit


def _cycles(image: Image) -> list[list[int]]:
    """A permutation in cycles, without those who stay."""
    cycles, seen = list[list[int]](), set[int]()
    for start, end in enumerate(image):
        if start not in seen and start != end:
            cycle = [start]
            while image[cycle[-1]] != start:
                cycle.append(image[cycle[-1]])
            cycles.append(cycle)
            seen.update(cycle)
    return cycles


# Who thinks


def spoken_by(settings: Settings, agents: Iterable[str] = ()) -> dict[str, str]:
    """Each agent's model: at another temperature it is another one (another distribution of replies).

    Of further `agents` each thinks with the first one's, as a summariser does.
    """
    names, models = settings.names(), settings.each("model")
    spoken = {name: f"{model} at {_temperature(settings, name)}" for name, model in zip(names, models, strict=True)}
    return spoken | {name: f"{models[0]} at {_temperature(settings, name)}" for name in agents if name not in names}


def _temperature(settings: Settings, name: str) -> str:
    """As `RunContext.temperature` has it for local models, without loading any."""
    from sottovoce.channels.registry import PROTOCOLS  # late: it imports torch

    names, speakers, own = settings.names(), settings.speakers(), settings.default_temperature
    if settings.temperature:
        return f"temperature {settings.of('temperature', name if name in names else names[0]):.4g}"
    channel, spread = PROTOCOLS[settings.protocol](), settings.discusses and name in speakers
    share = channel.temperature(speakers.index(name), len(speakers), 1.0) if spread else 1.0
    if own is not None and not (spread and channel.averages):
        return f"temperature {share * own:.4g}"
    return "its own temperature" if share == 1 else f"{share:.4g} of its temperature"


# For a reader


class Looked(BaseModel):
    """How symmetry is looked at."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Symmetry")

    private: bool = Field(default=False, description="each agent has documents of its own: they count as its prompt")
    as_json: bool = Field(default=False, alias="json", description="one JSON object on stdout, and nothing else")


def show_symmetry(name: str, settings: Settings, looked: Looked) -> None:
    """Print the symmetries of a scheme with these settings, edges labelled by what they carry and bare."""
    found, owners = scheme(name), settings.owners() if looked.private else None
    documents = {owner: [f"document {number}"] for number, owner in enumerate(owners or [], 1)}
    unrolled = unroll(found.create, settings, found.answers, {"documents": documents} if documents else {})
    models = spoken_by(settings, unrolled.others)
    bare = symmetry(unrolled, models, labelled=False)
    groups = {"mechanism": symmetry(unrolled), "labelled": symmetry(unrolled, models), "bare": bare}
    if looked.as_json:
        spoken = {agent: models[agent] for agent in (*unrolled.agents(), *unrolled.others)}
        about = {"scheme": found.name, "models": spoken, "others": unrolled.others, "left_out": unrolled.left_out}
        print(json.dumps({**about, **{name: asdict(each) for name, each in groups.items()}}))
    else:
        print("\n".join(lines(unrolled, **groups)))


def lines(unrolled: Unrolled, mechanism: Symmetry, labelled: Symmetry, bare: Symmetry) -> list[str]:
    """Order, orbits, generators and what breaks the symmetry, a line each, and what it comes to otherwise."""
    agents = len(unrolled.agents())
    generators = ", ".join("".join(f"({' '.join(cycle)})" for cycle in cycles) for cycles in labelled.generators)
    orbits = ", ".join(f"{{{', '.join(orbit)}}}" for orbit in labelled.orbits)
    others = f"{', '.join(unrolled.others)}: kept in place, for the permutations are of agents alone"
    rows = {
        "order": f"{labelled.order:,} of {counted(factorial(agents), 'permutation')}",
        "orbits": one_line(orbits),
        "generators": one_line(generators) or "none",
        "broken by": ", ".join(f"{cause} ({CAUSES[cause]})" for cause in labelled.broken_by) or "nothing",
        "without models": f"{mechanism.order:,}: of the mechanism alone, whoever speaks",
        "bare edges": f"{bare.order:,}: counting that one is heard, not what of it",
        "others": others if unrolled.others else "",
        "left out": unrolled.left_out,
    }
    told = [f"{name:15}{text}" for name, text in rows.items() if text]
    return [f"{counted(agents, 'agent')}, {counted(len(unrolled.calls), 'call')}", *told]
