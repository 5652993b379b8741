"""Options with a text for one agent: NAME=TEXT."""

from __future__ import annotations

import difflib
import re
import string

from sottovoce.core.errors import UsageError, choose
from sottovoce.graphs import shipped
from sottovoce.settings import Settings

NUMBERED = re.compile(r"[^\W\d]+_\d+")
"""The form of a numbered agent's name: agent_1."""
ALIKE = 0.8  # of difflib's ratio: agnet_1 is near agent_1, and relative is not near negative


def texts_by_agent(values: list[str], option: str) -> dict[str, str]:
    """Return one text per agent; the agents' names are checked with the question.

    Raises:
        UsageError: a text names no agent, or an agent got two.
    """
    texts: dict[str, str] = {}
    for value in values:
        name, _, text = value.partition("=")
        if not text.strip():
            raise UsageError(f"{option} is {value!r}; expected NAME=TEXT, e.g. agent_1=TEXT")
        if name in texts:
            raise UsageError(f"{option} was given twice for {name!r}; give each agent one")
        texts[name] = text
    return texts


def dealt_documents(documents: list[str], settings: Settings) -> list[str] | dict[str, list[str]]:
    """Return the documents as a list; if any is private, a list per agent, which includes the shared ones.

    Raises:
        UsageError: a document names something like an agent, but no agent has that name.
    """
    owned = [_owned(text, settings) for text in documents]
    names = dict.fromkeys([*settings.names(), *filter(None, (owner for owner, _ in owned))])
    if settings.owners() is None or not any(owner for owner, _ in owned):
        return [text for _, text in owned]
    return {name: [text for owner, text in owned if owner in ("", name)] for name in names}


def _owned(document: str, settings: Settings) -> tuple[str, str]:
    """Return a document's owner ("" for all agents) and text. Agents of other schemes are checked with the question.

    Raises:
        UsageError: the name looks like an agent's, but no scheme has such an agent.
    """
    name, sign, text = document.partition("=")
    agents = [*settings.names(), *(agent for each in shipped() for agent in each.settings().names())]
    if not sign or name[-1:].isspace():
        return "", document
    if _unnumbered(name) in map(_unnumbered, agents):
        return name, text
    if NUMBERED.fullmatch(name) or difflib.get_close_matches(name.lower(), agents, cutoff=ALIKE):
        unknown = choose("agent among the documents:", name, settings.names())
        raise UsageError(f"{unknown}; if the text itself begins so, put a space before the =")
    return "", document


def _unnumbered(name: str) -> str:
    return name.rstrip(string.digits)
