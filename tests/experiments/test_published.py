"""Published tables: valid experiments, figures as printed, and their comparison with ours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sottovoce import prompts
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.datasets import DATASETS
from sottovoce.experiments.files import read_experiment, shipped
from sottovoce.experiments.published import Compared, compare_figures, observed
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.experiments.schema import Experiment, FileRow, Published
from sottovoce.report.comparison import published_table
from sottovoce.runs.record import Result, Results
from sottovoce.runs.run import Run

PRINTED = Path(__file__).parent / "printed"
Cells = dict[tuple[str, str, str, str], tuple[tuple[float, ...], float | None]]
PAPERS = ("sde", "cipher", "rogue", "cmd", "madra", "kvcomm", "latentmas", "ac")
"""How the names of a paper's files begin."""
GIVEN: dict[str, Any] = {  # Any: YAML as it comes
    "points": {"a.sums": {"questions": {"sample": "arithmetic/1", "limit": 2}}},
    "settings": {"rounds": 2},
    "rows": {"alone": {"scheme": "single"}, "two": {"scheme": "debate"}},
}
PUBLISHED: dict[str, Any] = {
    "paper": "Ours (arXiv 0000.00000), Table 1",
    "metrics": {"accuracy": "score", "first": "agent_1 in round 1", "agreement": "agreement in round 2"},
    "percent": ["accuracy"],
    "error": "standard error",
    "figures": {"a.sums": {"alone": 50, "two": {"accuracy": {"mean": 60, "spread": 2.5}, "first": [0.1, 0.3]}}},
}


@cache
def papers() -> dict[str, Experiment]:
    """All files of published tables and figures."""
    return {name: read_experiment(path) for name, path in shipped().items() if path.parent.name == "published"}


def table(name: str) -> tuple[Experiment, Published]:
    experiment = papers()[name]
    assert experiment.published is not None
    return experiment, experiment.published


def given(**more: Any) -> Experiment:
    return Experiment.model_validate({**GIVEN, "published": {**PUBLISHED, **more}})


def rows_of(experiment: Experiment, *points: str) -> Mapping[str, FileRow]:
    return {row.name: row for row in experiment.rows.values() if row.point in points or not points}


# The files


def test_each_table_is_an_experiment_with_its_papers_prompts_and_number_of_questions() -> None:
    for name in papers():
        experiment, published = table(name)
        spreads = []
        for source in (source for point in experiment.points.values() for source in point.questions):
            if source.dataset:
                data_set, _, part = source.dataset.partition("/")
                DATASETS[data_set].check_part(part)
        for row in experiment.rows.values():
            pack = row.settings.prompts or "the scheme's own"
            if row.settings.prompts is not None:
                assert row.settings.pack_folder(pack).parent == prompts.SHIPPED / prompts.PAPER
            assert any("are our wording" in each and pack in each for each in experiment.notes["differs"]), name
        assert experiment.notes["overlap"] and (published.figures or experiment.notes["claim"])
        for point, figures in published.figures.items():
            assert all(source.limit for source in experiment.points[point].questions), "as many as the paper's"
            assert {*figures} <= {*rows_of(experiment, point), *published.best_of, *published.missing}
            spreads += [each.spread for by in figures.values() for each in by.values() if each.spread is not None]
        assert bool(spreads) == (published.error != "none"), name


def test_questions_have_the_worked_examples_of_their_paper(tmp_path: Path) -> None:
    examples = papers()["cipher_table1"].points["llama-65b.arithmetic"].questions[0].task_demonstration
    assert len(examples) == 4 and examples[0].endswith("Answer: 27")
    source = "questions: {sample: arithmetic, examples: 'e.yaml:gsm9k'}\nrows: {one: {scheme: single}}"
    (tmp_path / "table.yaml").write_text(source)
    with pytest.raises(UsageError, match=r"file of worked examples '.*' cannot be read"):
        read_experiment(tmp_path / "table.yaml")
    (tmp_path / "e.yaml").write_text("gsm8k: [One.]")
    with pytest.raises(UsageError, match=r"unknown task in the file of worked examples 'e.yaml' 'gsm9k'; did you mean"):
        read_experiment(tmp_path / "table.yaml")


def cells_of(experiment: Experiment) -> Cells:
    """All figures that a file quotes, by model, part, row and metric; those that no row reproduces under "printed"."""
    assert experiment.published is not None
    cells: Cells = {
        (*point.rsplit(".", 1), row, metric): (tuple(each.runs), each.spread)  # type: ignore[misc]
        for point, rows in experiment.published.figures.items()
        for row, by in rows.items()
        for metric, each in by.items()
    }
    printed = experiment.notes.get("printed", {})
    return cells | {
        ("printed", n, row, ""): ((float(value),), None) for n, by in printed.items() for row, value in by.items()
    }


