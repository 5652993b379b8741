"""Questions: the words that add nothing to an answer, the kind of answer asked for, and the sort of a free answer.

"lies" and "river" add nothing to an answer to "On which river does it lie?". "The sister of Mira Marsh is Vera Tully"
is of another sort than the answer to "What does the sister of Mira Marsh work as?".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sottovoce.prompts.kinds.marks import normalise
from sottovoce.prompts.kinds.prose import claims, sentences

WORD = re.compile(r"[^\W_]+(?:['\u2019.+#-]+[^\W_]+)*[+#]*")
GRAMMAR = frozenset(
    "a an the of in on at to by for from with into as and that this these those which who whom whose what where when"
    " how it its his her their he she they there is are was were be been being has have had do does did lie lies lay"
    " located situated called named known found stands runs flows became made answer would s can will work"
    " works typically usually often also mostly generally commonly indeed actually primarily".split()
)
"""Words without content of their own, except "not", "no" and "or"."""
ENDINGS = ("s", "es", "d", "ed", "ing", "n", "'s")
LONGEST_QUESTION = 2000  # characters of a question that are examined, from its end
DENIES = re.compile(r"\b(?:not|never|cannot|false|incorrect|neither|unequal)\b|n't\b|\u2260|!=", re.IGNORECASE)
SUPPOSES = re.compile(
    r"\W*(?:to|if|whether|let|let's|we|i|suppose|assuming|consider|the (?:question|claim)|agent)\b", re.IGNORECASE
)
QUOTED = re.compile(
    r"[\"\u201c][^\"\u201c\u201d\n]{1,200}\s[^\"\u201c\u201d\n]{1,200}\s[^\"\u201c\u201d\n]{1,200}[\"\u201d]"
)
EQUAL = frozenset("equal equals same indeed so therefore thus".split())
EXTRA_WORDS = 6  # extra words with which a sentence still repeats the question


VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|does|do|did|can|could|will|would|took|takes|won|wins|wrote|writes|died"
    r"|dies|lies|lay|ran|runs|played|plays|became|began|begins|came|comes|founded|directed|worked|works|made|makes"
    r"|published|lived|lives|served|sang|led|built|held|stars|starred|covers|belongs|goes|went|gave|uses|used|taught"
    r"|studied|married|joined|moved|met|sold|hails|flows|features)\b"
)
"""Lowercase verbs; titles of works have capitalized ones."""
SHORTEST = 4  # words of a sentence that answers


def is_sentence(answer: str, question: str) -> bool:
    """Return whether an answer is a whole sentence: it has a verb, or repeats four of the question's words."""
    words, small = (
        question_words(question),
        [word for word in WORD.findall(answer) if word.islower() and word not in GRAMMAR],
    )
    is_told = bool(VERB.search(answer)) or any(
        is_known(word, words) and (word.endswith("ed") or word not in words) for word in small
    )
    repeats = {word for word in WORD.findall(answer.casefold()) if is_known(word, words)} - GRAMMAR
    return (is_told or (bool(small) and len(repeats) >= SHORTEST)) and len(answer.split()) >= SHORTEST


@lru_cache(1024)  # a discussion asks for its question's many times for each message
def asking_sentence(question: str) -> str:
    """Return the sentence that asks, without the facts before it."""
    lines = sentences(question[-LONGEST_QUESTION:])
    asks = [line for line in lines if line.endswith("?") and len({*WORD.findall(line.casefold())} - GRAMMAR) > 1]
    return asks[-1] if asks else lines[-1] if lines else ""  # "Is this true? Gold is a metal."


@lru_cache(1024)
def question_words(question: str) -> frozenset[str]:
    """Return the lowercase words of the sentence that asks."""
    return frozenset(word[0].casefold() for word in WORD.finditer(asking_sentence(question)))


def is_known(word: str, words: frozenset[str]) -> bool:
    """Return whether a question has the word in some form: "lies" matches "lie"."""
    plain = word.casefold().removesuffix("'s")
    forms = {plain, *(plain.removesuffix(ending) for ending in ENDINGS if len(plain) > len(ending) + 2)}
    longer = {plain + ending for ending in ENDINGS} if len(plain) > 2 else set()
    return not words.isdisjoint(forms | longer)


def is_new(text: str, question: str) -> bool:
    """Return whether a text has other words than the question."""
    words = question_words(question)
    return any(not is_known(word[0], words) for word in WORD.finditer(text))


def answer_key(answer: str, question: str) -> str:
    """Return the key that compares answers to a question: SQuAD's normal form of words that the question lacks."""
    words = question_words(question)
    new = [word[0] for word in WORD.finditer(answer) if not is_known(word[0], words)]
    telling = [word for word in new if word.casefold() not in GRAMMAR]
    return normalise(" ".join(telling or new)) or normalise(answer)


def restated(text: str, question: str) -> str | None:
    """Return yes if a text's claims repeat the question, no if they deny it, and None if they do neither.

    "18 + 40 is 58" is a yes to "Is 18 + 40 equal to 58?", and "Paris is not the capital of Spain" a no.
    """
    order = [word.casefold() for word in WORD.findall(asking_sentence(question))]
    wanted = [word for word in order if word not in GRAMMAR and word not in EQUAL]
    said_again = claims(QUOTED.sub(" ", text))
    for claim in (*reversed(said_again[-3:]), *said_again[:2]):
        words = [word.casefold() for word in WORD.findall(claim)]
        beyond = {*words} - GRAMMAR - EQUAL - {*wanted}
        figures = any(word[0].isdigit() for word in beyond)
        if len({*wanted}) < 2 or figures or len(beyond) > EXTRA_WORDS or SUPPOSES.match(claim):
            continue
        if _in_order(wanted, words) and len(claim) > len(asking_sentence(question)) // 2:
            return "no" if DENIES.search(claim) else "yes"
    return None


