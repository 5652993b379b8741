"""Pages by name, passages as a page, and where sentences end."""

from __future__ import annotations

import pytest

from sottovoce.environments.pages import Page, Pages, SearchPages, sentences

PAGES = Pages(
    [Page("Sève", ("It is green.",)), Page("St. Orla", ()), Page("Sève", ("Another.",))], {"the Weir": "Sève"}
)


@pytest.mark.parametrize("name", ["Sève", "seve", " SE\u0301VE ", "“Sève”", "The weir"])
def test_a_page_is_found_however_its_name_is_written_and_the_first_of_a_title_counts(name: str) -> None:
    page = PAGES.page(name)
    assert page is not None and page.sentences == ("It is green.",)


def test_what_is_not_there_has_similar_titles() -> None:
    assert PAGES.page("Sev") is None and PAGES.page("") is None
    assert PAGES.similar("saint orla", 5) == ["St. Orla", "Sève"] and PAGES.similar("Seve!", 1) == ["Sève"]


def test_passages_are_one_page_by_the_name_that_was_searched() -> None:
    found = SearchPages(lambda query: ["One. Two.", f"About {query}."] if query else [])
    assert found.page("Orla") == Page("Orla", ("One.", "Two.", "About Orla."))
    assert found.page("") is None and found.similar("Orla", 5) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Dr. J. Orme came. He left at 3 p.m. on foot.", ["Dr. J. Orme came.", "He left at 3 p.m. on foot."]),
        ("He said “Never.” Then St. Orla slept!\nSo it was", ["He said “Never.”", "Then St. Orla slept!", "So it was"]),
        ("No. 4 burnt. Œuvre.", ["No. 4 burnt.", "Œuvre."]),
        ("Он спал. Река течёт, см. карту. Élan.", ["Он спал.", "Река течёт, см. карту.", "Élan."]),
        ("See e.g. Orla. Prof. Ash left.", ["See e.g. Orla.", "Prof. Ash left."]),
        ("", []),
    ],
)
def test_sentences_end_behind_no_abbreviation(text: str, found: list[str]) -> None:
    assert list(sentences(text)) == found
