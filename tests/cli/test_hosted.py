"""Tests of local and hosted models in one discussion: a provider's client against a local server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.runs.run import load_run
from tests.cli.conftest import Answer, Call, Models
from tests.provider import KEY, MINI, Provider, choice, served, streamed

REPLY = '{"reasoning": "14 + 15 - 7", "answer": "22", "confidence_level": 0.9}'
FREE = ("--guide", "off")  # few tokens hold no object


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with served(Provider(REPLY), monkeypatch) as provider:
        yield provider


def together(call: Call, scheme: str, names: list[object], folder: Path, *more: object) -> Answer:
    """A discussion of these models, saved in a folder."""
    named = [part for name in names for part in ("--model", name)]
    return call(scheme, "2 + 2?", *named, "--max-tokens", 6, "--rounds", 1, "--save", folder / "run", *more)


def test_a_hosted_agent_discusses_with_local_ones(call: Call, provider: Provider, tmp_path: Path) -> None:
    answer = together(call, "reconcile", ["bundled", "bundled", MINI], tmp_path, "--protocol", "cipher", *FREE)

    run = load_run(tmp_path / "run").only
    assert (answer.code, answer.err, run.status) == (0, "", "done")
    assert run.notes == [
        f"{hearer} hears {speaker} in words: one of them is a hosted model"
        for speaker, hearer in (
            ("agent_1", "agent_3"), ("agent_2", "agent_3"), ("agent_3", "agent_1"), ("agent_3", "agent_2"),
        )
    ]  # fmt: skip
    assert all(f"note: {note}" in answer.out for note in run.notes)
    assert {message.agent: message.source for message in run.messages} == {
        "agent_1": "model", "agent_2": "model", "agent_3": "hosted",
    }  # fmt: skip
    assert {message.text for message in run.messages if message.agent == "agent_3"} == {REPLY}
    first, second = (request["messages"] for request in provider.asked)
    assert all({*turn} == {"role", "content"} and isinstance(turn["content"], str) for turn in first + second)
    refs = [message.payload for message in run.messages if message.round == 0 and message.payload]
    assert refs and not any(ref.sha256 in json.dumps(provider.asked) for ref in refs)
    assert REPLY in second[-1]["content"]  # its own, among those of all


def test_a_provider_gets_temperature_schema_and_length_and_after_a_cut_reply_twice_the_length(
    call: Call, provider: Provider, tmp_path: Path
) -> None:
    # OpenAI's client raises an error for a reply in a format that was cut; the error holds the reply so far.
    provider.longest = 40

    more = ("--agents", 2, "--answer-turn", "off", "--temperature", 0.5)
    answer = together(call, "reconcile", [MINI], tmp_path, *more)

    assert answer.code == 0
    for request in provider.asked:
        assert (request["model"], request["temperature"]) == ("gpt-4o-mini", 0.5)
        schema = request["response_format"]["json_schema"]["schema"]
        assert [*schema["properties"]] == ["reasoning", "answer", "confidence_level"]
    lengths = [request["max_completion_tokens"] for request in provider.asked]
    assert sorted(lengths) == [6] * (len(lengths) // 2) + [12] * (len(lengths) // 2)
    messages = load_run(tmp_path / "run").only.messages
    assert {message.text for message in messages} == {REPLY[:40]} and all(message.cut for message in messages)
    assert "cannot be read: it was cut off at 12 tokens" in messages[-1].notes


def test_a_key_that_a_server_repeats_in_a_reply_reaches_no_file_and_no_screen(
    call: Call, provider: Provider, tmp_path: Path
) -> None:
    cut, encoded = KEY[:-3], KEY.replace("-", "%2d")
    logprobs = [{"token": KEY[i : i + 6], "logprob": -0.1, "top_logprobs": []} for i in range(0, len(KEY), 6)]
    delta = {"role": "assistant", "content": f"{cut} {encoded}", "reasoning_content": cut, "refusal": encoded}
    provider.says = streamed(choice(delta=delta, finish_reason=cut[-13:], logprobs={"content": logprobs}))

    answer = call("single", "2 + 2?", "--model", MINI, "--save", tmp_path / "run")
    report = call("runs", "report", tmp_path / "run", "--html", tmp_path / "page.html")

    said = [answer.out, answer.err, report.err, *(path.read_text() for path in tmp_path.rglob("*") if path.is_file())]
    assert report.code == 0 and any("$OPENAI_API_KEY" in text for text in said)
    assert not any(KEY[i : i + 12] in text for text in said for i in range(len(KEY) - 11))


def test_a_failure_of_a_hosted_model_is_recorded(
    call: Call, models: Models, provider: Provider, tmp_path: Path
) -> None:
    provider.says = 500, "application/json", json.dumps({"error": {"message": f"out of order, {KEY}"}})

    answer = together(call, "debate", [models.tiny, MINI], tmp_path)

    (line,) = answer.err.splitlines()
    assert answer.code == 1 and "Decision" not in answer.out
    assert line.startswith(f"sottovoce: agent_2: {MINI} failed: OpenAIAPIError: Error code: 500 - out of order")
    run = load_run(tmp_path / "run").only
    assert (run.status, run.error) == ("failed", line.removeprefix("sottovoce: "))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and KEY not in answer.out + answer.err
    assert not any(KEY.encode() in path.read_bytes() for path in files)


CHOICE = {"index": 0, "delta": {"role": "assistant", "content": "Answer: 4"}, "finish_reason": "stop"}
SOUND = {"choices": [CHOICE]}


def test_a_server_that_sends_something_else_is_told_in_one_line(call: Call, provider: Provider, tmp_path: Path) -> None:
    provider.says = (200, "text/html", "<html><h1>Log in</h1>\n</html>")

    answer = together(call, "debate", [MINI], tmp_path, "--agents", 1)

    assert answer.code == 1 and answer.err.count("\n") == 1
    assert re.match(rf"sottovoce: agent_1: {MINI} failed: ValueError: .*; its server sent a reply that", answer.err)


def test_tokens_that_a_server_does_not_tell_are_not_counted_as_none(
    call: Call, provider: Provider, tmp_path: Path
) -> None:
    provider.says = streamed(SOUND)

    answer = together(call, "debate", [MINI], tmp_path, "--agents", 1)

    assert "1 call, tokens not reported, " in " ".join(answer.out.split())
    assert load_run(tmp_path / "run").only.result().tokens_out is None


def test_runs_say_what_they_cost_in_money(call: Call, provider: Provider, tmp_path: Path) -> None:
    thought = {"completion_tokens_details": {"reasoning_tokens": 300}, "prompt_tokens_details": {"cached_tokens": 40}}
    provider.says = streamed(
        SOUND | {"usage": {"prompt_tokens": 100, "completion_tokens": 500, "total_tokens": 600} | thought}
    )
    together(call, "debate", [MINI], tmp_path, "--agents", 1)
    (tmp_path / "prices.csv").write_text("model,in,out,cached\ngpt-4o-mini,2,8,1\n")
    priced = tmp_path / "run", "--prices", tmp_path / "prices.csv"

    shown, compared, exported = (
        call("runs", "show", *priced),
        call("runs", "compare", *priced),
        call("runs", "show", *priced, "--json"),
    )

    money = (60 * 2 + 40 * 1 + 500 * 8) / 1e6
    told = "100 tokens read (40 of them reused), 200 tokens written, 300 tokens of thoughts, money 0.00416, "
    assert told in " ".join(shown.out.split())
    assert "| tokens of thoughts | money |" in compared.out and f"| 300 | {money:.3g} |" in compared.out
    assert "money" not in call("runs", "show", tmp_path / "run").out and exported.code == 0
