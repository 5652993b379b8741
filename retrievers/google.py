"""Google's results through SerpAPI, with the client google-search-results: snippets, not pages.

Each search costs a credit, and results change from day to day. A directory stores them (`google:FOLDER`), so
that a run can be repeated with the same results. The key is read from SERPAPI_API_KEY when it is needed. It is
part of each URL that is requested, and is never shown: see `service`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pydantic import SecretStr

from sottovoce.core.any_types import JSON, Untyped
from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.core.files import check_owner
from sottovoce.retrievers.passage import Hit, Passage
from sottovoce.retrievers.retriever import PassageRetriever
from sottovoce.retrievers.service import Patience, Trouble, answer, words

if TYPE_CHECKING:
    import requests

BACKEND = "https://serpapi.com"
VARIABLE = "SERPAPI_API_KEY"
NOTHING = "hasn't returned any results"
SPENT = "run out of searches"


class Google(PassageRetriever):
    """A retriever of a Google search's organic results in their order; results without a snippet are left out."""

    _key: SecretStr | None
    _saved: Path | None
    _backend: str
    _patience: Patience

    def __init__(
        self,
        key: SecretStr | str | None = None,
        *,
        saved: Path | None = None,
        backend: str = BACKEND,
        patience: Patience | None = None,
    ) -> None:
        """Take a key, by default from the environment, and in `saved` the directory of saved searches.

        Raises:
            UsageError: there is neither a key nor a directory of saved searches.
        """
        super().__init__(source="google")
        self._key = SecretStr(key.strip()) if isinstance(key, str) else key
        self._saved = saved
        self._backend, self._patience = backend, patience or Patience()
        if saved is None:
            self._secret()

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most `k` results; none if Google finds none."""
        wanted = {"q": query, "num": k, "hl": "en", "gl": "us"}
        if (results := self._earlier(wanted)) is None:
            results = self._ask(wanted)
            self._keep(wanted, results)
        hits = []
        for place, result in enumerate(results, 1):
            if result.get("snippet"):
                link, title = str(result.get("link") or ""), str(result.get("title") or "")
                passage = Passage(link or f"result {place}", str(result["snippet"]), title, link or None)
                hits.append(Hit(passage, 1 / place))
        return hits[:k]

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Google retriever may contain a key and cannot be pickled: create another one instead")

    def _ask(self, query: JSON) -> list[JSON]:
        key = self._secret()
        try:
            from serpapi import GoogleSearch
        except ImportError as error:
            raise UsageError(
                "google needs the package google-search-results; if serpapi is installed, which has the same module,"
                " run: pip uninstall serpapi && pip install --force-reinstall google-search-results"
            ) from error
        # A subclass, since the address is a class attribute.
        client: Untyped = type("_Google", (GoogleSearch,), {"BACKEND": self._backend, "SERP_API_KEY": None})

        def ask() -> requests.Response:
            arguments = {**query, "output": "json", "api_key": key.get_secret_value()}
            search = client(arguments)  # it modifies its argument
            search.timeout = self._patience.timeout  # its default is 60000 seconds
            response: requests.Response = search.get_response()
            return response

        content = answer("google", ask, _judge, self._patience, key).get("organic_results", [])
        if (results := _listed(content)) is None:
            raise RetrievalError(f"google returned results that are not a list of objects: {words(content)!r}")
        return results

    def _secret(self) -> SecretStr:
        key = self._key or SecretStr(os.environ.get(VARIABLE, "").strip())
        if not key:
            raise UsageError(f"google needs a key of serpapi.com: set {VARIABLE}")
        return key

    def _earlier(self, query: JSON) -> list[JSON] | None:
        """Return the saved results of the same search; None if there are none or their file cannot be read."""
        if self._saved is None:
            return None
        try:
            return _listed(json.loads(_file(self._saved, query).read_bytes())["results"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _keep(self, query: JSON, results: list[JSON]) -> None:
        if self._saved is None:
            return
        file = _file(self._saved, query)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"format": 1, "retrieved": now, **query, "results": results}
        partial = file.with_suffix(f".{os.getpid()}-{id(results)}.partial")
        with _keeping(self._saved):
            file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
            partial.replace(file)


def open_google(where: str) -> Google:
    """Open Google, with results saved in the directory `where` unless it is empty."""
    folder = Path(where).expanduser() if where else None
    if folder is not None:
        check_owner(folder, "google's folder")
        with _keeping(folder):
            folder.mkdir(parents=True, exist_ok=True)
    return Google(saved=folder)


def _file(folder: Path, query: JSON) -> Path:
    return folder / f"{hashlib.sha256(json.dumps(query, sort_keys=True).encode()).hexdigest()[:16]}.json"


@contextmanager
def _keeping(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"google's results cannot be saved in {str(folder)!r}: {error.strerror or error}") from error


def _judge(status: int, content: JSON) -> Trouble | None:
    """Judge by SerpAPI's codes (serpapi.com/api-status-and-error-codes); a search without results is not an error."""
    message = words(content.get("error", ""))
    if status in (401, 403):
        return Trouble(f"refused the key ({status}): {message}; check {VARIABLE}")
    if status == 429:
        return Trouble(f"allows no more searches now ({status}): {message}", passing=SPENT not in message)
    if status != 200 or (message and NOTHING not in message):
        return Trouble(f"answered {status}: {message or 'no reason given'}")
    return None


def _listed(results: object) -> list[JSON] | None:
    """Return the results if they are a list of objects, else None."""
    return results if isinstance(results, list) and all(isinstance(result, dict) for result in results) else None
