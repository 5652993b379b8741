from __future__ import annotations

import copy
import gc
import hashlib
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from langchain_core.stores import InMemoryByteStore

from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.store import PayloadStore, default_root
from sottovoce.core.errors import PayloadError, UsageError
from tests.support import noise


def payload(text: str = "22", n: int = 3) -> Payload:
    return Payload(
        Label("nl", text, "tiny", "w", "v"),
        {"ids": torch.arange(n), "spans": torch.zeros(n, 2, dtype=torch.long), "logprob": noise(n)},
    )


def files(store: PayloadStore) -> list[Path]:
    return sorted(path for path in store.root.rglob("*") if path.is_file())


def damage(store: PayloadStore) -> None:
    (file,) = files(store)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def test_a_payload_lies_under_the_digest_of_its_file(store: PayloadStore) -> None:
    ref = store.put(payload())
    (file,) = files(store)

    assert hashlib.sha256(file.read_bytes()).hexdigest() == ref.sha256
    assert file == store.root / ref.sha256[:2] / f"{ref.sha256}.safetensors"
    assert ref.nbytes == file.stat().st_size


def test_a_payload_that_is_not_there_is_none(store: PayloadStore) -> None:
    assert store.get("0" * 64) is None
    assert not store.root.exists()  # asking makes no folder


def test_what_was_used_lately_is_handed_over_without_a_copy(tmp_path: Path) -> None:
    size = len(payload().to_bytes())
    store = PayloadStore(tmp_path, cache_bytes=2 * size)
    spoken = [payload(str(n)) for n in (10, 11, 12)]  # of one size

    refs = [store.put(each) for each in spoken[:2]]
    assert store.get(refs[0].sha256) is spoken[0]  # so the second is the one used longest ago
    refs.append(store.put(spoken[2]))

    assert store.get(refs[1].sha256) is not spoken[1]  # read again from its file, which makes it the latest
    assert store.get(refs[2].sha256) is spoken[2]
    assert store.get(refs[0].sha256) is not spoken[0]


@pytest.mark.parametrize(
    "spoil", [damage, lambda store: files(store)[0].write_bytes(files(store)[0].read_bytes()[:90])]
)
def test_a_damaged_file_is_refused_by_its_digest(store: PayloadStore, spoil: Callable[[PayloadStore], object]) -> None:
    ref = store.put(payload())
    spoil(store)

    told = rf"payload {ref.sha256} is damaged: the digest of the file of \d+ bytes .* delete it"
    with pytest.raises(PayloadError, match=told):
        PayloadStore(store.root).get(ref.sha256)


def test_bytes_under_a_wrong_digest_are_not_written(store: PayloadStore) -> None:
    with pytest.raises(PayloadError, match="is damaged: the digest of the bytes to be written differs"):
        store.write("0" * 64, b"other")
    assert files(store) == []


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow beyond 64 KiB: a write stops half-way with OSError, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_interrupted_write_leaves_no_file_and_can_be_done_again(store: PayloadStore) -> None:
    large = payload(n=2**16)
    with full_disk(), pytest.raises(PayloadError, match="cannot be written"):
        store.put(large)

    assert files(store) == []
    ref = store.put(large)
    assert PayloadStore(store.root).get(ref.sha256) is not None


def test_many_threads_may_put_and_get_the_same_payload(store: PayloadStore) -> None:
    def round_trip(n: int) -> str:
        ref = store.put(payload(str(n % 3)))
        found = PayloadStore(store.root).get(ref.sha256)
        assert found is not None
        return found.label.text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(round_trip, range(60))) == [str(n % 3) for n in range(60)]
    assert len(files(store)) == 3


# From a reference alone


def test_the_environment_leads_a_message_to_its_payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PayloadStore(tmp_path / "saved")
    ref = store.put(payload())
    del store
    gc.collect()  # so that no open store knows the folder

    with pytest.raises(PayloadError, match=rf"payload {ref.sha256} \(nl, 3 tokens\) is missing; .*SOTTOVOCE_STORE"):
        ref.load()
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path / "saved"))
    assert torch.equal(ref.load().tensors["logprob"], payload().tensors["logprob"])


def test_the_default_folder_is_the_environments_or_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.delenv("SOTTOVOCE_STORE", raising=False)
    assert default_root() == Path("/cache/sottovoce/payloads")

    monkeypatch.setenv("SOTTOVOCE_STORE", "/chosen")
    assert default_root() == PayloadStore().root == Path("/chosen")


def test_a_whole_copy_in_another_store_serves_where_one_is_cut(tmp_path: Path) -> None:
    first, second = PayloadStore(tmp_path / "first", cache_bytes=0), PayloadStore(tmp_path / "second", cache_bytes=0)
    ref = first.put(payload())
    second.put(payload())
    for store in (first, second):
        store.put(payload("33"))  # so that neither keeps the other one live
    cut = next(first.root.glob(f"*/{ref.sha256}*"))
    cut.write_bytes(cut.read_bytes()[:40])

    assert ref.load().label.text == "22"


def test_putting_a_payload_again_mends_its_cut_file(store: PayloadStore) -> None:
    ref = store.put(payload())
    (cut,) = store.root.glob(f"*/{ref.sha256}*")
    cut.write_bytes(cut.read_bytes()[:40])

    assert store.put(payload()) == ref
    assert PayloadStore(store.root).get(ref.sha256) is not None


# Places that several servers share


def address(name: str) -> str:
    return f"memory://{name}/payloads"  # of fsspec, in this process


@pytest.mark.parametrize("kind", ["address", "ByteStore"])
def test_payloads_lie_in_any_byte_store_and_at_any_address_of_fsspec(kind: str, tmp_path: Path) -> None:
    place = address(tmp_path.name) if kind == "address" else InMemoryByteStore()
    first, second = (PayloadStore(place, cache_bytes=0) for _ in range(2))
    ref = first.put(payload())
    assert first.put(payload()) == ref and first.keys() == second.keys() == [ref.sha256]
    assert torch.equal(ref.load(second).tensors["logprob"], payload().tensors["logprob"])
    assert second.get("0" * 64) is None and copy.copy(second).place == second.place
    with pytest.raises(UsageError, match=r"payloads are stored in .*; expected a folder"):
        _ = second.root


def test_a_damaged_payload_of_a_shared_place_is_told(tmp_path: Path) -> None:
    shared = InMemoryByteStore()
    ref = PayloadStore(shared, cache_bytes=0).put(payload())
    shared.mset([(f"{ref.sha256[:2]}/{ref.sha256}.safetensors", b"cut")])
    with pytest.raises(PayloadError, match="is damaged"):
        PayloadStore(shared, cache_bytes=0).get(ref.sha256)


@pytest.mark.parametrize("given", ["nosuch://ada:secret@bucket/payloads", Path("nosuch://bucket/payloads")])
def test_an_address_that_nothing_can_open_is_refused_and_never_a_folder(
    given: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a folder named `s3:`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_STORE", str(given).replace(":/b", "://b"))
    for opened in (lambda: PayloadStore(given), PayloadStore):
        with pytest.raises(
            UsageError, match=r"payloads cannot be stored at 'nosuch://bucket/payloads'.*; install its"
        ) as refused:
            opened()  # type: ignore[no-untyped-call]
        assert "\n" not in str(refused.value)
    assert not [*tmp_path.iterdir()]
