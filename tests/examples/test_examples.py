"""Each example runs as it stands, on the bundled model, without network."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tests.bridges.support import deep, narrow, random_bridge

ROOT = Path(__file__).resolve().parents[2]
TOLD = {
    "ten_lines": ["22 - agent_1 has the lowest temperature", "agent_3 said 22"],
    "as_tool": ["ai: calls discuss('What is 691 - 506 + 243?')", "ai: I had it discussed: 428 (3 of 3 say 428)."],
    "as_subgraph": [
        "  agent_1     l = 20; o = 3. I do not know y. The answer is unknown.",
        "  agent_2     l = 20; y = 3; o = 3; 3 * 3 = 9; 20 + 9 = 29. The answer is 29.",
        "What is l + y * o? 29 (agent_1 knew l = 20. o = 3.; agent_2 knew y = 3.)",
    ],
    "mixed_models": ["note: agent_3 hears agent_1 in words", "agent_3 (hosted, words): The answer is 22."],
}
ELSEWHERE = {"durable.py", "bridged.py"}
"""One is killed, in tests of its own; one needs a bridge."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, no proxy, no payloads outside."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path))


def test_every_example_is_run() -> None:
    files = {path.name for path in (ROOT / "examples").glob("*.py")}

    assert files - ELSEWHERE == {f"{name}.py" for name in TOLD}


@pytest.mark.parametrize("name", TOLD)
def test_an_example_tells_what_it_should(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")

    out = capsys.readouterr().out
    assert [line for line in TOLD[name] if line not in out] == []


def test_two_models_meet_over_a_bridge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, loaded in (("narrow", narrow()), ("deep", deep())):
        loaded.model.save_pretrained(tmp_path / name)
        loaded.tokenizer.save_pretrained(tmp_path / name)
    random_bridge(narrow(), deep(), tmp_path / "bridge")
    given = [str(tmp_path / name) for name in ("narrow", "deep", "bridge")]
    monkeypatch.setattr(sys, "argv", ["bridged.py", *given])

    runpy.run_path(str(ROOT / "examples" / "bridged.py"), run_name="__main__")

    assert "; over the bridge qwen2-0 to deep, " in capsys.readouterr().out
