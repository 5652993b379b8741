"""Hosted chat models by name: `hosted:` and a name for LangChain's own factory, as in hosted:openai:gpt-4o-mini.

Keys come from the environment variables of each provider and are never stored in settings or state.
A provider's exceptions are not replaced, so that retry policies see their types; a note on the exception
names the model, and `failure` turns both into one line.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from textwrap import shorten
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import SecretStr, ValidationError

from sottovoce.agents.ask import EMPTY, REFUSAL, THOUGHTS_ALONE
from sottovoce.agents.convert import REASONING, Ending, ending_of, said
from sottovoce.agents.openai_format import SPENT, extended
from sottovoce.core.any_types import Keywords, Untyped
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.core.response_format import Form
from sottovoce.core.text import without_password, without_secrets
from sottovoce.core.thoughts import Own

T = TypeVar("T")
PREFIX = "hosted:"
FORM = "hosted:PROVIDER:MODEL, e.g. hosted:openai:gpt-4o-mini"
PROVIDERS = r"[Ss]upported (?:model )?providers(?: are)?: (.+)"  # only the factory's message lists them (langchain 1.4)
LONGEST = 300  # characters of a provider's message
CUT = {"LengthFinishReasonError": "length", "ContentFilterFinishReasonError": "content_filter"}
"""Errors that OpenAI's client raises for a reply in a format that was cut (openai 3.52), and why it was."""
AGAIN = (408, 409, 425, 429)
"""HTTP statuses below 500 that may not occur on a retry."""
BUSY = re.compile(r"rate_?limit|overloaded", re.IGNORECASE)
"""Servers' words for 429 in a body without a status."""
ABSENT = re.compile(r"not found|invalid url|no route|unknown (?:url|path|endpoint)", re.IGNORECASE)
"""Servers' words for a wrong address."""
OF_PROXIES = (403, 407, 502, 503, 504)
"""HTTP statuses with which a proxy answers for a server that it does not reach."""
UNREACHED = ("ConnectError", "ReadError", "WriteError", "RemoteProtocolError", "APIConnectionError")
"""Connection errors of httpx, and of clients that wrap it."""
NOTE = "hosted model of "
BROKEN = (TypeError, AttributeError, LookupError, json.JSONDecodeError, ValidationError)
"""Errors that clients raise on a malformed reply (openai 3.52, langchain-openai 1.2)."""
NO_REPLY = ("No generations found in stream", "Unexpected response type")
GRACE = 0.5  # seconds: a client's own error, which is more precise, comes first
MOST_READ = 100_000  # characters of a provider's message in which secrets are looked for; more are never shown


def is_hosted(name: str) -> bool:
    """Return whether a model's name is that of a hosted model."""
    return name.startswith(PREFIX)


def hosted(
    name: str,
    agent: str = "model",
    max_tokens: int | None = None,
    top_logprobs: int | None = None,
    timeout: float | None = None,
) -> BaseChatModel:
    """Return the chat model with this name. Arguments that its class does not have are ignored.

    `top_logprobs`: the number of most probable tokens of each position whose log-probabilities are requested.
    `timeout`: seconds of a call (see `awithin`). The client then does not retry, since each retry would take as long
    again.

    Raises:
        UsageError: a package or a key is missing, or the provider is unknown; the message says what to install or set.
    """
    model = _built(name)
    for field, variable in model.lc_secrets.items():
        key = getattr(model, field, None)
        if isinstance(key, SecretStr) and not key.get_secret_value():  # Anthropic's would fail when it is called
            raise UsageError(f"model {name!r} has no key; set {variable} in the environment")
    asked: dict[str, Any] = {"max_tokens": max_tokens, "logprobs": top_logprobs and True, "top_logprobs": top_logprobs}
    asked |= {"timeout": timeout, "max_retries": timeout and 0, "stream_usage": True}
    known = {name for field, info in type(model).model_fields.items() for name in (field, info.alias)}
    options = {each: value for each, value in asked.items() if value is not None and each in known}
    if options:
        model = _built(name, **options)
    model.callbacks = [_Named(f"{agent}: {name}", timeout)]
    return model


