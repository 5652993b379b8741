"""The bundled encyclopedia, its questions, and its index: questions are only answered by reading."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.environments.encyclopedia import Type, encyclopedia, open_encyclopedia, questions
from sottovoce.environments.react import first_state, parse, step
from sottovoce.retrievers import open_retriever

ALL = [asked for type in get_args(Type) for asked in questions(type)]


def test_every_name_finds_its_article_and_options_are_titles() -> None:
    world = encyclopedia()
    assert Counter(article.kind for article in world.articles).total() == 449
    for article in world.articles:
        for name in (article.title, *article.aliases):
            page = world.page(name)
            assert page and page.title == article.title
        assert all(option in world.by_title for option in article.options)
    assert sum(bool(article.options) for article in world.articles) >= 5


def test_the_gold_steps_show_what_is_needed_and_a_bridge_names_nothing_unseen() -> None:
    world = encyclopedia()
    for asked in ALL:
        at, seen, known = first_state(), "", asked.text
        for action in map(parse, asked.steps[:-1]):
            assert asked.type != "bridge" or action.verb == "lookup" or action.argument in known  # type: ignore[union-attr]  # gold ones are whole
            observation, at = step(world, at, action)
            seen, known = f"{seen} {observation}", known + observation
        told = [world.by_title[title].sentences[place] for title, place in asked.gold if place is not None]
        assert all(sentence in seen for sentence in told) and (told or "No more results." in seen)
        assert asked.steps[-1] == f"Finish[{asked.answer}]" and len(asked.steps) <= 7


def test_it_is_a_retriever_by_name() -> None:
    best = open_retriever("encyclopedia").invoke("Which physician found the cause of marsh fever?")[0]
    assert (best.metadata["title"], best.metadata["source"]) == ("Ines Halm", "encyclopedia")
    with pytest.raises(UsageError, match=r"encyclopedia:x does not exist; use encyclopedia"):
        open_encyclopedia("x")
