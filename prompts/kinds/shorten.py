"""Extraction of the answer in a sentence: "Orn" of "The town lies on the river Orn." for "On which river ...?".

Models answer free questions in whole sentences. Votes and viewpoints need only the answer; the facts in a sentence are
for the agents that hear the message.
"""

import re

from sottovoce.prompts.kinds import slots
from sottovoce.prompts.kinds.marks import normalise
from sottovoce.prompts.kinds.prose import INSERTED, claims
from sottovoce.prompts.kinds.question_words import (
    DENIES,
    GRAMMAR,
    WORD,
    asking_sentence,
    is_expected,
    is_known,
    is_new,
    is_sentence,
    job,
    question_words,
)

EITHER = re.compile(r"[,:]\s*(?:the )?([^,?:]{1,60}?),? or (?:the )?([^,?]{1,60}?)\s*(?:[,?]|\Z)", re.IGNORECASE)
EITHER_NAMED = re.compile(r"((?:[A-Z][\w'.-]*\s?){1,4}),? or (?:the )?((?:[A-Z][\w'.-]*\s?){1,4})")
COMPARED = re.compile(
    r"\W*(?:compared (?:with|to)|unlike|while|although|though|whereas)\b[^,]{1,120},\s", re.IGNORECASE
)
"""A clause about the alternative that is not the answer."""
_DEGREES = (
    "old|young|eld|earl|late|larg|small|bigg|high|low|long|short|tall|great|new|soon|fast|slow|heavi|wid|deep|clos"
)
COMPARES = re.compile(
    rf"\b(?:first|last|more|most|less|least|fewer|better|best|worse|(?:{_DEGREES})(?:i?er|r|i?est|st))\b", re.IGNORECASE
)
OPPOSITE = {
    "more": {"less", "fewer"},
    "most": {"less", "fewer", "least"},
    "first": {"later", "last"},
    "better": {"worse"},
    "best": {"worse"},
    **{
        f"{one}{end}": {f"{other}er", f"{other}est"}
        for poles in ("old young", "high low", "long short", "tall short", "fast slow")
        for one, other in (poles.split(), poles.split()[::-1])
        for end in ("er", "est")
    },
    "earlier": {"later"},
    "later": {"earlier"},
    "larger": {"smaller"},
    "bigger": {"smaller"},
    "smaller": {"larger", "bigger"},
    "fewer": {"more"},
    "less": {"more"},
}
"""Opposite words of comparison, by the word in the question."""
TYPED = re.compile(
    r"\b(?:which|what)\s+(?!(?:is|are|was|were|do|does|did|has|have|can|will|would|should|in|on|at|of|for|from|to|by)\b)([a-z]+)\b",
    re.IGNORECASE,
)
"""The noun that the question asks for."""
COPULA = re.compile(r"\s(?:is|was|are|were)\s", re.IGNORECASE)
RELATIVE = re.compile(r",\s(?:which|where|who|whose)\b")
KEPT = frozenset("city county university college island islands".split())
"""Nouns that are part of a name, unlike "river"."""
NEXT = re.compile(r",\s+(?:which|where|who|whose|and|but|an?|the|one)\b", re.IGNORECASE)
"""The beginning of a remark, which may include the answer."""
THAT = re.compile(r"\s+that\s+(?:is|are|was|were|has|have)\b", re.IGNORECASE)
"""The beginning of a description of the answer, which never includes it."""
LATER = re.compile(rf"{NEXT.pattern}|{THAT.pattern}", re.IGNORECASE)
HEDGED = re.compile(r"\b(?:or|either|maybe|perhaps|might|may|could)\b", re.IGNORECASE)
LEFT_ASIDE = re.compile(
    r"(?:\b(?:not|never|nor|neither|without|unlike|than|instead of|except|but)|n't)\s+(?:\w+\s+){0,3}\Z", re.IGNORECASE
)
NAME = r"([A-Z][\w'.-]*(?:\s(?:(?:da|van|von|der|de|di|la|le|bin|al)\s){0,2}[A-Z][\w'-]*){0,4})"


