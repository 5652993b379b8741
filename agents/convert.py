"""Conversion between our turns or replies and LangChain's messages: a heard message is a text block with a reference.

Any chat model can read the text; a hooked model finds the message in the block's `extras`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict
from textwrap import shorten
from typing import Any, NamedTuple, get_args

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from sottovoce.agents.ask import CALLS, CUT, LENGTHS, REFUSAL, STOPPED, WHOLE, Ask
from sottovoce.channels.message import NOTHING, Ended, Message, MessageRef, Part, Role, Turn, words
from sottovoce.channels.store import PayloadRef
from sottovoce.core.any_types import Untyped
from sottovoce.core.bounds import MOST_TOKENS
from sottovoce.core.errors import UsageError
from sottovoce.core.thoughts import Own, Said, split
from sottovoce.prompts.structured import encodable

HEARD = "heard"
MESSAGES: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
ROLES: dict[str, Role] = {**{role: role for role in get_args(Role)}, "human": "user", "ai": "assistant"}
OF_CALLS = ("tool_use", "tool_call", "tool_call_chunk")
"""Content blocks that repeat a message's `tool_calls`."""
Block = dict[str, Untyped]


def to_messages(turns: Sequence[Turn]) -> list[BaseMessage]:
    """Return LangChain messages whose blocks include the heard messages."""
    return [MESSAGES[turn.role](content=[block(part) for part in turn.parts]) for turn in turns]


def to_turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    """Return turns. Heard messages are restored from the blocks' extras.

    Raises:
        UsageError: a message has a role or a content block that a text model cannot read.
    """
    turns = []
    for message in messages:
        role = message.role if message.type == "chat" and hasattr(message, "role") else message.type
        if role not in ROLES:
            known = ", ".join(dict.fromkeys(ROLES.values()))
            raise UsageError(f"a message has the role {role!r}; a local model reads: {known}")
        turns.append(Turn(ROLES[role], parts_of(message.content), _calls_of(message)))
    return turns


def _calls_of(message: BaseMessage) -> dict[str, Untyped]:
    """Return the tool calls of a message, or the call that it is the result of, as chat templates take them."""
    if isinstance(message, ToolMessage):
        named = {"name": message.name} if message.name else {}
        return {**named, "tool_call_id": call_id(message.tool_call_id)}
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return {}
    calls = [(call_id(call["id"] or ""), call["name"], call["args"]) for call in message.tool_calls]
    functions = [{"id": id, "function": {"name": name, "arguments": args}} for id, name, args in calls]
    return {"tool_calls": [{"type": "function", **function} for function in functions]}


def call_id(id: str) -> str:
    """Return an id of a tool call that every template takes; Mistral's want nine letters and digits."""
    return hashlib.sha256(id.encode()).hexdigest()[:9]


def in_words(turns: Sequence[Turn], prefill: str = "") -> list[BaseMessage]:
    """Return messages for a model without hooks: see `texts_of`."""
    return [MESSAGES[role](content=text) for role, text in texts_of(turns, prefill)]


def texts_of(turns: Sequence[Turn], prefill: str = "") -> list[tuple[Role, str]]:
    """Return roles and texts for a model without hooks: one text a turn, since blocks would be joined with newlines.

    Hosted models accept a system turn only at the beginning, alternating turns after it, and no empty turns. Few can
    continue a prefilled reply, so `prefill` is added at the end of the last turn.
    """
    spoken: list[tuple[Role, str]] = []
    for i, turn in enumerate(turns):
        role: Role = "user" if turn.role == "system" and i else turn.role
        text = turn.text or NOTHING
        if spoken and spoken[-1][0] == role:
            text = f"{spoken.pop()[1]}\n\n{text}"
        spoken.append((role, text))
    if prefill and spoken:
        spoken.append((spoken[-1][0], f"{spoken.pop()[1]}\n\n{prefill}"))
    return spoken


