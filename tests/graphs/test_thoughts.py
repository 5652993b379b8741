"""Thoughts in discussions of every scheme: kept, and never read, heard or sent back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.govsim import GovSim
from sottovoce.graphs.ia import IA
from sottovoce.graphs.react import ReAct
from sottovoce.graphs.whodunit import WhoDunit
from sottovoce.nodes.context import made_from
from tests.graphs.support import QUESTION
from tests.graphs.test_transitions import CASES, FIRST, SCRIPTS, built
from tests.support import tiny_loaded
from tests.tables import some
from tests.thinkers import THOUGHTS, Counting, thinker

POISON = 'MUSING \\boxed{99} Answer: 99 Finish[99] [[1, 1]] {"action": 1} Evidence: [1]'
ANSWERS = {"": ["The answer is 22."] * 12}
SHAPES = {"": "{1}", "whole": "<think>{0}</think>\n\n{1}", "opened": "{0}</think>{1}"}


def run(case: str, shape: str = "", **more: Any) -> tuple[dict[str, Any], ScriptedChatModel]:
    """The result of a scripted run whose replies have thoughts of a shape before them."""
    name, settings = CASES[case]
    scripts = SCRIPTS.get(case, ANSWERS)
    thinking = {who: [SHAPES[shape].format(POISON, said) for said in all_] for who, all_ in scripts.items()}
    model = ScriptedChatModel(thinking)
    result = built(name, {**settings, **more}, models=model).invoke(
        {**QUESTION, "target": "22"}, {"recursion_limit": 100}
    )
    return dict(result), model


def messages(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [each if isinstance(each, dict) else each.to_dict() for each in result["board"]]


def told(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["act"], message["text"].strip()) for message in messages(result)]


@pytest.mark.parametrize("case", FIRST.values())
def test_a_discussion_is_the_same_with_thoughts_and_nobody_hears_or_reads_them(case: str) -> None:
    plain, _ = run(case)
    for shape in filter(None, SHAPES):
        thought, model = run(case, shape)
        assert thought["decision"] == plain["decision"] and told(thought) == told(plain)
        assert not [call.text for call in model.calls if "MUSING" in call.text]
        spoken = [message for message in messages(thought) if message["source"] != "rule"]
        assert spoken and {message.get("thoughts") for message in spoken} == {POISON}


def test_shared_thoughts_are_heard_and_named_in_the_notes() -> None:
    result, model = run("debate", "whole", share_thoughts=True)
    first, second = (
        [call for call in model.calls if call.round == number and call.agent == "agent_1"] for number in (0, 1)
    )
    assert "MUSING" not in first[0].text and second[0].text.count("MUSING") == 2  # of two others, not its own
    assert any("hear the thoughts" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("scheme", "loaded", "told"),
    [
        ("debate", thinker(), "agents hear the thoughts of the others too"),
        ("debate", tiny_loaded(), "share_thoughts has no effect"),
        ("self_consistency", thinker(), "share_thoughts has no effect"),  # they hear nobody
    ],
)
def test_a_note_says_that_thoughts_are_heard_only_where_they_are(
    scheme: str, loaded: Any, told: str, tmp_path: Path
) -> None:
    model = HookedChatModel(preloaded=loaded, store=PayloadStore(tmp_path), max_tokens=2, share_thoughts=True)
    result = built(scheme, {"answer_turn": "off", "share_thoughts": True}, models=model).invoke(dict(QUESTION))
    (note,) = [note for note in result["notes"] if "hear the thoughts" in note or "share_thoughts" in note]
    assert note.startswith(told)


def test_a_reply_that_was_cut_in_its_thoughts_states_nothing() -> None:
    # Seen: "<think>\n12*8 = 96 and so" gave "2 of 2 say 96".
    name, settings = CASES["debate_one_round"]
    model = ScriptedChatModel({"": ["<think>\n12*8 = 96 and so"] * 9})
    decision = built(name, {**settings, "answer_turn": "off"}, models=model).invoke(dict(QUESTION))["decision"]
    assert decision["answer"] is None


def hooked(tmp_path: Path, **more: Any) -> HookedChatModel:
    """A local model that thinks, and says nothing that could be read as an answer."""
    return HookedChatModel(preloaded=thinker(text="Hm."), store=PayloadStore(tmp_path), max_tokens=6, **more)


def test_an_answer_turn_has_no_thoughts(tmp_path: Path) -> None:
    result = built("single", {}, models=hooked(tmp_path, temperature=0)).invoke(dict(QUESTION))
    first, answer = messages(result)
    assert first["thoughts"] == THOUGHTS and answer["asked"] == "answer" and "thoughts" not in answer


def test_schemes_of_short_replies_do_not_think_by_default() -> None:
    made = {each.__name__: made_from(each(), each().names()[0]) for each in (Debate, IA, ReAct, GovSim, WhoDunit)}
    assert {name for name, model in made.items() if getattr(model, "brief", False)} == {"ReAct", "GovSim", "WhoDunit"}
    told = made_from(ReAct(thinking=300), "agent_1")
    assert isinstance(told, HookedChatModel) and told.thinking == 300


@pytest.mark.parametrize("case", some([*FIRST.values()], "debate", "brief", "react", "whodunit", "codegen"))
def test_a_discussion_of_hosted_models_that_think_is_as_readable_as_without_thoughts(case: str) -> None:
    """Servers count thoughts against a reply's limit: 32 tokens of an answer turn, 60 of `brief`, 100 of `react`."""
    name, settings = CASES[case]
    texts = []
    for thoughts in (0, 1000):
        model = Counting(replies=SCRIPTS.get(case, ANSWERS), thoughts=thoughts)
        result = built(name, settings, models=model).invoke({**QUESTION, "target": "22"}, {"recursion_limit": 100})
        assert not [message for message in messages(dict(result)) if message.get("cut")]
        texts.append((result["decision"], told(dict(result))))
    assert texts[0] == texts[1]
