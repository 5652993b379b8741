"""Two processes on one database and one place of payloads: the program of the page, in two parts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.database import server

PAGE = Path(__file__).parents[2] / "docs/howto/servers.md"


@pytest.mark.slow  # two processes that load everything, and a server
def test_a_thread_that_one_process_began_is_continued_by_another_that_hears_its_payloads(tmp_path: Path) -> None:
    (program,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with server() as postgres:
        database = postgres.database()
        said = []
        for part in ("begin", "continue"):
            words = [sys.executable, "-c", program, database, f"file://{tmp_path}/payloads", part]
            said.append(subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path).stdout)
    begun, ended = said
    assert begun == "2 None []\n" and int(ended.split()[0]) >= 4 and "has the lowest temperature []" in ended
    assert len(list((tmp_path / "payloads").glob("*/*.safetensors"))) >= 4
