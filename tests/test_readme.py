"""What README and pages say is so: links lead somewhere, code runs, and what is shown is what the program shows."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sottovoce.core.any_types import Untyped
from tests import warm
from tests.support import FAMILIES, LIMITED

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
WRITTEN = [README, ROOT / "CONTRIBUTING.md", *PAGES, *sorted(ROOT.glob("*/README.md"))]
WRITTEN += [ROOT / "CHANGELOG.md", *sorted(ROOT.glob("sottovoce/*/README.md"))]
MADE = re.compile(r"<!-- made: .*?<!-- end -->", re.DOTALL)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)#]*)(#[^)]*)?\)")
MOST_WORDS = 1600
LOADED = re.compile(
    r"""<(?:script|img|iframe|link rel="?(?:stylesheet|preconnect))[^>]*(?:src|href)=["']?(?:https?:)?//"""
)
"""What a page would load from the net."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_of(page: Path) -> str:
    """The Python of a page, one block after another; what is shown of other files is tested there."""
    blocks = FENCED.findall(MADE.sub("", page.read_text(encoding="utf-8")))
    return "\n\n".join(block for language, block in blocks if language == "python")


def checked(folder: Path, *what: str) -> subprocess.CompletedProcess[str]:
    """A check of pages that are made, by a process whose payloads go to a folder of the test's own."""
    code = "import runpy, sys; sys.argv[0] = 'docs/generate.py'; runpy.run_path(sys.argv[0], run_name='__main__')"
    return warm.run(code, "--check", *what, cwd=ROOT, env=own_store(folder))


def own_store(folder: Path) -> dict[str, str]:
    return {**os.environ, "SOTTOVOCE_STORE": str(folder), "SOTTOVOCE_RUNS": str(folder), "PYTHONPATH": str(ROOT)}


