"""Symmetries of a discussion: which agents can change places (CMD, arXiv 2402.18272, Appendix A).

A permutation of the agents is a symmetry if mapping their calls in order (first to first) preserves each call's prompt
and each edge's label; with models, an agent can only replace one with the same model. An edge is labelled by what it
carries (72 symmetries for CMD's two groups of three), or bare as in Definition 1 (720). The order of messages in a
prompt and tie-breaking are ignored; moderator, judge, secretary and summariser stay in place.

The calls and edges come from a scripted run. The graph is run with agents that never agree, so that all rounds take
place and the tie-breaker decides ties. The prompts show which messages an agent hears. An agent's own history,
including everything it read before, adds no edges.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from math import factorial
from typing import Any, NamedTuple

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef, Place
from sottovoce.core.any_types import AnyState
from sottovoce.core.errors import UsageError
from sottovoce.nodes.option_groups import People
from sottovoce.nodes.settings import Settings

Carries = str
"""question, vote, full (a whole answer), viewpoint (its value alone), or the act of any other message."""
Create = Callable[..., AnyState]
Acts = tuple[str, ...]
Key = tuple[int, int, str, str]
"""Round, turn, agent and act of a call, whatever the attempt."""
MOST_CALLS = 300  # half a minute if each agent hears all others
QUESTION = {"question": "How many?", "solution": "The answer is 1.", "decoys": ["The answer is 2."]}
FIRST_VALUE = 813_000_000_000
VALUE = re.compile(r"\b813\d{9}\b")


class Call(NamedTuple):
    """One model call (an inference node in CMD)."""

    agent: str
    round: int
    prompt: str
    """The act and the prompt's distinct lines, without agents' names; for a dummy, the source of its message."""
    turn: int = 0


class Edge(NamedTuple):
    """A message from one call to another; None is the question (source x) or the decision (sink y)."""

    speaker: Call | None
    hearer: Call | None
    carries: Carries


class Unrolled(NamedTuple):
    """The calls of a discussion in chronological order, and the edges between them."""

    calls: tuple[Call, ...]
    edges: tuple[Edge, ...]
    others: tuple[str, ...] = ()
    """Agents that are called but do not discuss, named by their roles; they stay in place."""
    left_out: str = ""
    """A note on calls that are made but not listed; empty if all are."""

    def agents(self) -> list[str]:
        """Return the agents that discuss, in the order of their first calls."""
        return [name for name in dict.fromkeys(call.agent for call in self.calls) if name not in self.others]


class NeverAgreeing(ScriptedChatModel):
    """A scripted model that states a new value in each answer, in the requested format, and leaves all else open."""

    answers: Acts
    undecided: frozenset[str] = frozenset()
    """Agents that give no answer."""

    def _next(self, agent: str) -> str:
        if len(self._recorded) > MOST_CALLS:
            raise UsageError(f"the discussion has more than {MOST_CALLS} calls, too many; give fewer agents or rounds")
        asked = self._recorded[-1]
        states = asked.act in self.answers and agent not in self.undecided
        value = str(FIRST_VALUE + len(self._recorded)) if states else "unknown"
        if not (schema := (asked.options.get("response_format") or {}).get("schema")):
            return f"The answer is {value}."
        # A confidence is valid for any other field.
        return json.dumps({name: value if "answer" in name else "0.5" for name in schema["properties"]})


def unroll(create: Create, settings: Settings, answers: Acts = ("answer", "revise"), **question: Any) -> Unrolled:
    """Return the calls that a scheme's `create`, or `partial(create_discussion, rule)`, makes with these settings.

    No model is loaded. `answers` are the acts that contain answers; fields of the `question` (documents, wordings,
    starting_views) may distinguish agents.

    Raises:
        UsageError: the discussion is too large.
    """
    chosen = settings.model_fields_set - settings.of_models() - {*People.model_fields}
    values = settings.model_dump(include=chosen)

    def run(undecided: Iterable[str] = (), seed: int = 0) -> tuple[NeverAgreeing, Any, list[set[str]]]:
        model = NeverAgreeing(answers=answers, undecided=frozenset(undecided))
        asked = {**QUESTION, **question}
        if "documents" in settings.needs() and not asked.get("documents"):
            asked["documents"] = ["A document."] * len(settings.names())
        graph = create(type(settings).model_validate({**values, "seed": settings.seed + seed}), models=model).compile()
        config = {"recursion_limit": 10**6, "max_concurrency": 1}
        state = graph.invoke(asked, config, output_keys=["board", "decision"])
        board = [Message.from_dict(each) for each in state["board"]]
        rounds = range(board[-1].round + 1)
        return model, {**state, "board": board}, [{each.agent for each in board if each.round == at} for at in rounds]

    model, state, speakers = run()
    board, names = state["board"], settings.names()
    end = _settled_until(speakers, (run(speakers[-1], seed)[-1] for seed in (1, 2, 3)))
    asked = {Place(**each.place)[1:5]: each for each in model.calls if each.round < end and not each.place["attempt"]}
    told = {each.place[1:5]: each.source for each in board if each.round < end and each.agent in names}  # a dummy's
    told |= {key: _distinct_lines(each, names) for key, each in asked.items()}
    calls = {key: Call(key[2], key[0], told[key], key[1]) for each in board if (key := each.place[1:5]) in told}
    stated = {value: each.place[1:5] for each in board for value in VALUE.findall(each.text)}
    edges = [Edge(None, call, "question") for call in calls.values()]
    edges += [Edge(calls[a], calls[b], how) for a, b, how in _edges(asked, stated, answers) if a in calls]
    votes, by = state["decision"]["votes"], state["decision"].get("by")
    deciding = {by, *(vote["agent"] for vote in votes if vote["counts"])} if end == len(speakers) else speakers[end - 1]
    last = {call.agent: call for call in calls.values()}
    edges += [Edge(call, None, "vote") for name, call in last.items() if name in deciding]
    left_out = "" if end == len(speakers) else f"all from round {end + 1} on: who speaks there depends on the answers"
    others = tuple(name for name in last if name not in settings.speakers())
    return Unrolled(tuple(calls.values()), tuple(edges), others, left_out)


def _settled_until(speakers: list[set[str]], other_runs: Iterable[list[set[str]]]) -> int:
    """Return the first round with speakers that depend on answers or lots, else the number of rounds.

    In the other runs the last speakers gave no answer, and lots fell differently.
    """
    runs = other_runs if speakers[-1] < speakers[0] else ()  # else no agents were selected to continue
    differ = ([one != other for one, other in zip(speakers, run, strict=False)] for run in runs)
    return next((changes.index(True) for changes in differ if True in changes), len(speakers))


def _edges(
    prompts: dict[Key, RecordedCall], stated: dict[str, Key], answers: Acts
) -> Iterator[tuple[Key, Key, Carries]]:
    """Yield each edge: another agent's message, or its value in a prompt's text. Messages read before are skipped."""
    read = defaultdict[str, set[tuple[Key, Carries]]](set)
    for hearer, each in prompts.items():
        parts = [part for turn in each.turns for part in turn.parts]
        values = VALUE.findall("\n".join(part for part in parts if isinstance(part, str)))
        heard: dict[Key, Carries] = {stated[value]: "viewpoint" for value in values if value in stated}
        for message in (part.message for part in parts if isinstance(part, MessageRef)):
            heard[message.place[1:5]] = "full" if message.act in answers else message.act
        new = {(key, carries) for key, carries in heard.items() if key[2] != each.agent} - read[each.agent]
        read[each.agent] |= new
        yield from ((speaker, hearer, carries) for speaker, carries in new)


def _distinct_lines(prompt: RecordedCall, names: list[str]) -> str:
    """Return the act and the distinct lines of a prompt, sorted, with values and agents' names replaced."""
    turns = ("".join(part if isinstance(part, str) else "<said>" for part in turn.parts) for turn in prompt.turns)
    lines = set(VALUE.sub("<said>", "\n".join(turns)).split("\n"))
    for name in (prompt.agent, *names):  # prompts write "debater 3"
        named = re.compile(rf"\b{name.replace('_', '[_ ]')}\b")
        lines = {named.sub("<you>" if name == prompt.agent else "<another>", line) for line in lines}
    return "\n".join([prompt.act, *sorted(lines)])


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
    prompts_of = defaultdict[str, list[str]](list)
    between = defaultdict[tuple[str, str], list[tuple[int, int, str]]](list)
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
    # There is one: unique colours always match.
    doubtful = next(i for i, colour in enumerate(colours) if colours.count(colour) > 1)
    fitting = (i for i, colour in enumerate(image_colours) if colour == colours[doubtful])
    return next(filter(None, (_match(related, [*agents, doubtful], [*images, one]) for one in fitting)), [])


def _coloured(related: Related, fixed: list[int]) -> list[int]:
    """Return a colour for each agent, unique for fixed agents; relations refine the colours until these are stable."""
    # Hashes of numbers are equal in every process, so the same generators are found.
    colours = [hash((row[i], fixed.index(i) if i in fixed else -1)) for i, row in enumerate(related)]
    while True:
        finer = [hash((colours[i], *sorted(zip(row, colours, strict=True)))) for i, row in enumerate(related)]
        if len(set(finer)) == len(set(colours)):
            return finer
        colours = finer


def spoken_by(settings: Settings, agents: Sequence[str] = ()) -> dict[str, str]:
    """Return each agent's model and temperature; replies at other temperatures have another distribution.

    The values are for local models, and none is loaded; an agent without its own model takes the first agent's.
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
