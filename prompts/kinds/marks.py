"""What an answer is known by in a text, whatever its kind: a box, a statement, the words of a choice."""

import re
import string

STATED = re.compile(r"\banswer(?:\s+is|\s*:)\s*:?\s*(?=([^\n]{0,400}))", re.IGNORECASE)  # ahead: statements may overlap
UNKNOWN = re.compile(r"[\W_]*(?:unknown|not known|undetermined|unclear|cannot|can't|none\b)", re.IGNORECASE)
PREFIX = re.compile(r"^\(?[A-Z]\)\s*")
"""A letter that a choice may bring along."""


def stated(text: str) -> str | None:
    """What stands after the last "answer is" or "Answer:", to the end of its line."""
    found = STATED.findall(text)
    return found[-1] if found else None


def boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}`, to its matching brace; an unclosed one runs to the end."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, content = 1, text[start + len("\\boxed{") :]
    for at, letter in enumerate(content):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == 0:
            return content[:at]
    return content


def unmarked(given: str) -> str | None:
    """What a field holds, without a box or brackets around it."""
    inner = re.fullmatch(r"\[([^\[\]]+)\]", given)
    return (boxed(given) or (inner[1] if inner else given)).strip() or None


def normalise(text: str) -> str:
    """SQuAD's normalisation: lower case, no ASCII punctuation, no articles, single spaces."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
