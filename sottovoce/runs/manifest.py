"""The manifest of a run: scheme, settings, and everything else that its results depend on."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

import sottovoce
from sottovoce.agents.hooked import HookedChatModel
from sottovoce.channels import PROTOCOLS
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import NotInstalled, RecordError, SottovoceError
from sottovoce.core.registry import Registry
from sottovoce.core.trust import NO_TRUST
from sottovoce.core.validation import first_wrong
from sottovoce.graphs import SCHEMES
from sottovoce.graphs import scheme as scheme_of
from sottovoce.nodes.agent import wording
from sottovoce.nodes.context import Models, made_from
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Answers, Settings
from sottovoce.prompts import NAMES, SHIPPED
from sottovoce.prompts.kinds import KINDS, kind_of
from sottovoce.prompts.render import Prompts
from sottovoce.runs.limits import Budget

FORMAT = "sottovoce.run"
VERSION = 1
ALWAYS = {"model", "protocol", "seed"}
"""Settings that every run has."""
LIBRARIES = ("torch", "transformers", "langgraph")
EVERYWHERE = ("answers", "debate", "shared")
"""Folders of prompts that any scheme may use; each other folder belongs to one scheme."""


def versions() -> dict[str, str]:
    """Return the versions of this package, Python and the libraries that a run depends on."""
    ours = {"sottovoce": sottovoce.__version__, "python": platform.python_version()}
    return ours | {name: version(name) for name in LIBRARIES}


class AgentModel(BaseModel):
    """The model of an agent, identified by its weights."""

    model: str
    weights: str
    """`LoadedModel.weights_key`"""
    vocabulary: str
    """`LoadedModel.vocabulary_key`"""
    parameters: int
    table: int
    """Size of the embedding table, vocabulary times width."""
    dtype: str
    format: str
    """`LoadedModel.format`"""
    device: str
    threads: int
    """Number of torch's threads."""


def _shipped(pack: str) -> str:
    if pack not in NAMES:
        raise ValueError(f"expected one of {', '.join(NAMES)}")
    return pack


def _moment(text: str) -> str:
    datetime.fromisoformat(text)  # raises ValueError
    return text


class RunManifest(BaseModel):
    """The manifest of a run: the first line of its log."""

    format: str = FORMAT
    version: int = VERSION
    scheme: str
    settings: JSON
    seeds: Annotated[list[int], Field(min_length=1)]
    """Every question is discussed once under each of them."""
    origin: str | None = None
    """Where the questions are from; None if a human asked them."""
    questions: str
    """The sha256 of all questions."""
    prompts: str
    """Digest of the prompts that the scheme may use: see `prompts_digest`."""
    packs: dict[str, Annotated[str, AfterValidator(_shipped)]] = {}
    """Prompt pack by agent, if the agent's model has one of its own and the settings name none."""
    answers: dict[str, Answers] = {}
    """Wording of the request for an answer by agent: short or sentence."""
    models: dict[str, AgentModel] = {}
    """By agent; hosted models have no entry."""
    budget: Budget | None = None
    """The budget of its samples, if their number follows from the cost of another run."""
    monitors: str = ""
    """The sha256 of all its monitors; empty if the settings name none."""
    bridges: str = ""
    """The sha256 of its bridges' digests; empty if the settings name none."""
    packages: dict[str, str] = {}
    """The packages that provide its scheme, protocol and kinds, by these ("scheme 'panel'"); none for ours."""
    versions: dict[str, str] = Field(default_factory=versions)
    started: Annotated[str, AfterValidator(_moment)] = Field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )
    """When it was started; chat templates print this date whenever it continues or is re-run."""

    def all_settings(self) -> Settings:
        """Return the settings of the run, the sandbox too.

        Raises:
            UsageError: this version no longer knows one of them.
        """
        kind = scheme_of(self.scheme).settings
        usual = kind().model_dump(mode="json")
        # Defaults count as not chosen: models given in code bring values of their own.
        return kind.model_validate({name: value for name, value in self.settings.items() if value != usual.get(name)})

    def own_settings(self) -> Settings:
        """Return all but the sandbox, which only the command line chooses (`Trust`). Errors: see `all_settings`."""
        return NO_TRUST.applied(self.all_settings())

    def missing(self) -> list[str]:
        """Return a note on each thing that the run needs and that is not installed, as far as the manifest names it."""
        known = {f"{registry.kind} {name!r}" for registry in (SCHEMES, PROTOCOLS, KINDS) for name in registry}
        needed = dict.fromkeys([f"protocol {self.settings['protocol']!r}", *self.packages])
        return [f"its {thing} is not installed{self.named(thing)}" for thing in needed if thing not in known]

    def named(self, thing: str) -> str:
        """Return the package that the manifest names for a thing, in parentheses; "" if it names none."""
        return f" (its log names {self.packages[thing]!r})" if thing in self.packages else ""

    def check_same(self, now: RunManifest, where: str) -> list[str]:
        """Check that a run continues with the same models, prompts and settings; return other versions as notes.

        Raises:
            RecordError: something differs; the message names it.
        """
        usual = scheme_of(self.scheme).settings().model_dump(mode="json")
        older = self.model_copy(update={"settings": usual | self.settings})  # it lacks settings that came later
        for name in ("scheme", "settings", "seeds", "questions", "prompts", "monitors", "bridges"):
            if getattr(older, name) != getattr(now, name):
                raise RecordError(f"run {where!r} was started with other {name}; start a new run, or restore them")
        for agent, model in self.models.items():
            other = now.models.get(agent)
            same = ("weights", "vocabulary", "format")
            if other is None or any(getattr(model, name) != getattr(other, name) for name in same):
                raise RecordError(
                    f"the model {model.model!r} of {agent} has changed since run {where!r} started (weights "
                    f"{model.weights} in {model.format}, vocabulary {model.vocabulary}); start a new run, or restore it"
                )
        pairs = [(name, old, now.versions.get(name)) for name, old in self.versions.items()]
        return [f"started with {name} {old}, resumed with {new}" for name, old, new in pairs if old != new]


