"""Symmetries of a discussion: which agents can change places (CMD, arXiv 2402.18272, Appendix A).

A permutation of the agents is a symmetry if mapping their calls in order (first to first) preserves each call's prompt
and each edge's label; with models, an agent can only replace one with the same model. An edge is labelled by what it
carries (72 symmetries for CMD's two groups of three), or bare as in Definition 1 (720). The order of messages in a
prompt and tie-breaking are ignored; moderator, judge, secretary and summariser stay in place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache, partial
from math import factorial
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.graphs import scheme
from sottovoce.settings import Settings

if TYPE_CHECKING:
    from sottovoce.analysis.calls import Call, Unrolled

CAUSES = {"graph": "who hears whom", "prompts": "each agent's prompts", "models": "each agent's model and temperature"}
Related = tuple[tuple[int, ...], ...]
"""Numbers for the relations of agents: for a pair, its edges; on the diagonal, model, prompts and other edges."""
Images = list[list[int]]  # permutations: the image of each agent


class Symmetry(NamedTuple):
    """The symmetry group of a discussion, acting on the agents that discuss."""

    order: int
    generators: tuple[tuple[tuple[str, ...], ...], ...]
    """Each generator in cycles: ("a", "b") exchanges the two."""
    orbits: tuple[tuple[str, ...], ...]
    """Groups of agents that can take one another's places."""
    broken_by: tuple[str, ...]
    """Those of CAUSES that reduce the group alone (prompts and models: compared with the graph alone)."""


def symmetry(unrolled: Unrolled, models: Mapping[str, str] | None = None, *, labelled: bool = True) -> Symmetry:
    """Return the symmetries of a discussion: of its mechanism alone, or with `models` (by agent) of its agents."""
    from sympy.combinatorics import Permutation  # late: half a second

    agents, own, related = unrolled.agents(), models or {}, partial(_related, unrolled, labelled=labelled)
    images, order, orbits = _group(related(own, prompts=True))
    of_graph, of_prompts = (_group(related({}, prompts=prompts))[1] for prompts in (False, True))
    of_models = _group(related(own, prompts=False))[1]
    fewer = (of_graph < factorial(len(agents)), of_prompts < of_graph, of_models < of_graph)
    return Symmetry(
        order,
        tuple(tuple(tuple(agents[i] for i in cycle) for cycle in Permutation(image).cyclic_form) for image in images),
        tuple(tuple(agents[i] for i, own in enumerate(orbits) if own == orbit) for orbit in dict.fromkeys(orbits)),
        tuple(cause for cause, breaks in zip(CAUSES, fewer, strict=True) if breaks),
    )


def _related(unrolled: Unrolled, models: Mapping[str, str], *, prompts: bool, labelled: bool) -> Related:
    agents = unrolled.agents()
    at: dict[Call | None, tuple[str, int]] = {None: ("", 0)}  # the question and the decision belong to no agent
    prompts_of, between = (
        defaultdict[str, list[str]](list),
        defaultdict[tuple[str, str], list[tuple[int, int, str]]](list),
    )
    for call in unrolled.calls:
        at[call] = call.agent, len(prompts_of[call.agent])
        prompts_of[call.agent].append(call.prompt if prompts else "")
    for edge in unrolled.edges:
        (one, i), (other, j) = at[edge.speaker], at[edge.hearer]
        between[one, other].append((i, j, edge.carries if labelled else ""))

    def relation(first: str, second: str) -> Hashable:
        if first == second:
            return models.get(first), *prompts_of[first], *(relation(first, fixed) for fixed in ("", *unrolled.others))
        return tuple(sorted(between[first, second])), tuple(sorted(between[second, first]))

    numbers: dict[Hashable, int] = {}
    return tuple(tuple(numbers.setdefault(relation(a, b), len(numbers)) for b in agents) for a in agents)


