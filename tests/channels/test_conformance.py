"""Our protocols keep every promise of `ProtocolTests`, and so does the one that CONTRIBUTING shows."""

from __future__ import annotations

import importlib.util
import re
import unittest
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.conformance import ProtocolTests
from sottovoce.channels.conformance.loaded_models import DIFFERENCES, Difference
from sottovoce.channels.nl import NL
from sottovoce.channels.protocol import COMPAT, Protocol
from sottovoce.channels.registry import PROTOCOLS
from sottovoce.channels.sde import SDE

ROOT = Path(__file__).resolve().parents[2]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "nl": [{}],  # Any: each protocol's own options
    "cipher": [{}, {"partial": "entropy", "threshold": 0.01}],
    "sde": [{}, {"layers": (0, 5), "inject": "all"}, {"allow_other_weights": True}],
    "hidden": [{}],
}
OURS = [
    PROTOCOLS[name](compat=compat, **options) for compat in COMPAT for name in PROTOCOLS for options in OPTIONS[name]
]


def refused(protocol: Protocol) -> Collection[Difference]:
    if isinstance(protocol, SDE):
        return DIFFERENCES[1:] if protocol.allow_other_weights else DIFFERENCES
    return DIFFERENCES[2:] if isinstance(protocol, Cipher) else ()


class TestOurs(ProtocolTests):
    protocol: Protocol = NL()

    @pytest.fixture(autouse=True, params=OURS, ids=repr)
    def given(self, request: pytest.FixtureRequest) -> None:
        self.protocol = request.param
        self.refuses = refused(self.protocol)
        self.retokenises = self.protocol == NL(compat="reference")


def ran(suite: type[ProtocolTests]) -> unittest.TestResult:
    """A suite run without pytest."""
    case = type("Case", (suite, unittest.TestCase), {})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


def test_the_protocol_that_contributing_shows_passes(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    (tmp_path / "test_louder.py").write_text(example)
    spec = importlib.util.spec_from_file_location("test_louder", tmp_path / "test_louder.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    result = ran(module.TestLouder)

    assert result.wasSuccessful() and result.testsRun > 40
    assert result.skipped == []


def test_the_suite_needs_nothing_of_the_test_extra() -> None:
    sources = [path.read_text() for path in (ROOT / "channels" / "conformance").glob("*.py")]

    assert not re.search(r"^ *(import|from) (pytest|hypothesis)", "\n".join(sources), re.MULTILINE)


def test_a_suite_without_a_protocol_says_what_to_write() -> None:
    with pytest.raises(NotImplementedError, match=r"ProtocolTests names no protocol; write `protocol = "):
        ProtocolTests().test_the_protocol_says_what_it_is()


def test_what_does_not_apply_is_skipped_with_its_reason() -> None:
    class Words(ProtocolTests):
        protocol = NL()

    reasons = sorted(reason for _, reason in ran(Words).skipped)

    assert reasons == ["the protocol refuses no edge"]