def block(part: Part) -> Block:
    """Return the content block of a part. The block of a heard message includes the message."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "text", "text": part.text, "extras": {HEARD: part.to_dict()}}


def parts_of(content: str | list[str | dict[Any, Any]]) -> tuple[Part, ...]:
    """Return the parts of a message's content."""
    if isinstance(content, str):
        return (content,)
    parts: list[Part] = []
    for each in content:
        if isinstance(each, str):
            parts.append(each)
            continue
        if each.get("type") in OF_CALLS:
            continue
        if each.get("type") != "text":
            raise UsageError(f"a content block has the type {each.get('type')!r}; a local model reads text blocks")
        heard = (each.get("extras") or {}).get(HEARD)
        parts.append(str(each["text"]) if heard is None else MessageRef.from_dict(heard))
    return tuple(parts) or ("",)


PROVIDER = "sottovoce"
MOST_REPORTED = 1_000 * MOST_TOKENS
"""Limit on the numbers of tokens that a server reports for one call."""
ABSURD = "its server reported numbers of tokens that cannot be: they are not counted"
TOKENS = ("tokens_in", "tokens_reused", "tokens_out", "tokens_thoughts")
"""The statistics of a message that are its usage."""
MOST_TEXT = 4_000_000
"""Most characters of a reply; the rest is left out."""
REASONS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason", "status")
"""The keys of a message's `response_metadata` under which LangChain's integrations return why a reply ended."""
STREAMERS = ("openai", "azure", "deepseek", "xai", "openrouter", "anthropic", "groq", "mistralai", "bedrock_converse")
"""The integrations whose messages have such a key, if only with None, unless a stream broke off."""
EMPTY_LINES = re.compile(r"\A\s*\n")
PAYLOAD = "payload"
"""The key of a local reply's payload in a message's `additional_kwargs`."""
THOUGHT_BLOCKS = ("thinking", "reasoning", "reasoning_content")
"""Types of content blocks with thoughts: Anthropic's, OpenAI's Responses', Bedrock's."""
REASONING = "reasoning_content"
"""The key of thoughts in a message's `additional_kwargs`, as LangChain's integrations name it."""


def to_langchain(message: Message, model: str, protocol: str) -> AIMessage:
    """Return a local reply as a LangChain message, without tensors; `model` is the model's name."""
    tokens = {name: int(message.stats.get(name, 0)) for name in TOKENS}
    used, new = tokens["tokens_in"], tokens["tokens_out"] + tokens["tokens_thoughts"]
    usage = UsageMetadata(
        input_tokens=used,
        output_tokens=new,
        total_tokens=used + new,
        input_token_details=InputTokenDetails(cache_read=tokens["tokens_reused"]),
    )
    more: dict[str, Untyped] = {}
    if tokens["tokens_thoughts"]:
        usage["output_token_details"] = OutputTokenDetails(reasoning=tokens["tokens_thoughts"])
        more[REASONING] = message.thoughts
    if message.thoughts_payload:
        more["thoughts_payload"] = message.thoughts_payload.to_dict()
    return AIMessage(
        content=message.text,
        additional_kwargs={
            PAYLOAD: message.payload and message.payload.to_dict(),
            "stats": {name: value for name, value in message.stats.items() if name not in TOKENS},
            "notes": [note for note in message.notes if not (message.cut and note == CUT)],
            **({"ended": message.ended} if message.ended and not message.cut else {}),
            **more,
        },
        response_metadata={
            "model_name": model,
            "model_provider": PROVIDER,
            "finish_reason": "length" if message.cut else "stop",  # as other providers say
            "protocol": protocol,
        },
        usage_metadata=usage,
    )


