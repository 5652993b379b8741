"""The help: what most people need first, in panels, every word whole however wide the terminal is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer
import typer.main

from sottovoce.cli.commands.help import show_help
from sottovoce.cli.main import AREAS, app
from sottovoce.graphs import schemes
from sottovoce.settings import Settings
from sottovoce.settings.option_groups import FIRST, GROUPS, heading
from tests.cli.conftest import Call

SAME = ("draw", "symmetry", "tune", "step")
"""Below these stand the options of the schemes' own commands again."""


@cache
def commands() -> dict[tuple[str, ...], Any]:
    """Every command with the words that call it; of those that repeat the schemes' options the first one."""
    return dict(_below((), typer.main.get_command(app)))


def _below(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    names = list(getattr(command, "commands", {}))
    for name in names[:1] if path and path[-1] in SAME else names:
        yield from _below((*path, name), command.commands[name])


def words(shown: str) -> set[str]:
    """What stands between spaces and borders; of values that are chosen from, each."""
    plain = re.sub("[│╭╮╰╯─]", " ", shown).split()
    return {*plain, *(piece for each in plain for piece in each.split("|"))}


def told(command: Any) -> set[str]:
    """The words that the help of a command must have: names, values and texts of its options and of its commands."""
    texts = [
        command.help or "",
        command.epilog or "",
        *(each.help for each in getattr(command, "commands", {}).values()),
    ]
    for each in command.params:
        texts += [*(each.opts if each.param_type_name == "option" else []), each.help]
        texts += (each.metavar or "").split("|")
    return {word for text in texts for word in text.split()}


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_no_word_of_any_help_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    for path, command in commands().items():
        show_help(command, typer.Context(command, info_name=" ".join(("sottovoce", *path))))

        shown = capsys.readouterr().out
        assert told(command) - words(shown) == set(), path
        assert max(map(len, shown.splitlines())) <= columns, path


def test_commands_stand_in_groups_of_which_the_schemes_come_first(call: Call) -> None:
    shown = call("--help").out

    assert re.findall(r"^╭─ (.*?) ─", shown, re.MULTILINE) == ["Options", *AREAS]
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("│ debate")] == ["debate"]


def test_what_most_people_need_takes_the_first_screen(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = call("debate", "--help").out.splitlines()

    first = lines[: next(at for at, line in enumerate(lines) if line.startswith("╰")) + 1]
    assert len(first) <= 28
    named = [word for line in first if (word := line[2:].split(" ")[0])]
    assert [name for name in named if name.startswith("--") or name == "QUESTION"] == [
        "QUESTION", "--agents", "--rounds", "--protocol", "--model", "--temperature", "--max-tokens", "--seed",
        "--settings", "--save", "--json", "--help",
    ]  # fmt: skip
    panels = re.findall(r"^╭─ (.*?) ─", "\n".join(lines), re.MULTILINE)
    assert panels == ["Options", "The scheme", *GROUPS, "Question", "Limits", "Output"]


def test_every_setting_of_all_schemes_has_a_heading_that_says_what_it_is_about() -> None:
    grouped = [name for names in GROUPS.values() for name in names]

    assert len(grouped) == len({*grouped})
    assert {*Settings.model_fields} - {*grouped} == {*Settings.model_fields} & {*FIRST}
    of_schemes = {name for each in schemes() for name in each.settings.model_fields}
    assert {*grouped} <= of_schemes and heading("agents") is None and heading("shape") == "The scheme"


def test_a_value_too_long_for_a_line_is_broken_between_its_choices(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")

    shown = call("debate", "--help").out

    assert "│ --partial entropy|entropy_reversed|max|  │\n│     max_reversed " in shown
