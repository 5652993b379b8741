"""Tests of `runs compare RUN --matched` on a tiny model with random weights."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Call, Models


def test_a_run_is_compared_with_one_agent_and_with_samples_at_its_cost(
    call: Call, models: Models, tmp_path: Path
) -> None:
    run = tmp_path / "pair"
    asked = ("--sample", "arithmetic/1", "--limit", 2, "--model", models.tiny, "--max-tokens", 4, "--rounds", 2)
    call("debate", *asked, "--save", run)

    first, again = (call("runs", "compare", run, "--matched", "tokens", "--trust-paths") for _ in range(2))

    assert (first.code, again.code, again.out, again.err) == (0, 0, first.out, "")
    assert [line.split(" | ")[0] for line in first.out.splitlines()[2:5]] == [
        f"| `{name}`" for name in ("pair", "pair-single", "pair-self-consistency")
    ]
    assert "- `pair-self-consistency`: " in first.out and "to cost as much as a discussion of `pair`" in first.out
    assert sorted(log.parent.name for log in tmp_path.glob("*/log.jsonl")) == [
        "pair",
        "pair-self-consistency",
        "pair-single",
    ]


def test_one_run_is_matched(call: Call) -> None:
    answer = call("runs", "compare", "a", "b", "--matched", "flops")
    assert (answer.code, answer.err) == (
        2,
        "sottovoce: matched baselines are of one run, and 2 were named; give one\n",
    )
