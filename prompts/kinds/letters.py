"""Parser of the choice that a text without a mark claims: by a letter that is not ruled out, by words, by value."""

import re
import string
from collections.abc import Mapping
from typing import Any

from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds import number
from sottovoce.prompts.kinds.about import DENIES, GRAMMAR, WORD, is_known
from sottovoce.prompts.kinds.about import known as known_words
from sottovoce.prompts.kinds.kind import Choices
from sottovoce.prompts.kinds.nothing import OPEN, UNKNOWN
from sottovoce.prompts.kinds.sentences import claims, first

ITEM = re.compile(r"^\W{0,9}(?:[A-Z]\W{1,3})?([A-Z])[).:]", re.MULTILINE)
BEGUN = re.compile(r"\W*(?:option\s)?\(?([a-zA-Z])(?:[).:]+|\W*\Z)")
_LETTERS = r"(?:\s(?:both|option|be|choose)\b)?\s?(?:\([A-Z]\)|\b[A-Z]\b)(?:\s?(?:,|and|or|nor)\s?\(?[A-Z]\b\)?){0,9}"
RULED_OUT = re.compile(
    rf"(?:\bnot|n't|\bneither|\beliminated?|\bexcluded?|\brul(?:e|ed|ing) out|\brejected?|\bover|\bthan|\binstead of"
    rf"|\bconsider(?:ing)?|\babout|\bcheck(?:ing)?|\bwhether"
    rf"|(?:'s|\bothers?'|\btheir) (?:choice|answer|option|pick|vote)(?: of)?)(?:\s(?:it is|is))?{_LETTERS}"
)
"""Letters that are mentioned but not chosen."""
COMMITS = re.compile(
    r"\b(?:i|we)\b(?:'d|'ll)?(?:\s\w+){0,3}?\s(?:stick|stay|go|side|remain|choose|chose|pick|keep|vote|settle)\b",
    re.IGNORECASE,
)
WRONG = re.compile(
    rf"{_LETTERS}(?:\s\w+){{0,3}}?\s(?:is|are|was|were|can|could|does|do|seems?|looks?)(?:\s?n[o']t\b|nnot\b"
    r"|\s(?:wrong|incorrect|false|impossible|out|excluded|eliminated)\b)"
)


def claimed(body: str, choices: Choices) -> str | None:
    """Return the letter that a text begins with, else the last one not ruled out, else that of a choice's words."""
    if letter := _begun(body, choices):
        return letter
    if _is_torn(body, choices):
        return None
    body = re.sub(r"\A\W*A:\s", "", body)  # as in "Q: ... A: ..."
    said = WRONG.sub(" ", RULED_OUT.sub(" ", "\n".join(claims(_unlisted(body, choices)))))
    said = "\n".join(line for line in said.split("\n") if not OPEN.search(line))
    if letter := _committed(said, choices):
        return letter
    brackets = [*re.finditer(rf"\(({letter_range(choices)})\)", said)]
    if brackets:
        last = brackets[-1]
        several = re.search(rf"\({last[1]}\)\s?(?:or|/)|\)\s(?:or|and)\s\({last[1]}\)", said)
        return None if several or UNKNOWN.match(said, last.end()) else last[1]
    if place := next((place for each in said.split("\n") if (place := known.number_named(each, choices))), None):
        return string.ascii_uppercase[place - 1]
    alone = [found for found in re.finditer(rf"(?<![\w'])({letter_range(choices)})(?![\w'])", said)]
    # A capital "A" before a lowercase word is usually an article, and "I" is usually the writer.
    alone = [found for found in alone if found[1] not in "AI" or not _is_word(said, found)]
    if alone:
        return None if UNKNOWN.match(said, alone[-1].end()) else alone[-1][1]
    return _in_words(said, choices)


def _committed(said: str, choices: Choices) -> str | None:
    """Return the only letter of the last sentence that commits to one: "I stick with option B"."""
    letters = letter_range(choices)
    for sentence in reversed(said.split("\n")):
        if commits := COMMITS.search(sentence):
            clause = re.split(r"[.;]\s", sentence[commits.end() :])[0]  # "Option B." may read as an initial
            found = {*re.findall(rf"(?:\(|\b(?:[Oo]ption|[Cc]hoice|[Ll]etter)\s)({letters})\b", clause)}
            return found.pop() if len(found) == 1 else None
    return None


