"""The actions of agents in WhoDunit, and their parsing from fields of JSON; nothing is ever evaluated.

Texts are clauses, a verb and its complement, so that each attribute is worded once: "wears a brown hat" in a
description, "does not wear a brown hat" in an answer, "Does character 3 wear a brown hat?" in a question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sottovoce.core.response_format import Form
from sottovoce.environments.whodunit.games import Game
from sottovoce.prompts.structured import Structured, read_objects

if TYPE_CHECKING:
    from sottovoce.channels.message import Message

CLAUSES = {
    "hat": ("wear", "a {} hat"),
    "mood": ("be", "{}"),
    "shirt_color": ("wear", "a {} shirt"),
    "hobby": ("enjoy", "{}"),
    "pants": ("wear", "{} pants"),
    "pants_color": ("wear", "{} pants"),
    "eye_color": ("have", "{} eyes"),
    "eye_glasses": ("wear", "{} glasses"),
    "shirt": ("wear", "a {} shirt"),
    "shoe_color": ("wear", "{} shoes"),
    "hair": ("have", "{} hair"),
    "watch": ("wear", "a {} watch"),
    "socks": ("wear", "{} socks"),
    "jacket": ("wear", "a {} jacket"),
    "height": ("be", "{}"),
    "age": ("be", "{}"),
    "build": ("have", "a {} build"),
    "personality": ("be", "{}"),
    "interests": ("be", "interested in {}"),
    "occupation": ("be", "a {}"),
}
THIRD = {"be": "is", "have": "has"}
CLOTHES = (("pants", "pants_color", "{} pants"), ("shirt_color", "shirt", "a {} shirt"))
"""Clothes at the end of a description, each as one phrase: attributes of the adjectives in order, and the noun."""


@dataclass(frozen=True)
class Wording:
    """The vocabulary for the characters, for the one to find, and for the final act."""

    person: str
    winner: str
    award: str
    """Verb as in "you award the character"."""
    awards: str


WORDINGS = {
    "positive": Wording("character", "winner", "award", "awards"),
    "negative": Wording("suspect", "culprit", "accuse", "accuses"),
}
Worded = Literal["positive", "negative"]


def described(person: Mapping[str, str]) -> str:
    """Return the description of a character, with attributes in alphabetical order, pants and shirt last.

    >>> described({"shirt": "tee", "shirt_color": "pink", "hat": "brown", "age": "old"})
    'is old, wears a brown hat, wears a pink tee shirt'
    """
    dressed = {name for first, second, _ in CLOTHES for name in (first, second)}
    clauses = [clause(name, person[name]) for name in sorted(person) if name not in dressed]
    worn = [
        noun.format(" ".join(person[name] for name in (first, second) if name in person))
        for first, second, noun in CLOTHES
        if first in person or second in person
    ]
    return ", ".join([*clauses, *([f"wears {' and '.join(worn)}"] if worn else [])])


def clause(attribute: str, value: str, *, truth: bool = True, many: bool = False) -> str:
    """Return a clause about one or many: "wears a brown hat", "does not wear a brown hat", "wear a brown hat"."""
    verb, rest = _clause(attribute, value)
    if many:
        return f"{'are' if verb == 'be' else verb} {rest}"
    if truth:
        return f"{THIRD.get(verb, verb + 's')} {rest}"
    return f"is not {rest}" if verb == "be" else f"does not {verb} {rest}"


def question(attribute: str, value: str, who: str) -> str:
    """Return a question: "does character 3 wear a brown hat?"."""
    verb, rest = _clause(attribute, value)
    return f"is {who} {rest}?" if verb == "be" else f"does {who} {verb} {rest}?"


def listed(names: Iterable[object]) -> str:
    """Join names as in a sentence.

    >>> listed([1, 3, 5])
    '1, 3 and 5'
    """
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def fact(attribute: str, value: str, wording: Wording) -> str:
    """Return a fact about the character to find: "The winner wears a brown hat."."""
    return f"The {wording.winner} {clause(attribute, value)}."


def people(of: Sequence[Mapping[str, str]], wording: Wording) -> list[str]:
    """Return all descriptions, one line for each: "Character 1 is happy, ..."."""
    return [f"{wording.person.capitalize()} {number} {described(person)}." for number, person in enumerate(of, 1)]


def _clause(attribute: str, value: str) -> tuple[str, str]:
    """Return a verb and its complement. For the attribute "hat", the value "a black hat" counts as "black"."""
    verb, rest = CLAUSES.get(attribute, ("have", f"{{}} as {attribute.replace('_', ' ')}"))
    before, _, noun = rest.partition("{}")
    value = re.sub(rf"^(?:{re.escape(before)}|(?:an?|the) )", "", value, flags=re.IGNORECASE) if before else value
    nouns = "|".join(re.escape(name) for name in {noun.strip(), attribute.replace("_", " "), attribute} if name)
    return verb, rest.format(re.sub(rf"(?<=\S)\s+(?:{nouns})$", "", value, flags=re.IGNORECASE))


Role = Literal["accuser", "intel", "peer"]
Verb = Literal["ask", "ask_general", "award", "answer", "broad", "share", "skip"]
VERBS: dict[Role, tuple[Verb, ...]] = {
    "accuser": ("ask", "ask_general", "award"),
    "intel": ("answer", "broad"),
    "peer": ("share", "award", "skip"),
}
"""Verbs of each role; an action's number is its 1-based place."""
NO_OBJECT = "There was no JSON object; end with one that holds your action."
SEVERAL = 'There were different actions; end with the one that you choose, after "Action:".'
UNMARKED = 'An action that ends the game must follow "Action:"; end with the one that you choose.'
YES, NO = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")
PAIR = re.compile(r"\s*[-:=\u2013]\s*")
"""The sign between a property and its value."""
LONGEST = 60  # characters of a value, which is published
MARKED = re.compile(r"\baction\b[\s*_`]{0,8}:[\s*_`>]{0,16}(?:json[\w]{0,4}\s{0,8})?\Z", re.IGNORECASE)
"""End of a text before an action: "Action:", in any emphasis, optionally followed by a fence."""
BEFORE = 48  # characters before an object that are searched for its mark
ACTION, OBJECT = "Action:", "{"
"""The beginning of the action's line: with the label, if the prompt asks for it, or without."""
THOUGHTS = r'"thoughts": "(?:[^"\\]|\\["\\/bfnrt])*", '
SIGNS = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
"""Characters with a meaning in patterns; `re.escape` would also escape spaces, which is specific to Python."""


