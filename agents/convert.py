"""Conversion between our turns and LangChain's messages: a heard message is a text block with a reference.

Any chat model can read the text; a hooked model finds the message in the block's `extras`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from sottovoce.channels.message import MessageRef, Part, Role, Turn
from sottovoce.core.errors import UsageError

HEARD = "heard"
NOTHING = "(nothing)"
"""The text sent instead of an empty one."""
MESSAGES: dict[Role, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
ROLES: dict[str, Role] = {
    "system": "system",
    "human": "user",
    "ai": "assistant",
    "user": "user",
    "assistant": "assistant",
}
Block = dict[str, Any]  # Any: a LangChain content block


def to_messages(turns: Sequence[Turn]) -> list[BaseMessage]:
    """Return LangChain messages whose blocks include the heard messages."""
    return [MESSAGES[turn.role](content=[block(part) for part in turn.parts]) for turn in turns]


def to_turns(messages: Sequence[BaseMessage]) -> list[Turn]:
    """Return turns; heard messages are restored from the blocks' extras.

    Raises:
        UsageError: a message has a role or a content block that a text model cannot read.
    """
    return [Turn(_role(message), parts_of(message.content)) for message in messages]


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


def _role(message: BaseMessage) -> Role:
    role = message.role if message.type == "chat" and hasattr(message, "role") else message.type
    if role not in ROLES:
        raise UsageError(f"a message has the role {role!r}; a local model reads: system, user, assistant")
    return ROLES[role]


def parts_of(content: str | list[str | dict[Any, Any]]) -> tuple[Part, ...]:
    """Return the parts of a message's content."""
    if isinstance(content, str):
        return (content,)
    return tuple(_part(block) for block in content)


def _part(block: str | dict[Any, Any]) -> Part:
    if isinstance(block, str):
        return block
    if block.get("type") != "text":
        raise UsageError(f"a content block has the type {block.get('type')!r}; a local model reads text blocks")
    heard = (block.get("extras") or {}).get(HEARD)
    return str(block["text"]) if heard is None else MessageRef.from_dict(heard)
