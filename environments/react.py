"""The world of ReAct (arXiv 2210.03629): search a page, look words up on it, finish with an answer.

Pure rules after the authors' wikienv.py: an action and a state give an observation and the next state, which is
plain JSON. What no action can be read from is a value of its own, and takes the step. Of the authors' actions
`think[...]` is none here: a step has its thought in front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

from sottovoce.environments.pages import SHOWN, Library

Verb = Literal["search", "lookup", "finish"]
SIMILAR = 5  # titles that are told where a page is not found
LONGEST = 1500
"""Characters of an observation; a page may be one long sentence."""
CUT = " ..."
BEGINS = re.compile(r"\b(search|look[ _-]?up|finish)\s*\[", re.IGNORECASE)
ROUND = re.compile(r"^\W{0,9}(search|look[ _-]?up|finish)\s?\((.*)\)\W*$", re.IGNORECASE | re.MULTILINE)
"""An action alone on its line, in parentheses instead of brackets."""
QUOTED = re.compile(r"([\"'`\u201c\u2018])(.*)([\"'`\u201d\u2019])")


@dataclass(frozen=True)
class Action:
    """What an agent does."""

    verb: Verb
    argument: str
    """Empty only where it finishes without an answer."""

    def __str__(self) -> str:
        return f"{self.verb.capitalize()}[{self.argument}]"


@dataclass(frozen=True)
class Malformed:
    """A text in which there is no action."""

    text: str
    why: str
    """In a few words, with what was expected."""


class World(TypedDict):
    """Where the agents stand; all of them share it."""

    title: str | None
    """Of the open page."""
    sentences: list[str]
    """Its text."""
    keyword: str
    """What was looked up last."""
    found: int
    """How many of its hits were shown."""
    answer: str | None
    """What somebody finished with; empty where no answer was given."""


def opening() -> World:
    """Before the first step."""
    return {"title": None, "sentences": [], "keyword": "", "found": 0, "answer": None}


def parse(text: str) -> Action | Malformed:
    """The first action in a text, whatever stands around it and whether it is in capitals; brackets may be nested.

    >>> parse("Action 2: search[Orla (river)] and then Lookup[mouth]")
    Action(verb='search', argument='Orla (river)')
    >>> parse("Search[Orla").why
    "'Search[' has no end; expected a ] behind what is searched, as in Search[a title]"
    """
    found = BEGINS.search(text)
    if found is None and ROUND.search(text):
        return parse(ROUND.sub(r"\1[\2]", text))
    if found is None:
        return Malformed(text, "no action; expected Search[a title], Lookup[a word] or Finish[an answer]")
    verb: Verb = re.sub(r"\W|_", "", found[1].lower())  # type: ignore[assignment]  # a Verb, by the pattern
    name, rest = verb.capitalize(), text[found.end() :].partition("\n")[0]
    end = _end(rest)
    if end is None:
        what = {
            "search": ("searched", "a title"),
            "lookup": ("looked up", "a word"),
            "finish": ("answered", "an answer"),
        }
        done, example = what[verb]
        return Malformed(text, f"'{name}[' has no end; expected a ] behind what is {done}, as in {name}[{example}]")
    argument = _bare(rest[:end])
    if not argument and verb != "finish":
        return Malformed(text, f"{name}[] names nothing; expected words between the brackets")
    return Action(verb, argument)


def step(library: Library, world: World, action: Action | Malformed) -> tuple[str, World]:
    """What an action shows, and the world behind it. After Finish nothing happens any more."""
    if world["answer"] is not None:
        return "The question is answered.", world
    if isinstance(action, Malformed):
        return f"Invalid action: {action.why}.", world
    if action.verb == "finish":
        return "The question is answered.", {**world, "answer": action.argument}
    observation, after = (_search if action.verb == "search" else _look_up)(library, world, action.argument)
    return _short(observation), after


def _search(library: Library, world: World, name: str) -> tuple[str, World]:
    """Open a page and show its first sentences; where there is none, or several, the open one stays open."""
    page = library.page(name)
    if page is None or page.options:
        similar = list(page.options if page else library.similar(name, SIMILAR))[:SIMILAR]
        return f"Could not find {name}." + (f" Similar: {similar}." if similar else ""), world
    opened: World = {**opening(), "title": page.title, "sentences": list(page.sentences)}
    return " ".join(page.sentences[:SHOWN]) or f"The page {page.title} is empty.", opened


def _look_up(library: Library, world: World, word: str) -> tuple[str, World]:
    """The next sentence that holds the word; another word begins at the beginning of the page."""
    if world["title"] is None:
        return "No page is open: search for one first.", world
    hits = [sentence for sentence in world["sentences"] if word.casefold() in sentence.casefold()]
    again = word.casefold() == world["keyword"].casefold()
    at = world["found"] if again else 0
    if at >= len(hits):
        return "No more results.", {**world, "keyword": word, "found": at}
    return f"(Result {at + 1} / {len(hits)}) {hits[at]}", {**world, "keyword": word, "found": at + 1}


def _end(text: str) -> int | None:
    """Where the bracket closes that was opened before the text; the last one, where they are not balanced."""
    depth = 1
    for at, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if not depth:
            return at
    last = text.rfind("]")
    return None if last < 0 else last


def _bare(argument: str) -> str:
    """Return an argument without the quotes, asterisks and spaces around it."""
    said = " ".join(argument.split()).strip("*")
    quoted = QUOTED.fullmatch(said)
    return quoted[2].strip() if quoted else said


def _short(observation: str) -> str:
    return observation if len(observation) <= LONGEST else observation[: LONGEST - len(CUT)] + CUT
