"""Conversion between our turns or replies and LangChain's messages: a heard message is a text block with a reference.

Any chat model can read the text; a hooked model finds the message in the block's `extras`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from sottovoce.channels import degenerate
from sottovoce.channels.message import MessageRef, Part, Role, Turn
from sottovoce.channels.store import PayloadRef
from sottovoce.core.any_types import Untyped
from sottovoce.core.errors import UsageError
from sottovoce.core.thoughts import Said, split

if TYPE_CHECKING:
    from sottovoce.agents.thinking import Thoughts
    from sottovoce.channels.payload import Payload
    from sottovoce.models import Reply


HEARD = "heard"
NOTHING = "(nothing)"
MESSAGES: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
ROLES: dict[str, Role] = {
    "system": "system",
    "human": "user",
    "ai": "assistant",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
OF_CALLS = ("tool_use", "tool_call", "tool_call_chunk")
"""Content blocks that repeat a message's `tool_calls`."""
Block = dict[str, Untyped]


def to_messages(turns: Sequence[Turn]) -> list[BaseMessage]:
    """Return LangChain messages whose blocks include the heard messages."""
    return [MESSAGES[turn.role](content=[block(part) for part in turn.parts]) for turn in turns]


def to_turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    """Return turns; heard messages are restored from the blocks' extras.

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
    """Return messages for a model without hooks: one text for each turn, since blocks would be joined with newlines.

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
    return [MESSAGES[role](content=text) for role, text in spoken]


def block(part: Part) -> Block:
    """Return the content block of a part; the block of a heard message includes the message."""
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


PAYLOAD = "payload"
"""The key of a local reply's payload in a message's `additional_kwargs`."""
THOUGHT_BLOCKS = ("thinking", "reasoning", "reasoning_content")
"""Types of content blocks with thoughts: Anthropic's, OpenAI's Responses', Bedrock's."""
REASONING = "reasoning_content"
"""The key of thoughts in a message's `additional_kwargs`, as LangChain's integrations name it."""


def message(
    reply: Reply,
    payload: Payload,
    ref: PayloadRef,
    temperature: float,
    note: str = "",
    thoughts: Thoughts | None = None,
    thoughts_ref: PayloadRef | None = None,
) -> AIMessage:
    """Return the message of a reply behind its thoughts; it contains no tensors. `note` is one on latent steps."""
    used, new, reused = reply.usage.prompt, reply.usage.new, reply.usage.reused
    thought: dict[str, Untyped] = {}
    if thoughts and thoughts.tokens:
        used, new, reused = thoughts.prompt, new + thoughts.tokens, thoughts.reused
        thought = {REASONING: thoughts.text, **({"thoughts_payload": thoughts_ref.to_dict()} if thoughts_ref else {})}
    usage = UsageMetadata(
        input_tokens=used,
        output_tokens=new,
        total_tokens=used + new,
        input_token_details=InputTokenDetails(cache_read=reused),
    )
    if thought and thoughts:
        usage["output_token_details"] = OutputTokenDetails(reasoning=thoughts.tokens)
    notes = [*degenerate.signs(payload), note, thoughts.note if thoughts else ""]
    return AIMessage(
        content=payload.label.text,
        additional_kwargs={
            PAYLOAD: ref.to_dict(),
            "stats": summary(payload, temperature),
            "notes": [each for each in notes if each],
            **thought,
        },
        response_metadata={
            "model_name": payload.label.model,
            "model_provider": PROVIDER,
            "finish_reason": "length" if reply.finish == "length" else "stop",  # as other providers say
            "protocol": payload.label.protocol,
        },
        usage_metadata=usage,
    )


def said(reply: AIMessage) -> Said:
    """Return the thoughts and the text of a reply, local or hosted.

    Thoughts of a server stand in a field of their own, in content blocks, or between markers in the text.
    """
    fields = [reply.additional_kwargs.get(name) for name in (REASONING, "reasoning", "reasoning_details")]
    blocks = reply.content if isinstance(reply.content, list) else []
    given = [_thought(each) for each in fields]
    given += [_thought(each) for each in blocks if isinstance(each, dict) and each.get("type") in THOUGHT_BLOCKS]
    text = str(reply.text)
    if PAYLOAD in reply.additional_kwargs:  # a local reply was split when its tokens were
        return Said("\n\n".join(filter(None, given)), text)
    found = split(text)
    return Said("\n\n".join(filter(None, [*dict.fromkeys(given), found.thoughts])), found.text)


def _thought(part: Untyped) -> str:
    """Return the text of a server's field or content block of thoughts; empty if it has none."""
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


def summary(payload: Payload, temperature: float) -> dict[str, float]:
    """Return summary statistics for the state and the transcript: plain floats, most of them rounded to four digits."""
    from sottovoce.channels import bridge  # late: it imports torch

    entropy = payload.tensors["entropy"]
    return {
        "temperature": float(temperature),
        "mean_entropy": round(float(entropy.mean()), 4) if len(entropy) else 0.0,
        "max_entropy": round(float(entropy.max()), 4) if len(entropy) else 0.0,
        "repeated": round(degenerate.repeated(payload.ids), 4),
        "surprise": round(degenerate.surprise(payload), 4),
        **bridge.measured(payload),
        **({"thoughts": float(len(thoughts))} if (thoughts := payload.tensors.get("thought_ids")) is not None else {}),
        **({"carried_bytes": float(payload.carried_bytes)} if payload.carried_bytes else {}),
    }
