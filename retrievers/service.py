"""Asking a service over HTTP: how long, how often, and one clear line for whatever goes wrong.

What stands in an address may be a key. So no exception of requests' is passed on (its words quote the
address, and so would its place in a traceback), urllib3's log shows keys struck out, and so does whatever
a service says itself; a key is never a variable of a function through which an error of ours goes.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from sottovoce.errors import RetrievalError

if TYPE_CHECKING:
    import requests

JSON = dict[str, Any]  # Any: as services answer
KEY = re.compile(r"(api_key=)[^&\s\"']+")
LONGEST_WAIT = 30.0
"""Seconds; a service that asks for more is not waited for."""
SHOWN = 120
"""Characters of a service's own words."""
TELLING = ("urllib3.connectionpool", "urllib3.connection", "urllib3.util.retry")
"""Loggers that quote addresses (urllib3 2)."""


@dataclass(frozen=True)
class Patience:
    """How long a service is waited for, and how often it is asked again."""

    timeout: float = 20.0
    """Seconds until it connects, and between two pieces of its answer."""
    whole: float = 60.0
    """Seconds for all of an answer, in however many pieces it comes; one that takes longer is not asked for again."""
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


def answer(name: str, ask: Ask, judge: Judge, patience: Patience, secret: SecretStr | None = None) -> JSON:
    """The JSON object that a service answers; `secret` is struck out of all that it says.

    Raises:
        RetrievalError: it did not answer, refused, or sent no JSON object; one line that names the service.
    """
    conceal_keys()
    attempt = 0
    while True:
        attempt += 1
        found = _once(ask, judge, patience, secret)
        if not isinstance(found, Trouble):
            return found
        wait = patience.wait * 2 ** (attempt - 1) if found.after is None else found.after
        if not found.passing or wait > LONGEST_WAIT or attempt > patience.retries:
            raise RetrievalError(f"{name} {found.told}" + (f" (asked {attempt} times)" if attempt > 1 else ""))
        time.sleep(wait)


def words(text: object) -> str:
    """A service's own words in one short line."""
    line = " ".join(str(text).split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]} ..."


def _once(ask: Ask, judge: Judge, patience: Patience, secret: SecretStr | None) -> JSON | Trouble:
    import requests

    match _asked(ask, patience.whole):
        case None:
            return Trouble(f"did not answer whole within {patience.whole:g} s")
        case requests.Timeout():
            return Trouble(f"did not answer within {patience.timeout:g} s", passing=True)
        case Exception() as error:
            passing = isinstance(error, requests.RequestException)
            return Trouble(f"cannot be reached ({type(error).__name__})", passing)
        case response:
            return _read(response, judge, secret)


def _asked(ask: Ask, seconds: float) -> requests.Response | Exception | None:
    """What asking brings; None where it takes longer: requests' own timeout starts anew with every piece.

    A thread that is not waited for any more ends with its connection, or with the program.
    """
    brought: Queue[requests.Response | Exception] = Queue()

    def run() -> None:
        try:
            brought.put(ask())
        except Exception as error:
            brought.put(error)

    Thread(target=run, daemon=True).start()
    try:
        return brought.get(timeout=seconds)
    except Empty:
        return None


def _read(response: requests.Response, judge: Judge, secret: SecretStr | None) -> JSON | Trouble:
    status = response.status_code
    if status >= 500:
        return Trouble(f"answered {status}, an error of its own", True, _asked_to_wait(response))
    body = _concealed(response.content.decode("utf-8-sig", "replace"), secret)
    if not body.strip():
        return Trouble(f"answered {status} with nothing", status == 429)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        kind = _concealed(response.headers.get("content-type", "words of no type").partition(";")[0], secret)
        return Trouble(f"answered {status} with no JSON, but {words(kind)}: {words(body)!r}", status == 429)
    if not isinstance(found, dict):
        return Trouble(f"answered {status} with JSON that is no object: {words(found)!r}")
    trouble = judge(status, found)
    if trouble and trouble.passing and trouble.after is None:
        return Trouble(trouble.told, True, _asked_to_wait(response))
    return trouble or found


def _asked_to_wait(response: requests.Response) -> float | None:
    told = response.headers.get("retry-after", "")
    return float(told) if told.isdecimal() else None


def _concealed(text: str, secret: SecretStr | None = None) -> str:
    """With keys struck out."""
    without = KEY.sub(r"\1***", text)
    return without.replace(secret.get_secret_value(), "***") if secret else without


class _Concealed(logging.Filter):
    """Strikes keys out of what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if KEY.search(message):
            record.msg, record.args = _concealed(message), ()
        return True


_CONCEALED = _Concealed()


def conceal_keys() -> None:
    """From now on urllib3's log, which has whole addresses, shows `api_key=***`; calling it again changes nothing."""
    for name in TELLING:
        logging.getLogger(name).addFilter(_CONCEALED)
