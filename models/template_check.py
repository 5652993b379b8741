"""How a model's chat template behaves, found by rendering small chats with it."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError

from sottovoce.errors import ModelError
from sottovoce.models.chat import ChatTemplate, ChatTurn
from sottovoce.models.finding import Finding
from sottovoce.models.loaded import LoadedModel

SYSTEM, ASKED, ANSWERED = "Speak of teapots.", "Qwe asks 12?", "Rty answers 34."
MESSAGE = "The answer is 22."  # as a hole is filled, for the edges


def template_findings(loaded: LoadedModel) -> list[Finding]:
    """What an author of prompts must know of the template, one line each."""
    if not loaded.tokenizer.chat_template:
        none = Finding("chat template", None, "none: roles are written in capitals, one turn a paragraph")
        return [none, _first_token(loaded.chat, ""), _edges(loaded)]
    template = _Template(loaded)
    try:
        findings = [template.opening(), template.first_token(), template.system(), template.own_words()]
        findings += [template.turns(), template.content()]
        return [*findings, template.thinking(), _edges(loaded)]
    except TemplateError as error:
        detail = f"it refuses a question and its answer: {error}; give the tokenizer another chat_template"
        return [Finding("chat template", False, detail)]


class _Template:
    def __init__(self, loaded: LoadedModel) -> None:
        self._tokenizer, self._chat = loaded.tokenizer, loaded.chat

    def opening(self) -> Finding:
        closed = self._render(_user(ASKED), add_generation_prompt=False)
        opened = self._render(_user(ASKED))
        tail = opened[_shared(closed, opened) :]
        opens = f"opens the assistant's turn with {tail!r}" if tail else "does not open the assistant's turn"
        return Finding("chat template", True, opens)

    def first_token(self) -> Finding:
        return _first_token(self._chat, self._render(_user(ASKED)))

    def system(self) -> Finding:
        try:
            text = self._render(_turn("system", SYSTEM), _user(ASKED))
        except TemplateError:
            return Finding("system turn", None, "refused by the template: we put it before the first user turn")
        if SYSTEM not in text:
            return Finding("system turn", None, "left out by the template: we put it before the first user turn")
        return Finding("system turn", True, "accepted")

    def own_words(self) -> Finding:
        """What the template adds before a first turn, and not before a later one."""
        text = self._render(_user(ASKED), _turn("assistant", ANSWERED), _user("Next?"))
        first, later = text.split(ASKED)[0], text.split("Next?")[0].split(ANSWERED)[-1]
        own = len(first) - _shared(first[::-1], later[::-1])
        added = first[:own].removeprefix(str(self._tokenizer.bos_token or "")).strip()
        dated = "; with today's date, so prompts change from day to day" if self._knows("strftime_now") else ""
        if not added:
            return Finding("default system prompt", None, f"none{dated}")
        return Finding("default system prompt", None, f"adds {_short(added)!r} where no system turn is given{dated}")

    def turns(self) -> Finding:
        try:
            self._render(_user(ASKED), _user("Next?"))
        except TemplateError:
            return Finding("order of turns", None, "strictly alternating: we join neighbouring turns of one role")
        return Finding("order of turns", True, "any")

    def content(self) -> Finding:
        kept = self._render(_user(f"\n  {ASKED}  \n"))
        whole = f"\n  {ASKED}  \n" in kept
        detail = "as it is written" if whole else "trimmed: white space at the ends of a turn is lost"
        return Finding("content of a turn", whole or None, detail)

    def thinking(self) -> Finding:
        switch = self._chat.switch
        if switch is None:
            return Finding("thinking", None, "no switch")
        on = self._render(_user(ASKED), **{switch: True}) == self._render(_user(ASKED))
        left = "on" if on else "off"
        return Finding("thinking", None, f"a switch ({switch}), left {left} as the template does unless it is chosen")

    def _render(self, *turns: dict[str, str], add_generation_prompt: bool = True, **more: Any) -> str:
        """A chat as the template writes it; `more` (Any: a template's own variables) reaches the template."""
        text = self._tokenizer.apply_chat_template(
            list(turns), tokenize=False, add_generation_prompt=add_generation_prompt, **more
        )
        assert isinstance(text, str), "a single chat renders to a single text"
        return text

    def _knows(self, word: str) -> bool:
        return word in str(self._tokenizer.chat_template)


def _first_token(chat: ChatTemplate, written: str) -> Finding:
    """Who puts the token at the start that some models cannot do without, and that none should see twice."""
    check, bos = "first token", chat.tokenizer.bos_token
    if bos and written.startswith(str(bos)):
        return Finding(check, True, f"the template writes {bos!r}, and we add no other")
    if not chat.bos:
        return Finding(check, True, "none: neither the template nor the tokenizer puts one")
    if not chat.tokenizer.chat_template:
        return Finding(check, True, f"{bos!r}, as the tokenizer puts it before plain text")
    detail = f"none: the template writes no {bos!r}, though the tokenizer puts one before plain text; we follow it"
    return Finding(check, None, detail)


def _edges(loaded: LoadedModel) -> Finding:
    """Heard messages must come through a template whole and in order, and the wording around them unchanged."""
    check = "heard messages"
    chat = [
        ChatTurn("user", (f"{ASKED} They said: ", 0, " And: ", 1, ".")),
        ChatTurn("assistant", (2,)),
        ChatTurn("user", ("They said:\n", 3)),
    ]
    try:
        pieces = loaded.chat.encode(chat)
    except ModelError as error:
        return Finding(check, False, str(error))
    holes = [piece for piece in pieces if isinstance(piece, int)]
    if holes != [0, 1, 2, 3]:
        detail = f"4 went into the template, {holes} came out; give the tokenizer a template that keeps all turns whole"
        return Finding(check, False, detail)
    heard = loaded.chat.ids(MESSAGE)
    ids = [id for piece in pieces for id in (heard if isinstance(piece, int) else piece)]
    around = (f"{ASKED} They said: ", MESSAGE, " And: ", MESSAGE, ".")
    if "".join(around) not in loaded.detokenizer(special=True).text(ids):
        detail = "own tokens, whole and in order; but the tokenizer puts a space of its own where they meet the wording"
        return Finding(check, None, detail)
    merged = sum(len(loaded.chat.ids(part)) for part in around) - len(loaded.chat.ids("".join(around)))
    return Finding(check, True, f"own tokens, whole and in order; edges that would merge with the wording: {merged}")


def _user(text: str) -> dict[str, str]:
    return _turn("user", text)


def _turn(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def _shared(left: str, right: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _short(text: str, size: int = 60) -> str:
    return text if len(text) <= size else text[: size - 3] + "..."
