"""Logs of kept runs that something happened to, read by every command that reads runs."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.cli.main import main
from sottovoce.monitors.settings import Measure
from sottovoce.runs.run_directory import LOG
from tests.fuzz.cases import drawn, edited, held, mutated
from tests.nodes.test_guard import monitor
from tests.support import tiny_model, tiny_tokenizer

COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "show": lambda run: ["runs", "show", str(run), "--show-prompts"],
    "show --json": lambda run: ["runs", "show", str(run), "--json"],
    "list": lambda run: ["runs", "list"],
    "measures": lambda run: ["runs", "measures", str(run)],
    "score": lambda run: ["runs", "score", str(run)],
    "compare": lambda run: ["runs", "compare", str(run)],
    "report": lambda run: ["runs", "report", str(run), "--html", str(run.parent / "page.html"), "--force"],
    **{
        f"export {ending}": lambda run, ending=ending: [  # type: ignore[misc]  # a default binds it
            "runs", "export", str(run), str(run.parent / f"out.{ending}"), "--force"
        ]
        for ending in ("jsonl", "csv", "md", "card.json")
    },
    "verify": lambda run: ["runs", "verify", str(run), "--no-model"],
    "collect": lambda run: ["monitor", "collect", str(run), "--to", str(run.parent / "rows.jsonl"), "--force"],
    "payloads": lambda run: ["payloads", "verify", "--runs", str(run)],
    "resume": lambda run: ["runs", "resume", str(run), "--quiet"],
}  # fmt: skip
FEW = ("--max-tokens", "4", "--rounds", "2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs whose logs have lines and events of every kind; two of them are not over."""
    root = tmp_path_factory.mktemp("runs")
    model = root / "model"
    tiny_model(max_position_embeddings=2048).save_pretrained(model)
    tiny_tokenizer().save_pretrained(model)
    monitor("all", 0.0).model_copy(update={"measured": Measure()}).save(root / "monitor.json")
    watched = ["--watch", str(root / "monitor.json"), "--temperature", "1", "--cap", "1"]
    made = {
        "cipher": ["debate", "--sample", "arithmetic", "--limit", "2", "--protocol", "cipher", *FEW],
        "reset": ["debate", "--sample", "arithmetic", "--limit", "1", *FEW, *watched],
        "cmd": ["cmd", "--sample", "arithmetic", "--limit", "1", *FEW],
        "reconcile": ["reconcile", "--sample", "arithmetic", "--limit", "1", "--max-tokens", "64", "--rounds", "1"],
        "whodunit": [*"whodunit --sample whodunit --limit 1 --max-tokens 64 --agents 2 --turns 1".split()],
        "stopped": ["debate", "--sample", "arithmetic", "--limit", "2", "--call-limit", "3", "--at-once", "1", *FEW],
    }
    for name, words in made.items():
        code = main([*words, "--model", str(model), "--save", str(root / "runs" / name), "--quiet"])
        assert code in (0, 1), name
    judged = main(["runs", "judge", str(root / "runs" / "cipher"), "--model", str(model)])
    assert judged in (0, 2)  # 2: a random model stated no answer
    return [root / "runs" / name for name in made]


ODD = [
    *(b"\n", b'["line"]\n', b'{"line":"stranger"}\n', b'{"line":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"),
    b'{"line":"stopped","why":"\\ud800","nbytes":0}\n',
]
"""Lines that no log has."""


def damaged(rng: random.Random, log: bytes) -> bytes:
    """Return the log with one thing wrong: mostly a field of any kind of line, sometimes a line."""
    lines = log.splitlines(keepends=True)
    kinds = {line: json.loads(line)["line"] for line in lines}
    kind = rng.choice(sorted({*kinds.values()}))
    at = rng.choice([number for number, line in enumerate(lines) if kinds[line] == kind])
    way = rng.choice(["field"] * 16 + ["bytes", "odd", "drop", "double"])
    if way == "field":
        lines[at] = json.dumps(edited(rng, json.loads(lines[at])), default=str).encode() + b"\n"
    elif way == "bytes":
        lines[at] = mutated(rng, lines[at])
    else:
        lines[at : at + 1] = {"odd": [rng.choice(ODD)], "drop": [], "double": [lines[at]] * 2}[way]
    return b"".join(lines)


@drawn("logs")
def test_a_damaged_log_is_told_in_one_line_by_every_command(
    seeds: range, runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("SOTTOVOCE_RUNS", str(tmp_path / "shelf"))
    codes = Counter[tuple[str, int]]()

    def case(rng: random.Random) -> None:
        run = tmp_path / "shelf" / "run"
        shutil.rmtree(run.parent, ignore_errors=True)
        shutil.copytree(rng.choice(runs), run)
        log = run / "judged" / LOG if (run / "judged").exists() and rng.random() < 0.3 else run / LOG
        log.write_bytes(damaged(rng, log.read_bytes()))
        for name, words in COMMANDS.items():
            capsys.readouterr()
            code = main(words(run))
            told = capsys.readouterr().err
            codes[name, code] += 1
            assert code in (0, 1, 2), f"{name}: exit code {code}"
            assert "Traceback" not in told, f"{name}: {told}"
            assert code == 0 or name in ("verify", "resume", "payloads") or len(told.splitlines()) == 1, (
                f"{name}: {told!r}"
            )

    held("logs", seeds, case)
