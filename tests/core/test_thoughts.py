"""The split of a reply into thoughts and text, in all shapes that occur."""

from __future__ import annotations

import pytest

from sottovoce.core.thoughts import FAMILIES, Markers, Said, split

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
}


def test_every_shape_is_split_into_thoughts_and_text() -> None:
    assert {reply: tuple(split(reply)) for reply in SHAPES} == SHAPES


@pytest.mark.parametrize("markers", FAMILIES, ids=lambda markers: markers.open.strip())
def test_the_markers_of_every_family_are_known_in_text_too(markers: Markers) -> None:
    assert split(f"{markers.open}so 5{markers.close}6") == Said("so 5", "6")
