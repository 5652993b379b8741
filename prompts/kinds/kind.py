"""The record of a kind of answer: how it is requested, parsed, compared, and constrained while decoding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.marks import unmarked

Choices = Sequence[str]
Read = Callable[[str, Choices], str | None]
"""A function from a text and the question's choices to the answer in canonical form; None if there is none."""


@dataclass(frozen=True)
class Kind:
    """One kind of answer; a new kind is one file with one object of this class."""

    words: str
    """The kind's name in a sentence: "yes or no"."""
    form: str
    """The request for it: the name of a prompt file ("answers/number"), or the words themselves."""
    placeholder: str
    """The answer's placeholder in a JSON form: "a number"."""
    read: Read
    """Parses a reply that marks no answer; such an answer is mined."""
    read_value: Read = lambda field, choices: unmarked(field)
    """Parses a field, whose whole text is the answer; its spaces are single ones."""
    same: Callable[[str, str], bool] = lambda left, right: left.casefold().split() == right.casefold().split()
    """Returns whether two canonical answers agree."""
    grammar: Callable[[Choices], Form | None] = lambda choices: None
    """Returns the format of a reply that is only an answer; None if it may be any text."""
    check: Callable[[Mapping[str, Any]], None] = lambda question: None  # Any: a Question; its module imports this one
    """Raises a UsageError if a question's target or choices do not fit this kind."""
    unknown_is_an_answer: bool = False
    """Whether "unknown" in a field is an ordinary answer, not an abstention."""
    short: Callable[[str, str], str] = lambda answer, question: answer
    """Returns an answer without the words of its question, as in votes."""
    implied: Callable[[str, Mapping[str, Any]], str | None] = lambda text, question: None  # Any: see `check`
    """Returns the answer that a text implies if `read` finds none and the text is not an abstention."""
    suits: Callable[[str, str], bool] = lambda answer, question: True
    """Returns whether a mined answer is of the sort that its question asks for."""
    agree: Callable[[str, str, str], bool] | None = None
    """Returns whether two answers to a question agree, if `same` is not enough."""
    is_target: Callable[[str, str, str], bool] | None = None
    """Returns whether an answer to a question is the target, if `agree` is not enough."""
    target: Callable[[str, Choices], str | None] = lambda target, choices: target
    """Returns the target in canonical form: the letter of a choice given by its text."""
    named: Read | None = None
    """Parses a statement ("Answer: X", a box, "the answer is X") to the end of its line; `read` unless given.

    It returns None for a statement about something else, and an empty text for a statement that there is no answer.
    """
    nouns: str = "answer"
    """Words for an answer in statements, as alternatives of a pattern: "answer|label"."""
    contradicts: Callable[[Sequence[str | None], str, Choices], bool] = lambda said, text, choices: False
    """Returns whether a plain text contradicts its statements, the last first, which makes it an abstention."""
    takes_brackets: bool = False
    """Whether text in square brackets is a statement."""
