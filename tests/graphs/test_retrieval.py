"""What searches find, as it stands in state, on the board and in results: ranks, metadata, filters, reranking."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from sottovoce import IA, ReAct, ScriptedChatModel, Single, create_ia, create_react, create_single
from sottovoce.channels.message import Message
from sottovoce.core.errors import UsageError
from sottovoce.retrievers import Passage
from sottovoce.retrievers.bm25 import BM25Index
from sottovoce.retrievers.registry import register_retriever
from sottovoce.runs.measures import retrieval

MILLS = [
    Passage("old", "The mill at Harrow was built by Ana Brook.", "Old mill", metadata={"year": 1821}),
    Passage("new", "The mill of steel at Harrow was built by Tom Reed.", "New mill", metadata={"year": 1902}),
    Passage("bees", "Bees make honey.", "Bees"),
]
register_retriever("mills", lambda where: BM25Index.build(MILLS, source="mills"))
QUESTION: Any = {"question": "Who built the mill of steel at Harrow?", "gold_passages": ["mills:old"], "kind": "text"}


class Backwards(BaseDocumentCompressor):
    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> list[Document]:
        return [*reversed(documents)]


def heard_of(state: dict[str, Any]) -> list[list[str]]:
    """Docids of each search on the board, in order."""
    messages = map(Message.from_dict, [each if isinstance(each, dict) else each.to_dict() for each in state["board"]])
    return [[piece["origins"][0]["docid"] for piece in message.evidence] for message in messages if message.evidence]


async def asked(create: Any, settings: Any, *replies: str) -> dict[str, Any]:
    model = ScriptedChatModel(list(replies))
    found: dict[str, Any] = await create(settings, models=model).compile().ainvoke(QUESTION)
    return found


async def test_ranks_and_metadata_stand_in_state_and_on_the_board_and_are_measured() -> None:
    model = ScriptedChatModel(["Answer: Tom Reed"])
    where: RunnableConfig = {"configurable": {"thread_id": "1"}}
    graph = create_single(Single(source="wiki", wiki="mills"), models=model).compile(InMemorySaver())
    await graph.ainvoke(QUESTION, where)
    state = graph.get_state(where).values

    assert [each.get("metadata") for each in state["documents"]] == [{"year": 1902}, {"year": 1821}]
    assert "[0] New mill (mills:new, rank 1, year 1902)" in state["board"][0].text
    assert heard_of(state) == [["new", "old"]]
    assert retrieval(QUESTION, state["board"])["nDCG@10"] == pytest.approx(0.6309, abs=1e-4)


async def test_a_filter_and_a_reranker_hold_for_every_scheme_that_searches() -> None:
    rerank, filter = f"{__name__}:Backwards", dict[str, str | int | float | bool](year="1821")

    single = await asked(create_single, Single(source="wiki", wiki="mills", filter=filter), "Answer: Tom")
    turned = await asked(create_single, Single(source="wiki", wiki="mills", rerank=rerank), "Answer: Tom")
    settings = IA(library="mills", rerank=rerank, rounds=1)
    dealt = await asked(create_ia, settings, r"\boxed{Tom}", r"\boxed{Tom}")
    relay = ReAct(library="mills", search="passages", filter=filter, agents=1, steps=2)
    steps = await asked(
        create_react, relay, "I look.\nAction 1: Search[mill Harrow]", "So.\nAction 2: Finish[Ana Brook]"
    )

    assert [heard_of(state) for state in (single, turned, dealt, steps)] == [
        [["old"]], [["old", "new"]], [["old", "new"]], [["old"]]
    ]  # fmt: skip


async def test_a_page_that_a_relay_opens_is_what_it_found() -> None:
    steps = ("I look.\nAction 1: Search[Orla Vance]", "So.\nAction 2: Finish[Greyholt]")
    state = await asked(create_react, ReAct(agents=1, steps=2), *steps)
    assert heard_of(state) == [["Orla Vance"]]


def test_a_filter_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^filter is 'year'; expected NAME=VALUE$"):
        Single.model_validate({"filter": ["year"]})