@dataclass(frozen=True)
class Action:
    """An action of an agent; fields that it does not need keep their defaults."""

    verb: Verb
    person: int = 0
    attribute: str = ""
    value: str = ""
    truth: bool = True
    """Answer yes or no, for `answer`."""
    people: tuple[int, ...] = ()
    """The characters named in a `broad` answer, including nonexistent ones."""
    fact: int = 0


@dataclass(frozen=True)
class Malformed:
    """A text without an action."""

    hint: str
    """One line: what was found, and what was expected."""


def fields(role: Role, wording: Wording) -> tuple[str, ...]:
    """Return the keys that a role is asked for, in order."""
    person = wording.person
    return {
        "accuser": ("thoughts", "action", person, "property", "value"),
        "intel": ("thoughts", "action", "value", person),
        "peer": ("thoughts", "action", "fact", person),
    }[role]


def read(message: Message, role: Role, game: Game, wording: Wording, facts: int = 0) -> Action | Malformed:
    """Return the action that a reply states by its own JSON object; `facts` is the number of a peer's facts."""
    return located(message, role, game, wording, facts)[0]


def located(
    message: Message, role: Role, game: Game, wording: Wording, facts: int = 0
) -> tuple[Action | Malformed, tuple[int, int]]:
    """Return the action in a reply, and the start and end of its object in the text, in characters.

    An object after "Action:" takes precedence over others, because models consider actions before they choose one. Two
    different objects are not an action, even if one is malformed. A reply that was cut has no action.
    """
    stated = dict[bool, dict[Action | Malformed, tuple[int, int]]]()
    for said in read_objects("" if message.cut else message.text, fields(role, wording)):
        if said.values:
            marked = MARKED.search(message.text, max(0, said.span[0] - BEFORE), said.span[0]) is not None
            action = _Reader(said, game, wording, facts).action(VERBS[role])
            stated.setdefault(marked, {})[action] = said.span
    actions = stated.get(True) or stated.get(False) or {Malformed(NO_OBJECT): (0, 0)}
    if len(actions) > 1:
        return Malformed(SEVERAL), (0, 0)
    action, (start, end) = next(iter(actions.items()))
    around = (message.text[:start] + message.text[end:]).replace("```json", "")
    if isinstance(action, Action) and action.verb == "award" and True not in stated and re.search(r"\w", around):
        return Malformed(UNMARKED), (0, 0)  # it ends the game
    return action, (start, end)


class _Wrong(Exception):
    """An error in a field that the action needs."""


