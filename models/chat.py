"""One adapter for the chat templates of all families: turns of text and numbered holes become ids.

The template is rendered once with marks where the holes are, then cut at the marks, and each piece
of wording is tokenised apart: no token ever spans the edge of a hole, so what fills it (ids as they
were generated, or embedding rows) keeps its own tokens. Only the template writes special tokens: the
same characters in a turn's text are read as ordinary ones, so a text cannot open a turn of its own.
"""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from sottovoce.errors import ModelError

MARK = re.compile("\ue000([hp]?\\d*)\ue001")
"""h: a hole, p: characters to be read plainly, neither: a seam between two texts."""


@dataclass(frozen=True)
class ChatTurn:
    """A turn as the template sees it: text, and holes by number. Neighbouring texts stay apart."""

    role: str
    parts: tuple[str | int, ...]


class ChatTemplate:
    """Renders chats for one tokenizer; safe to share between threads."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Keep the tokenizer; its template is read when a chat is encoded."""
        self.tokenizer = tokenizer
        special = [re.escape(token) for token in sorted(_special_tokens(tokenizer), key=len, reverse=True)]
        self._escaped = re.compile("|".join([*special, MARK.pattern.replace("(", "(?:")]))
        self._plain_tokenizer: PreTrainedTokenizerBase | None = None
        self._copying = threading.Lock()

    def encode(self, turns: Sequence[ChatTurn], *, opened: bool = True) -> list[tuple[int, ...] | int]:
        """Return the pieces of a chat: token ids, and hole numbers in their places.

        `opened` ends with the words that open the assistant's turn. No beginning-of-sequence id is
        added beside what the template writes.

        Raises:
            ModelError: the template refuses the chat even after its system turn was merged.
        """
        plain: list[str] = []
        chat = [{"role": turn.role, "content": self._marked(turn, plain)} for turn in turns]
        pieces: list[tuple[int, ...] | int] = []
        for i, piece in enumerate(MARK.split(self._render(chat, opened))):
            if i % 2 == 0 and piece:
                pieces.append(self.ids(piece))
            elif piece.startswith("h") and i % 2:
                pieces.append(int(piece[1:]))
            elif piece.startswith("p") and i % 2:
                pieces.append(self.ids(plain[int(piece[1:])], plain=True))
        lost = {part for turn in turns for part in turn.parts if isinstance(part, int)} - set(pieces)
        if lost:
            raise ModelError(
                f"the model's chat template leaves out {len(lost)} of the messages it was given; "
                "give the tokenizer a template that shows every turn"
            )
        return pieces

    def ids(self, text: str, *, plain: bool = False) -> tuple[int, ...]:
        """Token ids of a text; `plain` reads special tokens in it as ordinary characters."""
        tokenizer = self._plain() if plain else self.tokenizer
        return tuple(tokenizer(text, add_special_tokens=False, split_special_tokens=plain).input_ids)

    def _plain(self) -> PreTrainedTokenizerBase:
        # The flag is a state of the tokenizer, not of a call: two threads that wanted it differently
        # would read each other's. So the plain one is a copy of its own.
        with self._copying:
            if self._plain_tokenizer is None:
                self._plain_tokenizer = copy.deepcopy(self.tokenizer)
                self._plain_tokenizer("", add_special_tokens=False, split_special_tokens=True)
            return self._plain_tokenizer

    def _marked(self, turn: ChatTurn, plain: list[str]) -> str:
        """The turn as one string with its marks."""

        def escape(found: re.Match[str]) -> str:
            plain.append(found[0])
            return f"\ue000p{len(plain) - 1}\ue001"

        marked = ""
        for i, part in enumerate(turn.parts):
            if isinstance(part, int):
                marked += f"\ue000h{part}\ue001"
            else:
                seam = i and isinstance(turn.parts[i - 1], str)
                marked += ("\ue000\ue001" if seam else "") + self._escaped.sub(escape, part)
        return marked

    def _render(self, chat: list[dict[str, str]], opened: bool) -> str:
        if not self.tokenizer.chat_template:
            return _without_template(chat, opened)
        try:
            text = self._apply(chat, opened)
        except TemplateError:
            return self._apply_merged(chat, opened)
        # A template may also leave a system turn out without a word.
        dropped = any(turn["role"] == "system" and turn["content"].strip() not in text for turn in chat)
        return self._apply_merged(chat, opened) if dropped else text

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


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    added = tokenizer.added_tokens_decoder.values()
    return {*tokenizer.all_special_tokens, *(str(token) for token in added if token.special)}


def _without_template(chat: list[dict[str, str]], opened: bool) -> str:
    """A tokenizer without a template: roles in capitals, one turn a paragraph."""
    text = "".join(f"{turn['role'].capitalize()}: {turn['content']}\n\n" for turn in chat)
    return text + ("Assistant:" if opened else "")
