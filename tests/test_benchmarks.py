"""The benchmarks: they run, count right, and name what they cannot do; no figure is asserted."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
import torch

from benchmarks import retrieval, searching
from benchmarks.__main__ import SECTIONS, main
from benchmarks.invented import WORDS, Language, write_corpus
from benchmarks.measuring import Options, Times, loaded_of
from sottovoce.models import LoadedModel
from sottovoce.retrievers.bm25 import BM25Index


@cache
def loaded(name: str = "tiny") -> LoadedModel:
    return loaded_of(name, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_prints_tables_whose_rows_are_as_long_as_their_heads(section: str) -> None:
    model = loaded("bundled" if section == "formats" else "tiny")  # formats are those of files, and a shape has none
    tables = list(SECTIONS[section](Options(model, repeats=1, tiny=True)))
    assert tables
    for table in tables:
        lines = str(table).splitlines()
        assert len(lines) > 2 and len({line.count("|") for line in lines}) == 1


def test_a_task_of_a_retriever_has_a_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        searching.main(["--help"])
    assert end.value.code == 0 and "{build,ask,encode}" in capsys.readouterr().out


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_benchmark_of_one_says_so() -> None:
    with pytest.raises(SystemExit, match="--device cuda needs a GPU"):
        main(["--device", "cuda"])


def test_a_misspelt_section_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SystemExit, match="unknown section 'decode'; choose from: decoding, formats, host, slots"):
        main(["--only", "decode"])


def test_a_ratio_is_the_middle_of_the_pairs_not_the_ratio_of_the_middles() -> None:
    assert Times({"ours": [1.0, 1.0, 4.0], "theirs": [2.0, 3.0, 8.0]}).speed("ours", "theirs") == 2.0


def rectangular(printed: str) -> bool:
    """Whether tables were printed whose rows are as long as their heads."""
    tables = [table.splitlines() for table in printed.strip().split("\n\n")]
    return all(len(lines) > 2 and len({line.count("|") for line in lines}) == 1 for lines in tables)


@pytest.mark.slow
def test_each_retriever_is_measured_in_a_process_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    retrieval.main(["--passages", "60", "--queries", "5", "--repeats", "1"])
    out = capsys.readouterr().out
    assert rectangular(out) and [line.split()[1] for line in out.splitlines()[2:5]] == [*retrieval.RETRIEVERS]


def test_passages_and_questions_are_the_same_for_a_seed_and_fewer_are_the_first_of_more(tmp_path: Path) -> None:
    asked = [write_corpus(tmp_path / f"{n}.jsonl", n, 4) for n in (8, 8, 20)]
    fewer, more = ((tmp_path / f"{n}.jsonl").read_text().splitlines() for n in (8, 20))
    assert fewer == more[:8] and asked[0] == asked[1] and [len(each) for each in asked] == [4, 4, 4]
    assert json.loads(fewer[0])["text"] != next(Language(1).passages()).text


def test_passages_have_the_length_they_are_said_to_have_and_a_question_finds_its_own() -> None:
    made = [*islice(Language(0).passages(), 40)]
    lengths = [len(each.text.split()) for each in made]
    assert WORDS[0] <= min(lengths) and max(lengths) <= WORDS[1] and 90 < sum(lengths) / len(lengths) < 110
    index, asking = BM25Index.build(made), Language(1)
    assert all(index.search(asking.question(each), 1)[0].passage == each for each in made)
