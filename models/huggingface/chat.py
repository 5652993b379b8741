"""One adapter for the chat templates of all families: it encodes turns of text and holes as ids.

The template is rendered once with marks in place of the holes, then split at the marks, and each text is tokenized
separately. No token spans the edge of a hole, so the contents of a hole (ids as they were generated, or embedding rows)
keep their own tokens. Only the template writes special and added tokens. The same characters in a turn's text are read
as plain text, so a text cannot open a new turn.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jinja2 import TemplateError
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from sottovoce.core.any_types import JSON, Keywords
from sottovoce.core.date import STARTED
from sottovoce.core.errors import ContextOverflow, ModelError, UsageError, first_line
from sottovoce.core.thoughts import Markers, family_of

if TYPE_CHECKING:
    from sottovoce.models.huggingface.tool_calls import CallFormat

MARK = re.compile("\ue000([0-9]{0,9})\ue001")
"""The mark for a hole or for characters to be read as plain text; empty between two texts."""
WHOLE = re.compile(".+", re.DOTALL)
SWITCHES = ("enable_thinking", "thinking")
"""Names of the switch for thinking in templates: Qwen3 and later; Granite and DeepSeek."""
NOW = re.compile(r"""\bstrftime_now\(\s{0,99}(["'])([^"'\\{}\n]{0,99})\1\s{0,99}\)""")
"""A template's request for the current date, such as strftime_now("%Y-%m-%d")."""
DATE = "%d %b %Y"
"""The form of `date_string`, in the templates of Llama 3."""

LONG = 8  # characters of a token, more than in most texts
PROBE, REPLY = "QUESTION", "ANSWER"
"""A user's turn, behind which a template's generation prompt is looked for; and an assistant's."""
SHOWS_ALL = "give the tokenizer a template that shows every turn"
BLANK = " \t\r\n▁"

Hole = TypeVar("Hole", covariant=True)
Chat = list[JSON]
"""A chat as transformers takes it: role and content of each turn, and of some the tool calls."""


class Text(tuple[int, ...]):
    """The ids of a turn's text, which was tokenized apart from the template."""


class ChatTurn(Protocol[Hole]):
    """A turn as the template sees it: text, and holes for other contents. Adjacent texts stay separate."""

    @property
    def role(self) -> str:
        """The speaker: system, user or assistant."""

    @property
    def parts(self) -> Sequence[str | Hole]:
        """Texts and holes, in order; a hole is any object that is neither a string nor a tuple."""


class ChatTemplate:
    """Renders chats for one tokenizer; safe to share between threads."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, thinking: bool | None = None, markers: Markers | None = None
    ) -> None:
        """Keep the tokenizer; its template is read when a chat is encoded.

        `thinking` sets the template's switch, if it has one; None leaves the template's default. `markers` surround the
        model's thoughts; None uses the markers of the known families.

        Raises:
            UsageError: `thinking` is True, and the template has neither a switch nor markers of thoughts.
        """
        self.tokenizer, self.wish = tokenizer, thinking
        self._set: dict[str, Keywords] = {}
        markers = markers or family_of(tokenizer.chat_template)
        self.block = ThoughtBlock(self, markers) if markers and tokenizer.chat_template else None
        """The block of thoughts; None if the template knows no thoughts."""
        if thinking is not None:
            if thinking and self.switch is None and self.block is None:
                raise UsageError(
                    f"the model does not think: its chat template has no switch ({' or '.join(SWITCHES)}) and no "
                    "markers of thoughts; leave out thinking, or name its markers in thinking_markers"
                )
            self._set = {self.switch: thinking} if self.switch else {}
        # Some tokenizers add role marks without `special`. Blanks mark nothing.
        ids = tokenizer.added_tokens_decoder
        self.marks = {id: token for id, token in ids.items() if token.content.strip(BLANK)}
        """The added and special tokens by their ids: a text cannot spell them."""
        added = {*tokenizer.all_special_tokens, *(token.content for token in self.marks.values())}
        special = map(re.escape, sorted(added, key=len, reverse=True))  # the longest first
        self._escaped = re.compile("|".join([*special, MARK.pattern.replace("(", "(?:")]))

    def encode(
        self,
        turns: Sequence[ChatTurn[Hole]],
        *,
        opened: bool = True,
        pasted: bool = False,
        apart: bool = False,
        most: int | None = None,
    ) -> list[tuple[int, ...] | Hole]:
        """Return the pieces of a chat: token ids, and the holes in their places.

        `opened` adds the text that opens the assistant's turn. No beginning-of-sequence id is added to a template's
        text; without a template, the tokenizer's own id opens the chat. `pasted` hides the texts after the first user
        turn from the template, so that it cannot trim them, and tokenizes them separately from the text around them.
        `apart` does so with the texts of all turns, and returns them as `Text`.
        `most` is the length of the model's context; a much longer text is refused before all of it is tokenized.

        Raises:
            ContextOverflow: the beginning of a text alone has more tokens than `most`.
            ModelError: the template refuses the chat even after its system turn was merged.
        """
        marked: list[str | Hole] = []
        chat: Chat = []
        hidden = WHOLE if apart else self._escaped
        for turn in turns:
            chat.append({"role": turn.role, "content": self._marked(turn.parts, marked, hidden)})
            if more := getattr(turn, "more", None):
                chat[-1] |= self._escape(more, marked)
            if pasted and turn.role == "user":
                hidden = WHOLE
        pieces: list[tuple[int, ...] | Hole] = [] if self.tokenizer.chat_template or not self.bos else [self.bos]
        shown, text = set[int](), self._render(chat, opened)
        for i, piece in enumerate(MARK.split(text)):
            if most is not None and len(pieces) > LONG * most:  # a text of special tokens has a piece for each
                raise _too_long(text, most)
            if i % 2 == 0 and piece:
                pieces.append(self.ids(piece, most=most))
            elif i % 2 and piece:
                if int(piece) >= len(marked):
                    raise ModelError(
                        "the model's chat template writes U+E000 and U+E001, which mark messages here; "
                        "give the tokenizer another chat_template"
                    )
                found = marked[int(piece)]
                shown.add(int(piece))
                pieces.append(Text(self.ids(found, plain=True, most=most)) if isinstance(found, str) else found)
        if lost := [part for at, part in enumerate(marked) if at not in shown and not isinstance(part, str)]:
            raise ModelError(
                f"the model's chat template leaves out {len(lost)} of the messages it was given; {SHOWS_ALL}"
            )
        return pieces

    def check(self) -> None:
        """Refuse a template that leaves out the assistant's texts."""
        said = [{"role": "user", "content": PROBE}, {"role": "assistant", "content": REPLY}]
        with suppress(TemplateError):  # it takes other chats
            if self.tokenizer.chat_template and REPLY not in self.rendered([*said, said[0]], True):
                raise ModelError(f"the model's chat template leaves out the assistant's texts; {SHOWS_ALL}")

    @cached_property
    def bos(self) -> tuple[int, ...]:
        """The id that the tokenizer puts before a plain text, as a model without a template expects it; () if none."""
        bos = self.tokenizer.bos_token_id
        return (bos,) if bos is not None and self.tokenizer("a").input_ids[:1] == [bos] else ()

    @cached_property
    def call_format(self) -> CallFormat:
        """The form of tool calls in the template. Errors: see `call_format`."""
        from sottovoce.models.huggingface.tool_calls import call_format  # late: few runs have tools

        return call_format(self.rendered if self.tokenizer.chat_template else None)

    def with_tools(self, tools: Sequence[JSON]) -> ChatTemplate:
        """Return the same template with tools, in OpenAI's form, which it shows to the model.

        Raises:
            UsageError: it has no tools, or writes calls in another form than JSON.
        """
        _ = self.call_format, self._plain  # found once for all copies
        new = copy.copy(self)
        new._set = {**self._set, "tools": [*tools]}
        return new

    @cached_property
    def switch(self) -> str | None:
        """The name of the template's switch for thinking, or None."""
        chat = [{"role": "user", "content": "?"}]
        for name in SWITCHES if self.tokenizer.chat_template else ():
            try:
                on, off = (self.rendered(chat, True, **{name: each}) for each in (True, False))
            except TemplateError:
                continue
            if on != off:
                return name
        return None

    def ids(self, text: str, *, plain: bool = False, most: int | None = None) -> tuple[int, ...]:
        """Return the token ids of a text; `plain` reads special tokens in it as ordinary characters.

        Raises:
            ContextOverflow: the beginning of a long text alone has more tokens than `most`, the length of the model's
                context. It is tokenized first, since 5 MB take some ten seconds.
        """
        if most is not None and len(text) > LONG * most and len(self.ids(text[: LONG * most], plain=plain)) > most:
            raise _too_long(text, most)
        tokenizer = self._plain if plain else self.tokenizer
        try:
            return tuple(tokenizer(text, add_special_tokens=False, split_special_tokens=plain).input_ids)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # its library panics, e.g. if a pattern takes too long; that is no Exception
            raise ModelError(
                f"the model's tokenizer cannot read a text of {len(text):,} characters: {first_line(error)}; "
                "use the tokenizer.json that the model was published with"
            ) from error

    @cached_property
    def _plain(self) -> PreTrainedTokenizerBase:
        # The flag is state of the tokenizer, not of a call: threads that set it differently would affect each
        # other. So the plain tokenizer is a copy.
        plain = copy.deepcopy(self.tokenizer)
        if isinstance(plain, PreTrainedTokenizerFast):  # it splits only special tokens
            marks = self.marks.values()
            added = [AddedToken(mark.content, normalized=mark.normalized, special=True) for mark in marks]
            plain.backend_tokenizer.add_special_tokens(added)
        plain("", add_special_tokens=False, split_special_tokens=True)
        return plain

    @staticmethod
    def _marked(parts: Sequence[str | Hole], marked: list[str | Hole], hidden: re.Pattern[str]) -> str:
        """Return a turn as one string; holes, and text `hidden` from the template, go to `marked` and leave a mark."""

        def mark(part: str | Hole) -> str:
            marked.append(part)
            return f"\ue000{len(marked) - 1}\ue001"

        text = ""
        for i, part in enumerate(parts):
            if isinstance(part, str):
                seam = i and isinstance(parts[i - 1], str)
                text += ("\ue000\ue001" if seam else "") + hidden.sub(lambda match: mark(match[0]), part)
            else:
                text += mark(part)
        return text

    def _escape(self, value: Any, marked: list[str | Hole]) -> Any:  # Any: JSON
        """Return JSON for the template with special tokens in its texts as marks: they are plain text."""
        if isinstance(value, str):
            return self._marked([value], marked, self._escaped)
        if isinstance(value, Mapping):
            return {key: self._escape(item, marked) for key, item in value.items()}
        return [self._escape(item, marked) for item in value] if isinstance(value, list | tuple) else value

    def _render(self, chat: Chat, opened: bool) -> str:
        if not self.tokenizer.chat_template:
            text = "".join(f"{turn['role'].capitalize()}: {turn['content']}\n\n" for turn in chat)
            return text + ("Assistant:" if opened else "")
        refusal = None
        # Unchanged; for templates with strict alternation; for templates without a system role.
        without_system = [{**turn, "role": "user" if turn["role"] == "system" else turn["role"]} for turn in chat]
        for original, join in ((chat, False), (chat, True), (without_system, True)):
            turns = _joined(original) if join else original
            try:
                text = self.rendered(turns, opened)
            except TemplateError as error:
                refusal = error
                continue
            # A template may also drop a turn silently; some write a tool's result as JSON.
            kept = [turn["content"].strip() for turn in turns if turn["role"] in ("system", "tool")]
            if all(said in text or json.dumps(said, ensure_ascii=False) in text for said in kept):
                return text
        roles = ", ".join(turn["role"] for turn in chat)
        raise ModelError(f"the model's chat template refuses the turns ({roles}): {refusal}") from refusal

    def rendered(self, chat: Chat, opened: bool, **more: Keywords) -> str:
        """Return a chat as the template writes it, in jinja2's sandbox.

        Raises:
            TemplateError: the template refuses the chat or fails; one line.
        """
        options = self._set | more
        try:
            options |= self._date(options.get("tools"))
            text: Any = self.tokenizer.apply_chat_template(  # Any: text or ids
                chat, tokenize=False, add_generation_prompt=opened, **options
            )
            text.encode()  # raises on half a surrogate pair, which no tokenizer reads
        except TemplateError as error:
            raise TemplateError(" ".join(str(error.message).split())[:300]) from error
        except Exception as error:  # any error of a template's own expressions, and several templates without default
            raise TemplateError(f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]) from error
        return str(text)

    def _date(self, tools: Any) -> dict[str, Keywords]:  # Any: as `with_tools` has them
        """Return the template with the date of the run, if it prints one (transformers 5.23 passes it no functions)."""
        if (started := STARTED.get()) is None or not self.tokenizer.chat_template:
            return {}
        template = self.tokenizer.get_chat_template(tools=tools)
        if "strftime_now" not in template and "date_string" not in template:
            return {}
        template = NOW.sub(lambda match: repr(started.strftime(match[2])), template)
        return {"chat_template": template, "date_string": started.strftime(DATE)}


def _too_long(text: str, most: int) -> ContextOverflow:
    return ContextOverflow(
        f"the prompt has a text of {len(text):,} characters, which is more than the {most:,} tokens that the model "
        "reads; shorten the prompt"
    )


@dataclass(frozen=True)
class ThoughtBlock:
    """The tokens of a block of thoughts for one chat template and its switch."""

    chat: ChatTemplate
    markers: Markers

    @cached_property
    def _generation_prompt(self) -> str:
        """The generation prompt of the template, with the switch as it is set."""
        try:
            return self.chat.rendered([{"role": "user", "content": PROBE}], True).rpartition(PROBE)[2]
        except TemplateError:  # it takes other chats
            return ""

    @property
    def _is_open(self) -> bool:
        return self._generation_prompt.rstrip().endswith(self.markers.open.strip())

    @cached_property
    def is_on(self) -> bool:
        """True if the model thinks: by the switch, or by the template's default; always if there is no switch."""
        wish, switch = self.chat.wish, self.chat.switch
        if wish is not None or switch is None:
            return wish is not False
        chat = [{"role": "user", "content": PROBE}]  # `switch` has rendered it
        return self.chat.rendered(chat, True) == self.chat.rendered(chat, True, **{switch: True})

    @cached_property
    def open(self) -> tuple[int, ...]:
        """The ids that open the block; none if the generation prompt does."""
        return () if self._is_open else self.chat.ids(self.markers.open)

    @cached_property
    def forced(self) -> tuple[int, ...]:
        """The ids that close it at the limit."""
        return self.chat.ids(self.markers.gap + self.markers.close)

    @cached_property
    def skip(self) -> tuple[int, ...]:
        """The ids that keep the model from thinking; none if the generation prompt does."""
        prompt, skip = self._generation_prompt, self.markers.skip  # harmony's "<|end|>" ends other turns too
        if prompt.rstrip().endswith(skip) if skip else self.markers.end_marker in prompt:  # closed, or without thoughts
            return ()
        return self.forced if self._is_open else self.chat.ids(self.markers.empty)

    @cached_property
    def end(self) -> int | None:
        """The token at which thoughts end; None if the marker has several."""
        ids = self.chat.ids(self.markers.end_marker)
        return ids[0] if len(ids) == 1 else None

    @cached_property
    def banned(self) -> tuple[int, ...]:
        """Tokens that a text cannot have, since they would begin or end thoughts in its middle."""
        opening = self.chat.ids(self.markers.open.strip())
        first = opening[:1] if len(opening) == 1 or opening[0] in self.chat.marks else ()
        return tuple(dict.fromkeys([*first, *([self.end] if self.end is not None and not self.text_ends else [])]))

    @cached_property
    def text_ends(self) -> tuple[int, ...]:
        """The token that ends the text too, if the family has one."""
        ids = self.chat.ids(self.markers.ends_text) if self.markers.ends_text else ()
        return ids if len(ids) == 1 else ()


def _joined(chat: Chat) -> Chat:
    joined: Chat = []
    for turn in chat:
        if joined and joined[-1]["role"] == turn["role"] and turn.keys() == joined[-1].keys() == {"role", "content"}:
            joined[-1]["content"] += "\n\n" + turn["content"]
        else:
            joined.append(dict(turn))
    return joined