def test_readme_is_read_in_five_minutes() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_the_families_are_those_that_are_tested() -> None:
    tested = {family.partition("-")[0] for family in FAMILIES} | {*LIMITED}  # a variant is named behind a dash
    table = (ROOT / "models" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (?!refused|protocols)", table, re.MULTILINE)

    assert len([family for row in rows for family in row.split(", ")]) == len(tested)
    assert f"These {len(tested)} are tested" in table
    assert f"models of {len(tested)} families" in README.read_text(encoding="utf-8")


NAME = re.compile(r"`(sottovoce(?:\.\w+)+)`")
FILE = re.compile(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|md|yaml|toml))`")
OF_USERS = ("packs/", "panel/", "prompts/others.md")  # paths of examples
GROUPS = "schemes protocols kinds retrievers positions datasets".split()  # of entry points


def exists(name: str) -> bool:
    """Whether a dotted name is a module, an attribute of one or of a class in one, or a group of entry points."""
    module, _, attribute = name.rpartition(".")
    if module == "sottovoce" and attribute in [*GROUPS, "toml"]:
        return True
    try:
        return bool(importlib.util.find_spec(name)) or hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        if not module:
            return False
        owner, _, kind = module.rpartition(".")
        return bool(owner) and hasattr(getattr(importlib.import_module(owner), kind, None), attribute)


def test_every_name_and_file_in_backticks_exists() -> None:
    absent = list[tuple[str, str]]()
    for page in WRITTEN:
        text = page.read_text(encoding="utf-8")
        files = [path for path in FILE.findall(text) if not path.startswith(OF_USERS)]
        lost = [path for path in files if not any((folder / path).exists() for folder in (ROOT, page.parent))]
        absent += [(named(page), name) for name in [*lost, *(n for n in NAME.findall(text) if not exists(n))]]
    assert absent == []


def headings(page: Path) -> set[str]:
    """The anchors that a host of files gives to a page's headings."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere_in_a_clone() -> None:
    links = [
        (named(page), page.parent / target if target else page, anchor)
        for page in WRITTEN
        for target, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    ]
    assert [(page, to) for page, to, _ in links if not to.exists()] == []
    assert [(page, to, at) for page, to, at in links if at and to.is_file() and at[1:] not in headings(to)] == []


def test_the_code_of_readme_runs(tmp_path: Path) -> None:
    """The bundled model stands in for the small one, whose answers are tested in `tests/real`."""
    done = warm.run(code_of(README).replace("smollm2", "bundled"), cwd=ROOT, env=own_store(tmp_path))

    assert done.returncode == 0, done.stderr
    assert "22" in done.stdout and "tokens_out" in done.stdout


TYPED = [
    shlex.split(line, comments=True)[2:]
    for line in re.findall(r"^    (python cli\.py .*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
]
NOT_RUN = ("experiment run", "step", "view", "--human", "PATH/Qwen")  # minutes, a person, or a model of the reader's


def test_every_command_of_readme_and_its_options_exist() -> None:
    from sottovoce.cli.main import program

    wrong = list[str]()
    for words in TYPED:
        command: Untyped = program
        for word in words[: 2 if words[0] in ("runs", "experiment", "step") else 1]:
            command = command and command.get_command(click.Context(program), word)
        known = {name for param in command.params for name in param.opts} if command else set[str]()
        wrong += words if command is None else [word for word in words if word[:2] == "--" and word not in known]
    assert wrong == [] and len(TYPED) > 10


@pytest.mark.slow
def test_the_commands_of_readme_run_one_after_another(tmp_path: Path) -> None:
    for words in TYPED:
        if not any(part in " ".join(words) for part in NOT_RUN):
            command = [sys.executable, str(ROOT / "cli.py"), *words]
            done = subprocess.run(
                command, capture_output=True, check=False, text=True, cwd=tmp_path, env=own_store(tmp_path)
            )
            assert done.returncode == 0, (words, done.stderr)
    assert {"table.tex", "plots", "report.html"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page)], ids=named)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text(code_of(page), encoding="utf-8")

    own = own_store(tmp_path)
    plugin = {
        **own,
        "PYTHONPATH": os.pathsep.join([own["PYTHONPATH"], str(ROOT / "tests" / "plugin")]),
    }  # pages of packages
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, check=False, text=True, cwd=ROOT, env=plugin
    )

    assert done.returncode == 0, done.stderr


def test_make_debate_shows_what_readme_shows() -> None:
    debate = re.search(r"^debate: .*\n\t\$\(BIN\)/python cli.py (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert debate is not None
    assert f"made: run {debate[1]} -->" in README.read_text(encoding="utf-8")


def test_graphs_options_and_code_are_those_of_the_program(tmp_path: Path) -> None:
    done = checked(tmp_path, "draw", "options", "retrievers", "published", "code")

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_transcripts_are_what_the_commands_print(tmp_path: Path) -> None:
    done = checked(tmp_path, "run", "example")

    assert done.returncode == 0, done.stderr


def test_every_scheme_and_protocol_has_a_page() -> None:
    from sottovoce.channels import PROTOCOLS
    from sottovoce.graphs import NAMES

    drawn = "".join(page.read_text(encoding="utf-8") for page in PAGES if page.parent.name == "schemes")

    assert [name for name in NAMES if f"made: draw {name}" not in drawn] == []
    assert {path.stem for path in PAGES if path.parent.name == "protocols"} == {"index", *PROTOCOLS.names()}


def test_the_page_of_protocols_has_every_field_of_requests_and_replies() -> None:
    from sottovoce import models

    page = (ROOT / "docs" / "howto" / "protocol.md").read_text(encoding="utf-8")
    names = "Ids Rows Cached Edit Request Stop Feed Sampling Record Reply".split()
    fields = {field for name in names for field in getattr(models, name).__dataclass_fields__} - {"origin"}

    assert [name for name in [*names, *sorted(fields)] if f"`{name}`" not in page] == []


@pytest.mark.slow
def test_the_pages_are_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]

    done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=ROOT, env=quiet)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert (tmp_path / "reference" / "graphs.html").exists()
    assert [page.name for page in tmp_path.rglob("*.html") if LOADED.search(page.read_text(encoding="utf-8"))] == []
    assert "scheme.html" in searched(tmp_path, "palaver")  # a part of a file's name


def searched(site: Path, words: str) -> str:
    """Return what the site's own search lists for these words in pages that are opened from a folder."""
    from selenium.webdriver.support.ui import WebDriverWait

    from tests.browser import chromium

    with chromium() as browser:
        browser.get(f"{(site / 'reference' / 'index.html').as_uri()}?q={words}")
        return str(WebDriverWait(browser, 600).until(_results))


def _results(browser: Untyped) -> str:
    found = browser.find_elements("css selector", ".md-search-result__link")
    return " ".join(str(each.get_attribute("href")) for each in found)
