"""Requests to a service over HTTP: timeouts, retries, and a one-line message for every failure.

A URL may contain a key. Therefore no exception of requests is chained: its message quotes the URL, and its traceback
would, too. Keys are masked in urllib3's log and in all texts of a service. If one of our errors passes through a
function, that function has no key in a local variable.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RetrievalError
from sottovoce.core.text import without_secret

if TYPE_CHECKING:
    import requests

KEY = re.compile(r"(api_key=)[^&\s\"']+")
LONGEST_WAIT = 30.0
"""Seconds; a request fails at once if the service asks for a longer wait."""
SHOWN = 120
"""Number of characters of a service's own text in messages."""
LOGGERS = ("urllib3.connectionpool", "urllib3.connection", "urllib3.util.retry")
"""Loggers that quote URLs (urllib3 2)."""


@dataclass(frozen=True)
class Patience:
    """Timeouts and retries for a service."""

    timeout: float = 20.0
    """Seconds allowed for connecting, and between two chunks of the answer."""
    retries: int = 2
    """Number of retries after a temporary failure: no connection, no answer, 5xx, too many requests."""
    wait: float = 1.0
    """Seconds before the first retry; doubled for each further one."""


@dataclass(frozen=True)
class Trouble:
    """A problem with an answer."""

    message: str
    passing: bool = False
    """True if a retry may help."""
    after: float | None = None
    """Seconds that the service asks to wait."""


Ask = Callable[[], "requests.Response"]
Judge = Callable[[int, JSON], Trouble | None]
"""Function that returns the problem with a status and its JSON by the service's own codes, or None."""


def answer(name: str, ask: Ask, judge: Judge, patience: Patience, secret: SecretStr | None = None) -> JSON:
    """Return the JSON object that a service answers; `secret` is masked in everything that it says.

    Raises:
        RetrievalError: the service did not answer, refused, or sent no JSON object; the one-line message names it.
    """
    for logger in LOGGERS:
        logging.getLogger(logger).addFilter(_concealed_record)  # adding it again changes nothing
    attempt = 0
    while True:
        attempt += 1
        content = _once(ask, judge, patience, secret)
        if not isinstance(content, Trouble):
            return content
        wait = patience.wait * 2 ** (attempt - 1) if content.after is None else content.after
        if not content.passing or wait > LONGEST_WAIT or attempt > patience.retries:
            raise RetrievalError(f"{name} {content.message}" + (f" (asked {attempt} times)" if attempt > 1 else ""))
        time.sleep(wait)


def words(text: object) -> str:
    """Return a service's own text in one short line."""
    line = " ".join(str(text).split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]} ..."


def _once(ask: Ask, judge: Judge, patience: Patience, secret: SecretStr | None) -> JSON | Trouble:
    import requests

    try:
        response = ask()
    except requests.Timeout:
        return Trouble(f"did not answer within {patience.timeout:g} s", passing=True)
    except Exception as error:
        passing = isinstance(error, requests.RequestException)
        return Trouble(f"cannot be reached ({type(error).__name__})", passing)
    status = response.status_code
    if status >= 500:
        return Trouble(f"answered {status}, a server error", True, _asked_to_wait(response))
    body = _concealed(response.content.decode("utf-8-sig", "replace"), secret)
    if not body.strip():
        return Trouble(f"answered {status} with an empty body", status == 429)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        kind = _concealed(response.headers.get("content-type", "text of unknown type").partition(";")[0], secret)
        return Trouble(f"answered {status} with {words(kind)} instead of JSON: {words(body)!r}", status == 429)
    if not isinstance(content, dict):
        return Trouble(f"answered {status} with JSON that is not an object: {words(content)!r}")
    trouble = judge(status, content)
    if trouble and trouble.passing and trouble.after is None:
        return Trouble(trouble.message, True, _asked_to_wait(response))
    return trouble or content


def _asked_to_wait(response: requests.Response) -> float | None:
    message = response.headers.get("retry-after", "")
    return float(message) if message.isdecimal() else None


def _concealed(text: str, secret: SecretStr | None = None) -> str:
    """Return the text with masked keys."""
    without = KEY.sub(r"\1***", text)
    return without_secret(without, secret.get_secret_value(), "***") if secret else without


def _concealed_record(record: logging.LogRecord) -> bool:
    """Mask keys in a record of urllib3's log as `api_key=***`; return True, since the record is logged."""
    message = record.getMessage()
    if KEY.search(message):
        record.msg, record.args = _concealed(message), ()
    return True
