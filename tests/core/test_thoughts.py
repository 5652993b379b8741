"""The split of a reply into thoughts and text, in all shapes that occur."""

from __future__ import annotations

from time import process_time

import pytest

from sottovoce.core.thoughts import (
    FAMILIES,
    Markers,
    Parts,
    Said,
    is_opened_by_prompt,
    most_thoughts,
    split,
    unknown_tag,
)

CODE = "Write it like this:\n```\n<think>hm</think>\n```\nDone."
SHAPES = {
    "5": ("", "5"),
    "<think>12 * 8 = 96</think>\n\nIt is 96.": ("12 * 8 = 96", "It is 96."),
    "so 96.</think>\nIt is 96.": ("so 96.", "It is 96."),  # the prompt opened the block
    "<think>\n12*8=96 and so": ("12*8=96 and so", ""),  # cut
    "<think>only \\boxed{96} here</think>": ("only \\boxed{96} here", ""),
    "Well. <think>hm</think> 96.": ("hm", "Well.  96."),
    "<think>a</think>1. <think>b</think>2.": ("a\n\nb", "1. 2."),
    "<think></think>\n\n96": ("", "96"),
    "<think>a <think> b</think>96": ("a <think> b", "96"),
    "<THINK>a</Think>96": ("a", "96"),
    CODE: ("", CODE),
    "The tag `<think>` opens it.": ("", "The tag `<think>` opens it."),
    "<think>```py\nx = 1</think>```py\ny\n```": ("```py\nx = 1", "```py\ny\n```"),
    "[THINK]a[/THINK]96": ("a", "96"),
    "<seed:think>a</seed:think>96": ("a", "96"),
    "◁think▷a◁/think▷96": ("a", "96"),
    "<think>a</think><response>96</response>": ("a", "96"),
    "<|channel>thought\na<channel|>96": ("a", "96"),
    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>96<|return|>": ("a", "96"),
    "<|channel|>analysis<|message|>a": ("a", ""),
    "4 < 5 and </b>": ("", "4 < 5 and </b>"),
    # Cohere, Apertus, OpenThinker, prompts that ask for a scratchpad, Reflection, Open WebUI
    "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>96<|END_RESPONSE|>": ("a", "96"),
    "<|START_RESPONSE|>96<|END_RESPONSE|>": ("", "96"),
    "<|inner_prefix|>a<|inner_suffix|>96<|assistant_end|>": ("a", "96"),
    "<|begin_of_thought|>a<|end_of_thought|>\n\n<|begin_of_solution|>96<|end_of_solution|>": ("a", "96"),
    "<scratchpad>a</scratchpad>96": ("a", "96"),
    "<scratchpad>a": ("a", ""),
    "<thinking>a <reflection>b</reflection> c</thinking>\n<output>96</output>": (
        "a <reflection>b</reflection> c",
        "96",
    ),
    "<thinking>a</thinking>\n<reflection>b</reflection>\n96": ("a\n\nb", "96"),
    '<details type="reasoning" done="true">\na\n</details>\n96': ("a", "96"),
    # Apriel, Granite 3.2, entities
    "Here are my reasoning steps:\na\n[BEGIN FINAL RESPONSE]\n96\n[END FINAL RESPONSE]\n<|end|>": (
        "Here are my reasoning steps:\na",
        "96",
    ),
    "Here is my thought process:\na\n\nHere is my response:\n96": ("a", "96"),
    "&lt;think&gt;a&lt;/think&gt;96": ("a", "96"),
    # harmony: special tokens that its server dropped, and calls of tools
    "analysisWe add.assistantfinal96": ("We add.", "96"),
    'analysisa.assistantcommentary to=functions.add json{"a": 1}': (
        'a.assistantcommentary to=functions.add json{"a": 1}',
        "",
    ),
    "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.add "
    '<|constrain|>json<|message|>{"a": 1}<|call|>': (
        'a<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 1}<|call|>',
        "",
    ),
    '<|start|>assistant to=functions.add<|channel|>commentary <|constrain|>json<|message|>{"a": 1}<|call|>': (
        '{"a": 1}<|call|>',
        "",
    ),
    '<|channel|>final <|constrain|>json<|message|>{"a": 1}<|return|>': ("", '{"a": 1}'),
}
TEXTS = (
    "The tag <think> opens it, and </think> closes it.",
    'It begins with "<think>" and the answer is 96.',
    "Then <scratchpad> and no more",
    "analysis of both gives 96",
    "Here is my thought process: 12 * 8 is 96.",
    "<details><summary>Steps</summary>a</details>96",
    "<answer>96</answer> I am sure.",
    "A response begins with [BEGIN FINAL RESPONSE] in some models.",
)
"""Replies that mention markers, or begin as thoughts of some families do."""


