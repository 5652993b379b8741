"""A report as a file: what it holds, what it says of unfinished runs, and what a model's text cannot do to it."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.analysis.compare import compare
from sottovoce.channels.store import PayloadStore
from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import RecordError
from sottovoce.models import load
from sottovoce.report import describe, viewer
from sottovoce.report.comparison import Gathered, comparison_of, gathered, tables
from sottovoce.report.plots import plots
from sottovoce.report.report import report
from sottovoce.report.viewer import Tensors, Words, items
from sottovoce.runs.run import Run
from sottovoce.runs.run_directory import find_run
from tests.report.reported import HOSTILE, cipher, scripted, unfinished, withheld
from tests.runs.support import carrying, held


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A kept CIPHER debate on one question."""
    return cipher(tmp_path_factory.mktemp("spoken") / "run", questions=1)


def unpacked(made: dict[str, Any]) -> list[float]:
    """As the page's script reads it."""
    found = np.frombuffer(b64decode(made["b"]), "<u4" if made.get("wide") else "<u2")
    return [float(each) for each in found * made["x"]]


def data(page: str, name: str) -> JSONValue:
    [found] = re.findall(rf'<script type="application/json" id="data-{name}">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def test_numbers_come_out_of_the_page_as_they_went_in() -> None:
    assert unpacked(viewer.counts(np.array([0, 7, 65535]))) == [0, 7, 65535]
    assert unpacked(viewer.counts(np.array([0, 70000]))) == [0, 70000]
    fractions = viewer.fractions(np.array([0.0, 1.8694, 100.0]), 0.001)
    assert unpacked(fractions) == pytest.approx([0, 1.869, 65.535], abs=1e-4)
    assert unpacked(viewer.scaled(np.array([[0.0, 3.0], [1.5, 6.0]]))) == pytest.approx([0, 3, 1.5, 6], abs=1e-4)
    assert unpacked(viewer.scaled(np.zeros(2))) == [0, 0] and unpacked(viewer.counts(np.zeros(0))) == []


def test_tokens_end_where_javascript_counts_them(tmp_path: Path) -> None:
    run = scripted(tmp_path)
    said = run.only.messages[0]
    store = PayloadStore(tmp_path / "payloads")
    message = carrying(type(said)(**{**vars(said), "text": "a\U0001f600b"}), [(0, 1), (1, 2), (2, 3)], [0.0] * 3, store)

    found = Tensors(Words()).of(message)

    assert found is not None and unpacked(found["end"]) == [1, 3, 4]


def test_what_lay_under_a_cipher_message_is_told_in_words(spoken: Run) -> None:
    store, words = spoken.store(), Words()
    words.learn(spoken.manifest)
    said = spoken.only.messages[0]
    found = Tensors(words).of(said)
    payload = said.payload.load(store) if said.payload else None

    assert found is not None and payload is not None and words.notes == []
    first = words.texts[int(unpacked(found["alt"]["word"])[0])]
    assert first == load().tokenizer.decode([int(payload.tensors["top_ids"][0, 0])])
    weights = unpacked(found["near"]["p"])
    assert weights[0] == pytest.approx(float(payload.tensors["sparse.weights"][0, 0]), abs=1e-4)
    assert sum(unpacked(found["near"]["n"])) == len(weights) >= len(payload)


def test_what_a_payload_says_of_its_model_opens_nothing(spoken: Run, tmp_path: Path) -> None:
    store, words = PayloadStore(tmp_path / "payloads"), Words()
    words.learn(spoken.manifest)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    said = spoken.only.messages[0]
    payload = said.payload.load(spoken.store())  # type: ignore[union-attr]
    label = replace(payload.label, model=str(tmp_path / "m.gguf"))

    found = Tensors(words).of(replace(said, payload=store.put(type(payload)(label, payload.tensors))))

    assert found is not None and "alt" in found and words.notes == [] and not words.texts[0].startswith("#")
    assert viewer.text_of(2**40, load().tokenizer) == f"#{2**40}"  # no payload is trusted with a token either


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (None, "no manifest names a model with their vocabulary"),
        ("./gone", "unknown model './gone'"),
        ("nobody/has-this", "model 'nobody/has-this' is not on this machine"),
        ("{}/m.gguf", "m.gguf' is not on this machine, and a saved run does not fetch or convert it"),
    ],
)
def test_a_model_that_is_not_here_leaves_numbers_of_tokens_and_a_note(
    model: str | None, why: str, spoken: Run, tmp_path: Path
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    words, own = Words(), spoken.manifest.models["agent_1"]
    if model is not None:
        named = {"agent_1": own.model_copy(update={"model": model.format(tmp_path)})}
        words.learn(spoken.manifest.model_copy(update={"models": named}))

    words.numbers(np.array([5, 7]), own.vocabulary)

    assert words.texts == ["#5", "#7"] and len(words.notes) == 1 and why in words.notes[0]


def test_discussions_come_first_and_digests_last(spoken: Run) -> None:
    page = report(Gathered({"run": spoken}))
    order = ("said", "headline", "plots", "numbers", "run", "cards")
    sections = [page.index(f'<section id="{name}"') for name in order]
    facts = page[page.index('<section id="run"') : page.index('<section id="cards"')]

    assert sections == sorted(sections)
    assert facts.rindex("<tr>") < facts.index(spoken.manifest.prompts[:12])


def test_the_figures_are_those_of_compare(tmp_path: Path) -> None:
    one, two = scripted(tmp_path / "one", 2), scripted(tmp_path / "two", 2)

    page = report(Gathered({"one": one, "two": two}))

    told = tables(compare({"one": one.results(), "two": two.results()}))
    cells = [cell for table in told for row in table.rows for cell in row[1:] if cell]
    assert len(told) == 2 and all(f"<td>{cell.replace('`', '')}</td>" in page for cell in cells)


def test_a_report_of_an_unfinished_run_says_so_first(tmp_path: Path) -> None:
    page = report(Gathered({"run": unfinished(scripted(tmp_path, 3))}))

    body = page.partition("<body>")[2].split("\n")[1]
    assert "unfinished: 2 of 3 discussions ended (open: run)" in body
    assert [row["outcome"] for row in data(page, "index")] == ["right", "right"]


def test_text_of_a_model_ends_no_element(tmp_path: Path) -> None:
    page = report(Gathered({HOSTILE: scripted(tmp_path)}))

    assert HOSTILE not in page and "<img" not in page
    stored = re.findall(r'<script type="application/json" class="discussion">(.*?)</script>', page)
    assert any(HOSTILE in item["text"] for item in json.loads(stored[0]))


def test_what_was_withheld_stands_before_what_replaced_it_with_the_score_of_the_trigger(tmp_path: Path) -> None:
    run = scripted(tmp_path)

    found = items(withheld(run.only), Tensors(Words()))

    at = next(i for i, item in enumerate(found) if item["text"] == "I am lost.")
    assert found[at]["mark"] == "withdrawn by a monitor: no agent read it"
    assert found[at + 1]["text"] == "again at agent_2 (score 0.83): the monitor scores 0.83"
    assert found[at + 2]["text"] == run.only.messages[-1].text and "mark" not in found[at + 2]


def test_a_message_was_heard_where_the_log_says_so_and_in_that_form(tmp_path: Path) -> None:
    record = scripted(tmp_path).only

    for form, part, told in (
        ("words", False, "words"),
        ("payload", False, "cipher: "),
        ("replaced", True, "a part of it: cipher: "),
    ):
        for prompt in record.prompts:
            prompt.heard = [{**each, "form": form, "part": part} for each in prompt.heard or []]  # type: ignore[typeddict-item]  # of the cases
        edges = describe.edges(record)

        said = [(each.message.agent, each.message.round, each.before.agent, each.before.round) for each in edges]
        assert said == [("agent_2", 0, "agent_1", 1), ("agent_1", 0, "agent_2", 1)]
        assert all(each.form.startswith(told) for each in edges)
    assert all(each.form.endswith(", replaced by a probe's") for each in edges)


def test_nobody_hears_anybody_whose_messages_a_control_replaces(tmp_path: Path) -> None:
    """The number of another agent's answer may stand in the question, which a search for words took for hearing."""
    record = held({"agent_1": ["2", "2"], "agent_2": ["2", "2"]}, tmp_path, control="empty")

    assert len(record.prompts) == 4 and describe.edges(record) == []
    assert record.notes == ["control empty: agents read nothing in place of the others' messages"]
    assert describe.edges(held({"agent_1": ["2", "2"], "agent_2": ["2", "2"]}, tmp_path)) != []


def test_cards_hold_the_head_of_the_log_and_its_digest(spoken: Run) -> None:
    card = data(report(Gathered({"run": spoken})), "cards")["run"]

    assert spoken.folder is not None
    first = json.loads((spoken.folder / "log.jsonl").read_text().split("\n")[0])
    head = {name: value for name, value in first.items() if name not in ("line", "format", "version")}
    assert {name: card[name] for name in head} == head
    assert card["counts"]["done"] == 1


def test_plots_have_titles_and_legends_with_names_that_matplotlib_would_hide_or_has_no_letters_for(spoken: Run) -> None:
    runs = {"_mine": spoken, "漢字": spoken}
    for plot in plots(runs, comparison_of(runs).runs):  # a warning is an error here
        assert all(f"{name}</text>" in plot.svg for name in runs)
        assert "<title>" + plot.caption.split(":")[0] in plot.svg


def test_an_experiments_folder_is_all_its_rows_against_the_one_it_names(spoken: Run, tmp_path: Path) -> None:
    assert spoken.folder is not None
    folder = tmp_path / "table"
    shutil.copytree(spoken.folder, folder / "two")
    rows = {"one": {"scheme": "single"}, "two": {"scheme": "debate", "protocol": "cipher"}}
    about = {"about": "Does it help?", "questions": {"sample": "arithmetic"}, "rows": rows, "against": "two"}
    (folder / "experiment.yaml").write_text(json.dumps(about))

    found = gathered([str(folder)])

    assert ([*found.runs], found.against, found.about) == (["two"], "two", ["Does it help?"])
    assert found.unfinished == "unfinished: 1 of 1 discussion ended (not started: one)"
    with pytest.raises(RecordError, match="contains experiments, 'table'; report one of them"):
        gathered([str(tmp_path)])
    with pytest.raises(RecordError, match=r"is not a run but contains some: 'two'; name one of them: '.*two'"):
        find_run(str(folder))


def test_what_a_paper_prints_of_an_experiments_rows_is_in_its_report(spoken: Run, tmp_path: Path) -> None:
    assert spoken.folder is not None
    shutil.copytree(spoken.folder, tmp_path / "cipher.sums")
    points = {"sums": {"questions": {"sample": "arithmetic", "limit": 1}}}
    published = {"paper": "Ours", "metrics": {"EM": "score"}, "percent": ["EM"], "figures": {"sums": {"cipher": 88.7}}}
    given = {"points": points, "rows": {"cipher": {"scheme": "debate", "protocol": "cipher"}}, "published": published}
    (tmp_path / "experiment.yaml").write_text(json.dumps(given))

    assert "<td>88.7</td>" in report(gathered([str(tmp_path)]))
