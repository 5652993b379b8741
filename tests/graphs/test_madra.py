"""MADRA: what is found and chosen, who hears whom, how often models are called, and who decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from langchain_core.outputs import ChatResult

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.graphs.madra import MADRA, create_madra, selection_form
from sottovoce.graphs.single import Single, create_single
from sottovoce.retrievers import Hit, Passage, PassageRetriever, register_retriever
from tests.graphs.support import board, calls, heard
from tests.retrievers.support import Canned

KEYS = ["board", "decision", "round", "evidence", "numbers"]
ASKED: Any = {"question": "Where was Bern Holt born?", "id": "q1", "kind": "text", "target": "Aldmoor"}
HOLT, MOOR = "Bern Holt was born in Aldmoor, where the fair is held.", "Aldmoor has a fair and a bridge."


def hit(docid: str, text: str, rank: int = 1) -> Hit:
    return Hit(Passage(docid, text, f"On {docid}"), 1 / rank)


class Failing(PassageRetriever):
    """A service that is out of order."""

    source: str = "failing"

    def search(self, query: str, k: int) -> list[Hit]:
        raise RetrievalError("failing is out of order")


WIKI = Canned(
    [hit("holt", HOLT), hit("moor", MOOR, 2), *(hit(f"w{i}", f"Passage {i}.", i) for i in range(3, 20))], "wiki"
)
WEB = Canned([hit("snippet", "was born in Aldmoor, where the fair is held."), hit("w5", "Passage 5.", 2)], "web")
EMPTY = Canned([], "empty")
register_retriever("madra-wiki", lambda where: WIKI)
register_retriever("madra-web", lambda where: WEB)
register_retriever("madra-empty", lambda where: EMPTY)
register_retriever("madra-failing", lambda where: Failing())
BOTH: dict[str, Any] = {"wiki": "madra-wiki", "google": "madra-web"}


def held(replies: Mapping[str, list[str]], question: Any = ASKED, **settings: Any) -> tuple[Any, ScriptedChatModel]:
    model = ScriptedChatModel(replies)
    graph = create_madra(MADRA(**{"wiki": "madra-wiki", **settings}), models=model).compile()
    return graph.invoke(question, output_keys=KEYS), model


def script(judged: list[str], agents: int = 2, rounds: int = 3) -> dict[str, list[str]]:
    """Debaters who choose [0] and say who they are and when, a judge, and a summarizer."""
    debaters = {
        f"agent_{i}": [said for r in range(rounds) for said in ("Evidence: [0]", f"{i} in {r}. [Place {i}]")]
        for i in range(1, agents + 1)
    }
    return {**debaters, "judge": judged, "summarizer": ["It is [Aldmoor]."]}


def talks(model: ScriptedChatModel, agent: str) -> list[RecordedCall]:
    return [asked for asked in calls(model, agent) if asked.act != "select"]


# The pool


def test_the_pool_is_wiki_then_google_in_rank_order_with_nothing_folded() -> None:
    state, model = held(script(["[Yes]"]), **BOTH)
    titles = [state["evidence"][key]["title"] for key in state["numbers"]]
    found = ["On holt", "On moor", *(f"On w{i}" for i in range(3, 11))]
    assert titles == [*found, "On snippet"]  # the second snippet is a passage that is there already
    assert WIKI.asked[-1] == (ASKED["question"], 10) and WEB.asked[-1] == (ASKED["question"], 5)
    prompt = calls(model, "agent_1")[0].text
    assert f"\n[0] On holt: {HOLT}\n[1] On moor: {MOOR}\n" in prompt and "\n[10] On snippet: was born" in prompt
    both = next(piece for piece in state["evidence"].values() if piece["title"] == "On w5")
    assert [origin["source"] for origin in both["origins"]] == ["web", "wiki"]


def test_the_fused_pool_folds_near_duplicates_and_joins_ranks() -> None:
    state, _ = held(script(["[Yes]"]), **BOTH, pool="fused")
    titles = [state["evidence"][key]["title"] for key in state["numbers"]]
    assert titles[:2] == ["On holt", "On w5"] and "On snippet" not in titles


def test_the_board_says_what_was_found_where_and_what_was_chosen() -> None:
    state, _ = held(script(["[Yes]"]), **BOTH, n_wiki=1)
    told, *said = board(state)
    assert (told.agent, told.act, told.source) == ("library", "retrieve", "rule")
    assert told.text.splitlines()[:2] == ["[0] On holt (wiki:holt, rank 1)", "[1] On snippet (web:snippet, rank 1)"]
    assert next(each for each in said if each.act == "select").notes == ("chose [0] On holt",)


@pytest.mark.parametrize(("source", "expected"), [("wiki", 10), ("google", 2), ("all", 11), ("none", 0)])
def test_sources_are_chosen(source: str, expected: int) -> None:
    state, model = held(script(["[Yes]"]), **BOTH, source=source)
    assert len(state["numbers"]) == expected
    assert bool(calls(model, "agent_1", "select")) == bool(expected)


def test_a_question_s_own_documents_can_be_the_pool() -> None:
    question = {**ASKED, "documents": ["The fair of Kell.", "Bern Holt was born there."]}
    state, model = held(script(["[Yes]"]), question, wiki="documents")
    assert [state["evidence"][key]["text"] for key in state["numbers"]] == ["Bern Holt was born there."]
    assert "The fair of Kell." not in calls(model, "agent_1")[0].text


def test_where_one_source_fails_the_other_one_does_and_the_board_says_so() -> None:
    state, _ = held(script(["[Yes]"]), wiki="madra-failing", google="madra-web")
    assert len(state["numbers"]) == 2
    assert board(state)[0].notes == ("a source failed: failing is out of order",)


def test_where_all_sources_fail_nobody_is_asked() -> None:
    model = ScriptedChatModel(script([]))
    with pytest.raises(RetrievalError, match="failing is out of order"):
        create_madra(MADRA(wiki="madra-failing"), models=model).compile().invoke(ASKED)
    assert model.calls == []


def test_a_search_before_later_rounds_is_for_what_debaters_said_and_numbers_stay() -> None:
    WIKI.asked.clear()
    state, _ = held(script(["[No]"] * 3), search_again=True, n_wiki=2)
    assert [query for query, _ in WIKI.asked] == [
        ASKED["question"],
        *(f"{i} in {r}. [Place {i}]" for r in (0, 1) for i in (1, 2)),
    ]
    assert len(state["numbers"]) == 2  # the same was found again, by others
    origins = state["evidence"][state["numbers"][0]]["origins"]
    assert {(each["agent"], each["round"]) for each in origins} == {
        ("", 0), ("agent_1", 1), ("agent_2", 1), ("agent_1", 2), ("agent_2", 2),
    }  # fmt: skip


# What is chosen


def test_debaters_talk_with_what_they_chose_alone_and_choose_again_in_every_round() -> None:
    replies = script(["[No]", "[Yes]"]) | {"agent_2": ["[1] [0]", "Hm. [Place 2]", "[No Found]", "So. [Place 2]"]}
    _, model = held(replies)
    first, second = talks(model, "agent_2")
    assert f"[1] On moor: {MOOR}\n[0] On holt: {HOLT}\n</evidence>" in first.text and "On w3" not in first.text
    assert "<evidence>" not in second.text
    assert f"[0] On holt: {HOLT}\n</evidence>" in talks(model, "agent_1")[1].text


def test_without_self_selection_all_of_the_pool_is_read_and_nobody_is_asked_to_choose() -> None:
    replies = {"agent_1": ["[A]"], "agent_2": ["[A]"], "judge": ["[Yes]"], "summarizer": ["[A]"]}
    _, model = held(replies, self_selection=False)
    assert len(model.calls) == 4 and all(f"[{i}] On" in calls(model, "agent_1")[0].text for i in range(10))


class Cut(ScriptedChatModel):
    """Is cut at the token limit in its choices."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        result = super()._generate(messages, stop, run_manager, **kwargs)
        if "tells" in str(result.generations[0].message.text):
            result.generations[0].message.response_metadata["finish_reason"] = "length"
        return result