@dataclass(frozen=True)
class _Reader:
    """A parser of a reply's fields; it reads only the fields that the action needs."""

    said: Structured
    game: Game
    wording: Wording
    facts: int

    def action(self, verbs: tuple[Verb, ...]) -> Action | Malformed:
        key, most = self.wording.person, self.game.suspect_count
        try:
            verb = verbs[self._number("action", len(verbs)) - 1]
            match verb:
                case "ask":
                    # Whether the attribute can have that value is not checked, as in the authors' code.
                    attribute = self._attribute(self._field("property"))
                    return Action(verb, self._number(key, most), attribute, _one_line(self._field("value")))
                case "award":
                    return Action(verb, self._number(key, most))
                case "answer":
                    plain = self._field("value").strip(".!").casefold()
                    if plain not in (*YES, *NO):
                        found = _shown(self._field("value"))
                        raise _Wrong(f'"value" was {found}; with action 1 it must be "yes" or "no".')
                    return Action(verb, truth=plain in YES)
                case "broad":
                    attribute, value = self._pair()
                    return Action(verb, attribute=attribute, value=value, people=self._people(key))
                case "share":
                    return Action(verb, fact=self._number("fact", self.facts))
            return Action(verb)
        except _Wrong as wrong:
            return Malformed(str(wrong))

    def _pair(self) -> tuple[str, str]:
        """Return attribute and value from "hat-brown" or "hat: brown"."""
        text = self._field("value")
        name, value = (*PAIR.split(text, 1), "")[:2]
        if not _one_line(value):
            first = self.game.names[0]
            example = f"{first}-{self.game.person(1)[first]}"
            raise _Wrong(f'"value" was {_shown(text)}; with action 2 it must be property-value, as {example}.')
        return self._attribute(name), _one_line(value)

    def _people(self, key: str) -> tuple[int, ...]:
        """Return the numbers of a list; an empty one says that nobody has the value."""
        text = self._field(key)
        numbers = dict.fromkeys(map(_whole_number, re.findall(r"[^\s,;\[\]()]+", text)))
        people = tuple(number for number in numbers if number is not None)
        if len(people) < len(numbers) or not (people or text == "[]"):
            raise _Wrong(f'"{key}" was {_shown(text)}; with action 2 it must be a list, as [1, 2].')
        return people

    def _attribute(self, name: str) -> str:
        attribute = next((known for known in self.game.names if _plain(known) == _plain(name)), None)
        if attribute is None:
            raise _Wrong(f"There is no property {_shown(name)}; choose from: {', '.join(self.game.names)}.")
        return attribute

    def _number(self, key: str, most: int) -> int:
        text = self._field(key)
        number = _whole_number(text)
        if number is None or not 1 <= number <= most:
            raise _Wrong(f'"{key}" was {_shown(text)}; it must be a number from 1 to {most}.')
        return number

    def _field(self, key: str) -> str:
        if key in self.said.missing:
            raise _Wrong(f'"{key}" {self.said.missing[key]}, and this action needs it.')
        return self.said.values[key]


def form(role: Role, game: Game, wording: Wording, facts: int, request: str = ACTION) -> Form:
    """Return the form of a reply's action: each action with the keys that it needs, after free thoughts.

    It begins as the prompt's `request` says. It is a pattern, since OpenAI accepts no schema of several objects:
    hosted models write freely, and their replies are read as they are.
    """
    person, number = wording.person, _one_of(range(1, game.suspect_count + 1))
    one = f'"{person}": {number}'
    several = rf'"{person}": \[{number}(?:, {number}){{0,{game.suspect_count - 1}}}\]'
    asked = "|".join(f'"property": "{name}", "value": "{_one_of(game.values(name))}"' for name in game.names)
    claimed = "|".join(rf"{name}\-{_one_of(game.values(name))}" for name in game.names)
    actions = {
        "accuser": (f"{one}, (?:{asked})", "", one),
        "intel": (r'"value": "(?:yes|no)"', f'"value": "(?:{claimed})", {several}'),
        "peer": (f'"fact": {_one_of(range(1, facts + 1))}', one, ""),
    }[role]
    keys = "|".join(f"{action}{', ' if needs else ''}{needs}" for action, needs in enumerate(actions, 1))
    after, brace = (ACTION, r"\{") if ACTION in request else (OBJECT, "")
    return Form(pattern=rf'{brace}(?:{THOUGHTS})?"action": (?:{keys})\}}', after=after, unknown=False)


def _one_of(values: Iterable[object]) -> str:
    escaped = [SIGNS.sub(r"\\\g<0>", str(value)) for value in values]
    return f"(?:{'|'.join(escaped)})"


def is_of_intel(value: str, names: Collection[str]) -> bool:
    """Return whether a value has the form of Intel's replies, "yes" or property-value, not that of an attribute."""
    plain = value.strip().casefold()
    return plain in (*YES, *NO) or plain.partition("-")[0] in names


def _whole_number(text: str) -> int | None:
    """Return a whole number from 0, as in "3", "3.0" or "#3", or None."""
    match = re.fullmatch(r"#?(\d{1,6})(?:\.0*)?", text)
    return int(match[1]) if match else None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _one_line(text: str) -> str:
    """Return a text as it is published, without private-use characters, which mark messages in prompts."""
    plain = "".join(sign for sign in text if not "\ue000" <= sign <= "\uf8ff")
    return " ".join(plain.split())[:LONGEST].strip()


def _shown(text: str) -> str:
    return f'"{_one_line(text)}"'
