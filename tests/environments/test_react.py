"""The world of ReAct: what is read as an action, what it shows, and the pages that it searches."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.environments.encyclopedia import encyclopedia
from sottovoce.environments.react import LONGEST, Action, Malformed, Page, Pages, World, first_state, parse, step
from sottovoce.prompts.kinds.kind import sentences
from tests.tables import each_row


class Shelf:
    """A few pages."""

    def __init__(self, *pages: Page) -> None:
        self.pages = {page.title: page for page in pages}

    def page(self, name: str) -> Page | None:
        return self.pages.get(name)

    def similar(self, name: str, n: int) -> list[str]:
        return [*self.pages][:n]


CITY = Page(
    "Aldmoor", ("It is old.", "Its river is deep.", "It has a mill.", "Mills burn.", "So it goes.", "The mill burnt.")
)
SHELF = Shelf(CITY, Page("Empty", ()), Page("Moor", (), ("Aldmoor", "Moor Street")))


def played(*actions: str) -> tuple[list[str], World]:
    world, seen = first_state(), list[str]()
    for action in actions:
        observation, world = step(SHELF, world, parse(action))
        seen.append(observation)
    return seen, world


@each_row(
    ("text", "action"),
    [
        ("Search[Aldmoor]", "Search[Aldmoor]"),
        ("Action 3: **LOOKUP[mill]**", "Lookup[mill]"),
        ("Finish['the Orla']", "Finish[the Orla]"),
        ("I think I should look it up.\nAction: Search[Foo [1]]", "Search[Foo [1]]"),
        ("Search[A] Search[B]", "Search[A]"),
        ("Search[Foo [1]", "Search[Foo [1]"),
        ("Finish[]", "Finish[]"),
    ],
)
def test_actions_are_read_as_models_write_them(text: str, action: str) -> None:
    assert str(parse(text)) == action


@each_row(
    ("text", "why"),
    [
        ("", "no action; expected Search[a title], Lookup[a word] or Finish[an answer]"),
        ("Research[x]", "no action"),
        ("Think[of Aldmoor]", "no action"),
        ("Search[Aldmoor\n]", "'Search[' has no end"),
        ("Finish[yes", "'Finish[' has no end; expected a closing bracket, as in Finish[an answer]"),
        ("Lookup[ ]", "Lookup[] names nothing"),
    ],
)
def test_what_is_no_action_says_why_and_takes_the_step(text: str, why: str) -> None:
    action = parse(text)
    assert isinstance(action, Malformed) and why in action.why
    (_, seen), world = played("Search[Aldmoor]", text)
    assert seen == f"Invalid action: {action.why}." and world["title"] == "Aldmoor"


@given(st.text(alphabet="Searchlokupfinish[] \n'\"x", max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    action = parse(text)
    assert isinstance(action, Malformed) or "\n" not in action.argument


def test_a_search_shows_five_sentences_and_a_look_up_the_others() -> None:
    seen, world = played("Search[Aldmoor]", "Lookup[MILL]", "Lookup[mill]", "Lookup[Míll]", "Lookup[mill]")
    assert seen[0] == "It is old. Its river is deep. It has a mill. Mills burn. So it goes."
    assert seen[1:4] == [
        "(Result 1 / 3) It has a mill.",
        "(Result 2 / 3) Mills burn.",
        "(Result 3 / 3) The mill burnt.",
    ]
    assert seen[4] == "No more results." and world["found"] == 3


def test_another_word_and_another_page_begin_anew() -> None:
    seen, _ = played(
        "Search[Aldmoor]", "Lookup[mill]", "Lookup[river]", "Lookup[mill]", "Search[Aldmoor]", "Lookup[mill]"
    )
    assert [text for text in seen if text.startswith("(")] == [
        "(Result 1 / 3) It has a mill.", "(Result 1 / 1) Its river is deep.", "(Result 1 / 3) It has a mill.",
        "(Result 1 / 3) It has a mill.",
    ]  # fmt: skip


def test_what_is_not_found_or_ambiguous_leaves_the_page_open_and_tells_titles() -> None:
    seen, world = played("Search[Aldmoor]", "Search[Aldmor]", "Search[Moor]", "Lookup[river]")
    assert seen[1] == "Could not find Aldmor. Similar: ['Aldmoor', 'Empty', 'Moor']."
    assert seen[2] == "Could not find Moor. Similar: ['Aldmoor', 'Moor Street']."
    assert seen[3] == "(Result 1 / 1) Its river is deep." and world["title"] == "Aldmoor"
    assert step(Shelf(), first_state(), Action("search", "Orla"))[0] == "Could not find Orla."


def test_without_a_page_or_sentences_there_is_nothing_to_look_up() -> None:
    seen, _ = played("Lookup[mill]", "Search[Empty]", "Lookup[mill]")
    assert seen == ["No page is open: search for one first.", "The page Empty is empty.", "No more results."]


def test_after_finish_nothing_happens() -> None:
    seen, world = played("Finish[Orla]", "Search[Aldmoor]", "Finish[Mirn]")
    assert (world["answer"], world["title"], len(set(seen))) == ("Orla", None, 1)
    assert played("Finish[]")[1]["answer"] == ""


def test_a_long_observation_is_cut() -> None:
    library = Shelf(Page("Long", ("x" * 9000,)))
    seen, _ = step(library, first_state(), Action("search", "Long"))
    assert len(seen) == LONGEST and seen.endswith("x ...")


def test_the_world_is_plain_json() -> None:
    _, world = played("Search[Aldmoor]", "Lookup[mill]", "Finish[x]")
    assert json.loads(json.dumps(world)) == world
    untouched: Any = first_state()
    step(SHELF, untouched, Action("search", "Aldmoor"))
    assert untouched == first_state()


def test_the_encyclopedia_finds_other_names_and_tells_what_an_ambiguous_one_may_mean() -> None:
    world = encyclopedia()
    assert step(world, first_state(), parse("Search[lysk]"))[1]["title"] == "Łysk"
    assert step(world, first_state(), parse("Search[Dr. Halm]"))[1]["title"] == "Ines Halm"
    seen, after = step(world, first_state(), parse("Search[Orla]"))
    assert seen == "Could not find Orla. Similar: ['Orla (river)', 'Orla Vance', 'St. Orla']." and not after["title"]
    assert "'Orla Vance'" in step(world, first_state(), parse("Search[Orla Vane]"))[0]


# Pages

PAGES = Pages(
    [Page("Sève", ("It is green.",)), Page("St. Orla", ()), Page("Sève", ("Another.",))], {"the Weir": "Sève"}
)


@each_row("name", ["Sève", "seve", " SE\u0301VE ", "“Sève”", "The weir"])
def test_a_page_is_found_however_its_name_is_written_and_the_first_of_a_title_counts(name: str) -> None:
    page = PAGES.page(name)
    assert page is not None and page.sentences == ("It is green.",)


def test_names_keep_their_signs() -> None:
    """Showed as one page of three: who searched for C++ read about C."""
    pages = Pages(Page(name, (f"It is {name}.",)) for name in ("C", "C++", "C#"))
    found = [page and page.title for name in ("c", "c++", "“C#”") for page in [pages.page(name)]]

    assert found == ["C", "C++", "C#"]


def test_what_is_not_there_has_similar_titles() -> None:
    assert PAGES.page("Sev") is None and PAGES.page("") is None
    assert PAGES.similar("saint orla", 5) == ["St. Orla", "Sève"] and PAGES.similar("Seve!", 1) == ["Sève"]


@each_row(
    ("text", "found"),
    [
        ("Dr. J. Orme came. He left at 3 p.m. on foot.", ["Dr. J. Orme came.", "He left at 3 p.m. on foot."]),
        ("He said “Never.” Then St. Orla slept!\nSo it was", ["He said “Never.”", "Then St. Orla slept!", "So it was"]),
        ("No. 4 burnt. Œuvre.", ["No. 4 burnt.", "Œuvre."]),
        ("See e.g. Orla. Prof. Ash left.", ["See e.g. Orla.", "Prof. Ash left."]),
        ("", []),
    ],
)
def test_sentences_end_behind_no_abbreviation(text: str, found: list[str]) -> None:
    assert list(sentences(text)) == found
