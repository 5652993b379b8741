"""Regular files, JSON and YAML files, output paths, and the user's folder of stored models.

A path from outside may be a pipe, an endless device or a folder: the readers refuse these at once. Nothing is written
into a folder that a command made, nor over an existing file without `--force`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RecordError, UsageError

Built = TypeVar("Built")
RUN, EXPERIMENT, INDEX = "log.jsonl", "experiment.yaml", "manifest.json"
OWNERS = {RUN: "a run", EXPERIMENT: "an experiment", INDEX: "an index"}
"""Folders that commands make, by the file that identifies each."""
INDEXED = b'"retriever"'
"""A key in the manifest of an index; other programs also write files of that name."""
STREAM = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/self/fd/\d+")
"""Open files of this process, which may be regular files. Other paths below these folders may lead anywhere."""
BOOL, MERGE, NULL, TEXT = (f"tag:yaml.org,2002:{name}" for name in ("bool", "merge", "null", "str"))
"""The tag of the key << of YAML, which may be repeated."""
LARGEST_YAML = 1_000_000
"""Characters and items of a settings or experiment file; ours have about ten thousand."""
FORCE = "Overwrite an existing file; files in the folder of a run, an experiment or an index stay."
FORCE_VERDICTS = f"{FORCE} Give verdicts on runs that lost more than a tenth of their discussions, too."


def opened(path: str | Path) -> BufferedReader:
    """Open a regular file for reading bytes. Refuse anything else at once, without reading or waiting.

    Raises:
        OSError: the file does not exist, cannot be read, or is not a regular file.
    """
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode) or os.path.samestat(os.fstat(number), os.stat(os.devnull)):  # allow an empty file
        return os.fdopen(number, "rb")
    os.close(number)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is a pipe, a socket or a device; give a regular file", str(path))


def bytes_of(path: str | Path) -> bytes:
    """Return the bytes of a regular file. Errors: see `opened`."""
    with opened(path) as file:
        try:
            return file.read()
        except (MemoryError, OverflowError) as error:  # e.g. a file of which only the size is large
            raise OSError(errno.ENOMEM, "it does not fit in memory", str(path)) from error


def text_of(path: str | Path) -> str:
    """Return the text of a regular file with newlines as `Path.read_text` translates them. Errors: see `opened`."""
    return bytes_of(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_json_file(path: str | Path, subject: str, build: Callable[[JSONValue], Built]) -> Built:
    """Return the value that `build` makes from the content of a JSON file, e.g. a "game file".

    Raises:
        UsageError: the file cannot be read or is not JSON, or `build` refuses its content; the message names the file.
    """
    name = f"{subject} {str(path)!r}"
    try:
        content = json.loads(text_of(path))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}; expected a JSON file") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error
    try:
        return build(content)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def nbytes_of(folder: Path) -> int:
    """Return the bytes of a folder's files on disk; links are not followed."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # a process may remove it at this moment
            total += file.lstat().st_size if stat.S_ISREG(file.lstat().st_mode) else 0
    return total


def leads_out(path: Path, folder: Path) -> bool:
    """Return True if a link leads from a path in a folder, which somebody else may have made, to a place outside it."""
    return not path.resolve().is_relative_to(folder.resolve())


def models_folder() -> Path:
    """Return the folder of stored models: `$SOTTOVOCE_MODELS`, or `sottovoce/models` in the user's cache folder."""
    if chosen := os.environ.get("SOTTOVOCE_MODELS"):
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sottovoce" / "models"


class OutputFile:
    """An output file that an option names; its path is checked before any work, and the file is written whole."""

    def __init__(self, path: Path, option: str, *, force: bool = False, endings: Sequence[str] = ()) -> None:
        """Check the path; its suffix must be empty or one of `endings`.

        Raises:
            UsageError: it is a folder, is inside a folder that a command made, exists without `force`, or is read-only.
        """
        self.path, self._option, self._force = path, option, force
        self._check()
        if endings and path.suffix.lower() not in ("", *endings):
            raise UsageError(f"{option} {str(path)!r} ends in {path.suffix!r}; expected {' or '.join(endings)}")

    def write(self, text: str | bytes) -> None:
        """Check the path again and write the complete file, or nothing. If the path is a link, write its target.

        Errors: see `write` and the constructor.
        """
        self._check()
        write(self.path if _is_stream(self.path) else self.path.resolve(), text)

    def _check(self) -> None:
        path, where = self.path, f"{self._option} {str(self.path)!r}"
        target = _resolved(path, where)
        if target.is_dir():
            raise UsageError(f"{where} is a folder; give a file")
        _check_outside(target.parent, where)
        if _is_stream(path):
            return
        if not target.parent.is_dir():
            raise UsageError(f"{where} cannot be written: {str(path.parent)!r} is not a folder")
        if target.exists() and not target.is_file():
            raise UsageError(f"{where} is a device or a socket; give a file")
        if target.exists() and not self._force:
            raise UsageError(f"{where} exists already; choose another file, or write over it with `force=True`")
        if not os.access(target if target.exists() else target.parent, os.W_OK):
            raise UsageError(f"{where} cannot be written: no permission")


