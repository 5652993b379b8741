"""A chat to learn from, and its ids: exactly those that the product would feed to the model.

The turns come from `View`, the ids from `ChatTemplate`: each message is a hole that is filled with
the ids of its own text. The loss stands on the ids of the messages that are lessons, and on the
end-of-turn mark behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from sottovoce.channels.message import Heard, Message, Turn
from sottovoce.models import ChatTemplate, ChatTurn

Key = tuple[int, str, str, int]


@dataclass(frozen=True)
class Chat:
    """Turns, and the keys of those messages in assistant turns that are right."""

    turns: Sequence[Turn]
    lessons: frozenset[Key]


@dataclass(frozen=True)
class Encoded:
    """Token ids, and for each whether it is learnt."""

    ids: list[int]
    learnt: list[bool]


def closing(turns: Sequence[Turn], message: Message) -> list[Turn]:
    """The chat with what the agent should say next."""
    return [*turns, Turn("assistant", (Heard(message, own=True),))]


class Encoder:
    """Turns chats into ids for one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Keep the template, and remember the ids of the wording that returns all the time."""
        self.template = ChatTemplate(tokenizer)
        self.end: int = tokenizer.eos_token_id
        self.pad: int = tokenizer.pad_token_id

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """The ids of a chat up to where the assistant speaks."""
        return self._fill(turns, frozenset(), opened=True).ids

    def text(self, ids: Sequence[int]) -> str:
        """What ids say."""
        return str(self.template.tokenizer.decode(list(ids)))

    def __call__(self, chat: Chat) -> Encoded:
        """The ids of a whole chat; what follows its last lesson is cut."""
        encoded = self._fill(chat.turns, chat.lessons, opened=False)
        last = len(encoded.ids) - encoded.learnt[::-1].index(True)
        return Encoded(encoded.ids[:last], encoded.learnt[:last])

    def _fill(self, turns: Sequence[Turn], lessons: frozenset[Key], *, opened: bool) -> Encoded:
        chat, holes = _with_holes(turns, lessons)
        ids: list[int] = []
        learnt: list[bool] = []
        lesson = False
        for piece in self.template.encode(chat, opened=opened):
            if isinstance(piece, int):
                text, lesson = holes[piece]
                new = list(self.template.ids(text, plain=True))
                learnt += [lesson] * len(new)
            else:
                new = list(piece)
                # Wording after an assistant's message begins with the end-of-turn mark.
                learnt += [lesson and new[0] == self.end] + [False] * (len(new) - 1)
                lesson = False
            ids += new
        return Encoded(ids, learnt)


def _with_holes(turns: Sequence[Turn], lessons: frozenset[Key]) -> tuple[list[ChatTurn], list[tuple[str, bool]]]:
    chat: list[ChatTurn] = []
    holes: list[tuple[str, bool]] = []
    for turn in turns:
        parts: list[str | int] = []
        for part in turn.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            parts.append(len(holes))
            holes.append((part.text, turn.role == "assistant" and part.message.key in lessons))
        chat.append(ChatTurn(turn.role, tuple(parts)))
    return chat, holes
