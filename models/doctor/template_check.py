"""How a model's chat template behaves, found by rendering small chats with it."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError

from sottovoce.errors import ModelError
from sottovoce.models.doctor.selftest import Finding, common
from sottovoce.models.huggingface.chat import ChatTemplate, ChatTurn
from sottovoce.models.loaded import LoadedModel

SYSTEM = {"role": "system", "content": "Speak of teapots."}
QUESTION, ANSWER = "Qwe asks 12?", "Rty answers 34."
ASKED, NEXT = {"role": "user", "content": QUESTION}, {"role": "user", "content": "Next?"}
ANSWERED = {"role": "assistant", "content": ANSWER}
MESSAGE = "The answer is 22."  # as a hole is filled, for the edges
EDGES = "heard messages"


def template_findings(loaded: LoadedModel) -> list[Finding]:
    """What an author of prompts must know of the template, one line each."""
    if not loaded.tokenizer.chat_template:
        none = Finding("chat template", None, "none: roles are written in capitals, one turn a paragraph")
        return [none, _first_token(loaded.chat, ""), _edges(loaded)]
    try:
        return [*_rendered(_Template(loaded)), _edges(loaded)]
    except TemplateError as error:
        detail = f"it refuses a question and its answer: {error}; give the tokenizer another chat_template"
        return [Finding("chat template", False, detail)]


class _Template:
    """Renders chats as the template writes them."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.tokenizer, self.chat = loaded.tokenizer, loaded.chat

    def __call__(self, *turns: dict[str, str], add_generation_prompt: bool = True, **more: Any) -> str:
        """`more` (Any: a template's own variables) reaches the template."""
        text = self.tokenizer.apply_chat_template(
            list(turns), tokenize=False, add_generation_prompt=add_generation_prompt, **more
        )
        assert isinstance(text, str), "a single chat renders to a single text"
        return text

    def tried(self, *turns: dict[str, str]) -> str | None:
        """None where the template refuses them."""
        try:
            return self(*turns)
        except TemplateError:
            return None


def _rendered(template: _Template) -> list[Finding]:
    asked = template(ASKED)
    tail = asked[common(template(ASKED, add_generation_prompt=False), asked) :]
    opens = f"opens the assistant's turn with {tail!r}" if tail else "does not open the assistant's turn"
    system = SYSTEM["content"] in (template.tried(SYSTEM, ASKED) or "")
    any_order = template.tried(ASKED, NEXT) is not None
    padded = f"\n  {QUESTION}  \n"
    whole = padded in template({"role": "user", "content": padded})
    return [
        Finding("chat template", True, opens),
        _first_token(template.chat, asked),
        _either("system turn", system, "accepted", "not taken by the template: we put it before the first user turn"),
        Finding("default system prompt", None, _own_words(template)),
        _either("order of turns", any_order, "any", "strictly alternating: we join neighbouring turns of one role"),
        _either("content of a turn", whole, "as it is written", "trimmed: white space at the ends of a turn is lost"),
        Finding("thinking", None, _thinking(template)),
    ]


def _either(check: str, found: bool, usual: str, otherwise: str) -> Finding:
    return Finding(check, True, usual) if found else Finding(check, None, otherwise)


def _own_words(template: _Template) -> str:
    """What the template adds before a first turn, and not before a later one."""
    text = template(ASKED, ANSWERED, NEXT)
    first, later = text.split(QUESTION)[0], text.split("Next?")[0].split(ANSWER)[-1]
    own = len(first) - common(first[::-1], later[::-1])
    added = first[:own].removeprefix(str(template.tokenizer.bos_token or "")).strip()
    knows_dates = "strftime_now" in str(template.tokenizer.chat_template)
    dated = "; with today's date, so prompts change from day to day" if knows_dates else ""
    shown = added if len(added) <= 60 else f"{added[:57]}..."
    return f"adds {shown!r} where no system turn is given{dated}" if added else f"none{dated}"


def _thinking(template: _Template) -> str:
    switch = template.chat.switch
    if switch is None:
        return "no switch"
    left = "on" if template(ASKED, **{switch: True}) == template(ASKED) else "off"
    return f"a switch ({switch}), left {left} as the template does unless it is chosen"


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
    chat = [
        ChatTurn("user", (f"{QUESTION} They said: ", 0, " And: ", 1, ".")),
        ChatTurn("assistant", (2,)),
        ChatTurn("user", ("They said:\n", 3)),
    ]
    try:
        pieces = loaded.chat.encode(chat)
    except ModelError as error:
        return Finding(EDGES, False, str(error))
    holes = [piece for piece in pieces if isinstance(piece, int)]
    if holes != [0, 1, 2, 3]:
        detail = f"4 went into the template, {holes} came out; give the tokenizer a template that keeps all turns whole"
        return Finding(EDGES, False, detail)
    heard = loaded.chat.ids(MESSAGE)
    ids = [id for piece in pieces for id in (heard if isinstance(piece, int) else piece)]
    around = (f"{QUESTION} They said: ", MESSAGE, " And: ", MESSAGE, ".")
    if "".join(around) not in loaded.detokenizer(special=True).text(ids):
        detail = "own tokens, whole and in order; but the tokenizer puts a space of its own where they meet the wording"
        return Finding(EDGES, None, detail)
    merged = sum(len(loaded.chat.ids(part)) for part in around) - len(loaded.chat.ids("".join(around)))
    return Finding(EDGES, True, f"own tokens, whole and in order; edges that would merge with the wording: {merged}")
