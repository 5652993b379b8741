"""Convincing samples of ReConcile, and their file (Chen et al. 2023, section 3).

A model answered these questions wrongly alone, and rightly after reading a human's explanation; the other
agents see them as examples. A file has the samples of one model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from sottovoce.channels.message import words
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import PromptError, UsageError
from sottovoce.core.files import text_of
from sottovoce.core.validation import Checked
from sottovoce.prompts.kinds import MOST_CHOICES, KindName, lettered
from sottovoce.prompts.render import Prompts

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

REASONING, ANSWER, CONFIDENCE = "reasoning", "answer", "confidence_level"
"""The keys of an agent's reply, and of a sample, which is shown as a reply."""


class Sample(BaseModel):
    """One question, with the explanation that convinced a model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    question: Text
    kind: KindName = "number"
    choices: list[Text] = Field(default=[], max_length=MOST_CHOICES)
    explanation: Text
    """A human's explanation."""
    answer: Text
    """The right answer."""
    before: Text | None
    """The model's answer alone; None is an abstention."""
    after: Text
    """The model's answer after reading the explanation."""


class Samples(Checked):
    """The samples of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal["sottovoce.samples"] = "sottovoce.samples"
    version: Literal[1] = 1
    model: Text
    """The name of the model that was convinced."""
    weights: str | None = None
    """`LoadedModel.weights_key`, since models of one name may differ; None for a hosted model."""
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The temperature that was used; None left it to the model."""
    settings: JSON = Field(default={})
    """The model's other settings: protocol (always nl), seed, max_tokens, ..."""
    samples: list[Sample] = Field(min_length=1)
    """In the order of the training file."""

    def to_json(self) -> str:
        """Return the file's text."""
        return self.model_dump_json(indent=2) + "\n"


def read_samples(path: Path | str) -> Samples:
    """Read a file of samples.

    Raises:
        UsageError: there is no file, it is not JSON, has another format or version, or a missing or wrong field.
    """
    name = f"samples file {str(path)!r}"
    try:
        return Samples.model_validate(json.loads(text_of(path)))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}; expected a JSON file of samples") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def rendered(file: str, prompts: Prompts) -> list[str]:
    """Return the samples of a file as agents read them.

    Raises:
        UsageError: it is not a file of samples.
    """
    return [_as_example(sample, file, prompts) for sample in read_samples(file).samples]


def _as_example(sample: Sample, file: str, prompts: Prompts) -> str:
    given = {REASONING: sample.explanation, ANSWER: sample.answer, CONFIDENCE: "1.0"}  # a person was sure of it
    reply = json.dumps(given, ensure_ascii=False)
    slots = {"question": sample.question, "choices": lettered(sample.choices), "reply": reply}
    try:
        return words(prompts.render("reconcile/sample", **slots))
    except PromptError as error:
        raise PromptError(f"samples file {file!r}: {error}") from error
