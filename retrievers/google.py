"""Google's results through SerpAPI, with the client of google-search-results: snippets, not pages.

Each search costs a credit, and results change from day to day; a folder keeps them (`google:FOLDER`),
so that a run can be held again with what it found. The key is read from SERPAPI_API_KEY when it is
needed. It is part of each address that is asked, and shown nowhere: see `service`.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import SecretStr

from sottovoce.errors import RetrievalError, UsageError
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
        """`key` is read from the environment where it is not given; `kept` is the folder of earlier searches."""
        self._key = SecretStr(key) if isinstance(key, str) else key
        self._kept, self._where = kept, {"hl": language, "gl": country}
        self._backend, self._patience = backend, patience or Patience()

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` results; none where Google has none.

        Raises:
            RetrievalError: the service did not answer, refused, or answered what cannot be read.
            UsageError: there is no key, or the client is not installed.
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
            search = client({**wanted, "output": "json", "api_key": key})  # it writes into what it is given
            search.timeout = self._patience.timeout  # 60000 seconds otherwise
            response: requests.Response = search.get_response()
            return response

        found = answer("google", ask, _judge, self._patience, key).get("organic_results", [])
        if not (isinstance(found, list) and all(isinstance(each, dict) for each in found)):
            raise RetrievalError(f"google answered results that are no list of objects: {words(found)!r}")
        return found

    def _secret(self) -> str:
        key = (self._key.get_secret_value() if self._key else os.environ.get(VARIABLE, "")).strip()
        if not key:
            raise UsageError(f"google needs a key of serpapi.com: set {VARIABLE}")
        return key

    def _file(self, wanted: JSON) -> Path | None:
        if self._kept is None:
            return None
        return self._kept / f"{hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]}.json"

    def _earlier(self, wanted: JSON) -> list[JSON] | None:
        """What was kept of the same search; a file that cannot be read is asked for again."""
        if (file := self._file(wanted)) is None:
            return None
        try:
            found = json.loads(file.read_bytes())["results"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, list) else None

    def _keep(self, wanted: JSON, results: list[JSON]) -> None:
        if (file := self._file(wanted)) is None:
            return
        told = {"format": 1, "retrieved": datetime.now(UTC).isoformat(timespec="seconds"), **wanted, "results": results}
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}-{id(results)}.partial")
        partial.write_text(json.dumps(told, indent=1), encoding="utf-8")
        partial.replace(file)


def open_google(where: str) -> Google:
    """Google, its results kept in the folder that is named, if one is."""
    return Google(kept=Path(where).expanduser() if where else None)


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


def _hit(result: JSON, place: int) -> Hit:
    link = str(result.get("link") or "")
    title, snippet = str(result.get("title") or ""), str(result["snippet"])
    return Hit(Passage(link or f"result {place}", snippet, title, link or None), 1 / place)
