"""EM and F1 at the edges of SQuAD's definitions; recall, nDCG and gold passages beside trec_eval; both in runs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.datasets.answers import FEVER
from sottovoce.datasets.data_set import Row
from sottovoce.datasets.spans import HOTPOTQA
from sottovoce.graphs.ia import IA
from sottovoce.nodes.question import Question
from sottovoce.runs.measures import OF_RETRIEVAL, exact_match, f1, names_for_trec, retrieval
from tests.runs.single import Task, run_one
from tests.runs.support import held


def origin(docid: str, rank: int = 1) -> dict[str, Any]:
    return {"source": "wiki", "docid": docid, "rank": rank, "score": 1.0, "query": "q", "agent": "", "round": 0}


def found(*docids: str, title: str = "") -> Message:
    evidence = tuple({"title": title, "origins": [origin(docid, rank)]} for rank, docid in enumerate(docids, 1))
    return Message("library", 0, "retrieve", "", source="rule", evidence=evidence)


@pytest.mark.parametrize("seed", range(3))
def test_measures_are_those_of_trec_eval(seed: int) -> None:
    rng = random.Random(seed)
    docids = [f"d{i}" for i in range(30)]
    gold = {docid: rng.choice([0, 1, 1, 3]) for docid in rng.sample(docids, rng.randint(1, 15))} | {"unseen": 2}
    ranked = rng.sample(docids, rng.randint(0, 20))

    run = {"q": {docid: float(-place) for place, docid in enumerate(ranked)} or {"none": 0.0}}
    evaluator = pytrec_eval.RelevanceEvaluator({"q": gold}, {"recall.5,10", "ndcg_cut.10"})
    expected = evaluator.evaluate(run)["q"]

    ours = retrieval({"question": "?", "gold_passages": gold}, [found(*ranked)])
    assert [ours["recall@5"], ours["recall@10"], ours["nDCG@10"]] == pytest.approx(
        [expected["recall_5"], expected["recall_10"], expected["ndcg_cut_10"]]
    )
    wanted = {docid for docid, degree in gold.items() if degree}
    assert ours["gold found"] == float(bool(wanted & {*ranked})) and ours["all gold found"] == 0


def test_a_passage_goes_by_its_docid_its_source_and_its_title_and_counts_once() -> None:
    for gold in ("7", "wiki:7", "Harrow mill", "Harrow_mill"):
        message = found("3", "7", title="Harrow mill")  # two passages of one page
        measures = retrieval({"question": "?", "gold_passages": [gold]}, [message])
        assert measures["recall@5"] == measures["all gold found"] == 1 >= measures["nDCG@10"] > 0.6


def test_a_search_that_found_nothing_counts_and_a_discussion_without_one_does_not() -> None:
    question: Any = {"question": "?", "gold_passages": ["a"]}
    assert retrieval(question, [found()]) == dict.fromkeys(OF_RETRIEVAL, 0.0)
    assert retrieval(question, [Message("agent_1", 0, "answer", "a")]) == {}
    assert retrieval({"question": "?"}, [found("a")]) == {}


def test_a_run_file_names_passages_as_the_judgments_do_and_each_once() -> None:
    """Run files had docids beside titles in qrels, and one docid twice where two sources had it."""
    gold = {"Harrow mill": 2, "9": 1}
    mill, web = {"title": "Harrow mill", "origins": [origin("7")]}, [{**origin("3"), "source": "google"}]
    evidence = (mill, *found("3").evidence, {"title": "", "origins": web})
    message = Message("library", 0, "retrieve", "", source="rule", evidence=evidence)

    names = names_for_trec(gold, [message])

    assert names == ["Harrow_mill", "3", "google:3"]
    evaluator = pytrec_eval.RelevanceEvaluator({"q": {"Harrow_mill": 2, "9": 1}}, {"ndcg_cut.10", "recall.5"})
    expected = evaluator.evaluate({"q": {name: -float(place) for place, name in enumerate(names)}})["q"]
    ours = retrieval({"question": "?", "gold_passages": gold}, [message])
    assert [ours["nDCG@10"], ours["recall@5"]] == pytest.approx([expected["ndcg_cut_10"], expected["recall_5"]])


def test_data_sets_tell_their_gold_passages() -> None:
    hotpot = {"question": "Q?", "answer": "yes", "supporting_facts": [["A", 0], ["B", 1], ["A", 2]]}
    hub = {**hotpot, "supporting_facts": {"title": ["A", "B"], "sent_id": [0, 1]}}
    fever = {"claim": "C.", "label": "REFUTES", "evidence": [[[1, 2, "A_-LRB-film-RRB-", 0]], [[1, 3, None, None]]]}
    assert [HOTPOTQA.read(Row(row))["gold_passages"] for row in (hotpot, hub)] == [["A", "B"]] * 2
    assert FEVER.read(Row(fever))["gold_passages"] == ["A (film)"]
    assert "gold_passages" not in FEVER.read(Row({"claim": "C.", "label": "REFUTES", "evidence": []}))


RIVER: Question = {"question": "On which river does Tarn lie?", "kind": "text", "target": "Orla", "id": "river"}


@pytest.mark.parametrize(
    ("answer", "golds", "em", "overlap"),
    [
        ("An Orla!", ["orla"], 1, 1),
        ("river Orla", ["Orla"], 0, 2 / 3),
        ("river Orla", ["Orla", "the River Orla"], 1, 1),  # an alias
        ("new new york", ["new york city"], 0, 4 / 6),  # a multiset: one "new" is in common
        ("yes", ["yes it is"], 0, 0),  # yes shares no words
        (None, ["Orla"], 0, 0),
    ],
)
def test_em_and_f1_are_squads(answer: str | None, golds: list[str], em: float, overlap: float) -> None:
    assert exact_match(answer, golds) == em
    assert f1(answer, golds) == pytest.approx(overlap)


@pytest.mark.parametrize(
    ("replies", "rule", "score", "measures"),
    [
        (["The answer is New Orla."] * 2, "majority", 1, {"EM": 0, "F1": 2 / 3, "named": 1}),
        (["The answer is Orla.", "The answer is Mirn."], "average", 0.5, {"EM": 0.5, "F1": 0.5, "named": 0.5}),
        (["I cannot say."] * 2, "majority", 0, {"EM": 0, "F1": 0, "named": 0}),
    ],
)
def test_a_few_words_are_measured_by_both(
    tmp_path: Path, replies: list[str], rule: str, score: float, measures: dict[str, float]
) -> None:
    said = {f"agent_{i}": [reply] for i, reply in enumerate(replies, 1)}
    record = held(said, tmp_path, question=RIVER, rule=rule, answer_turn="off")
    assert record.decision is not None and "measures" not in record.decision
    assert record.result().score == score
    assert record.result().measures == pytest.approx(measures)


def test_what_an_expert_was_given_to_say_is_not_measured(tmp_path: Path) -> None:
    said = {"agent_1": ["The answer is Mirn."], "agent_2": []}
    asked: Question = {**RIVER, "solution": "The answer is Orla."}
    role = ["debater", "expert"]
    record = held(said, tmp_path, question=asked, rule="average", role=role, answer_turn="off")
    assert (record.result().score, record.result().measures) == (0, {"EM": 0, "F1": 0, "named": 0})


BOXED, OTHER = "\\boxed{Orla}", "\\boxed{Mirn}"


@pytest.mark.parametrize(
    ("replies", "rule", "score"),
    [
        ([BOXED, "#Q: Which river is it?"], "formatted", 1.0),  # EM was 0.5: it counted the reply without a box
        ([BOXED, "\\boxed{}"], "raw", 1.0),
        ([BOXED, OTHER], "formatted", 0.5),
        ([BOXED, OTHER], "raw", 0.5),
        (["The answer is Orla.", "I cannot tell you."], "raw", 1.0),
    ],
)
def test_of_information_asymmetry_those_answers_are_measured_that_are_scored(
    tmp_path: Path, replies: list[str], score: float, rule: Any
) -> None:
    model = ScriptedChatModel({f"agent_{i}": [reply] for i, reply in enumerate(replies, 1)})
    task = Task("ia", IA(rounds=1, score=rule), RIVER, models=model)
    result = run_one(task, PayloadStore(tmp_path)).result()
    assert (result.score, result.measures["EM"]) == (score, score)
