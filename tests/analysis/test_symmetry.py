"""The symmetries of schemes: the orders of the papers' mechanisms, and all permutations as a witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain, pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.parameters import Refused
from sottovoce.analysis.symmetry import Call, Edge, Symmetry, Unrolled, spoken_by, symmetry, unroll
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs import NAMES, scheme
from sottovoce.graphs.cmd import CMD
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.mad import MAD
from sottovoce.graphs.reconcile import Sample, Samples
from sottovoce.models import assemble
from sottovoce.nodes.agent import Agent
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.render import Prompts
from tests.support import tiny_model, tiny_tokenizer

Cast = tuple[Unrolled, dict[str, str] | None]
"""A discussion, and each agent's model where models are asked for."""
Case = tuple[str, Callable[[], Cast], int, tuple[str, ...]]


def of(name: str, question: Mapping[str, Any] | None = None, **values: Any) -> Callable[[], Cast]:
    """A scheme and its models, from its own settings."""

    @cache
    def made() -> Cast:
        found, settings = scheme(name), scheme(name).settings(**values)
        unrolled = unroll(found.create, settings, found.answers, **(question or {}))
        return unrolled, spoken_by(settings, [*unrolled.agents(), *unrolled.others])

    return made


def grouped(*sizes: int) -> Cast:
    """CMD with groups of any sizes, as its paper has it: its settings make them as equal as possible."""
    names = iter(f"agent_{i + 1}" for i in range(sum(sizes)))
    groups = [[next(names) for _ in range(size)] for size in sizes]
    near = {(one, other) for group in groups for one, other in permutations(group, 2)}
    rows = [[Call(name, r, "discuss" if r else "answer") for name in chain(*groups)] for r in range(3)]
    edges = [
        Edge(speaker, hearer, "full" if (speaker.agent, hearer.agent) in near else "viewpoint")
        for before, now in pairwise(rows)
        for speaker in before
        for hearer in now
        if speaker.agent != hearer.agent
    ]
    return Unrolled(tuple(chain(*rows)), tuple(edges)), None


def own(field: str) -> dict[str, dict[str, Any]]:
    """A field of the question that is another one for each agent."""
    return {field: {f"agent_{i}": [f"Text {i}."] if field == "documents" else f"Text {i}?" for i in range(1, 5)}}


