"""Prompts of agents: prompt files with named slots, and the parsers of answers.

This folder has two prompt packs: `bundled`, for the bundled model, which was trained on it, and `paper`, with
the papers' setups.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sottovoce.core.errors import UsageError, nearest

SHIPPED = Path(__file__).parent / "packs"
PAPER = "paper"


@dataclass(frozen=True)
class Training:
    """The training of a specialized model: see its model card."""

    pack: str
    """The prompt pack of its agents, unless the user sets another one."""
    knows: str
    """A description of its knowledge, which transcripts of the user's own questions print."""


TRAINED = {
    "bundled": Training(
        pack="bundled",
        knows="sums, differences and small products (about 7 in 10 right), and values that it is given",
    )
}
"""Trained models by name; any other model can take part in every scheme."""


NAMES = tuple(sorted({path.parent.parent.relative_to(SHIPPED).as_posix() for path in SHIPPED.glob("**/*.md")}))
"""Names of all bundled packs, such as `bundled` and `paper/madra`; read once, since servers list no folders."""
OFFERED = tuple(sorted({*NAMES, PAPER}))
"""The packs that a client may name: `paper`, and the bundled ones."""


def folder_of(pack: str, scheme: str, protocol: str) -> Path:
    """Return the folder of a bundled pack, by its name, or of the user's own, by its path.

    `paper` is the setup of the scheme's paper: `paper/SCHEME-PROTOCOL` if it exists, else `paper/SCHEME`.

    Raises:
        UsageError: `paper` has no setup for the scheme, the pack is another scheme's, or its name is misspelled.
    """
    if pack == PAPER:
        wanted = [f"{PAPER}/{scheme}-{protocol}", f"{PAPER}/{scheme}"]
        own = next((name for name in wanted if name in NAMES), None)
        if own is None:
            setups = ", ".join(name for name in NAMES if name.startswith(f"{PAPER}/"))
            raise UsageError(f"prompts is {PAPER!r}, and there is no setup for {scheme}; name one: {setups}")
        return SHIPPED / own
    if pack in NAMES:
        folder, has_prompts = SHIPPED / pack, (SHIPPED.parent / scheme).is_dir()
        if pack.startswith(f"{PAPER}/") and has_prompts and not (folder / scheme).is_dir():
            raise UsageError(f"prompts is {pack!r}, which has no prompt of {scheme}; expected 'paper', or a folder")
        return folder
    if not Path(pack).exists() and (pack.startswith(f"{PAPER}/") or "/" not in pack):
        raise UsageError(f"{nearest('prompt pack', pack, [PAPER, *NAMES])} (or give the folder of one of yours)")
    return Path(pack)
