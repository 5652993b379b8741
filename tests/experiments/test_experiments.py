"""Experiment files: errors in one line, rows that run once, and rows that resume in any folder."""

from __future__ import annotations

import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

import sottovoce.experiments
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.cli.experiment import findings_of
from sottovoce.core.errors import RecordError, UsageError
from sottovoce.experiments.files import read_experiment, save
from sottovoce.experiments.rows import prepare
from sottovoce.experiments.runner import RowRunner, run_experiment
from sottovoce.experiments.schema import Experiment, Matched
from sottovoce.report.comparison import Gathered, waiting
from sottovoce.report.tables import markdown
from sottovoce.runs.limits import Limits
from sottovoce.runs.log import Event
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run, load_run
from tests.datasets.test_question_files import SUMS, lines

ROWS = {"alone": {"scheme": "single"}, "pair": {"scheme": "debate", "rounds": 2}}
GIVEN = {"questions": {"sample": "arithmetic/1", "limit": 3}, "rows": ROWS}
CALLS = 3 * 1 + 3 * 2 * 2
AS_PAIR = {"scheme": "self-consistency", "matched": {"row": "pair"}}
SPLIT = {"questions": {"sample": "split"}}


def write_file(folder: Path, given: Any = GIVEN) -> Path:
    path = folder / "table.yaml"
    path.write_text(given if isinstance(given, str) else yaml.safe_dump(given, sort_keys=False))
    return path


def read(folder: Path, given: Any = GIVEN) -> Experiment:
    return read_experiment(write_file(folder, given))


def scripted() -> ScriptedChatModel:
    return ScriptedChatModel({f"agent_{i}": ["The answer is 7."] * 999 for i in (1, 2)})


def run(
    folder: Path,
    given: Any = GIVEN,
    model: Any = None,
    *,
    limits: Limits | None = None,
    show: Any = None,
    names: Any = (),
) -> tuple[dict[str, Run], str]:
    experiment = read_experiment(write_file(folder, given))
    runner = RowRunner(folder / "kept", limits, show, model or scripted())
    return run_experiment(experiment, runner, names=names)


def with_keys(**more: Any) -> dict[str, Any]:
    return {**GIVEN, **more}


def with_points(**more: Any) -> dict[str, Any]:
    """Return an experiment with two points, at which rows are asked one question and two."""
    points = {f"numbers{n}": {"questions": {"file": f"q{n}.jsonl", "limit": n}} for n in (1, 2)}
    return {"points": points, "rows": ROWS, "against": "alone", **more}


# The file


def test_samples_show_the_worked_examples_that_their_point_names() -> None:
    experiment = read_experiment(Path(sottovoce.experiments.__file__).parent / "two_facts.yaml", limit=3)
    plain, worked = (prepare(experiment, f"nl.{point}").questions for point in ("home", "home-worked"))
    assert len(plain) == 3 and not any("demonstrations" in each for each in plain)
    assert [len(each["demonstrations"]) for each in worked] == [4, 4, 4]


