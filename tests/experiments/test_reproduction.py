"""Published tables: valid experiments, figures as printed, and their comparison with ours."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.datasets import DATASETS
from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.experiments.schema import Experiment
from sottovoce.experiments.tables.comparison import compare_figures, observed
from sottovoce.experiments.tables.figures import FILE, figure_of, in_our_units
from sottovoce.experiments.tables.parts import experiment_of, missing, small_of, write_stand_ins
from sottovoce.experiments.tables.table import Published, examples_of, names, read_published, read_table, save_figures
from sottovoce.monitors.monitor import Monitor
from sottovoce.prompts import packs
from sottovoce.runs.results import Result, Results
from sottovoce.runs.run import Run

ROOT = Path(__file__).resolve().parents[2]
PRINTED = Path(__file__).parent / "printed"
Cells = dict[tuple[str, str, str, str], tuple[tuple[float, ...], float | None]]
PAPERS = ("sde", "cipher", "rogue", "cmd", "madra", "kvcomm", "latentmas", "ac")
"""How the names of a paper's files begin."""
GIVEN: JSON = {
    "about": "Two agents.",
    "paper": {"name": "Ours", "arxiv": "0000.00000", "place": "Table 1"},
    "metrics": {"accuracy": "score", "first": "agent_1 in round 1", "agreement": "agreement in round 2"},
    "percent": ["accuracy"],
    "parts": {"sums": {"dataset": "gsm8k", "file": "gsm8k/test.jsonl"}, "made": {"sample": "arithmetic/1", "limit": 2}},
    "models": {"a": "some/model", "b": ["some/model", "other/model"]},
    "settings": {"max-tokens": 9, "rounds": 2},
    "rows": {"alone": {"scheme": "single", "only": {"models": "a"}}, "two": {"scheme": "debate"}},
    "where": [{"rows": "two", "parts": "sums", "temperature": [0.1, 0.2]}],
    "error": "standard error",
    "overlap": "none",
    "published": {"a": {"made": {"alone": 50, "two": {"accuracy": {"mean": 60, "spread": 2.5}, "first": [0.1, 0.3]}}}},
}


def table(**more: Any) -> Published:
    return Published.model_validate({**GIVEN, **more})


# The files


@pytest.mark.parametrize("name", names())
def test_each_table_makes_valid_experiments_as_published_and_small_with_its_papers_prompts(name: str) -> None:
    found, data = read_published(name), Path("data")

    assert [*found.experiments()], "no model has a row of any part"
    for data_set, _, part in (each["dataset"].partition("/") for each in found.parts.values() if "dataset" in each):
        DATASETS[data_set].check_part(part)
    for model, part in found.experiments():
        given, small = experiment_of(found, model, part, data), small_of(found, model, part, data)
        rows = Experiment.model_validate(given).rows
        assert {*rows} == {*Experiment.model_validate(small).rows} == {*found.rows_of(model, part)}
        for row in rows.values():
            pack = row.settings.prompts or "the scheme's own"
            assert row.settings.prompts is None or row.settings.pack_folder(pack).parent == packs.SHIPPED / packs.PAPER
            assert any("are our wording" in each and pack in each for each in found.differs)


@pytest.mark.parametrize("name", names())
def test_figures_belong_to_rows_that_run_or_are_missing_and_say_their_number_of_questions_and_errors(name: str) -> None:
    found, spreads = read_published(name), []

    for model, part in ((model, part) for model, parts in found.published.items() for part in parts):
        assert found.parts[part].get("limit"), "as many questions as the paper's"
        figures = found.figures(model, part)
        assert set(figures) <= {*found.rows_of(model, part), *found.best_of, *found.missing}
        spreads += [each.spread for by in figures.values() for each in by.values() if each.spread is not None]
    assert bool(spreads) == (found.error != "none")


