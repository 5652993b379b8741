"""The symmetries of schemes: the orders of the papers' mechanisms, and all permutations as a witness."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, pairwise, permutations
from math import factorial
from pathlib import Path

import pytest

from sottovoce.channels.store import PayloadStore
from sottovoce.evaluation.calls import Call, Edge, Unrolled, framed, hears_in_groups, in_turn, madra, named
from sottovoce.evaluation.symmetry import Cause, Symmetry, symmetry
from sottovoce.evaluation.unroll import UNROLLED, spoken_by, unroll
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.nodes.settings import CMD, MAD, Debate, ReConcile, SelfConsistency, Settings
from sottovoce.nodes.stage import Stage
from sottovoce.prompts.render import Prompts
from tests.graphs.support import lonely

Cast = tuple[Unrolled, dict[str, str] | None]
"""A discussion, and each agent's model where models are asked for."""
Named = tuple[str, Cast, int, tuple[Cause, ...]]


def of(scheme: str, **settings: object) -> Cast:
    """A scheme and its models, from its own settings."""
    chosen: Settings = SETTINGS[scheme].model_validate(settings)
    return unroll(scheme, chosen), spoken_by(chosen)


def groups(*sizes: int) -> Cast:
    """CMD with groups of any sizes: its settings make them as equal as possible."""
    names = iter(named(sum(sizes)))
    divided = [[next(names) for _ in range(size)] for size in sizes]
    rows = [[Call(name, r, "cmd/discuss" if r else "cmd/agent") for name in chain(*divided)] for r in range(3)]
    edges = [edge for before, now in pairwise(rows) for edge in hears_in_groups(divided, before, now)]
    return framed(edges, chain(*rows), rows[-1]), None


def private(case: Cast) -> Cast:
    """Where each agent has passages of its own."""
    unrolled, models = case
    return unrolled.told({name: f"documents of {name}" for name in unrolled.agents()}), models