def from_langchain(reply: AIMessage, ask: Ask, markers: Own = None) -> Message:
    """Return a LangChain reply to a request as a message for the board; `markers` belong to an unknown family."""
    ref, begun, (tokens, absurd) = reply.additional_kwargs.get(PAYLOAD), words(ask.prefill), usage_of(reply)
    thoughts, text = map(encodable, said(reply, markers))
    spoken, ended = reply.additional_kwargs.get("thoughts_payload"), None if ref else until(text, ask.stop, begun)
    end, more = Ending(), reply.additional_kwargs
    if ended is None:
        ended = text if ref else text.removeprefix(begun)  # a hosted model may repeat it
        is_long = max(len(reply.text), len(thoughts)) > MOST_TEXT
        end = TOO_LONG if is_long else ending_of(reply.response_metadata, tools=bool(ask.tools)) or end
    return Message(
        **ask.place._asdict(),
        text=ended,
        begun=begun,
        asked=ask.asked,
        payload=PayloadRef.from_dict(ref) if ref else None,
        source="model" if ref else "hosted",
        cut=bool(end.why),
        ended=end.why or more.get("ended", ""),
        notes=tuple(dict.fromkeys(filter(None, (end.note, *more.get("notes", ()), absurd)))),
        stats={**more.get("stats", {}), **tokens},
        thoughts=thoughts[:MOST_TEXT],
        thoughts_payload=PayloadRef.from_dict(spoken) if spoken else None,
    )


class Ending(NamedTuple):
    """The reason why a reply is incomplete, and a note on it; both are empty for a complete reply."""

    why: Ended = ""
    note: str = ""


TOO_LONG = Ending("stopped", f"cut at {MOST_TEXT:,} characters")


def ending_of(about: Mapping[str, Untyped], *, tools: bool = False) -> Ending | None:
    """Return how a reply ended, by its `response_metadata`, or None if that is unknown.

    A merged stream repeats the reason if several of its chunks have one: "stopstop".

    >>> [ending_of(about).note for about in ({"finish_reason": "STOP"}, {"stop_reason": "max_tokens"})]
    ['', 'cut at the token limit']
    >>> ending_of({"done_reason": "banana"})
    Ending(why='stopped', note='stopped by its server: "banana"')
    """
    details = about.get("incomplete_details")  # of OpenAI's Responses: more precise than its status "incomplete"
    named = [details.get("reason") if isinstance(details, Mapping) else None, *map(about.get, REASONS)]
    if not isinstance(named[-1], str):  # a status of HTTP
        named.pop()
    reasons = [str(getattr(each, "name", each)) for each in named]
    reasons = [reason for reason in reasons if reason.casefold() not in ("", "none", "null")]
    if not reasons:
        broke_off = about.get("model_provider") in STREAMERS and not any(key in about for key in REASONS)
        return Ending("stopped", f"{STOPPED}: its stream broke off") if broke_off else None
    for reason in reasons:
        if not _among(reason, WHOLE | CALLS if tools else WHOLE):
            if reason.casefold() == "refusal":
                return Ending("refused", REFUSAL)
            printable = "".join(each if each.isprintable() else " " for each in encodable(reason[:200]))
            if _among(reason, LENGTHS):
                return Ending("limit", CUT)
            return Ending("stopped", f'{STOPPED}: "{shorten(printable, 60, placeholder=" ...")}"')
    return Ending()


def _among(reason: str, known: Set[str]) -> bool:
    return re.fullmatch(f"(?:{'|'.join(sorted(known))})+", reason.casefold()) is not None


def until(text: str, stop: Iterable[str], prefill: str = "") -> str | None:
    """Return a text behind its prefill up to the first of the strings that end it, or None if it has none of them.

    Empty lines before the first word do not end the text, and are left out.
    """
    text = EMPTY_LINES.sub("", EMPTY_LINES.sub("", text).removeprefix(prefill))
    start = len(text) - len(text.lstrip())
    ends = [at for each in stop if each and (at := text.find(each, start)) >= 0]
    return text[: min(ends)] if ends else None