@lru_cache(maxsize=64)
def _group(related: Related) -> tuple[Images, int, list[int]]:
    """Return generators, order, and orbits by number (from the last agent on, fixing all agents before it)."""
    generators, order, orbits = Images(), 1, [*range(len(related))]
    for agent in reversed(range(len(related))):
        colours = _coloured(related, [*range(agent)])
        for other in range(agent + 1, len(related)):
            if colours[other] == colours[agent] and orbits[other] != orbits[agent]:
                for image in _match(related, [*range(agent), agent], [*range(agent), other]):
                    generators.append(image)
                    for one, to in enumerate(image):
                        orbits = [orbits[one] if each == orbits[to] else each for each in orbits]
        order *= orbits.count(orbits[agent])
    return generators, order, orbits


def _match(related: Related, agents: list[int], images: list[int]) -> Images:
    """Return at most one symmetry that maps `agents` to `images`; others stay, go in order, or are tried in turn."""
    colours, image_colours = _coloured(related, agents), _coloured(related, images)
    if sorted(colours) != sorted(image_colours):
        return []
    free = {colour: iter([i for i, c in enumerate(image_colours) if c == colour != colours[i]]) for colour in colours}
    image = [i if colour == image_colours[i] else next(free[colour]) for i, colour in enumerate(colours)]
    if all(related[a][b] == row[i] for a, row in zip(image, related, strict=True) for i, b in enumerate(image)):
        return [image]
    doubtful = next(
        i for i, colour in enumerate(colours) if colours.count(colour) > 1
    )  # exists: unique colours always match
    fitting = (i for i, colour in enumerate(image_colours) if colour == colours[doubtful])
    return next(filter(None, (_match(related, [*agents, doubtful], [*images, one]) for one in fitting)), [])


def _coloured(related: Related, fixed: list[int]) -> list[int]:
    """Return a colour for each agent, unique for fixed ones; colours are refined by relations until stable."""
    # Hashes of numbers are equal in every process, so the same generators are found.
    colours = [hash((row[i], fixed.index(i) if i in fixed else -1)) for i, row in enumerate(related)]
    while True:
        finer = [hash((colours[i], *sorted(zip(row, colours, strict=True)))) for i, row in enumerate(related)]
        if len(set(finer)) == len(set(colours)):
            return finer
        colours = finer


def spoken_by(settings: Settings, agents: Sequence[str] = ()) -> dict[str, str]:
    """Return each agent's model and temperature: another temperature is another distribution of replies.

    The values are those of local models, without loading any; an agent without its own takes the first agent's.
    """
    from sottovoce.channels import PROTOCOLS  # late: a protocol imports torch

    names, speakers, own = settings.names(), settings.speakers(), settings.default_temperature
    channel, spoken = PROTOCOLS[settings.protocol](), dict[str, str]()
    for name in agents or names:
        like = name if name in names else names[0]
        spread = settings.discusses and like in speakers and not settings.temperature
        share = channel.temperature(speakers.index(like), len(speakers), 1.0) if spread else 1.0
        base = settings.of("temperature", like) if settings.temperature else own
        at = "its own temperature" if share == 1 else f"{share:.4g} of its temperature"
        if base is not None and not (spread and channel.averages):
            at = f"temperature {share * base:.4g}"
        spoken[name] = f"{settings.of('model', like)} at {at}"
    return spoken


def show_symmetry(name: str, settings: Settings) -> None:
    """Print the symmetries of a scheme with these settings, both with labeled edges and with unlabeled ones.

    Raises:
        UsageError: the scheme's calls are not known before they are made.
    """
    if why := scheme(name).unrolls:
        raise UsageError(f"{name} has no symmetries to show: {why}; `graph draw {name}` shows its graph")
    from sottovoce.analysis.calls import unroll  # late: it imports langchain

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
    print(f"{counted(agents, 'agent')}, {counted(len(unrolled.calls), 'call')}")
    print("\n".join(f"{name:15}{text}" for name, text in rows.items() if text))
