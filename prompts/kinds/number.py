r"""Numbers: `$`, percent, euro, units and thousands separators are dropped; a minus and decimals stay.

An expression counts by its stated result ("29 - 7 = 22"), and not at all without one ("29 - 7"). A notation for a
number counts by its value: a fraction, 2 \times 10^3, \sqrt{16}. Numbers in words are parsed up to trillions. A comma
before the last one or two digits of a lone number is a decimal comma.

An unmarked text counts by the number of its last claim. A long calculation has many numbers, and the last one of a text
that is cut off is not an answer. Such a text is parsed only if a sentence concludes ("So, there are 10 cups"), or
repeats the question with a number in it.
"""

import math
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.numerals import (
    ALGEBRA,
    FORMULA,
    FRACTION,
    OPERATOR,
    UNSOLVED,
    figures,
    number_after_verb,
    simple,
    spelled,
    stated_number,
    tidied,
)
from sottovoce.prompts.kinds.prose import CONCLUDES, LONGEST, OPEN, is_whole, plain, sentences
from sottovoce.prompts.kinds.question_words import GRAMMAR, WORD, asking_sentence, is_known

BRIEF, FEW_SENTENCES = 25, 2  # words and sentences of a text whose last number is its result
SHORT = 12  # words of such a text without final punctuation
COUNTERS = re.compile(
    r"^\s{0,80}\d{1,3}[.)]\s+(?=\S)|\b(?:step|question|agent|round)[ _]#?\d+|\[\d{1,3}\]", re.IGNORECASE | re.MULTILINE
)
"""Numbers that count something else: items, steps, passages."""
FACTS = re.compile(r"(?:[-*\u2022] [^\n=]*+(?:\n\s*+|\Z)){2,99}")
"""A list of facts without an equation, which has no result."""
REMARK = re.compile(rf"(?<=[a-zA-Z])\s\(\d[\d\s.+*/\u00d7-]{{0,80}}{OPERATOR}[\d\s.+*/\u00d7-]{{0,80}}\)")
"""The calculation after a number: "12 apples (5 + 7)"."""
CUT_CALCULATION = re.compile(rf"\d\s{{0,9}}{OPERATOR}?\s{{0,9}}(?:{OPERATOR}|=)\s*\Z")
SUMS_UP = re.compile(
    rf"{CONCLUDES.pattern}|.{{0,120}}\b(?:(?:sum|total|result)(?: is| of| =|:)|gives us|results in)\s[^\w\n]{{0,3}}\d",
    re.IGNORECASE,
)
AMOUNT = frozenset("many much far long old tall often number total".split())
SETS_OUT = re.compile(r"\W*to (?:find|get|calculate|determine|work out)\b", re.IGNORECASE)
STEP = re.compile(r"\W*first(?:ly)?\b", re.IGNORECASE)
NEXT_CLAUSE = re.compile(r",\s+(?:which|that|and|but|or|so)\b")


def result_of_text(text: str) -> str | None:
    """Return the number of the last concluding claim, or of the last claim of a brief text."""
    if CUT_CALCULATION.search(text) or _is_under_way(text) or FACTS.fullmatch(text.strip()):
        return None
    body = REMARK.sub(" ", simple(COUNTERS.sub(" ", text)))
    lines = [line for line in sentences(body) if not line.rstrip("\"')\u201d").endswith("?")]
    if not figures(body):
        return _only_spelled(body)
    if lines and OPEN.search(lines[-1]):
        return None
    ends, is_brief = is_whole(text), len(body.split()) <= (BRIEF if is_whole(text) else SHORT)
    concluding = [line for line in (lines if ends else lines[:-1]) if SUMS_UP.match(line)]
    concluding += lines[-1:] if lines and not ends and SUMS_UP.match(lines[-1]) and _goes_on(lines[-1]) else []
    if concluding and (number := number_of_claim(concluding[-1])):
        return number
    if lines and len(lines[0].split()) <= 2 and len(figures(lines[0])) == 1:  # "22", followed by its calculation
        return number_of_claim(lines[0])
    last = [line for line in lines if figures(line)][-1:]
    is_worked = ends and (len(lines) <= FEW_SENTENCES or not COUNTERS.search(text)) and _builds(last, lines)
    return number_of_claim(last[0]) if last and (is_brief or is_worked) else None


