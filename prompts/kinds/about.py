"""Words of a question, which add nothing to an answer: "lies" and "river" for "On which river does it lie?"."""

import re
from collections.abc import Sequence

from sottovoce.prompts.kinds.marks import normalise
from sottovoce.prompts.kinds.sentences import claims, sentences

WORD = re.compile(r"[^\W_]+(?:['\u2019.+#-]+[^\W_]+)*[+#]*")
GRAMMAR = frozenset(
    "a an the of in on at to by for from with into as and that this these those which who whom whose what where when"
    " how it its his her their he she they there is are was were be been being has have had do does did lie lies lay"
    " located situated called named known found stands runs flows became made answer would s can will work"
    " works typically usually often also mostly generally commonly indeed actually primarily".split()
)
"""Words without content of their own, except "not", "no" and "or"."""
ENDINGS = ("s", "es", "d", "ed", "ing", "n", "'s")
LONGEST = 2000  # characters of a question that are examined, from its end
DENIES = re.compile(r"\b(?:not|never|cannot|false|incorrect|neither|unequal)\b|n't\b|\u2260|!=", re.IGNORECASE)
SUPPOSES = re.compile(
    r"\W*(?:to|if|whether|let|let's|we|i|suppose|assuming|consider|the (?:question|claim)|agent)\b", re.IGNORECASE
)
QUOTED = re.compile(
    r"[\"\u201c][^\"\u201c\u201d\n]{1,200}\s[^\"\u201c\u201d\n]{1,200}\s[^\"\u201c\u201d\n]{1,200}[\"\u201d]"
)
EQUAL = frozenset("equal equals same indeed so therefore thus".split())
MORE = 6  # extra words with which a sentence still repeats the question


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
    words, small = known(question), [word for word in WORD.findall(answer) if word.islower() and word not in GRAMMAR]
    is_told = bool(VERB.search(answer)) or any(
        is_known(word, words) and (word.endswith("ed") or word not in words) for word in small
    )
    repeats = {word for word in WORD.findall(answer.casefold()) if is_known(word, words)} - GRAMMAR
    return (is_told or (bool(small) and len(repeats) >= SHORTEST)) and len(answer.split()) >= SHORTEST


def asked(question: str) -> str:
    """Return the sentence that asks, without the facts before it."""
    every = sentences(question[-LONGEST:])
    asks = [each for each in every if each.endswith("?") and len({*WORD.findall(each.casefold())} - GRAMMAR) > 1]
    return asks[-1] if asks else every[-1] if every else ""  # "Is this true? Gold is a metal."


def known(question: str) -> frozenset[str]:
    """Return the lowercase words of the sentence that asks."""
    return frozenset(word[0].casefold() for word in WORD.finditer(asked(question)))


def is_known(word: str, words: frozenset[str]) -> bool:
    """Return whether a question has the word in some form: "lies" matches "lie"."""
    plain = word.casefold().removesuffix("'s")
    forms = {plain, *(plain.removesuffix(ending) for ending in ENDINGS if len(plain) > len(ending) + 2)}
    longer = {plain + ending for ending in ENDINGS} if len(plain) > 2 else set()
    return not words.isdisjoint(forms | longer)


def is_new(text: str, question: str) -> bool:
    """Return whether a text has other words than the question."""
    words = known(question)
    return any(not is_known(word[0], words) for word in WORD.finditer(text))


def key(answer: str, question: str) -> str:
    """Return the key that compares answers to a question: SQuAD's normal form of words that the question lacks."""
    words = known(question)
    new = [word[0] for word in WORD.finditer(answer) if not is_known(word[0], words)]
    telling = [word for word in new if word.casefold() not in GRAMMAR]
    return normalise(" ".join(telling or new)) or normalise(answer)


def restated(text: str, question: str) -> str | None:
    """Return yes if a text's claims repeat the question, no if they deny it, and None if they do neither.

    "18 + 40 is 58" is a yes to "Is 18 + 40 equal to 58?", and "Paris is not the capital of Spain" a no.
    """
    order = [word.casefold() for word in WORD.findall(asked(question))]
    wanted = [word for word in order if word not in GRAMMAR and word not in EQUAL]
    said_again = claims(QUOTED.sub(" ", text))
    for claim in (*reversed(said_again[-3:]), *said_again[:2]):
        words = [word.casefold() for word in WORD.findall(claim)]
        beyond = {*words} - GRAMMAR - EQUAL - {*wanted}
        figures = any(word[0].isdigit() for word in beyond)
        if len({*wanted}) < 2 or figures or len(beyond) > MORE or SUPPOSES.match(claim):
            continue
        if _in_order(wanted, words) and len(claim) > len(asked(question)) // 2:
            return "no" if DENIES.search(claim) else "yes"
    return None


def _in_order(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the words include all wanted ones, the first of them before the last."""
    places = [[at for at, word in enumerate(words) if is_known(each, frozenset([word]))] for each in wanted]
    return all(places) and min(places[0]) <= max(places[-1])