def test_rows_take_the_common_settings_that_their_scheme_has(tmp_path: Path) -> None:
    shared = {"rounds": 4, "temperature": 0, "max-tokens": 9, "guide": False}
    rows = {**ROWS, "hot": {"scheme": "self-consistency", "temperature": None, "max_tokens": 5}}
    found = read(tmp_path, with_keys(settings=shared, rows=rows)).rows
    assert [row.scheme for row in found.values()] == ["single", "debate", "self_consistency"]
    assert [row.settings.temperature for row in found.values()] == [[0.0], [0.0], []]
    assert [row.settings.max_tokens for row in found.values()] == [9, 9, 5]
    assert found["pair"].settings.model_dump()["rounds"] == 2
    assert {row.settings.guide for row in found.values()} == {"off"}  # as YAML 1.1 reads `off`


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (with_keys(questions={"smple": "split"}), "unknown key of questions 'smple'; did you mean 'sample'?"),
        (with_keys(rows={"a": {"scheme": "debate", "temprature": 0}}), "row 'a': unknown setting 'temprature'; did"),
        (with_keys(against="alon"), "unknown row in 'against' 'alon'; did you mean 'alone'?"),
        (
            with_keys(rows={"a": {"scheme": "debate", "intervention": "again"}}),
            "row 'a': 'intervention' needs a monitor, but no monitor is set; add 'watch', or drop it",
        ),
        (with_keys(rows={"a": {"rounds": 2}}), "row 'a': it has no scheme; choose from: "),
        (with_keys(rows={"a/b": {"scheme": "single"}}), "row 'a/b': the name is used for a folder"),
        (with_keys(questions={"limit": 3}), "questions come from one source; give exactly one of the keys"),
        (with_keys(seeds=[1, 1]), "seeds are 1, 1; give each once"),
        (with_keys(settings={"seed": 3}), "settings have a seed; give the experiment 'seeds'"),
        (with_keys(points={"a": SPLIT}), "there are both questions and points; expected a sample, a file, a list of"),
        (with_points(points={"a b": SPLIT}), "a point is 'a b'; expected only letters, digits"),
        (
            with_points(rows={"alone": {"scheme": "single", "points": ["facts2"]}}),
            "unknown point of row 'alone' 'facts2'; choose from: numbers1, numbers2 (exp",
        ),
        (
            with_points(points={"facts1": {**SPLIT, "settings": {"roundz": 2}}}),
            "unknown setting of point 'facts1' 'roundz'; did you mean 'rounds'?",
        ),
        (with_keys(rows={**ROWS, "a": {**AS_PAIR, "samples": 3}}), "row 'a': samples follow from the row that it is m"),
        (with_keys(rows={"a": AS_PAIR}), "unknown row in 'matched' of 'a' 'pair'; choose from: a"),
        (with_keys(rows={"a": AS_PAIR, **ROWS}), "row 'a' is matched to 'pair', which is not before it; rows run in"),
        (with_keys(rows={**ROWS, "a": {**AS_PAIR, "scheme": "single"}}), "row 'a': single cannot be matched; write"),
        (with_keys(floor="alone"), "'floor' is compared at each point, but the experiment has no points"),
        ("rows:\n  a: {scheme: single}\n  a: {scheme: debate}\n", "is not YAML: the key 'a' occurs twice"),
        ("- a", "contains list; expected lines like"),
        (
            with_points(
                points=dict.fromkeys(("b.c", "c"), SPLIT),
                rows={name: {"scheme": "single"} for name in ("alone", "a", "a.b")},
            ),
            "the runs of 'a' at point 'b.c' and 'a.b' at point 'c' would be in one folder, 'a.b.c'; rename",
        ),
    ],
)
def test_an_error_in_a_file_is_one_line_with_the_file(tmp_path: Path, given: Any, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, given)
    line = str(caught.value)
    assert error in line and "table.yaml" in line and "\n" not in line


def test_names_stay_as_they_are_written(tmp_path: Path) -> None:
    """They were numbers: 01 was row 1, 1.0 another one, and `on` was True."""
    rows = "".join(f"  {name}: {{scheme: single, points: [01, 1]}}\n" for name in ("1", "01", "1.0", "on", "1_0"))
    points = "".join(f"  {name}: {{questions: {{sample: split, limit: 1}}}}\n" for name in ("1", "01"))
    where = "where:\n- {rows: [01, on], points: 01, max-tokens: 7}\n"
    experiment = read(tmp_path, f"points:\n{points}rows:\n{rows}{where}against: 01\nfloor: null\n")
    save(experiment.content, tmp_path / "kept", ["01"])
    again = read_experiment(tmp_path / "kept")

    for found in (experiment, again):
        assert [*found.rows] == [f"{row}.{point}" for row in ("1", "01", "1.0", "on", "1_0") for point in ("1", "01")]
        assert [name for name, row in found.rows.items() if row.settings.max_tokens == 7] == ["01.01", "on.01"]
        assert (found.against, found.floor) == ("01", None)


def test_question_files_of_different_points_have_different_names(tmp_path: Path) -> None:
    """The second file of point `a` was the first of point `a1`, and the first of both `a` and `a.jsonl` was one."""
    files = ["q0.jsonl", "q1.jsonl", "q2.jsonl", "q3"]
    for number, name in enumerate(files):
        (tmp_path / name).write_text(f"{number}")
    sources = [{"file": name} for name in files]
    points = {"a": {"questions": sources[:2]}, "a1": {"questions": sources[2]}, "a.jsonl": {"questions": sources[3]}}

    save(read(tmp_path, with_points(points=points)).content, tmp_path / "kept", points)
    again = read_experiment(tmp_path / "kept").content
    again["points"]["a"]["questions"].reverse()  # as edited there: neither is copied over the other
    save(again, tmp_path / "kept", points)

    found = [each.file for point in read_experiment(tmp_path / "kept").points.values() for each in point.questions]
    assert [file.read_text() for file in found if file] == ["1", "0", "2", "3"]
    assert all(file and "+" in file.name for file in found)  # as no row may be called


