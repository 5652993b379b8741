"""Hosted chat models by name: `hosted:` and what LangChain's own factory takes, as in hosted:openai:gpt-4o-mini.

Keys come from the environment, as each provider reads them; none is ever kept in settings or state.
What a provider raises while it is asked stays as it is, so that retry policies see its type; a note on
it says whose model failed, and `failure` makes a line of both.
"""

from __future__ import annotations

import os
import re
from textwrap import shorten
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import SecretStr, ValidationError

from sottovoce.errors import UsageError
from sottovoce.form import Form

PREFIX = "hosted:"
FORM = "hosted:PROVIDER:MODEL, e.g. hosted:openai:gpt-4o-mini"
LONGEST = 300  # characters of what a provider said
CUT = "LengthFinishReasonError"
NOTE = "hosted model of "
SECRET = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)(?:_|$)")
SHORTEST_SECRET = 8  # characters; TOKENIZERS_PARALLELISM=1 is none


def is_hosted(name: str) -> bool:
    """Whether a model's name is that of a hosted one."""
    return name.startswith(PREFIX)


def hosted(
    name: str, agent: str = "model", max_tokens: int | None = None, top_logprobs: int | None = None
) -> BaseChatModel:
    """The chat model behind a name; what its class has no parameter for is left out.

    `top_logprobs`: of how many most probable tokens of each position the log-probabilities are asked for.

    Raises:
        UsageError: a package or a key is missing, or there is no such provider; says what to install or set.
    """
    model = _built(name)
    if variable := _without_key(model):
        raise UsageError(f"model {name!r} has no key; set {variable} in the environment")
    asked = {"max_tokens": max_tokens, "logprobs": top_logprobs and True, "top_logprobs": top_logprobs}
    options = {each: value for each, value in asked.items() if value is not None and _takes(model, each)}
    if options:
        model = _built(name, **options)
    model.callbacks = [_Named(f"{agent}: {name}")]
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


def failure(error: BaseException) -> str | None:
    """One line on what a hosted model made by name raised: whose, and what the provider said; None of other errors."""
    for note in getattr(error, "__notes__", ()):
        if note.startswith(NOTE):
            return f"{note.removeprefix(NOTE)} failed: {type(error).__name__}: {_said(error)}"
    return None


class _Named(BaseCallbackHandler):
    """Notes on a provider's exception whose model it was."""

    def __init__(self, whose: str) -> None:
        self.whose = whose

    def on_llm_error(self, error: BaseException, **about: Any) -> None:  # Any: what LangChain tells besides
        error.add_note(f"{NOTE}{self.whose}")


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
