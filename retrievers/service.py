"""Asking a service over HTTP: how long, how often, and one clear line for whatever goes wrong.

What stands in an address may be a key, so no exception of requests' is passed on (its words quote the
address, and so would its place in a traceback), and urllib3's log is read with keys struck out.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.errors import RetrievalError

if TYPE_CHECKING:
    import requests

JSON = dict[str, Any]  # Any: as services answer
KEY = re.compile(r"(api_key=)[^&\s\"']+")
LONGEST_WAIT = 30.0
"""Seconds; a service that asks for more is not waited for."""
SHOWN = 120
"""Characters of a service's own words."""


@dataclass(frozen=True)
class Patience:
    """How long a service is waited for, and how often it is asked again."""

    timeout: float = 20.0
    """Seconds until it connects, and between two pieces of its answer."""
    retries: int = 2
    """After a failure that may pass: no connection, no answer, 5xx, too many requests."""
    wait: float = 1.0
    """Seconds before the first of them; doubled for each further one."""


@dataclass(frozen=True)
class Trouble:
    """What is wrong with an answer."""

    told: str
    passing: bool = False
    """Whether asking again may help."""
    after: float | None = None
    """Seconds that the service asks to wait."""


Ask = Callable[[], "requests.Response"]
Judge = Callable[[int, JSON], Trouble | None]
"""What is wrong with a status and the JSON that came with it, if anything; the service's own codes."""


def answer(name: str, ask: Ask, judge: Judge, patience: Patience, secret: str = "") -> JSON:
    """The JSON object that a service answers; `secret` is struck out of its words.

    Raises:
        RetrievalError: it did not answer, refused, or sent no JSON object; one line that names the service.
    """
    conceal_keys()
    attempt = 0
    while True:
        attempt += 1
        found = _once(ask, judge, patience)
        if not isinstance(found, Trouble):
            return found
        wait = patience.wait * 2 ** (attempt - 1) if found.after is None else found.after
        if not found.passing or wait > LONGEST_WAIT or attempt > patience.retries:
            told = found.told.replace(secret, "***") if secret else found.told
            raise RetrievalError(f"{name} {told}" + (f" (asked {attempt} times)" if attempt > 1 else ""))
        time.sleep(wait)


def words(text: object) -> str:
    """A service's own words in one short line."""
    line = " ".join(str(text).split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]} ..."


def _once(ask: Ask, judge: Judge, patience: Patience) -> JSON | Trouble:
    import requests

    try:
        response = ask()
    except requests.Timeout:
        return Trouble(f"did not answer within {patience.timeout:g} s", passing=True)
    except requests.RequestException as error:
        return Trouble(f"cannot be reached ({type(error).__name__})", passing=True)
    return _read(response, judge)


def _read(response: requests.Response, judge: Judge) -> JSON | Trouble:
    status = response.status_code
    if status >= 500:
        return Trouble(f"answered {status}, an error of its own", True, _asked_to_wait(response))
    try:
        found = response.json()
    except (ValueError, RecursionError):
        kind = response.headers.get("content-type", "no type").partition(";")[0]
        return Trouble(f"answered {status} with no JSON, but {kind}: {words(response.text)!r}", status == 429)
    if not isinstance(found, dict):
        return Trouble(f"answered {status} with JSON that is no object: {words(found)!r}")
    trouble = judge(status, found)
    if trouble and trouble.passing and trouble.after is None:
        return Trouble(trouble.told, True, _asked_to_wait(response))
    return trouble or found


def _asked_to_wait(response: requests.Response) -> float | None:
    told = response.headers.get("retry-after", "")
    return float(told) if told.isdecimal() else None


class _Concealed(logging.Filter):
    """Strikes keys out of what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if KEY.search(message):
            record.msg, record.args = KEY.sub(r"\1***", message), ()
        return True


_CONCEALED = _Concealed()


def conceal_keys() -> None:
    """From now on urllib3's log, which has whole addresses, shows `api_key=***`; calling it again changes nothing."""
    logging.getLogger("urllib3.connectionpool").addFilter(_CONCEALED)
