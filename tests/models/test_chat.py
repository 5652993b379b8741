from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from jinja2 import TemplateError
from tokenizers import AddedToken

from sottovoce.core.date import started_at
from sottovoce.core.errors import ContextOverflow, ModelError, UsageError
from sottovoce.models import assemble
from sottovoce.models.huggingface.chat import ChatTemplate
from tests import chats
from tests.chats import tokenizer_with
from tests.support import CHATML, tiny_model, tiny_tokenizer


@dataclass(frozen=True)
class Said:
    role: str
    parts: tuple[str | int, ...]


CHAT = ChatTemplate(tiny_tokenizer())
REFUSING = "{{ raise_exception('I take no chat') }}"


def chat(template: str | None, **options: bool) -> ChatTemplate:
    return ChatTemplate(tokenizer_with(template, **options))


def shown(template: ChatTemplate, *turns: Said, opened: bool = True) -> list[str | int]:
    """The pieces of a chat as text, holes by number."""
    pieces = template.encode(turns, opened=opened)
    return [piece if isinstance(piece, int) else str(template.tokenizer.decode(list(piece))) for piece in pieces]


def system(*parts: str | int) -> Said:
    return Said("system", parts)


def user(*parts: str | int) -> Said:
    return Said("user", parts)


def assistant(*parts: str | int) -> Said:
    return Said("assistant", parts)


def test_a_chat_without_holes_has_the_ids_of_transformers() -> None:
    turns = [("system", "Be brief."), ("user", " What is 14?\n"), ("assistant", "22"), ("user", "Why?")]
    expected = tiny_tokenizer().apply_chat_template(
        [{"role": role, "content": content} for role, content in turns], add_generation_prompt=True, return_dict=False
    )
    assert CHAT.encode([Said(role, (content,)) for role, content in turns]) == [tuple(expected)]


@pytest.mark.parametrize(
    ("parts", "pieces"),
    [
        (("Say ", 0, "."), ["(Say ", 0, ".)"]),
        ((0, " first"), ["(", 0, " first)"]),
        (("last ", 0), ["(last ", 0, ")"]),
        ((0, 1), ["(", 0, 1, ")"]),
        ((12, "\n", 3, "and", 12), ["(", 12, "\n", 3, "and", 12, ")"]),  # in any order, and more than once
        (("One", " two"), ["(One", " two)"]),
        (("", 0, ""), ["(", 0, ")"]),
        ((), ["()"]),
    ],
)
def test_holes_and_seams_cut_the_wording(parts: tuple[str | int, ...], pieces: list[str | int]) -> None:
    start, end = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    written = [each if isinstance(each, int) else each.replace("(", start).replace(")", end) for each in pieces]
    assert shown(CHAT, user(*parts)) == written


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (
            chats.LLAMA_3,
            "<|endoftext|><|im_start|>system<|im_end|>\n\nBe brief.<|im_end|><|im_start|>user<|im_end|>\n\nWhy"
            "#<|im_end|><|im_start|>assistant<|im_end|>\n\n",
        ),
        (chats.LLAMA_2, "<|endoftext|>[INST] <<SYS>>Be brief.<</SYS>> Why# [/INST]"),
        (chats.MISTRAL, "<|endoftext|>[INST] Be brief.\n\nWhy# [/INST]"),
        (chats.GEMMA, "<|endoftext|><|im_start|>user\nBe brief.\n\nWhy#<|im_end|>\n<|im_start|>model\n"),
        (chats.PHI_3, "<|im_start|>user\nBe brief.\n\nWhy#<|im_end|>\n<|im_start|>assistant\n"),
        (
            chats.QWEN_2,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy#<|im_end|>\n<|im_start|>assistant\n",
        ),
        (None, "System: Be brief.\n\nUser: Why#\n\nAssistant:"),
    ],
    ids=["accepted", "accepted in the user's", "refused", "refused too", "left out", "in place of its own", "none"],
)
def test_a_system_turn_reaches_every_model(template: str | None, written: str) -> None:
    before, after = written.split("#")
    assert shown(chat(template), system("Be brief."), user("Why", 0)) == [before, 0, after]


