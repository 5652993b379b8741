"""The benchmarks: they run, count right, and name what they cannot do; no figure is asserted."""

from __future__ import annotations

import pytest
import torch

from benchmarks.__main__ import SECTIONS, main
from benchmarks.measuring import Options, Times, loaded_of
from benchmarks.two_facts import counts
from sottovoce.channels.message import Message
from sottovoce.nodes.state import Decision
from sottovoce.runs.record import DiscussionRecord


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_prints_tables_whose_rows_are_as_long_as_their_heads(section: str) -> None:
    tables = list(SECTIONS[section](Options(loaded_of("tiny", "cpu"), repeats=1, tiny=True)))
    assert tables
    for table in tables:
        lines = str(table).splitlines()
        assert len(lines) > 2 and len({line.count("|") for line in lines}) == 1


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_benchmark_of_one_says_so() -> None:
    with pytest.raises(SystemExit, match="--device cuda needs a GPU"):
        main(["--device", "cuda"])


def test_a_misspelt_section_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SystemExit, match="unknown section 'decode'; choose from: decoding, host, debates"):
        main(["--only", "decode"])


def test_a_ratio_is_the_middle_of_the_pairs_not_the_ratio_of_the_middles() -> None:
    assert Times({"ours": [1.0, 1.0, 4.0], "theirs": [2.0, 3.0, 8.0]}).speed("ours", "theirs") == 2.0


def test_who_learns_and_who_keeps_the_answer_is_counted_in_round_two_by_first_attempts() -> None:
    documents = {"ada": ["Ida lives in Orn."], "eve": ["Market day in Orn is Friday."]}
    said = [("ada", 0, 0, "Friday."), ("ada", 1, 0, "On Friday."), ("eve", 1, 0, "Unknown."), ("eve", 1, 1, "Friday")]
    messages = [Message(round=r, agent=agent, act="revise", attempt=n, text=text) for agent, r, n, text in said]
    record = DiscussionRecord(
        scheme="debate",
        settings={},
        question={"question": "When?", "target": "Friday", "documents": documents},
        messages=messages,
        decision=Decision(
            answer="Friday", score=1.0, rule="majority", why="the first wins", votes=[], tied=["Friday", "Monday"]
        ),
    )

    found = counts([record, record.model_copy(update={"decision": None})])
    assert found == {"done": 1, "right": 1, "ties": 1, "won": 1, "first": 1, "learnt": 1, "last": 1, "kept": 0}