def test_words_for_yes_and_no_are_words_and_switches_take_them(tmp_path: Path) -> None:
    """YAML 1.1 reads them as booleans: an agent's system prompt was True."""
    settings = "{guide: on, answer-turn: off, thinking: off, demonstrations: no, exact: true, system: yes}"
    found = read(tmp_path, f"settings: {settings}\nquestions: {{sample: split}}\nrows: {{a: {{scheme: single}}}}\n")
    of = found.rows["a"].settings
    assert (of.guide, of.answer_turn, of.thinking, of.demonstrations, of.exact) == ("on", "off", False, False, True)
    assert of.system == ["yes"]


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "there" / "pack").mkdir(parents=True)
    lines(tmp_path / "there", *SUMS)
    given = {"questions": {"file": "q.jsonl"}, "rows": {"a": {"scheme": "single", "prompts": "pack"}}}
    monkeypatch.chdir(tmp_path)
    experiment = read(tmp_path / "there", given)
    assert experiment.questions[0].file == tmp_path / "there" / "q.jsonl"
    assert experiment.rows["a"].settings.prompts == str(tmp_path / "there" / "pack")
    assert experiment.rows["a"].settings.model == ["bundled"]


# Questions and documents


def test_all_rows_have_the_same_questions_with_documents_dealt_to_their_own_agents(tmp_path: Path) -> None:
    rows = {**ROWS, "trio": {"scheme": "debate", "agents": 3}, "sides": {"scheme": "mad"}}
    experiment = read(tmp_path, with_keys(rows=rows, questions={"sample": "split/5", "limit": 4}))
    asked = {name: prepare(experiment, name).questions for name in rows}
    same = {tuple((each["id"], each["question"], each["target"]) for each in found) for found in asked.values()}
    assert len(same) == 1
    owners = {name: list(found[0]["documents"]) for name, found in asked.items()}
    assert owners["trio"] == ["agent_1", "agent_2", "agent_3"] and owners["sides"] == ["affirmative", "negative"]


def test_a_row_may_keep_some_documents_of_some_agents(tmp_path: Path) -> None:
    rows = {
        "first": {"scheme": "single", "documents": {"agent_1": [1]}},
        "last": {"scheme": "single", "documents": {"agent_1": [2]}},
        "withheld": {"scheme": "debate", "documents": {"agent_1": "all"}},
        "dealt": {"scheme": "debate"},
    }
    experiment = read(tmp_path, with_keys(rows=rows, questions={"sample": "facts/1", "limit": 2}))

    asked = {name: prepare(experiment, name).questions for name in rows}

    for i in range(2):
        of = {name: questions[i]["documents"] for name, questions in asked.items()}
        facts = [of[name]["agent_1"][0]["text"] for name in ("first", "last")]  # type: ignore[call-overload, index]
        assert asked["dealt"][i]["solution"].startswith(" ".join(facts))
        kept = of["withheld"]["agent_1"]  # type: ignore[call-overload]
        assert list(of["withheld"]) == ["agent_1"]
        assert [each["text"] for each in kept] == of["dealt"]["agent_1"]  # type: ignore[call-overload, index]


@pytest.mark.parametrize(
    ("documents", "error"),
    [
        ({"agent_1": [3]}, "row 'a': question 'facts/1/0' has 2 documents for agent_1, and the row keeps number 3"),
        ({"agnet_1": "all"}, "row 'a': unknown agent among the documents 'agnet_1'; did you mean 'agent_1'?"),
    ],
)
def test_unknown_documents_and_agents_are_refused(tmp_path: Path, documents: Any, error: str) -> None:
    rows = {"a": {"scheme": "single", "documents": documents}}
    experiment = read(tmp_path, with_keys(rows=rows, questions={"sample": "facts/1", "limit": 2}))
    with pytest.raises(UsageError, match=error):
        prepare(experiment, "a")


# Holding


def test_each_row_is_a_run_in_its_folder_and_runs_once(tmp_path: Path) -> None:
    first, second = scripted(), scripted()
    run(tmp_path, model=first)
    runs, why = run(tmp_path, model=second)
    assert (len(first.calls), len(second.calls), why) == (CALLS, 0, "")
    assert [load_run(tmp_path / "kept" / name).manifest.scheme for name in ROWS] == ["single", "debate"]
    assert {run.status for run in runs.values()} == {"done"}


def test_chosen_rows_run_and_results_keep_the_order_of_the_file(tmp_path: Path) -> None:
    assert [*run(tmp_path, names=["pair"])[0]] == ["pair"]
    assert [*run(tmp_path, names=["alone"])[0]] == ["alone", "pair"]


