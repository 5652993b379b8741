"""Parameters that the server of a hosted model refuses: read from its error, and left out of later calls.

OpenAI's models that reason refuse `temperature` and `stop`, and some servers want another name for the length of a
reply; they say so in an error 400. A value out of range is the caller's mistake, so that error stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage

from sottovoce.agents.convert import REASONS, ending_of
from sottovoce.agents.hosted import chain, status_of
from sottovoce.agents.hosted_thinking import Thinker
from sottovoce.core.any_types import Keywords, Untyped

OF_SERVERS = {
    "temperature": r"temperature",
    "stop": r"['\"`](?:stop|stop_sequences|stopSequences)['\"`]|stop[ _]sequences?|parameter:? stop|stop parameter",
    "max_tokens": r"max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens",
    "thinking": r"(?<!when )(?<!with )(?:[Tt]hinking(?:_budget|_level)?|[Rr]easoning(?:[_.]effort)?(?! model))|"
    r"budget_tokens|chat_template_kwargs|extra_body",
    "stream_usage": r"stream_usage|stream_options|include_usage",
    "response_format": r"response[_ ]format|json_schema|output_format|output_config|structured outputs?",
}
"""Patterns of servers' names for the options of a call that it can do without."""
UNNAMED = "its server names no reason for the end of its replies: they count as whole"
INSTEAD = re.compile(r"\buse ['\"`]?(max_\w+)", re.IGNORECASE)
REFUSED = (None, 400, 405, 422)
"""HTTP statuses of a refused request; a client that refuses a parameter by itself has none."""
REFUSES = re.compile(
    r"unsupported|not (?:\w+ )?(?:support|allow|permit|accept)|n[o']t support|unavailable|not available|deprecated|"
    r"unrecogni[sz]ed|unknown|unexpected|extra (?:inputs|fields)|allowed values|only \S+ is allowed|may only be|"
    r"only works|cannot (?:both )?be (?:used|set|specified|disabled)|invalid schema",
    re.IGNORECASE,
)


@dataclass(eq=False)
class Refused:
    """The parameters that servers refused in a run, by model; a run shares it, so that each is refused once."""

    by_model: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each refused option the name that the server wants instead, or an empty text."""
    unreasoned: set[str] = field(default_factory=set)
    """The models whose servers named no reason for the end of a whole reply."""
    thinkers: dict[str, Thinker] = field(default_factory=dict)
    """Knowledge about the thoughts of each model."""
    _lock: Untyped = field(default_factory=Lock, repr=False)

    def thinker(self, model: BaseChatModel) -> Thinker:
        """Return the record of a model's thoughts. Callers may change it."""
        with self._lock:
            return self.thinkers.setdefault(_key(model), Thinker())

    def sent(self, model: BaseChatModel, options: dict[str, Keywords]) -> tuple[BaseChatModel, dict[str, Keywords]]:
        """Return the model and the options of a call without the parameters that its server refused."""
        refused = self.by_model.get(_key(model), {}) if self.by_model else {}
        own = _own(model, refused)
        sent = {name: value for name, value in options.items() if name not in refused}
        length = options.get("max_tokens") or next((value for name, value in own.items() if "max" in name), None)
        if refused.get("max_tokens") and length:
            sent[refused["max_tokens"]] = length
        return (model.model_copy(update=dict.fromkeys(own)) if own else model), sent

    def learn(self, model: BaseChatModel, sent: dict[str, Keywords], error: Exception) -> list[str]:
        """Remember the parameters that an error refuses, and return a note on each that is new to the run.

        Raises:
            Exception: the error itself, if it refuses no parameter of the call.
        """
        found = refused_in(error, [*sent, *_own(model, OF_SERVERS)])
        if not found:
            raise error
        with self._lock:
            known = self.by_model.setdefault(_key(model), {})
            fates = [(name, f"sent as `{other}`" if other else "left out from now on") for name, other in found.items()]
            notes = [f"its server refuses `{name}`, which is {fate}" for name, fate in fates if name not in known]
            known |= {name: "" if known.get(name) in sent else instead for name, instead in found.items()}
        return notes

    def unnamed(self, model: BaseChatModel, reply: AIMessage) -> list[str]:
        """Return a note if a server named no reason for the end of a whole reply, once a run for each model."""
        about = reply.response_metadata
        if ending_of(about) is not None or not any(name in about for name in ("model_provider", *REASONS)):
            return []
        with self._lock:
            new = _key(model) not in self.unreasoned
            self.unreasoned.add(_key(model))
        return [UNNAMED] if new else []


def refused_in(error: BaseException, sent: Iterable[str]) -> dict[str, str]:
    """Return the sent options that an error refuses, each with the name that the server wants instead, if any.

    >>> refused_in(ValueError("Unsupported: 'max_tokens'. Use 'max_completion_tokens' instead."), ["max_tokens"])
    {'max_tokens': 'max_completion_tokens'}
    """
    errors, sent = list(chain(error)), " ".join(sent)
    said = " ".join(map(str, errors))
    if not all(status_of(each) in REFUSED for each in errors) or not REFUSES.search(said):
        return {}
    named = " ".join(f"'{name}'" for each in errors if isinstance(name := getattr(each, "param", None), str)) or said
    instead = INSTEAD.search(said)
    return {
        name: instead[1] if instead and name == "max_tokens" else ""
        for name, pattern in OF_SERVERS.items()
        if re.search(pattern, named) and re.search(pattern, re.sub(r"\w+", r"'\g<0>'", sent))
    }


def _own(model: BaseChatModel, names: Iterable[str]) -> dict[str, Keywords]:
    """Return the values that a model itself has for options, by the names of its fields."""
    fields = [name for name in type(model).model_fields for each in names if re.fullmatch(OF_SERVERS[each], name)]
    return {name: value for name in fields if (value := getattr(model, name)) is not None}


def _key(model: BaseChatModel) -> str:
    """Return a key that identifies a model and its server."""
    about = model._get_ls_params()
    servers = (getattr(model, name, None) for name in ("openai_api_base", "base_url", "endpoint"))
    server = next(filter(None, servers), "")
    return f"{about.get('ls_provider')} {about.get('ls_model_name')} {server}"
