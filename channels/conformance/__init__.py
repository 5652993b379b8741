"""Tests that tell whoever writes a protocol whether it keeps the promises that graphs, agents and engine rely on.

Subclass `ProtocolTests` in a test file, name the protocol, and run pytest (or mix in
`unittest.TestCase`: nothing here imports pytest):

    from sottovoce.channels.conformance import ProtocolTests

    class TestWhisper(ProtocolTests):
        protocol = Whisper()
        refuses = ("other vocabulary",)  # the edges that its `check` refuses

It needs no files and no network: the bundled model speaks and hears, beside three models made in
memory that differ from it in weights, shape or vocabulary. A failing test says what was found, what
was expected and what to do; one that does not apply is skipped with the reason. A promise that a
protocol cannot keep is a test that it overrides, with `pytest.mark.xfail(reason=...)`.
"""

from __future__ import annotations

from sottovoce.channels.conformance.edges import EdgeTests
from sottovoce.channels.conformance.hearing import HearingTests
from sottovoce.channels.conformance.lowering import LoweringTests
from sottovoce.channels.conformance.recording import RecordingTests
from sottovoce.channels.conformance.speaking import SpeakingTests
from sottovoce.channels.conformance.words import WordsTests

__all__ = ["ProtocolTests"]


class ProtocolTests(LoweringTests, SpeakingTests, RecordingTests, HearingTests, WordsTests, EdgeTests):
    """What every protocol promises; the attributes that a subclass sets are those of `Setting`."""
