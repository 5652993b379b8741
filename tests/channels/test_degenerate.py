"""Signs of degeneration: on replies that models really gave, labelled by reading them, and at the edges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from sottovoce.channels.degenerate import WINDOW, repeated, signs, surprise
from sottovoce.channels.payload import Label, Payload

KEPT = Path(__file__).with_name("degenerate.jsonl")
"""Of each way of speaking, the sound replies that come nearest to a sign; and noise."""
REPLIES = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]
REPEATS, UNLIKELY = "degenerates: repeats itself", "degenerates: unlikely under the model"


def payload(ids: Sequence[int], logprob: Sequence[float] = (), entropy: Sequence[float] = ()) -> Payload:
    numbers = {"logprob": logprob or [0.0] * len(ids), "entropy": entropy or [0.0] * len(ids)}
    tensors = {"ids": torch.tensor(list(ids)), **{name: torch.tensor(list(each)) for name, each in numbers.items()}}
    return Payload(Label("nl", "", "", "", ""), tensors)


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: f"{reply['model']}-{reply['way']}-{reply['text'][:24]!r}")
def test_noise_is_told_from_sound_replies(reply: dict[str, Any]) -> None:  # Any: JSON
    found = signs(payload(reply["ids"], reply["logprob"], reply["entropy"]))
    assert bool(found) is reply["degenerate"]


def test_what_goes_round_in_a_circle_repeats_itself() -> None:
    assert signs(payload([1, 2, 3] * 20)) == (REPEATS,)
    assert repeated([1, 2, 3] * 20) == 54 / 57  # the first three pieces of four are new


def test_only_the_end_counts() -> None:
    assert repeated([*[7] * 100, *range(100)]) == 0
    assert repeated([*range(100), *[7] * 100]) == 1


@pytest.mark.parametrize("sent", ["logprob", "entropy"])
def test_a_stretch_of_improbable_tokens_is_unlikely_wherever_it_stands(sent: str) -> None:
    stretch = [6.0] * WINDOW
    nats = [*[0.1] * 40, *stretch, *[0.1] * 40]
    numbers = [-each for each in nats] if sent == "logprob" else nats
    found = payload(range(len(nats)), **{sent: numbers})
    assert signs(found) == (UNLIKELY,)
    assert surprise(found) == pytest.approx(6.0)


@pytest.mark.parametrize("n", [0, 1, WINDOW - 1])
def test_a_short_message_shows_no_sign(n: int) -> None:
    assert signs(payload([7] * n, [-9.0] * n, [9.0] * n)) == ()