@pytest.fixture(autouse=True, scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two files of convincing samples."""
    folder = tmp_path_factory.mktemp("samples")
    for name in ("a", "b"):
        sample = Sample(question=f"Of {name}?", explanation="So.", answer="7", before=None, after="7")
        (folder / name).write_text(Samples(model=name, samples=[sample]).model_dump_json())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


ABC = ["a", "b", "c"]
DOUBT = ["be bold", "doubt", "doubt", "doubt"]
ROLES = ["debater", "debater", "expert", "dummy", "dummy"]
FIRST: dict[str, Any] = {"secretary": False, "representative": "first"}
ORDERS: list[Case] = [
    ("debate of 3", of("debate", agents=3), 6, ()),
    ("debate with summaries for each", of("debate", agents=4, summarise="each"), 24, ()),
    ("debate where one decides", of("debate", agents=4, rule="lowest_temperature"), 6, ("graph",)),
    ("debate with an expert and dummies", of("debate", agents=5, role=ROLES), 4, ("graph", "prompts")),
    ("debate with system prompts", of("debate", agents=4, system=DOUBT), 6, ("prompts",)),
    ("debate with two models", of("debate", agents=4, model=["a", "b", "a", "b"]), 4, ("models",)),
    ("MAD", of("mad"), 1, ("graph",)),
    ("ReConcile", of("reconcile", agents=4), 24, ()),
    ("ReConcile with samples of each", of("reconcile", convincing=["a", "a", "b"]), 2, ("prompts",)),
    ("CMD of 6", of("cmd"), 72, ("graph",)),
    ("CMD of 6, three models in each group", of("cmd", model=ABC * 2), 2, ("graph", "models")),
    ("CMD of 6, the first go on", of("cmd", **FIRST), 2 * 2 * 2, ("graph",)),
    ("CMD of 7", of("cmd", agents=7), 6 * 2 * 2 * 2, ("graph",)),
    ("CMD of 3, 3, 1", lambda: grouped(3, 3, 1), 72, ("graph",)),
    ("brief", of("brief"), 1, ("graph",)),
    ("pipeline", of("pipeline"), 1, ("graph",)),
    ("MADRA of 3, as it is", of("madra", agents=3), 1, ("graph",)),
    ("information asymmetry, passages as prompts", of("debate", own("documents"), agents=4), 1, ("prompts",)),
]
BARE: list[Case] = [
    ("MAD", of("mad"), 1, ("graph",)),
    ("CMD of 6", of("cmd"), 720, ()),
]
COLUMNS = ("case", "order", "broken_by")


def symmetry_of(name: str) -> Symmetry:
    """What is found of a case above."""
    return next(symmetry(*case()) for other, case, *_ in ORDERS if other == name)


def witness(unrolled: Unrolled, models: Mapping[str, str] | None) -> int:
    """How many permutations of the agents leave calls, prompts and edges as they are.

    An agent has one call for a round, turn and prompt, and no call changes its time: so a permutation of the
    agents says where every call goes, and nothing is searched.
    """
    agents, parts = unrolled.agents(), {*unrolled.calls, *unrolled.edges}

    def keeps(image: Mapping[str, str]) -> bool:
        def moved(call: Call | None) -> Call | None:
            return call._replace(agent=image.get(call.agent, call.agent)) if call else None

        found = {Edge(moved(each[0]), moved(each[1]), each[2]) for each in unrolled.edges}
        return {*map(moved, unrolled.calls), *found} == parts

    images = (dict(zip(agents, image, strict=True)) for image in permutations(agents))
    return sum(all(not models or models[a] == models[b] for a, b in image.items()) and keeps(image) for image in images)


@pytest.mark.parametrize(COLUMNS, [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_the_order_and_what_breaks_the_symmetry_are_those_of_the_mechanism(
    case: Callable[[], Cast], order: int, broken_by: tuple[str, ...]
) -> None:
    unrolled, models = case()
    found = symmetry(unrolled, models)
    assert (found.order, found.broken_by) == (order, broken_by)
    assert len(unrolled.agents()) > 6 or witness(unrolled, models) == order


@pytest.mark.parametrize(COLUMNS, [case[1:] for case in BARE], ids=[case[0] for case in BARE])
def test_bare_edges_tell_who_hears_whom_and_not_what(
    case: Callable[[], Cast], order: int, broken_by: tuple[str, ...]
) -> None:
    found = symmetry(*case(), labelled=False)
    assert (found.order, found.broken_by) == (order, broken_by)


def test_orbits_join_agents_that_can_take_one_another_s_places() -> None:
    a = CMD(agents=7).speakers()
    assert symmetry_of("CMD of 3, 3, 1").orbits == (tuple(a[:6]), (a[6],))
    assert symmetry_of("CMD of 7").orbits == (tuple(a[:3]), tuple(a[3:]))
    assert symmetry_of("CMD of 6, three models in each group").orbits == ((a[0], a[3]), (a[1], a[4]), (a[2], a[5]))


def test_who_does_not_discuss_keeps_its_place_and_is_not_counted() -> None:
    unrolled, models = of("mad")()
    assert unrolled.others == ("moderator", "judge")
    assert symmetry(unrolled, models).orbits == (("affirmative",), ("negative",))
    assert of("cmd")()[0].others == ("secretary",)
    assert symmetry_of("CMD of 6").orbits == (tuple(CMD().speakers()),)


def test_generators_are_symmetries_in_cycles() -> None:
    (swap,) = symmetry_of("CMD of 6, three models in each group").generators
    assert swap == (("agent_1", "agent_4"), ("agent_2", "agent_5"), ("agent_3", "agent_6"))
    assert symmetry_of("debate of 3").generators == ((("agent_2", "agent_3"),), (("agent_1", "agent_2"),))
    assert symmetry_of("MAD").generators == ()


def test_agents_that_look_alike_one_by_one_are_told_apart_by_trying() -> None:
    """A ring of three and a ring of four: each agent hears one and is heard by one, so only a search parts them."""
    calls = [[Call(f"agent_{i}", r, "say") for i in range(7)] for r in range(2)]
    heard = [1, 2, 0, 4, 5, 6, 3]
    edges = [Edge(calls[0][i], calls[1][other], "full") for i, other in enumerate(heard)]
    found = symmetry(Unrolled((*calls[0], *calls[1]), tuple(edges)))
    assert (found.order, [len(orbit) for orbit in found.orbits]) == (3 * 4, [3, 4])


def test_every_scheme_but_worlds_can_be_unrolled() -> None:
    for name in (name for name in NAMES if not scheme(name).unrolls):
        unrolled, models = of(name)()
        assert unrolled.agents() == scheme(name).settings().speakers()
        assert models is not None and {*unrolled.agents(), *unrolled.others} <= models.keys()


def test_an_agent_at_another_temperature_is_another_model() -> None:
    unrolled, models = of("debate", protocol="cipher", agents=3)()
    assert models is not None and len(set(models.values())) == 3
    assert symmetry(unrolled, models).broken_by == ("graph", "models")  # the coldest decides
    assert len(set(spoken_by(Debate(agents=3)).values())) == 1
    assert spoken_by(Debate(temperature=[0.5, 1]))["agent_2"] == "bundled at temperature 1"


@pytest.mark.parametrize(("kind", "protocol"), [(Debate, "cipher"), (MAD, "nl"), (CMD, "cipher")])
def test_agents_count_as_one_model_where_the_graph_asks_them_at_one_temperature(
    kind: type[Settings], protocol: str, tmp_path: Path
) -> None:
    settings, loaded = kind.model_validate({"protocol": protocol}), assemble("tiny", tiny_model(), tiny_tokenizer())
    model = HookedChatModel(protocol=protocol, preloaded=loaded, store=PayloadStore(tmp_path))
    prompts, names = Prompts(None), settings.names()
    run = RunContext(settings, {name: Agent(name, settings, model, prompts, Refused()) for name in names}, prompts)
    spoken = spoken_by(settings, [*settings.names(), "summariser"])
    for one, other in permutations(spoken, 2):
        assert (spoken[one] == spoken[other]) == (run.agent(one).temperature == run.agent(other).temperature)