def test_a_template_with_strict_alternation_reads_neighbours_as_one_turn() -> None:
    turns = [user("A", 0), user(1, "B"), assistant("C"), assistant(2), user("D")]
    joined = ["<|endoftext|>[INST] A", 0, "\n\n", 1, "B [/INST]C\n\n", 2, "<|im_end|>[INST] D [/INST]"]
    assert shown(chat(chats.MISTRAL), *turns) == joined


# The first token


either = pytest.mark.parametrize("adds", [True, False], ids=["tokenizer adds it", "tokenizer adds none"])
WRITES_FIRST = (chats.LLAMA_3, chats.MISTRAL, chats.GEMMA, chats.DEEPSEEK)


@either
@pytest.mark.parametrize("template", [*WRITES_FIRST, CHATML, chats.PHI_3, chats.QWEN_3])
def test_a_first_token_stands_once_where_the_template_writes_it_and_nowhere_else(template: str, adds: bool) -> None:
    first, *_ = chat(template, adds=adds).encode([user("Why?")])
    assert isinstance(first, tuple)
    assert [at for at, id in enumerate(first) if id == 0] == ([0] if template in WRITES_FIRST else [])


@either
def test_without_template_the_first_token_is_the_tokenizers_own(adds: bool) -> None:
    pieces = chat(None, adds=adds).encode([user("Why?", 0, "<|endoftext|>")])
    expected = chats.tokenizer_with(None, adds=adds)("User: Why?").input_ids

    assert [id for piece in pieces[:-2] if isinstance(piece, tuple) for id in piece] == expected
    assert [id for piece in pieces if isinstance(piece, tuple) for id in piece].count(0) == adds


# Thinking

GO_ON = "<|im_start|>user\nGo on.<|im_end|>\n"


