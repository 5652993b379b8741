"""The choices of a question: checks of their list, how texts name them, and the choice that an unmarked text claims.

A text claims a choice by a letter that it does not rule out, by the choice's words, or by its value.
"""

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.core.errors import UsageError
from sottovoce.prompts.kinds import number
from sottovoce.prompts.kinds.kind import Choices
from sottovoce.prompts.kinds.marks import PREFIX, normalise
from sottovoce.prompts.kinds.prose import OPEN, UNKNOWN, claims, first, plain
from sottovoce.prompts.kinds.question_words import DENIES, GRAMMAR, WORD, is_known, question_words

NUMBERED = re.compile(r"\(?(\w{1,2})[).:]\s+(?=\S)")
"""A number or letter that choices may begin with, if all do: "1. ", "b) "."""


def bare(choices: Sequence[str]) -> list[str]:
    """Return the choices without their own letters or numbers."""
    if _numbers(choices) or _is_series(choices, string.ascii_uppercase) or _is_series(choices, string.ascii_lowercase):
        return [NUMBERED.sub("", choice.strip(), count=1).strip() for choice in choices]
    return [PREFIX.sub("", choice.strip()) for choice in choices]


def without_denying_words(text: str, choices: Sequence[str]) -> str:
    """Return a text with "(E)" for "(E) None of these", so that the choice is not parsed as an abstention."""
    for letter, choice in zip(string.ascii_uppercase, bare(choices), strict=False):
        denial = plain(choice).strip(" .")
        if UNKNOWN.match(denial):
            words = r"\s+".join(map(re.escape, denial.split()))
            sign = rf"(?:\({letter}\)|(?<!\w){letter}(?!\w))"
            text = re.sub(
                rf"(?:{sign}[).:,]{{0,2}}\s?[-\u2013\u2014=]?\s?[\"']?(?i:{words})\b[\"']?|(?i:{words})[\s,]{{1,2}}{sign})",
                f"({letter})",
                text,
            )
    return text


def number_named(said: str, choices: Sequence[str]) -> int | None:
    """Return the 1-based number of a choice named as "Option 3" or "the third option", or "3" in numbered choices."""
    ordinals = "first|second|third|fourth|fifth|sixth|seventh|eighth".split("|")
    match = re.match(rf"\W*(?:the )?({'|'.join(ordinals)})\s(?:option|choice|one)\b", said, re.IGNORECASE)
    place = ordinals.index(match[1].lower()) + 1 if match else 0
    match = re.match(r"\W*(?:the )?((?:option|choice|number|no\.?)\W{0,3})?(\d{1,2})(?![\d.,]*\d)", said, re.IGNORECASE)
    if match and (match[1] or _numbers(choices)) and not any(re.search(r"\d", choice) for choice in bare(choices)):
        place = int(match[2])
    return place if 0 < place <= len(choices) else None


def letters(choices: Sequence[str]) -> str:
    """Return the letters of the choices; at least the first four are recognized."""
    return string.ascii_uppercase[: max(len(choices), 4)]