class Stop(KeyboardInterrupt):
    """As Ctrl-C, at a moment that a test chooses."""


def stop_after(after: int) -> Any:
    """Return a `show` that stops after so many messages of all rows."""
    messages = []

    def shown(name: str, run: Run) -> Any:
        def observe(record: DiscussionRecord, event: Event) -> None:
            messages.extend([event] if isinstance(event, Message) else [])
            if len(messages) >= after:
                raise Stop

        return nullcontext(observe)

    return shown


@pytest.mark.parametrize("after", [4, *(pytest.param(after, marks=pytest.mark.slow) for after in (1, 8))])
def test_a_stopped_experiment_resumes_also_in_another_folder(tmp_path: Path, after: int) -> None:
    first, second = scripted(), scripted()
    with pytest.raises(Stop):
        run(tmp_path, model=first, show=stop_after(after), limits=Limits(at_once=1))
    shutil.move(tmp_path / "kept", tmp_path / "moved")

    experiment = read_experiment(tmp_path / "moved" / "experiment.yaml")
    runs, _ = run_experiment(experiment, RowRunner(tmp_path / "moved", models=second))

    assert sum(run.cost.calls for run in runs.values()) == CALLS
    assert len(second.calls) <= CALLS - after
    answers, unbroken = (
        {name: run.results()[0].answer for name, run in each.items()} for each in (runs, run(tmp_path)[0])
    )
    assert answers == unbroken


def test_a_folder_is_of_one_file_wherever_they_are_moved(tmp_path: Path) -> None:
    """Two files of one name were run into one folder."""
    kept, (first, second) = tmp_path / "kept", (tmp_path / name for name in ("a", "b"))
    for folder in (first, second):
        folder.mkdir()
    run_experiment(read(first), RowRunner(kept, models=scripted()))
    before = (kept / "experiment.yaml").read_text()

    wrong = "kept' belongs to '.*a/table.yaml', not to '.*b/table.yaml'; choose another with --save FOLDER"
    with pytest.raises(UsageError, match=wrong):
        run_experiment(read(second, with_keys(rows={"more": {"scheme": "single"}})), RowRunner(kept, models=scripted()))

    assert (kept / "experiment.yaml").read_text() == before
    moved, model = kept.rename(tmp_path / "moved"), scripted()
    run_experiment(read(first), RowRunner(moved, models=model))
    run_experiment(read_experiment(moved), RowRunner(moved, models=model))
    (first / "table.yaml").unlink()  # moved to the other place
    run_experiment(read(second), RowRunner(moved, models=model))
    assert model.calls == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            with_keys(rows={**ROWS, "pair": {"scheme": "debate", "rounds": 3}}),
            "row 'pair' was started with other settings (rounds 2, now 3); put that back, remove '.*pair' to run",
        ),
        (with_keys(questions={"sample": "arithmetic/1", "limit": 2}), "row 'alone' was started with other questions"),
    ],
)
def test_a_changed_row_is_refused_with_the_remedy(tmp_path: Path, given: Any, error: str) -> None:
    run(tmp_path)
    before = (tmp_path / "kept" / "experiment.yaml").read_text()
    with pytest.raises(RecordError, match=error.replace("(", r"\(").replace(")", r"\)")):
        run(tmp_path, given)
    assert (tmp_path / "kept" / "experiment.yaml").read_text() == before


def test_a_limit_counts_for_all_rows_together(tmp_path: Path) -> None:
    runs, why = run(tmp_path, limits=Limits(at_once=1, call_limit=6))
    calls = sum(run.cost.calls for run in runs.values())
    assert why == f"the call limit is reached: {calls} of 6" and 6 <= calls <= 7  # agents speak side by side
    assert run(tmp_path, limits=Limits(call_limit=6))[1] == why  # and no further call is made
    assert run(tmp_path)[1] == ""


def test_a_limit_of_tokens_holds_for_later_rows_where_a_server_reports_none(tmp_path: Path) -> None:
    run(tmp_path, names=["pair"])
    model = scripted()
    _, why = run(tmp_path, model=model, limits=Limits(token_limit=1_000_000))
    assert why.startswith("the token limit cannot be kept: no tokens were reported for 12 of 12 calls")
    assert model.calls == []


# Points


