"""How long the command line and a graph take to start, each in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks.timing import Times, interleaved

ROOT = Path(__file__).resolve().parents[1]
STARTS: Mapping[str, list[str]] = {
    "python -c pass": ["-c", "pass"],
    "python cli.py --help": ["cli.py", "--help"],
    "python cli.py debate --help": ["cli.py", "debate", "--help"],
    "import sottovoce.graphs.debate": ["-c", "import sottovoce.graphs.debate"],
    "import sottovoce.models": ["-c", "import sottovoce.models"],
    "import torch (for comparison)": ["-c", "import torch"],
}


def starts(repeats: int) -> Times:
    """Wall seconds of each start."""
    return interleaved({name: partial(_start, arguments) for name, arguments in STARTS.items()}, repeats)


def _start(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
