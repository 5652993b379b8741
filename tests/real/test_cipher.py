"""CIPHER on a real language model: the temperature that it starts from, and noise that is told as such."""

from __future__ import annotations

import pytest

from sottovoce.channels import create
from sottovoce.channels.payload import WINDOW, degeneration
from sottovoce.models import LoadedModel, base_temperature
from sottovoce.models.doctor import measure
from sottovoce.models.loaded import MEASURED
from tests.real.messages import mixed_questions, spoken

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_the_doctor_finds_what_is_known_of_the_catalogue_s_model(smollm2: LoadedModel) -> None:
    found, allowed = measure(smollm2)

    assert min(found) == MEASURED[smollm2.weights_key] == base_temperature(smollm2).value
    assert found[1.0] < -4 < -1.7 < allowed <= found[0.4]


@pytest.mark.parametrize(("name", "at", "most"), [("nl", 0, 1), ("nl", 1, 0), ("cipher", 0.2, 0), ("cipher", 0.4, 1)])
def test_sound_replies_show_no_sign(smollm2: LoadedModel, name: str, at: float, most: int) -> None:
    flagged = [
        degeneration(each) for each in spoken(smollm2, mixed_questions(), create(name), at) if degeneration(each)
    ]
    assert len(flagged) <= most, flagged


def test_noise_shows_a_sign(smollm2: LoadedModel) -> None:
    long = [each for each in spoken(smollm2, mixed_questions(), create("cipher"), 1) if len(each) >= WINDOW]
    assert len(long) >= 8
    assert sum(bool(degeneration(each)) for each in long) >= 0.9 * len(long)
