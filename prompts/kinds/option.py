"""One of several choices, by its letter; at least the first four are understood."""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.errors import UsageError
from sottovoce.form import Form
from sottovoce.prompts.kinds import choices as known
from sottovoce.prompts.kinds import number
from sottovoce.prompts.kinds.about import DENIES, GRAMMAR, WORD, is_known
from sottovoce.prompts.kinds.about import known as known_words
from sottovoce.prompts.kinds.kind import Choices, Kind
from sottovoce.prompts.kinds.marks import CLOSING, sources
from sottovoce.prompts.kinds.nothing import OPEN, UNKNOWN
from sottovoce.prompts.kinds.prose import plain
from sottovoce.prompts.kinds.sentences import CLAUSE, affirmed, claims, first, without_reason

NOUNS = "answer|option|choice"
ITEM = re.compile(r"^\W{0,9}(?:[A-Z]\W{1,3})?([A-Z])[).:]", re.MULTILINE)
CHANGES = re.compile(r"\b(?:wait|actually|second thought|correction|mistake|sorry|agent|disagree)\b", re.IGNORECASE)
"""Where a text speaks of an answer that it does not give."""
LEADING = re.compile(
    r"[\W_]*(?:(?:indeed|definitely|clearly|probably|most likely|certainly)\s)?"
    r"(?:(?:option|choice|letter|answer)\b\W*)?([A-Za-z])(?![\w'])([).:]*)(\s+[a-z])?",
    re.IGNORECASE,
)
JOINED = re.compile(r"[\s(]*(?-i:[A-Z])\W{0,3}\s?(?:or|and|/)\s*\(?(?-i:[A-Z])\b", re.IGNORECASE)
"""Two letters, and none chosen."""
_LETTERS = r"(?:\s(?:both|option|be|choose)\b)?\s?(?:\([A-Z]\)|\b[A-Z]\b)(?:\s?(?:,|and|or|nor)\s?\(?[A-Z]\b\)?){0,9}"
RULED_OUT = re.compile(
    rf"(?:\bnot|n't|\bneither|\beliminated?|\bexcluded?|\brul(?:e|ed|ing) out|\brejected?|\bover|\bthan|\binstead of"
    rf"|\bconsider(?:ing)?|\babout|\bcheck(?:ing)?|\bwhether)(?:\s(?:it is|is))?{_LETTERS}"
)
"""Letters that are named to be left aside."""
WRONG = re.compile(
    rf"{_LETTERS}(?:\s\w+){{0,3}}?\s(?:is|are|was|were|can|could|does|do|seems?|looks?)(?:\s?n[o']t\b|nnot\b"
    r"|\s(?:wrong|incorrect|false|impossible|out|excluded|eliminated)\b)"
)


def read(text: str, choices: Choices) -> str | None:
    """What is marked as the answer (see `sources`), else the last letter or choice that is claimed."""
    body = plain(text)
    said = [found for source in sources(body, NOUNS) if (found := _of(source, choices)) is not None]
    if said:
        return said[0] or None if CHANGES.search(body) or not _contradicts(said, body) else None
    return claimed(body, choices) or _by_value(text, choices)


def read_value(given: str, choices: Choices) -> str | None:
    """A letter in any case, or a choice's text, or what a reply would be read as."""
    found = _of(plain(given), choices)
    return read(given, choices) if found is None else found or None


def _contradicts(said: Sequence[str], body: str) -> bool:
    """Whether a text states two letters, none of them on a closing line."""
    return len({*filter(None, said)}) > 1 and not CLOSING.search(body)


def _of(source: str, choices: Choices) -> str | None:
    """The letter that a mark names; empty where it says that there is none, None where it speaks of something else."""
    if lone := re.fullmatch(rf"\W{{0,9}}({_range(choices)})\W{{0,9}}", source):
        return lone[1]
    for said in (source, first(source), affirmed(without_reason(source, CLAUSE)), first(affirmed(source))):
        if named := known.letter_of(said, choices):  # also "None of these", "Cannot be determined"
            return named
    said = affirmed(without_reason(source, CLAUSE))
    if not said and not re.search(rf"\b{_range(choices)}\b", source):  # "not a valid option"
        return None
    if UNKNOWN.match(said) or not said or JOINED.match(re.sub(r"^\W*either\b", "", said)):
        return ""
    if (letter := led(said, choices)) is not None:
        return letter
    if place := known.number_named(said, choices):
        return string.ascii_uppercase[place - 1]
    found = {*re.findall(rf"\(({_range(choices)})\)", said)} or {*re.findall(r"\b([B-HJ-Z])\b(?!\.\s?[A-Z])", said)}
    found = {each for each in found if each in known.letters(choices)} or {*known.named(first(said), choices)}
    return found.pop() if len(found) == 1 else None


def led(said: str, choices: Choices) -> str | None:
    """The letter that a phrase begins with: "B", "(b) blue", "option C"; no article.

    It counts whatever choice stands behind it, since letters are what is asked for; empty before an abstention.
    """
    found = LEADING.match(said)
    letter = found[1].upper() if found else ""
    if not found or letter not in known.letters(choices):
        return None
    if found[3] and not found[2] and (found[1] in "AI" or found[1].islower()):
        return None
    return "" if UNKNOWN.match(said, found.end(2)) else letter