def structured(model: BaseChatModel, form: Form | None) -> dict[str, Untyped]:
    """Return options that request a format by structured output, or {} if LangChain knows no support in the model.

    LangChain's own agents pass the same (`ProviderStrategy`, langchain 1.4): all providers' classes accept OpenAI's.
    """
    known = (model.profile or {}).get("structured_output")
    if form is None or form.schema is None or form.after or not known:  # after: the model may reason in words first
        return {}
    schema: dict[str, Untyped] = {"name": "reply", "schema": form.offered.schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def cut_reply(model: BaseChatModel, error: Exception) -> BaseMessage | None:
    """Return the reply so far from the error for a cut reply in a format, or None for any other error."""
    if (why := CUT.get(type(error).__name__)) is None:
        return None
    completion, read = getattr(error, "completion", None), getattr(model, "_create_chat_result", None)
    reply: BaseMessage = read(completion).generations[0].message if completion and read else AIMessage("")
    reply.response_metadata["finish_reason"] = why
    return reply


def noted(reply: AIMessage, notes: Sequence[str], markers: Own = None) -> AIMessage:
    """Return a hosted model's reply with these notes, and one if it was refused or has no text."""
    more, blocks = reply.additional_kwargs, reply.content if isinstance(reply.content, list) else []
    notes, ended, why = [*more.get("notes", ()), *notes], "", ""
    stated = [block.get("refusal") for block in blocks if isinstance(block, dict)]  # servers say it in different places
    refusal = next(filter(None, [more.get("refusal"), *stated]), None)
    if refusal or "refusal" in map(reply.response_metadata.get, ("stop_reason", "finish_reason")):
        ended = "refused"
        why = f'{REFUSAL}: "{shorten(str(refusal), LONGEST, placeholder=" ...")}"' if refusal else REFUSAL
    elif not said(reply, markers).text.strip():
        thought = any(more.get(name) for name in (REASONING, "reasoning", "reasoning_details"))
        whole = ending_of(reply.response_metadata) in (None, Ending())
        ended, why = ("thoughts", THOUGHTS_ALONE) if thought and whole else ("empty", EMPTY)
    if ended:
        more, notes = {**more, "ended": ended}, [why, *notes]
    return reply.model_copy(update={"additional_kwargs": {**more, "notes": notes}}) if notes else reply


def note_model(model: BaseChatModel, error: Exception) -> None:
    """Add a note with the hosted model's name to an exception, and remove secrets from its server's message.

    LangChain reports most exceptions to callbacks, but not all.
    """
    for each in chain(error):
        with suppress(AttributeError, TypeError):  # of a class whose fields cannot be set
            each.args = tuple(map(_conceal, each.args))
            vars(each).update({name: _conceal(vars(each)[name]) for name in ("message", "body") if name in vars(each)})
    if (ours := _ours(model)) is not None and failure(error) is None:
        error.add_note(f"{NOTE}{ours.whose}")


async def awithin(model: BaseChatModel, call: Awaitable[T]) -> T:
    """Call a model within its timeout as a whole; the client's own timeout restarts with every byte received.

    Raises:
        TimeoutError: the time is over; the call is cancelled. One in a thread goes on in the background.
    """
    ours = _ours(model)
    limit = None if ours is None or ours.timeout is None else ours.timeout + GRACE
    try:
        async with asyncio.timeout(limit) as scope:
            return await call
    except TimeoutError as error:
        if ours is None or not scope.expired():
            raise
        late = f"no whole reply within {ours.timeout:g} s; raise `timeout` or lower `max_tokens`"
        raise TimeoutError(late) from error


def passes(error: BaseException) -> bool:
    """Return whether a failed network call may succeed on a retry: no connection, status 429, or a server error.

    False for timeouts, a spent quota, and our own errors: a local model would fail in the same way again.
    """
    errors = list(chain(error))
    for each in errors:
        told = f"{each} {getattr(each, 'code', '')} {getattr(each, 'type', '')}"
        if isinstance(each, SottovoceError) or "Timeout" in type(each).__name__ or SPENT.search(told):
            return False
    statuses = [status for each in errors if (status := status_of(each)) is not None]
    if statuses:
        return any(status in AGAIN or status >= 500 for status in statuses)
    return any(isinstance(each, ConnectionError) or type(each).__name__ in UNREACHED for each in errors)


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes: clients raise their own errors from those of a library."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error of a provider's client or of httpx, or None if it has none.

    Routers send some errors with a status of success, and the actual one in the body.
    """
    found = getattr(error, "status_code", getattr(getattr(error, "response", None), "status_code", None))
    if isinstance(found, int) and found >= 400:
        return found
    body = _body(error)
    codes = [str(body.get(name)) for name in ("code", "status", "status_code")]
    if BUSY.search(f"{codes} {body.get('type')}"):
        return 429
    return next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), None)


def _body(error: BaseException) -> Mapping[str, Untyped]:
    """Return the error in a server's body, in OpenAI's format, or {} if the body has none."""
    body = getattr(error, "body", None) or next(iter(error.args), None)
    body = body.get("error", body) if isinstance(body, Mapping) else None
    return body if isinstance(body, Mapping) else {}


def failure(error: BaseException) -> str | None:
    """Return one line about a hosted model's error: the model and the provider's message, or None for other errors."""
    for note in getattr(error, "__notes__", ()):
        if note.startswith(NOTE):
            return f"{note.removeprefix(NOTE)} failed: {_described(error)}"
    return None


def _described(error: BaseException) -> str:
    """Return the kind and the message of an error, with advice where the cause is known."""
    url = _clean(str(getattr(getattr(error, "request", None), "url", "")))
    status, body = status_of(error), _body(error)
    words = str(body.get("message") or body.get("detail") or getattr(error, "body", None) or "")
    if status == 404 and url:
        advice = "; check that the address is the provider's: one in OpenAI's format usually ends in /v1"
        if "message" in body and "model" in words.lower():
            advice = "; its server has no such model"
        elif "message" in body and not ABSENT.search(words):
            advice = ""
        return f'error 404 from {url}: "{_clean(words)}"{advice}'
    advice = ""
    if isinstance(error, BROKEN) or str(error).startswith(NO_REPLY):  # a proxy's page, a login page, half a reply
        advice = "; its server sent a reply that the client cannot read: check that the address is the provider's"
    elif status in OF_PROXIES or any(type(each).__name__ in UNREACHED for each in chain(error)):
        advice = _through_proxy(url)
    kind = "" if isinstance(error, SottovoceError) else f"{type(error).__name__}: "
    return f"{kind}{_said(error)}{advice}"


def _through_proxy(url: str) -> str:
    """Return a remark on the proxy of the environment that a request to a local address went through, if any."""
    where, proxies = urlsplit(url), getproxies()
    proxy, host = proxies.get(where.scheme) or proxies.get("all"), where.hostname or ""
    try:
        is_local = ip_address(host).is_private
    except ValueError:
        is_local = "." not in host or host.endswith((".local", ".localhost", ".internal"))
    if not proxy or proxy_bypass(host) or not is_local:
        return ""
    return f"; {host} was asked through the proxy {without_password(proxy)} of the environment: set no_proxy={host}"


class _Named(BaseCallbackHandler):
    """A callback that adds the model's name to a provider's exception, and stores the time limit of its calls."""

    def __init__(self, whose: str, timeout: float | None = None) -> None:
        self.whose, self.timeout = whose, timeout

    def on_llm_error(self, error: BaseException, **about: Keywords) -> None:
        error.add_note(f"{NOTE}{self.whose}")


def _ours(model: BaseChatModel) -> _Named | None:
    listeners = model.callbacks if isinstance(model.callbacks, list) else []
    return next((each for each in listeners if isinstance(each, _Named)), None)


def _built(name: str, **options: Untyped) -> BaseChatModel:
    model = name.removeprefix(PREFIX)
    if not model or model.endswith(":"):  # without a name, the factory returns a configurable model
        raise UsageError(f"model {name!r} is incomplete; expected {FORM}")
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        needed = "langchain and the provider's package, e.g. langchain-openai"
        raise UsageError(f"model {name!r} needs packages that are missing; pip install {needed}") from error
    try:
        made = init_chat_model(model, **options)
    except Exception as error:  # providers have no common class
        known = re.search(PROVIDERS, str(error))
        if known is None or isinstance(error, ValidationError):
            raise UsageError(f"model {name!r} cannot be created: {_said(error)}") from error
        unknown = f"model {name!r} names a provider that LangChain does not know"
        raise UsageError(f"{unknown}; expected {FORM}; providers: {known[1]}") from error
    return extended(made)


def _said(error: BaseException) -> str:
    """Return an error's message in one line, shortened, without secrets of the environment."""
    if isinstance(error, ValidationError):  # its message quotes the arguments
        first = error.errors()[0]
        text = ": ".join([*map(str, first["loc"]), str(first["msg"])])
    else:
        text = str(_body(error).get("message") or error) if isinstance(error, ValueError) else str(error)
    return _clean(text)


def _clean(text: str) -> str:
    return shorten(without_password(without_secrets(text[:MOST_READ])), LONGEST, placeholder=" ...")


def _conceal(said: Any) -> Any:  # Any: plain JSON, or other arguments of an exception
    if isinstance(said, dict):
        return {name: _conceal(value) for name, value in said.items()}
    return (
        [*map(_conceal, said)] if isinstance(said, list) else without_secrets(said) if isinstance(said, str) else said
    )