@cache
def typed(prefix: str) -> dict[str, Cells]:
    """Figures as they were typed from a paper, by file: "57.8;62.8" one a run, "60.0±2.3" with an error."""
    cells: dict[str, Cells] = {}
    for line in (PRINTED / f"{prefix}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        name, model, part, row, metric, figure = line.split("\t")
        runs, _, spread = figure.partition("±")
        figures = tuple(map(float, runs.split(";"))), float(spread) if spread else None
        assert (model, part, row, metric) not in cells.setdefault(name, {}), line
        cells[name][model, part, row, metric] = figures
    return cells


@pytest.mark.parametrize("prefix", PAPERS)
def test_every_cell_is_as_it_was_typed_from_the_paper_and_no_other_is_quoted(prefix: str) -> None:
    wanted = dict(typed(prefix))
    for name, experiment in papers().items():
        if name.startswith(f"{prefix}_"):
            assert cells_of(experiment) == wanted.pop(name, {}), name
    assert not wanted, "no file of these cells"


def test_sde_debates_as_the_paper_says() -> None:
    experiment, row = papers()["sde_table2"], papers()["sde_table2"].rows["sde.llama-8b.gsm8k"].settings
    assert (experiment.seeds, experiment.points["llama-8b.gsm8k"].questions[0].limit) == ([0, 1, 2], 300)
    wanted = {"agents": 2, "rounds": 3, "rule": "average", "max_tokens": 512, "layers": (17, 20), "protocol": "sde"}
    assert wanted.items() <= row.model_dump().items() and "temperature" not in row.model_fields_set


@pytest.mark.parametrize("name", ["cipher_table1", "cipher_figure3", "cipher_figure4"])
def test_cipher_has_the_temperatures_of_the_paper(name: str) -> None:
    """They were typed from the paper's Tables 3, 5, 6 and 7."""
    lines = (PRINTED / "temperatures.tsv").read_text(encoding="utf-8").splitlines()[1:]
    wanted = {f"{row}.{model}.{part}": t for file, model, part, row, t in map(str.split, lines) if file == name}
    assert wanted
    for run, temperatures in wanted.items():
        listed = [float(each) for each in temperatures.split(";")]
        assert papers()[name].rows[run].settings.temperature == listed, run


def test_layers_models_and_questions_are_those_of_the_papers() -> None:
    chosen = {"qwen-7b": (22,), "llama-8b": (17, 20), "qwen-14b": (21, 23, 33)}
    for name in ("sde_table1", "sde_table2", "sde_table3", "sde_table4", "sde_table5"):
        for row in papers()[name].rows.values():
            if row.settings.protocol in ("sde", "hidden"):
                assert row.settings.layers == chosen[row.point.rpartition(".")[0]], name
    for row in papers()["kvcomm_table1"].rows.values():
        if row.settings.protocol == "kv":
            assert row.settings.model_dump()["layer_alpha"] == (1 if row.point.startswith("llama") else 0.8)
    models = {
        "qwen-7b": "Qwen/Qwen2.5-7B-Instruct",
        "llama-8b": "meta-llama/Llama-3.1-8B-Instruct",
        "qwen-14b": "Qwen/Qwen2.5-14B-Instruct",
        "qwen-72b": "Qwen/Qwen2.5-72B-Instruct",
        "llama-70b": "meta-llama/Llama-3.1-70B-Instruct",
        "qwen-110b": "Qwen/Qwen1.5-110B-Chat-GPTQ-Int4",
        "gpt-4o": "hosted:openai:gpt-4o-2024-08-06",
    }
    for name in (each for each in papers() if each.startswith(("sde_", "rogue_"))):
        for label, point in papers()[name].points.items():
            assert point.settings["model"] == models[label.rpartition(".")[0]], name


# Contents of a file


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"figurs": {}}, "unknown key of 'published' 'figurs'; did you mean 'figures'?"),
        ({"figures": {"a.sums": {"tow": 1}}}, "unknown row in 'figures' 'tow'; did you mean 'two'?"),
        ({"figures": {"a.sums": {"two": {"acuracy": 1}}}}, "unknown metric in 'figures' 'acuracy'"),
        ({"figures": [1]}, "figures are [1]; expected lines like "),
    ],
)
def test_an_error_in_published_figures_is_one_line(more: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError) as refused:
        given(**more)
    assert error in str(refused.value)


def test_where_gives_settings_to_some_rows_at_some_points() -> None:
    points = {f"{model}.{data}": {"questions": {"sample": data}} for model in "ab" for data in ("facts", "split")}
    where = [
        {"rows": "two", "points": "*.split", "rounds": 3},
        {"rows": ["tw*"], "points": ["a.*"], "temperature": 0.5},
    ]
    rows = Experiment.model_validate({**GIVEN, "points": points, "where": where}).rows
    assert {name: row.settings.model_dump()["rounds"] for name, row in rows.items() if row.name == "two"} == {
        "two.a.facts": 2, "two.a.split": 3, "two.b.facts": 2, "two.b.split": 3,
    }  # fmt: skip
    assert [name for name, row in rows.items() if row.settings.temperature] == ["two.a.facts", "two.a.split"]


