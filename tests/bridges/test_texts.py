"""The texts of a fit: what is drawn, what never occurs in it, and which files can be read."""

from __future__ import annotations

import json
import random
import re
from itertools import islice
from pathlib import Path

import pytest

from sottovoce.bridges.texts import FACTS, IN_A_SENTENCE, LONGEST, REPEAT, SHORTLY, Lesson, Texts, natural_texts
from sottovoce.core.errors import UsageError
from sottovoce.datasets.facts import ATTRIBUTES, PAIRS
from tests.bridges.support import deep, narrow

SAMPLED = [part for each in ATTRIBUTES for part in (each.fact, each.question)] + [
    part for pairs in PAIRS.values() for pair in pairs for part in (pair.first, pair.second, pair.question)
]
"""Templates of `briefing`, and of the samples of two facts."""
COMMON = set("a which the have is what many that does in was for how of has where".split())
"""Words without a content of their own, which both sides use."""


@pytest.fixture(scope="module")
def lessons() -> list[Lesson]:
    texts = Texts.of(narrow(), deep())
    return [*islice(texts.lessons(random.Random(0)), 300)]


def words(texts: list[str]) -> set[str]:
    return set(re.findall(r"[a-z]+", " ".join(re.sub(r"\{\w+\}", " ", each) for each in texts).lower()))


def test_no_relation_of_the_samples_is_asked_about_in_a_fit() -> None:
    own = [part for fact, *questions in FACTS for part in (fact, *(question for question, _ in questions))]
    assert words([*own, *SHORTLY, *IN_A_SENTENCE, REPEAT]) & words(SAMPLED) <= COMMON


def test_no_wording_of_the_samples_is_in_a_text_of_a_fit() -> None:
    """Seen: every fourth article of the encyclopedia says where somebody was born."""
    longest = {max(re.split(r"\{\w+\}", each), key=len).strip(" .?") for each in SAMPLED}
    texts = natural_texts(None)
    assert len(texts) > 200 and [core for core in longest if any(core in text for text in texts)] == ["bridges"]


def test_a_fit_reads_facts_lists_and_natural_texts(lessons: list[Lesson]) -> None:
    articles = {text[:LONGEST] for text in natural_texts(None)}
    natural = [each for each in lessons if not each.asked]
    lists = [each for each in lessons if [request for request, _ in each.asked] == [REPEAT]]
    assert (len(natural), len(lists)) == (60, 60)
    assert all(each.text in articles for each in natural)
    assert all(20 <= len(each.text.split()) <= 40 for each in lists)


def test_the_wanted_reply_to_a_question_is_in_the_text(lessons: list[Lesson]) -> None:
    asked = [(each.text, request, reply) for each in lessons for request, reply in each.asked]
    assert all(reply == text for text, request, reply in asked if request == REPEAT)
    assert all(reply.rstrip(".") in text for text, _, reply in asked)
    templates = [question.partition("{")[0] for _, *questions in FACTS for question, _ in questions]
    used = {start for start in templates for _, request, _ in asked if request.startswith(start)}
    assert used == set(templates)


def test_equal_seeds_draw_equal_lessons_and_words_of_both_vocabularies(lessons: list[Lesson]) -> None:
    texts = Texts.of(narrow(), deep())
    assert [*islice(texts.lessons(random.Random(0)), 300)] == lessons
    assert [*islice(texts.lessons(random.Random(1)), 5)] != lessons[:5]
    vocabulary = {token.lstrip("Ġ") for loaded in (narrow(), deep()) for token in loaded.tokenizer.get_vocab()}
    assert texts.words and set(texts.words) <= vocabulary
    assert all(re.fullmatch("[a-z]{3,9}", word) for word in texts.words)


# Texts of a user


def test_passages_or_questions_are_read_instead_of_the_encyclopedia(tmp_path: Path) -> None:
    passages, questions = tmp_path / "passages.jsonl", tmp_path / "questions.jsonl"
    passages.write_text(json.dumps({"id": "1", "title": "Orn", "text": "The Orn is wet."}) + "\n")
    questions.write_text(json.dumps({"question": "Why?", "target": "so", "documents": ["It is so."]}) + "\n")
    assert natural_texts(passages) == ["The Orn is wet."]
    assert natural_texts(questions) == ["Why?", "It is so."]
    texts = Texts.of(narrow(), deep(), questions)
    natural = {each.text for each in islice(texts.lessons(random.Random(0)), 50) if not each.asked}
    assert natural == {"Why?", "It is so."}


@pytest.mark.parametrize(
    ("name", "content"),
    [("missing.jsonl", None), ("words.txt", "no table"), ("empty.jsonl", ""), ("numbers.jsonl", '{"a": 1}\n')],
)
def test_other_files_are_refused_in_one_line(name: str, content: str | None, tmp_path: Path) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=r"is neither a file of passages .* nor of questions") as refusal:
        natural_texts(file)
    assert "\n" not in str(refusal.value)


def test_a_folder_of_texts_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is neither a file of passages"):
        natural_texts(tmp_path)