def test_each_row_is_a_run_at_each_of_its_points_and_refers_to_rows_at_the_same_one(tmp_path: Path) -> None:
    pair = {"scheme": "debate", "protocol": "sde"}
    rows = {
        "alone": ROWS["alone"],
        "pair": pair,
        "same": {**pair, "probe": "shuffled", "probe-from": "pair", "points": "numbers2"},
        "samples": {**AS_PAIR, "temperature": 1, "points": ["numbers1"]},
    }
    points = with_points()["points"]
    points["numbers2"]["settings"] = {"max-tokens": 7}

    found = read(tmp_path, with_points(points=points, rows=rows))

    names = "alone.numbers1 alone.numbers2 pair.numbers1 pair.numbers2 same.numbers2 samples.numbers1"
    assert [*found.rows] == names.split()
    assert found.rows["same.numbers2"].settings.probe_from == "pair.numbers2"
    assert found.rows["samples.numbers1"].matched == Matched(row="pair.numbers1")
    assert [row.settings.max_tokens == 7 for row in found.rows.values()] == [False, True, False, True, True, False]
    assert [source.limit for name in ("pair.numbers1", "same.numbers2") for source in found.sources(name)] == [1, 2]
    assert found.axis == ("numbers", {"numbers1": 1, "numbers2": 2})
    assert found.runs_of(["alone", "same.numbers2"]) == ["alone.numbers1", "alone.numbers2", "same.numbers2"]


def test_an_experiment_with_points_runs_once_and_is_compared_point_by_point(tmp_path: Path) -> None:
    for n in (1, 2):
        lines(tmp_path, *SUMS).rename(tmp_path / f"q{n}.jsonl")
    given = with_points(floor="alone")

    run(tmp_path, given, names=["alone"])
    for n in (1, 2):
        (tmp_path / f"q{n}.jsonl").unlink()
    experiment = read_experiment(tmp_path / "kept")  # its files are beside it
    runs, _ = run_experiment(experiment, RowRunner(tmp_path / "kept", models=scripted()))
    text = markdown(*findings_of(experiment, runs).parts)

    asked = {name: len(run.records) for name, run in runs.items()}
    assert asked == {"alone.numbers1": 1, "alone.numbers2": 2, "pair.numbers1": 1, "pair.numbers2": 2}
    assert "| row | point | right | 95 % | bytes a message | positions | seconds, in parallel | numbers per k" in text
    assert "| `pair.numbers2` | `alone.numbers2` | 2 |" in text and text.count("| `alone.numbers1` |") == 2


# Under the table


def test_unfinished_rows_are_listed_and_failed_ones_are_not_called_so(tmp_path: Path) -> None:
    runs, _ = run(tmp_path, names=["pair"], limits=Limits(at_once=1, call_limit=5))
    text = markdown(*findings_of(read(tmp_path), runs).parts)
    assert "- `pair`: 2 of 3 are not over.\n- `alone`: not started." in text
    runs, _ = run(tmp_path, names=["pair"])
    record = next(iter(runs["pair"].records.values()))
    record.status, record.decision = "failed", None
    assert waiting(runs) == ["- `pair`: 1 of 3 failed."]
    assert Gathered(runs).unfinished == "3 of 3 discussions ended (failed: pair)"


# Data sets


def test_questions_of_several_data_sets_are_pooled_in_their_order_and_refused_if_two_are_one(tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text('{"question": "1 + 1?", "answer": "so\\n#### 2"}\n' * 3)
    (tmp_path / "m.csv").write_text("Which?,1,2,3,4,B\n")
    sums: dict[str, Any] = {"dataset": "gsm8k", "file": "g.jsonl", "limit": 2}
    pool = [sums, {"dataset": "mmlu/sums", "file": "m.csv"}]

    runs, _ = run(tmp_path, with_keys(questions=pool), names=["alone"])
    for name in ("g.jsonl", "m.csv"):
        (tmp_path / name).rename(tmp_path / f"moved-{name}")
    again = read_experiment(tmp_path / "kept" / "experiment.yaml")  # copies of its files lie beside it
    run_experiment(again, RowRunner(tmp_path / "kept", models=scripted()))

    assert [each["id"] for each in runs["alone"].questions()] == ["gsm8k/0", "gsm8k/1", "mmlu/sums/0"]
    origin = r"2 of 3 rows of gsm8k \(questions\+.{8}\.jsonl\); all 1 row of mmlu/sums \(questions\+.{8}\.csv\)"
    assert re.fullmatch(origin, prepare(again, "alone").origin or "")
    with pytest.raises(UsageError, match=r"two of the questions have the id 'gsm8k/0'; name the part"):
        prepare(read(tmp_path, with_keys(questions=[{**sums, "file": "moved-g.jsonl"}] * 2)), "alone")
