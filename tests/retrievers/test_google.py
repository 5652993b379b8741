"""Google through the real SerpAPI client, asked of a server of the tests' own; its key is seen nowhere."""

from __future__ import annotations

import json
import logging
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.load import dumps
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from sottovoce.core.errors import RetrievalError, UsageError
from sottovoce.retrievers import open_retriever
from sottovoce.retrievers.google import VARIABLE, Google
from sottovoce.retrievers.pool import Pool, merged, pool_of
from tests.retrievers.services import AT_ONCE, HTML, Reply, Service, serving
from tests.retrievers.support import docids

KEY = "planted-key-0123456789"
RESULTS = [{"title": f"Title {n}", "link": f"https://x.test/{n}", "snippet": f"Snippet {n}."} for n in range(1, 6)]
FOUND = Reply({"search_metadata": {"status": "Success"}, "organic_results": RESULTS})
NONE = Reply({"error": "Google hasn't returned any results for this query."})
REFUSED = Reply(
    {"error": f"Invalid API key {KEY}. Your API key should be here: https://serpapi.com/manage-api-key"}, 401
)
SPENT = Reply({"error": "Your account has run out of searches."}, 429)
HURRIED = Reply({"error": "Too many searches in this hour."}, 429)
BROKEN = replace(HTML, status=502)
GONE = Reply(hang_up=True)


class State(TypedDict):
    evidence: Annotated[Pool, merged]


def google(service: Service, **options: Any) -> Google:
    return Google(KEY, backend=service.address, **{"patience": AT_ONCE, **options})


def test_results_are_passages_in_their_order_without_those_that_say_nothing() -> None:
    """What passes is asked again until it is answered."""
    silent = {"title": "Title 0", "link": "https://x.test/0"}
    with serving(BROKEN, HURRIED, Reply({"organic_results": [silent, *RESULTS]})) as service:
        found = google(service).search("mill & river", 2)

    assert docids(found) == ["https://x.test/1", "https://x.test/2"]
    assert (found[0].passage.text, found[0].passage.title, found[0].score) == ("Snippet 1.", "Title 1", 1 / 2)
    *_, asked = service.asked
    assert len(service.asked) == 3
    assert (asked["q"], asked["num"], asked["engine"], asked["api_key"]) == ("mill & river", "2", "google", KEY)


@pytest.mark.parametrize("reply", [NONE, Reply({"organic_results": []}), Reply({"search_metadata": {}})])
def test_no_results_are_no_error(reply: Reply) -> None:
    with serving(reply) as service:
        assert google(service).search("mill", 3) == []


TROUBLES = {
    "refused": (REFUSED, r"google refused the key \(401\): Invalid API key \*\*\*\. .*; check SERPAPI_API_KEY", 1),
    "spent": (SPENT, r"google allows no more searches now \(429\): Your account has run out of searches\.", 1),
    "hurried": (HURRIED, r"google allows no more searches now \(429\): Too many .* \(asked 3 times\)", 3),
    "long wait": (replace(HURRIED, headers={"retry-after": "3600"}), r"google allows no more .* in this hour\.", 1),
    "broken": (BROKEN, r"google answered 502, a server error \(asked 3 times\)", 3),
    "html": (HTML, r"google answered 200 with text/html instead of JSON: '<html> <body>Bad gateway</body></html>'", 1),
    "list": (Reply([1]), r"google answered 200 with JSON that is not an object: '\[1\]'", 1),
    "results": (Reply({"organic_results": "x"}), r"google returned results that are not a list of objects: 'x'", 1),
    "error": (Reply({"error": "Unsupported."}), r"google answered 200: Unsupported\.", 1),
    "echo": (Reply({"organic_results": f"?api_key={KEY}&k={KEY}"}), r".*: '\?api_key=\*\*\*&k=\*\*\*'", 1),
    "named": (Reply(KEY, headers={"content-type": KEY}), r"google answered 200 with \*\*\* instead of .*: '\*\*\*'", 1),
    "gone": (GONE, r"google cannot be reached \(ConnectionError\) \(asked 3 times\)", 3),
}


def shown(error: BaseException) -> str:
    """Its traceback with what each function holds, as pytest, rich and others show it; without the test's own."""
    behind = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.TracebackException(type(error), error, behind, capture_locals=True).format())


