"""Hosted chat models by name: `hosted:` and what LangChain's own factory takes, as in hosted:openai:gpt-4o-mini.

Keys come from the environment, as each provider reads them; none is ever kept in settings or state.
What a provider raises while it is asked stays as it is, so that retry policies see its type; a note on
it says whose model failed, and `failure` makes a line of both.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from textwrap import shorten
from threading import Thread
from typing import Any, TypeVar

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import SecretStr, ValidationError

from sottovoce.errors import SottovoceError, UsageError
from sottovoce.form import Form

T = TypeVar("T")
PREFIX = "hosted:"
FORM = "hosted:PROVIDER:MODEL, e.g. hosted:openai:gpt-4o-mini"
LONGEST = 300  # characters of what a provider said
CUT = "LengthFinishReasonError"
AGAIN = (408, 409, 425, 429)
"""Of the statuses below 500, those that another try may not meet."""
UNREACHED = ("ConnectError", "ReadError", "WriteError", "RemoteProtocolError", "APIConnectionError")
"""Of httpx, and of the clients that hide it."""
NOTE = "hosted model of "
BROKEN = (TypeError, AttributeError, LookupError, json.JSONDecodeError, ValidationError)
"""What clients break with on a reply that is none (openai 3.52, langchain-openai 1.2)."""
NO_REPLY = ("No generations found in stream", "Unexpected response type")
SECRET = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)(?:_|$)")
GRACE = 0.5  # seconds: a client's own error, which says more, comes first
SHORTEST_SECRET = 8  # characters; TOKENIZERS_PARALLELISM=1 is none


def is_hosted(name: str) -> bool:
    """Whether a model's name is that of a hosted one."""
    return name.startswith(PREFIX)


def hosted(
    name: str,
    agent: str = "model",
    max_tokens: int | None = None,
    top_logprobs: int | None = None,
    timeout: float | None = None,
) -> BaseChatModel:
    """The chat model behind a name; what its class has no parameter for is left out.

    `top_logprobs`: of how many most probable tokens of each position the log-probabilities are asked for.
    `timeout`: seconds of a call (see `within`); its client then asks once, where it would have multiplied them by its
    own retries.

    Raises:
        UsageError: a package or a key is missing, or there is no such provider; says what to install or set.
    """
    model = _built(name)
    if variable := _without_key(model):
        raise UsageError(f"model {name!r} has no key; set {variable} in the environment")
    asked: dict[str, Any] = {"max_tokens": max_tokens, "logprobs": top_logprobs and True, "top_logprobs": top_logprobs}
    asked |= {"timeout": timeout, "max_retries": timeout and 0}
    options = {each: value for each, value in asked.items() if value is not None and _takes(model, each)}
    if options:
        model = _built(name, **options)
    model.callbacks = [_Named(f"{agent}: {name}", timeout)]
    return model


def structured(model: BaseChatModel, form: Form | None) -> dict[str, Any]:  # Any: as providers take it
    """What asks for a form by the provider's structured output, where LangChain knows that it has one; else nothing.

    As LangChain's own agents ask (`ProviderStrategy`, langchain 1.4): the classes of all providers read OpenAI's words.
    """
    known = (model.profile or {}).get("structured_output")
    if form is None or form.schema is None or form.after or not known:  # after: it may reason in words first
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": form.offered.schema}}}


def in_words_alone(options: dict[str, Any], error: Exception) -> dict[str, Any]:  # Any: as above
    """The options without the form, where its reply was cut at the token limit; any other error is raised again.

    OpenAI's client raises then (LengthFinishReasonError, openai 3.52), and what was said so far is lost.
    """
    if "response_format" not in options or type(error).__name__ != CUT:
        raise error
    return {name: value for name, value in options.items() if name != "response_format"}


def spoken(reply: BaseMessage) -> AIMessage:
    """A reply as a model's own words, whatever role a server says that it has."""
    return reply if isinstance(reply, AIMessage) else AIMessage(str(reply.text))


@contextmanager
def named(model: BaseChatModel) -> Iterator[None]:
    """Note on whatever is raised whose hosted model it was: LangChain tells callbacks of most of it, and not of all."""
    try:
        yield
    except Exception as error:
        if (ours := _ours(model)) is not None and failure(error) is None:
            error.add_note(f"{NOTE}{ours.whose}")
        raise


def within(model: BaseChatModel, call: Callable[[], T]) -> T:
    """Call a model within its timeout as a whole; the client's own timeout restarts with every byte received.

    Raises:
        TimeoutError: the time is over; the call continues in the background until its server or this process ends.
    """
    if (ours := _ours(model)) is None or ours.timeout is None:
        return call()
    coming: Future[T] = Future()

    def made() -> None:
        try:
            coming.set_result(call())
        except BaseException as error:  # it is raised where it is waited for
            coming.set_exception(error)

    Thread(target=copy_context().run, args=(made,), daemon=True).start()
    if not wait([coming], ours.timeout + GRACE).done:
        raise TimeoutError(ours.late)
    return coming.result()


