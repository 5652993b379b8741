"""The symmetries of schemes: the orders of the papers' mechanisms, and all permutations as a witness."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from math import factorial

import pytest

from sottovoce.evaluation.calls import Call, Edge, Unrolled, cmd, groups_of, in_turn, mad, madra, named, reconcile
from sottovoce.evaluation.symmetry import Cause, symmetry
from sottovoce.evaluation.unroll import UNROLLED, spoken_by, unroll
from sottovoce.graphs import SCHEMES, scheme
from sottovoce.nodes.settings import Debate, Role, SelfConsistency, Single

Named = tuple[str, Unrolled, dict[str, str] | None, int, tuple[Cause, ...]]


def debate(agents: int = 3, rounds: int = 2, **settings: object) -> Unrolled:
    return unroll("debate", Debate.model_validate({"agents": agents, "rounds": rounds, **settings}))


def of(*models: str) -> dict[str, str]:
    return dict(zip(named(len(models)), models, strict=True))


def private(unrolled: Unrolled) -> Unrolled:
    return unrolled.told({name: f"documents of {name}" for name in unrolled.agents()})


ROLES: list[Role] = ["debater", "debater", "expert", "dummy", "dummy"]
ORDERS: list[Named] = [
    ("debate of 3", debate(3), None, 6, ()),
    ("debate of 6", debate(6, 3), None, 720, ()),
    ("debate with summaries for each", debate(4, 3, summarise="each"), None, 24, ()),
    ("debate with a shared summary", debate(4, 3, summarise="shared"), None, 24, ("graph",)),
    ("debate where one decides", debate(4, rule="lowest_temperature"), None, 6, ("graph",)),
    ("debate where one speaks last", debate(4, last_round="deciding"), None, 6, ("graph",)),
    ("debate of one round where one speaks", debate(4, 1, last_round="deciding"), None, 1, ()),
    ("debate with an expert and dummies", debate(5, role=ROLES), None, 4, ("graph", "prompts")),
    ("debate with system prompts", debate(4, system=["be bold", "doubt", "doubt", "doubt"]), None, 6, ("prompts",)),
    ("debate with two models", debate(4), of("a", "b", "a", "b"), 4, ("models",)),
    ("single", unroll("single", Single()), None, 1, ()),
    ("self-consistency", unroll("self-consistency", SelfConsistency(samples=5)), None, 120, ()),
    ("MAD", mad(3), None, 1, ("graph",)),
    ("ReConcile", reconcile(4), None, 24, ()),
    ("ReConcile of distinct models", reconcile(3), of("a", "b", "c"), 1, ("models",)),
    ("CMD of 6", cmd([3, 3]), None, 72, ("graph",)),
    ("CMD of 6, three models in each group", cmd([3, 3]), of(*"abcabc"), 2, ("graph", "models")),
    ("CMD of 3, 3, 1", cmd([3, 3, 1]), None, 72, ("graph",)),
    ("CMD of 9", cmd([3, 3, 3]), None, 6**3 * 6, ("graph",)),
    ("CMD of 7", cmd(groups_of(7)), None, 6 * 2 * 2 * 2, ("graph",)),
    ("CMD of 6 with a secretary", cmd([3, 3], secretary=True), None, 72, ("graph",)),
    ("MADRA, simultaneous talk", madra(4, rounds=1), None, 24, ("graph", "prompts")),
    ("MADRA, orderly talk", madra(4, rounds=2), None, 1, ("graph",)),
    ("ReAct relay", in_turn(5, 5), None, 1, ("graph",)),
    ("WhoDunit round robin", in_turn(3, 9), None, 1, ("graph",)),
    ("information asymmetry", debate(4, 3), None, 24, ()),
    ("information asymmetry, passages as prompts", private(debate(4, 3)), None, 1, ("prompts",)),
]
COLUMNS = ("unrolled", "models", "order", "broken_by")
FEW = [case for case in ORDERS if len(case[1].agents()) <= 6]


def witness(unrolled: Unrolled, models: Mapping[str, str] | None) -> int:
    """How many permutations of the agents leave calls, prompts and edges as they are.

    An agent has one call for a round and prompt, and no call changes its round: so a permutation of the
    agents says where every call goes, and nothing is searched.
    """
    agents = unrolled.agents()
    edges = set(unrolled.edges)

    def keeps(image: Mapping[str, str]) -> bool:
        def moved(call: Call | None) -> Call | None:
            return Call(image[call.agent], call.round, call.prompt) if call else None

        return {Edge(moved(e.speaker), moved(e.hearer), e.carries) for e in edges} == edges and all(
            not models or models[a] == models[b] for a, b in image.items()
        )

    return sum(keeps(dict(zip(agents, image, strict=True))) for image in permutations(agents))


@pytest.mark.parametrize(COLUMNS, [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS])
def test_the_order_and_what_breaks_the_symmetry_are_those_of_the_mechanism(
    unrolled: Unrolled, models: dict[str, str] | None, order: int, broken_by: tuple[Cause, ...]
) -> None:
    found = symmetry(unrolled, models)

    assert (found.order, found.broken_by) == (order, broken_by)


@pytest.mark.parametrize(COLUMNS, [case[1:] for case in FEW], ids=[case[0] for case in FEW])
def test_trying_all_permutations_finds_as_many(
    unrolled: Unrolled, models: dict[str, str] | None, order: int, broken_by: tuple[Cause, ...]
) -> None:
    assert witness(unrolled, models) == order


def test_cmd_has_more_symmetries_where_only_who_hears_whom_counts() -> None:
    found = symmetry(cmd([3, 3]), labelled=False)

    assert (found.order, found.broken_by) == (720, ())
    assert found.orbits == (tuple(named(6)),)


def test_orbits_join_agents_that_can_take_one_another_s_places() -> None:
    a = named(7)

    assert symmetry(cmd([3, 3, 1])).orbits == (tuple(a[:6]), (a[6],))
    assert symmetry(cmd([3, 3], secretary=True)).orbits == (tuple(a[:6]), ("secretary",))
    assert symmetry(cmd([3, 3]), of(*"abcabc")).orbits == ((a[0], a[3]), (a[1], a[4]), (a[2], a[5]))


def test_generators_are_symmetries_in_cycles() -> None:
    (swap,) = symmetry(cmd([3, 3]), of(*"abcabc")).generators

    assert swap == (("agent_1", "agent_4"), ("agent_2", "agent_5"), ("agent_3", "agent_6"))
    assert symmetry(mad()).generators == ()


@pytest.mark.parametrize("n", [8, 12])
def test_larger_groups_are_found_without_trying_all(n: int) -> None:
    assert symmetry(debate(n)).order == factorial(n)


@pytest.mark.parametrize(
    ("agents", "sizes"), [(1, [1]), (2, [2]), (4, [2, 2]), (5, [3, 2]), (6, [3, 3]), (7, [3, 2, 2]), (12, [3, 3, 3, 3])]
)
def test_groups_are_as_equal_as_possible_and_at_most_three(agents: int, sizes: list[int]) -> None:
    assert groups_of(agents) == sizes


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
