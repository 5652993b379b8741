"""Whole discussions of every scheme in which models say anything."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.graphs import schemes
from sottovoce.prompts import kinds
from tests.fuzz.cases import drawn, held, reply
from tests.graphs.support import NEEDED

SMALL = {"agents": 2, "rounds": 2, "steps": 3, "samples": 2, "months": 1, "turns": 3}
ASKED = {
    "number": {}, "yes_no": {}, "text": {}, "option": {"choices": ["(A) 3", "(B) 4"]}, "label": {"choices": ["x", "y"]},
}  # fmt: skip


class Raving(ScriptedChatModel):
    """Says anything, and never runs out."""

    seed: int = 0

    def _next(self, agent: str) -> str:
        return reply(random.Random(f"{self.seed} {agent} {len(self.calls)}"))


@drawn("replies")
def test_a_discussion_of_anything_ends_or_is_refused_in_one_line(seeds: range) -> None:
    found = [each for each in schemes() if each.name not in ("whodunit", "govsim", "codegen", "react", "madra", "ia")]

    def case(rng: random.Random) -> None:
        scheme = rng.choice(found)
        small: dict[str, Any] = {name: n for name, n in SMALL.items() if name in scheme.settings.model_fields}
        kind = rng.choice([*ASKED])
        raving = Raving(seed=rng.randrange(10**9))
        graph = scheme.create(scheme.settings(**small), models=raving, **NEEDED.get(scheme.name, {}))
        graph.compile().invoke({"question": "2 + 2?", "kind": kind, **ASKED[kind]})

    held("replies", seeds, case)


@pytest.mark.parametrize("kind", kinds.KINDS.names())
def test_every_kind_of_answer_reads_anything_or_nothing(kind: str) -> None:
    question = {"kind": kind, "question": "2 + 2?", **ASKED.get(kind, {})}

    def case(rng: random.Random) -> None:
        kinds.read_reply(reply(rng), question)

    held(f"readings of {kind}", range(40), case)