def short(answer: str, question: str) -> str:
    """Return an answer without the question's words around it.

    A longer sentence is shortened to the name after the noun in question: "Kestrel Bay lies on the river Orn" to "Orn"
    for "On which river ...?". Of two alternatives in the question, the sentence's preferred one is returned. A phrase
    without words of the question, a phrase of only such words, and a denial stay unchanged.
    """
    if not question or not (words := question_words(question)) or DENIES.search(answer):
        return answer
    if offered(question):
        return _one_of_two(answer, question) or answer
    parts = LATER.split(answer)
    for part in (parts[0], answer):
        if len(part.split()) > 2 and (name := named_after_noun(part, question)):
            return name
    by_form = job(answer, question) or _person(answer, question, words) or _placed(answer, question)
    main = INSERTED.sub("", answer, count=1)
    if not by_form and is_sentence(RELATIVE.split(main, maxsplit=1)[0], question):
        by_form = slots.filled(main, question)
    if named := by_form or _called(NEXT.split(answer, maxsplit=1)[0], question):
        return named
    parts = [THAT.split(part, maxsplit=1)[0] for part in NEXT.split(answer)]
    cores = [core for part in parts if (core := _trimmed(_complement(part, words), words))]
    return next((core for core in cores if is_expected(core, question)), cores[0] if cores else answer)


def named_after_noun(text: str, question: str) -> str | None:
    """Return the name next to the noun of "which river" in a text, if there is exactly one."""
    noun = TYPED.search(asking_sentence(question))
    if not noun:
        return None
    if re.search(rf"\b[A-Z]\w+\s{noun[1].capitalize()}\s[A-Z]", text):  # "World War II" is one name
        return None
    noun_of = f"(?i:{re.escape(noun[1])})"
    if noun[1].casefold() in KEPT and (whole := re.search(rf"\b{noun[1].capitalize()}\sof\s{NAME}", text)):
        return whole[0]
    behind = re.findall(rf"\b{noun_of}\s+(?:of\s+|is\s+|called\s+)?(?:the\s+)?{NAME}", text)
    before = re.findall(rf"\b{NAME}\s{noun_of}\b", text)
    if noun[1].casefold() in KEPT:  # "Fairfax County", "New York City"
        before = re.findall(rf"\b{NAME}\b", text) if before else []
        before = [name for name in before if name.endswith(noun[1].capitalize())]
    next_names = {name for name in behind or before if name.casefold() not in GRAMMAR}
    name = next_names.pop() if len(next_names) == 1 else ""
    return name if name and is_new(name, question) else None


def names(answer: str, target: str, question: str) -> bool:
    """Return whether a sentence names the target, without denial or alternative, in words that the question lacks."""
    answer = re.sub(r"['\u2019]s\b", "", answer)
    wanted = normalise(re.sub(r"['\u2019]s\b", "", short(target, question)))
    if not wanted or f" {wanted} " not in f" {normalise(answer)} " or not is_new(target, question):
        return False
    words = r"[\W_]+".join(map(re.escape, wanted.split()))
    match = re.search(rf"(?<![\w-]){words}(?![\w+#])", re.sub(r"['\u2019.]", " ", answer), re.IGNORECASE)
    return bool(match) and not HEDGED.search(answer) and not LEFT_ASIDE.search(answer[: match.start() if match else 0])


def implied(text: str, question: str) -> str | None:
    """Return the only name that the claims of an unmarked text put next to the noun in question."""
    parts = [LATER.split(claim, maxsplit=1)[0] for claim in claims(text)]
    next_names = [name for part in parts if (name := named_after_noun(part, question))]
    denied = any(HEDGED.search(claim) or re.search(r"\bnot\b|n't\b", claim) for claim in claims(text))
    return next_names[0] if len({*next_names}) == 1 and not denied else None


def _person(answer: str, question: str, words: frozenset[str]) -> str | None:
    """Return the name after "by", before "who" or at the beginning of a sentence that answers "who ...?"."""
    if not re.match(r"\W*(?:by )?who", asking_sentence(question), re.IGNORECASE) or not re.search(r"\s[a-z]", answer):
        return None
    match = re.search(rf"\bby\s{NAME}|{NAME},?\swho\s", answer) or re.match(rf"{NAME}(?=,?\s[a-z])", answer)
    name = WORD.findall(match[match.lastindex or 1]) if match else []
    if not match or not name or name[0].casefold() in GRAMMAR or any(is_known(word, words) for word in name):
        return None
    return match[match.lastindex or 1]


