"""The world of ReAct (arXiv 2210.03629): search for a page, look up words on it, finish with an answer.

Pure rules after the authors' wikienv.py: an action and a state give an observation and the next state, which is plain
JSON. A text without an action is a `Malformed`, and uses up the step. The authors' action `think[...]` does not exist
here: each step starts with its thought. A library finds pages by name, in sentences.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, Protocol

from typing_extensions import TypedDict

from sottovoce.core.text import folded
from sottovoce.prompts.own import is_own

HEADING = re.compile(r"=+.*=+")


def paragraphs(text: str) -> str:
    r"""Return the paragraphs and list items of an article: lines with more than two words that are not headings.

    >>> paragraphs("It has a mill.\n\n== Later years ==\nSee also:\nThe mill burnt.")
    'It has a mill.\nThe mill burnt.'
    """
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if len(line.split()) > 2 and not HEADING.fullmatch(line))


SHOWN = 5
"""Number of sentences that a search shows; the others must be looked up."""


class Page(NamedTuple):
    """A page that a search opens."""

    title: str
    sentences: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Titles that an ambiguous name may refer to; such a page is not opened."""


class Library(Protocol):
    """A collection of pages that agents search."""

    def page(self, name: str) -> Page | None:
        """Return the page with this name, or None."""

    def similar(self, name: str, n: int) -> list[str]:
        """Return up to n titles similar to a name, nearest first."""


class Pages:
    """Pages by title and alias, ignoring case, accents, quotes and spacing."""

    def __init__(self, pages: Iterable[Page], aliases: Mapping[str, str] | None = None) -> None:
        """Index pages by title, the first page of each; `aliases` maps other names to titles."""
        self._pages: dict[str, Page] = {}
        for page in pages:
            self._pages.setdefault(key(page.title), page)
        self._titles = [page.title for page in self._pages.values()]
        self._aliases = {key(name): key(title) for name, title in (aliases or {}).items()}

    def page(self, name: str) -> Page | None:
        """Return the page with this title, else with this alias, else None."""
        wanted = key(name)
        return self._pages.get(wanted) or self._pages.get(self._aliases.get(wanted, wanted))

    def similar(self, name: str, n: int) -> list[str]:
        """Return the n nearest titles, by shared words, then by spelling."""
        wanted, words = key(name), {*key(name).split()}

        def nearness(title: str) -> tuple[int, float]:
            other_key = key(title)
            return -len(words & {*other_key.split()}), -SequenceMatcher(None, wanted, other_key).ratio()

        return sorted(self._titles, key=nearness)[:n]


def key(name: str) -> str:
    """Return a name's key for comparison: lowercase letters and digits without accents, + and #, other signs as spaces.

    >>> key("  The “Sève-le-Bas”"), key("C++")
    ('the seve le bas', 'c++')
    """
    signs = folded(name)
    letters = "".join(sign if sign.isalnum() or unicodedata.combining(sign) or sign in "+#" else " " for sign in signs)
    return " ".join(letters.split())


Verb = Literal["search", "lookup", "finish"]
SIMILAR = 5  # titles that are listed if a page is not found
LONGEST = 1500
"""Most characters of an observation; a page may be one long sentence."""
CUT = " ..."
BEGINS = re.compile(r"\b(search|look[ _-]?up|finish)\s*\[", re.IGNORECASE)
QUOTED = re.compile(r"([\"'`\u201c\u2018])(.*)([\"'`\u201d\u2019])")


@dataclass(frozen=True)
class Action:
    """An action of an agent."""

    verb: Verb
    argument: str
    """Empty only if it finishes without an answer."""

    def __str__(self) -> str:
        return f"{self.verb.capitalize()}[{self.argument}]"


@dataclass(frozen=True)
class Malformed:
    """A text without an action."""

    why: str
    """Reason in a few words, with what was expected."""


