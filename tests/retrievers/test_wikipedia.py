"""MediaWiki's interface, asked of a server of the tests' own."""

from __future__ import annotations

import pytest

from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.retrievers import open_retriever
from sottovoce.retrievers.wikipedia import VARIABLE, Wikipedia
from tests.retrievers.services import AT_ONCE, HTML, Reply, Service, serving
from tests.retrievers.support import docids

CONTACT = "me@example.org"


def page(n: int, **more: object) -> dict[str, object]:
    told = {
        "pageid": n,
        "title": f"Mill {n}",
        "index": n,
        "extract": f"Text {n}.",
        "fullurl": f"https://x.test/Mill_{n}",
    }
    return {**told, **more}


def pages(*found: dict[str, object]) -> Reply:
    return Reply({"batchcomplete": True, "query": {"pages": list(found)}})


FOUND = pages(page(3), page(1), page(2))
MISSING = pages({"title": "Mill", "missing": True})


def wikipedia(service: Service) -> Wikipedia:
    return Wikipedia(service.address, contact=CONTACT, patience=AT_ONCE)


def test_articles_come_in_the_order_of_the_search_with_their_address() -> None:
    with serving(FOUND) as service:
        found = wikipedia(service).search("mill & river", 3)

    assert docids(found) == ["1", "2", "3"]
    assert found[0].passage.url == "https://x.test/Mill_1"
    (asked,) = service.asked
    assert asked["User-Agent"].startswith("sottovoce/") and CONTACT in asked["User-Agent"]
    assert (asked["gsrsearch"], asked["gsrlimit"], asked["exintro"], asked["maxlag"]) == ("mill & river", "3", "1", "5")


def test_no_more_is_asked_for_than_the_interface_gives_and_a_place_that_is_no_number_is_passed_over() -> None:
    with serving(pages(page(2, index="x"), page(1))) as service:
        assert docids(wikipedia(service).search("mill", 500)) == ["2", "1"]
    assert (service.asked[0]["gsrlimit"], service.asked[0]["exlimit"]) == ("20", "20")


@pytest.mark.parametrize("reply", [Reply({"batchcomplete": True}), pages(), pages(page(1, extract=""))])
def test_nothing_found_is_no_error(reply: Reply) -> None:
    with serving(reply) as service:
        assert wikipedia(service).search("mill", 3) == []


def test_a_page_is_given_whole_or_not_at_all() -> None:
    with serving(pages(page(1)), MISSING) as service:
        wiki = wikipedia(service)
        found, missing = wiki.page("Mill 1"), wiki.page("Mill")
        assert wiki.page("Mill 1|Mill 2") is None  # "|" parts titles, and is not asked for

    assert found is not None and (found.title, found.text) == ("Mill 1", "Text 1.") and missing is None
    assert [each.get("titles") for each in service.asked] == ["Mill 1", "Mill", None]
    assert service.asked[0]["redirects"] == "1" and "exintro" not in service.asked[0]


def near(*titles: str) -> Reply:
    return Reply({"query": {"search": [{"title": title} for title in titles]}})


def test_a_title_in_other_letters_opens_as_on_the_search_page() -> None:
    with serving(MISSING, near("Mill 1"), pages(page(1))) as service:
        found = wikipedia(service).page("MILL 1")
    assert found is not None and found.title == "Mill 1"
    assert [each.get("titles") for each in service.asked] == ["MILL 1", None, "Mill 1"]
    assert (service.asked[1]["srsearch"], service.asked[1]["srwhat"]) == ("MILL 1", "nearmatch")


def test_a_page_that_tells_what_its_name_may_mean_is_none() -> None:
    """It was opened as an article: "Mill may refer to:"."""
    with serving(pages(page(1, pageprops={"disambiguation": ""}))) as service:
        assert wikipedia(service).page("Mill") is None
    assert (service.asked[0]["prop"], service.asked[0]["ppprop"]) == ("extracts|info|pageprops", "disambiguation")


def test_similar_titles_are_named() -> None:
    with serving(Reply({"query": {"search": [{"title": "Mill"}, {"title": "Miller"}]}})) as service:
        assert wikipedia(service).similar("mil", 5) == ["Mill", "Miller"]


LAG = Reply({"error": {"code": "maxlag", "info": "Waiting for a database server: 6 seconds lagged."}})


@pytest.mark.parametrize(
    ("reply", "told", "times"),
    [
        (Reply({"error": {"code": "badvalue", "info": "Unknown."}}), r"answered badvalue: Unknown\.", 1),
        (LAG, r"answered maxlag: Waiting for a database server: 6 seconds lagged\. \(asked 3 times\)", 3),
        (Reply({}, 429), r"allows no more requests now \(429\) \(asked 3 times\)", 3),
        (HTML, "answered 200 with text/html instead of JSON: .*", 1),
        (Reply({"query": {"pages": {"1": {}}}}), "returned .* for 'pages'; expected a list of pages", 1),
    ],
)
def test_what_goes_wrong_is_one_clear_line(reply: Reply, told: str, times: int) -> None:
    with serving(reply) as service, pytest.raises(RetrievalError, match=f"^wikipedia {told}$"):
        wikipedia(service).search("mill", 3)
    assert len(service.asked) == times


def test_nobody_to_contact_and_no_address_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(
        UsageError, match=r"^wikipedia requires .*: set SOTTOVOCE_CONTACT to your email address or web page$"
    ):
        open_retriever("wikipedia")
    with pytest.raises(UsageError, match=r"^wikipedia 'En wiki': expected a language like 'en', or the address"):
        open_retriever("wikipedia:En wiki")
