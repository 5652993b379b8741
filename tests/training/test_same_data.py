"""The data of a run are the same for the same seed: digests of what each skill, stage and row gave at first."""

import hashlib
import json
import random
from pathlib import Path

import pytest

from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.rows import prepare
from sottovoce.training import debates
from sottovoce.training.data import Encoder
from sottovoce.training.debates import Talk
from sottovoce.training.measure_roles import ROWS, places_of
from sottovoce.training.product import trained_prompts
from sottovoce.training.skills import DIETS, SKILLS
from sottovoce.training.sources import Source
from sottovoce.training.train import chunks_of

DIGESTS: dict[str, str] = json.loads((Path(__file__).parent / "digests.json").read_text(encoding="utf-8"))
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MADE = 20
"""Chats, questions or places of each digest."""


def digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]


@pytest.mark.parametrize("skill", SKILLS)
def test_a_skill_makes_the_same_chats(skill: str, encoder: Encoder, source: Source) -> None:
    rng = random.Random(skill)
    encoded = [encoder(SKILLS[skill][0](rng, source)) for _ in range(MADE)]
    assert digest([[chat.ids, chat.learned] for chat in encoded]) == DIGESTS[f"skill/{skill}"]


@pytest.mark.parametrize("stage", DIETS)
def test_a_stage_makes_the_same_batches(stage: str, encoder: Encoder, talks: list[Talk]) -> None:
    chunk = chunks_of(0, stage, encoder, talks if stage in ("discussion", "roles") else [])[0]
    batches = [[b.ids.tolist(), b.positions.tolist(), b.targets.tolist(), b.tokens] for b in chunk]
    assert digest(batches) == DIGESTS[f"stage/{stage}"]


def test_self_play_asks_the_same(encoder: Encoder) -> None:
    rng, prompts = random.Random("play"), trained_prompts()
    opened = [debates.opened(rng) for _ in range(100)]
    asked = [[encoder.prompt(debates.turns(talk, agent, prompts)) for agent in talk.agents] for talk in opened]
    assert digest(asked) == DIGESTS["self_play"]


@pytest.mark.parametrize("card", ["card_arithmetic", "card_split"])
def test_the_model_s_card_asks_the_same_questions(card: str) -> None:
    experiment = read_experiment(EXPERIMENTS / f"{card}.yaml", MADE)
    expected = {name: digest for name, digest in DIGESTS.items() if name.startswith(f"{card}/")}
    assert {f"{card}/{row}": digest(prepare(experiment, row).questions) for row in experiment.rows} == expected


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_single_replies_have_the_same_places(name: str) -> None:
    asked = [
        [[(turn.role, turn.text) for turn in chat.place.turns], chat.right, chat.place.form, len(chat.lessons)]
        for chat in places_of(name, MADE)
    ]
    assert digest(asked) == DIGESTS[f"measure_roles/{name}"]
