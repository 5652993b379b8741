"""What a kind of answer is: how it is asked for, read, compared, and kept to while decoding."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.form import Form
from sottovoce.prompts.kinds.marks import unmarked

Choices = Sequence[str]
Read = Callable[[str, Choices], str | None]
"""From a text and the question's choices to the answer in canonical form; None where none can be read."""


@dataclass(frozen=True)
class Kind:
    """One kind of answer; a new one is one file with one object of this class."""

    words: str
    """What it is called in a sentence: "yes or no"."""
    form: str
    """The request for it: the name of a prompt file ("answers/number"), or the words themselves."""
    placeholder: str
    """What stands in its place in a JSON form: "a number"."""
    read: Read
    """From a reply that marks no answer; what is found so is mined."""
    read_value: Read = lambda given, choices: unmarked(given)
    """Of a field, where all is the answer; its spaces are single ones."""
    same: Callable[[str, str], bool] = lambda left, right: left.casefold().split() == right.casefold().split()
    """Whether two canonical answers agree."""
    grammar: Callable[[Choices], Form | None] = lambda choices: None
    """What a reply that is nothing but an answer may be; None where it may be anything."""
    check: Callable[[Mapping[str, Any]], None] = lambda question: None  # Any: a Question, which stands above
    """Raises a UsageError where a question's target or choices do not suit this kind."""
    unknown_is_an_answer: bool = False
    """Whether "unknown" in a field is an answer as good as any other, not an abstention."""
    short: Callable[[str, str], str] = lambda answer, question: answer
    """An answer without the words of its question, as votes have it."""
    implied: Callable[[str, Mapping[str, Any]], str | None] = lambda text, question: None  # Any: see `check`
    """What a text that `read` finds nothing in answers to a question, where it is no abstention."""
    suits: Callable[[str, str], bool] = lambda answer, question: True
    """Whether a text without a mark that `read` takes for an answer is of the sort that its question asks for."""
    agree: Callable[[str, str, str], bool] | None = None
    """Whether two answers to a question agree, where that is more than `same`."""
    is_target: Callable[[str, str, str], bool] | None = None
    """Whether an answer to a question is the target, where that is more than to agree with it."""
    target: Callable[[str, Choices], str | None] = lambda target, choices: target
    """The target as answers are read: the letter of a choice that is given by its text."""
    named: Read | None = None
    """From a statement ("Answer: X", a box, "the answer is X"), to the end of its line; `read` unless given.

    None: it speaks of something else. An empty text: it states that there is no answer.
    """
    nouns: str = "answer"
    """Words that a statement has for an answer, as alternatives of a pattern: "answer|label"."""
    contradicts: Callable[[Sequence[str | None], str, Choices], bool] = lambda said, text, choices: False
    """Tells that what a plain text states, the last first, cannot be told from its other words: an abstention."""
    takes_brackets: bool = False
    """Tells that what stands in square brackets is stated."""