class World(TypedDict):
    """The state of the world, which all agents share."""

    title: str | None
    """Title of the open page."""
    sentences: list[str]
    """Text of the open page."""
    keyword: str
    """The word looked up last."""
    found: int
    """Number of its hits shown so far."""
    answer: str | None
    """The final answer; empty if an agent finished without one, None before."""


def first_state() -> World:
    """Return the state before the first step."""
    return {"title": None, "sentences": [], "keyword": "", "found": 0, "answer": None}


def parse(text: str) -> Action | Malformed:
    """Return the first action that a text states, in any case and with any text around it; brackets may be nested.

    >>> parse("Action 2: search[Orla (river)] and then Lookup[mouth]")
    Action(verb='search', argument='Orla (river)')
    >>> parse("Search[Orla").why
    "'Search[' has no end; expected a closing bracket, as in Search[a title]"
    """
    match = next((each for each in BEGINS.finditer(text) if is_own(text, each.start())), None)
    if match is None:
        return Malformed("no action; expected Search[a title], Lookup[a word] or Finish[an answer]")
    verb: Verb = re.sub(r"\W|_", "", match[1].lower())  # type: ignore[assignment]  # a Verb, by the pattern
    name, rest = verb.capitalize(), text[match.end() :].partition("\n")[0]
    end = _end(rest)
    if end is None:
        example = {"search": "a title", "lookup": "a word", "finish": "an answer"}[verb]
        return Malformed(f"'{name}[' has no end; expected a closing bracket, as in {name}[{example}]")
    if re.match(r"\W{0,9}or\s", rest[end:]):
        return Malformed("two actions; expected one, as in Search[a title]")
    argument = " ".join(rest[:end].split()).strip("*")
    if quoted := QUOTED.fullmatch(argument):
        argument = quoted[2].strip()
    if not argument and verb != "finish":
        return Malformed(f"{name}[] names nothing; expected words between the brackets")
    return Action(verb, argument)


def step(library: Library, world: World, action: Action | Malformed) -> tuple[str, World]:
    """Return the observation of an action and the next state, which no longer changes after Finish."""
    if world["answer"] is not None:
        return "The question is answered.", world
    if isinstance(action, Malformed):
        return f"Invalid action: {action.why}.", world
    if action.verb == "finish":
        return "The question is answered.", {**world, "answer": action.argument}
    observation, after = (_search if action.verb == "search" else _look_up)(library, world, action.argument)
    return observation if len(observation) <= LONGEST else observation[: LONGEST - len(CUT)] + CUT, after


def _search(library: Library, world: World, name: str) -> tuple[str, World]:
    """Open a page and show its first sentences; if the name finds none or is ambiguous, keep the open page."""
    page = library.page(name)
    if page is None or page.options:
        similar = list(page.options if page else library.similar(name, SIMILAR))[:SIMILAR]
        return f"Could not find {name}." + (f" Similar: {similar}." if similar else ""), world
    opened: World = {**first_state(), "title": page.title, "sentences": list(page.sentences)}
    return " ".join(page.sentences[:SHOWN]) or f"The page {page.title} is empty.", opened


def _look_up(library: Library, world: World, word: str) -> tuple[str, World]:
    """Show the next sentence with the word; a different word starts from the top of the page."""
    if world["title"] is None:
        return "No page is open: search for one first.", world
    hits = [sentence for sentence in world["sentences"] if folded(word) in folded(sentence)]
    again = folded(word) == folded(world["keyword"])
    at = world["found"] if again else 0
    if at >= len(hits):
        return "No more results.", {**world, "keyword": word, "found": at}
    return f"(Result {at + 1} / {len(hits)}) {hits[at]}", {**world, "keyword": word, "found": at + 1}


def _end(text: str) -> int | None:
    """Return the place of the bracket that closes one opened before the text; the last one if they are not balanced."""
    depth = 1
    for at, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if not depth:
            return at
    last = text.rfind("]")
    return None if last < 0 else last
