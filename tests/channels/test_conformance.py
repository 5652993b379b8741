"""Our protocols keep every promise of `ProtocolTests`, and so does the one that docs/howto/protocol.md shows."""

from __future__ import annotations

import importlib.util
import re
import unittest
from collections.abc import Collection
from pathlib import Path

import pytest

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.conformance import ProtocolTests
from sottovoce.channels.conformance_steps import DIFFERENCES, Difference
from sottovoce.channels.nl import NL
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import SDE, Hidden

ROOT = Path(__file__).resolve().parents[2]
OURS: dict[str, tuple[Protocol, Collection[Difference]]] = {
    "words": (NL(), ()),
    "means": (Cipher(), DIFFERENCES[2:]),
    "means, over a bridge too": (Cipher(bridge=True), ()),
    "some means, as published": (Cipher(compat="reference", partial="entropy", threshold=0.01), DIFFERENCES[2:]),
    "deltas of two layers, as published": (
        SDE(compat="reference", layers=(0, 5), inject="all", allow_other_weights=True),
        DIFFERENCES[1:],
    ),
    "states": (Hidden(), DIFFERENCES),
    "deltas in fewer bytes": (SDE(carry_as="int8", keep=0.5, rank=2), DIFFERENCES),
}


class TestOurs(ProtocolTests):
    protocol: Protocol = NL()

    @pytest.fixture(autouse=True, params=OURS.values(), ids=list(OURS))
    def given(self, request: pytest.FixtureRequest) -> None:
        self.protocol, self.refuses = request.param


def ran(suite: type[ProtocolTests]) -> unittest.TestResult:
    """A suite run without pytest."""
    case = type("Case", (suite, unittest.TestCase), {})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_the_protocol_that_the_page_shows_passes(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "howto" / "protocol.md").read_text(), re.DOTALL)
    (example,) = [each for each in examples if "ProtocolTests" in each]
    (tmp_path / "test_louder.py").write_text(example)
    spec = importlib.util.spec_from_file_location("test_louder", tmp_path / "test_louder.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    result = ran(module.TestLouder)

    assert result.wasSuccessful() and result.testsRun > 12
    assert result.skipped == []


def test_the_suite_needs_nothing_of_the_test_extra() -> None:
    source = "".join((ROOT / "channels" / name).read_text() for name in ("conformance.py", "conformance_steps.py"))

    assert not re.search(r"^ *(import|from) (pytest|hypothesis)", source, re.MULTILINE)


def test_a_suite_without_a_protocol_says_what_to_write() -> None:
    with pytest.raises(NotImplementedError, match=r"ProtocolTests sets no protocol; write `protocol = "):
        ProtocolTests().test_the_protocol_is_made_by_its_name_and_options()


def test_what_does_not_apply_is_skipped_with_its_reason() -> None:
    class Words(ProtocolTests):
        protocol = NL(compat="reference")
        retokenises = True

    result = ran(Words)

    assert result.wasSuccessful()
    assert {reason for _, reason in result.skipped} == {
        "the protocol tokenizes a message together with the words around it",
        "the protocol reads texts alone, no payload",
    }
