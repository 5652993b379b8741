"""Shared storage of payloads for several servers: a LangChain `ByteStore`, or an address of fsspec (s3://, ...)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from sottovoce.core.errors import PayloadError, UsageError, first_line
from sottovoce.core.text import without_password


class Bytes(Protocol):
    """The part of a LangChain `ByteStore` that a payload store uses."""

    def mget(self, keys: Sequence[str], /) -> list[bytes | None]:
        """Return the bytes of each key, or None if there are none."""
        ...

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]], /) -> None:
        """Write bytes by key."""
        ...

    def yield_keys(self) -> Iterator[str]:
        """Yield all keys."""
        ...


class Remote:
    """Files at an address of fsspec, as a ByteStore."""

    def __init__(self, address: str) -> None:
        """Open the address; the package of its kind knows keys and regions.

        Raises:
            UsageError: the kind is unknown, or its package is not installed.
        """
        try:
            import fsspec

            self._files, self._root = fsspec.url_to_fs(address)
        except (ImportError, ValueError, OSError) as error:
            known = "install its package, or give a folder or a LangChain ByteStore"
            raise UsageError(
                f"payloads cannot be stored at {without_password(address)!r}: {first_line(error)}; {known}"
            ) from error

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bytes of each key, or None if there are none."""
        return [self._read(key) for key in keys]

    def _read(self, key: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(f"{self._root}/{key}"))
        except FileNotFoundError:
            return None

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        """Write bytes by key."""
        for key, value in key_value_pairs:
            path = f"{self._root}/{key}"
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, value)

    def yield_keys(self) -> Iterator[str]:
        """Yield all keys."""
        for path in self._files.find(self._root):
            yield path[len(self._root.rstrip("/")) + 1 :]


@contextmanager
def reached(place: str) -> Iterator[None]:
    """Turn any error of a backend into one line: their packages have no common class."""
    try:
        yield
    except Exception as error:
        raise PayloadError(
            f"payloads at {place} cannot be reached: {type(error).__name__}: {first_line(error)}"
        ) from error