def test_questions_have_the_worked_examples_of_their_paper() -> None:
    given = experiment_of(read_published("cipher_table1"), "llama-65b", "arithmetic", Path("data"))

    examples = Experiment.model_validate(given).questions[0].task_demonstration
    assert len(examples) == 4 and examples[0].endswith("Answer: 27")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "cipher/gsm9k",
            "unknown task in the file of worked examples of cipher 'gsm9k'; the nearest known one is 'gsm8k'",
        ),
        ("ciphre/gsm8k", "file of worked examples '.*ciphre.yaml' cannot be read"),
    ],
)
def test_unknown_worked_examples_are_one_line(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        examples_of(name)


def cells_of(table: Published) -> Cells:
    """All figures that a file quotes, by model, part, row and metric; those that no row reproduces under "printed"."""
    cells = {
        (model, part, row, metric): (each.runs, each.spread)
        for model, parts in table.published.items()
        for part in parts
        for row, by in table.figures(model, part).items()
        for metric, each in by.items()
    }
    printed = {
        ("printed", name, row, ""): ((value,), None) for name, by in table.printed.items() for row, value in by.items()
    }
    return {**cells, **printed}


def typed(prefix: str) -> dict[str, Cells]:
    """Figures as they were typed from a paper, by file: "57.8;62.8" one a run, "60.0±2.3" with an error."""
    found: dict[str, Cells] = {}
    for line in (PRINTED / f"{prefix}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        name, model, part, row, metric, given = line.split("\t")
        runs, _, spread = given.partition("±")
        figures = tuple(map(float, runs.split(";"))), float(spread) if spread else None
        assert (model, part, row, metric) not in found.setdefault(name, {}), line
        found[name][model, part, row, metric] = figures
    return found


@pytest.mark.parametrize("prefix", PAPERS)
def test_every_cell_is_as_it_was_typed_from_the_paper_and_no_other_is_quoted(prefix: str) -> None:
    wanted = typed(prefix)

    for name in (each for each in names() if each.startswith(f"{prefix}_")):
        assert cells_of(read_published(name)) == wanted.pop(name, {}), name
    assert not wanted, "no file of these cells"


def test_printed_gains_are_differences_of_printed_figures() -> None:
    cells = typed("madra")["madra_table"]

    def of(part: str, row: str) -> float:
        return cells["gpt-3.5", part, row, "accuracy"][0][0]

    none = of("triviaqa", "du") + 0.022  # without retrieval, from the gain over Du
    assert none == pytest.approx(of("triviaqa", "liang") + 0.064)
    assert 100 * (of("triviaqa", "madra-all") - none) == pytest.approx(1.4)
    assert 100 * (of("hotpotqa", "madra-all") - of("hotpotqa", "madra-wiki")) == pytest.approx(7.8 - 4.2)


def test_sde_debates_as_the_paper_says() -> None:
    given = experiment_of(read_published("sde_table2"), "llama-8b", "gsm8k", Path("data"))

    assert (given["seeds"], given["questions"]["limit"]) == ([0, 1, 2], 300)
    row = {"agents": 2, "rounds": 3, "rule": "average", "max_tokens": 512, "layers": [17, 20], "protocol": "sde"}
    assert row.items() <= given["rows"]["sde"].items() and "temperature" not in given["rows"]["sde"]


@pytest.mark.parametrize("name", ["cipher_table1", "cipher_figure3", "cipher_figure4"])
def test_cipher_has_the_temperatures_of_the_paper(name: str) -> None:
    """They were typed from the paper's Tables 3, 5, 6 and 7."""
    lines = (PRINTED / "temperatures.tsv").read_text(encoding="utf-8").splitlines()[1:]
    found = read_published(name)

    wanted = {(model, part, row): given for file, model, part, row, given in map(str.split, lines) if file == name}
    rows = {(model, part): found.rows_of(model, part) for model, part, _ in wanted}
    assert wanted
    for (model, part, row), given in wanted.items():
        temperature = rows[model, part][row]["temperature"]
        listed = temperature if isinstance(temperature, list) else [temperature]
        assert listed == [float(each) for each in given.split(";")], (model, part, row)


@pytest.mark.parametrize("name", ["sde_table1", "sde_table2", "sde_table3", "sde_table4", "sde_table5"])
def test_sde_changes_the_layers_that_the_paper_chose(name: str) -> None:
    found, chosen = read_published(name), {"qwen-7b": [22], "llama-8b": [17, 20], "qwen-14b": [21, 23, 33]}

    layers = {
        (model, tuple(row["layers"]))
        for model, part in found.experiments()
        for row in found.rows_of(model, part).values()
        if row.get("protocol") in ("sde", "hidden")
    }
    assert layers == {(model, tuple(chosen[model])) for model in found.models}


def test_kvcomm_weighs_attention_as_the_paper_says() -> None:
    found = read_published("kvcomm_table1")

    weights = {
        (model, row["layer-alpha"])
        for model, part in found.experiments()
        for row in found.rows_of(model, part).values()
        if row.get("protocol") == "kv"
    }
    assert weights == {("llama-3b", 1), ("qwen-7b", 0.8), ("falcon-7b", 0.8)}


def test_models_are_those_that_the_papers_name() -> None:
    named = {
        "qwen-7b": "Qwen/Qwen2.5-7B-Instruct",
        "llama-8b": "meta-llama/Llama-3.1-8B-Instruct",
        "qwen-14b": "Qwen/Qwen2.5-14B-Instruct",
        "qwen-72b": "Qwen/Qwen2.5-72B-Instruct",
        "llama-70b": "meta-llama/Llama-3.1-70B-Instruct",
        "qwen-110b": "Qwen/Qwen1.5-110B-Chat-GPTQ-Int4",
        "gpt-4o": "hosted:openai:gpt-4o-2024-08-06",
    }

    for name in (each for each in names() if each.startswith(("sde_", "rogue_"))):
        assert read_published(name).models.items() <= {each: [weights] for each, weights in named.items()}.items(), name


@pytest.mark.parametrize(
    ("prefix", "questions"),
    [
        ("cipher_", {200, 270, 126, 1}),  # two whole subjects of MMLU; Figure 9 is of one question
        ("cmd_", {100, 460}),
        ("madra_", {500}),
        ("rogue_table1", {164, 279}),
        ("rogue_table2", {20}),
        ("rogue_table3", {180}),
        ("rogue_table5", {300}),
        ("rogue_table7", {180}),
        ("rogue_table8", {180}),
        ("rogue_figures", {180}),
        ("rogue_triggers", {180}),
        ("sde_", {300, 100, 126}),  # three whole subjects of MMLU
        ("kvcomm_", {200, 500, 150}),
        ("latentmas_", {2376, 1172, 1319, 300, 30, 198}),
        ("ac_", {100, 70}),
    ],
)
def test_questions_are_as_many_as_the_papers_say(prefix: str, questions: set[int]) -> None:
    files = [read_published(name) for name in names() if name.startswith(prefix)]

    assert {part["limit"] for found in files for part in found.parts.values()} == questions


# What a file says


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"publishd": {}}, "unknown key of the published table 'publishd'; the nearest known one is 'published'"),
        ({"published": {}}, "nothing is published; expected figures in 'published', or a claim in 'claim'"),
        ({"published": {"a": {"made": {"tow": 1}}}}, "unknown row in published 'tow'; the nearest known one is 'two'"),
        ({"published": {"a": {"made": {"two": "60"}}}}, "a figure is '60'; expected a number, one per run, or "),
        ({"where": [{"rows": "tow", "layers": [1]}]}, "unknown name among rows in 'where' 'tow'; the nearest known "),
        ({"where": ["two"]}, "where.0 is 'two': "),
    ],
)
def test_an_error_in_a_table_is_one_line_with_the_file(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump({**GIVEN, **more}))

    with pytest.raises(UsageError) as refused:
        read_table(path)

    assert str(refused.value).startswith(said)
    assert str(refused.value).endswith(f"(published table {str(path)!r})")


