"""Wikipedia, or any MediaWiki, through its API: search, introductions of articles, and whole pages.

Wikimedia requires every program to send a contact address of its operator (https://w.wiki/4wJS) and refuses
those that do not. The address is read from SOTTOVOCE_CONTACT.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sottovoce import __version__
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.retriever import PassageRetriever
from sottovoce.retrievers.service import Patience, Trouble, answer, words

if TYPE_CHECKING:
    import requests

VARIABLE = "SOTTOVOCE_CONTACT"
MAX_PAGES = 20
"""Largest number of introductions in one request (MediaWiki's exlimit)."""
MAXLAG = 5
"""Seconds of database lag above which MediaWiki may refuse a request, as it recommends to programs."""
BUSY = ("maxlag", "ratelimited", "readonly")
NO_ARTICLE = ("missing", "invalid", "pageprops")
"""Keys of a page that is not an article; the only page property that is requested is that of a disambiguation."""
LANGUAGE = re.compile(r"[a-z][a-z-]*")


class Wikipedia(PassageRetriever):
    """A retriever of introductions of articles, at most 20, as the wiki's own search ranks them."""

    _address: str
    _contact: str
    _patience: Patience

    def __init__(self, address: str = "en", *, contact: str | None = None, patience: Patience | None = None) -> None:
        """Take a language, or the address of another wiki's `api.php`; `contact` defaults to SOTTOVOCE_CONTACT.

        Raises:
            UsageError: `address` is neither a language nor an address, or there is no contact.
        """
        super().__init__(source="wikipedia")
        self._address = f"https://{address}.wikipedia.org/w/api.php" if LANGUAGE.fullmatch(address) else address
        if not self._address.startswith(("https://", "http://")):
            raise UsageError(
                f"wikipedia {address!r}: expected a language like 'en', or the address of a wiki's api.php"
            )
        self._contact = (contact or os.environ.get(VARIABLE, "")).strip()
        self._patience = patience or Patience()
        if not self._contact:
            raise UsageError(f"wikipedia requires a contact address: set {VARIABLE} to your email address or web page")

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the introductions of the articles found, best first, without empty ones."""
        parameters = {
            "generator": "search",
            "gsrsearch": query,
            "gsrlimit": min(k, MAX_PAGES),
            "exlimit": MAX_PAGES,
            "exintro": 1,
        }
        found = self._pages(parameters)
        pages = sorted(found, key=lambda page: page["index"] if isinstance(page.get("index"), int) else 0)
        passages = [_passage(page) for page in pages[:k]]
        return [Hit(passage, 1 / place) for place, passage in enumerate(passages, 1) if passage.text]

    def page(self, title: str) -> Passage | None:
        """Return a whole article, following redirects; None if there is none, or only a disambiguation page.

        A title that differs in case also matches ("bern holt"), as on the wiki's own search page.
        """
        if "|" in title:  # it separates titles, and no title contains it
            return None
        page = self._page(title)
        if page is None or page.get("missing"):
            near = self._titles(title, 1, srwhat="nearmatch")
            page = self._page(near[0]) if near else None
        return None if page is None or any(page.get(key) for key in NO_ARTICLE) else _passage(page)

    def similar(self, query: str, n: int) -> list[str]:
        """Return titles that are similar to a query."""
        return self._titles(query, n)

    def _page(self, title: str) -> JSON | None:
        parameters = {"prop": "extracts|info|pageprops", "ppprop": "disambiguation", "titles": title, "redirects": 1}
        return next(iter(self._pages({**parameters, "exsectionformat": "wiki"})), None)

    def _titles(self, query: str, n: int, **more: str) -> list[str]:
        content = self._ask({"list": "search", "srsearch": query, "srlimit": n, "srprop": "", **more})
        return [str(page["title"]) for page in _listed(content, "search")]

    def _pages(self, parameters: JSON) -> list[JSON]:
        return _listed(self._ask({"prop": "extracts|info", "explaintext": 1, "inprop": "url", **parameters}), "pages")

    def _ask(self, parameters: JSON) -> JSON:
        import requests

        request = {"action": "query", "format": "json", "formatversion": 2, "maxlag": MAXLAG, **parameters}
        headers = {"User-Agent": f"sottovoce/{__version__} ({self._contact})"}

        def ask() -> requests.Response:
            return requests.get(self._address, params=request, headers=headers, timeout=self._patience.timeout)

        return answer("wikipedia", ask, _judge, self._patience)


def open_wikipedia(where: str) -> Wikipedia:
    """Open the Wikipedia of a language (English by default), or the wiki at an address."""
    return Wikipedia(where or "en")


def _judge(status: int, content: JSON) -> Trouble | None:
    error = content.get("error")
    if isinstance(error, dict):
        code = str(error.get("code", ""))
        return Trouble(f"answered {code}: {words(error.get('info', ''))}", passing=code in BUSY)
    if status == 429:
        return Trouble("allows no more requests now (429)", passing=True)
    return None if status == 200 else Trouble(f"answered {status}: {words(content)}")


def _listed(content: JSON, name: str) -> list[JSON]:
    """Return the list that a query found, which is empty if the answer has no `query`."""
    listed = content.get("query", {}).get(name, []) if isinstance(content.get("query", {}), dict) else None
    if not (isinstance(listed, list) and all(isinstance(page, dict) and "title" in page for page in listed)):
        raise RetrievalError(f"wikipedia returned {words(listed)!r} for {name!r}; expected a list of pages")
    return listed


def _passage(page: JSON) -> Passage:
    url = page.get("fullurl")
    docid = str(page.get("pageid") or page["title"])
    return Passage(docid, str(page.get("extract") or ""), str(page["title"]), str(url) if url else None)