def test_every_shape_is_split_into_thoughts_and_text() -> None:
    assert {reply: tuple(split(reply)) for reply in SHAPES} == SHAPES


@pytest.mark.parametrize("markers", FAMILIES, ids=lambda markers: markers.open.strip())
def test_the_markers_of_every_family_are_known_in_text_too(markers: Markers) -> None:
    assert split(f"{markers.open}so 5{markers.close}6") == Said("so 5", "6")


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_mentions_a_marker_is_all_text(text: str) -> None:
    assert split(text) == Said("", text)


def test_the_markers_of_an_unknown_family_can_be_named() -> None:
    assert split("<muse>a</muse>96", ("<muse>\n", "</muse>\n\n")) == Said("a", "96")
    assert unknown_tag("<muse>a</muse>96") == "muse"
    for text in (
        "<muse>a</muse>",
        "<b>a</b>96",
        "<answer>a</answer>96",
        "<tool_call>a</tool_call>96",
        "96",
        "a <muse>",
    ):
        assert not unknown_tag(text)


STREAMED = [
    reply for reply in SHAPES if not reply.startswith(("Here", "analysis", "Well", "so 96", "The tag", "Write"))
]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_reply_that_arrives_in_pieces_is_split_as_it_comes(size: int) -> None:
    for reply in STREAMED:
        whole, parts = split(reply), Parts()
        pieces = [parts.add(reply[i : i + size]) for i in range(0, len(reply), size)] + [parts.add("", last=True)]
        thoughts, text = ("".join(each) for each in zip(*pieces, strict=True))
        if reply.startswith("<think>a</think>1."):  # a block behind the text stays where it is
            whole = Said("a", "1. <think>b</think>2.")
        assert "".join(thoughts.split()) == "".join(whole.thoughts.split())
        assert text.startswith(whole.text)  # marks that end a turn come too late to be left out


def test_a_reply_in_pieces_whose_thoughts_the_prompt_opened_begins_with_them() -> None:
    parts = Parts(opened=True)
    pieces = [parts.add(piece) for piece in ("so ", "96.</th", "ink>", "\nIt is ", "96.")]
    assert pieces == [("so ", ""), ("96.", ""), ("", ""), ("", "It is "), ("", "96.")]
    assert is_opened_by_prompt("so 96.</think>96") and not is_opened_by_prompt("<think>so</think>96")


def test_thoughts_that_were_cut_may_begin_on_an_indented_line() -> None:
    assert split("So:\n  <think>12 * 8") == ("12 * 8", "So:")


def test_a_fence_that_thoughts_left_open_hides_no_later_marker() -> None:
    reply = "<think>\n```python\nx = 96\n</think>So far.<think>Sure.</think> It is 96."
    assert split(reply) == ("```python\nx = 96\n\nSure.", "So far. It is 96.")


@pytest.mark.parametrize("own", [("{think}", "{/think}"), ("Reasoning:", "Reply:"), ("<a>b", "<c>d")])
def test_a_reply_in_pieces_is_split_at_markers_that_begin_and_end_with_any_character(own: tuple[str, str]) -> None:
    parts = Parts(own)
    pieces = [parts.add(letter) for letter in f"{own[0]}hm{own[1]}96"] + [parts.add("", last=True)]
    assert tuple("".join(each) for each in zip(*pieces, strict=True)) == ("hm", "96")


def test_one_token_of_thoughts_is_a_limit_and_not_a_switch() -> None:
    assert [most_thoughts(wish) for wish in (1, True, None, False)] == [1, 1024, 1024, 0]


HOSTILE = (
    *("<think>", "</think>", "<think>a</think>", "`<think>` ", "```a\n", "a <reflection> ", "tags <think> and "),
    *(
        "<|start|>assistant",
        "<|channel|>analysis ",
        '<details type="reasoning" ',
        "<|end_of_thought|>         ",
        " ",
        "\n",
    ),
)


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_is_split_in_linear_time(unit: str) -> None:
    def seconds(n: int) -> float:
        text, begun = f"analysis<think>a</think>{unit * n}</think>b", process_time()
        split(text), split(unit * n)
        parts = Parts()
        for i in range(0, len(text), 50):
            parts.add(text[i : i + 50])
        return process_time() - begun

    assert seconds(8_000) < 40 * max(seconds(1_000), 0.002)  # 64 times if it were quadratic
