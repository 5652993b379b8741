"""How a process ends while its engine still works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAVES_A_REQUEST = """
from sottovoce.models import Record
from tests.support import request, tiny_loaded

engine = tiny_loaded().engine
engine.run(request())
left = [engine.submit(request(max_new=400, record=Record(stats=True))) for _ in range(32)]
"""


def test_a_process_ends_cleanly_while_requests_still_run() -> None:
    # Python kills daemon threads at exit; one that was freeing tensors ended in "terminate called without
    # an active exception" and exit code -6.
    ended = subprocess.run(
        [sys.executable, "-c", LEAVES_A_REQUEST], cwd=ROOT, capture_output=True, text=True, timeout=600
    )

    assert (ended.returncode, ended.stderr) == (0, "")
