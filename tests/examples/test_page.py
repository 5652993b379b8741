"""The page of a live discussion, in a browser, on what `langgraph dev` streams."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tests.server import ROOT, free_port, serving

PAGE = ROOT / "examples" / "page"
HOSTILE = "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"
SAYS = """
const [text] = arguments, agent = `mallory ${text}`, vote = {agent, answer: text, counts: true};
take.messages([{id: "1", content: text}, {agent, round: 0, act: text}]);
take.updates({decide: {decision: {answer: text, why: text, votes: [vote]}}});
take.error({message: text});
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the page is: a server as `python -m http.server` makes one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(PAGE))) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(session: Chrome, address: str) -> Chrome:
    """Just opened, with a server that is not there."""
    session.get(f"{address}/?server=http://127.0.0.1:{free_port()}")
    session.get_log("browser")
    return session


def texts(page: Chrome, what: str) -> list[str]:
    return [element.text for element in page.find_elements(By.CSS_SELECTOR, what)]


@pytest.mark.slow
def test_a_discussion_is_shown_agent_by_agent_as_it_is_held(
    session: Chrome, address: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving(tmp_path_factory.mktemp("dev"), ROOT / "langgraph.json", {}) as server:
        session.get(f"{address}/?server={server}")
        session.find_element(By.CSS_SELECTOR, "form button").click()
        WebDriverWait(session, 600).until(lambda page: texts(page, "#decision")[0] or texts(page, "#trouble")[0])

    assert (texts(session, "#trouble"), texts(session, ".name")) == ([""], ["agent_1", "agent_2", "agent_3"])
    assert texts(session, "#decision") == ["Decision: 22 (agent_1 has the lowest temperature)"]
    for agent in ("agent_1", "agent_2", "agent_3"):
        said = texts(session, f"[data-agent={agent}] .said")
        assert [text.endswith("The answer is 22.") for text in said] == [True, True]
        assert texts(session, f"[data-agent={agent}] .vote") == ["votes 22"]
    assert (texts(session, ".asked"), session.get_log("browser")) == ([], [])


def test_what_a_model_says_is_text_wherever_it_stands(page: Chrome) -> None:
    page.execute_script(SAYS, HOSTILE)

    for what in (".said", ".name", ".vote", "#decision", "#trouble"):
        assert HOSTILE in texts(page, what)[0]
    assert page.find_elements(By.CSS_SELECTOR, "#agents img, #agents script, p img, p script") == []
    assert (page.title, page.get_log("browser")) == ("A live discussion", [])


def test_an_agent_that_is_asked_reads_until_its_first_token(page: Chrome) -> None:
    page.execute_script("take.custom({type: 'act', agent: 'agent_1'}); take.custom({type: 'round', round: 0})")
    asked = texts(page, ".asked .name")
    for content in ("It", [{"type": "text", "text": " is"}, {"type": "other"}]):
        page.execute_script("take.messages([{id: '1', content: arguments[0]}, {agent: 'agent_1', round: 0}])", content)

    assert (asked, texts(page, ".asked")) == (["agent_1"], [])
    assert [said.splitlines()[-1] for said in texts(page, ".said")] == ["It is"]


def test_the_page_says_when_a_person_is_asked(page: Chrome) -> None:
    page.execute_script("take.updates({__interrupt__: [{id: '1', value: {agent: 'agent_2'}}]})")

    assert texts(page, "#trouble") == ["agent_2 is a person's: this page cannot answer, Studio can."]


def test_the_page_says_where_no_server_answers(page: Chrome) -> None:
    page.execute_script("take.custom({type: 'act', agent: 'agent_1'})")
    page.find_element(By.CSS_SELECTOR, "form button").click()
    WebDriverWait(page, 600).until(lambda page: texts(page, "#trouble")[0])

    assert "is `langgraph dev` at http://127.0.0.1:" in texts(page, "#trouble")[0]


def test_events_are_read_however_the_stream_is_cut(page: Chrome) -> None:
    stream = 'event: a\r\ndata: {"x": "1: é"}\r\n\r\n: ping\r\n\r\nevent: b\r\nid: 7\r\ndata: [2]\r\n\r\n'
    found = page.execute_async_script(CUT, stream)

    assert found == [[["a", {"x": "1: é"}], ["b", [2]]]] * 3


CUT = """
const [stream, done] = arguments, bytes = new TextEncoder().encode(stream);
const cut = size => new ReadableStream({start(to) {
  for (let i = 0; i < bytes.length; i += size) to.enqueue(bytes.slice(i, i + size));
  to.close();
}});
const read = async size => {
  const found = [];
  for await (const event of events(cut(size))) found.push(event);
  return found;
};
Promise.all([1, 7, 10000].map(read)).then(done, error => done(String(error)));
"""
