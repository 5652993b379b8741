"""Models of the lines of a log: each line is validated before it is written, and again before use.

Types are strict, as `log` writes them. Unknown fields are ignored.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from sottovoce.channels.message import Message
from sottovoce.channels.store import DIGEST
from sottovoce.core.any_types import JSON
from sottovoce.core.bounds import MAX_COUNT
from sottovoce.core.errors import SottovoceError
from sottovoce.core.validation import first_wrong
from sottovoce.graphs import scheme
from sottovoce.nodes.question import Question
from sottovoce.retrievers.pool import Origin
from sottovoce.runs.events import MOST_PLACES, Asked, Count, Decided, Intervention, Level, Opened, Reset
from sottovoce.runs.log import SURROGATE
from sottovoce.runs.manifest import RunManifest

Counted = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PLACES = ("epoch", "round", "turn", "attempt")
ALWAYS = {"model", "protocol", "seed"}
"""Settings that every run has."""
KIND = re.compile(r"^[a-z]+\.")
"""Pydantic names the kind of a line before its fields."""


def _places(event: Any) -> Any:  # Any: an event that names a place
    for name in PLACES:
        if not 0 <= getattr(event, name, 0) < MOST_PLACES:
            raise PydanticCustomError("place", f"its {name} should be from 0 to {MOST_PLACES - 1:,}")
    return event


def _message(said: _Said) -> _Said:
    """Check that statistics are finite and payloads have a valid address."""
    _places(said)
    for name, value in said.stats.items():
        if not -MAX_COUNT <= value <= MAX_COUNT:  # also refuses NaN
            raise PydanticCustomError("stats", f"its stats.{name} should be a finite number of ordinary size")
    for ref in said.own_refs:
        if not all(map(DIGEST.fullmatch, (ref.sha256, ref.text_sha256))):
            digits = "its payload's sha256 and text_sha256 should be 64 hexadecimal digits each"
            raise PydanticCustomError("payload", digits)
        if not all(0 <= number <= MAX_COUNT for number in (ref.tokens, ref.nbytes, ref.hidden or 0, *ref.layers)):
            raise PydanticCustomError("payload", "its payload's sizes should be numbers from 0 on")
    return said


class _Passage(TypedDict):
    title: str
    origins: Annotated[list[Origin], Field(min_length=1)]


@dataclass(frozen=True)
class _Said(Message):
    evidence: tuple[_Passage, ...] = ()
    event: Literal["said"] = "said"


Event = Annotated[
    Annotated[_Said, AfterValidator(_message)]
    | Opened
    | Annotated[Asked, AfterValidator(_places)]
    | Annotated[Count, AfterValidator(_places)]
    | Annotated[Level, AfterValidator(_places)]
    | Reset
    | Intervention
    | Decided,
    Field(discriminator="event"),
]
Key = tuple[str, int]
Seconds = Annotated[float, Field(ge=0, le=MAX_COUNT)]


class Counts(BaseModel):
    """Counts of how a run's discussions ended; the log's last line has them, so that listing runs is quick."""

    discussions: Counted = 0
    done: Counted = 0
    failed: Counted = 0
    abstained: Counted = 0
    scored: Counted = 0
    """Discussions that are done and have a target."""
    score: float = Field(default=0.0, ge=0, le=MAX_COUNT)
    """Sum of their scores."""


class _RunLine(RunManifest):
    line: Literal["run"]


class _QuestionLine(BaseModel):
    line: Literal["question"]
    question: Question


class _AskedLine(Asked):
    line: Literal["asked"]
    of: Key


class _StepLine(BaseModel):
    line: Literal["step"]
    of: Key
    task: str
    seconds: Seconds
    events: list[Event]
    update: JSON


class _RepliedLine(BaseModel):
    line: Literal["replied"]
    of: Key
    task: str
    reply: str | JSON


class _AgainLine(BaseModel):
    line: Literal["again"]
    of: Key


class _FailedLine(BaseModel):
    line: Literal["failed"]
    of: Key
    error: str
    seconds: Seconds
    outside: bool = False


class _ClosingLine(BaseModel):
    line: Literal["stopped", "done"]
    why: str = ""
    nbytes: Counted = 0
    counts: Counts | None = None
    digest: str | None = None


class _ResumedLine(BaseModel):
    line: Literal["resumed"]


Line = Annotated[
    _RunLine
    | _QuestionLine
    | Annotated[_AskedLine, AfterValidator(_places)]
    | _StepLine
    | _RepliedLine
    | _AgainLine
    | _FailedLine
    | _ClosingLine
    | _ResumedLine,
    Field(discriminator="line"),
]


def wrong_in(line: bytes) -> str:
    """Return what is wrong with a line of a log: the field, what was found and what was expected; "" for nothing."""
    try:  # pydantic does not accept surrogates
        _line().validate_json(SURROGATE.sub(b"\\\\ufffd", line), strict=True)
    except ValidationError as error:
        return KIND.sub("", first_wrong(error, "it"))
    except SottovoceError as error:  # an unknown kind of answer
        return str(error)
    return ""


def wrong_settings(name: str, settings: JSON) -> str:
    """Return what is wrong with the type of a scheme's settings; "" for nothing. Unknown settings are ignored."""
    if lacking := sorted(ALWAYS - settings.keys()):
        return f"settings has no {lacking[0]!r}"
    try:
        _types(name).model_validate_json(json.dumps(settings), strict=True)
    except ValidationError as error:
        return f"settings.{first_wrong(error, 'it')}"
    except SottovoceError as error:
        return str(error)
    return ""


@cache  # building them takes a tenth of a second
def _line() -> TypeAdapter[Any]:
    return TypeAdapter(Line)


@cache
def _types(name: str) -> type[BaseModel]:
    """Return a model of a scheme's settings that checks only the type of each."""
    fields = scheme(name).settings.model_fields
    made: dict[str, Any] = {name: (info.rebuild_annotation(), None) for name, info in fields.items()}  # Any: pydantic's
    return create_model("Settings", __config__=ConfigDict(extra="ignore"), **made)