def test_a_choice_that_was_cut_before_its_line_is_none_and_the_board_says_so() -> None:
    """Whatever an explanation mentioned before its end was chosen."""
    cut = "[0] tells of a fair, and"
    said = script(["[Yes]"]) | {
        "agent_1": [cut, cut, "So. [Place 1]"],
        "agent_2": ["It tells.\nEvidence: [1", "Evidence: [1]", "So. [Place 2]"],
    }
    said["summarizer"] = ["It is [Aldmoor].", " Aldmoor"]
    model = Cut(replies=said)
    graph = create_madra(MADRA(wiki="madra-wiki"), models=model).compile()
    state: Any = graph.invoke(ASKED, output_keys=KEYS)
    notes = {message.agent: message.notes for message in board(state) if message.act == "select"}
    assert (notes["agent_1"][0], notes["agent_1"][-1]) == ("cut at the token limit", "chose no evidence")
    assert notes["agent_2"][-1] == "chose [1] On moor"


def test_a_guided_choice_can_only_name_pieces_that_there_are() -> None:
    import re

    form = selection_form(11, 3)
    assert form.pattern and form.after == "Evidence:" and not form.unknown
    for text in ("[0]", "[10] [3] [9]", "[No Found]"):
        assert re.fullmatch(form.pattern, text)
    for text in ("", "[11]", "[1] [2] [3] [4]", "[1][2]", "unknown"):
        assert not re.fullmatch(form.pattern, text)


