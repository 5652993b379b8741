"""Wikipedia, or any MediaWiki, through its own interface: search, the beginnings of articles, and whole pages.

Wikimedia asks every program for an address of whoever runs it (https://w.wiki/4wJS), and refuses those
that give none; it is read from SOTTOVOCE_CONTACT.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sottovoce import __version__
from sottovoce.errors import RetrievalError, UsageError
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.service import JSON, Patience, Trouble, answer, words

if TYPE_CHECKING:
    import requests

VARIABLE = "SOTTOVOCE_CONTACT"
MOST = 20
"""Beginnings of articles that one request may ask for (MediaWiki's exlimit)."""
MAXLAG = 5
"""Seconds by which its databases may lag before it may refuse, as it asks of programs."""
BUSY = ("maxlag", "ratelimited", "readonly")
NO_ARTICLE = ("missing", "invalid", "pageprops")
"""What a page has that is none; of its properties only that of a disambiguation is asked for."""
LANGUAGE = re.compile(r"[a-z][a-z-]*")


class Wikipedia:
    """A `Searcher`: the beginnings of articles, as its own search ranks them, at most 20."""

    source = "wikipedia"
    fingerprint = ""  # what it searches changes

    def __init__(self, address: str = "en", *, contact: str | None = None, patience: Patience | None = None) -> None:
        """`address` is a language, or the address of another wiki's `api.php`.

        Raises:
            UsageError: neither a language nor an address, or nobody to contact.
        """
        self._address = _address(address)
        self._contact = (contact or os.environ.get(VARIABLE, "")).strip()
        self._patience = patience or Patience()
        if not self._contact:
            raise UsageError(
                f"wikipedia asks for an address of whoever runs a program: set {VARIABLE} to your mail or page"
            )

    def search(self, query: str, k: int) -> list[Hit]:
        """The articles that are found, the best first, by their first paragraphs; an empty article is passed over.

        Raises:
            RetrievalError: the service did not answer, refused, or answered what cannot be read.
        """
        wanted = {"generator": "search", "gsrsearch": query, "gsrlimit": min(k, MOST), "exlimit": MOST, "exintro": 1}
        pages = sorted(self._pages(wanted), key=_place)
        found = [_passage(page) for page in pages[:k]]
        return [Hit(each, 1 / place) for place, each in enumerate(found, 1) if each.text]

    def page(self, title: str) -> Passage | None:
        """Return a whole article, redirects followed; None where there is none, or one that tells what its name means.

        A title in other letters opens too ("bern holt"), as on the wiki's own search page.

        Raises:
            RetrievalError: as `search`.
        """
        if "|" in title:  # it parts titles, and stands in none
            return None
        page = self._page(title)
        if page is None or page.get("missing"):
            near = self._titles(title, 1, srwhat="nearmatch")
            page = self._page(near[0]) if near else None
        return None if page is None or any(page.get(each) for each in NO_ARTICLE) else _passage(page)

    def similar(self, query: str, n: int) -> list[str]:
        """Return titles that are near to what was looked for.

        Raises:
            RetrievalError: as `search`.
        """
        return self._titles(query, n)

    def _page(self, title: str) -> JSON | None:
        asked = {"prop": "extracts|info|pageprops", "ppprop": "disambiguation", "titles": title, "redirects": 1}
        return next(iter(self._pages({**asked, "exsectionformat": "wiki"})), None)

    def _titles(self, query: str, n: int, **more: str) -> list[str]:
        found = self._ask({"list": "search", "srsearch": query, "srlimit": n, "srprop": "", **more})
        return [str(each["title"]) for each in _listed(found, "search")]

    def _pages(self, wanted: JSON) -> list[JSON]:
        return _listed(self._ask({"prop": "extracts|info", "explaintext": 1, "inprop": "url", **wanted}), "pages")

    def _ask(self, wanted: JSON) -> JSON:
        import requests

        asked = {"action": "query", "format": "json", "formatversion": 2, "maxlag": MAXLAG, **wanted}
        headers = {"User-Agent": f"sottovoce/{__version__} ({self._contact})"}

        def ask() -> requests.Response:
            return requests.get(self._address, params=asked, headers=headers, timeout=self._patience.timeout)

        return answer("wikipedia", ask, _judge, self._patience)


def open_wikipedia(where: str) -> Wikipedia:
    """The Wikipedia of a language (English where none is named), or the wiki at an address."""
    return Wikipedia(where or "en")


def _address(where: str) -> str:
    if LANGUAGE.fullmatch(where):
        return f"https://{where}.wikipedia.org/w/api.php"
    if where.startswith(("https://", "http://")):
        return where
    raise UsageError(f"wikipedia {where!r}: expected a language like 'en', or the address of a wiki's api.php")


def _judge(status: int, found: JSON) -> Trouble | None:
    error = found.get("error")
    if isinstance(error, dict):
        code = str(error.get("code", ""))
        return Trouble(f"answered {code}: {words(error.get('info', ''))}", passing=code in BUSY)
    if status == 429:
        return Trouble("allows no more requests now (429)", passing=True)
    return None if status == 200 else Trouble(f"answered {status}: {words(found)}")


def _listed(found: JSON, name: str) -> list[JSON]:
    """What a query found; an answer without `query` found nothing."""
    listed = found.get("query", {}).get(name, []) if isinstance(found.get("query", {}), dict) else None
    if not (isinstance(listed, list) and all(isinstance(each, dict) and "title" in each for each in listed)):
        raise RetrievalError(f"wikipedia answered {name} that are no list of pages: {words(listed)!r}")
    return listed


def _place(page: JSON) -> int:
    place = page.get("index")
    return place if isinstance(place, int) else 0


def _passage(page: JSON) -> Passage:
    url = page.get("fullurl")
    docid = str(page.get("pageid") or page["title"])
    return Passage(docid, str(page.get("extract") or ""), str(page["title"]), str(url) if url else None)
