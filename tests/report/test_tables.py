"""Tables on a terminal and in a pipe."""

from __future__ import annotations

import pytest

from sottovoce.report.tables import Table, show, table
from tests.cli.screen import console_of, text_of

WIDE = "run | questions | discussions | accuracy | 95 % | abstained | failed | FLOPs | seconds, in parallel"
ROW = ["`nl`", "200", "200", "50.0%", "43.1% to 56.9%", "0", "0", "1.50e+12", "0.25"]


def shown(*parts: Table | str, width: int = 80, terminal: bool = True) -> str:
    console = console_of(width, terminal=terminal, color_system=None)
    show(*parts, console=console)
    return text_of(console)


def test_a_pipe_gets_markdown() -> None:
    text = shown("`run`: 3", "", table("a | b", [["`x|y`", "2"]]), "after", terminal=False)

    assert text == "`run`: 3\n\n| a | b |\n|---|---|\n| `x\\|y` | 2 |\n\nafter\n"


@pytest.mark.parametrize(("rows", "width"), [(1, 80), (12, 200)])
def test_a_terminal_breaks_no_word(rows: int, width: int) -> None:
    text = shown(table(WIDE, [ROW] * rows), width=width)

    words = {word for line in text.splitlines() for word in line.split()}
    assert {"discussions", "abstained", "1.50e+12", "nl", "parallel"} <= words
    assert "|" not in text and "`" not in text
    assert all(len(line.rstrip()) <= width for line in text.splitlines())


def test_a_bar_in_a_name_stays_and_text_around_tables_too() -> None:
    first, second = table("run | n", [["`a|b`", "1"]]), table("x | y", [["2", "3"]])

    lines = [line.strip() for line in shown("Before.", first, second, "- after").splitlines()]

    said = [line for line in lines if line and "─" not in line]
    assert said == ["Before.", "run   n", "a|b   1", "x   y", "2   3", "- after"]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("- one two three four", ["- one two", "  three four"]),
        ("mad  one two three", ["mad  one two", "     three"]),
        ("ends in /a/long/path/that/stays", ["ends in", "/a/long/path/that/stays"]),
    ],
)
def test_lines_are_wrapped_between_words_and_indented_as_their_text(line: str, lines: list[str]) -> None:
    """A terminal broke the verdicts below a table within words."""
    assert shown(line, width=12).splitlines() == lines
    assert shown(line, width=12, terminal=False).splitlines() == [line]
