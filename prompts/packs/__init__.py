"""Prompt packs that ship: `bundled`, which the bundled model was trained on, and `paper`, the papers' set-ups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import UsageError, nearest

SHIPPED = Path(__file__).parent
PAPER = "paper"


@dataclass(frozen=True)
class Training:
    """The training of a model that knows little else: see its card."""

    pack: str
    """The prompt pack of its agents, unless the user names another one."""
    schemes: tuple[str, ...]
    """The schemes whose roles and forms it was taught."""
    knows: str
    """Its knowledge, as transcripts of questions of the user's own print it."""


TRAINED = {
    "bundled": Training(
        pack="bundled",
        schemes=("debate", "mad", "reconcile", "cmd", "single", "self_consistency"),
        knows="sums, differences and small products (about 7 in 10 right), and values that it is given",
    )
}
"""By model; any other model takes part in every scheme."""


NAMES = tuple(sorted({path.parent.parent.relative_to(SHIPPED).as_posix() for path in SHIPPED.glob("**/*.md")}))
"""Names of all packs that ship, such as `bundled` and `paper/madra`; read once, as a server lists no folder."""
OFFERED = tuple(sorted({*NAMES, PAPER}))
"""The packs that a client may name: `paper`, and those that ship."""


def folder_of(pack: str, scheme: str, protocol: str) -> Path:
    """Return the folder of a pack: one that ships, by its name, or the user's own, by its path.

    `paper` is the set-up of the paper that the scheme is from: `paper/SCHEME-PROTOCOL` where there is one, else
    `paper/SCHEME`.

    Raises:
        UsageError: `paper` has no set-up for the scheme, the pack is another scheme's, or its name is misspelt.
    """
    if pack == PAPER:
        wanted = [f"{PAPER}/{scheme}-{protocol}", f"{PAPER}/{scheme}"]
        found = next((name for name in wanted if name in NAMES), None)
        if found is None:
            there = ", ".join(name for name in NAMES if name.startswith(f"{PAPER}/"))
            raise UsageError(f"prompts is {PAPER!r}, and there is no set-up for {scheme}; name one: {there}")
        return SHIPPED / found
    if pack in NAMES:
        return _worded(pack, scheme)
    if not Path(pack).exists() and (pack.startswith(f"{PAPER}/") or "/" not in pack):
        raise UsageError(f"{nearest('prompt pack', pack, [PAPER, *NAMES])}; or give the folder of one of yours")
    return Path(pack)


def _worded(pack: str, scheme: str) -> Path:
    """Return the folder of a pack that ships, which must word the scheme's own prompts where it words a scheme's."""
    folder = SHIPPED / pack
    if pack.startswith(f"{PAPER}/") and (SHIPPED.parent / scheme).is_dir() and not (folder / scheme).is_dir():
        raise UsageError(f"prompts is {pack!r}, which has no prompt of {scheme}; expected 'paper', or a folder")
    return folder
