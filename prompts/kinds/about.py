"""What an answer says beyond its question: "The town lies on the river Orn." answers "On which river ...?" with "Orn".

Models answer free questions in whole sentences. The sentence stays what was said; where answers are compared, its
question's words and words of grammar do not count.
"""

import re

from sottovoce.prompts.kinds.marks import normalise

WORD = re.compile(r"[^\W_]+(?:['\u2019.+#-]+[^\W_]+)*[+#]*")
GRAMMAR = frozenset(
    "a an the of in on at to by for from with into as and that this these those which who whom whose what where when how"
    " it its his her their he she they there is are was were be been being has have had do does did lie lies lay located"
    " situated called named known found stands runs flows became made answer would s".split()
)
"""Words that tell nothing by themselves; not "not", "no" and "or"."""
ENDINGS = ("s", "es", "d", "ed", "ing", "n", "'s")
EITHER = re.compile(r"[,:]\s*(?:the )?([^,?:]{1,60}?),? or (?:the )?([^,?]{1,60}?)\s*\?", re.IGNORECASE)
TYPED = re.compile(r"\b(?:which|what)\s+([a-z]+)\b", re.IGNORECASE)
HEDGED = re.compile(r"\b(?:or|either|maybe|perhaps|might|may|could)\b", re.IGNORECASE)
LEFT_ASIDE = re.compile(
    r"(?:\b(?:not|n't|never|nor|neither|without|unlike|than|instead of|except|but)|n't)\s+(?:\w+\s+){0,3}\Z", re.IGNORECASE
)


def short(answer: str, question: str) -> str:
    """An answer without the question's words around it, as it stands in votes and viewpoints.

    Of a sentence that holds more, the name after the noun that was asked for: "Kestrel Bay lies on the river Orn" is
    "Orn" to "On which river ...?". Of two things that the question names, the first that is said. What says nothing
    but the question's words stays.
    """
    if not question:
        return answer
    if named := _one_of_two(answer, question):
        return named
    known, words = _known(question), [*WORD.finditer(answer)]
    new = [word for word in words if not _is_old(word[0], known)]
    if not new or not any(_is_asked(word[0], known) for word in words):  # no sentence made of the question
        return answer
    start = new[0].start()
    if (before := answer[:start].rstrip().split(" ")[-1]) and re.fullmatch(r"a|an|the", before, re.IGNORECASE):
        start = answer.rindex(before, 0, start)
    rest = answer[start : _end(answer, new[-1].end())]
    return _after_noun(rest, question) or rest


def key(answer: str, question: str) -> str:
    """By what answers to one question are compared: SQuAD's normal form of the words that are not the question's."""
    known = _known(question)
    new = [word[0] for word in WORD.finditer(answer) if not _is_asked(word[0], known)]
    return normalise(" ".join(new)) or normalise(answer)


def names(answer: str, target: str, question: str) -> bool:
    """Whether a sentence names the target: not denied, not as one of two, and in words that are not the question's."""
    wanted, said = normalise(short(target, question)), normalise(answer)
    if not wanted or f" {wanted} " not in f" {said} " or not key_is_new(target, question):
        return False
    found = re.search(r"[\W_]+".join(map(re.escape, wanted.split())), _unsigned(answer), re.IGNORECASE)
    return bool(found) and not HEDGED.search(answer) and not LEFT_ASIDE.search(answer[: found.start() if found else 0])


def key_is_new(target: str, question: str) -> bool:
    """Whether the target is more than the question's own words."""
    known = _known(question)
    return any(not _is_asked(word[0], known) for word in WORD.finditer(target))


def _unsigned(answer: str) -> str:
    return re.sub(r"['\u2019.]", lambda of: " ", answer)


def _one_of_two(answer: str, question: str) -> str | None:
    """Of "X or Y?" what a sentence names first, or alone; a denial names nothing."""
    offered = EITHER.search(question)
    if not offered or len(answer.split()) <= len(offered[1].split()) + 1:
        return None
    places = {answer.casefold().find(each.casefold()): each for each in offered.groups()}
    places.pop(-1, None)
    if not places or HEDGED.search(answer) or re.search(r"\bnot\b|n't|\bboth\b|\bneither\b", answer):
        return None
    first = min(places)
    article = re.search(r"\bthe\s+\Z", answer[:first], re.IGNORECASE)
    return answer[article.start() if article else first : first + len(places[first])]


def _after_noun(rest: str, question: str) -> str | None:
    """The name that follows or precedes the noun of "which river", where one sentence has exactly one."""
    asked = TYPED.search(question)
    if not asked or len(rest.split()) < 3:
        return None
    name = r"((?:[A-Z][\w'-]*)(?:\s[A-Z][\w'-]*){0,4})"
    found = {*re.findall(rf"\b{re.escape(asked[1].lower())}\s+(?:of\s+|is\s+|called\s+)?(?:the\s+)?{name}", rest)}
    return found.pop() if len(found) == 1 else None


def _end(answer: str, at: int) -> int:
    """Where the last new word ends, with the signs that belong to it."""
    found = re.match(r"[)\"'\u201d%]+", answer[at:])
    return at + (found.end() if found else 0)


def _known(question: str) -> frozenset[str]:
    return frozenset(word[0].casefold() for word in WORD.finditer(question))


def _is_old(word: str, known: frozenset[str]) -> bool:
    return word.casefold() in GRAMMAR or _is_asked(word, known)


def _is_asked(word: str, known: frozenset[str]) -> bool:
    """Whether the question has the word, in one form or another: "lies" is "lie"."""
    plain = word.casefold().removesuffix("'s")
    forms = {plain, *(plain.removesuffix(ending) for ending in ENDINGS if len(plain) > len(ending) + 2)}
    longer = {plain + ending for ending in ENDINGS} if len(plain) > 2 else set()
    return not known.isdisjoint(forms | longer)
