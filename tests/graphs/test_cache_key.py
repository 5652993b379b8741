"""Acts that were done before are not done again, where a graph is compiled with a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache as Cache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.cache.memory import InMemoryCache

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import Debate, create_debate
from tests.graphs.support import KEYS, QUESTION, Recording, State, board

SHORT = Debate(rounds=2, answer_turn="off")


def held(model: Any, cache: Any, settings: Debate = SHORT, store: Any = None, **question: Any) -> State:
    graph = create_debate(settings, models=model, store=store, cached=True).compile(cache=cache)
    return graph.invoke({**QUESTION, **question}, output_keys=KEYS)


def recording(folder: str, **more: Any) -> Recording:
    return Recording(model=folder, max_tokens=6, **more)


@pytest.mark.parametrize("protocol", ["nl", "cipher"])
def test_an_equal_discussion_makes_no_call_and_says_the_same(protocol: str, folder: str, store: PayloadStore) -> None:
    model, cache = recording(folder, protocol=protocol), InMemoryCache[Any]()
    first = held(model, cache, store=store)
    asked = len(model.requests)
    again = [held(model, cache, store=store) for _ in range(2)]

    assert len(model.requests) == asked == 4
    assert all(state["board"] == first["board"] and state["decision"] == first["decision"] for state in again)


def test_whatever_an_act_depends_on_is_asked_anew(folder: str, store: PayloadStore) -> None:
    model, cache = recording(folder), InMemoryCache[Any]()
    held(model, cache, store=store)
    held(model, cache, SHORT.model_copy(update={"seed": 1}), store)
    for changed in ({"question": "What is 14 + 3 * 5 - 8?"}, {"id": "q2"}, {"documents": ["Mia has 3 apples."]}):
        held(model, cache, store=store, **changed)

    assert len(model.requests) == 5 * 4


def test_another_model_or_place_for_payloads_is_asked_anew(folder: str, store: PayloadStore, tmp_path: Any) -> None:
    model, cache = recording(folder), InMemoryCache[Any]()
    held(model, cache, store=store)
    others = [recording(folder, top_k=3), recording("bundled"), recording(folder)]
    stores = [store, store, PayloadStore(tmp_path / "elsewhere")]
    for other, place in zip(others, stores, strict=True):
        held(other, cache, store=place)

    assert [len(other.requests) for other in others] == [4, 4, 4]


def test_an_edited_message_gives_those_who_hear_it_another_key(folder: str, store: PayloadStore) -> None:
    graph = create_debate(SHORT, models=recording(folder), store=store, cached=True).compile(
        interrupt_before=["decide"]
    )
    state = graph.invoke(QUESTION, output_keys=[*KEYS, "question", "turn", "epochs", "marks"])
    said, policy = board(state), graph.nodes["agent_1"].cache_policy
    assert policy is not None

    edited = {**state, "board": [replace(said[0], text="I do not know."), *said[1:]]}
    assert policy.key_func({**state, "board": list(said)}) == policy.key_func(state) != policy.key_func(edited)


def test_scripted_models_are_cached_too_and_without_the_option_nothing_is() -> None:
    script = ScriptedChatModel(["22"] * 12)
    cache = InMemoryCache[Any]()
    for _ in range(3):
        held(script, cache)
    assert len(script.calls) == 4

    graph = create_debate(SHORT, models=script).compile(cache=cache)
    graph.invoke(QUESTION)
    assert len(script.calls) == 8


def saying(message: AIMessage) -> Any:
    return RunnableLambda(lambda _: message)


def test_runnables_and_scripts_have_no_key_in_common() -> None:
    """Showed as one reply of both: a runnable has no name for what its replies depend on."""
    cache, texts = InMemoryCache[Any](), []
    for answer in ("22", "33"):
        said = AIMessage(f"The answer is {answer}.")
        models: list[Any] = [saying(said), ScriptedChatModel([said.text] * 4)]
        texts += [board(held(each, cache))[0].text for each in models]

    assert texts == ["The answer is 22."] * 2 + ["The answer is 33."] * 2


def test_langchains_own_cache_serves_no_runnable() -> None:
    cache = Cache()
    set_llm_cache(cache)
    try:
        models = {f"agent_{n}": saying(AIMessage(f"The answer is {n}.")) for n in (1, 2, 3)}
        graph = create_debate(Debate(agents=3, rounds=1, answer_turn="off"), models=models).compile()
        said = board(graph.invoke(QUESTION, output_keys=KEYS))
    finally:
        set_llm_cache(None)

    assert [each.text[-2] for each in said] == ["1", "2", "3"] and not cache._cache
