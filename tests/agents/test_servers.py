"""What servers of OpenAI's format send: ends of replies, broken streams, errors, sizes and usage."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import product
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from sottovoce.agents import chat_model
from sottovoce.agents.ask import CUT, EMPTY, REFUSAL, STOPPED, THOUGHTS_ALONE, Ask
from sottovoce.agents.convert import ABSURD, MOST_TEXT, TOO_LONG, Ending, ending_of, from_langchain, until
from sottovoce.agents.hosted import failure, hosted, passes
from sottovoce.agents.parameters import UNNAMED, Refused
from sottovoce.channels.message import Message, Turn
from sottovoce.core.errors import SottovoceError
from tests.agents.openai_server import ABOUT, EVENTS, JSON, Server
from tests.support import replied
from tests.tables import each_row

ASK = Ask("think", (Turn("user", ("2 + 2?",)),), stop=("\n",))


def asked(*, streaming: bool = False, refused: Refused | None = None, ask: Ask = ASK) -> Message:
    model: Any = hosted("hosted:openai:mini")
    if streaming:
        model.streaming = True
    return replied(model, ask, refused=refused)


def failed() -> tuple[str, Exception]:
    """The line on a failed call, and its error."""
    with pytest.raises(Exception) as raised:  # of the client
        asked()
    return str(failure(raised.value)), raised.value


def stopped(reason: str) -> str:
    return f'{STOPPED}: "{reason}"'


@each_row(
    "about, note",
    [
        *[({"finish_reason": reason}, "") for reason in ("stop", "STOP", "COMPLETE", "eos", "eos_token", "stopstop")],
        *[({"stop_reason": reason}, "") for reason in ("end_turn", "stop_sequence")],
        ({"done_reason": "stop", "done": True}, ""),
        ({"status": "completed", "model_provider": "openai"}, ""),
        ({"stopReason": "end_turn"}, ""),
        *[({"finish_reason": reason}, CUT) for reason in ("length", "MAX_TOKENS", "model_length")],
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, CUT),
        ({"status": "incomplete"}, stopped("incomplete")),
        ({"stopReason": "model_context_window_exceeded"}, stopped("model_context_window_exceeded")),
        *[
            ({"finish_reason": reason}, stopped(reason))
            for reason in (
                "abort",
                "error",
                "insufficient_system_resource",
                "PROHIBITED_CONTENT",
                "banana",
                "tool_calls",
            )
        ],
        ({"finish_reason": "stop", "stop_reason": "refusal"}, REFUSAL),
        ({"finish_reason": "stop", "stop_reason": "pause_turn"}, stopped("pause_turn")),
        ({"finish_reason": "ba\n\x1b[31mna"}, stopped("ba [31mna")),
        ({"finish_reason": "x" * 999}, stopped("...")),
        ({"finish_reason": None, "model_provider": "openai"}, None),
        ({"finish_reason": "null", "status": 200}, None),
        ({"model_provider": "openai"}, f"{STOPPED}: its stream broke off"),
        ({"model_provider": "perplexity"}, None),
        ({}, None),
    ],
)
def test_a_reply_is_whole_only_if_its_server_says_so(about: dict[str, Any], note: str | None) -> None:
    ending = ending_of(about)
    assert (ending and ending.note) == note

    message = from_langchain(AIMessage("Answer: 4", response_metadata=about), ASK)
    assert (message.cut, message.ended, message.notes) == (
        bool(note),
        ending.why if ending else "",
        (note,) if note else (),
    )


def test_a_call_of_a_tool_ends_a_reply_only_if_it_was_asked_for() -> None:
    assert ending_of({"stop_reason": "tool_use"}, tools=True) == Ending() != ending_of({"stop_reason": "tool_use"})


@each_row("streaming", [(False,), (True,)])
def test_a_server_s_reason_is_named(server: Server, streaming: bool) -> None:
    for reason, note in {"stop": (), "length": (CUT,), "abort": (stopped("abort"),)}.items():
        server.streams({"content": "Answer: 4"}, finish_reason=reason) if streaming else server.replies(
            finish_reason=reason
        )
        message = asked(streaming=streaming)
        assert (message.text, message.cut, message.notes) == ("Answer: 4", bool(note), note)


def test_a_stream_that_breaks_off_is_cut(server: Server) -> None:
    server.streams({"content": "Answer: 4"}, done=False)
    message = asked(streaming=True)
    assert (message.text, message.cut, message.notes) == ("Answer: 4", True, (f"{STOPPED}: its stream broke off",))

    server.streams({"content": "Answer: 4"}, done=False, finish_reason="stop")  # it lacks only the mark of its end
    assert not asked(streaming=True).cut


def test_a_server_that_names_no_reason_counts_as_whole_with_one_note_a_run(server: Server) -> None:
    server.replies()
    refused = Refused()

    first, second = asked(refused=refused), asked(refused=refused)

    assert (first.cut, first.notes, second.cut, second.notes) == (False, (UNNAMED,), False, ())


@each_row(
    "text, begun, left",
    [
        ("Answer: 4\nmore", "", "Answer: 4"),
        ("\nAnswer: 4\nmore", "", "Answer: 4"),
        ("4\nSo not 7.\nAnswer: 7", "Answer:", "4"),
        ("Answer: 4\nSo not 7.", "Answer:", " 4"),
        ("Answer:\n4\nmore", "Answer:", "4"),
        ("Answer: 4", "", None),
        ("", "", None),
    ],
)
def test_a_stop_string_ends_a_reply_but_no_prefill_and_no_first_line(text: str, begun: str, left: str | None) -> None:
    assert until(text, ["\n"], begun) == left


def test_a_reply_that_a_stop_string_ends_is_whole_whatever_its_server_says_of_the_rest(server: Server) -> None:
    server.replies("<think>2\nand 2</think>\n\n42\nSo not 7.\nAnswer: 7", finish_reason="length")
    message = asked()
    assert (message.text, message.thoughts, message.cut, message.notes) == ("42", "2\nand 2", False, ())


RATE = {"error": {"code": 429, "message": "Rate limit reached", "type": "requests"}}


@each_row(
    "body, again",
    [
        (RATE, True),
        ({"error": {"code": "429", "message": "slow down"}}, True),
        ({"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, True),
        ({"error": {"code": 502, "message": "upstream"}}, True),
        ({"error": {"code": 401, "message": "no"}}, False),
        ({"error": {"code": "insufficient_quota", "type": "rate_limit", "message": "pay"}}, False),
        ({"error": "no"}, False),
    ],
)
def test_an_error_in_a_body_of_success_is_asked_again_too(server: Server, body: dict[str, Any], again: bool) -> None:
    server.says(body)
    line, error = failed()
    assert passes(error) is again and "\n" not in line

    server.says(f"data: {json.dumps(body)}\n\n".encode(), EVENTS)
    with pytest.raises(Exception) as raised:  # of the client
        asked(streaming=True)
    assert passes(raised.value) is (again and isinstance(body["error"], dict))


def test_a_spent_quota_is_not_asked_again(server: Server) -> None:
    body = {"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "You exceeded your quota"}}
    server.says(body, status=429)

    line, error = failed()

    assert (len(server.asked), passes(error)) == (1, False)
    assert line.endswith("Error code: 429 - You exceeded your quota")


async def test_an_application_s_loop_asks_with_the_same_bounds(server: Server) -> None:
    server.says({"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}, status=429)
    with pytest.raises(Exception, match="quota"):
        await chat_model.reply(hosted("hosted:openai:mini"), ASK, Refused())
    server.says(b" " * 1_000_000)
    server.again = server.body
    with pytest.raises(SottovoceError, match="no end within"):
        await chat_model.reply(hosted("hosted:openai:mini"), ASK, Refused())
    assert len(server.asked) == 2


MODEL = {"message": "The model `mini` does not exist.", "type": "NotFoundError", "code": "model_not_found"}


@each_row(
    "body, told",
    [
        ({"error": MODEL}, '"The model `mini` does not exist."; its server has no such model'),
        ({"object": "error", **MODEL}, '"The model `mini` does not exist."; its server has no such model'),
        ({"detail": "Not Found"}, '"Not Found"; check that the address is the provider\'s'),
        ({"error": {"message": "Invalid URL (POST /chat/completions)"}}, "; check that the address"),
        (b"<h1>404 page not found: no model here</h1>", 'no model here</h1>"; check that the address'),
        ({"error": {"message": "No endpoints found."}}, '"No endpoints found."'),
    ],
)
def test_a_404_names_the_address_and_what_is_wrong_with_it(server: Server, body: object, told: str) -> None:
    server.says(body, status=404)

    line, _ = failed()

    assert line.startswith(f'model: hosted:openai:mini failed: error 404 from {server.address}/chat/completions: "')
    assert told in line and ("; " in line) is ("; " in told)


def test_an_unreachable_local_server_names_the_proxy_between(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "http://me:hunter2@127.0.0.1:9"
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", nobody)
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy", raising=False)
    model: Any = hosted("hosted:openai:mini", timeout=30)  # its client does not try again

    with pytest.raises(Exception) as raised:  # of the client
        replied(model, ASK)

    advice = "127.0.0.1 was asked through the proxy http://127.0.0.1:9 of the environment: set no_proxy=127.0.0.1"
    assert str(failure(raised.value)).endswith(f"Connection error.; {advice}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "proxy" not in str(failure(raised.value))


def test_a_streamed_refusal_is_named(server: Server) -> None:
    server.streams({"refusal": "I can't "}, {"refusal": "help."}, finish_reason="stop")
    assert asked(streaming=True).notes == ('it was refused by its model: "I can\'t help."',)


def test_a_long_reply_is_cut_at_a_bound(server: Server) -> None:
    server.replies("4 " * 2_100_000, finish_reason="stop")
    message = asked()
    assert (len(message.text), message.cut, message.notes) == (MOST_TEXT, True, (TOO_LONG.note,))


def test_a_body_without_end_is_given_up(server: Server) -> None:
    packer = zlib.compressobj(wbits=31)
    first, block = (packer.compress(b" " * 4_000_000) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    endless = [(first, block, JSON), (first, block, EVENTS), (gzip.compress(b" "), b"\0" * 99_999, JSON)]
    for body, again, kind in endless:
        server.says(body, kind, encoding="gzip")
        server.again = again
        with pytest.raises(SottovoceError) as raised:
            asked(streaming=kind == EVENTS)
        assert str(failure(raised.value)).endswith(
            "its server's reply has no end within 32,000,000 bytes; it is not read"
        )
        assert not passes(raised.value)
    assert len(server.asked) == len(endless)


def test_a_compressed_reply_is_read(server: Server) -> None:
    server.replies(finish_reason="stop")
    server.says(gzip.compress(server.body), encoding="gzip")
    assert asked().text == "Answer: 4"


THOUGHT = {"content": "", "reasoning_content": "So the answer is 4."}


@each_row(
    "message, reason, note",
    [
        (THOUGHT, "stop", THOUGHTS_ALONE),
        ({"content": None, "reasoning": "So the answer is 4."}, "stop", THOUGHTS_ALONE),
        ({"content": ""}, "stop", EMPTY),
        ({"content": "<think>Hm.</think>"}, "stop", EMPTY),
    ],
)
def test_an_answer_in_thoughts_alone_is_named(server: Server, message: dict[str, Any], reason: str, note: str) -> None:
    server.replies(message, finish_reason=reason)
    assert asked().notes == (note,)


@each_row("field, streaming", product(("reasoning_content", "reasoning"), (False, True)))
def test_a_server_s_field_of_thoughts_is_kept_with_the_message(server: Server, field: str, streaming: bool) -> None:
    if streaming:
        deltas = {field: "2 + 2, "}, {field: "so 4"}, {"content": "Answer: "}, {"content": "4"}
        server.streams(*deltas, finish_reason="stop", usage=usage())
    else:
        server.replies({"content": "Answer: 4", field: "2 + 2, so 4"}, usage(), finish_reason="stop")
    message = asked(streaming=streaming)
    assert (message.thoughts, message.text, message.stats) == ("2 + 2, so 4", "Answer: 4", COUNTED)


DETAILS = [{"type": "reasoning.text", "text": "2 + 2", "index": 0, "format": "unknown"}]


@each_row("streaming", [(False,), (True,)])
def test_details_of_thoughts_are_kept(server: Server, streaming: bool) -> None:
    if streaming:
        server.streams(
            {"reasoning_details": [{**DETAILS[0], "text": "2 "}]},
            {"reasoning_details": [{**DETAILS[0], "text": "+ 2", "signature": 7}]},
            {"content": "4"},
            finish_reason="stop",
        )
    else:
        pieces = [{**DETAILS[0], "text": text} for text in ("2 ", "+ 2")]
        server.replies({"content": "4", "reasoning": "2 + 2", "reasoning_details": pieces}, finish_reason="stop")

    message = asked(streaming=streaming)

    assert (message.thoughts, message.text) == ("2 + 2", "4")
    if not streaming:
        reply = hosted("hosted:openai:mini").invoke("2 + 2?")
        assert isinstance(reply, AIMessage)
        assert reply.additional_kwargs["reasoning_details"] == pieces


def usage(read: object = 100, written: object = 50, cached: object = 40, thought: object = 30) -> dict[str, Any]:
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


COUNTED = {"tokens_in": 100, "tokens_reused": 40, "tokens_out": 20, "tokens_thoughts": 30}


@each_row(
    "reported, stats, notes",
    [
        (usage(), COUNTED, ()),
        (usage() | {"cost": 0.25, "queue_time": 0.1}, COUNTED, ()),
        (usage(cached=None, thought=None), {"tokens_in": 100, "tokens_reused": 0, "tokens_out": 50}, ()),
        *[({"prompt_tokens": 100}, {}, ()), (None, {}, ()), (usage(0, 0, 0, 0), {}, ())],
        *[
            (each, {}, (ABSURD,))
            for each in (
                usage(cached=101), usage(thought=51), usage(read=-1), usage(written=0.5), usage(read=True),
                usage(written=float("nan")), usage(cached="many"), usage(read=10**12), "many",
                usage() | {"prompt_tokens_details": "none"},
            )
        ],
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of the client, on a stream's "none"
def test_usage_is_counted_as_a_set_and_never_fails_a_reply(
    server: Server, reported: object, stats: dict[str, int], notes: tuple[str, ...]
) -> None:
    for streaming in (False, True):
        server.streams({"content": "4"}, finish_reason="stop", usage=reported) if streaming else server.replies(
            "4", reported, finish_reason="stop"
        )
        message = asked(streaming=streaming)
        assert (message.text, message.stats, message.notes) == ("4", stats, notes), streaming


def test_sums_so_far_in_the_pieces_of_a_stream_are_not_added_up(server: Server) -> None:
    choice = {"index": 0, "delta": {"role": "assistant", "content": "4"}}
    ends = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chunks = [
        {**ABOUT, "object": "chat.completion.chunk", "choices": [each], "usage": usage(written=30 + at, thought=30)}
        for at, each in enumerate([choice] * 20 + [ends])
    ]
    server.says("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode(), EVENTS)

    assert asked(streaming=True).stats == COUNTED


def test_tokens_of_a_stream_are_asked_for_unless_its_server_refuses_that(server: Server) -> None:
    server.streams({"content": "4"}, finish_reason="stop", usage=usage())
    asked(streaming=True)
    assert server.asked[-1]["stream_options"] == {"include_usage": True}

    said = "Unrecognized request argument supplied: stream_options"
    server.says({"error": {"message": said, "type": "invalid_request_error", "param": None}}, status=400)
    refused = Refused()
    with pytest.raises(Exception, match="stream_options"):  # the server refuses all
        asked(streaming=True, refused=refused)
    server.streams({"content": "4"}, finish_reason="stop")
    assert asked(streaming=True, refused=refused).stats == {}
    assert ["stream_options" in request for request in server.asked] == [True, True, False, False]
