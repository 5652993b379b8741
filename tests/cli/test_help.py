"""Tests of the help: the short one, the long one, and no word cut."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from sottovoce.cli.command import EVERY
from sottovoce.cli.main import program
from sottovoce.cli.options import COMMON, RARE
from sottovoce.graphs import NAMES, schemes
from sottovoce.nodes.option_groups import FIRST, GROUPS, heading
from sottovoce.nodes.settings import Settings
from tests.cli.conftest import Call


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=" ".join(("sottovoce", *path)))
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


def lines_of(path: tuple[str, ...], command: click.Command, *, every: bool = False) -> list[str]:
    context = click.Context(command, info_name=" ".join(("sottovoce", *path)), max_content_width=100)
    context.meta[EVERY] = every
    return context.get_help().splitlines()


ALL = dict(commands(program))
ONE_OF_EACH_GROUP = {path: command for path, command in ALL.items() if {*path} & {*NAMES} <= {"debate", "whodunit"}}
"""Every command, without those of groups of schemes that differ only in the scheme's own options."""


def expected_words(command: click.Command) -> set[str]:
    """The words that the long help of a command must have: names, values and texts of its options."""
    texts = [command.help or ""]
    for option in command.params:
        if getattr(option, "hidden", False):
            continue
        texts += [*(option.opts if isinstance(option, click.Option) else []), getattr(option, "help", "") or ""]
        texts += [option.metavar or "", getattr(option, "about", "")]
    return words(texts)


def words(texts: list[str]) -> set[str]:
    """The words of texts; lines may break after a hyphen."""
    return {part for text in texts for part in re.split(r"\s|(?<=-)", text) if part}


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_no_word_of_any_help_is_cut_except_after_a_hyphen(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    for path, command in ONE_OF_EACH_GROUP.items():
        lines = lines_of(path, command, every=True)
        assert expected_words(command) - words(lines) == set(), path
        assert max(map(len, [*lines, *lines_of(path, command)])) <= columns, path


def test_the_help_of_the_program_fits_one_screen(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    shown = call("--help").out

    assert re.findall(r"^(\w.*):$", shown, re.MULTILINE) == ["Options", "Schemes", "Other commands"]
    assert len(shown.splitlines()) <= 40


def test_the_help_of_every_command_takes_at_most_sixty_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert {path: n for path, command in ALL.items() if (n := len(lines_of(path, command))) > 60} == {}


def test_the_short_help_has_what_most_people_need(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    short, long = call("debate", "--help").out, call("debate", "--help-all").out

    options = [
        name.strip("-").replace("-", "_") for name in re.findall(r"^  (QUESTION|--[a-z-]+)", short, re.MULTILINE)
    ]
    own = {option.name for option in ALL["debate",].params if getattr(option, "heading", "") == "The scheme"}
    assert options[:4] == ["QUESTION", "agents", "rounds", "protocol"]
    assert {*COMMON, *own} <= {*options} <= {"QUESTION", *FIRST, *COMMON, *own, "help_all", "help"}
    assert re.findall(r"^(\w.*):$", short, re.MULTILINE) == ["Options", "The scheme"]
    panels = re.findall(r"^(\w.*):$", long, re.MULTILINE)
    assert panels == ["Options", "The scheme", *GROUPS, "Question", "Limits", "Output"]
    assert {*panels[2:]} <= {*RARE}


def test_every_setting_of_all_schemes_has_a_heading_that_says_what_it_is_about() -> None:
    grouped = [name for names in GROUPS.values() for name in names]

    assert len(grouped) == len({*grouped})
    assert {*Settings.model_fields} - {*grouped} == {*Settings.model_fields} & {*FIRST}
    of_schemes = {name for each in schemes() for name in each.settings.model_fields}
    assert {*grouped} <= of_schemes and heading("agents") is None and heading("shape") == "The scheme"


def test_a_debate_lists_no_more_than_88_options_and_no_files_of_games() -> None:
    listed = {
        name: [row for row in lines_of((name,), ALL[(name,)], every=True) if row.startswith("  --")]
        for name in NAMES
        if (name,) in ALL
    }

    assert len(listed["debate"]) <= 88 and any(row.startswith("  --column") for row in listed["debate"])
    games = {name for name, rows in listed.items() if any(row.startswith("  --game ") for row in rows)}
    assert games == {"whodunit", "codegen", "govsim"}