def _called(answer: str, question: str) -> str | None:
    """Return the name that follows the noun of "which star" later: "it is a star of the north called Polaris"."""
    noun = TYPED.search(asking_sentence(question))
    match = noun and re.search(
        rf"\b(?i:{re.escape(noun[1])})\b[^\n]{{0,80}}\b(?:called|known as)\s(?:the\s)?{NAME}", answer
    )
    return match[1] if match and is_new(match[1], question) else None


def _placed(answer: str, question: str) -> str | None:
    """Return the name after the question's preposition at the start: "In Japan, ..." for "In which country ...?"."""
    asked_in = re.match(r"\W*(in|on|at|by|from)\s(?:which|what)\b", asking_sentence(question), re.IGNORECASE)
    match = asked_in and re.match(rf"(?i:{asked_in[1]})\s(?:the\s)?{NAME},", answer)
    return match[1] if match and is_new(match[1], question) else None


def _complement(answer: str, words: frozenset[str]) -> str:
    """Return the text after the verb of a sentence that begins with the question's words: "The tallest tree is X"."""
    verb = COPULA.search(answer)
    before = [word for word in WORD.findall(answer[: verb.start()]) if word.casefold() not in GRAMMAR] if verb else []
    is_asked = [is_known(word, words) for word in before]
    names_nobody = any(is_asked) and all(old or word.islower() for word, old in zip(before, is_asked, strict=True))
    if verb and (names_nobody or is_asked[:1] == [True]) and _trimmed(answer[verb.end() :], words):
        return answer[verb.end() :]
    return answer


def _trimmed(answer: str, words: frozenset[str]) -> str | None:
    """Return the text from the first to the last new word; all if no word is the question's, None if none is new."""
    word_matches = [*WORD.finditer(answer)]
    new = [word for word in word_matches if word[0].casefold() not in GRAMMAR and not is_known(word[0], words)]
    if not new or not any(is_known(word[0], words) for word in word_matches):
        return answer if new else None
    start = new[0].start()
    article = re.search(r"(?:^|\s)(?:an?|the)\s\Z", answer[:start], re.IGNORECASE)
    signs = re.match(r"[)\"'\u201d%]*", answer[new[-1].end() :])
    return answer[article.start() if article else start : new[-1].end() + (signs.end() if signs else 0)].strip()


def offered(question: str) -> tuple[str, str] | None:
    """Return the two alternatives of a question: "Which band, X or Y, had more members?"."""
    asks = asking_sentence(question)
    match = EITHER.search(asks) or EITHER_NAMED.search(asks)
    return (match[1], match[2]) if match else None


def leaves_open(answer: str, question: str) -> bool:
    """Return whether an answer names both alternatives of its question."""
    both = offered(question)
    return bool(both) and all(alternative.casefold() in answer.casefold() for alternative in both or ())


def _one_of_two(answer: str, question: str) -> str | None:
    """Return the alternative of "X or Y?" that a sentence names alone, or prefers by a comparison."""
    both = offered(question)
    if not both or HEDGED.search(answer) or re.search(r"\bnot\b|n't|\bboth\b|\bneither\b", answer):
        return None
    main = COMPARED.sub("", answer, count=1)
    places = {at: alternative for alternative in both if (at := main.casefold().find(alternative.casefold())) >= 0}
    if not places or len(answer.split()) <= len(places[min(places)].split()) + 1:
        return None
    if len(places) == 2 and not _prefers(main[: max(places)], question):
        return None
    return main[min(places) : min(places) + len(places[min(places)])]


def _prefers(before: str, question: str) -> bool:
    """Return whether the text before the second alternative affirms the question of the first: "X had more than"."""
    asks, compares = asking_sentence(question), {word.casefold() for word in COMPARES.findall(before)}
    wanted = {word.casefold() for word in COMPARES.findall(asks)}
    if any(compares & OPPOSITE.get(word, set()) for word in wanted):
        return False
    if wanted:
        return bool(compares & wanted) or bool(re.search(r"\b(?:than|before)\b", before))
    names = question_words(" ".join(offered(question) or ()))
    said = [
        word for word in WORD.findall(before) if is_known(word, question_words(question)) and not is_known(word, names)
    ]
    return bool({*said} - GRAMMAR)
