"""The ReAct relay: who steps when, what is handed on, how a step is read, and how it ends."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.core.registry import Registry
from sottovoce.datasets.samples import about_the_world
from sottovoce.environments.encyclopedia import LABELS, Asked, questions
from sottovoce.environments.react import Malformed
from sottovoce.graphs.react import ReAct, Said, create_react, step_turns, steps_of
from sottovoce.models import Rows
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import passages_of
from sottovoce.prompts.render import Prompts
from sottovoce.retrievers import RETRIEVERS, Hit, Passage, PassageRetriever
from tests.graphs.support import Once, Recording, board, lonely_loaded
from tests.retrievers.support import Canned
from tests.tables import each_row, some

LONG: Any = {"recursion_limit": 100}
NEVER_FINISHES = 5
"""A seed under which random weights look things up three times."""
KEYS = ["board", "decision", "world", "epochs", "notes"]
DOCUMENTS = [
    {
        "title": "Aldmoor",
        "text": "Aldmoor is old. Its river is deep. It has a mill. Mills burn. So it goes. A mill burnt.",
    },
    {"title": "Bern Holt", "text": "Bern Holt was born in Aldmoor."},
]
ASKED: Any = {"question": "Where was Bern Holt born?", "id": "q1", "kind": "text", "target": "Aldmoor"}


class Playing(ScriptedChatModel):
    """Plays the gold steps of whatever question it reads."""

    gold: dict[str, Asked]

    def _next(self, agent: str) -> str:
        asked = self._recorded[-1]
        question = asked.text.rpartition("\nQuestion: ")[2].partition("\n")[0]
        return f" I go on.\nAction {asked.round + 1}: {self.gold[question].steps[asked.round]}"


def relay(*actions: str, agents: int = 7, **settings: Any) -> tuple[Any, ScriptedChatModel]:
    """The state after scripted replies of whoever is asked, on two documents unless told otherwise."""
    model = ScriptedChatModel(actions)
    return run(model, {**ASKED, "documents": DOCUMENTS}, agents=agents, **settings), model


def run(model: Any, question: Any, watch: Any = None, **settings: Any) -> Any:
    graph = create_react(ReAct(**{"library": "documents", **settings}), models=model, watch=watch).compile()
    return graph.invoke(question, LONG, output_keys=KEYS)


def step(number: int, action: str, thought: str = "Hm.") -> str:
    return f" {thought}\nAction {number}: {action}"


def observations(state: Any) -> list[str]:
    return [message.text for message in board(state) if message.act == "observe"]


# The oracle: gold steps


@pytest.mark.parametrize("part", some(range(36), 0))
def test_the_gold_steps_reach_the_answer_of_every_bridge_question(part: int) -> None:
    gold = {asked.text: asked for asked in questions("bridge")}
    graph = create_react(models=Playing(gold=gold)).compile()
    for asked in about_the_world("bridge", len(gold))[part::36]:
        state: Any = graph.invoke(asked, LONG, output_keys=KEYS)
        assert state["decision"]["score"] == 1.0 and "second call" not in state["decision"]["why"]
        assert asked["target"] in observations(state)[-1] and asked["target"] not in observations(state)[0]


@pytest.mark.parametrize("type", ["comparison", "strategy", "claim"])
@pytest.mark.slow
def test_so_they_do_for_other_types(type: Any) -> None:
    for asked in about_the_world(type, 12):
        gold = next(each for each in questions(type) if each.text == asked["question"])
        model = ScriptedChatModel([step(number, action) for number, action in enumerate(gold.steps, 1)])
        assert run(model, asked, library="encyclopedia")["decision"]["score"] == 1.0


# Who steps when, and what is handed on


def test_agents_step_in_turn_each_after_all_that_was_done_and_seen() -> None:
    state, model = relay(step(1, "Search[Bern Holt]"), step(2, "Finish[Aldmoor]"), agents=3)
    first, second = model.calls
    assert [each.agent for each in model.calls] == ["agent_1", "agent_2"]
    assert first.options["prefill"] == "Thought 1:" and first.options["stop"] == ["\nObservation"]
    assert (first.options["max_tokens"], first.options["temperature"]) == (100, 0.0)
    assert second.text.endswith(
        f"\n\nQuestion: {ASKED['question']}\n"
        "Thought 1: Hm.\nAction 1: Search[Bern Holt]\nObservation 1: Bern Holt was born in Aldmoor."
    )
    assert state["decision"] | {"votes": []} == {
        "answer": "Aldmoor", "rule": "finish", "why": "agent_2 finished in step 2", "votes": [], "score": 1.0,
        "by": "agent_2", "measures": {"unreadable": 0},
    }  # fmt: skip


def test_an_agent_finds_the_page_and_the_look_up_where_another_left_them() -> None:
    looks = ["Search[Aldmoor]", "Lookup[mill]", "Lookup[mill]", "Lookup[river]", "Lookup[mill]"]
    state, _ = relay(*(step(n, each) for n, each in enumerate(looks, 1)), step(6, "Finish[x]"), agents=2)
    assert observations(state)[1:] == [
        "(Result 1 / 3) It has a mill.", "(Result 2 / 3) Mills burn.", "(Result 1 / 1) Its river is deep.",
        "(Result 1 / 3) It has a mill.",
    ]  # fmt: skip
    assert [message.agent for message in board(state) if message.act == "step"] == ["agent_1", "agent_2"] * 3


def test_seven_steps_without_finish_are_no_answer() -> None:
    state, model = relay(*(step(n, "Search[Aldmoor]") for n in range(1, 8)))
    assert [each.agent for each in model.calls] == [f"agent_{i}" for i in range(1, 8)]
    assert (state["decision"]["answer"], state["decision"]["score"]) == (None, 0.0)
    assert state["decision"]["why"] == "nobody finished within 7 steps: no answer"


def test_who_finishes_without_an_answer_abstains() -> None:
    decision = relay(step(1, "Finish[]"))[0]["decision"]
    assert (decision["answer"], decision["score"], decision["votes"][0]["counts"]) == (None, 0.0, False)
    assert decision["why"] == "agent_1 finished in step 1, and no answer could be read"


# Steps that hold no action


def test_a_step_without_an_action_takes_a_second_call_for_the_action_alone() -> None:
    state, model = relay(" I wonder.\nMore words.", " Search[Bern Holt]", step(2, "Finish[Aldmoor]"))
    second = model.calls[1]
    begun = "".join(block["text"] for block in second.options["prefill"])
    assert (second.agent, second.act, begun) == ("agent_1", "action", "Thought 1: I wonder.\nMore words.\nAction 1:")
    assert second.options["stop"] == ["\n"] and second.options["response_format"]["after"] == ""
    assert second.turns == model.calls[0].turns
    assert model.calls[2].text.endswith(
        "\nThought 1: I wonder.\nMore words.\nAction 1: Search[Bern Holt]\n"
        "Observation 1: Bern Holt was born in Aldmoor."
    )
    assert state["decision"]["why"] == "agent_2 finished in step 2; 1 of them took a second call"


def test_what_is_no_action_even_then_takes_the_step_and_says_why() -> None:
    state, _ = relay(" Hm.", " Search[Bern", step(2, "Finish[Aldmoor]"))
    expected = "'Search[' has no end; expected a closing bracket, as in Search[a title]"
    assert observations(state) == [f"Invalid action: {expected}."]
    why = "agent_2 finished in step 2; 1 of them took a second call; 1 of 2 steps hold no action"
    assert (state["decision"]["why"], state["decision"]["measures"]) == (why, {"unreadable": 1})


def test_a_step_is_read_behind_its_mark_and_before_what_the_model_made_up() -> None:
    state, model = relay(
        " I could Search[Aldmoor], or not.\nACTION 1: lookup[x]\nObservation 1: Finish[y]", step(2, "Finish[Aldmoor]")
    )
    assert str(steps_of(state)[0][0].does) == "Lookup[x]" and len(model.calls) == 2


def test_a_hosted_model_may_repeat_the_beginning_and_write_actions_its_own_way() -> None:
    replies = ["Thought 1: Let me see.\n**Action 1:** search[Bern Holt].", "Aldmoor, it says. Finish['Aldmoor']"]
    model = ScriptedChatModel(replies, hooked=False)
    state = run(model, {**ASKED, "documents": DOCUMENTS})
    assert (state["decision"]["answer"], state["decision"]["why"]) == ("Aldmoor", "agent_2 finished in step 2")
    assert (
        model.calls[0].text.endswith(f"\n\nQuestion: {ASKED['question']}\n\nThought 1:")
        and "form" not in model.calls[0].options
    )


@pytest.mark.parametrize("protocol", some(["nl", "cipher", "sde"], "cipher"))
def test_local_models_are_kept_to_actions_under_every_protocol(protocol: str, store: PayloadStore) -> None:
    model = Recording(protocol=protocol, preloaded=lonely_loaded(), store=store, temperature=1.0)
    state = run(model, {**ASKED, "documents": DOCUMENTS}, agents=2, steps=3, step_tokens=40)
    steps = [said for said, _ in steps_of(state)]
    assert steps and not [said for said in steps if said.action or isinstance(said.does, Malformed)]
    for number, said in enumerate(steps, 1):  # a thought of one line, and nothing behind the action
        assert re.fullmatch(rf"[^\n]+\nAction {number}: \w+\[[^\n]*\]", said.step.text), said.step.text


def test_an_answer_is_kept_to_its_kind() -> None:
    model = ScriptedChatModel([step(1, "Finish[REFUTES]")])
    asked = about_the_world("claim", 40)
    false = next(each for each in asked if each["target"] == "REFUTES")
    assert run(model, false, library="encyclopedia")["decision"]["score"] == 1.0
    first = model.calls[0]
    assert first.options["response_format"]["pattern"].endswith(rf"|Finish\[(?:{'|'.join(LABELS)}|unknown)\]")
    assert f"\nClaim: {false['question']}" in first.text and "Action 3: Finish[NOT ENOUGH INFO]" in first.text
    assert "one of SUPPORTS, REFUTES, NOT ENOUGH INFO." in first.text
    assert not [passage for passage in passages_of(false, None) if passage["text"] in first.text]


# What the protocol carries


def test_the_latest_step_goes_by_the_protocol_or_all_do(store: PayloadStore) -> None:
    asked: Any = {**ASKED, "documents": DOCUMENTS}
    model = Recording(preloaded=lonely_loaded(), store=store, temperature=1.0)
    steps = steps_of(run(model, asked, steps=3, step_tokens=40, seed=NEVER_FINISHES, temperature=[1.0]))
    cases: list[tuple[Any, list[bool]]] = [("latest", [False, False, True]), ("all", [True, True, True])]
    for carry, carried in cases:
        turns = step_turns(PromptBuilder(Prompts(), asked, None), ReAct(carry=carry), steps)
        parts = [part for part in turns[-1].parts if isinstance(part, MessageRef) and part.message.act == "step"]
        assert [part.message.latent is not None for part in parts] == carried
        assert [part.latest for part in parts] == [False, False, True]


def test_of_a_step_of_two_calls_thought_and_action_are_heard_each_from_its_own() -> None:
    _, model = relay(" I wonder.\nNo.\nObservation 1: Kell.", " Search[Bern Holt]", step(2, "Finish[Aldmoor]"))
    parts = [part for turn in model.calls[2].turns for part in turn.parts if isinstance(part, MessageRef)]
    assert [(part.message.act, part.body) for part in parts] == [
        ("step", " I wonder.\nNo."), ("action", " Search[Bern Holt]"), ("observe", "Bern Holt was born in Aldmoor."),
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", some(["nl", "cipher"], "cipher"))
def test_the_second_call_goes_on_from_the_payload_of_its_thought(protocol: str, store: PayloadStore) -> None:
    """It read the thought as words that were tokenised anew."""
    model = Recording(protocol=protocol, preloaded=lonely_loaded(), store=store, temperature=1.0)
    state = run(model, {**ASKED, "documents": DOCUMENTS}, agents=2, steps=1, step_tokens=12, guide="off")
    first, second = model.requests
    step = steps_of(state)[0][0].step
    payload, thought = step.payload.load(store), step.text.rstrip()  # type: ignore[union-attr]  # it has one
    tokens = payload.tokens(((0, len(thought)),))
    heard = second.prompt[len(first.prompt)]  # behind the prompt and "Thought 1:"
    if protocol == "cipher":
        assert isinstance(heard, Rows) and heard.rows.equal(payload.rows_over(model.loaded.table)[tokens])  # type: ignore[index]  # it has rows
    else:
        assert heard.ids == tuple(payload.ids[at] for at in tokens)
    assert [each.temperature for each in (first.sampling, second.sampling)] == [1.0, 1.0]


@pytest.mark.parametrize(("compat", "temperature"), [("paper", 0.0), ("reference", 1.0)])
def test_cipher_s_relay_has_one_temperature_and_that_is_0(compat: str, temperature: float, store: PayloadStore) -> None:
    """It ran on a ladder of them, as a debate does. At 0 the published code averages at 1."""
    options = {"compat": compat}
    model = Recording(protocol="cipher", options=options, preloaded=lonely_loaded(), store=store)
    settings = {"agents": 2, "steps": 2, "step_tokens": 20, "seed": NEVER_FINISHES}
    run(model, {**ASKED, "documents": DOCUMENTS}, **settings)
    assert {each.sampling.temperature for each in model.requests} == {temperature}


# Prompts

FEVER = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]


@each_row(
    ("kind", "choices", "endings"),
    [
        ("label", FEVER, FEVER),
        ("label", FEVER[:2], FEVER[:2]),
        ("label", ["Correct", "Incorrect", "Unknown"], ["Tern Bridge", "Lake Isk", "Varlund"]),
        ("yes_no", [], ["no", "yes"]),
        ("number", [], ["245", "Varlund"]),
        ("text", [], ["Tern Bridge", "Lake Isk", "Varlund"]),
    ],
)
def test_examples_end_as_answers_of_the_question_s_kind(kind: str, choices: list[str], endings: list[str]) -> None:
    question: Any = {"question": "Q?", "kind": kind, "choices": choices}
    prompt = step_turns(PromptBuilder(Prompts(), question, None), ReAct(), [])[-1].text
    shown, _, asked = prompt.rpartition("</example>")
    assert re.findall(r"Finish\[(.*)\]", shown) == endings
    assert ("SUPPORTS" in prompt) == (choices[:1] == ["SUPPORTS"]) == ("\nClaim: Q?" in asked)
    assert all(choice in asked for choice in choices)


# Libraries


def test_passages_may_be_read_as_one_page() -> None:
    state, _ = relay(step(1, "Search[who was born]"), step(2, "Lookup[mill]"), step(3, "Finish[x]"), search="passages")
    assert observations(state)[0] == "Bern Holt was born in Aldmoor."
    assert observations(state)[1] == "No more results."


class Wiki(PassageRetriever):
    """A service with whole pages, which is out of order when it is asked for one of them."""

    source: str = "wiki"

    def search(self, query: str, k: int) -> list[Hit]:
        return []

    def page(self, title: str) -> Passage | None:
        if title == "Broken":
            raise RetrievalError("wiki did not answer within 20 s")
        return Passage("1", "It is one. It is two.", title) if title == "One" else None

    def similar(self, query: str, n: int) -> list[str]:
        return ["One"][:n]


@pytest.fixture
def wiki(monkeypatch: pytest.MonkeyPatch) -> None:
    known: Registry[Any] = Registry("retriever", "sottovoce.none")
    known.register("wiki", lambda where: Wiki())
    known.register("shelf", lambda where: Canned([]))
    for name in ("_paths", "_known"):
        monkeypatch.setattr(RETRIEVERS, name, getattr(known, name))


def test_a_service_with_pages_is_read_by_title_and_its_failure_is_told(wiki: None) -> None:
    actions = ["Search[Two]", "Search[One]", "Search[Broken]", "Lookup[two]", "Finish[x]"]
    model = ScriptedChatModel([step(number, action) for number, action in enumerate(actions, 1)])
    assert observations(run(model, ASKED, library="wiki")) == [
        "Could not find Two. Similar: ['One'].", "It is one. It is two.",
        "The search failed: wiki did not answer within 20 s.", "(Result 1 / 1) It is two.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"library": "nowhere"}, "unknown retriever 'nowhere'; choose from: "),
        ({"library": "shelf"}, "library 'shelf' finds passages, not pages by title; add `search='passages'`"),
        ({"library": "documents"}, "the library is 'documents', but the question has none; add some, or use another"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anybody_speaks(
    wiki: None, settings: dict[str, Any], said: str
) -> None:
    model = ScriptedChatModel([])
    with pytest.raises(UsageError, match=said.replace("[", r"\[")):
        run(model, ASKED, **settings)
    assert model.calls == []


# State


def test_a_reset_brings_the_open_page_back() -> None:
    said = [step(1, "Search[Aldmoor]"), step(2, "Lookup[mill]"), step(2, "Lookup[river]"), step(3, "Finish[Aldmoor]")]
    state = run(ScriptedChatModel(said), {**ASKED, "documents": DOCUMENTS}, watch=Once("reset", text="Lookup"))
    assert observations(state)[1:] == ["(Result 1 / 1) Its river is deep."] and state["epochs"] == [[1, 0]]
    assert state["decision"]["why"] == "agent_3 finished in step 3"


STEPS: list[tuple[str, str]] = [
    (" I need the birthplace of Bern Holt.\nAction 1: Search[Bern Holt]", "Search[Bern Holt]"),
    (" I look him up.\n**Action 1: Search[Bern Holt]**", "Search[Bern Holt]"),
    (" I look him up.\naction 1 - search[Bern Holt]", "Search[Bern Holt]"),
    (" I look him up.\nACTION 1 \u2013 Search [Bern Holt].", "Search[Bern Holt]"),
    (" I look him up.\nAction 1:\n```\nSearch[Bern Holt]\n```", "Search[Bern Holt]"),
    (
        " I could do Search[Aldmoor] or Lookup[fair]; the man comes first.\nAction 1: Search[Bern Holt]",
        "Search[Bern Holt]",
    ),
    (
        " I look him up.\nAction 1: Search[Bern Holt]\nObservation 1: He was born in Kell.\nThought 2: So Kell.\n"
        "Action 2: Finish[Kell]",
        "Search[Bern Holt]",
    ),
    (" I look him up.\n**Observation 1:** He is of Kell.\nAction 2: Finish[Kell]", ""),
    (" The word may be further down.\nAction 1: Look up[born]", "Lookup[born]"),
    (" The word may be further down.\nAction 1: Lookup[born in]\nAction 2: Search[Aldmoor]", "Lookup[born in]"),
    (" I look him up. Search[Bern Holt]", "Search[Bern Holt]"),
    (" I need to know where he was born before anything else, and then", ""),
]
"""Replies behind "Thought 1:"; the action, or "" where there is none."""


@each_row(("text", "action"), STEPS)
def test_a_step_is_read_as_it_is_meant(text: str, action: str) -> None:
    does = Said(Message("agent_1", 0, "step", text), None).does
    assert ("" if isinstance(does, Malformed) else str(does)) == action
