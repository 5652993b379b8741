"""What a run is asked: options for files and samples, and what contradicts itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.datasets.facts import BRIEFINGS
from sottovoce.datasets.question_source import QuestionOptions, questions_of
from sottovoce.datasets.samples import MAX_SAMPLES, SAMPLES, samples
from sottovoce.datasets.steps import STEPS
from sottovoce.environments import GAMES
from sottovoce.graphs.debate import Debate
from tests.datasets.test_question_files import SUMS, lines


def options(**given: Any) -> QuestionOptions:
    return QuestionOptions.model_validate(given)


def test_the_first_rows_that_meet_the_conditions_are_asked(tmp_path: Path) -> None:
    path = lines(tmp_path, *SUMS)
    given = options(questions=path, where=["level > 1"], limit=1, kind="text", task_description="Sums.")
    (question,), origin = questions_of(given, Debate())
    assert (question["id"], question["kind"], question["description"]) == ("7", "text", "Sums.")
    assert origin.words == "1 row of q.jsonl with level>1"
    assert origin.metadata == {"7": {"subject": "products", "level": 2}} and len(origin.digest or "") == 64
    assert questions_of(options(questions=path), Debate())[1].words == "all 3 rows of q.jsonl"


def test_a_row_keeps_its_own_kind_and_task(tmp_path: Path) -> None:
    path = lines(tmp_path, {"question": "?", "kind": "number", "description": "Own."}, {"question": "!"})
    given = options(questions=path, kind="text", task_description="Sums.")
    asked, _ = questions_of(given, Debate())
    assert [(each["kind"], each["description"]) for each in asked] == [("number", "Own."), ("text", "Sums.")]


def test_rows_that_are_asked_must_suit_the_agents_and_others_need_not(tmp_path: Path) -> None:
    path = lines(tmp_path, SUMS[0], {"question": "?", "documents": {"agent_3": ["x"]}, "level": 9})
    with pytest.raises(UsageError, match=r"line 2 of question file .*: unknown agent among the documents: 'agent_3'"):
        questions_of(options(questions=path), Debate())
    assert len(questions_of(options(questions=path), Debate(agents=3))[0]) == 2
    assert len(questions_of(options(questions=path, where=["level<9"]), Debate())[0]) == 1
    with pytest.raises(UsageError, match=r"line 1 of .*: agent 'agent_1' is an expert, but the question has no 'solut"):
        questions_of(options(questions=path, limit=1), Debate(role=["expert", "debater"]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"question": "?", "questions": "q"}, "a question and --questions were given; give one of them"),
        ({"sample": "split", "questions": "q"}, "--sample and --questions were given; give one of them"),
        ({"target": "3", "questions": "q"}, "--target belongs to one question; with --questions it is a column"),
        ({"kind": "text"}, "--kind belongs to a question, but no question was given; give one, or drop it"),
        ({"where": ["a=b"]}, "--where chooses rows of a file, but no file was given"),
        ({"question": "?", "limit": 2}, "--limit is for --questions and --sample, and one question was given"),
        ({"seeds": [0, 1, 0]}, "--seeds are 0, 1, 0; give each once"),
        ({"sample": "facts", "limit": 289}, "`limit=` is 289; `sample='facts'` has at most 288"),
        ({"sample": "arithmetic", "limit": 10**11}, "`limit=` is 100,000,000,000; `sample='arithmetic'` has"),
        ({"sample": "riddles/1"}, "unknown sample 'riddles/1'; the nearest known one is "),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        questions_of(options(**given), Debate())
    assert str(error.value).startswith(said)


def test_a_seed_and_seeds_are_not_both_taken() -> None:
    with pytest.raises(UsageError, match="--seed and --seeds were given; give one of them"):
        questions_of(options(question="?", seeds=[1, 2]), Debate(seed=1))
    assert options(seeds=["1", "2"]).seeds == [1, 2]


WITHOUT_SETTINGS = [name for name in SAMPLES if not any(name in names for names in GAMES.values())]


@pytest.mark.parametrize("name", WITHOUT_SETTINGS)
def test_a_set_of_samples_begins_with_the_one_of_its_seed_and_another_seed_has_others(name: str) -> None:
    (alone,), one = questions_of(options(sample=f"{name}/3"), Debate())
    many, origin = questions_of(options(sample=f"{name}/3", limit=40), Debate())
    assert many[0] == alone and one.words == (origin.words or "").replace("40 ", "").replace("samples", "sample")
    assert [each["id"] for each in many] == [f"{name}/3/{i}" for i in range(40)]
    assert len({each["question"] for each in [*many, *samples(name, 1, Debate(), 4)]}) == 41
    assert all(each["solution"] not in each["decoys"] and len({*each["decoys"]}) == 3 for each in many)
    assert samples(name, 41, Debate(), 3)[:40] == many


@pytest.mark.parametrize("name", [*BRIEFINGS, *STEPS, "facts"])
def test_a_seed_has_as_many_different_samples_as_it_says(name: str) -> None:
    assert len({each["question"] for each in samples(name, MAX_SAMPLES[name], Debate(), 1)}) == MAX_SAMPLES[name]


def test_facts_come_to_an_end_and_their_decoys_do_not() -> None:
    assert samples("facts", 288, Debate(), 0)[-1]["decoys"] == [
        each["solution"] for each in samples("facts", 3, Debate(), 0)
    ]


def test_samples_show_the_worked_examples_of_an_experiment() -> None:
    given = options(sample="work_facts", limit=2, task_demonstration=["One.", "Two."])
    asked, origin = questions_of(given, Debate())
    assert [each["demonstrations"] for each in asked] == [["One.", "Two."]] * 2
    assert origin.words == "2 samples work_facts/0 made from a seed, with 2 worked examples"
    assert [{**each, "demonstrations": ["One.", "Two."]} for each in samples("work_facts", 2, Debate(), 0)] == asked


@pytest.mark.parametrize(
    ("limit", "words"), [(None, "held-out sample arithmetic/0"), (2, "2 held-out samples arithmetic/0")]
)
def test_without_a_question_held_out_samples_are_asked(limit: int | None, words: str) -> None:
    asked, origin = questions_of(options(limit=limit), Debate())
    assert len(asked) == (limit or 1) and origin.words == f"{words} of the bundled set"
