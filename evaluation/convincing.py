"""ReConcile's convincing samples of a model: what is asked for, progress, and the file (Chen et al. 2023, section 3).

Nothing here imports torch or langgraph before a model is asked for: the command line reads `Wanted`
and `Speaking` to print its help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from sottovoce.errors import SottovoceError, UsageError
from sottovoce.evaluation.printable import counted, one_line
from sottovoce.nodes.settings import OF_LOADING, OF_SAMPLING, Single, validated

if TYPE_CHECKING:
    from sottovoce.evaluation.walk import Walk
    from sottovoce.nodes.company import Models
    from sottovoce.nodes.samples import Samples
    from sottovoce.nodes.stage import Stage

PAPER = 4
SPOKEN = {"model", "temperature", "system", "max_tokens", "seed", "prompts", "chain_of_thought"}
"""What a model that is asked alone and in words can be told, with the settings of sampling and loading."""


def _speaking() -> type[BaseModel]:
    told = {*SPOKEN, *OF_SAMPLING, *OF_LOADING}
    fields: dict[str, Any] = {  # Any: as pydantic takes them
        name: (info.annotation, info) for name, info in Single.model_fields.items() if name in told
    }
    return create_model("Speaking", __config__=ConfigDict(extra="forbid", frozen=True, title="Settings"), **fields)


Speaking = _speaking()


class Wanted(BaseModel):
    """What is to be found where."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Samples")

    training_file: Path | None = Field(
        default=None,
        description="JSON Lines: question, target, explanation (or solution); also kind, choices, id",
        json_schema_extra={"positional": True},
    )
    out: Path | None = Field(default=None, description="write the samples to this file")
    samples: int = Field(default=PAPER, ge=1, description="stop when so many are found; the paper has four")


def show_convince(wanted: Wanted, speaking: BaseModel, models: Models = None) -> None:
    """Find convincing samples of a model, write their file, and say how many there were.

    `models` is a chat model to ask, a hosted one perhaps; None makes the one that `speaking` names.

    Raises:
        UsageError: the request cannot be met; found before the model speaks.
        SottovoceError: the model failed, or nobody was convinced; nothing is written.
    """
    from sottovoce.evaluation.record import check_writable, write

    if wanted.training_file is None or wanted.out is None:
        missing = "--out" if wanted.training_file else "a training file"
        raise UsageError(f"{missing} was not given; expected: convince TRAINING_FILE --out FILE")
    if wanted.out.exists():
        raise UsageError(f"--out {str(wanted.out)!r} exists already; choose another file")
    check_writable(wanted.out, "--out")
    settings = validated(Single, speaking.model_dump(exclude_unset=True))
    walk, samples = _found(settings, models, wanted.training_file, wanted.samples)
    asked = f"{counted(walk.asked, 'question')} asked, {walk.wrong:,} wrong, {len(walk.samples):,} convinced"
    if samples is None:
        raise SottovoceError(f"{asked}: nothing was written; give more questions, or another model")
    write(wanted.out, samples.to_json())
    print(asked)
    print(one_line(f"{counted(len(walk.samples), 'sample')} written to {str(wanted.out)!r}"))
    if len(walk.samples) < wanted.samples:
        print(f"{wanted.samples:,} were asked for: give more questions to find them")


def _found(settings: Single, models: Models, training_file: Path, wanted: int) -> tuple[Walk, Samples | None]:
    """The walk, and what is to be written where anything was found."""
    from sottovoce.evaluation.run import payloads
    from sottovoce.evaluation.training_file import read_training
    from sottovoce.evaluation.walk import walk
    from sottovoce.nodes.company import Company
    from sottovoce.nodes.state import Discussion

    questions = read_training(training_file)
    with payloads(None) as store, _progress(len(questions)) as watch:
        opened = cast(Discussion, {"settings": settings.model_dump(mode="json")})
        stage = Company(Single, settings, models, store).stage(opened)
        found = asyncio.run(walk(stage, questions, wanted, watch))
        return found, samples_of(stage, found) if found.samples else None


def samples_of(stage: Stage[Single], walk: Walk) -> Samples:
    """What was found, with who was convinced and how it was asked."""
    from sottovoce.agents.hooked import HookedChatModel
    from sottovoce.nodes.samples import Samples

    ((agent, model),) = stage.models.items()
    return Samples(
        model=str(getattr(model, "model", None) or model.get_name()),  # hosted ones have no common attribute
        weights=model.loaded.weights_key if isinstance(model, HookedChatModel) else None,
        temperature=stage.temperature(agent),
        settings=stage.settings.model_dump(mode="json"),
        samples=walk.samples,
    )


@contextmanager
def _progress(questions: int) -> Iterator[Callable[[Walk], None]]:
    """A line that counts, on a terminal alone."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        yield lambda walk: None
        return
    with console.status("loading") as status:
        yield lambda walk: status.update(
            f"{walk.asked:,} of {counted(questions, 'question')}: {walk.wrong:,} wrong, {len(walk.samples):,} convinced"
        )
