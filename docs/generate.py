"""Generator of parts of README and pages from the program itself: `python docs/generate.py [--check] [KIND ...]`.

Such a part is between two comments, `<!-- made: draw debate agents=3 -->` and `<!-- end -->`: a drawing, a table of
options, the retrievers, published tables, code of a file, the output of a command or an example. KINDs select some of
them: draw, options, retrievers, published, code, run, example. With `--check` nothing is written, and pages that are
out of date are listed.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.core.any_types import JSON

if TYPE_CHECKING:
    from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"(?<=<!-- made: )(\w+) ?(.*?)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
WIDTH = "96"  # columns of a transcript
RUNS = str(ROOT / "site" / "runs")
"""The folder of quoted runs: in the build folder, not among the user's own runs."""
ALONE = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": ""}
"""The environment of commands: without a key, so that no output comes from elsewhere, and without user defaults."""
TIMED = re.compile(r"\d+\.\d s(?=$|; of )|\d+(?= of them reused)", re.MULTILINE)
"""Seconds, and tokens of prompts that one agent's request found in another's: that depends on which came first."""
Schema = JSON


def draw(subject: str) -> str:
    """Return a scheme's graph, as the command `graph draw` prints it: "debate agents=3"."""
    from sottovoce.graphs import scheme
    from sottovoce.graphs.discussion import create_discussion
    from sottovoce.nodes.rules import DiscussionRule

    name, *settings = subject.split()
    if name == "discussion":
        graph = create_discussion(type("Everybody", (DiscussionRule,), {})())
    else:
        record = scheme(name)
        graph = record.create(record.settings.model_validate(dict(each.split("=") for each in settings)))
    return fenced("mermaid", graph.compile().get_graph().draw_mermaid())


def options(subject: str) -> str:
    """Return a table of the options of a scheme, of a protocol, or of all schemes."""
    from sottovoce.nodes.option_groups import BY_NAME

    lines = [
        f"| `{'--option ' if name in BY_NAME else '--'}{name.replace('_', '-')}` | {values(schema)} "
        f"| {schema['description']} |"
        for name, schema in fields(subject).items()
    ]
    return "\n".join(["", "| option | values, the default in bold | meaning |", "|---|---|---|", *lines, "", ""])


def fields(subject: str) -> dict[str, Schema]:
    """Return the schemas of these options, by name."""
    from sottovoce.channels.options import (
        CacheOptions,
        CipherOptions,
        GraftOptions,
        ProtocolOptions,
        StateOptions,
        ThoughtsOptions,
    )
    from sottovoce.graphs import scheme
    from sottovoce.nodes.option_groups import OF_PROTOCOL
    from sottovoce.nodes.settings import Settings

    tables: dict[str, tuple[type[BaseModel], Collection[str]]] = {
        "common": (Settings, OF_PROTOCOL),
        "protocol": (ProtocolOptions, ()),
        "cipher": (CipherOptions, ProtocolOptions.model_fields),
        "sde": (StateOptions, ProtocolOptions.model_fields),
        "kv": (CacheOptions, {*ProtocolOptions.model_fields, "rank"}),
        "thoughts": (ThoughtsOptions, CacheOptions.model_fields),
        "graft": (GraftOptions, {*ProtocolOptions.model_fields, "rank", "keep"}),
    }
    model, known = tables.get(subject) or (scheme(subject).settings, Settings.model_fields)
    # A scheme may use a name for a setting of its own, as ReAct does `carry`.
    named = model.__annotations__ if issubclass(model, Settings) else {}
    ours = {name for name in OF_PROTOCOL if name in named}
    schemas = model.model_json_schema()["properties"].items()
    return {name: schema for name, schema in schemas if name not in known or name in ours}


def values(schema: Schema) -> str:
    """Return the values of an option: its choices, or its default."""
    default = schema.get("default")
    parts = [schema, schema.get("items", {}), *schema.get("anyOf", [])]
    choices = [choice for part in parts for choice in part.get("enum", [])]
    if default is False:
        return "a switch"  # it takes no value
    if isinstance(default, bool):
        default, choices = "on" if default else "off", ["on", "off"]
    first = default[0] if isinstance(default, list) and default else default
    if choices:
        return ", ".join(f"**{choice}**" if choice == first else str(choice) for choice in choices)
    return f"**{first}**" if first not in (None, "", [], {}) else ""