def test_a_published_table_is_no_experiment_file() -> None:
    with pytest.raises(
        UsageError, match="is a published table of several experiments; run it with `experiment reproduce sde_tab"
    ):
        read_experiment(ROOT / "experiments" / "published" / "sde_table2.yaml")


def test_an_unknown_table_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="unknown published table 'sde_table'; the nearest known one is 'sde_table"):
        read_published("sde_table")


def test_rows_come_once_with_each_variant_and_settings_reach_those_they_are_for() -> None:
    variants = {"few": {"rounds": 2}, "many": {"rounds": 5}}
    where = [{"rows": "two", "models": "a", "agents": 3}, {"rows": "two-many", "temperature": 0.5}]

    rows = table(variants=variants, where=where, published={}, claim="More is more.").rows_of("a", "made")

    assert rows["two-few"] == {"scheme": "debate", "rounds": 2, "agents": 3}
    assert rows["two-many"] == {"scheme": "debate", "rounds": 5, "agents": 3, "temperature": 0.5}
    assert [*rows] == ["alone-few", "alone-many", "two-few", "two-many"]


def test_needed_files_are_in_the_folder_of_data(tmp_path: Path) -> None:
    rows = {"two": {"scheme": "debate", "watch": ["{data}/monitors/all.json"]}}
    found = table(rows=rows, needs={"monitors/all.json": "train it", "other": "x"}, published={}, claim="It helps.")

    given = experiment_of(found, "a", "sums", tmp_path)

    assert given["questions"]["file"] == str(tmp_path / "gsm8k/test.jsonl")
    assert given["rows"]["two"]["watch"] == [str(tmp_path / "monitors/all.json")]
    assert given["rows"]["two"]["temperature"] == [0.1, 0.2]
    assert [each.partition(" is missing: ")[2] for each in missing(found, "a", "sums", tmp_path)] == [
        "the data set 'gsm8k'", "train it",
    ]  # fmt: skip


