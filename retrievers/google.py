"""Google's results through SerpAPI, with the client of google-search-results: snippets, not pages.

Each search costs a credit, and results change from day to day; a folder keeps them (`google:FOLDER`),
so that a run can be held again with what it found. The key is read from SERPAPI_API_KEY when it is
needed. It is part of each address that is asked, and shown nowhere: see `service`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import SecretStr

from sottovoce.errors import RetrievalError, UsageError
from sottovoce.outputs import check_owner
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.service import JSON, Patience, Trouble, answer, words

if TYPE_CHECKING:
    import requests

BACKEND = "https://serpapi.com"
VARIABLE = "SERPAPI_API_KEY"
NOTHING = "hasn't returned any results"
SPENT = "run out of searches"


class Google:
    """A `Searcher`: the organic results of a Google search, in its order; one without a snippet is passed over."""

    source = "google"
    fingerprint = ""  # what it searches changes

    def __init__(
        self,
        key: SecretStr | str | None = None,
        *,
        kept: Path | None = None,
        language: str = "en",
        country: str = "us",
        backend: str = BACKEND,
        patience: Patience | None = None,
    ) -> None:
        """`key` is read from the environment where it is not given; `kept` is the folder of earlier searches.

        Raises:
            UsageError: there is no key, and no folder in which a search might be found without one.
        """
        self._key = SecretStr(key.strip()) if isinstance(key, str) else key
        self._kept, self._where = kept, {"hl": language, "gl": country}
        self._backend, self._patience = backend, patience or Patience()
        if kept is None:
            self._secret()

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` results; none where Google has none.

        Raises:
            RetrievalError: the service did not answer, refused, or answered what cannot be read.
            UsageError: there is no key, the client is not installed, or results cannot be kept.
        """
        wanted = {"q": query, "num": k, **self._where}
        if (results := self._earlier(wanted)) is None:
            results = self._ask(wanted)
            self._keep(wanted, results)
        told = [_hit(result, place) for place, result in enumerate(results, 1) if result.get("snippet")]
        return told[:k]

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Google searcher may hold a key, and is not pickled: make another one where it is needed")

    def _ask(self, wanted: JSON) -> list[JSON]:
        key = self._secret()
        client = _client(self._backend)

        def ask() -> requests.Response:
            told = {**wanted, "output": "json", "api_key": key.get_secret_value()}
            search = client(told)  # it writes into what it is given
            search.timeout = self._patience.timeout  # 60000 seconds otherwise
            response: requests.Response = search.get_response()
            return response

        found = answer("google", ask, _judge, self._patience, key).get("organic_results", [])
        if (results := _listed(found)) is None:
            raise RetrievalError(f"google answered results that are no list of objects: {words(found)!r}")
        return results

    def _secret(self) -> SecretStr:
        key = self._key or SecretStr(os.environ.get(VARIABLE, "").strip())
        if not key:
            raise UsageError(f"google needs a key of serpapi.com: set {VARIABLE}")
        return key

    def _earlier(self, wanted: JSON) -> list[JSON] | None:
        """What was kept of the same search; a file that cannot be read is asked for again."""
        if self._kept is None:
            return None
        try:
            return _listed(json.loads(_file(self._kept, wanted).read_bytes())["results"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _keep(self, wanted: JSON, results: list[JSON]) -> None:
        if self._kept is None:
            return
        file = _file(self._kept, wanted)
        told = {"format": 1, "retrieved": datetime.now(UTC).isoformat(timespec="seconds"), **wanted, "results": results}
        partial = file.with_suffix(f".{os.getpid()}-{id(results)}.partial")
        with _keeping(self._kept):
            file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(told, indent=1), encoding="utf-8")
            partial.replace(file)


def open_google(where: str) -> Google:
    """Google, its results kept in the folder that is named, if one is.

    Raises:
        UsageError: there is neither a folder nor a key, or the folder cannot be made.
    """
    kept = Path(where).expanduser() if where else None
    if kept is not None:
        check_owner(kept, "google's folder")
        with _keeping(kept):
            kept.mkdir(parents=True, exist_ok=True)
    return Google(kept=kept)


def _file(kept: Path, wanted: JSON) -> Path:
    return kept / f"{hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]}.json"


@contextmanager
def _keeping(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"google's results cannot be kept in {str(folder)!r}: {error.strerror or error}") from error


def _client(backend: str) -> Any:  # Any: the client has no types
    """The client's class, asking this address: a subclass, for the address is its class's."""
    try:
        from serpapi import GoogleSearch
    except ImportError as error:
        raise UsageError(
            "google needs the package google-search-results; if serpapi is installed, which has the same module,"
            " run: pip uninstall serpapi && pip install --force-reinstall google-search-results"
        ) from error
    return type("_Google", (GoogleSearch,), {"BACKEND": backend, "SERP_API_KEY": None})


def _judge(status: int, found: JSON) -> Trouble | None:
    """SerpAPI's codes (serpapi.com/api-status-and-error-codes); that there are no results is no error."""
    told = words(found.get("error", ""))
    if status in (401, 403):
        return Trouble(f"refused the key ({status}): {told}; look at {VARIABLE}")
    if status == 429:
        return Trouble(f"allows no more searches now ({status}): {told}", passing=SPENT not in told)
    if status != 200 or (told and NOTHING not in told):
        return Trouble(f"answered {status}: {told or 'no reason given'}")
    return None


def _listed(found: object) -> list[JSON] | None:
    """Results, where they are such."""
    return found if isinstance(found, list) and all(isinstance(each, dict) for each in found) else None


def _hit(result: JSON, place: int) -> Hit:
    link = str(result.get("link") or "")
    title, snippet = str(result.get("title") or ""), str(result["snippet"])
    return Hit(Passage(link or f"result {place}", snippet, title, link or None), 1 / place)
