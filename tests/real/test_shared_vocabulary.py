"""CIPHER over the shared vocabulary of a real model and the bundled one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels.cipher import Cipher
from sottovoce.channels.nl import NL
from sottovoce.channels.protocol import Prompt
from sottovoce.channels.store import PayloadStore
from sottovoce.models import LoadedModel, Rows
from tests.graphs.support import debating, held, replies
from tests.real.messages import distributions, divergence, lacking, mixed_questions, prompt_of_hearer, spoken

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_a_debate_of_real_and_bundled_runs_over_the_shared_vocabulary_and_repeats(
    smollm2: LoadedModel, tmp_path: Path
) -> None:
    store = PayloadStore(tmp_path)
    named: Any = {"model": [smollm2.name, "bundled"], "temperature": [0.2, 0.35], "rounds": 2, "max_tokens": 12}
    ends = [
        held(debating(protocol="cipher", shared_vocabulary=True, exact=True, store=store, **named)) for _ in range(2)
    ]

    first, again = ([(each.text, each.payload) for each in replies(end)] for end in ends)
    assert first == again and len(first) == 4
    assert all(0.2 < message.stats["shared_mass"] < 1 for message in replies(ends[0]))
    assert "agent_2 hears agent_1 by cipher over the shared vocabulary: 1% of the tokens" in ends[0]["notes"][0]


def test_with_a_fifth_fewer_tokens_means_are_nearer_to_ordinary_ones_than_words_are(smollm2: LoadedModel) -> None:
    hearer, cross = lacking(smollm2, 0.2), Cipher(shared_vocabulary=True)
    (payload,) = spoken(smollm2, mixed_questions()[16:17], cross, 0.35, 48, [hearer])
    shared, words = (prompt_of_hearer(protocol, payload, hearer) for protocol in (cross, NL()))
    true = Rows(payload.tensors[f"rows.{smollm2.table.key}"])
    truth = Prompt(tuple(true if isinstance(piece, Rows) else piece for piece in shared.pieces))

    found = [distributions(prompt, payload.ids[:4], hearer) for prompt in (truth, shared, words)]

    assert divergence(found[0], found[1]) < divergence(found[0], found[2])
