"""The command for ReConcile's convincing samples of a model: options, progress, file (Chen et al. 2023, section 3).

Nothing here imports torch or langgraph until a model is needed: the command line reads `SampleOptions`
and `SpeakingOptions` to print its help.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from sottovoce.core.bounds import Samples
from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.core.outputs import FORCE, OutputFile
from sottovoce.core.text import counted, one_line
from sottovoce.core.validation import Checked
from sottovoce.settings import OF_LOADING, OF_SAMPLING, Single

if TYPE_CHECKING:
    from sottovoce.experiments.convincing_search import Walk
    from sottovoce.nodes.inputs import Models

PAPER = 4
SPOKEN = {"model", "temperature", "system", "max_tokens", "seed", "prompts", "chain_of_thought"}
"""Settings that apply to a single model in plain text, besides those of sampling and loading."""
TOLD: dict[str, Any] = {  # Any: as pydantic takes them
    name: (info.annotation, info)
    for name, info in Single.model_fields.items()
    if name in {*SPOKEN, *OF_SAMPLING, *OF_LOADING}
}


class _Told(Checked):
    model_config = ConfigDict(title="Settings")


SpeakingOptions: Any = create_model("SpeakingOptions", __base__=_Told, **TOLD)


class SampleOptions(Checked):
    """Options of the search for convincing samples."""

    model_config = ConfigDict(title="Samples")

    training_file: Path | None = Field(
        default=None,
        description="JSON Lines: question, target, explanation (or solution); also kind, choices, id.",
        json_schema_extra={"positional": True},
    )
    out: Path | None = Field(default=None, description="Write the samples to this file.")
    force: bool = Field(default=False, description=FORCE)
    samples: Samples = Field(default=PAPER, ge=1, description="Stop after finding this many; the paper has four.")


def show_convince(options: SampleOptions, speaking: BaseModel, models: Models = None) -> None:
    """Find convincing samples of a model, write them to a file, and print how many there were.

    `models` is the chat model to ask, for example a hosted one; None creates the one that `speaking` names.

    Raises:
        UsageError: the options are invalid; raised before the model is asked.
        SottovoceError: the model failed, or no explanation convinced it; nothing is written.
    """
    if options.training_file is None or options.out is None:
        missing = "--out" if options.training_file else "a training file"
        raise UsageError(f"{missing} was not given; expected: data convince TRAINING_FILE --out FILE")
    file = OutputFile(options.out, "--out", force=options.force, endings=(".json",))
    settings = Single.model_validate(speaking.model_dump(exclude_unset=True))
    found = _found(options.training_file, options.samples, settings, models)
    told = f"{counted(found.asked, 'question')} asked, {found.wrong:,} wrong, {len(found.samples):,} convinced"
    if not found.samples:
        raise SottovoceError(f"{told}: nothing was written; give more questions, or another model")
    file.write(found.text)
    print(told)
    print(one_line(f"{counted(len(found.samples), 'sample')} written to {str(options.out)!r}"))
    if len(found.samples) < options.samples:
        print(f"{options.samples:,} were asked for: give more questions to find them")


def _found(training_file: Path, wanted: int, settings: Single, models: Models) -> Walk:
    """Return the finished search, with a progress line if stdout is a terminal."""
    from rich.console import Console

    from sottovoce.experiments.convincing_search import read_training, walk
    from sottovoce.nodes.context import Contexts
    from sottovoce.runs.runner import payload_store

    questions, console = read_training(training_file), Console()
    with payload_store(None) as store, console.status("loading") if console.is_terminal else nullcontext() as status:

        def progress(found: Walk) -> None:
            if status:
                of = f"{found.asked:,} of {counted(len(questions), 'question')}"
                status.update(f"{of}: {found.wrong:,} wrong, {len(found.samples):,} convinced")

        return asyncio.run(walk(Contexts(Single, settings, models, store), questions, wanted, progress))
