"""The payload store: content-addressed files `ab/abcd....safetensors`, and a cache of recent ones in memory.

A `PayloadRef` refers to a payload from checkpoints, JSON and other processes.

Only bytes with the digest of their address are written or returned. Files are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from sottovoce.channels.backends import Bytes, Remote, reached
from sottovoce.channels.payload import Payload, Span, entropies
from sottovoce.core.any_types import JSON, JSONValue
from sottovoce.core.errors import PayloadError, UsageError
from sottovoce.core.files import bytes_of
from sottovoce.core.text import amount, counted, without_password

SUFFIX = ".safetensors"
DIGEST = re.compile(r"[0-9a-f]{64}")
Digest = Annotated[str, Field(pattern=f"^{DIGEST.pattern}$")]
"""A sha256 in hex, which is checked where a message comes from outside."""
CACHE_BYTES = 256 * 2**20  # default size of the cache in memory
OnMissing = Literal["refuse", "words"]
Part = TypeVar("Part")
"""A payload, or a part of it."""


def text_digest(text: str) -> str:
    """Return the sha256 of a text, in hex; it shows whether a message was edited after it was spoken."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class PayloadRef:
    """The content address of a payload and a summary that needs no tensor."""

    protocol: str
    sha256: Digest
    text_sha256: Digest
    tokens: int
    nbytes: int
    hidden: int | None = None
    """Width of the carried rows or states, or None if there are none (nl)."""
    dtype: str | None = None
    layers: tuple[int, ...] = ()
    """0-based decoder layers of what is carried, ascending."""
    positions: int | None = None
    """Number of positions whose keys and values, or whose state, are carried, or None if these are the tokens."""
    origin: str = ""
    """What they belong to: "the prompt"."""
    summary: str = field(init=False, compare=False)
    """A description for readers: "cipher: 57 rows × 128, float32, 74 kB". It is a field so that Studio shows it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", f"{self.protocol}: {self._shape()}, {amount(self.nbytes)}")

    @property
    def length(self) -> int:
        """Number of carried positions, or of tokens."""
        return self.tokens if self.positions is None else self.positions

    def _shape(self) -> str:
        if self.positions is not None:
            what = (
                "the state" if self.protocol == "graft" else f"keys and values of {counted(self.positions, 'position')}"
            )
            words = f"{counted(self.tokens, 'token')}, " if self.tokens else "no words, "
            layers = f"layer {self.layers[0]}" if len(self.layers) == 1 else counted(len(self.layers), "layer")
            return f"{words}{what} of {self.origin} × {layers} × {self.hidden}, {self.dtype}"
        shape = f"{self.tokens} {'row' if self.hidden and not self.layers else 'token'}{'s' * (self.tokens != 1)}"
        if self.layers:
            shape += f" × {len(self.layers)} layer{'s' * (len(self.layers) != 1)} ({', '.join(map(str, self.layers))})"
        return f"{shape} × {self.hidden}, {self.dtype}" if self.hidden else shape

    def load(self, store: PayloadStore | None = None) -> Payload:
        """Return the payload from `store`. If it is None, try every open store, then the default folder.

        Raises:
            PayloadError: the payload is missing or damaged, or is another message's.
        """
        payload = _find(self, [store] if store is not None else _known(), lambda store: store.get(self.sha256))
        label, found = payload.label, text_digest(payload.label.text)
        if (label.protocol, found, len(payload)) != (self.protocol, self.text_sha256, self.tokens):
            raise PayloadError(
                f"payload {self.sha256} is another message's: {len(payload)} tokens of {label.protocol}, or another "
                f"text; expected {self.protocol}, {self.tokens} tokens and the message's text; run again"
            )
        return payload

    def entropies(self) -> list[tuple[Span, float]]:
        """Return the character span and the entropy (nats) of each token, or [] if none was stored. Load no torch.

        Raises:
            PayloadError: the payload is missing or damaged.
        """
        return _find(self, _known(), lambda store: store.entropies(self.sha256))

    @classmethod
    def of(cls, payload: Payload, data: bytes) -> PayloadRef:
        """Return the reference of a payload; `data` is its file."""
        carried = payload.carried
        return cls(
            protocol=payload.label.protocol,
            sha256=hashlib.sha256(data).hexdigest(),
            text_sha256=text_digest(payload.label.text),
            tokens=len(payload),
            nbytes=len(data),
            hidden=None
            if carried is None
            else int(carried.shape[-1] * (carried.shape[1] if carried.dim() == 4 else 1)),
            dtype=payload.carried_dtype,
            layers=payload.label.layers,
            positions=payload.positions,
            origin=payload.label.origin,
        )

    def to_dict(self) -> JSON:
        """Return plain JSON."""
        plain = {**vars(self), "layers": list(self.layers)}
        unset = {"positions": None, "origin": ""}
        return {name: value for name, value in plain.items() if name not in unset or value != unset[name]}

    @classmethod
    def from_dict(cls, data: Mapping[str, JSONValue]) -> PayloadRef:
        """Build a reference from the JSON of `to_dict`; the summary is computed again."""
        values = {name: value for name, value in data.items() if name != "summary"}
        return cls(**{**values, "layers": tuple(data.get("layers", ()))})


_open: weakref.WeakSet[PayloadStore] = weakref.WeakSet()
_open_lock = threading.Lock()


class PayloadStore:
    """Payload files in one folder, which is created with the first file, or in a place that several servers share."""

    def __init__(
        self,
        root: Path | str | Bytes | None = None,
        *,
        cache_bytes: int = CACHE_BYTES,
        on_missing: OnMissing = "refuse",
    ) -> None:
        """Open a store; `root` None is `$SOTTOVOCE_STORE` or a user cache folder, `cache_bytes` limits the cache.

        Args:
            root: A folder, an address of fsspec such as `s3://bucket/payloads`, or a LangChain `ByteStore`.
            cache_bytes: The size of the cache in memory.
            on_missing: `refuse` raises an error for a message with a missing or damaged payload, `words` reads its
                words.

        Raises:
            UsageError: nothing installed can open the address.
        """
        self._origin = default_root() if root is None else root
        if isinstance(self._origin, Path):  # which folds the slashes of an address
            address = re.sub(r"^([a-z][a-z0-9+.-]+):/+", r"\1://", str(self._origin))
            self._origin = address if "://" in address else self._origin
        self._shared: Bytes | None = None
        if not isinstance(self._origin, str | Path):
            self._shared = self._origin
        elif "://" in str(self._origin):
            self._shared = Remote(str(self._origin))
        self.on_missing = on_missing
        self._payloads: OrderedDict[str, tuple[Payload, int]] = OrderedDict()
        self._cache_bytes, self._cached, self._lock = cache_bytes, 0, threading.Lock()
        with _open_lock:
            _open.add(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle or copy a store as its folder: files are named, not included."""
        return type(self), (self._origin,), {"_cache_bytes": self._cache_bytes, "on_missing": self.on_missing}

    @property
    def root(self) -> Path:
        """The folder.

        Raises:
            UsageError: the payloads are not stored in a folder.
        """
        if self._shared is not None:
            raise UsageError(f"payloads are stored in {self.place}; expected a folder")
        return Path(str(self._origin))

    @property
    def place(self) -> str:
        """A description of where payloads are stored."""
        origin = self._origin
        return without_password(str(origin)) if isinstance(origin, str | Path) else type(origin).__name__

    def put(self, payload: Payload) -> PayloadRef:
        """Write a payload and return its reference; equal payloads share one file."""
        data = payload.to_bytes()
        ref = PayloadRef.of(payload, data)
        whole = None
        with suppress(PayloadError):  # a truncated file is written again
            whole = self.read(ref.sha256)
        if whole is None:
            self.write(ref.sha256, data)
        else:
            with suppress(OSError, UsageError):  # read-only, or no folder
                os.utime(self._path(ref.sha256))  # so that `payloads gc` treats it as recent
        self._keep(ref.sha256, payload, len(data))
        return ref

    def get(self, sha256: str) -> Payload | None:
        """Return a payload from the cache or from its verified file, or None if there is no such file.

        Raises:
            PayloadError: the file is damaged.
        """
        with self._lock:
            if sha256 in self._payloads:
                self._payloads.move_to_end(sha256)
                return self._payloads[sha256][0]
        data = self.read(sha256)
        if data is None:
            return None
        payload = Payload.from_bytes(data)
        self._keep(sha256, payload, len(data))
        return payload

    def entropies(self, sha256: str) -> list[tuple[Span, float]] | None:
        """Return the span and entropy of each token of a payload, or None if it has no file. Errors: see `get`."""
        data = self.read(sha256)
        return None if data is None else entropies(data)

    def keys(self) -> list[str]:
        """Return the digests of all files, in order."""
        if self._shared is None:
            return [path.name.removesuffix(SUFFIX) for path in sorted(self.root.glob(f"*/*{SUFFIX}"))]
        with reached(self.place):
            found = [DIGEST.search(key) for key in self._shared.yield_keys() if key.endswith(SUFFIX)]
        return sorted(match[0] for match in found if match)

    def read(self, sha256: str) -> bytes | None:
        """Return the verified bytes of a file, or None if there is no such file.

        Raises:
            PayloadError: the file is damaged or cannot be read.
        """
        if self._shared is not None:
            with reached(self.place):
                (found,) = self._shared.mget([_key(sha256)])
            if found is not None:
                _verify(sha256, found, f"file of {len(found)} bytes")
            return found
        path = self._path(sha256)
        try:
            data = bytes_of(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PayloadError(f"payload {sha256} cannot be read: {error.strerror}, {str(path)!r}") from error
        _verify(sha256, data, f"file of {len(data)} bytes")
        return data

    def write(self, sha256: str, data: bytes) -> None:
        """Write a complete file, or nothing.

        Raises:
            PayloadError: the bytes do not match their digest, or the folder cannot be written to.
        """
        _verify(sha256, data, "bytes to be written")
        if self._shared is not None:
            with reached(self.place):
                self._shared.mset([(_key(sha256), data)])
            return
        path = self._path(sha256)
        unfinished = path.with_name(f"{uuid.uuid4().hex}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        except OSError as error:
            raise PayloadError(
                f"payloads cannot be written to {str(self.root)!r}: {error.strerror}; free some space there or "
                "fix its permissions, or set another folder (SOTTOVOCE_STORE)"
            ) from error
        finally:  # leave no partial file, also after Ctrl-C
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def _path(self, sha256: str) -> Path:
        return self.root / _key(sha256)

    def _keep(self, sha256: str, payload: Payload, size: int) -> None:
        with self._lock:
            if sha256 in self._payloads:
                return
            self._payloads[sha256] = (payload, size)
            self._cached += size
            while self._cached > self._cache_bytes and len(self._payloads) > 1:
                _, (_, freed) = self._payloads.popitem(last=False)
                self._cached -= freed


def _key(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}{SUFFIX}"


def default_root() -> Path | str:
    """Return the default folder: `$SOTTOVOCE_STORE`, or `sottovoce/payloads` in the user's cache folder."""
    chosen = os.environ.get("SOTTOVOCE_STORE")
    if chosen:
        return chosen if "://" in chosen else Path(chosen)  # a Path would fold the slashes
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sottovoce" / "payloads"


def _find(ref: PayloadRef, stores: Sequence[PayloadStore], read: Callable[[PayloadStore], Part | None]) -> Part:
    damaged: PayloadError | None = None
    for candidate in stores:
        try:
            part = read(candidate)
        except PayloadError as error:  # another store may have an intact copy
            damaged = error
            continue
        if part is not None:
            return part
    if damaged is not None:
        raise damaged
    where = ", ".join(sorted({candidate.place for candidate in stores}))
    raise PayloadError(
        f"payload {ref.sha256} ({ref.protocol}, {ref.tokens} tokens) is missing; searched {where}; "
        "set SOTTOVOCE_STORE to the folder it was saved in"
    )


def _known() -> list[PayloadStore]:
    with _open_lock:
        known = list(_open)
    return [*known, PayloadStore()]


def _verify(key: str, data: bytes, name: str) -> None:
    if hashlib.sha256(data).hexdigest() != key:
        raise PayloadError(f"payload {key} is damaged: the digest of the {name} differs; delete it and run again")