def new_manifest(
    scheme: str,
    settings: Settings,
    questions: Sequence[Question],
    seeds: Sequence[int] = (),
    origin: str | None = None,
    models: Models = None,
) -> RunManifest:
    """Return the manifest of a new run; this loads the models.

    Raises:
        UsageError: a model, a prompt pack, a monitor or a bridge cannot be read.
    """
    chat_models = dict[str, BaseChatModel]()
    for agent in (name for name in settings.names() if name not in settings.human):
        model = models.get(agent) if isinstance(models, Mapping) else models or made_from(settings, agent)
        chat_models |= {agent: model} if model is not None else {}
    monitors = ""
    if settings.watch:
        from sottovoce.monitors.monitor import monitor_of  # late: numpy

        monitors = digest([monitor_of(name).model_dump(mode="json") for name in settings.watch])
    bridges = ""
    if settings.bridge:
        from sottovoce.channels.bridge_files import read_label  # late: few runs have bridges

        bridges = digest([read_label(folder).digest for folder in settings.bridge])
    own = {name: pack for name, model in chat_models.items() if (pack := getattr(model, "pack", None))}
    packs = {} if settings.prompts else own
    used: list[tuple[Registry[Any], str]] = [(SCHEMES, scheme), (PROTOCOLS, settings.protocol)]  # Any: of three types
    used += [(KINDS, kind) for kind in sorted(set(map(kind_of, questions)))]
    return RunManifest(
        scheme=scheme,
        settings=settings.model_dump(mode="json"),
        seeds=list(seeds) or [settings.seed],
        origin=origin,
        questions=digest(questions),
        prompts=prompts_digest(scheme, settings, packs),
        packs=packs,
        answers={name: wording(settings, model) for name, model in chat_models.items()},
        models={name: _described(model) for name, model in chat_models.items() if isinstance(model, HookedChatModel)},
        monitors=monitors,
        bridges=bridges,
        packages={f"{known.kind} {name!r}": package for known, name in used if (package := known.package(name))},
    )


def prompts_digest(scheme: str, settings: Settings, packs: Mapping[str, str]) -> str:
    """Return the sha256 of the prompts that a scheme may use: all agents' prompts, by `packs` and the settings.

    Raises:
        PromptError: a pack cannot be read.
    """
    pack = settings.pack_folder(settings.prompts) if settings.prompts else None
    folders = {pack, *(SHIPPED / name for name in packs.values())}
    if packs and packs.keys() >= set(settings.names()):
        folders.discard(pack)  # every agent has a pack of its own
    own = SCHEMES[scheme].own_prompts
    digests = [Prompts(folder, own).digest({*EVERYWHERE, scheme}) for folder in sorted(folders, key=str)]
    return digests[0] if len(digests) == 1 else digest(digests)


def digest(data: JSONValue) -> str:
    """Return the sha256 of plain JSON."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _described(model: HookedChatModel) -> AgentModel:
    import torch

    loaded = model.loaded
    return AgentModel(
        model=loaded.name,
        weights=loaded.weights_key,
        vocabulary=loaded.vocabulary_key,
        parameters=loaded.parameters,
        table=loaded.table.rows.numel(),
        dtype=str(loaded.dtype).removeprefix("torch."),
        format=loaded.format,
        device=str(loaded.model.device),
        threads=torch.get_num_threads(),
    )


def wrong_settings(name: str, settings: JSON) -> str:
    """Return the error in the types of a scheme's settings, or "". Unknown settings are ignored.

    Raises:
        NotInstalled: the scheme, or the kind of answer that the settings name, is not installed.
    """
    if lacking := sorted(ALWAYS - settings.keys()):
        return f"settings has no {lacking[0]!r}"
    try:
        _types(name).model_validate_json(json.dumps(settings), strict=True)
    except ValidationError as error:
        return f"settings.{first_wrong(error, 'it')}"
    except NotInstalled:
        raise
    except SottovoceError as error:
        return str(error)
    return ""


@cache
def _types(name: str) -> type[BaseModel]:
    """Return a model of a scheme's settings that checks only the type of each."""
    fields = scheme_of(name).settings.model_fields
    made: dict[str, Any] = {name: (info.rebuild_annotation(), None) for name, info in fields.items()}  # Any: pydantic's
    return create_model("Settings", __config__=ConfigDict(extra="ignore"), **made)
