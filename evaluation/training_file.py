"""Training questions with explanations by humans, a JSON object a line.

One line: {"question": "What is 14 + 3 * 5?", "target": "29", "explanation": "3 * 5 = 15; 14 + 15 = 29."}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from sottovoce.errors import UsageError, choose
from sottovoce.nodes.samples import Sample
from sottovoce.nodes.settings import validated
from sottovoce.nodes.state import Question, check_question
from sottovoce.prompts import kinds

FIELDS = ("question", "target", "explanation", "solution", "kind", "choices", "id")
NEEDS = {"target": "a right answer is to be reached", "solution": "an explanation (or solution) is to convince"}


def read_training(path: Path) -> list[Question]:
    """The questions of a file of JSON Lines; their `solution` is the explanation. Empty lines are skipped.

    Raises:
        UsageError: the file cannot be read or holds no question, or a line, which is named, is none.
    """
    name = f"training file {str(path)!r}"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from error
    # Not splitlines: a text may hold U+2028, at which that would split too.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        raise UsageError(f"{name} is empty; expected an object a line, with the fields: {', '.join(FIELDS)}")
    return [_read_line(line, f"line {number} of {name}") for number, line in lines]


def _read_line(line: str, name: str) -> Question:
    try:
        return _question(json.loads(line))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON: {error}") from error


def _question(data: Any) -> Question:  # Any: JSON as it comes
    """A question that can be asked, answered rightly and kept as a sample."""
    if not isinstance(data, dict):
        raise UsageError(f"found {type(data).__name__}; expected an object with the fields: {', '.join(FIELDS)}")
    for name in data:
        if name not in FIELDS:
            raise UsageError(choose("field", name, FIELDS))
    given = {name: value for name, value in data.items() if value is not None}
    if "explanation" in given:
        given["solution"] = given.pop("explanation")
    question = cast(Question, given)
    check_question(question, None, NEEDS)
    target, kind = question["target"], question.get("kind", "number")
    if not kinds.right(kinds.read_value(target, kind, question.get("choices")), question):
        raise UsageError(f"target is {target!r}; expected an answer that is read as it stands, of the kind {kind!r}")
    sample_of(question, None, target)
    return question


def sample_of(question: Question, before: str | None, after: str) -> Sample:
    """A question as a convincing sample.

    Raises:
        UsageError: a text of it is empty or none.
    """
    shown = {"question": question["question"], "kind": question.get("kind", "number")}
    known = {"choices": question.get("choices", []), "explanation": question["solution"], "answer": question["target"]}
    return validated(Sample, {**shown, **known, "before": before, "after": after})