def letter_of(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the choice that equals a text, apart from case, articles and signs."""
    text_key, texts = normalise(text), [normalise(choice) for choice in bare(choices)]
    return string.ascii_uppercase[texts.index(text_key)] if text_key and texts.count(text_key) == 1 else None


def choices_named(said: str, choices: Sequence[str]) -> list[str]:
    """Return the letters of the choices that a text contains; if one is part of another, only the longer."""
    plain = f" {normalise(said)} "
    words = {string.ascii_uppercase[i]: normalise(choice) for i, choice in enumerate(bare(choices))}
    contained = {
        letter: choice_words for letter, choice_words in words.items() if choice_words and f" {choice_words} " in plain
    }
    texts = contained.values()
    within = {text for text in texts if any(text != longer and f" {text} " in f" {longer} " for longer in texts)}
    return [letter for letter, choice_words in contained.items() if choice_words not in within]


def ends_with(said: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the only choice that a text names, if the text ends with it."""
    named_letters = choices_named(said, choices)
    words = normalise(bare(choices)[string.ascii_uppercase.index(named_letters[0])]) if len(named_letters) == 1 else ""
    return named_letters[0] if words and f" {normalise(said)}".endswith(f" {words}") else None


def check(choices: Sequence[str], noun: str, *, may_repeat: bool = False) -> None:
    """Refuse an unusable list of choices.

    `may_repeat`: if the target is a letter, two choices may be equal, as in some published questions.

    Raises:
        UsageError: there are fewer than two, an empty one, or two that differ only in case and spaces.
    """
    if len(choices) < 2:
        listed = repr(choices[0]) if choices else "none"
        raise UsageError(f"there are too few {noun}: {listed}; give at least two choices")
    known = dict[str, str]()
    for choice in bare(choices):
        if not re.search(r"\S", choice):
            raise UsageError(f"choices contain an empty one: {[*choices]!r}; expected a text for each")
        plain = " ".join(choice.casefold().split())
        if plain in known and not may_repeat:
            raise UsageError(f"choices contain {choice!r} twice; expected each once")
        known[plain] = choice


def target_of(question: Mapping[str, Any]) -> str | None:  # Any: a Question; its module imports this one
    """Return the target as text; None if there is none."""
    target = question.get("target")
    return None if target is None else str(target)


def _numbers(choices: Sequence[str]) -> bool:
    return _is_series(choices, [str(i + 1) for i in range(len(choices))])


def _is_series(choices: Sequence[str], names: Sequence[str]) -> bool:
    own = [NUMBERED.match(choice.strip()) for choice in choices]
    return bool(own) and [match and match[1] for match in own] == [*names[: len(own)]]


ITEM = re.compile(r"^\W{0,9}(?:[A-Z]\W{1,3})?([A-Z])[).:]", re.MULTILINE)
LEADING_LETTER = re.compile(r"\W*(?:option\s)?\(?([a-zA-Z])(?:[).:]+|\W*\Z)")
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


def claimed_letter(body: str, choices: Choices) -> str | None:
    """Return the letter that a text begins with, else the last one not ruled out, else that of a choice's words."""
    if letter := _leading_letter(body, choices):
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
    if place := next((place for each in said.split("\n") if (place := number_named(each, choices))), None):
        return string.ascii_uppercase[place - 1]
    alone = [match for match in re.finditer(rf"(?<![\w'])({letter_range(choices)})(?![\w'])", said)]
    # A capital "A" before a lowercase word is usually an article, and "I" is usually the writer.
    alone = [match for match in alone if match[1] not in "AI" or not _is_word(said, match)]
    if alone:
        return None if UNKNOWN.match(said, alone[-1].end()) else alone[-1][1]
    return _letter_in_words(said, choices)


def _committed(said: str, choices: Choices) -> str | None:
    """Return the only letter of the last sentence that commits to one: "I stick with option B"."""
    letters = letter_range(choices)
    for sentence in reversed(said.split("\n")):
        if commits := COMMITS.search(sentence):
            clause = re.split(r"[.;]\s", sentence[commits.end() :])[0]  # "Option B." may read as an initial
            named_letters = {*re.findall(rf"(?:\(|\b(?:[Oo]ption|[Cc]hoice|[Ll]etter)\s)({letters})\b", clause)}
            return named_letters.pop() if len(named_letters) == 1 else None
    return None


def _is_word(said: str, letter: re.Match[str]) -> bool:
    """Return whether a capital A or I is a word: before a lowercase word, and not after "option"."""
    is_named = re.search(r"\b(?:option|choice|letter)\s\Z", said[: letter.start()][-9:], re.IGNORECASE)
    return bool(re.match(r"\s+[a-z]", said[letter.end() :][:9])) and not is_named


def implied_letter(text: str, question: Mapping[str, Any]) -> str | None:  # Any: see Kind
    """Return the choice that a clause with the question's words names in a plain text: "A pencil is used to write"."""
    choices, words = question.get("choices") or [], question_words(str(question.get("question", ""))) - GRAMMAR
    clauses = [clause for claim in claims(text)[:3] for clause in re.split(r",\s|;", claim)]
    for clause in clauses:
        named_letters = choices_named(clause, choices)
        about = {word for word in WORD.findall(clause) if word.casefold() not in GRAMMAR and is_known(word, words)}
        if len(named_letters) == 1 and about and not DENIES.search(clause):
            return named_letters[0]
    return None


def _leading_letter(body: str, choices: Choices) -> str | None:
    """Return the letter that a reply consists of, or begins with before the words of its choice, in any case."""
    match = LEADING_LETTER.match(body)
    letter, behind = (match[1].upper(), body[match.end() :].strip(" .*)")) if match else ("", "")
    if not match or letter not in letters(choices) or _unlisted(body, choices) != body:
        return None
    is_whole = len(behind.split()) < 9 and "\n" not in behind and not UNKNOWN.match(behind)
    return letter if is_whole and not match[0].endswith("A:") else opening_letter(body, choices)


def opening_letter(body: str, choices: Choices) -> str | None:
    """Return the letter that a reply begins with if the words of its choice follow, and not a list of choices."""
    match = LEADING_LETTER.match(body)
    line = body[match.end() :].strip(" .*)").partition("\n")[0] if match else ""
    named = (letter_of(line, choices), letter_of(first(line), choices))
    return match[1].upper() if match and match[1].upper() in named and _unlisted(body, choices) == body else None


def heading_letter(body: str, choices: Choices) -> str | None:
    """Return the letter that begins the short first line of a text, with any words after it: "(B) a lamp"."""
    match, (line, _, rest) = LEADING_LETTER.match(body), body.partition("\n")
    is_short = bool(match and rest and ITEM.match(line)) and len(line.split()) < 9
    return match[1].upper() if match and is_short and _unlisted(body, choices) == body else None


def _is_torn(body: str, choices: Choices) -> bool:
    """Return whether a text begins with "A:", the letter or the word "answer", and then a choice's words."""
    match = re.match(r"\W*A:\s*", body)
    return bool(match) and bool(letter_of(first(body[match.end() :]) if match else "", choices))


def _letter_in_words(said: str, choices: Choices) -> str | None:
    """Return the choice at the end of the last claim that names any."""
    for sentence in reversed(said.split("\n")[-3:]):
        words = re.sub(r"\b(?:not|n't|than|neither)\s(?:\w+\s)?\w+", " ", sentence)
        if named_letters := choices_named(words, choices):
            letter, *others = named_letters
            begins = re.match(rf"\W*{re.escape(bare(choices)[string.ascii_uppercase.index(letter)])},", words, re.I)
            return None if others else ends_with(words, choices) or (letter if begins else None)
    return None


def letter_by_value(text: str, choices: Choices) -> str | None:
    """Return the choice whose value a text gives, if all choices are numbers: "5 + 6 = 11"."""
    values = [number.read_value(choice, ()) for choice in bare(choices)]
    value = number.read(text, ()) if values and all(values) else None
    return string.ascii_uppercase[values.index(value)] if value is not None and values.count(value) == 1 else None


def _unlisted(body: str, choices: Choices) -> str:
    """Return the text without a repeated list of the choices."""
    named_letters = "".join(re.findall(r"\(([A-Z])\)", body))
    if "".join(ITEM.findall(body)).startswith("ABC"):  # lines begin with consecutive letters
        return "\n".join(line for line in body.split("\n") if not ITEM.match(line))
    if len(choices) > 1 and named_letters.startswith(string.ascii_uppercase[: len(choices)]):
        last = f"({string.ascii_uppercase[len(choices) - 1]})"
        return body[body.index(last) + len(last) :].removeprefix(" " + bare(choices)[-1])
    return body


def letter_range(choices: Choices) -> str:
    """Return the letters of the choices as a pattern."""
    return f"[A-{letters(choices)[-1]}]"