# Who hears whom


def test_the_first_round_is_side_by_side_and_later_ones_are_in_turn() -> None:
    _, model = held(script(["[No]"] * 3, agents=3), agents=3)
    heard_by = {agent: [heard(asked) for asked in talks(model, agent)] for agent in ("agent_1", "agent_2", "agent_3")}
    assert heard_by["agent_1"][:2] == [[], [("agent_2", 0), ("agent_3", 0), ("agent_1", 0)]]
    assert heard_by["agent_2"][:2] == [[], [("agent_1", 1), ("agent_3", 0), ("agent_2", 0)]]
    assert heard_by["agent_3"][2] == [("agent_1", 2), ("agent_2", 2), ("agent_3", 1)]
    assert heard(calls(model, "judge")[1]) == [(f"agent_{i}", 1) for i in (1, 2, 3)]
    assert heard(calls(model, "summarizer")[0]) == [(f"agent_{i}", 2) for i in (1, 2, 3)]


# How often, and who decides


@pytest.mark.parametrize("agents", [2, 3])
def test_calls_are_two_a_debater_and_round_a_judge_a_round_and_a_summarizer(agents: int) -> None:
    state, model = held(script(["[NO]"] * 3, agents), agents=agents)
    assert len(model.calls) == 2 * agents * 3 + 3 + 1
    assert state["decision"]["agreed"] is False and state["decision"]["why"] == "they never agreed in 3 rounds"


def test_an_early_yes_ends_it_after_the_first_round() -> None:
    state, model = held(script(["They do. [Yes]"]))
    assert len(model.calls) == 2 * 2 + 2 and state["round"] == 0
    decision = state["decision"]
    assert (decision["answer"], decision["score"], decision["by"]) == ("Aldmoor", 1.0, "summarizer")
    assert (decision["agreed"], decision["why"]) == (True, "they agreed in round 1")
    assert [(vote["answer"], vote["counts"]) for vote in decision["votes"]] == [("Place 1", False), ("Place 2", False)]


def test_where_the_summarizer_cannot_be_read_the_most_frequent_answer_counts_and_the_first_of_several() -> None:
    state, _ = held(script(["[Yes]"]) | {"summarizer": ["I cannot say.", " unknown"]})
    decision = state["decision"]
    assert decision["answer"] == "Place 1" and "by" not in decision
    assert decision["why"].startswith(
        "they agreed in round 1; the summarizer's answer could not be read: 1 of 2 say Place 1; a tie"
    )


# Its baseline, and what is refused


def test_the_single_agent_reads_the_same_pool() -> None:
    model = ScriptedChatModel(["Aldmoor."])
    graph = create_single(Single(source="all", **BOTH), models=model).compile()
    state = graph.invoke({**ASKED, "documents": ["Not this."]}, output_keys=["board", "decision"])
    (asked,) = model.calls
    assert f"- On holt: {HOLT}\n" in asked.text and "- On snippet: was" in asked.text and "Not this." not in asked.text
    assert board(state)[0].text.startswith("[0] On holt (wiki:holt, rank 1)")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            lambda: MADRA(source="google"),
            "source is 'google', but it has no retriever; add `google='google'` or `source='wiki'`",
        ),
        (
            lambda: Single(source="wiki", closed_book=True),
            "closed_book is on, but source is 'wiki'; leave one of them out",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        settings()
    assert str(refused.value).startswith(message)