@pytest.mark.parametrize(("reply", "told", "times"), TROUBLES.values(), ids=TROUBLES)
def test_what_goes_wrong_is_one_clear_line_without_the_key(
    reply: Reply, told: str, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(reply) as service, pytest.raises(RetrievalError, match=f"^{told}$") as failed:
        google(service).search("mill", 3)

    assert len(service.asked) == times
    assert failed.value.__context__ is None  # requests' own words quote the address
    assert KEY not in shown(failed.value) and KEY not in caplog.text


def test_a_service_that_never_answers_is_left_after_the_time_that_is_set() -> None:
    hurried = replace(AT_ONCE, timeout=0.1, retries=0)
    with (
        serving(Reply(after=30)) as service,
        pytest.raises(RetrievalError, match=r"^google did not answer within 0\.1 s$"),
    ):
        google(service, patience=hurried).search("mill", 3)


def test_a_warning_about_bad_headers_shows_no_key(caplog: pytest.LogCaptureFixture) -> None:
    """urllib3 says it with the whole address, through another logger than that of its connections."""
    with serving(replace(FOUND, headers={"no colon\r\nX-Other": "x"})) as service:
        google(service).search("mill", 3)
    assert "Failed to parse headers" in caplog.text and KEY not in caplog.text


def test_nothing_that_a_service_says_of_the_key_is_kept(tmp_path: Path) -> None:
    echoing = Reply({"organic_results": [{"link": f"https://x.test/?api_key={KEY}", "title": KEY, "snippet": KEY}]})
    with serving(echoing) as service:
        found = google(service, saved=tmp_path).search("mill", 3)
    assert KEY not in f"{found} {next(tmp_path.iterdir()).read_text()}"


def test_threads_ask_side_by_side() -> None:
    with serving(FOUND) as service, ThreadPoolExecutor(8) as pool:
        searcher = google(service)
        found = list(pool.map(lambda n: len(searcher.search(f"mill {n}", 5)), range(24)))

    assert found == [5] * 24
    assert {each["q"] for each in service.asked} == {f"mill {n}" for n in range(24)}


def test_without_a_key_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(UsageError, match=r"^google needs a key of serpapi\.com: set SERPAPI_API_KEY$"):
        open_retriever("google")
    monkeypatch.setenv(VARIABLE, KEY)
    assert open_retriever("google").source == "google"


def test_a_folder_in_which_nothing_can_be_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^google's results cannot be saved in '.*file/kept': Not a directory$"):
        open_retriever(f"google:{tmp_path}/file/kept")


def test_a_folder_keeps_what_was_found_and_needs_no_key_to_find_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with serving(FOUND, REFUSED) as service:
        first = google(service, saved=tmp_path).search("mill", 3)
        again = google(service, saved=tmp_path).search("mill", 3)
        with pytest.raises(RetrievalError):
            google(service, saved=tmp_path).search("mill", 4)

    assert open_retriever(f"google:{tmp_path}").search("mill", 3) == first == again
    (file,) = tmp_path.iterdir()
    assert len(service.asked) == 2
    kept = json.loads(file.read_text())
    assert (kept["q"], kept["results"]) == ("mill", RESULTS) and kept["retrieved"].startswith("20")
    assert KEY not in file.read_text()
    file.write_text("{")
    with serving(FOUND) as service:  # a damaged one is asked again
        assert google(service, saved=tmp_path).search("mill", 3) == first and service.asked


def test_the_key_is_in_no_repr_no_state_no_checkpoint_and_no_pickle(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    saver = InMemorySaver()
    with serving(FOUND) as service:
        retriever = google(service)
        graph = StateGraph(State)
        graph.add_node("look", lambda state: {"evidence": pool_of(retriever.invoke("mill"), "agent_1")})
        graph.add_edge(START, "look")
        graph.add_edge("look", END)
        state = graph.compile(checkpointer=saver).invoke({"evidence": {}}, {"configurable": {"thread_id": "1"}})

    shown = [repr(retriever), str(retriever), dumps(retriever), str(retriever.model_dump())]
    kept = [str(saver.storage), str(saver.writes), str(saver.blobs), json.dumps(state)]
    assert "Snippet 1." in "".join(kept) and service.asked[0]["api_key"] == KEY
    assert KEY not in "".join([*shown, *kept, caplog.text])
    assert "api_key=***" in caplog.text  # the address was logged, and the key concealed
    with pytest.raises(TypeError, match="cannot be pickled"):
        retriever.__reduce__()
