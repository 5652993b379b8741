"""The baselines of a run: what one agent takes over of its settings, and what has none."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.experiments.matching import baseline_settings, baselines
from sottovoce.graphs import scheme
from sottovoce.nodes.question import Question
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.run import Run
from sottovoce.settings import MADRA, Debate, SelfConsistency, Settings, Single

ASKED: list[Question] = [{"question": "What is 1 + 1?", "id": "sum"}]


def run(name: str, settings: Settings) -> Run:
    return Run(new_manifest(name, settings, ASKED, models={}), ASKED)


def chosen(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(exclude_unset=True)


def test_one_agent_takes_over_what_is_of_one_agent() -> None:
    made = Debate(model=["smollm2"] * 2, temperature=[0.3, 0.6], max_tokens=9, cap=3, top_p=0.5, rounds=7)
    assert chosen(baseline_settings(run("debate", made), Single)) == {
        "model": ["smollm2"],
        "max_tokens": 9,
        "top_p": 0.5,
    }


def test_evidence_is_taken_over() -> None:
    assert chosen(baseline_settings(run("madra", MADRA(n_wiki=3)), Single)) == {"source": "all", "n_wiki": 3}


@pytest.mark.parametrize(
    ("protocol", "temperature", "kind", "taken"),
    [
        ("nl", 0.4, SelfConsistency, [0.4]),
        ("nl", 0, SelfConsistency, []),  # all samples would be one
        ("nl", 0, Single, [0]),
        ("cipher", 0.4, Single, []),  # of means
        ("sde", 0.4, Single, [0.4]),
    ],
)
def test_a_temperature_is_taken_over_where_words_are_drawn_at_it(
    protocol: str, temperature: float, kind: type[Settings], taken: list[float]
) -> None:
    found = baseline_settings(run("debate", Debate(protocol=protocol, temperature=[temperature])), kind)
    assert (found.protocol, found.temperature) == ("nl", taken)


def test_what_has_no_baseline_is_refused() -> None:
    with pytest.raises(UsageError, match=r"agents have several models \(a, b\); no single agent stands for them"):
        baseline_settings(run("debate", Debate(model=["a", "b"])), scheme("single").settings)
    with pytest.raises(
        UsageError, match="run 'sums' is not over, so its cost is unknown; `sottovoce runs resume sums`"
    ):
        baselines("sums", run("debate", Debate()), "flops")
