"""Checks of a graph's inputs besides the question: models of its agents, a store, and the context of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from sottovoce.core.errors import UsageError, choose, nearest
from sottovoce.settings import AnySettings, Settings

Models = BaseChatModel | Mapping[str, BaseChatModel] | None


def check_models(models: Any, agents: Sequence[str], people: Sequence[str]) -> None:  # Any: as a user gave them
    """Refuse invalid models, missing ones of agents that no person plays, and those of unknown agents.

    Raises:
        UsageError: names the value that was found, or the agent without a model.
    """
    if models is None or isinstance(models, BaseChatModel):
        return
    if not isinstance(models, Mapping):
        raise UsageError(
            f"models is {models!r}; expected a chat model, or one by agent, like {{{agents[0]!r}: model}}; "
            "models by name are a setting: model=['bundled']"
        )
    for name in agents:
        if name not in models and name not in people:
            known = ", ".join(sorted(map(str, models)))
            raise UsageError(f"no model for agent {name!r}; models names only: {known}")
    for name, model in models.items():
        if name not in agents:
            raise UsageError(choose("agent among the models:", name, list(agents)))
        if not isinstance(model, BaseChatModel):
            raise UsageError(f"the model of agent {name!r} is {model!r}; expected a chat model")


def check_store(store: Any) -> None:  # Any: as a user gave it
    """Refuse an object that is not a payload store.

    Raises:
        UsageError: names the value that was found.
    """
    if store is not None and not all(hasattr(store, name) for name in ("put", "get", "on_missing")):
        raise UsageError(f"store is {store!r}; expected a payload store, like PayloadStore('payloads')")


def context_of(kind: type[Settings]) -> dict[str, Any]:  # Any: values of settings
    """Return the settings in the context of this run; inside another graph, those that both graphs have.

    Raises:
        UsageError: the context has another scheme's settings, or is not settings.
    """
    context: Any = _context()  # Any: a dict, settings or None, from the caller
    if isinstance(context, kind):
        return context.model_dump(exclude_unset=True)
    if context is None or (_is_inside() and not isinstance(context, Mapping)):
        return {}
    if not isinstance(context, Mapping):
        raise UsageError(f"the context is {type(context).__name__}; this graph expects settings of {kind.__name__}")
    known = kind.model_fields
    unknown = [name for name in context if name not in known]
    if unknown and not _is_inside():
        raise UsageError(nearest("setting in the context:", unknown[0], known))
    return {name: value for name, value in context.items() if name in known}


def check_same(settings: AnySettings, context: Mapping[str, Any]) -> None:  # Any: see `context_of`
    """Refuse a context with settings that differ from those that the discussion was opened with.

    Raises:
        UsageError: names the settings that differ.
    """
    if all(getattr(settings, name) == value for name, value in context.items()):
        return
    wanted = type(settings).model_validate({**settings.model_dump(), **context})  # values as settings have them
    pairs = [(name, getattr(wanted, name), getattr(settings, name)) for name in context]
    differences = [f"{name} is {new!r}, and was {old!r}" for name, new, old in pairs if new != old]
    if differences:
        raise UsageError(
            f"the context asks for other settings than this discussion was opened with: {'; '.join(differences)}; "
            "resume it with its own, or start a new discussion"
        )


def _context() -> Any:  # Any: see `context_of`
    try:
        return getattr(get_runtime(), "context", None)
    except RuntimeError:  # no graph is running
        return None


def _is_inside() -> bool:
    """Return True if this graph runs inside another one, whose context it gets."""
    return "|" in (get_config().get("metadata") or {}).get("langgraph_checkpoint_ns", "")
