"""Prompt packs that ship: `bundled`, which the bundled model was trained on, and `paper`, the papers' set-ups."""

from __future__ import annotations

from pathlib import Path

from sottovoce.errors import UsageError

SHIPPED = Path(__file__).parent
PAPER = "paper"
OF_MODELS = {"bundled": "bundled"}
"""The pack of agents with this model, unless the user names another one."""


def names() -> list[str]:
    """Return the names of all packs that ship, such as `bundled` and `paper/madra`."""
    folders = {path.parent.parent for path in SHIPPED.glob("**/*.md")}
    return sorted(folder.relative_to(SHIPPED).as_posix() for folder in folders)


def offered() -> list[str]:
    """Return what a client may name: `paper`, and the packs that ship."""
    return sorted({*names(), PAPER})


def folder_of(pack: str, scheme: str, protocol: str) -> Path:
    """Return the folder of a pack: one that ships, by its name, or the user's own, by its path.

    `paper` is the set-up of the paper that the scheme is from: `paper/SCHEME-PROTOCOL` where there is one, else
    `paper/SCHEME`.

    Raises:
        UsageError: `paper` has no set-up for the scheme.
    """
    known = names()
    if pack == PAPER:
        wanted = [f"{PAPER}/{scheme}-{protocol}", f"{PAPER}/{scheme}"]
        found = next((name for name in wanted if name in known), None)
        if found is None:
            there = ", ".join(name for name in known if name.startswith(f"{PAPER}/"))
            raise UsageError(f"prompts is {PAPER!r}, and there is no set-up for {scheme}; name one: {there}")
        return SHIPPED / found
    return SHIPPED / pack if pack in known else Path(pack)
