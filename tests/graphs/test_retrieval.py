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
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.evidence import Articles, library_of
from sottovoce.prompts.render import Prompts
from sottovoce.retrievers import Passage, register_retriever
from sottovoce.retrievers.bm25 import BM25Index
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
    messages = map(Message.from_dict, state["board"])
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
    assert "[0] New mill (mills:new, rank 1, year 1902)" in state["board"][0]["text"]
    assert heard_of(state) == [["new", "old"]]
    assert retrieval(QUESTION, [*map(Message.from_dict, state["board"])])["nDCG@10"] == pytest.approx(0.6309, abs=1e-4)


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


PIECES = [
    {"title": "Aldmoor", "text": "It is old. It has a mill."},
    {"title": "Bern Holt", "text": "Bern Holt slept."},
    {"title": "aldmoor", "text": "The mill burnt."},
    {"text": "Nobody knows."},
]


def test_passages_of_one_title_are_one_page() -> None:
    """All but the first were never found: the passages of data sets are pieces of articles."""
    question: Any = {"question": "Q?", "id": "1", "documents": PIECES}
    library = library_of(RunContext(ReAct(library="documents"), {}, Prompts()), question)
    page = library.page("Aldmoor")
    assert page is not None and page.sentences == ("It is old.", "It has a mill.", "The mill burnt.")
    assert library.similar("Document 4", 1) == ["Document 4"]


BERN = """Bern Holt (1871 - 1940) was a miller. He was born in Aldmoor.

== Life and work ==
Holt never travelled.
=== Two mills he built ===
The old mill of Kell
Notes

== See also ==
Aldmoor
"""


class Recorded:
    """A wiki with one article, which is found by a search only."""

    def page(self, title: str) -> Passage | None:
        return Passage("1", BERN, title) if title == "Bern Holt" else None

    def similar(self, query: str, n: int) -> list[str]:
        return ["Bern Holt", "Holt (surname)", "Bern"][:n]


def test_of_an_article_paragraphs_and_lists_are_read_and_headings_are_not() -> None:
    """ "== Life and work ==" was shown as a sentence."""
    page = Articles(Recorded()).page("Bern Holt")
    assert page is not None and page.sentences == (
        "Bern Holt (1871 - 1940) was a miller.", "He was born in Aldmoor.", "Holt never travelled.",
        "The old mill of Kell",
    )  # fmt: skip


def test_the_right_title_stands_among_the_similar_ones() -> None:
    """It was left out, since it is spelt like the name that was searched."""
    assert Articles(Recorded()).similar("BERN HOLT", 2) == ["Bern Holt", "Holt (surname)"]