def retrievers(subject: str) -> str:
    """Return the table of our retrievers."""
    from sottovoce.retrievers import ABOUT

    needs = [re.sub(r"^(extra )?([^,]+)", r"\1`\2`", each.needs) for each in ABOUT.values()]  # format names as code
    rows = zip(ABOUT.values(), needs, strict=True)
    lines = [f"| `{each.spec}` | {each.searches} | {named} |" for each, named in rows]
    return "\n".join(["", "| `open_retriever(...)` | searches | needs |", "|---|---|---|", *lines, "", ""])


def published(subject: str) -> str:
    """Return the table of published tables and figures, as `experiment list` knows them."""
    from sottovoce.experiments.files import read_experiment, shipped

    listed = {name: read_experiment(path) for name, path in shipped().items()}
    lines = [
        f"| `{name}` | {each.published.paper} | {', '.join(each.points)} | "
        f"{len({row.name for row in each.rows.values()})} |"
        for name, each in listed.items()
        if each.published
    ]
    return "\n".join(["", "| name | paper | points | rows |", "|---|---|---|---|", *lines, "", ""])


def run(subject: str, script: str = "cli.py") -> str:
    """Return the output of a command in a terminal of WIDTH columns."""
    ours = {**os.environ, **ALONE, "COLUMNS": WIDTH, "SOTTOVOCE_RUNS": RUNS}
    command = [sys.executable, script, *subject.split()]
    return fenced("text", subprocess.check_output(command, cwd=ROOT, env=ours, text=True))


def code(subject: str) -> str:
    """Return definitions of a file by name, or the whole file: "tests/graphs/toys/palaver.py Talk speak"."""
    path, *names = subject.split()
    text = (ROOT / path).read_text(encoding="utf-8")
    lines, definitions = text.splitlines(), dict[str, str]()
    for node in ast.parse(text).body:
        first = min(part.lineno for part in [node, *getattr(node, "decorator_list", [])])
        for named in [node, *getattr(node, "targets", [])]:  # a class or function has a name, a variable an id
            name = getattr(named, "name", getattr(named, "id", ""))
            definitions[name] = "\n".join(lines[first - 1 : node.end_lineno])
    return fenced("python", "\n\n\n".join(definitions[name] for name in names) if names else text)


def fenced(language: str, text: str) -> str:
    """Return a code block."""
    return f"```{language}\n{text.rstrip()}\n```\n"


KINDS: dict[str, Callable[[str], str]] = {
    "draw": draw, "options": options, "retrievers": retrievers, "published": published, "code": code, "run": run,
    "example": lambda name: run("", f"examples/{name}.py"),
}  # fmt: skip


def renewed(text: str, kinds: Collection[str]) -> str:
    """Return a page with its parts regenerated; a part that differs only in what depends on time stays."""

    def regenerated(match: re.Match[str]) -> str:
        kind, subject, arrow, before = match.groups()
        if kind not in kinds:
            return match[0]
        now = KINDS[kind](subject)
        same = TIMED.sub("", now) == TIMED.sub("", before)
        return f"{kind} {subject}".rstrip() + arrow + (before if same else now)

    return PART.sub(regenerated, text)


def main(arguments: list[str]) -> None:
    """Rewrite all pages, or list those that are out of date."""
    if unknown := [each for each in arguments if each not in {*KINDS, "--check"}]:
        sys.exit(f"unknown argument {unknown[0]!r}; expected --check, or parts to make: {', '.join(KINDS)}")
    kinds = [each for each in arguments if each in KINDS] or list(KINDS)
    late = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        if (now := renewed(text, kinds)) != text:
            late.append(page.relative_to(ROOT).as_posix())
            if "--check" not in arguments:
                page.write_text(now, encoding="utf-8")
    if "--check" in arguments and late:
        sys.exit(f"out of date: {', '.join(late)}; expected what `python docs/generate.py` writes: run it")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(sys.argv[1:])
