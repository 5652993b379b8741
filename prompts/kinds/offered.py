"""The phrases of a reply, or its one number, among which the answer turn asks for the answer."""

import re
from itertools import groupby
from operator import itemgetter

from sottovoce.prompts.kinds.kind import DOUBTFUL, sentences
from sottovoce.prompts.kinds.marks import ITEM
from sottovoce.prompts.kinds.number import CHANGES, FIGURE, is_unclear, tidied, value_of
from sottovoce.prompts.kinds.words import LONGEST

COMMON = (
    "a an the of in on at by to for from with and or as is are was were be been it its he she they his her their this "
    "that there which who whose where what when i you we my our has have had do does did so because answer"
).split()
"""Words that are no answer by themselves, in `phrases_of`."""
MOST_PHRASES = 32
COUNTED = re.compile(
    r"\b(?:t(?:wo|hree|en|welve)|four|five|six|seven|eight|nine|eleven|\w+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty"
    r"|hundred|thousand|times|twice|half|double|each|per|every|both|another|other|all)\b",
    re.IGNORECASE,
)
"""Words beside a number that leave something to compute, or are a number themselves."""
OPENING = ("she", "they", "so", "this")
"""Words that begin a sentence and are no name, beside COMMON."""
LONGEST_SENTENCE = 200  # characters
_WORD = re.compile(r"[^\s.,;:!?()\"]+(?:[.,][^\s.,;:!?()\"]+)*")


def phrases_of(text: str, question: str) -> tuple[str, ...]:
    """Return the short phrases of a reply without the question's words and the commonest ones; the last of many.

    A small model that is asked for the answer alone repeats its sentence, but it can choose the answer among these
    phrases. Return none if the question itself may have the answer ("..., Ada or Eve?").

    >>> phrases_of("Sable Point lies on the river Orn.", "On which river does the town where Ada lives lie?")
    ('Sable Point', 'Orn')
    """
    if re.search(r"\bor\b", question):
        return ()
    from Stemmer import Stemmer  # late: the command line's help does not need it

    stem = Stemmer("english").stemWord  # the question says "lie", the reply "lies"
    common = {stem(word.casefold()) for word in (*_WORD.findall(question), *COMMON)}
    clauses = re.split(r"[.,;:!?]+(?:\s|$)|[()\"\n]+", text)
    marked = [[(word, stem(word.casefold()) in common) for word in _WORD.findall(clause)] for clause in clauses]
    runs = (
        " ".join(word for word, _ in run)
        for clause in marked
        for left, run in groupby(clause, itemgetter(1))
        if not left
    )
    return tuple(dict.fromkeys(run for run in runs if len(run.split()) <= LONGEST))[-MOST_PHRASES:]


def figure_of(text: str, question: str) -> tuple[str, ...]:
    """Return the number of a reply that is one sentence with one number, about nothing that the question does not name.

    A small model that is asked for the number alone may lose it ("Ida keeps 52 hens.", then "10").

    >>> figure_of("Ida keeps 52 hens.", "How many hens does Ida keep?")
    ('52',)
    >>> figure_of("Ida keeps hens, and Eve keeps 17.", "How many hens does Ida keep?")
    ()
    """
    said = tidied(ITEM.sub("", text.strip()))
    figure = FIGURE.search(said)
    if figure is None or len(said) > LONGEST_SENTENCE or len(sentences(said)) != 1 or said[-1] not in ".!":
        return ()
    before, words, known = said[: figure.start()], {*_WORD.findall(said)}, {*_WORD.findall(question.casefold())}
    is_other = re.search(r"[^\s$\u20ac\u00a3]\Z|\d", before) or CHANGES.search(before) or COUNTED.search(said)
    strangers = [name for name in re.findall(r"[A-Z]\w*", before) if name.casefold() not in {*known, *COMMON, *OPENING}]
    is_about = {word.casefold() for word in words} & known - {*COMMON}
    if is_other or strangers or not is_about or DOUBTFUL.search(said) or is_unclear(said, said):
        return ()
    found = value_of(said[figure.start() :])
    return (found,) if found and found not in known else ()
