"""The sort of answer that a free question asks for, if its words show it; an answer of another sort is refused.

"The sister of Mira Marsh is Vera Tully" does not answer "What does the sister of Mira Marsh work as?".
"""

import re

from sottovoce.prompts.kinds.about import GRAMMAR, WORD, asked

DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
SORTS = [
    (r"\b(?:which|what) (?:day of the week|weekday)\b", DAY, True),
    (r"\b(?:which|what) month\b", MONTH, True),
    (r"\b(?:which|what) year\b", r"\d{3,4}", True),
    (
        r"\bhow (?:many|much|old|tall|long|far)\b",
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|\w+teen|\w+ty)\b",
        False,
    ),
]
"""Patterns of a question and of what its answer must contain, and whether exactly one such item is expected."""
FEW_WORDS = 6  # a longer answer describes, unless it lists names
OF_WORK = re.compile(r"\b(?:works? as|jobs?|profession|occupation|do for a living)\b", re.IGNORECASE)
HELD = re.compile(r"\b(?:is|was|as)\s(an?\s[a-z]+)\b(?!\s[a-z]+(?:er|or|ist)\b)")
FULL_NAME = re.compile(r"(?:[A-Z][\w'-]+\s){1,3}[A-Z][\w'-]+")


def is_expected(answer: str, question: str) -> bool:
    """Return whether an answer is of the sort that a question asks for, as far as the question shows one."""
    said = asked(question)
    for wanted, holds, is_one in SORTS:
        if re.search(wanted, said, re.IGNORECASE):
            found = {each.casefold().removesuffix("s") for each in re.findall(holds, answer, re.IGNORECASE)}
            return len(found) == 1 if is_one else bool(found)
    is_prose = any(word[0].islower() and word[0] not in GRAMMAR for word in WORD.finditer(answer))
    if is_prose and len(answer.split()) > FEW_WORDS:
        return False
    return not (OF_WORK.search(said) and FULL_NAME.fullmatch(answer))


def job(answer: str, question: str) -> str | None:
    """Return a person's job if the question asks for it: "a potter" in "Ruth is a potter who works as a potter"."""
    found = HELD.search(answer) if OF_WORK.search(asked(question)) else None
    return found[1] if found else None