def _in_order(words_wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words include all wanted ones, the first of them before the last."""
    places = [[at for at, word in enumerate(words) if is_known(wanted, frozenset([word]))] for wanted in words_wanted]
    return all(places) and min(places[0]) <= max(places[-1])


EXPRESSION = re.compile(
    r"\A(?!\W*(?:which|who|where|when|why|how|explain|describe)\b)[^\n]*?"
    r"(?<![\w.])(?:\d+(?:[.,]\d+)*|[a-z])\s*(?:[-+*/×÷^]|\\times|times|plus|minus)\s*\(?\s*(?:\d|[a-z]\b)",
    re.IGNORECASE,
)
"""An operation on figures or single letters: "14 + 3", "l + y * o"."""
COMPUTES = re.compile(
    r"\W*(?:please\s+)?(?:compute|calculate|evaluate|simplify|solve|add|multiply|subtract|divide)\b", re.IGNORECASE
)
COUNTS = re.compile(
    r"\b(?:how (?:many|much)|what (?:is|was|are|will be|would be) the (?:number|count) of)\b", re.IGNORECASE
)
QUANTITY = re.compile(
    r"\b(?:what|find)\b.{0,40}\b(?:sum|product|difference|quotient|total|average|mean|median|amount|percent(?:age)?"
    r"|probability|value|area|volume|perimeter|length|distance|speed|cost|price|profit|age|weight|height|remainder)\b",
    re.IGNORECASE,
)
"""A quantity; the answer is a number only if the question has figures to calculate it from."""
YES_NO_QUESTION = re.compile(
    r"\W*(?:(?:and|but|so|then|also|now)\W+)?(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would"
    r"|shall|should|may|might|must)(?:n't)?\s",
    re.IGNORECASE,
)
ALTERNATIVES = re.compile(r"\bor\b(?!\s+(?:not|more|less|fewer|so)\b)", re.IGNORECASE)
DIGIT = re.compile(r"\d")


def kind_of(question: Mapping[str, Any]) -> str:  # Any: a Question; its module imports this one
    """Return the kind that a question sets, else the one that it clearly asks for, else `text`.

    A question with choices is an option. A target of yes, no or a number determines the kind; else the wording does:
    a computation, a count, a yes-or-no question. With a phrase as target, all but a computation is text.
    """
    if kind := question.get("kind"):
        return str(kind)
    if question.get("choices"):
        return "option"
    if kind_of_target := _of_target(question.get("target")):
        return kind_of_target
    return _kind_of_text(str(question.get("question", "")), question.get("target") is not None)


@lru_cache(1024)
def _kind_of_text(question: str, has_target: bool) -> str:
    sentence = asking_sentence(question)
    if COMPUTES.match(sentence) or (EXPRESSION.search(sentence) and not YES_NO_QUESTION.match(sentence)):
        return "number"
    return "text" if has_target else _of_wording(sentence, question)


def _of_target(target: object) -> str | None:
    text = target.strip().lower() if isinstance(target, str) else ""
    if text in ("yes", "no"):
        return "yes_no"
    try:
        return "number" if math.isfinite(float(text)) else None
    except ValueError:
        return None


def _of_wording(sentence: str, question: str) -> str:
    if COUNTS.search(sentence):
        return "number"
    if YES_NO_QUESTION.match(sentence):
        return "text" if ALTERNATIVES.search(sentence) else "yes_no"
    return "number" if QUANTITY.search(sentence) and len(DIGIT.findall(question)) > 1 else "text"


DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
MONTH = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
ANSWER_SORTS = [
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
_NO_JOB = "who|that|which|where|in|on|at|of|for|from|with|by|to|and|or|but|as|is|was|called|named|based|working|living"
JOB = re.compile(rf"\b(?:is|was|as)\s(an?\s[a-z]+(?:[\s-](?!(?:{_NO_JOB})\b)[a-z]+){{0,3}})\b(?!-)")
FULL_NAME = re.compile(r"(?:[A-Z][\w'-]+\s){1,3}[A-Z][\w'-]+")


def is_expected(answer: str, question: str) -> bool:
    """Return whether an answer is of the sort that a question asks for, as far as the question shows one."""
    said = asking_sentence(question)
    for wanted, holds, is_one in ANSWER_SORTS:
        if re.search(wanted, said, re.IGNORECASE):
            items = {item.casefold().removesuffix("s") for item in re.findall(holds, answer, re.IGNORECASE)}
            return len(items) == 1 if is_one else bool(items)
    is_prose = any(word[0].islower() and word[0] not in GRAMMAR for word in WORD.finditer(answer))
    if is_prose and len(answer.split()) > FEW_WORDS:
        return False
    return not (OF_WORK.search(said) and FULL_NAME.fullmatch(answer))


def job(answer: str, question: str) -> str | None:
    """Return a person's job if the question asks for it: "a potter" in "Ruth is a potter who works as a potter"."""
    match = JOB.search(answer) if OF_WORK.search(asking_sentence(question)) else None
    return match[1] if match else None
