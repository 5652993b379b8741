"""The command `data convince`: its options, progress and file (ReConcile, Chen et al. 2023, section 3).

Nothing here imports torch or langgraph until a model is needed: the command line reads the options.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from sottovoce.cli.options import argument
from sottovoce.core.bounds import Samples
from sottovoce.core.errors import SottovoceError
from sottovoce.core.outputs import FORCE, OutputFile
from sottovoce.core.text import counted, one_line
from sottovoce.core.validation import Checked
from sottovoce.settings import OF_LOADING, OF_SAMPLING, Single

if TYPE_CHECKING:
    from sottovoce.experiments.convincing import SampleSearch
    from sottovoce.nodes.contexts import Models

PAPER_SAMPLES = 4
MODEL_SETTINGS = {
    "model", "temperature", "system", "max_tokens", "seed", "prompts", "chain_of_thought", *OF_SAMPLING, *OF_LOADING
}  # fmt: skip
"""Settings that apply to a single model in plain text."""


class _ModelSettings(Checked):
    model_config = ConfigDict(title="Settings")


_FIELDS: dict[str, Any] = {  # Any: as pydantic takes them
    name: (field.annotation, field) for name, field in Single.model_fields.items() if name in MODEL_SETTINGS
}
ModelOptions: Any = create_model("ModelOptions", __base__=_ModelSettings, **_FIELDS)


class SampleOptions(Checked):
    """Options of the search for convincing samples."""

    model_config = ConfigDict(title="Samples")

    training_file: Path = argument(
        "JSON Lines: question, target, explanation (or solution); also kind, choices, id.", "TRAINING_FILE"
    )
    out: Path = Field(description="Write the samples to this file.")
    force: bool = Field(default=False, description=FORCE)
    samples: Samples = Field(default=PAPER_SAMPLES, ge=1, description="Stop after this many; the paper has four.")


def find_convincing_samples(options: SampleOptions, model_options: BaseModel, models: Models = None) -> None:
    """Find convincing samples of a model, write them to a file, and print how many there were.

    `models` is the chat model to ask, for example a hosted one; None creates the one that `model_options` names.
    """
    file = OutputFile(options.out, "--out", force=options.force, endings=(".json",))
    settings = Single.model_validate(model_options.model_dump(exclude_unset=True))
    search = _search(options.training_file, options.samples, settings, models)
    counts = f"{counted(search.answered, 'question')} asked, {search.wrong:,} wrong, {len(search.samples):,} convinced"
    if not search.samples:
        raise SottovoceError(f"{counts}: nothing was written; give more questions, or another model")
    file.write(search.text)
    print(counts)
    print(one_line(f"{counted(len(search.samples), 'sample')} written to {str(options.out)!r}"))
    if len(search.samples) < options.samples:
        print(f"{options.samples:,} were requested; give more questions to find them")


def _search(training_file: Path, limit: int, settings: Single, models: Models) -> SampleSearch:
    from rich.console import Console

    from sottovoce.experiments.convincing import find_samples, read_training
    from sottovoce.nodes.contexts import Contexts
    from sottovoce.runs.runner import payload_store

    questions, console = read_training(training_file), Console()
    with payload_store(None) as store, console.status("loading") if console.is_terminal else nullcontext() as status:

        def progress(search: SampleSearch) -> None:
            if status:
                of = f"{search.answered:,} of {counted(len(questions), 'question')}"
                status.update(f"{of}: {search.wrong:,} wrong, {len(search.samples):,} convinced")

        return asyncio.run(find_samples(Contexts(Single, settings, models, store), questions, limit, progress))