SETTINGS: dict[str, type[Settings]] = {name: scheme(name).settings for name in SCHEMES}
ABC = ["a", "b", "c"]
DOUBT = ["be bold", "doubt", "doubt", "doubt"]
ROLES = ["debater", "debater", "expert", "dummy", "dummy"]
FIRST = {"secretary": False, "representative": "first"}
ORDERS: list[Named] = [
    ("debate of 3", of("debate", agents=3), 6, ()),
    ("debate of 6", of("debate", agents=6), 720, ()),
    ("debate with summaries for each", of("debate", agents=4, summarise="each"), 24, ()),
    ("debate with a shared summary", of("debate", agents=4, summarise="shared"), 24, ()),
    ("debate where one decides", of("debate", agents=4, rule="lowest_temperature"), 6, ("graph",)),
    ("debate where one speaks last", of("debate", agents=4, last_round="deciding"), 6, ("graph",)),
    ("debate of one round where one speaks", of("debate", agents=4, rounds=1, last_round="deciding"), 1, ()),
    ("debate with an expert and dummies", of("debate", agents=5, role=ROLES), 4, ("graph", "prompts")),
    ("debate with system prompts", of("debate", agents=4, system=DOUBT), 6, ("prompts",)),
    ("debate with two models", of("debate", agents=4, model=["a", "b", "a", "b"]), 4, ("models",)),
    ("single", of("single"), 1, ()),
    ("self-consistency", of("self_consistency", samples=5), 120, ()),
    ("MAD", of("mad"), 1, ("graph",)),
    ("MAD of 4", of("mad", agents=4, judge_sees="first"), 1, ("graph",)),
    ("ReConcile", of("reconcile", agents=4), 24, ()),
    ("ReConcile without discussion", of("reconcile", agents=4, rounds=0), 24, ()),
    ("ReConcile of distinct models", of("reconcile", model=ABC), 1, ("models",)),
    ("ReConcile with samples of each", of("reconcile", convincing=["a", "a", "b"]), 2, ("prompts",)),
    ("ReConcile with samples for all", of("reconcile", convincing=["a"]), 6, ()),
    ("CMD of 6", of("cmd"), 72, ("graph",)),
    ("CMD of 6, three models in each group", of("cmd", model=ABC * 2), 2, ("graph", "models")),
    ("CMD of 6 without a secretary", of("cmd", secretary=False), 72, ("graph",)),
    ("CMD of 6, the first go on", of("cmd", **FIRST), 2 * 2 * 2, ("graph",)),
    ("CMD of 12, the first go on", of("cmd", agents=12, **FIRST), 2**4 * 2, ("graph",)),
    ("CMD of 7", of("cmd", agents=7), 6 * 2 * 2 * 2, ("graph",)),
    ("CMD of 3, 3, 1", groups(3, 3, 1), 72, ("graph",)),
    ("CMD of 9", of("cmd", agents=9), 6**3 * 6, ("graph",)),
    ("CMD of one group", of("cmd", agents=3), 6, ()),
    ("MADRA, simultaneous talk", (madra(4, rounds=1), None), 24, ()),
    ("MADRA, orderly talk", (madra(4, rounds=2), None), 1, ("graph",)),
    ("ReAct relay", (in_turn(5, 5), None), 1, ("graph",)),
    ("WhoDunit round robin", (in_turn(3, 9), None), 1, ("graph",)),
    ("information asymmetry", of("debate", agents=4), 24, ()),
    ("information asymmetry, passages as prompts", private(of("debate", agents=4)), 1, ("prompts",)),
]
BARE: list[Named] = [
    ("debate of 4", of("debate", agents=4), 24, ()),
    ("MAD", of("mad"), 1, ("graph",)),
    ("ReConcile", of("reconcile"), 6, ()),
    ("CMD of 6", of("cmd"), 720, ()),
    ("CMD of 6, three models in each group", of("cmd", model=ABC * 2), 2**3, ("models",)),
    ("CMD of 7", of("cmd", agents=7), factorial(7), ()),
    ("CMD of 3, 3, 1", groups(3, 3, 1), factorial(7), ()),
    ("CMD of 6, the first go on", of("cmd", **FIRST), 2 * 24, ("graph",)),
]
COLUMNS = ("case", "order", "broken_by")
FEW = [case for case in ORDERS if len(case[1][0].agents()) <= 7]


def symmetry_of(name: str) -> Symmetry:
    """What is found of a case above."""
    return next(symmetry(*case) for other, case, *_ in ORDERS if other == name)


def witness(unrolled: Unrolled, models: Mapping[str, str] | None) -> int:
    """How many permutations of the agents leave calls, prompts and edges as they are.

    An agent has one call for a round and prompt, and no call changes its round: so a permutation of the
    agents says where every call goes, and nothing is searched.
    """
    agents = [name for name in unrolled.agents() if name not in unrolled.staff]
    edges = set(unrolled.edges)

    def keeps(image: Mapping[str, str]) -> bool:
        def moved(call: Call | None) -> Call | None:
            return Call(image.get(call.agent, call.agent), call.round, call.prompt) if call else None

        return {Edge(moved(e.speaker), moved(e.hearer), e.carries) for e in edges} == edges and all(
            not models or models[a] == models[b] for a, b in image.items()
        )

    return sum(keeps(dict(zip(agents, image, strict=True))) for image in permutations(agents))