def claimed(body: str, choices: Choices) -> str | None:
    """Of a text without a mark: the letter at its begin, else the last that is not ruled out, else a choice's words."""
    if (letter := _begun(body, choices)) and _unlisted(body, choices) == body:
        return letter
    body = re.sub(r"\A\W*A:\s", "", body)  # as in "Q: ... A: ..."
    said = WRONG.sub(" ", RULED_OUT.sub(" ", "\n".join(claims(_unlisted(body, choices)))))
    said = "\n".join(line for line in said.split("\n") if not OPEN.search(line))
    brackets = [*re.finditer(rf"\(({_range(choices)})\)", said)]
    if brackets:
        last = brackets[-1]
        several = re.search(rf"\({last[1]}\)\s?(?:or|/)|\)\s(?:or|and)\s\({last[1]}\)", said)
        return None if several or UNKNOWN.match(said, last.end()) else last[1]
    if place := next((place for each in said.split("\n") if (place := known.number_named(each, choices))), None):
        return string.ascii_uppercase[place - 1]
    alone = [found for found in re.finditer(rf"(?<![\w'])({_range(choices)})(?![\w'])", said)]
    # A capital "A" before a small word is an article far more often than an answer, and "I" is who speaks.
    alone = [found for found in alone if found[1] not in "AI" or not re.match(r"\s+[a-z]", said[found.end() :][:9])]
    if alone:
        return None if UNKNOWN.match(said, alone[-1].end()) else alone[-1][1]
    return _in_words(said, choices)


def implied(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Of a plain text: the choice that a clause with the question's words names, "A pencil is used to write"."""
    choices, words = question.get("choices") or [], known_words(str(question.get("question", ""))) - GRAMMAR
    clauses = [clause for claim in claims(text)[:3] for clause in re.split(r",\s|;", claim)]
    for clause in clauses:
        found = known.named(clause, choices)
        about = {word for word in WORD.findall(clause) if word.casefold() not in GRAMMAR and is_known(word, words)}
        if len(found) == 1 and about and not DENIES.search(clause):
            return found[0]
    return None


def _begun(body: str, choices: Choices) -> str | None:
    """The letter, of any case, that a reply is, or begins with before the words of its choice."""
    found = re.match(r"\W*(?:option\s)?\(?([a-zA-Z])(?:[).:]+|\W*\Z)", body)
    letter, behind = (found[1].upper(), body[found.end() :].strip(" .*)")) if found else ("", "")
    if not found or letter not in known.letters(choices):
        return None
    if found[0].endswith("A:"):  # as in "Q: ... A: ..."
        return known.letter_of(first(behind), choices) if known.letter_of(first(behind), choices) == "A" else None
    line = behind.partition("\n")[0]
    is_whole = len(behind.split()) < 9 and "\n" not in behind and not UNKNOWN.match(behind)
    return (
        letter
        if is_whole or letter in (known.letter_of(line, choices), known.letter_of(first(line), choices))
        else None
    )


def _in_words(said: str, choices: Choices) -> str | None:
    """The one choice that the last claim ends with which names any."""
    for sentence in reversed(said.split("\n")[-3:]):
        words = re.sub(r"\b(?:not|n't|than|neither)\s(?:\w+\s)?\w+", " ", sentence)
        if found := known.named(words, choices):
            begins = re.match(
                rf"\W*{re.escape(known.bare(choices)[string.ascii_uppercase.index(found[0])])},", words, re.I
            )
            return known.ends_with(words, choices) or (found[0] if begins else None) if len(found) == 1 else None
    return None


def _by_value(text: str, choices: Choices) -> str | None:
    """Where all choices are numbers, the one whose value a text gives: "5 + 6 = 11"."""
    values = [number.read_value(choice, ()) for choice in known.bare(choices)]
    found = number.read(text, ()) if values and all(values) else None
    return string.ascii_uppercase[values.index(found)] if found is not None and values.count(found) == 1 else None


def _unlisted(body: str, choices: Choices) -> str:
    """The text without the choices said again, one after another."""
    found = "".join(re.findall(r"\(([A-Z])\)", body))
    if _is_list(body):
        return "\n".join(line for line in body.split("\n") if not ITEM.match(line))
    if len(choices) > 1 and found.startswith(string.ascii_uppercase[: len(choices)]):
        last = f"({string.ascii_uppercase[len(choices) - 1]})"
        return body[body.index(last) + len(last) :].removeprefix(" " + known.bare(choices)[-1])
    return body


def _is_list(body: str) -> bool:
    """Whether lines begin with the letters one after another, as the choices were asked."""
    return "".join(ITEM.findall(body)).startswith("ABC")


def _range(choices: Choices) -> str:
    return f"[A-{known.letters(choices)[-1]}]"


def check(question: Mapping[str, Any]) -> None:  # Any: see Kind
    """Refuse choices that nobody could choose from, and a target that is none of them."""
    choices, target = question.get("choices") or [], known.target_of(question)
    known.check(choices, "options")
    if target is not None and canonical(target, choices) is None:
        last = string.ascii_uppercase[len(choices) - 1]
        raise UsageError(
            f"target is {target!r}; expected a letter from A to {last}, or one of the choices: {choices!r}"
        )


def canonical(target: str, choices: Choices) -> str | None:
    """The letter of a target that is a letter or a choice's text."""
    for i, choice in enumerate(known.bare(choices)):
        if target.strip() in (choice, choices[i]):
            return string.ascii_uppercase[i]
    letter = target.strip(" ().").upper()
    return letter if len(letter) == 1 and letter in string.ascii_uppercase[: len(choices)] else None


def grammar(choices: Choices) -> Form:
    """The letters of the choices."""
    return Form(choices=tuple(known.letters(choices)[: len(choices) or None]))


OPTION = Kind(
    "option",
    "answers/option",
    "a letter",
    read,
    read_value,
    grammar=grammar,
    check=check,
    target=canonical,
    implied=implied,
)