def test_missing_files_with_the_same_remedy_share_a_line(tmp_path: Path) -> None:
    rows = {"two": {"scheme": "debate", "watch": ["{data}/monitors/a.json", "{data}/monitors/b.json"]}}
    needs = {"monitors/a.json": "train them", "monitors/b.json": "train them"}

    (said,) = missing(table(rows=rows, needs=needs, published={}, claim="It helps."), "a", "made", tmp_path)

    a, b = (repr(str(tmp_path / "monitors" / name)) for name in ("a.json", "b.json"))
    assert said == f"{a}, {b} are missing: train them"


def test_a_small_row_keeps_its_scheme_and_uses_the_bundled_model(tmp_path: Path) -> None:
    small = small_of(table(small={"rounds": 5, "limit": 2}), "b", "sums", tmp_path)

    assert small["questions"] == {"sample": "arithmetic/1", "limit": 2}
    assert small["rows"]["two"] == {
        "scheme": "debate", "model": ["bundled", "bundled"], "temperature": [0.1, 0.2], "rounds": 2, "max_tokens": 9,
    }  # fmt: skip


def test_a_replacing_model_plays_all_agents() -> None:
    given = experiment_of(table(), "b", "made", Path("data"), weights="bundled")

    assert given["rows"]["two"]["model"] == ["bundled"]


def test_small_runs_have_stand_ins_for_monitors(tmp_path: Path) -> None:
    write_stand_ins(read_published("rogue_table3"), tmp_path)

    found = Monitor.read(tmp_path / "monitors" / "accuser.second.json")
    assert found.role == "accuser" and found.triggers({"entropy": 0.1}, turn=3)


# Published beside obtained


def run_table(folder: Path) -> tuple[Published, dict[str, Run]]:
    """Run both questions of the sample; they get the same answers, one of which is right."""
    found = table(settings={"rounds": 2})
    given = experiment_of(found, "a", "made", Path("data"))
    for row in given["rows"].values():
        del row["model"]  # scripted ones are given
    experiment = Experiment.model_validate(given)
    replies = {"agent_1": ["The answer is 7."] * 99, "agent_2": ["The answer is 8."] * 99}
    return found, run_experiment(experiment, RowRunner(folder, models=ScriptedChatModel(replies)))[0]


