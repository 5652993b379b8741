"""The watch that asks monitors: whom each serves, what it measures, what follows, and how often."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from langchain_core.messages import AIMessage

from sottovoce.agents.chat_model import measured
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.graphs import NAMES, scheme
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.govsim import GovSim, create_govsim
from sottovoce.graphs.whodunit import WhoDunit
from sottovoce.monitors.monitor import Monitor
from sottovoce.monitors.settings import Measure
from sottovoce.monitors.tokens import of_payload
from sottovoce.nodes.guard import Guard, chance, decoder_of, spent
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import current_messages
from sottovoce.runs.manifest import new_manifest
from tests.graphs.support import KEYS, QUESTION
from tests.nodes.support import Unsure, state_of
from tests.support import ids, tiny_loaded
from tests.tables import each_row

MORE = [*KEYS, "interventions", "epochs"]
SURE, UNSURE = "The answer is 22.", "Is the answer 21? The answer is 21."


def monitor(role: str, threshold: float = 1.0, **more: Any) -> Monitor:
    """Its score is the entropy, in nats: of ten even tokens 2.3."""
    return Monitor(
        role=role,
        features=("entropy", "turn"),
        log_features=False,
        bounds=((-1.0, 1.0), (-1.0, 1.0)),
        exponents=((1, 0),),
        coefficients=(1.0,),
        intercept=0.0,
        threshold=threshold,
        measured=Measure(distribution="top"),
        **more,
    )


def saved(folder: Path, role: str, **more: Any) -> str:
    path = folder / f"{role}.json"
    monitor(role, **more).save(path)
    return str(path)


def debated(
    replies: dict[str, list[str]], store: Path, guard: Any = None, model: Any = None, **settings: Any
) -> tuple[Any, ScriptedChatModel]:
    found, model = scheme("debate"), model or Unsure(replies=replies)
    wanted = found.settings(**{"agents": 2, "rounds": 2, **settings})
    graph = found.create(wanted, models=model, watch=guard, store=PayloadStore(store))
    return graph.compile().invoke(QUESTION, output_keys=MORE), model


def test_a_reply_that_looks_unsure_is_held_back_and_the_round_is_held_again(tmp_path: Path) -> None:
    replies = {"agent_1": [SURE, UNSURE, SURE], "agent_2": [SURE] * 3}

    state, model = debated(replies, tmp_path, Guard(monitor("agent_1")))

    assert [(each["agent"], each["round"], each["what"]) for each in state["interventions"]] == [
        ("agent_1", 1, "reset")
    ]
    assert state["interventions"][0]["score"] == pytest.approx(2.302585)
    assert state["interventions"][0]["why"] == "the failure score of agent_1 is 2.30, above 1.00"
    assert {message.text for message in current_messages(state)} == {SURE}
    assert len(model.calls) == 6


def test_monitors_of_files_are_a_setting(tmp_path: Path) -> None:
    files = [saved(tmp_path, "agent_1"), saved(tmp_path, "agent_2", threshold=9.0)]
    replies = {"agent_1": [UNSURE, SURE, SURE], "agent_2": [UNSURE, UNSURE]}

    state, _ = debated(replies, tmp_path, watch=files, intervention="again")

    assert [(each["agent"], each["what"]) for each in state["interventions"]] == [("agent_1", "again")]


@each_row("name", NAMES)
def test_every_scheme_can_be_watched_by_files_of_monitors(name: str, tmp_path: Path) -> None:
    found = scheme(name)
    graph = found.create(found.settings(watch=[saved(tmp_path, "all")]), models=Unsure())

    assert any(node.startswith("watch_") for node in graph.nodes)


@pytest.mark.parametrize(
    ("cap_per", "cap", "expected"),
    [
        ("role", 1, [("agent_1", 0), ("agent_2", 0)]),
        ("role", 2, [("agent_1", 0), ("agent_2", 0), ("agent_1", 0), ("agent_2", 0)]),
        ("all", 1, [("agent_1", 0), ("agent_2", 0)]),  # side by side, in one step: one
        ("turn", 1, [("agent_1", 0), ("agent_2", 0), ("agent_1", 1), ("agent_2", 1)]),
        ("role", 0, []),
    ],
)
def test_the_cap_counts_what_it_is_told_to_count(
    cap_per: str, cap: int, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    state, _ = debated({"": [UNSURE] * 40}, tmp_path, Guard(monitor("all")), cap=cap, cap_per=cap_per)

    assert [(each["agent"], each["round"]) for each in state["interventions"]] == expected


@pytest.mark.parametrize(("acts", "count"), [(("answer", "answer"), 1), (("answer", "decide"), 2)])
def test_who_speaks_after_others_in_one_turn_is_counted_by_itself(acts: tuple[str, str], count: int) -> None:
    place = {"role": "x", "epoch": 0, "round": 0, "turn": 0, "attempt": 0, "score": 1.0, "what": "again", "why": ""}
    made = [{**place, "agent": f"agent_{act}", "act": act} for act in acts]
    of_another = {**place, "role": "y", "round": 1, "agent": "agent_1", "act": "answer"}
    state, message = state_of(interventions=[*made, of_another]), Message("agent_1", 0, "answer", "")

    assert spent(state, Debate(cap_per="role"), "x", message) == count
    assert spent(state, Debate(cap_per="all"), "x", message) == count + 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"logprobs": False}, "watches agent_1, whose model returns no log-probabilities"),
        ({"top_logprobs": 5}, "returns 5 most probable .* make it with top_logprobs=10"),
    ],
)
def test_a_model_that_returns_too_little_is_refused_before_anybody_speaks(
    given: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    model = Unsure(replies={"": [SURE]}, **given)

    with pytest.raises(UsageError, match=expected):
        debated({}, tmp_path, Guard(monitor("agent_1")), model=model)
    assert model.calls == []


def test_a_model_that_returns_none_after_all_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="monitor that watches agent_1 needs log-probabilities"):
        debated({}, tmp_path, Guard(monitor("agent_1")), model=ScriptedChatModel([SURE] * 2, hooked=False))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"features": ("perplexity", "turn")}, "unknown feature of the monitor of agent_1: 'perplexity'"),
        ({"measured": Measure()}, "most probable tokens alone, and not positions all, whole distributions"),
    ],
)
def test_a_monitor_that_needs_what_is_not_measured_is_refused(
    changed: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=expected):
        debated({}, tmp_path, Guard(monitor("agent_1").model_copy(update=changed)))


def test_what_is_judged_together_can_only_be_taken_back() -> None:
    graph = create_govsim(GovSim(intervention="mute"), models=Unsure(), watch=Guard(monitor("fisher")))

    with pytest.raises(UsageError, match="all acts 'wish' of a round are checked together; choose reset or rollback"):
        graph.compile().invoke({"question": "How many tons?"})


def test_two_monitors_of_one_role_and_two_ways_to_watch_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two monitors serve role 'agent_1'"):
        Guard(monitor("agent_1"), monitor("agent_1"))
    with pytest.raises(UsageError, match="choose one of them"):
        debated({}, tmp_path, Guard(monitor("agent_1")), watch=[saved(tmp_path, "agent_1")])


def test_a_run_does_not_go_on_with_another_monitor(tmp_path: Path) -> None:
    settings = Debate(watch=[saved(tmp_path, "agent_1")])
    begun = new_manifest("debate", settings, [cast(Question, QUESTION)], models=Unsure())
    saved(tmp_path, "agent_1", threshold=2.0)

    with pytest.raises(RecordError, match="started with other monitors"):
        begun.check_same(new_manifest("debate", settings, [cast(Question, QUESTION)], models=Unsure()), "run")


def test_a_reader_is_told_of_a_monitor_of_another_scheme_and_of_what_would_be_said_again(tmp_path: Path) -> None:
    def notes(**settings: Any) -> list[str]:
        found = WhoDunit(turns=1, suspects=3, attributes=2, **settings)
        given = {"models": Unsure(replies={"": ['{"thoughts": "?", "action": 2}']}), "store": PayloadStore(tmp_path)}
        graph = scheme("whodunit").create(found, watch=Guard(monitor("accuser", threshold=9.0)), **given)
        told: list[str] = graph.compile().invoke({"question": "Who?"}, output_keys=["notes"])["notes"]
        return told

    cold, warm = notes(), notes(temperature=[0.7])

    assert "the monitor of accuser reads positions 'all'; in this scheme 'action' matter" in warm
    assert [note for note in cold if note not in warm] == [
        "at temperature 0, repeated replies are sampled at 0.7 (redraw_temperature)"
    ]
    assert notes(redraw_temperature=0, intervention="mute") == warm
    with pytest.raises(UsageError, match="is 'reset', after which Beth, Alex would repeat the same reply at temp"):
        notes(redraw_temperature=0)
    partly = notes(redraw_temperature=0, temperature=[0, 0.7])
    assert "Beth would repeat the same reply at temperature 0" in partly


@pytest.mark.parametrize(("rate", "expected"), [("random:1", 4), ("random:0.000001", 0)])
def test_a_random_monitor_needs_no_log_probabilities_and_triggers_at_its_rate(
    rate: str, expected: int, tmp_path: Path
) -> None:
    model = ScriptedChatModel([SURE] * 8, hooked=False)

    state, _ = debated({}, tmp_path, model=model, watch=[rate], intervention="again", cap_per="turn")

    assert len(state["interventions"]) == expected
    assert all(made["why"].startswith("the random number of agent_") for made in state["interventions"])


def test_a_random_monitor_draws_by_run_and_place_and_not_by_what_is_said() -> None:
    def drawn(text: str = "a", seed: int = 0, **place: Any) -> float:
        message = Message(**{"agent": "agent_1", "round": 0, "act": "answer", "text": text, **place})
        return chance(cast(Any, SimpleNamespace(settings=Debate(seed=seed))), state_of(), message)

    places = [drawn(round=round, attempt=attempt, epoch=n) for round in range(10) for attempt in (0, 1) for n in (0, 1)]
    assert drawn() == drawn("another text") != drawn(seed=1)
    assert len(set(places)) == 40 and 0.3 < sum(places) / 40 < 0.7


@each_row("name", ["random:0", "random:2", "random:often"])
def test_a_random_monitor_of_no_rate_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"watch is '{name}'; expected random:RATE with a share of turns in \(0, 1\]"):
        debated({}, tmp_path, watch=[name])


def test_the_texts_of_the_most_probable_tokens_are_known_of_hosted_and_local_models(tmp_path: Path) -> None:
    told = {"content": [{"token": "a", "top_logprobs": [{"token": each, "logprob": -1.0}]} for each in ("é", "action")]}
    reply, store = AIMessage("aa", response_metadata={"logprobs": told}), PayloadStore(tmp_path)
    loaded = tiny_loaded()

    ref, decode = measured(reply, str(reply.text), store), decoder_of(HookedChatModel(preloaded=loaded))

    assert ref is not None and [*(of_payload(ref.load(store)).best or ())] == ["é", "action"]
    assert decode is not None and "".join(map(decode, ids("action 1"))) == "action 1"
    assert decoder_of(None) is None


def test_what_is_no_watch_is_told_before_anybody_speaks() -> None:
    with pytest.raises(UsageError, match=r"watch is of type Monitor; expected a watch, its name, or Guard\(monitor\)"):
        scheme("debate").create(scheme("debate").settings(), watch=monitor("agent_1"))
