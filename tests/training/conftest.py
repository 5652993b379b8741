"""What tests of training share: the encoder of the shipped tokenizer, and talks of three agents."""

from __future__ import annotations

import random

import pytest

from sottovoce.models import BUNDLED_FOLDER
from sottovoce.training import debates, problems, tokenizer
from sottovoce.training.data import Encoder
from sottovoce.training.debates import Talk
from sottovoce.training.product import trained_prompts
from sottovoce.training.sources import Source


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return Encoder(tokenizer.load(BUNDLED_FOLDER))


@pytest.fixture(scope="session")
def talks() -> list[Talk]:
    rng = random.Random(0)
    asked = [problems.plain(rng), problems.split(rng, debates.names(3))]
    return [debates.imagined(rng, problem, debates.names(3), 2, 0.4) for problem in asked]


@pytest.fixture(scope="session")
def source(talks: list[Talk]) -> Source:
    return Source(trained_prompts(), problems.HARDER, talks)