def test_each_figure_is_compared_in_its_own_unit(tmp_path: Path) -> None:
    found, runs = run_table(tmp_path)

    lines = {(each.row, each.metric): each for each in compare_figures(found, "a", "made", runs)}

    assert [*lines] == [("alone", "accuracy"), ("two", "accuracy"), ("two", "first")]
    spread = lines["two", "accuracy"]
    assert spread.published is not None and spread.published.words == "60 ± 2.5" and spread.n == 2
    rightness = [result.score for result in runs["two"].results() if result.score is not None]
    assert spread.obtained is not None and spread.obtained.value == 100 * sum(rightness) / 2
    runs_of_it = lines["two", "first"].published
    assert runs_of_it is not None and runs_of_it.mean == pytest.approx(0.2)


def test_answers_in_a_round_and_agreement_are_metrics(tmp_path: Path) -> None:
    _, runs = run_table(tmp_path)
    found = table(published={"a": {"made": {"two": {"first": 1, "agreement": 1}}}})

    lines = {each.metric: each.obtained for each in compare_figures(found, "a", "made", runs) if each.row == "two"}

    targets = [record.question["target"] for record in runs["two"].records.values()]
    assert lines["agreement"] is not None and lines["agreement"].value == 0
    assert lines["first"] is not None and lines["first"].value == targets.count("7") / 2


def test_written_tokens_are_a_metric() -> None:
    results = Results([Result("1", tokens_out=5), Result("2", tokens_out=8), Result("3", tokens_out=None)])
    run = cast(Run, SimpleNamespace(results=lambda: results))  # scripted models count no tokens

    assert [*observed("tokens_out", "two", {"two": run})] == [("1", 5), ("2", 8)]


def test_a_gain_is_of_the_same_questions_under_the_same_seeds(tmp_path: Path) -> None:
    _, runs = run_table(tmp_path)
    found = table(metrics={"gain": "score over alone"}, percent=["gain"], published={"a": {"made": {"two": 3}}})

    (line,) = (each for each in compare_figures(found, "a", "made", runs) if each.row == "two")

    assert line.obtained is not None and line.obtained.value == 0 and line.n == 2


def test_rows_that_cannot_run_say_why(tmp_path: Path) -> None:
    _, runs = run_table(tmp_path)
    published = {"a": {"made": {"reflexion": 1, "two": {"accuracy": 1, "f1": 1}}}}
    found = table(
        metrics={**GIVEN["metrics"], "f1": "F1"}, missing={"reflexion": "no such scheme"}, published=published
    )

    lines = {(each.row, each.metric): each.words for each in compare_figures(found, "a", "made", runs)}

    assert lines["reflexion", "accuracy"] == "cannot be run: no such scheme"
    assert lines["two", "f1"] == "'F1' is not measured"
    assert {each.words for each in compare_figures(found, "a", "made", {})} == {
        "cannot be run: no such scheme",
        "not run",
    }


def test_the_folder_of_an_experiment_has_the_published_figures(tmp_path: Path) -> None:
    save_figures(table(), "a", "made", tmp_path)

    kept = json.loads((tmp_path / FILE).read_text())
    assert kept["place"] == "Ours (arXiv 0000.00000), Table 1"
    assert kept["rows"]["two"] == {"accuracy": {"mean": 60, "spread": 2.5}, "first": [0.1, 0.3]}
    assert in_our_units(tmp_path) == {"alone": {"accuracy": 0.5}, "two": {"accuracy": 0.6}}
    assert in_our_units(tmp_path / "elsewhere") == {}
    (tmp_path / FILE).write_text("[]")
    with pytest.raises(RecordError, match="is damaged; run the experiment again"):
        in_our_units(tmp_path)


@pytest.mark.parametrize("given", ["a", True, [], [1, "a"], {"mean": 1, "spread": "wide"}])
def test_values_that_are_no_figures_are_refused(given: object) -> None:
    with pytest.raises(UsageError, match="a figure is "):
        figure_of(given)