def usage_of(reply: AIMessage) -> tuple[dict[str, float], str]:
    """Return the token counts of a reply, and a note if a server reported some that cannot be; they are left out.

    Some servers omit the usage, or report only zeros.
    """
    usage: Any = reply.usage_metadata or {}  # Any: clients do not check what a server sends
    details = [usage.get(name) or {} for name in ("input_token_details", "output_token_details")]
    if not all(isinstance(each, Mapping) for each in details):
        return {}, ABSURD
    counts = (usage.get("input_tokens"), details[0].get("cache_read"), usage.get("output_tokens"))
    read, reused, written, thought = (0 if each is None else each for each in (*counts, details[1].get("reasoning")))
    if not all(map(is_count, (read, reused, written, thought))):
        return {}, ABSURD
    if not read or not (written or PAYLOAD in reply.additional_kwargs):  # a local reply may be empty
        return {}, ""
    # The reused tokens of a local reply may include the marker of its thoughts, which its prompt does not.
    if PAYLOAD not in reply.additional_kwargs and (reused > read or thought > written):
        return {}, ABSURD
    stats = {"tokens_in": read, "tokens_reused": reused, "tokens_out": written - thought}
    return stats | ({"tokens_thoughts": thought} if thought else {}), ""


def is_count(number: Untyped) -> bool:
    """Return whether a server's number can be one of tokens."""
    return type(number) in (int, float) and 0 <= number <= MOST_REPORTED and number % 1 == 0


def said(reply: AIMessage, markers: Own = None) -> Said:
    """Return the thoughts and the text of a reply, local or hosted.

    A server returns thoughts in a separate field, in content blocks, or between markers in the text.
    """
    fields = [reply.additional_kwargs.get(name) for name in (REASONING, "reasoning", "reasoning_details")]
    blocks = reply.content if isinstance(reply.content, list) else []
    given = [next(filter(None, map(_thought, fields)), "")]  # routers repeat a text in its details
    given += [_thought(each) for each in blocks if isinstance(each, dict) and each.get("type") in THOUGHT_BLOCKS]
    text = str(reply.text)[:MOST_TEXT]
    if PAYLOAD in reply.additional_kwargs:  # a local reply was split when its tokens were
        return Said("\n\n".join(filter(None, given)), text)
    found = split(text, markers)
    return Said("\n\n".join(filter(None, [*dict.fromkeys(given), found.thoughts])), found.text)


def _thought(part: Untyped) -> str:
    """Return the text of a server's field or content block of thoughts, or an empty text if it has none."""
    if isinstance(part, str):
        return part.strip()
    if isinstance(part, list):
        return "\n\n".join(filter(None, map(_thought, part)))
    names = ("thinking", REASONING, "reasoning", "text", "summary", "content")
    return next(filter(None, (_thought(part.get(name)) for name in names)), "") if isinstance(part, dict) else ""


def result(message: AIMessage) -> ChatResult:
    """Return a message as the result of a chat model's call."""
    return ChatResult(generations=[ChatGeneration(message=message)])


def chunk(text: str) -> ChatGenerationChunk:
    """Return a piece of a streamed reply."""
    return ChatGenerationChunk(message=AIMessageChunk(content=text))


def last_chunk(message: AIMessage, shown: str) -> ChatGenerationChunk:
    """Return the end of a streamed reply: the rest of its text, and everything that is not text."""
    calls = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"], ensure_ascii=False), id=call["id"], index=i)
        for i, call in enumerate(message.tool_calls)
    ]
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=str(message.text)[len(shown) :],
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
            tool_call_chunks=calls,
            chunk_position="last",
        )
    )


def standard(ask: Ask) -> dict[str, Any]:
    """Return the options of a request that every chat model takes."""
    options = {"temperature": ask.temperature, "max_tokens": ask.max_tokens, "stop": list(ask.stop) or None}
    return {name: value for name, value in options.items() if value is not None}


def local_options(ask: Ask) -> dict[str, Any]:
    """Return the options of a request for a `HookedChatModel`, or one that imitates it."""
    ours: dict[str, Any] = {
        "speaks": ask.protocol,
        "prefill": ask.prefill if isinstance(ask.prefill, str) else [block(part) for part in ask.prefill],
        "response_format": asdict(ask.response_format) if ask.response_format else None,
        "silent": ask.silent,
    }
    more = {} if ask.thinks else {"thinking": False}
    return standard(ask) | {name: value for name, value in ours.items() if value} | more | {"seed": ask.seed}