def implied(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Return the number of the last claim that repeats the question: "She has 28 - 6 = 22 apples left"."""
    if CUT_CALCULATION.search(text) or _is_under_way(text):
        return None
    asks = str(question.get("question", ""))
    wanted = {word.casefold() for word in WORD.findall(asking_sentence(asks))} - GRAMMAR - AMOUNT
    in_question = {value for _, _, value in figures(simple(asks))}
    lines = sentences(simple(COUNTERS.sub(" ", text)))
    if lines and OPEN.search(lines[-1]):
        return None
    whole = lines if is_whole(text) or (lines and _goes_on(lines[-1])) else lines[:-1]
    holding = [line for line in whole if wanted and _has_words(line, wanted) and not STEP.match(line)]
    last = next((line for line in reversed(holding) if SETS_OUT.match(line) or _is_new(line, in_question)), "")
    return None if SETS_OUT.match(last) and "=" not in last else number_of_claim(last)


def _has_words(claim: str, words_wanted: Set[str]) -> bool:
    words = frozenset(word.casefold() for word in WORD.findall(claim))
    return all(is_known(word, words) for word in words_wanted)


def _is_new(claim: str, in_question: Set[str]) -> bool:
    """Return whether a claim has a calculated number, or one that is not in the question."""
    number = number_of_claim(claim)
    return number is not None and (number not in in_question or "=" in claim)


def number_of_claim(claim: str) -> str | None:
    """Return the number of a claim: after its last equals sign, or else its last number."""
    if "=" not in claim and (after_verb := number_after_verb(claim)):
        return after_verb
    said = next((clause for clause in reversed(NEXT_CLAUSE.split(claim)) if "=" in clause), claim)
    left, sign, right = said.rpartition("=")
    behind = right if figures(right) and not ALGEBRA.search(right) else left or right
    numbers = figures(behind)
    if not numbers:
        return None
    start, _, value = numbers[0] if sign and behind == right else numbers[-1]
    # "7-5" read from its end is 5, not -5: a minus right after a digit or bracket is an operator.
    return value.lstrip("-") if behind[:start].rstrip().endswith(tuple("0123456789)")) else value


def may_be_cut(source: str, text: str) -> bool:
    """Return whether a statement ends a long text without final punctuation: "so the answer is 1" of 18."""
    at_end = text.rstrip().endswith(source.rstrip()) and bool(re.search(r"\d\Z", source.rstrip()))
    own_line = text.rstrip().rpartition("\n")[2].rstrip().removesuffix(source.rstrip())
    return at_end and len(text.split()) > BRIEF and len(own_line.split()) > 3


def _builds(last: Sequence[str], every: Sequence[str]) -> bool:
    """Return whether a last claim is an equation that uses the result of an earlier one, if there is any."""
    earlier = {number_of_claim(line) for line in every if "=" in line and line not in last}
    return any("=" in line and (not earlier or earlier & _values(line)) for line in last)


def _values(claim: str) -> set[str]:
    return {value.lstrip("-") for _, _, value in figures(claim)}


def _is_under_way(text: str) -> bool:
    """Return whether a longer text is cut off right after a figure of a conclusion or calculation."""
    last = simple("" if is_whole(text) else "".join(sentences(text)[-1:]))
    begins = len(text.split()) > BRIEF and (SUMS_UP.match(last) or UNSOLVED.search(last))
    return bool(begins and figures(last)) and not re.search(r"[^\d\s]", last[figures(last)[-1][1] :])


def bold_number(text: str) -> str | None:
    """Return the only number in bold text, alone or with words; headings do not count."""
    values = set[str]()
    for bold in re.findall(r"\*\*([^*\n]{1,80})\*\*", text):
        numbers = figures(simple(COUNTERS.sub("", bold)))
        values |= {numbers[0][2]} if len(numbers) == 1 and not bold.rstrip().endswith(":") else set()
    return values.pop() if len(values) == 1 else None


def _goes_on(claim: str) -> bool:
    """Return whether words follow the last number, so that it is complete although its sentence is not."""
    numbers = figures(claim)
    behind = r"\s[a-zA-Z]+\s|\s(?![hmbt])[a-zA-Z]{2,}"  # whole words, or the beginning of one that is not "million"
    return bool(numbers) and bool(re.match(behind, claim[numbers[-1][1] :], re.IGNORECASE))


def _only_spelled(body: str) -> str | None:
    words = {value for _, value in spelled(body)} - {"1"}
    return words.pop() if len(words) == 1 and not OPEN.search(body) else None


TOLERANCE = 1e-5  # as in CIPHER's evaluator


def read(text: str, choices: Choices) -> str | None:
    """Return the only number in bold, or else the text's result."""
    body = plain(text)
    body += "." if is_whole(text) and not is_whole(body) else ""  # the end was a sign of LaTeX or Markdown
    return bold_number(text[-LONGEST:]) or result_of_text(body)


def read_value(field: str, choices: Choices) -> str | None:
    """Return the number of a field, parsed as a statement; None if it has several different numbers, or a "not"."""
    result = tidied(field).rsplit("=", 1)[-1]
    several = len({value for _, _, value in figures(result)}) > 1
    is_one = not several or FRACTION.match(result) or FORMULA.search(result) or number_after_verb(result)
    denied = re.search(r"\bn(ot|either|one)\b", field.lower())
    return None if denied or not is_one else stated_number(plain(field)) or None


def same(left: str, right: str) -> bool:
    """Return whether two numbers are within 1e-5 of each other."""
    return math.isclose(float(left), float(right), rel_tol=0.0, abs_tol=TOLERANCE)


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse a target that is not a plain number."""
    target = str(question.get("target", 0))
    is_plain = re.fullmatch(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", target.strip())
    if not is_plain or not math.isfinite(float(target)):
        raise UsageError(f"target is {target!r}; expected a plain number, as in answers, such as 22 or -3.5")


DIGITS = Form(pattern=r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?", optional=True)
NUMBER = Kind(
    "number",
    "answers/number",
    "a number",
    read,
    read_value,
    same,
    lambda choices: DIGITS,
    check,
    named=lambda source, choices: stated_number(source),
    implied=implied,
)