def test_another_model_and_another_folder_of_data_replace_those_of_a_file(tmp_path: Path) -> None:
    experiment = read_experiment(shipped()["rogue_table3"], 2, data=tmp_path, settings={"model": "bundled"})
    row = experiment.rows["single.qwen-72b.asym"].settings
    assert (row.model, row.watch[0]) == (["bundled"], str(tmp_path / "monitors/accuser.json"))
    (source,) = experiment.points["qwen-72b.asym"].questions
    assert (source.limit, source.printed) == (2, 180)
    (two,) = read_experiment(shipped()["cmd_figure5"], settings={"model": "bundled"}).points.values()
    assert two.settings["model"] == "bundled"


def test_a_setting_replaces_those_of_a_file_and_a_protocols_option_only_where_the_file_has_it() -> None:
    settings = {"model": "bundled", "max-tokens": 9, "layers": [1]}
    rows = read_experiment(shipped()["sde_table2"], settings=settings).rows
    assert {(*row.settings.model, row.settings.max_tokens) for row in rows.values()} == {("bundled", 9)}
    layers = {row.name: row.settings.layers for row in rows.values()}
    assert (layers["sde"], layers["nl"], layers["cipher"]) == ((1,), (), ())
    for wrong in ("modle", "scheme", "rows"):
        with pytest.raises(UsageError, match=f"unknown setting of all rows '{wrong}'"):
            read_experiment(shipped()["sde_table2"], settings={wrong: "x"})


# Published beside obtained


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, Run]:
    """Both questions of the sample; they get the same answers, one of which is right."""
    replies = {"agent_1": ["The answer is 7."] * 99, "agent_2": ["The answer is 8."] * 99}
    return run_experiment(given(), RowRunner(tmp_path, models=ScriptedChatModel(replies)))[0]


def lines_of(runs: Mapping[str, Run], **more: Any) -> dict[tuple[str, str], Compared]:
    return {(each.row, each.metric): each for each in compare_figures(given(**more), runs)}


def test_each_figure_is_compared_in_its_own_unit(runs: dict[str, Run]) -> None:
    lines = lines_of(runs)
    assert [*lines] == [("alone", "accuracy"), ("two", "accuracy"), ("two", "first")]
    spread, first = lines["two", "accuracy"], lines["two", "first"]
    assert spread.published is not None and spread.published.words == "60 ± 2.5"
    rightness = [result.score for result in runs["two.a.sums"].results() if result.score is not None]
    assert spread.ours is not None and (spread.ours.value, spread.ours.n) == (100 * sum(rightness) / 2, 2)
    assert first.published is not None and first.published.mean == pytest.approx(0.2)
    ((shown, assumed),) = published_table(given(), compare_figures(given(), runs))
    assert shown.rows[1][:4] == ("`two`", "a.sums", "accuracy", "60 ± 2.5") and "one line in twenty" in assumed


def test_answers_in_a_round_agreement_tokens_and_gains_are_metrics(runs: dict[str, Run]) -> None:
    metrics = {**PUBLISHED["metrics"], "gain": "score over alone"}
    figures = {"a.sums": {"two": {"first": 1, "agreement": 1, "gain": 3}}}
    ours = {metric: line.ours for (row, metric), line in lines_of(runs, metrics=metrics, figures=figures).items()}
    targets = [record.question["target"] for record in runs["two.a.sums"].records.values()]
    assert ours["agreement"] is not None and ours["agreement"].value == 0
    assert ours["first"] is not None and ours["first"].value == targets.count("7") / 2
    assert ours["gain"] is not None and (ours["gain"].value, ours["gain"].n) == (0, 2)
    results = Results([Result("1", tokens_out=5), Result("2", tokens_out=8), Result("3", tokens_out=None)])
    run = cast(Run, SimpleNamespace(results=lambda: results))  # scripted models count no tokens
    assert [*observed("tokens_out", "two", {"two": run})] == [("1", 5), ("2", 8)]


def test_rows_that_cannot_run_say_why(runs: dict[str, Run]) -> None:
    figures = {"a.sums": {"reflexion": 1, "two": {"accuracy": 1, "f1": 1}}}
    metrics = {**PUBLISHED["metrics"], "f1": "F1"}
    more = {"figures": figures, "metrics": metrics, "missing": {"reflexion": "no such scheme"}}
    lines = lines_of(runs, **more)
    assert lines["reflexion", "accuracy"].words == "cannot be run: no such scheme"
    assert lines["two", "f1"].words == "'F1' is not measured"
    alone = {name: run for name, run in runs.items() if name.startswith("alone")}
    assert lines_of(alone, **more)["two", "accuracy"].words == "not run"
    assert lines_of({}, **more) == {}