def check_folder(folder: Path, option: str, own: str) -> None:
    """Refuse a folder that cannot be made or that another command made. Errors: see `check_owner`."""
    where, target = check_owner(folder, option, own)
    if target.is_file():
        raise UsageError(f"{where} is a file; give a folder")
    above = next(path for path in (target, *target.parents) if path.exists())
    if not above.is_dir():
        raise UsageError(f"{where} cannot be made: {str(above)!r} is not a folder")
    if not os.access(above, os.W_OK):
        raise UsageError(f"{where} cannot be written: no permission")


def check_owner(folder: Path, option: str, own: str = "") -> tuple[str, Path]:
    """Refuse a folder that another command made, or one inside it; `own` is the file of folders that may be reused.

    Returns the option with its value, as errors name it, and the resolved folder.

    Raises:
        UsageError: the folder belongs to another command.
    """
    where = f"{option} {str(folder)!r}"
    target = _resolved(folder, where)
    for name in _owned(target):
        if name != own:
            raise UsageError(f"{where} is the folder of {OWNERS[name]}; choose another folder")
    _check_outside(target.parent, where)
    return where, target


def write(path: Path, text: str | bytes) -> None:
    """Write a complete file, or nothing; a link is replaced, since somebody else may have put it into the folder.

    Raises:
        RecordError: the file system refused, e.g. because it is full.
    """
    try:
        data = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
        if _is_stream(path):
            with path.open("ab") as stream:
                stream.write(data)
            return
        unfinished = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise RecordError(f"{str(path)!r} cannot be written: {error.strerror}") from error


def missing(*paths: Path) -> list[Path]:
    """Return the paths and the folders above them that do not exist yet and would be created with them."""
    return [each for path in paths for each in (path, *path.parents) if not each.exists()]


def remove_made(paths: Sequence[Path]) -> None:
    """Remove files and empty folders that a refused command made; ignore those that cannot be removed."""
    for path in paths:
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def check_no_link(*paths: Path) -> None:
    """Raise a RecordError for the first link: in somebody else's folder it may lead to any file."""
    for path in paths:
        if path.is_symlink():
            raise RecordError(f"{str(path)!r} is a link, and nothing is written through it; replace it with a copy")


def _resolved(path: Path, where: str) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a zero byte
        raise UsageError(f"{where} cannot be written: it is not a valid path ({error})") from error


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or STREAM.fullmatch(str(path)) is not None


def _check_outside(folder: Path, where: str) -> None:
    for parent in (folder, *folder.parents):
        for name in _owned(parent):
            raise UsageError(f"{where} is in the folder of {OWNERS[name]}, {str(parent)!r}; give a path outside it")


def _owned(folder: Path) -> Iterator[str]:
    for name in OWNERS:
        with suppress(OSError):
            if name != INDEX:
                is_owner = (folder / name).exists()
            else:
                with opened(folder / name) as file:
                    is_owner = INDEXED in file.read(4096)
            if is_owner:
                yield name


def read_yaml(path: Path, subject: str, example: str, names: tuple[str, ...] = ()) -> dict[JSONValue, JSONValue]:
    """Return the mapping in a YAML file; keys, and values under the keys `names`, stay as written: 01, 1.0.

    Raises:
        UsageError: the file cannot be read, is not YAML, has a key twice, is not a mapping, or becomes too large.
    """
    import yaml  # late: `--help` does not need it

    try:
        loader = _safe_loader(names)(text_of(path))
        if _is_larger(root := loader.get_single_node()):
            most = f"{LARGEST_YAML:,} characters with its aliases"
            raise UsageError(f"{subject} {str(path)!r} becomes larger than {most}; expected lines like {example!r}")
        read = root and loader.construct_document(root)
    except OSError as error:
        raise UsageError(f"{subject} {str(path)!r} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"{subject} {str(path)!r} is nested too deeply; expected lines like {example!r}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{subject} {str(path)!r} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(read, dict):
        raise UsageError(f"{subject} {str(path)!r} contains {type(read).__name__}; expected lines like {example!r}")
    return read


def _is_larger(root: Any) -> bool:  # Any: a node of yaml, or None
    """Return whether a document becomes larger than LARGEST_YAML. An alias counts with its expanded size."""
    left, nodes = LARGEST_YAML, [root] if root else []
    while nodes and left >= 0:
        value = nodes.pop().value
        left -= 1 + len(value)
        if not isinstance(value, str):
            nodes += [node for item in value for node in (item if isinstance(item, tuple) else (item,))]
    return left < 0


@cache
def _safe_loader(names: tuple[str, ...]) -> JSONValue:
    """Return yaml's safe loader, changed to keep names and to refuse a repeated key (yaml would use the last)."""
    import yaml

    class Once(yaml.SafeLoader):
        def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
            tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]  # yaml has no types
            is_word = tag == BOOL and value.lower() not in ("true", "false")  # YAML 1.2 has no other booleans
            return TEXT if is_word else tag

        def compose_mapping_node(self, anchor: Any) -> Any:
            node, seen = super().compose_mapping_node(anchor), set[str]()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                    if key.value in seen:
                        said = f"the key {key.value!r} occurs twice"
                        raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
                    seen.add(key.value)
                    listed = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    for name in (key, *(listed if key.value in names else ())):
                        if isinstance(name, yaml.ScalarNode) and (name is key or name.tag != NULL):
                            name.tag = TEXT
            return node

    return Once
