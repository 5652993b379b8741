"""Conversion of an engine's reply to a LangChain message: text, payload reference, and summary statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from sottovoce.channels import degenerate
from sottovoce.channels.store import PayloadRef

if TYPE_CHECKING:
    from sottovoce.channels.payload import Payload
    from sottovoce.models import Reply

PROVIDER = "sottovoce"


def message(reply: Reply, payload: Payload, ref: PayloadRef, temperature: float) -> AIMessage:
    """Return the message of a reply; it contains no tensors."""
    used, new = reply.usage.prompt, reply.usage.new
    return AIMessage(
        content=payload.label.text,
        additional_kwargs={
            "payload": ref.to_dict(),
            "stats": summary(payload, temperature),
            "notes": list(degenerate.signs(payload)),
        },
        response_metadata={
            "model_name": payload.label.model,
            "model_provider": PROVIDER,
            "finish_reason": reply.finish,
            "protocol": payload.label.protocol,
        },
        usage_metadata=UsageMetadata(
            input_tokens=used,
            output_tokens=new,
            total_tokens=used + new,
            input_token_details=InputTokenDetails(cache_read=reply.usage.reused),
        ),
    )


def result(message: AIMessage) -> ChatResult:
    """Return a message as the result of a chat model's call."""
    return ChatResult(generations=[ChatGeneration(message=message)])


def chunk(text: str) -> ChatGenerationChunk:
    """Return a piece of a streamed reply."""
    return ChatGenerationChunk(message=AIMessageChunk(content=text))


def last_chunk(message: AIMessage, shown: str) -> ChatGenerationChunk:
    """Return the end of a streamed reply: the rest of its text, and everything that is not text."""
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=str(message.text)[len(shown) :],
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
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
        **({"carried_bytes": float(payload.carried_bytes)} if payload.carried_bytes else {}),
    }