def _is_word(said: str, found: re.Match[str]) -> bool:
    """Return whether a capital A or I is a word: before a lowercase word, and not after "option"."""
    is_named = re.search(r"\b(?:option|choice|letter)\s\Z", said[: found.start()][-9:], re.IGNORECASE)
    return bool(re.match(r"\s+[a-z]", said[found.end() :][:9])) and not is_named


def implied(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Return the choice that a clause with the question's words names in a plain text: "A pencil is used to write"."""
    choices, words = question.get("choices") or [], known_words(str(question.get("question", ""))) - GRAMMAR
    clauses = [clause for claim in claims(text)[:3] for clause in re.split(r",\s|;", claim)]
    for clause in clauses:
        found = known.named(clause, choices)
        about = {word for word in WORD.findall(clause) if word.casefold() not in GRAMMAR and is_known(word, words)}
        if len(found) == 1 and about and not DENIES.search(clause):
            return found[0]
    return None


def _begun(body: str, choices: Choices) -> str | None:
    """Return the letter that a reply consists of, or begins with before the words of its choice, in any case."""
    found = BEGUN.match(body)
    letter, behind = (found[1].upper(), body[found.end() :].strip(" .*)")) if found else ("", "")
    if not found or letter not in known.letters(choices) or _unlisted(body, choices) != body:
        return None
    is_whole = len(behind.split()) < 9 and "\n" not in behind and not UNKNOWN.match(behind)
    return letter if is_whole and not found[0].endswith("A:") else opened(body, choices)


def opened(body: str, choices: Choices) -> str | None:
    """Return the letter that a reply begins with if the words of its choice follow, and not a list of choices."""
    found = BEGUN.match(body)
    line = body[found.end() :].strip(" .*)").partition("\n")[0] if found else ""
    named = (known.letter_of(line, choices), known.letter_of(first(line), choices))
    return found[1].upper() if found and found[1].upper() in named and _unlisted(body, choices) == body else None


def headed(body: str, choices: Choices) -> str | None:
    """Return the letter that begins the short first line of a text, with any words after it: "(B) a lamp"."""
    found, (line, _, rest) = BEGUN.match(body), body.partition("\n")
    is_short = bool(found and rest and ITEM.match(line)) and len(line.split()) < 9
    return found[1].upper() if found and is_short and _unlisted(body, choices) == body else None


def _is_torn(body: str, choices: Choices) -> bool:
    """Return whether a text begins with "A:", the letter or the word "answer", and then a choice's words."""
    found = re.match(r"\W*A:\s*", body)
    return bool(found) and bool(known.letter_of(first(body[found.end() :]) if found else "", choices))


def _in_words(said: str, choices: Choices) -> str | None:
    """Return the choice at the end of the last claim that names any."""
    for sentence in reversed(said.split("\n")[-3:]):
        words = re.sub(r"\b(?:not|n't|than|neither)\s(?:\w+\s)?\w+", " ", sentence)
        if found := known.named(words, choices):
            begins = re.match(
                rf"\W*{re.escape(known.bare(choices)[string.ascii_uppercase.index(found[0])])},", words, re.I
            )
            return known.ends_with(words, choices) or (found[0] if begins else None) if len(found) == 1 else None
    return None


def by_value(text: str, choices: Choices) -> str | None:
    """Return the choice whose value a text gives, if all choices are numbers: "5 + 6 = 11"."""
    values = [number.read_value(choice, ()) for choice in known.bare(choices)]
    found = number.read(text, ()) if values and all(values) else None
    return string.ascii_uppercase[values.index(found)] if found is not None and values.count(found) == 1 else None


def _unlisted(body: str, choices: Choices) -> str:
    """Return the text without a repeated list of the choices."""
    found = "".join(re.findall(r"\(([A-Z])\)", body))
    if _is_list(body):
        return "\n".join(line for line in body.split("\n") if not ITEM.match(line))
    if len(choices) > 1 and found.startswith(string.ascii_uppercase[: len(choices)]):
        last = f"({string.ascii_uppercase[len(choices) - 1]})"
        return body[body.index(last) + len(last) :].removeprefix(" " + known.bare(choices)[-1])
    return body


def _is_list(body: str) -> bool:
    """Return whether lines begin with consecutive letters, as the list of choices does."""
    return "".join(ITEM.findall(body)).startswith("ABC")


def letter_range(choices: Choices) -> str:
    """Return the letters of the choices as a pattern."""
    return f"[A-{known.letters(choices)[-1]}]"
