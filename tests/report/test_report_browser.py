"""A report in a browser: it opens without an error or a request, shows what is chosen, and draws what is in sight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from sottovoce.report.comparison import Gathered
from sottovoce.report.report import report
from tests.report.reported import cipher, scripted

MANY, ROUNDS = 30, 20  # discussions of forty messages


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 1,200 messages by script, some of them hostile, and a debate of the bundled model."""
    folder = tmp_path_factory.mktemp("page")
    runs = {"many": scripted(folder / "many", MANY, ROUNDS), "spoken": cipher(folder / "spoken", questions=2)}
    (folder / "report.html").write_text(report(Gathered(runs)), encoding="utf-8")
    return folder / "report.html"


@pytest.fixture
def browser(session: webdriver.Chrome, page: Path) -> webdriver.Chrome:
    """At a page that was just opened; what other files' pages left in the browser's log is dropped."""
    session.get("about:blank")
    session.get_log("browser")
    session.get(page.as_uri())
    return session


def shown(browser: webdriver.Chrome, what: str) -> list[WebElement]:
    return browser.find_elements(By.CSS_SELECTOR, what)


def texts(browser: webdriver.Chrome, what: str) -> list[str]:
    """Return the texts of such elements in one step, since the page may draw one anew at any moment."""
    script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText.trim())"
    return list(browser.execute_script(script, what))


def choose(browser: webdriver.Chrome, name: str, value: str) -> None:
    before = texts(browser, "#found")[0]
    field = shown(browser, f"#{name}")[0]
    field.send_keys(value)
    WebDriverWait(browser, 600).until(lambda _: texts(browser, "#found")[0] != before)


def click(browser: webdriver.Chrome, what: str, text: str = "") -> None:
    """Click the first such element that begins with a text, in one step: the page may draw it anew at any moment."""
    find = "[...document.querySelectorAll(arguments[0])].find((each) => each.innerText.trim().startsWith(arguments[1]))"
    browser.execute_script(f"{find}.click()", what, text)


def choose_run(browser: webdriver.Chrome, name: str) -> None:
    before = texts(browser, "#found")[0]
    click(browser, "#runs .row", name)
    WebDriverWait(browser, 600).until(lambda _: texts(browser, "#found")[0] != before)


