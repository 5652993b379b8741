"""The live page: whom its server answers, what a form may ask, and how a page grows, in a browser."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from filelock import FileLock
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from starlette.testclient import TestClient

from sottovoce.core.errors import SottovoceError
from sottovoce.report.comparison import Gathered
from sottovoce.report.live import Live, Request
from sottovoce.report.report import report
from sottovoce.report.server import HOST, server
from sottovoce.runs.run import load_run
from sottovoce.runs.run_directory import LOCK, LOG
from tests.report.reported import PLACES, cipher, hostile, poisoned

TOKEN = "t" * 32
FORM = {"scheme": "debate", "protocol": "nl", "model": "bundled", "question": "What is 2 + 3 * 4?"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CIPHER debate of the bundled model on two questions."""
    folder = tmp_path_factory.mktemp("kept") / "cipher"
    cipher(folder)
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of saved runs, empty."""
    monkeypatch.setenv("SOTTOVOCE_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@contextmanager
def serving(live: Live) -> Iterator[str]:
    """The address of a live page."""
    config = uvicorn.Config("", log_level="error")
    running = uvicorn.Server(config)
    config.app = server(live, TOKEN, lambda: running.should_exit)
    with socket.create_server((HOST, 0)) as listening:  # a browser that comes early waits
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}/?token={TOKEN}"
        finally:
            running.should_exit = True
            thread.join()


def until(browser: webdriver.Chrome, script: str) -> Any:
    return WebDriverWait(browser, 60).until(lambda _: browser.execute_script(f"return {script}"))


def shown(browser: webdriver.Chrome, what: str) -> list[str]:
    """Return the texts of such elements in one step, since the page may draw one anew at any moment."""
    script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText.trim())"
    return list(browser.execute_script(script, what))


# Whom the server answers


@pytest.mark.parametrize(
    ("method", "query", "headers", "status"),
    [
        ("GET", f"/?token={TOKEN}", {}, 200),
        ("GET", "/", {}, 403),
        ("GET", "/?token=other", {}, 403),
        ("GET", "/?token=%C3%A9", {}, 403),
        ("GET", f"/?token={TOKEN}", {"host": "rebound.example"}, 400),
        ("GET", f"/discussion?d=0&words=0&token={TOKEN}", {"origin": "http://other.example"}, 403),
        ("GET", "/events?since=0", {}, 403),
        ("POST", f"/start?token={TOKEN}", {}, 403),
        ("POST", f"/start?token={TOKEN}", {"origin": "http://127.0.0.1:1"}, 403),
        ("GET", f"/run?n=../../etc&since=0&token={TOKEN}", {}, 400),
        ("GET", f"/discussion?d=99&words=0&token={TOKEN}", {}, 400),
        ("GET", f"/page.css?token={TOKEN}", {}, 404),
    ],
)
def test_only_the_holder_of_the_address_is_answered(
    method: str, query: str, headers: dict[str, str], status: int, run: Path
) -> None:
    client = TestClient(server(Live([str(run)]), TOKEN, lambda: True), base_url=f"http://{HOST}")

    answer = client.request(method, query, headers=headers)

    assert answer.status_code == status
    if status == 200:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"model": "/etc"}, "unknown model '/etc'; this graph offers: bundled"),
        ({"model": "hosted:openai:gpt"}, "unknown model"),
        ({"protocol": "other"}, "unknown protocol"),
        ({"scheme": "whodunit"}, "unknown scheme"),
        ({"question": " "}, "the question is empty"),
        ({"question": "\0"}, "the question is empty"),
        ({"documents": ["x"] * 1_001}, "List should have at most 1000 items"),
        ({"documents": ["agent_9=x"]}, "agent_9"),
    ],
)
def test_a_form_asks_for_names_that_are_offered(asked: dict[str, Any], why: str, runs: Path) -> None:
    with pytest.raises(SottovoceError, match=why):
        Live([]).start(Request(**{**FORM, **asked}))
    assert not [*runs.iterdir()]


# What it reads


def test_a_damaged_run_is_a_row_that_is_read_again_only_when_its_log_changes(run: Path, runs: Path) -> None:
    # Seen: it was read twice a second for each reader, and no answer came meanwhile.
    live, sound, log = Live([]), (run / LOG).read_bytes(), prepared(runs / "damaged") / LOG
    log.write_bytes(sound.replace(b'"line":"asked"', b'"line":"awked"', 1))
    live.follow()
    assert (live.runs[0].about["status"], "line is 'awked'" in live.runs[0].about["about"]) == ("damaged", True)

    before = log.stat()
    log.write_bytes(sound)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    live.follow()
    assert live.runs[0].about["status"] == "damaged"

    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    live.follow()
    assert (live.runs[0].about["status"], len(live.rows)) == ("done", 2)


def test_a_folder_of_runs_stands_for_its_runs_and_for_those_to_come(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "one")
    live = Live([str(tmp_path), str(run)])
    shutil.copytree(run, tmp_path / "two")
    live.follow()

    assert [listed.about["name"] for listed in live.runs] == [run.name, "one", "two"]
    assert {listed.about["status"] for listed in live.runs} == {"done"}


def test_no_answer_waits_for_a_log_that_another_thread_reads(run: Path) -> None:
    live = Live([str(run)])
    with live.runs[0].reading:
        live.follow()
        assert len(live.changes(-1)["rows"]) == len(live.search("")) == 2
        assert live.discussion(0, 0)["items"]


# In a browser


def test_a_discussion_grows_as_its_log_grows(run: Path, runs: Path, session: webdriver.Chrome) -> None:
    lines = (run / LOG).read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"said"' in line) + 1
    with serving(Live([])) as address, FileLock(prepared(runs / "growing") / LOCK):
        session.get(address)
        (runs / "growing" / LOG).write_bytes(b"".join(lines[:at]))
        until(session, "RUNS.length === 1 && INDEX.length > 0")
        assert "live" in shown(session, "#runs .row")[0]
        session.execute_script("chooseRun(0)")
        until(session, "list.shown.size > 0")
        session.execute_script("list.pick(0)")
        until(session, "document.querySelectorAll('#items .said').length === 1")
        with (runs / "growing" / LOG).open("ab") as log:
            log.write(b"".join(lines[at:]))
        until(session, "RUNS[0].status === 'done' && document.querySelectorAll('#items .said').length === 4")

        assert "right" in shown(session, "#discussions .row")[0]
        session.execute_script("field('back').click()")
        until(session, "runList.shown.size > 0")

    [row] = shown(session, "#runs .row")
    assert "live" not in row and "100% of 2" in row


def prepared(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_form_starts_a_run_and_shows_it(runs: Path, session: webdriver.Chrome) -> None:
    with serving(Live([])) as address:
        session.get(address)
        session.find_element(By.CSS_SELECTOR, "#start summary").click()
        Select(session.find_element(By.NAME, "protocol")).select_by_visible_text("cipher")
        session.find_element(By.NAME, "question").send_keys(FORM["question"])
        session.find_element(By.CSS_SELECTOR, "#ask button").click()
        until(session, "RUNS[0]?.status === 'done' && document.querySelectorAll('#items .t').length > 9")
        assert shown(session, "#trouble") == [""]

    [folder] = runs.iterdir()
    assert load_run(folder).only.question["question"] == FORM["question"]


def test_keys_go_through_runs_questions_and_tokens_with_one_tab_stop_each(
    run: Path, runs: Path, session: webdriver.Chrome
) -> None:
    with serving(Live([str(run)])) as address:
        session.get(address)
        stops = session.execute_script(
            "return [...document.querySelectorAll('#discussions [tabindex], #items .t[tabindex]')]"
        )
        session.execute_script("field('runs').focus()")
        session.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
        until(session, "document.activeElement.id === 'discussions' && list.shown.size > 0")
        session.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        active = session.switch_to.active_element.get_attribute("aria-activedescendant")
        option = session.find_element(By.ID, str(active))
        until(session, "document.querySelectorAll('#items .t').length > 9")
        session.execute_script("field('items').focus()")
        session.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        second = shown(session, "#token .aside")[0]
        session.switch_to.active_element.send_keys(Keys.ARROW_DOWN)

        assert stops == [] and option.get_attribute("aria-selected") == "true"
        assert (option.get_attribute("aria-posinset"), option.get_attribute("aria-setsize")) == ("2", "2")
        assert second.startswith("token 2 of") and second.endswith("agent_1")
        assert shown(session, "#token h3")[-1].startswith("agent_2")
        assert any("agent_1 round 2" in edge and "cipher" in edge for edge in shown(session, "#token li"))


@pytest.mark.parametrize("live", [True, False])
def test_a_poisoned_run_runs_nothing(live: bool, tmp_path: Path, session: webdriver.Chrome) -> None:
    folder, file = poisoned(tmp_path / "run"), tmp_path / "report.html"
    file.write_text(report(Gathered({"run": load_run(folder)})), encoding="utf-8")
    session.get_log("browser")
    with serving(Live([str(folder)])) as address:
        session.get(address if live else file.as_uri())
        until(session, "INDEX.length === 1")
        session.execute_script("list.pick(0)")
        until(session, "document.querySelectorAll('#items .said').length > 1")
        for button in range(2):  # its thoughts, and its prompt
            session.execute_script("document.querySelectorAll('#items .said button')[arguments[0]].click()", button)
        session.execute_script("document.querySelector('#items .said').click()")
        held = "[...PARSED.values()].flat().flatMap(Object.values)"
        text = session.execute_script(f"return document.body.innerText + {held}.join()")

        found = {place for place in (*PLACES, "id") if hostile(place) in text}
        assert found >= {*PLACES, "id"} - {"description", "torch"}  # cut short, or in folded cards
        assert "taken" not in session.title
        assert session.execute_script("return document.querySelectorAll('img, #items script').length") == 0
        assert session.get_log("browser") == []


def test_a_run_that_lost_a_line_says_so_in_its_row(run: Path, runs: Path) -> None:
    lines = (run / LOG).read_bytes().splitlines(keepends=True)
    (prepared(runs / "lost") / LOG).write_bytes(b"".join(lines[:-2] + lines[-1:]))
    live = Live([])
    assert "lost, doubled or changed" in live.runs[0].about["about"]
    live.follow()
    assert "lost, doubled or changed" in live.runs[0].about["about"]


def test_colors_follow_the_system(run: Path, session: webdriver.Chrome) -> None:
    with serving(Live([str(run)])) as address:
        colors = []
        for scheme in ("light", "dark"):
            features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            session.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
            session.get(address)
            colors.append(session.execute_script("return getComputedStyle(document.body).backgroundColor"))
        session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert colors == ["rgb(255, 255, 255)", "rgb(23, 22, 29)"]
