"""The words of a question, which say nothing new in an answer: "lies" and "river" to "On which river does it lie?"."""

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
"""Words that tell nothing by themselves; not "not", "no" and "or"."""
ENDINGS = ("s", "es", "d", "ed", "ing", "n", "'s")
LONGEST = 2000  # characters of a question that are looked at, from its end
DENIES = re.compile(r"\b(?:not|never|cannot|false|incorrect|neither|unequal)\b|n't\b|\u2260|!=", re.IGNORECASE)
SUPPOSES = re.compile(
    r"\W*(?:to|if|whether|let|let's|we|i|suppose|assuming|consider|the (?:question|claim)|agent)\b", re.IGNORECASE
)
QUOTED = re.compile(
    r"[\"\u201c][^\"\u201c\u201d\n]{1,200}\s[^\"\u201c\u201d\n]{1,200}\s[^\"\u201c\u201d\n]{1,200}[\"\u201d]"
)
EQUAL = frozenset("equal equals same indeed so therefore thus".split())
MORE = 6  # words beyond the question's with which a sentence still says it again


VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|does|do|did|can|could|will|would|took|takes|won|wins|wrote|writes|died"
    r"|dies|lies|lay|ran|runs|played|plays|became|began|begins|came|comes|founded|directed|worked|works|made|makes"
    r"|published|lived|lives|served|sang|led|built|held|stars|starred|covers|belongs|goes|went|gave|uses|used)\b"
)
"""In small letters: titles of works have theirs in capitals."""
SHORTEST = 4  # words of a sentence that answers


def is_sentence(answer: str, question: str) -> bool:
    """Tell whether an answer is a whole sentence, by a verb or by one of the question's own in the past tense."""
    words = known(question)
    is_told = bool(VERB.search(answer)) or any(
        word[0].endswith("ed") and is_known(word[0], words) for word in WORD.finditer(answer) if word[0].islower()
    )
    return is_told and len(answer.split()) >= SHORTEST


def asked(question: str) -> str:
    """The sentence that asks, without the facts that stand before it."""
    every = sentences(question[-LONGEST:])
    asks = [each for each in every if each.endswith("?") and len({*WORD.findall(each.casefold())} - GRAMMAR) > 1]
    return asks[-1] if asks else every[-1] if every else ""  # "Is this true? Gold is a metal."


def known(question: str) -> frozenset[str]:
    """The words of the sentence that asks, in small letters."""
    return frozenset(word[0].casefold() for word in WORD.finditer(asked(question)))


def is_known(word: str, words: frozenset[str]) -> bool:
    """Whether a question has the word, in one form or another: "lies" is "lie"."""
    plain = word.casefold().removesuffix("'s")
    forms = {plain, *(plain.removesuffix(ending) for ending in ENDINGS if len(plain) > len(ending) + 2)}
    longer = {plain + ending for ending in ENDINGS} if len(plain) > 2 else set()
    return not words.isdisjoint(forms | longer)


def is_new(text: str, question: str) -> bool:
    """Whether a text says more than the question's words."""
    words = known(question)
    return any(not is_known(word[0], words) for word in WORD.finditer(text))


def key(answer: str, question: str) -> str:
    """By what answers to one question are compared: SQuAD's normal form of the words that are not the question's."""
    words = known(question)
    new = [word[0] for word in WORD.finditer(answer) if not is_known(word[0], words)]
    telling = [word for word in new if word.casefold() not in GRAMMAR]
    return normalise(" ".join(telling or new)) or normalise(answer)


def restated(text: str, question: str) -> str | None:
    """Yes where the last claims of a text say a question again, no where they deny it; None where they do neither.

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
    """Whether all wanted words stand among the words, the first of them before the last."""
    places = [[at for at, word in enumerate(words) if is_known(each, frozenset([word]))] for each in wanted]
    return all(places) and min(places[0]) <= max(places[-1])
