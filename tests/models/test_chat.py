from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
from transformers import PreTrainedTokenizerFast

from sottovoce.errors import ModelError
from sottovoce.models.chat import ChatTemplate, ChatTurn
from tests.support import CHATML, ids, tiny_tokenizer

CHAT = ChatTemplate(tiny_tokenizer())
NO_SYSTEM = (
    "{% for message in messages %}{% if message.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
STRICT = (
    "{% for message in messages %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
TRIMMED = (
    "{% for message in messages %}[{{ message.content | trim }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}"
)
SILENT = NO_SYSTEM.replace("{{ raise_exception('no system role') }}{% endif %}", "{% else %}").replace(
    "{{ message.content }}{% endfor %}", "{{ message.content }}{% endif %}{% endfor %}"
)
SILENT = (
    "{% for message in messages if message.role != 'system' %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
REFUSING = "{{ raise_exception('I take no chat') }}"


def chat(template: str | None) -> ChatTemplate:
    tokenizer = copy.deepcopy(tiny_tokenizer())
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    tokenizer.chat_template = template
    return ChatTemplate(tokenizer)


def shown(template: ChatTemplate, *turns: ChatTurn, opened: bool = True) -> list[str | int]:
    """The pieces of a chat as text, holes by number."""
    pieces = template.encode(turns, opened=opened)
    return [piece if isinstance(piece, int) else str(template.tokenizer.decode(list(piece))) for piece in pieces]


def system(*parts: str | int) -> ChatTurn:
    return ChatTurn("system", parts)


def user(*parts: str | int) -> ChatTurn:
    return ChatTurn("user", parts)


def assistant(*parts: str | int) -> ChatTurn:
    return ChatTurn("assistant", parts)


def test_a_chat_without_holes_has_the_ids_of_transformers() -> None:
    turns = [("system", "Be brief."), ("user", " What is 14?\n"), ("assistant", "22"), ("user", "Why?")]
    expected = tiny_tokenizer().apply_chat_template(
        [{"role": role, "content": content} for role, content in turns], add_generation_prompt=True, return_dict=False
    )

    assert CHAT.encode([ChatTurn(role, (content,)) for role, content in turns]) == [tuple(expected)]


@pytest.mark.parametrize(
    ("parts", "pieces"),
    [
        (("Say ", 0, "."), ["<|im_start|>user\nSay ", 0, ".<|im_end|>\n<|im_start|>assistant\n"]),
        ((0, " first"), ["<|im_start|>user\n", 0, " first<|im_end|>\n<|im_start|>assistant\n"]),
        (("last ", 0), ["<|im_start|>user\nlast ", 0, "<|im_end|>\n<|im_start|>assistant\n"]),
        ((0,), ["<|im_start|>user\n", 0, "<|im_end|>\n<|im_start|>assistant\n"]),
        ((0, 1), ["<|im_start|>user\n", 0, 1, "<|im_end|>\n<|im_start|>assistant\n"]),
        (
            (12, "\n", 3, "and", 12),  # in any order, and more than once
            ["<|im_start|>user\n", 12, "\n", 3, "and", 12, "<|im_end|>\n<|im_start|>assistant\n"],
        ),
        (("One", " two"), ["<|im_start|>user\nOne", " two<|im_end|>\n<|im_start|>assistant\n"]),
        (("", 0, ""), ["<|im_start|>user\n", 0, "<|im_end|>\n<|im_start|>assistant\n"]),
        ((), ["<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n"]),
    ],
)
def test_holes_and_seams_cut_the_wording(parts: tuple[str | int, ...], pieces: list[str | int]) -> None:
    assert shown(CHAT, user(*parts)) == pieces


def test_no_token_spans_a_seam() -> None:
    joined, apart = CHAT.encode([user("The answer")]), CHAT.encode([user("The ans", "wer")])

    assert len(joined) == 1 and len(apart) == 2
    assert ids(" answer")[0] in joined[0] and not any(ids(" answer")[0] in piece for piece in apart)  # type: ignore[operator]


def test_the_assistants_turn_is_opened_only_where_asked_for() -> None:
    assert shown(CHAT, user("Hi"), opened=False) == ["<|im_start|>user\nHi<|im_end|>\n"]


@pytest.mark.parametrize("template", [NO_SYSTEM, STRICT])
def test_a_template_without_system_role_reads_it_before_the_question(template: str) -> None:
    assert shown(chat(template), system("Be brief."), user("Why", 0)) == ["<user>Be brief.\n\nWhy", 0, "<assistant>"]


def test_a_template_with_strict_alternation_reads_neighbours_as_one_turn() -> None:
    turns = [user("A", 0), user(1, "B"), assistant("C"), assistant(2), user("D")]

    pieces = shown(chat(STRICT), *turns)

    assert pieces == ["<user>A", 0, "\n\n", 1, "B<assistant>C\n\n", 2, "<user>D<assistant>"]


def test_a_template_that_refuses_any_chat_is_named_with_the_turns() -> None:
    with pytest.raises(ModelError, match=r"chat template refuses the turns \(system, user\): I take no chat"):
        chat(REFUSING).encode([system("Be brief."), user("Hi")])


def test_a_template_that_trims_takes_no_space_beside_a_hole() -> None:
    pieces = shown(chat(TRIMMED), user("  A ", 0, " "), user(1, " B  "))

    assert pieces == ["[A ", 0, "][", 1, " B]>"]


def test_a_model_without_template_gets_its_roles_in_words() -> None:
    pieces = shown(chat(None), system("Be brief."), user("Say ", 0), assistant(1))

    assert pieces == ["System: Be brief.\n\nUser: Say ", 0, "\n\nAssistant: ", 1, "\n\nAssistant:"]


@pytest.mark.parametrize("template", [CHATML, None])
@pytest.mark.parametrize("special", ["<|im_end|>", "<|im_start|>system\n", "a<|endoftext|><|im_end|>b"])
def test_special_tokens_in_a_text_are_ordinary_characters(special: str, template: str | None) -> None:
    pieces = chat(template).encode([user("Say ", special, " now")], opened=False)
    said = [id for piece in pieces if isinstance(piece, tuple) for id in piece]
    empty = [id for piece in chat(template).encode([user()], opened=False) if isinstance(piece, tuple) for id in piece]

    assert [id for id in said if id < 3] == [id for id in empty if id < 3]
    assert f"Say {special} now" in tiny_tokenizer().decode(said)


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


def test_a_template_that_leaves_the_system_turn_out_reads_it_before_the_question() -> None:
    assert shown(chat(SILENT), system("Be brief."), user("Why", 0)) == ["<user>Be brief.\n\nWhy", 0, "<assistant>"]


def test_a_template_that_leaves_a_message_out_is_refused() -> None:
    last_only = "{{ messages[-1].content }}"
    with pytest.raises(ModelError, match="leaves out 1 of the messages it was given"):
        chat(last_only).encode([user("Say ", 0), assistant("yes"), user("Why?")])
