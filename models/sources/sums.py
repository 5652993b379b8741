"""The digests of a folder's weights, as `sha256sum` has them: checked when something is wrong, not at each start."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sottovoce.regular import opened, text_of

SUMS = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """Lay the digests of the weights of a folder beside them."""
    lines = (f"{_digest(file)}  {file.name}\n" for file in sorted(folder.glob("*.safetensors")))
    (folder / SUMS).write_text("".join(lines), encoding="ascii")


def changed(folder: Path) -> list[str] | None:
    """The files that are not what they were when their digests were taken, in order; None where none were taken."""
    try:
        lines = text_of(folder / SUMS).splitlines()
    except (OSError, ValueError):
        return None
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return [name for name, digest in sums.items() if not (folder / name).is_file() or _digest(folder / name) != digest]


def _digest(file: Path) -> str:
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
