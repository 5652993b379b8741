"""The folder of a bridge: what was written is read, and a damaged one is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from sottovoce.channels.bridge import read_bridge
from sottovoce.channels.bridge_files import LABEL, LONGEST, TENSORS, read_label, save_bridge
from sottovoce.core.errors import UsageError
from tests.bridges.support import deep, drawn, narrow, random_bridge


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A bridge of random numbers."""
    random_bridge(narrow(), deep(), tmp_path)
    return tmp_path


def test_a_bridge_is_read_as_it_was_written(tmp_path: Path) -> None:
    label, tensors = drawn(narrow(), deep())
    save_bridge(tmp_path, label, tensors)
    bridge = read_bridge(tmp_path)
    assert replace(bridge.label, digest="") == label
    assert bridge.label.nbytes == sum(tensor.nbytes for tensor in tensors.values())
    assert all(torch.equal(bridge.tensors[name], tensor) for name, tensor in tensors.items())


def test_labels_of_bridges_load_no_torch() -> None:
    code = "import sys, sottovoce.channels.bridge_files; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_discussions_at_the_same_time_share_one_copy(copy: Path) -> None:
    """Seen: 32 discussions each read their own copy, and memory ran out."""
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(read_bridge, [copy] * 32)]
    assert all(each is found[0] for each in found)


def test_equal_bridges_are_equal_bytes(tmp_path: Path) -> None:
    label, tensors = drawn(narrow(), deep())
    for name in ("one", "two"):
        save_bridge(tmp_path / name, label, tensors)
    one, two = ([(tmp_path / name / file).read_bytes() for file in (LABEL, TENSORS)] for name in ("one", "two"))
    assert one == two


def in_label(**change: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        label = json.loads((folder / LABEL).read_text())
        (folder / LABEL).write_text(json.dumps({**label, **change}))

    return damage


def in_file(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return damage


def in_header(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change the header of the tensors in its length, and let the label have the new digest."""

    def damage(folder: Path) -> None:
        data = (folder / TENSORS).read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.dumps(change(json.loads(data[8 : 8 + size])), separators=(",", ":")).encode().ljust(size)
        (folder / TENSORS).write_bytes(data[:8] + header[:size] + data[8 + size :])
        in_label(digest=hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest())(folder)

    return damage


def in_tensor(name: str, value: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        tensors = safetensors.torch.load_file(folder / TENSORS)
        tensors[name][0] = value
        save_bridge(folder, read_label(folder), tensors)

    return damage


def moved(header: Any) -> Any:
    header["bias"]["data_offsets"] = [0, 1]
    return header


def renamed(header: Any) -> Any:
    return {("baas" if name == "bias" else name): each for name, each in header.items()}


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no label": (lambda folder: (folder / LABEL).unlink(), "No such file"),
    "no tensors": (lambda folder: (folder / TENSORS).unlink(), "bridge.safetensors cannot be read: No such file"),
    "no JSON": (in_file(LABEL, lambda data: b"{" + data), "bridge.json"),
    "no text": (in_file(LABEL, lambda data: b"\xff\xfe"), "utf-8"),
    "a list": (in_file(LABEL, lambda data: b"[1]"), "bridge.json"),
    "a long label": (in_file(LABEL, lambda data: data + b" " * LONGEST), "more than 100,000 bytes"),
    "an unknown field": (in_label(extra=1), "extra"),
    "a field of another type": (in_label(head="8"), "head"),
    "an unknown field of a side": (in_label(sender={"run": "rm"}), "sender"),
    "another format": (in_label(format=1), "format 1; this version reads 2"),
    "another head": (in_label(head=9), "not of the size that its label says"),
    "another digest": (in_label(digest="0" * 64), "does not have the digest"),
    "a byte less": (in_file(TENSORS, lambda data: data[:-1]), "not of the size"),
    "a byte more": (in_file(TENSORS, lambda data: data + b"\0"), "not of the size"),
    "no size": (in_file(TENSORS, lambda data: data[:4]), "not of the size"),
    "another number": (in_file(TENSORS, lambda data: data[:-1] + b"\1"), "does not have the digest"),
    "a header that is no JSON": (in_file(TENSORS, lambda data: data[:8] + b"?" + data[9:]), "is damaged"),
    "a header that is a list": (in_header(lambda header: [1]), "is damaged"),
    "a header of numbers": (in_header(lambda header: dict.fromkeys(header, 1)), "is damaged"),
    "another name": (in_header(renamed), "has .*baas"),
    "tensors that overlap": (in_header(moved), "is damaged"),
    "a pickle": (in_file(TENSORS, lambda data: b"\x80\x02}q\x00."), "not of the size"),
    "NaN": (in_tensor("bias", torch.nan), "a number that is not finite"),
    "infinite": (in_tensor("head_keys", torch.inf), "a number that is not finite"),
    "a scale of zero": (in_tensor("scale", 0.0), "a scale that is not positive"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_bridge_is_refused_in_one_line(name: str, copy: Path) -> None:
    damage, complaint = DAMAGES[name]
    damage(copy)
    with pytest.raises(UsageError, match=complaint) as refusal:
        read_bridge(copy)
    assert "\n" not in str(refusal.value) and "bridge '" in str(refusal.value) and len(str(refusal.value)) < 1500


def test_a_file_that_is_larger_than_its_label_says_is_not_read(copy: Path) -> None:
    with (copy / TENSORS).open("ab") as file:
        file.truncate(1 << 40)  # a hole, which takes no room
    with pytest.raises(UsageError, match="not of the size that its label says"):
        read_bridge(copy)


def test_names_in_a_label_stay_on_one_line(copy: Path) -> None:
    """Seen: a line break and a terminal's codes in the name of a model."""
    label = json.loads((copy / LABEL).read_text())
    in_label(sender={**label["sender"], "name": "a\nb\x1b[31m"})(copy)
    assert "\n" not in read_label(copy).about and "\x1b" not in read_label(copy).about


def test_a_name_that_no_folder_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match="null"):
        read_label("a\0b")