@pytest.mark.parametrize(COLUMNS, [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_the_order_and_what_breaks_the_symmetry_are_those_of_the_mechanism(
    case: Cast, order: int, broken_by: tuple[Cause, ...]
) -> None:
    found = symmetry(*case)

    assert (found.order, found.broken_by) == (order, broken_by)


@pytest.mark.parametrize(COLUMNS, [case[1:] for case in BARE], ids=[case[0] for case in BARE])
def test_bare_edges_tell_who_hears_whom_and_not_what(case: Cast, order: int, broken_by: tuple[Cause, ...]) -> None:
    found = symmetry(*case, labelled=False)

    assert (found.order, found.broken_by) == (order, broken_by)


@pytest.mark.parametrize(COLUMNS, [case[1:] for case in FEW], ids=[case[0] for case in FEW])
def test_trying_all_permutations_finds_as_many(case: Cast, order: int, broken_by: tuple[Cause, ...]) -> None:
    assert witness(*case) == order


def test_orbits_join_agents_that_can_take_one_another_s_places() -> None:
    a = named(7)

    assert symmetry_of("CMD of 3, 3, 1").orbits == (tuple(a[:6]), (a[6],))
    assert symmetry_of("CMD of 7").orbits == (tuple(a[:3]), tuple(a[3:]))
    assert symmetry_of("CMD of 6, three models in each group").orbits == ((a[0], a[3]), (a[1], a[4]), (a[2], a[5]))


def test_the_staff_keeps_its_place_and_is_not_counted() -> None:
    unrolled, models = of("mad")

    assert unrolled.staff == ("moderator", "judge")
    assert symmetry(unrolled, models).orbits == (("affirmative",), ("negative",))
    assert of("cmd")[0].staff == ("secretary",)
    assert symmetry_of("CMD of 6").orbits == (tuple(named(6)),)


def test_generators_are_symmetries_in_cycles() -> None:
    (swap,) = symmetry_of("CMD of 6, three models in each group").generators

    assert swap == (("agent_1", "agent_4"), ("agent_2", "agent_5"), ("agent_3", "agent_6"))
    assert symmetry_of("MAD").generators == ()


@pytest.mark.parametrize(
    ("case", "order"),
    [
        (of("debate", agents=10), factorial(10)),
        (of("reconcile", agents=12), factorial(12)),
        (of("cmd", agents=12), 6**4 * 24),
    ],
    ids=["debate of 10", "ReConcile of 12", "CMD of 12"],
)
def test_larger_groups_are_found_without_trying_all(case: Cast, order: int) -> None:
    assert symmetry(*case).order == order


def test_every_scheme_can_be_unrolled() -> None:
    assert set(UNROLLED) == set(SCHEMES)
    for name in SCHEMES:
        settings = scheme(name).settings()
        assert set(settings.names()) <= set(unroll(name, settings).agents())


def test_an_agent_at_another_temperature_is_another_model() -> None:
    cipher = Debate(protocol="cipher", agents=3)

    assert len({spoken_by(cipher)[name] for name in cipher.names()}) == 3
    assert symmetry(unroll("debate", cipher), spoken_by(cipher)).broken_by == ("graph", "models")  # the coldest decides
    assert len(set(spoken_by(Debate(agents=3)).values())) == 1
    assert spoken_by(Debate(temperature=[0.5, 1]))["agent_2"] == "bundled at temperature 1"


def test_a_scheme_s_own_temperature_and_the_staff_s_models_are_told() -> None:
    assert spoken_by(MAD(model=["a", "b"]))["judge"] == "a at temperature 0"
    assert spoken_by(CMD())["agent_6"] == "bundled at temperature 0.25"
    assert spoken_by(CMD(agents=2, model=["a", "b", "c"]))["secretary"] == "c at temperature 0.25"
    assert spoken_by(Debate(summarise="shared", model=["a", "b"]))["summariser"] == "a at its own temperature"
    assert spoken_by(CMD(agents=2, protocol="cipher")) == {
        "agent_1": "bundled at 0.5 of its temperature",
        "agent_2": "bundled at its own temperature",
        "secretary": "bundled at temperature 0.25",
    }


@pytest.mark.parametrize("protocol", ["nl", "cipher", "sde"])
@pytest.mark.parametrize("kind", [Debate, MAD, ReConcile, CMD, SelfConsistency])
def test_agents_count_as_one_model_where_the_graph_asks_them_at_one_temperature(
    kind: type[Settings], protocol: str, tmp_path: Path
) -> None:
    settings = kind.model_validate({"protocol": protocol})
    models = {name: lonely(protocol, PayloadStore(tmp_path)) for name in settings.names()}
    stage, spoken = Stage(settings, models, Prompts(None)), spoken_by(settings)

    for one, other in permutations(settings.names(), 2):
        assert (spoken[one] == spoken[other]) == (stage.temperature(one) == stage.temperature(other))
