"""One adapter for the chat templates of all families: turns of text and numbered holes become ids.

The template is rendered once with marks where the holes are, then cut at the marks, and each piece
of wording is tokenised apart: no token ever spans the edge of a hole, so what fills it (ids as they
were generated, or embedding rows) keeps its own tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from sottovoce.errors import ModelError

MARK = re.compile("\ue000(\\d*)\ue001")


@dataclass(frozen=True)
class ChatTurn:
    """A turn as the template sees it: text, and holes by number. Neighbouring texts stay apart."""

    role: str
    parts: tuple[str | int, ...]

    def marked(self) -> str:
        """The turn as one string, with a mark for each hole and an empty one at each seam."""
        marked = ""
        for i, part in enumerate(self.parts):
            seam = i and isinstance(part, str) and isinstance(self.parts[i - 1], str)
            marked += ("\ue000\ue001" if seam else "") + (part if isinstance(part, str) else f"\ue000{part}\ue001")
        return marked


class ChatTemplate:
    """Renders chats for one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Keep the tokenizer; its template is read when a chat is encoded."""
        self.tokenizer = tokenizer

    def encode(self, turns: Sequence[ChatTurn], *, opened: bool = True) -> list[tuple[int, ...] | int]:
        """Return the pieces of a chat: token ids, and hole numbers in their places.

        `opened` ends with the words that open the assistant's turn. No beginning-of-sequence id is
        added beside what the template writes.

        Raises:
            ModelError: the template refuses the chat even after its system turn was merged.
        """
        pieces: list[tuple[int, ...] | int] = []
        for i, piece in enumerate(MARK.split(self.render(turns, opened=opened))):
            if i % 2 == 0 and piece:
                pieces.append(self.ids(piece))
            elif i % 2 and piece:
                pieces.append(int(piece))
        return pieces

    def ids(self, text: str, *, plain: bool = False) -> tuple[int, ...]:
        """Token ids of a text; `plain` reads special tokens in it as ordinary characters."""
        return tuple(self.tokenizer(text, add_special_tokens=False, split_special_tokens=plain).input_ids)

    def render(self, turns: Sequence[ChatTurn], *, opened: bool = True) -> str:
        """The chat as the template writes it, marks in place."""
        chat = [{"role": turn.role, "content": turn.marked()} for turn in turns]
        if not self.tokenizer.chat_template:
            return _plain(chat, opened)
        try:
            return self._apply(chat, opened)
        except TemplateError:
            return self._apply_merged(chat, opened)

    def _apply(self, chat: list[dict[str, str]], opened: bool) -> str:
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=opened)
        assert isinstance(text, str), "a single chat renders to a single text"
        return text

    def _apply_merged(self, chat: list[dict[str, str]], opened: bool) -> str:
        """For templates without a system role, or with strict alternation."""
        merged: list[dict[str, str]] = []
        for turn in chat:
            role = "user" if turn["role"] == "system" else turn["role"]
            if merged and merged[-1]["role"] == role:
                merged[-1]["content"] += "\n\n" + turn["content"]
            else:
                merged.append({"role": role, "content": turn["content"]})
        try:
            return self._apply(merged, opened)
        except TemplateError as error:
            roles = ", ".join(turn["role"] for turn in chat)
            raise ModelError(f"the model's chat template refuses the turns ({roles}): {error}") from error


def _plain(chat: list[dict[str, str]], opened: bool) -> str:
    """A tokenizer without a template: roles in capitals, one turn a paragraph."""
    text = "".join(f"{turn['role'].capitalize()}: {turn['content']}\n\n" for turn in chat)
    return text + ("Assistant:" if opened else "")
