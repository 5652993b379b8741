"""A chat to learn from, and its ids: exactly those that the product would feed to the model.

Each message is a hole of the chat template that is filled with the ids of its own text. The loss
stands on the ids of the messages that are lessons, and on the end-of-turn mark behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from sottovoce.models import Ids, LoadedModel, Request, Sampling, Stop
from sottovoce.models.chat import ChatTemplate, ChatTurn
from sottovoce.training.product import Place, Turn, spoken_turn


@dataclass(frozen=True)
class Chat:
    """A place, and what is right to say there."""

    place: Place
    right: str
    lessons: frozenset[int] = frozenset()
    """Which of the own earlier messages (0-based) are right too."""


@dataclass(frozen=True)
class Encoded:
    """Token ids, and for each whether it is learnt."""

    ids: list[int]
    learnt: list[bool]


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
        turns = [*chat.place.turns, spoken_turn(chat.right)]
        own = sum(turn.role == "assistant" for turn in turns)
        encoded = self._fill(turns, chat.lessons | {own - 1}, opened=False)
        last = len(encoded.ids) - encoded.learnt[::-1].index(True)
        return Encoded(encoded.ids[:last], encoded.learnt[:last])

    def _fill(self, turns: Sequence[Turn], lessons: frozenset[int], *, opened: bool) -> Encoded:
        chat, holes = _with_holes(turns, lessons)
        encoded, lesson = Encoded([], []), False
        for piece in self.template.encode(chat, opened=opened):
            if isinstance(piece, int):
                text, lesson = holes[piece]
                new = list(self.template.ids(text, plain=True))
                encoded.learnt.extend([lesson] * len(new))
            else:
                new = list(piece)
                # Wording after an assistant's message begins with the end-of-turn mark.
                encoded.learnt.extend([lesson and new[0] == self.end] + [False] * (len(new) - 1))
                lesson = False
            encoded.ids.extend(new)
        return encoded


def _with_holes(turns: Sequence[Turn], lessons: frozenset[int]) -> tuple[list[ChatTurn], list[tuple[str, bool]]]:
    chat, holes, own = list[ChatTurn](), list[tuple[str, bool]](), 0
    for turn in turns:
        parts: list[str | int] = []
        for part in turn.parts:
            parts.append(part if isinstance(part, str) else len(holes))
            if not isinstance(part, str):
                holes.append((part.text, turn.role == "assistant" and own in lessons))
        own += turn.role == "assistant"
        chat.append(ChatTurn(turn.role, tuple(parts)))
    return chat, holes


def replies(
    loaded: LoadedModel, chats: Sequence[Sequence[Turn]], longest: int, temperature: float, seeds: Sequence[int] = ()
) -> list[str]:
    """What a model says next in each chat, in at most `longest` tokens; greedy ones need no seeds."""
    encoder, stop = Encoder(loaded.tokenizer), Stop(longest, loaded.stop_ids)
    requests = [
        Request((Ids(tuple(encoder.prompt(turns))),), stop, sampling=Sampling(temperature, seed=seed))
        for turns, seed in zip(chats, seeds or [0] * len(chats), strict=True)
    ]
    return [encoder.text(reply.ids) for reply in loaded.engine.run_all(requests)]