@pytest.mark.parametrize(
    ("template", "thinking", "opening"),
    [
        (chats.QWEN_3, None, "<|im_start|>assistant\n"),
        (chats.QWEN_3, True, "<|im_start|>assistant\n"),
        (chats.QWEN_3, False, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        (chats.DEEPSEEK, None, "[assistant]</think>"),
        (chats.DEEPSEEK, True, "[assistant]<think>"),
        (chats.DEEPSEEK, False, "[assistant]</think>"),
    ],
)
def test_thinking_is_as_the_template_has_it_unless_chosen(template: str, thinking: bool | None, opening: str) -> None:
    tokenizer = tokenizer_with(template)

    chosen = shown(ChatTemplate(tokenizer, thinking=thinking), system("Be brief."), user("Why", 0))
    closed = shown(ChatTemplate(tokenizer, thinking=thinking), system("Be brief."), user("Why", 0), opened=False)

    assert "".join(map(str, chosen)) == "".join(map(str, closed)) + opening


@pytest.mark.parametrize("template", [chats.LLAMA_3, CHATML, REFUSING, None])
def test_a_wish_for_thinking_is_refused_where_the_template_knows_no_thoughts(template: str | None) -> None:
    with pytest.raises(UsageError, match=r"does not think: .* no switch \(enable_thinking or thinking\) and no"):
        ChatTemplate(tokenizer_with(template), thinking=True)
    assert ChatTemplate(tokenizer_with(template), thinking=False).block is None  # as it is anyway


def test_a_template_that_forgets_thoughts_keeps_messages_whole() -> None:
    written, held = [
        shown(chat(chats.QWEN_3), user("Why?"), assistant(said), user("Go on."), opened=False)
        for said in ("<think>Hm.</think>So.", 0)
    ]
    assert written == ["<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\nSo.<|im_end|>\n" + GO_ON]
    assert held == ["<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n", 0, "<|im_end|>\n" + GO_ON]


# What is refused, and what stays as it was


def test_a_template_that_refuses_any_chat_is_named_with_the_turns() -> None:
    with pytest.raises(ModelError, match=r"chat template refuses the turns \(system, user\): I take no chat"):
        chat(REFUSING).encode([system("Be brief."), user("Hi")])


@pytest.mark.parametrize("template", [CHATML, None])
@pytest.mark.parametrize("special", ["<|im_end|>", "<|im_start|>system\n", "a<|endoftext|><|im_end|>b"])
def test_special_tokens_in_a_text_are_ordinary_characters(special: str, template: str | None) -> None:
    pieces = chat(template).encode([user("Say ", special, " now")], opened=False)
    said = [id for piece in pieces if isinstance(piece, tuple) for id in piece]
    empty = [id for piece in chat(template).encode([user()], opened=False) if isinstance(piece, tuple) for id in piece]

    assert [id for id in said if id < 3] == [id for id in empty if id < 3]
    assert f"Say {special} now" in tiny_tokenizer().decode(said)


ROLES = "{% for turn in messages %}<|{{ turn.role }}|>{{ turn.content }}{% endfor %}"


@pytest.mark.parametrize("normalized", [True, False])
def test_role_marks_that_a_tokenizer_adds_without_special_open_no_turn(normalized: bool) -> None:
    """Showed with a distilled DeepSeek: a text opened two turns."""
    tokenizer = copy.deepcopy(tokenizer_with(ROLES))
    added = [AddedToken(f"<|{role}|>", special=False, normalized=normalized) for role in ("user", "assistant")]
    tokenizer.add_tokens([*added, AddedToken("\n\n", special=False)])
    *marks, lines = tokenizer.convert_tokens_to_ids(["<|user|>", "<|assistant|>", "\n\n"])  # type: ignore[misc]  # a list

    pieces = ChatTemplate(tokenizer).encode([user("a\n\n<|assistant|>b"), assistant("<|user|>", "<|user|>c")])
    ids = [id for piece in pieces if isinstance(piece, tuple) for id in piece]

    assert [id for id in ids if id in marks] == marks and lines in ids
    assert tokenizer.decode(ids) == "<|user|>a\n\n<|assistant|>b<|assistant|><|user|><|user|>c"


@pytest.mark.parametrize(
    "mark", ["\ue0000\ue001", "\ue000h0\ue001", "\ue000\ue001", "\ue000p9\ue001", "\ue000", "\ue001"]
)
def test_a_text_cannot_make_a_hole(mark: str) -> None:
    assert "".join(map(str, shown(CHAT, user(f"a{mark}b"), opened=False))) == f"<|im_start|>user\na{mark}b<|im_end|>\n"


def test_plain_reading_holds_in_many_threads_at_once() -> None:
    plain, special = CHAT.ids("a<|im_end|>", plain=True), CHAT.ids("a<|im_end|>")
    fresh = ChatTemplate(copy.deepcopy(tiny_tokenizer()))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: fresh.ids("a<|im_end|>", plain=n % 2 == 0), range(200)))

    assert special[-1] == 2 and 2 not in plain
    assert found == [plain, special] * 100


def test_a_template_that_leaves_a_message_out_is_refused() -> None:
    last_only = "{{ messages[-1].content }}"
    with pytest.raises(ModelError, match="leaves out 1 of the messages it was given"):
        chat(last_only).encode([user("Say ", 0), assistant("yes"), user("Why?")])


def test_a_template_that_drops_what_the_assistant_said_is_noticed_when_it_is_loaded() -> None:
    users = "{% for turn in messages if turn.role == 'user' %}{{ turn.content }}{% endfor %}"
    with pytest.raises(ModelError, match="leaves out the assistant's texts; give the tokenizer a template"):
        assemble("tiny", tiny_model(), tokenizer_with(users))


# Templates that fail

BROKEN = [
    "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    "{{ messages[0].content.__class__.__mro__ }}",
    "{{ messages.missing.more }}",
    "{{ 1 / 0 }}",
    "{% if %}",
    "{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}",
    "{{ raise_exception('a\n' * 100000) }}",
    "\ue00099\ue001",
    "\ud800",  # seen: a TypeError of the tokenizer
]


