"""Options of the protocols: declared once, told in one line where they do not fit."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import pytest

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.nl import NL
from sottovoce.channels.options import CipherOptions, ProtocolOptions, StateOptions
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import SDE, Hidden
from sottovoce.core.errors import UsageError


def test_options_load_no_torch() -> None:
    code = "import sys, sottovoce.channels.options; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        (NL(compat="reference"), ProtocolOptions(compat="reference")),
        (Cipher(partial="max"), CipherOptions(partial="max")),
        (Cipher(CipherOptions(partial="max", threshold=0.5)), CipherOptions(partial="max", threshold=0.5)),
        (SDE(layers=[3]), StateOptions(layers=(3,))),
        (Hidden(), StateOptions()),
    ],
)
def test_a_protocol_is_made_of_its_options_or_of_their_values(protocol: Protocol, options: ProtocolOptions) -> None:
    assert protocol.options == options


@pytest.mark.parametrize("kind", [ProtocolOptions, CipherOptions, StateOptions])
def test_every_option_is_described_and_has_a_default(kind: type[ProtocolOptions]) -> None:
    assert all(field.description and not field.is_required() for field in kind.model_fields.values())


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [
        (NL, {"compat": "papers"}, "compat is 'papers': expected 'paper' or 'reference'"),
        (Cipher, {"partial": "max", "threshold": float("inf")}, "threshold is inf: expected a finite number"),
        (SDE, {"layers": (-1,)}, "layers.0 is -1: expected greater than or equal to 0"),
        (
            Hidden,
            {"partial": "max"},
            "protocol 'hidden' has no option 'partial'; it has: allow_other_weights, carry_as, compat",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_told_in_one_line(kind: type[Protocol], values: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        kind(**values)

    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_the_options_of_another_protocol_are_refused() -> None:
    with pytest.raises(UsageError, match="expected a valid dictionary or instance of CipherOptions"):
        Cipher(StateOptions())


class LoudOptions(StateOptions):
    volume: float = 2.0


class Loud(SDE):
    name: ClassVar[str] = "loud"
    Options = LoudOptions
    options: LoudOptions


def test_a_protocol_of_ones_own_adds_options_in_three_lines() -> None:
    loud = Loud(volume=3, layers=(1,))

    assert (loud.options.volume, loud.options.layers, loud.compat) == (3.0, (1,), "paper")
    with pytest.raises(UsageError, match=r"'loud' has no option 'colour'; it has: .*, volume"):
        Loud(colour="red")


@pytest.mark.parametrize("more", [{"probe": "noise"}, {"keep": 0.5}])
def test_a_bridge_is_neither_probed_nor_compressed(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="leave out"):
        CipherOptions(bridge=True, **more)
