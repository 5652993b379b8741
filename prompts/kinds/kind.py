"""The record of a kind of answer: how it is requested, read, compared, and constrained while decoding."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sottovoce.core.any_types import Unimported
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.sentences import VERB

Choices = Sequence[str]
FEW = 6  # words of a reply that is nothing but the answer


def is_bare(line: str, choices: Choices) -> bool:
    """Return whether a line is nothing but an answer: at most six words, none of them a verb, no colon, no sentence.

    Four words or more with a full stop are a sentence, whose verb may be any.
    """
    is_short = len(line.split()) <= (FEW if line[-1] not in ".!" else FEW // 2)
    return is_short and not VERB.search(line) and not re.search(r":|\?\Z", line)


@dataclass(frozen=True)
class Kind:
    """One kind of answer; a new kind is one file with one object of this class."""

    words: str
    """The kind's name in a sentence: "yes or no"."""
    form: str
    """The request for it: the name of a prompt file ("answers/number"), or the words themselves."""
    placeholder: str
    """The answer's placeholder in a JSON form: "a number"."""
    read: Callable[[str, Choices], str | None]
    """Returns the answer, in canonical form, of a statement (the words after "Answer:" or in a box) or a field.

    It returns an empty text for a statement that there is none, or several, and None for one about something else.
    """
    bare: Callable[[str, Choices], bool] = is_bare
    """Returns whether a reply of one line is nothing but an answer, so that it is read without a statement."""
    same: Callable[[str, str], bool] = lambda left, right: left.casefold().split() == right.casefold().split()
    """Returns whether two canonical answers agree."""
    right: Callable[[str, str], bool] | None = None
    """Returns whether an answer is right given the target, if that is more than `same`."""
    grammar: Callable[[Choices], Form | None] = lambda choices: None
    """Returns the format of a reply that is only an answer; None if it may be any text."""
    check: Callable[[Mapping[str, Unimported]], None] = lambda question: None
    """Raises a UsageError if a question's target or choices do not fit this kind."""
    target: Callable[[str, Choices], str | None] = lambda target, choices: target
    """Returns the target in canonical form: the letter of a choice given by its text."""
    nouns: str = "answer"
    """Words for an answer in statements, as alternatives of a pattern: "answer|label"."""
    unknown_is_an_answer: bool = False
    """True if "unknown" is an ordinary answer, not an abstention."""