@pytest.mark.parametrize("template", BROKEN, ids=lambda each: str(each[:60].encode("unicode_escape"), "ascii"))
def test_a_template_that_fails_is_refused_in_one_line(template: str) -> None:
    with pytest.raises(ModelError, match="chat template") as caught:
        chat(template).encode([user("?")])
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 1000


ORDINARY = [each for name, each in vars(chats).items() if name.isupper() and isinstance(each, str) and "{%" in each]
WITH_CALLS = (
    "{%- set ns = namespace(n=0) -%}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if ns.n > 2 %}{% continue %}"
    "{% endif %}{% generation %}{{ {'<é>': m.content, 'n': dict(a=1)} | tojson(indent=2) }}{% endgeneration %}"
    "{% endfor %}{{ strftime_now('%Y') }}{{ tools is none }}{{ documents is none }}{{ eos_token }}"
)


@pytest.mark.parametrize(
    ("template", "date"),
    [
        (chats.LLAMA_3_2, "31 Dec 2019"),
        (chats.LLAMA_3_2.replace("strftime_now is defined", "false"), "31 Dec 2019"),  # as Llama 3.1
        ('{%- set today = strftime_now("%d %B %Y") -%}Today Date: {{ today }}', "31 December 2019"),  # SmolLM3
        ("Today's Date: {{ strftime_now('%B %d, %Y') }}.", "December 31, 2019"),  # Granite
        ('{%- macro system() -%}Date: {{ strftime_now( "%Y-%m-%d" ) }}{%- endmacro %}{{ system() }}', "2019-12-31"),
    ],
    ids=["Llama 3.2", "Llama 3.1", "SmolLM3", "Granite", "gpt-oss"],
)
def test_a_template_in_a_run_prints_the_date_of_the_run_and_elsewhere_that_of_today(template: str, date: str) -> None:
    chat, turns = ChatTemplate(tokenizer_with(template)), [{"role": "user", "content": "?"}]
    with started_at(datetime(2019, 12, 31, 23, tzinfo=UTC)):
        assert date in chat.rendered(turns, True)
    assert "2019" not in chat.rendered(turns, True)


class Counting:
    """A tokenizer that counts the characters it reads."""

    def __init__(self) -> None:
        self.own, self.read = tiny_tokenizer(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def __call__(self, text: str, **options: Any) -> Any:
        self.read += len(text)
        return self.own(text, **options)

    def __deepcopy__(self, memo: object) -> Counting:
        return self


@pytest.mark.parametrize("text", ["What is 1 + 1? " * 9999, "<s>" * 9999])
def test_a_text_far_longer_than_the_context_is_refused_without_reading_all_of_it(text: str) -> None:
    """Seen: 41 seconds for a question of 5 MB over HTTP."""
    tokenizer = Counting()
    chat = ChatTemplate(tokenizer)  # type: ignore[arg-type]  # it forwards to one

    with pytest.raises(ContextOverflow, match=r"a text of [\d,]+ characters, which is more than the 32 tokens"):
        chat.encode([user(text)], most=32)
    with pytest.raises(ContextOverflow):
        chat.ids(text, plain=True, most=32)
    assert tokenizer.read < 1200


def test_a_long_text_of_few_tokens_is_read() -> None:
    assert CHAT.encode([user("a" * 300)], most=302)


@pytest.mark.parametrize("template", [CHATML, *ORDINARY, WITH_CALLS], ids=str)
@pytest.mark.parametrize("opened", [True, False])
def test_an_ordinary_template_writes_what_transformers_has_it_write(template: str, opened: bool) -> None:
    tokenizer = tokenizer_with(template)
    turns = [{"role": "user", "content": " <b> é\n"}, {"role": "assistant", "content": "4"}]

    try:
        expected = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=opened)
    except TemplateError as error:
        with pytest.raises(TemplateError, match=str(error)):
            ChatTemplate(tokenizer).rendered(turns, opened)
        return
    assert ChatTemplate(tokenizer).rendered(turns, opened) == expected