async def awithin(model: BaseChatModel, call: Awaitable[T]) -> T:
    """Do as `within` without blocking the event loop; a late call is cancelled."""
    ours = _ours(model)
    limit = None if ours is None or ours.timeout is None else ours.timeout + GRACE
    try:
        async with asyncio.timeout(limit) as scope:
            return await call
    except TimeoutError as error:
        if ours is None or not scope.expired():
            raise
        raise TimeoutError(ours.late) from error


def passes(error: BaseException) -> bool:
    """Whether a call over the network may not fail the next time: no connection, 429, or the server's own fault.

    Not one that was given up for its time, nor any of our own: a local model fails again as it did.
    """
    chain = list(_chain(error))
    if any(isinstance(each, SottovoceError) or "Timeout" in type(each).__name__ for each in chain):
        return False
    statuses = [status for each in chain if (status := _status(each)) is not None]
    if statuses:
        return any(status in AGAIN or status >= 500 for status in statuses)
    return any(isinstance(each, ConnectionError) or type(each).__name__ in UNREACHED for each in chain)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of: clients raise their own over those of the library below."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _status(error: BaseException) -> int | None:
    """The answer's status, as the clients of providers and httpx tell it."""
    found = getattr(error, "status_code", getattr(getattr(error, "response", None), "status_code", None))
    return found if isinstance(found, int) else None


def failure(error: BaseException) -> str | None:
    """One line on what a hosted model made by name raised: whose, and what the provider said; None of other errors."""
    for note in getattr(error, "__notes__", ()):
        if note.startswith(NOTE):
            return f"{note.removeprefix(NOTE)} failed: {type(error).__name__}: {_said(error)}{_unreadable(error)}"
    return None


def _unreadable(error: BaseException) -> str:
    """Advice where a client broke on what a server sent: a page of a proxy, a log-in, half a reply."""
    if not isinstance(error, BROKEN) and not str(error).startswith(NO_REPLY):
        return ""
    return "; its server sent no reply that its client can read: check the address and that it is the provider's"


class _Named(BaseCallbackHandler):
    """Notes on a provider's exception whose model it was, and knows how long a call of it may take."""

    def __init__(self, whose: str, timeout: float | None = None) -> None:
        self.whose, self.timeout = whose, timeout

    @property
    def late(self) -> str:
        """What is said of a call that took longer."""
        return f"no whole reply within {self.timeout:g} s; raise `timeout` or lower `max_tokens`"

    def on_llm_error(self, error: BaseException, **about: Any) -> None:  # Any: what LangChain tells besides
        error.add_note(f"{NOTE}{self.whose}")


def _ours(model: BaseChatModel) -> _Named | None:
    listeners = model.callbacks if isinstance(model.callbacks, list) else []
    return next((each for each in listeners if isinstance(each, _Named)), None)


def _built(name: str, **options: Any) -> BaseChatModel:  # Any: the provider's own
    model = name.removeprefix(PREFIX)
    if not model or model.endswith(":"):  # without a name the factory makes one that asks for it later
        raise UsageError(f"model {name!r} is incomplete; expected {FORM}")
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        needed = "langchain and the provider's package, e.g. langchain-openai"
        raise UsageError(f"model {name!r} needs packages that are missing; pip install {needed}") from error
    try:
        made: BaseChatModel = init_chat_model(model, **options)
        return made
    except Exception as error:  # providers have no common one
        raise UsageError(_refusal(name, error)) from error


def _refusal(name: str, error: Exception) -> str:
    """Why there is no such model; a list of providers is found in the factory's text alone (langchain 1.4)."""
    known = re.search(r"[Ss]upported (?:model )?providers(?: are)?: (.+)", str(error))
    if known and not isinstance(error, ValidationError):
        return f"model {name!r} names no provider that LangChain knows; expected {FORM}; providers: {known[1]}"
    return f"model {name!r} cannot be made: {_said(error)}"


def _without_key(model: BaseChatModel) -> str | None:
    """The variable of a key that is empty: some models (Anthropic's) are made without, and fail when they are asked."""
    for field, variable in model.lc_secrets.items():
        key = getattr(model, field, None)
        if isinstance(key, SecretStr) and not key.get_secret_value():
            return variable
    return None


def _takes(model: BaseChatModel, parameter: str) -> bool:
    fields = type(model).model_fields
    return parameter in fields or any(info.alias == parameter for info in fields.values())


def _said(error: BaseException) -> str:
    """An error's words in one line, shortened, without what the environment holds as secret."""
    if isinstance(error, ValidationError):  # its text quotes the values it was given
        first = error.errors()[0]
        text = ": ".join([*map(str, first["loc"]), str(first["msg"])])
    else:
        text = str(error)
    for variable, value in os.environ.items():
        if SECRET.search(variable.upper()) and len(value) >= SHORTEST_SECRET:
            text = text.replace(value, f"${variable}")
    text = re.sub(r"(?<=://)[^/@\s]+@", "", text)  # a password in an address
    return shorten(text, LONGEST, placeholder=" ...")
