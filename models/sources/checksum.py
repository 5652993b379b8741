"""The digests of a folder's weights in the format of `sha256sum`: checked for a diagnosis, not at each start."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sottovoce.core.files import opened, text_of

SUMS = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """Write the digests of a folder's weights next to them."""
    lines = (f"{_digest(file)}  {file.name}\n" for file in sorted(folder.glob("*.safetensors")))
    (folder / SUMS).write_text("".join(lines), encoding="ascii")


def changed(folder: Path) -> list[str] | None:
    """Return the files that do not match their recorded digests, in order; None if none were recorded."""
    try:
        lines = text_of(folder / SUMS).splitlines()
    except (OSError, ValueError):
        return None
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return [name for name, digest in sums.items() if not (folder / name).is_file() or _digest(folder / name) != digest]


def _digest(file: Path) -> str:
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
