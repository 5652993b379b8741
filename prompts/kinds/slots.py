"""Rules that extract the part of a sentence that a question asks for: a place, a date, an amount, a title, a name.

Each rule returns None for a sentence that does not fit it; `filled` tries them in order.
"""

import re

from sottovoce.prompts.kinds.question_words import GRAMMAR, WORD, asking_sentence, is_known, is_new, question_words

_CAP = r"[^\W\d_a-z][\w'.&-]*"
NAME = rf"(?:the\s)?{_CAP}(?:\s(?:(?:of|the|and|de|del|di|da|la|le|van|von|upon|for|in)\s){{0,2}}{_CAP}|\s&){{0,6}}"
"""A name with its small words: "University of Oxford"."""
PLACE = (
    rf"(?:the\s)?{_CAP}(?:\s(?:(?:of|the|de|del|la|upon)\s){{0,2}}{_CAP}){{0,5}}"
    rf"(?:,\s{_CAP}(?:\s{_CAP}){{0,3}}(?=\W*\Z)){{0,2}}"
)
OF_PLACE = re.compile(
    r"(?:\A|[,;]\s(?:(?:but|and)\s)?)\W*where\b|\bbirthplace\b|\b(?:what|which)\s(?:\w+\s){0,2}?(?:city|town|country|county|state|province|island|village|region"
    r"|continent|borough|neighbou?rhood|suburb|venue|stadium|place|location)\b",
    re.IGNORECASE,
)
IN_PLACE = re.compile(rf"\b(?:[Ii]n|[Aa]t|[Oo]n|[Nn]ear)\s({PLACE})")
MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
DATE = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{MONTH}),?\s\d{{3,4}}|(?:{MONTH})\s\d{{1,2}}(?:st|nd|rd|th)?,\s\d{{3,4}}"
    rf"|(?:from\s)?\d{{4}}\s?(?:to|until|-|\u2013)\s?\d{{4}}|(?:{MONTH})\s\d{{4}}|\d{{4}})\b"
)
OF_DATE = re.compile(r"\bwhen\b|\b(?:what|which)\s(?:date|year|time ?frame|period)s?\b|\bin what year\b", re.IGNORECASE)
OF_AMOUNT = re.compile(
    r"\bhow (?:many|much)\b|\b(?:population|number|sum|total) of what\b|\bwhat (?:is|was) the (?:population|number)\b",
    re.IGNORECASE,
)
AMOUNT = re.compile(
    r"(?<![\w.,])[$\u20ac\u00a3]?\d[\d,.]*\d(?:\s(?:million|billion|thousand))?|(?<![\w.,])\d(?![\w.,]*\d)"
)
OF_SUBJECT = re.compile(r"\W*(?:who|(?:which|what)\s[a-z]+)\b(?!.*\b(?:do|does|did)\b)", re.IGNORECASE)
OF_TITLE = re.compile(
    r"\b(?:song|film|movie|book|novel|album|title|poem|series|show|episode|magazine|name|play|single|track)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{1,80})[\"\u201d]")
BEHIND = re.compile(
    r"(?P<word>\w{3,})\s(?:(?P<link>in|on|of|by|with|for|to|at|from|as|under|into)\s)?"
    r"(?:what|which|whom?)\b(?!\s(?:is|are|was|were)\b)",
    re.IGNORECASE,
)
"""The words right before the question word: "attended which university"."""
HEAD = re.compile(
    r"\b(?:what|who)(?:'s| is| are| was| were) the (?:name of the )?([\w' -]{3,40}?)"
    r"(?:\s(?:of|that|which|who|whose|for|in|at|to|from|on)\b|\?|\Z)",
    re.IGNORECASE,
)
"""The noun for the person or thing in question: "county seat"."""
ENDS = re.compile(
    r";|,\s(?:which|where|who|whose|when|and\s(?:was|is|has|it)|but|while|whereas|an?|the|one|in|on|at|with|after|before|not)\b"
    r"|\s(?:that|which|who|whose|where|while|whereas|because|since|after|before|during|when|until)\s|[.!?](?:\s|\Z)"
)
"""The end of the phrase that answers."""


