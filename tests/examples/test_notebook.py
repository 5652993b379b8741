"""The notebook of the examples runs from top to bottom, and shows what it says."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_look.ipynb"


@pytest.mark.slow  # a process of its own, with all imports
def test_the_first_look_is_executed_and_shows_decision_transcript_and_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_STORE", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[1]), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)

    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()

    pages = [
        "".join(output["data"].get("text/html", "") for output in cell.outputs if "data" in output)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    assert ">22<" in pages[0] and "agent_1: 22" in pages[0]
    assert pages[1].count("agent_1") == 2 and "cipher: 27 rows" in pages[1]
    assert "428" in pages[2] and pages[2].count("<details>") == 3
    assert "tokens_out" in pages[3]
    assert all(not cell.get("outputs") for cell in nbformat.read(NOTEBOOK, as_version=4).cells), "saved without outputs"