def requested(browser: webdriver.Chrome) -> set[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return {each["request"]["url"] for each in sent}


def test_the_page_opens_without_an_error_and_asks_nobody(browser: webdriver.Chrome, page: Path) -> None:
    browser.get_log("performance")
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert requested(browser) == {page.as_uri()}


def test_of_thousands_of_messages_those_in_sight_are_drawn(browser: webdriver.Chrome) -> None:
    entries = browser.execute_script(MESSAGES)
    drawn = [len(shown(browser, "#items .placed"))]
    for part in (0.3, 0.6, 1.0):
        browser.execute_script(SCROLL, part)
        drawn.append(len(shown(browser, "#items .placed")))

    assert entries == 2 * ROUNDS * MANY + 8
    assert all(5 < n < 60 for n in drawn)
    assert "rows × 128" in texts(browser, "#items")[0]  # what the bundled model said, at the end


# Of the chosen discussions; how many of them are drawn depends on what the browser has measured so far.
MESSAGES = "return entries.filter(([d, i]) => i >= 0 && items(d)[i].k === 'said').length"
SCROLL = "messages.box.scrollTop = arguments[0] * messages.sizer.offsetHeight; messages.draw(); messages.draw()"


def test_a_chosen_question_shows_its_messages_and_what_was_asked(browser: webdriver.Chrome) -> None:
    choose_run(browser, "spoken")
    click(browser, "#discussions .row")

    assert browser.execute_script(MESSAGES) == 4 and texts(browser, "#found")[0] == f"2 of {MANY + 2} discussions"
    click(browser, "#items .said button")
    assert "What is " in browser.execute_script("return document.querySelector('#items .asked').innerText")


def test_a_token_tells_its_alternatives_and_what_was_sent(browser: webdriver.Chrome) -> None:
    choose_run(browser, "spoken")
    text = browser.execute_script("return document.querySelector('#items .t').textContent")

    def press(_: object) -> bool:
        shown(browser, "#items .t")[0].click()  # as with a mouse, which moves the focus
        return True

    WebDriverWait(browser, 600, ignored_exceptions=[StaleElementReferenceException]).until(press)

    told = texts(browser, "#token")[0]
    assert json.dumps(text) in told and "entropy" in told and "log-probability" in told
    rows = "return [...document.querySelectorAll('#token table')].map((each) => each.tBodies[0].rows.length >= 3)"
    assert browser.execute_script(rows) == [True, True]
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert "token 2 of" in texts(browser, "#token")[0]


def test_the_panel_explains_itself_until_a_message_is_chosen_and_afterwards(browser: webdriver.Chrome) -> None:
    before = texts(browser, "#token")[0]
    click(browser, "#items .said")
    chosen = texts(browser, "#token")[0]
    browser.execute_script("release()")

    assert "Point at a word" in before and "round 1, answer" in chosen.splitlines()[0]
    assert texts(browser, "#token")[0] == before


def test_a_message_that_repeats_another_folds_until_it_is_opened(browser: webdriver.Chrome) -> None:
    click(browser, "#discussions .row")
    first = "const at = entries.findIndex(([d, i]) => i >= 0 && sameAs(d, i) !== undefined); messages.go(at)"
    message = f"#items .said[data-key='{browser.execute_script(f'{first}; return entries[at].join(`/`)')}']"
    assert texts(browser, message) == ["agent_1 (hosted model) round 3, revise · the same as in round 2, revise show"]

    click(browser, f"{message} button")
    assert "The answer is 22." in texts(browser, message)[0]


def test_shades_begin_at_quarters_of_a_replys_highest_entropy(browser: webdriver.Chrome) -> None:
    scale = "return scaleOf({ entropy: arguments[0] })"
    assert browser.execute_script(scale, [1, 65.535, 4]) == [1, 2, 3, 4]  # 65.535: no number was stored
    assert browser.execute_script(scale, [0.04, 0]) == []
    assert browser.execute_script("return [0.9, 1, 3, 65.535].map((each) => shade(each, [1, 2, 3, 4]))") == [0, 1, 3, 0]
    assert "shaded from 0.10 0.20 0.30 to 0.40 nats" in texts(browser, "#items .said")[0]


def test_runs_are_sorted_by_date_scheme_and_share_of_right_answers(tmp_path: Path, session: webdriver.Chrome) -> None:
    runs = {name: scripted(tmp_path / name, 2) for name in ("one", "two", "three")}
    for day, (run, scores) in enumerate(zip(runs.values(), ((1, 0), (0, 0), (1, 1)), strict=True), 1):
        run.manifest = run.manifest.model_copy(update={"started": f"2026-11-0{day}T00:00:00+00:00"})
        for record, score in zip(run.records.values(), scores, strict=True):
            assert record.decision is not None
            record.decision = {**record.decision, "score": score}
    runs["two"].manifest = runs["two"].manifest.model_copy(update={"scheme": "single"})
    (tmp_path / "report.html").write_text(report(Gathered(runs)), encoding="utf-8")
    session.get((tmp_path / "report.html").as_uri())

    sort = "const by = field('sort'); by.value = arguments[0]; by.dispatchEvent(new Event('input'))"
    names = "return order.map((number) => RUNS[number].name)"
    shown = {by: session.execute_script(f"{sort}; {names}", by) for by in ("", "date", "scheme", "right")}
    assert shown == {
        "": ["one", "two", "three"],
        "date": ["three", "two", "one"],
        "scheme": ["three", "one", "two"],
        "right": ["three", "one", "two"],
    }
    assert texts(session, "#runs .row")[0] == "three 11-03 00:00\n100% of 2 debate · nl · bundled"


def test_words_and_runs_find_discussions(browser: webdriver.Chrome) -> None:
    choose(browser, "search", "answer is 29")
    found = "return [rows.length, entries.filter(([, i]) => i >= 0).length]"
    WebDriverWait(browser, 600).until(lambda _: browser.execute_script(found) == [MANY, MANY])  # all letters are typed
    choose_run(browser, "spoken")

    assert browser.title == "Report of many, spoken"
    assert texts(browser, "#found")[0] == f"0 of {MANY + 2} discussions"
    assert shown(browser, "#items .said") == []


def test_the_same_question_is_read_under_two_runs_side_by_side(tmp_path: Path, session: webdriver.Chrome) -> None:
    runs = {name: scripted(tmp_path / name, 2, 2) for name in ("one", "two", "other")}
    for record in runs["other"].records.values():  # another question of the same id
        record.question = {**record.question, "question": "What is 1 + 1?"}
    (tmp_path / "report.html").write_text(report(Gathered(runs)), encoding="utf-8")
    session.get((tmp_path / "report.html").as_uri())

    click(session, "#discussions .row")
    assert texts(session, "button.beside") == ["beside two"]
    click(session, "button.beside")

    heads = [text.split("\n") for text in texts(session, "#items .pair") if "Round 1" in text]
    assert heads[0] == ["Round 1", "Round 1"]
    assert texts(session, "button.beside")[0] == "without two"
    click(session, "button.beside")
    assert not shown(session, "#items .pair") and session.get_log("browser") == []


@pytest.mark.parametrize("width", [360, 2560])
def test_nothing_reaches_beyond_the_page(width: int, browser: webdriver.Chrome) -> None:
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for what in ("#discussions .row", "#items .said"):
        browser.execute_script("document.querySelector(arguments[0]).click()", what)

    assert shown(browser, "#token h3")
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