def filled(answer: str, question: str) -> str | None:
    """Return the part of a sentence that its question asks for; None if no rule fits."""
    said = asking_sentence(question)
    for value in (_dated(answer, said), _amount(answer, said), _quoted(answer, question), _head(answer, said)):
        if value:
            return value
    return _subject(answer, said) or _place(answer, said) or _behind(answer, said)


def _subject(answer: str, said: str) -> str | None:
    """Return the name before the question's own verb: "Harbour Lights won the cup" to "Which band won the cup?"."""
    match = re.match(rf"\W*({NAME})\s([a-z]+)\b", answer) if OF_SUBJECT.match(said) else None
    is_verb = bool(match) and match[2] not in GRAMMAR and is_known(match[2], question_words(said)) if match else False
    is_name = any(word.casefold() not in GRAMMAR for word in WORD.findall(match[1])) if match else False
    return _bare(match[1]) if match and is_verb and is_name and is_new(match[1], said) else None


def _quoted(answer: str, question: str) -> str | None:
    """Return the only title in quotes that is not in the question."""
    if not OF_TITLE.search(question):
        return None
    titles = [title for title in QUOTED.findall(answer) if title.casefold() not in question.casefold()]
    return titles[0].strip(" .,") if len(titles) == 1 and is_new(titles[0], question) else None


def _dated(answer: str, said: str) -> str | None:
    dates = [date for date in DATE.findall(answer) if date not in said] if OF_DATE.search(said) else []
    year = re.search(r"\d{3,4}\Z", dates[0]) if len(dates) == 1 else None
    return year[0] if year and re.search(r"\byear\b", said, re.IGNORECASE) else dates[0] if year else None


def _amount(answer: str, said: str) -> str | None:
    if not OF_AMOUNT.search(said):
        return None
    figures = [figure for figure in AMOUNT.findall(answer) if figure not in said]
    counted = [
        figure for figure in figures if not re.search(rf"\b(?:in|since|by|of) {re.escape(figure)}\b", answer)
    ] or figures
    return counted[0] if len(counted) == 1 else None


def _place(answer: str, said: str) -> str | None:
    """Return the last new place after "in", "at", "on" or "near"."""
    if not OF_PLACE.search(said):
        return None
    places = [place for place in IN_PLACE.findall(answer) if not re.match(rf"(?:{MONTH})\b", place)]
    places = [place for place in places if is_new(place, said)]
    return _bare(places[-1]) if places else None


def _head(answer: str, said: str) -> str | None:
    """Return the phrase after "(the) county seat is", if a question asks for the county seat."""
    head = HEAD.search(said)
    words = r"\s".join(map(re.escape, head[1].split()[-2:])) if head else ""
    match = head and re.search(rf"\b(?i:{words})(?:\sof\s[^,;]{{1,60}}?)?\s(?:is|was|are|were)\s(.+)", answer)
    return _phrase(match[1], said) if match else None


def _behind(answer: str, said: str) -> str | None:
    """Return the phrase after the words that the question has right before "which" or "what"."""
    asks = BEHIND.search(said)
    if not asks or (asks["word"].casefold() in GRAMMAR and not asks["link"]):
        return None
    stem = re.escape(asks["word"].casefold()[: max(3, len(asks["word"]) - 3)])
    link = rf"\s(?:\w+\s){{0,2}}?{asks['link']}" if asks["link"] else ""
    match = re.search(rf"\b(?i:{stem})\w{{0,4}}{link}\s(.+)", answer)
    return _phrase(match[1], said) if match else None


def _phrase(text: str, said: str) -> str | None:
    """Return the phrase at the beginning of a text, without a tail of the question's words; None if nothing is new."""
    phrase = _bare(ENDS.split(text, maxsplit=1)[0])
    words, tail = question_words(said), re.search(r"\s(?:in|on|at|during|by|for|of|as)\s[^,]{1,60}\Z", phrase)
    if tail and all(is_known(word, words) or word.casefold() in GRAMMAR for word in WORD.findall(tail[0])):
        phrase = phrase[: tail.start()]
    return phrase if phrase and len(phrase.split()) <= 12 and is_new(phrase, said) else None


def _bare(phrase: str) -> str:
    return re.sub(r"^(?:the|an?)\s(?=[A-Z])", "", phrase).strip(" .,\"'\u201c\u201d")
