"""The settings of each scheme: what they refuse, in one line, and what they say to each agent."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.core.text import amount
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.ia import IA
from sottovoce.graphs.mad import MAD
from sottovoce.graphs.pipeline import Pipeline
from sottovoce.graphs.self_consistency import SelfConsistency
from sottovoce.graphs.single import Single
from sottovoce.nodes.settings import Settings


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        # These were taken, and a run without end was begun.
        (Debate, {"agents": 3000}, "agents is 3000: expected less than or equal to 100"),
        (SelfConsistency, {"samples": 10**6}, "samples is 1000000: expected less than or equal to 1000"),
        (Debate, {"seed": 2**63}, "seed is 9223372036854775808: expected less than or equal to 9007199254740991"),
        (Debate, {"temperature": ["1e999"]}, "temperature is '1e999': expected a finite number"),
        (Debate, {"protocol": "cypher"}, "unknown protocol 'cypher'; did you mean 'cipher'? Choose from: cipher,"),
        (Debate, {"round": 3}, "unknown field of Debate: 'round'; did you mean 'rounds'?"),
        (Debate, {"model": []}, "no model is set"),
        (
            Debate,
            {"model": "agent_2=small"},
            "model is 'agent_2=small'; give one `model=` for all, or one each",
        ),
        (Debate, {"agents": 3, "temperature": [0.1, 0.2]}, "temperature has 2 values for 3 agents"),
        (Debate, {"summarise": "each", "shape": "fresh"}, "use `summarise=` with `shape='history'`"),
        (SelfConsistency, {"samples": 2, "temperature": [0.1, 0.2]}, "samples are of one agent"),
        (Debate, {"summarise": "each", "agents": 1}, "a debate of one agent has no answers to summarize"),
        (Debate, {"last_round": "deciding", "rule": "average"}, "the rule 'average' reads all agents"),
        (Debate, {"thinking_markers": (" ", " ")}, "thinking_markers is ' ': "),  # each place of a reply has these
        (Single, {"dtype": []}, "dtype is []: "),
        (Single, {"dtype": ["int3"]}, "dtype is 'int3': expected"),
        (
            Debate,
            {"option": {"agent_7.layers": [1]}},
            "unknown agent among the options: 'agent_7'; did you mean 'agent_",
        ),
        (Single, {"memory": ["4 gigs"]}, "memory is '4 gigs': expected bytes, or a size like '4GB' or '500MB'"),
        (Single, {"thinking": "maybe"}, "thinking is 'maybe': expected on, off, or the most tokens"),
        (Single, {"keep": 2}, "keep is 2: expected less than or equal to 1, or 'all', 'added' or 'thoughts'"),
    ],
)
def test_what_does_not_fit_is_one_line(kind: type[Settings], values: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError) as found:
        kind.model_validate(values)
    assert expected in str(found.value)
    assert "\n" not in str(found.value)


def test_one_value_is_for_all_and_none_for_nobody() -> None:
    settings = Debate(agents=3, temperature=[0.5], system=["a", "b", "c"])
    assert settings.per_agent("temperature") == [0.5] * 3
    assert settings.per_agent("system") == ["a", "b", "c"]
    assert settings.per_agent("role") == []
    assert settings.roles() == dict.fromkeys(["agent_1", "agent_2", "agent_3"], "debater")


def test_only_options_that_were_set_reach_the_protocol() -> None:
    assert Debate(protocol="sde").options("agent_1") == {}
    assert Debate(protocol="sde", layers=(2, 1), compat="reference").options("agent_1") == {
        "compat": "reference",
        "layers": (2, 1),
    }


def test_thoughts_hand_over_what_was_added_where_turns_are_many() -> None:
    """Seen: with all that was received, every discussion of ia outgrew the bundled model."""
    for kind, keep in ((MAD, {"keep": "added"}), (IA, {"keep": "added"}), (Pipeline, {}), (Debate, {})):
        agent = kind().names()[0]
        assert kind(protocol="thoughts").options(agent) == keep
        assert kind(protocol="thoughts", keep="all").options(agent) == {"keep": "all"}
        assert kind(protocol="kv").options(agent) == {}


@pytest.mark.parametrize(
    "settings", [Debate(agents=3, role=["debater", "expert", "dummy"]), Single(), SelfConsistency()]
)
def test_settings_survive_a_trip_through_json(settings: Settings) -> None:
    assert type(settings).model_validate(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("written", "nbytes"),
    [
        ("4GB", 4_000_000_000),
        (" 1.5 gb ", 1_500_000_000),
        ("500MB", 500_000_000),
        ("64kB", 64_000),
        ("1000 bytes", 1000),
        ("4096", 4096),
        (4096, 4096),
        *((amount(nbytes), nbytes) for nbytes in (7, 123, 25_300, 64_000_000, 999_000_000, 1_230_000_000)),
    ],
)
def test_memory_is_read_as_a_person_writes_it_and_as_we_print_it(written: Any, nbytes: int) -> None:
    assert Debate(memory=[written]).memory == [nbytes]


def test_settings_cannot_be_changed_once_made() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Debate().rounds = 5


def test_a_single_value_stands_for_a_list_of_one() -> None:
    typed: dict[str, Any] = {"model": "smollm2", "temperature": 0.2, "layers": 3, "watch": "random:0.1", "system": ""}

    found = Debate(**typed)

    assert (found.model, found.temperature, found.layers) == (["smollm2"], [0.2], (3,))
    assert found == Debate.model_validate({name: [value] for name, value in typed.items()})
