"""A hub id works where the hub answers, and from the local cache where it does not; an unknown one fails at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.hub import serving
from tests.support import tiny_model, tiny_tokenizer

ASK = """
import json, sys, time
from sottovoce.core.errors import ModelError
from sottovoce.models import load
for name in sys.argv[1:]:
    began = time.monotonic()
    try:
        said = load(name, device="cpu").layers
    except ModelError as error:
        said = str(error)
    print(json.dumps([said, time.monotonic() - began]))
"""
AT_ONCE = 5  # seconds; one unknown id took 72 s where there is no network


def ask(hub: str, home: Path, *names: str) -> list[tuple[int | str, float]]:
    """Number of layers or the complaint, and seconds, of each name in a new process (the address is read on import)."""
    variables = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-c", ASK, *names]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=True)
    assert done.stderr == ""
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_hub_id_is_loaded_from_the_hub_and_then_from_its_cache_and_an_unknown_one_fails_at_once(
    tmp_path: Path,
) -> None:
    tiny_model().save_pretrained(tmp_path / "hub" / "some" / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "hub" / "some" / "tiny")

    with serving(tmp_path / "hub") as hub:
        online = ask(hub, tmp_path / "home", "some/tiny", "some/other")
    offline = ask(hub, tmp_path / "home", "some/tiny", "some/other")

    assert [said for said, _ in online] == [2, online[1][0]]
    assert str(online[1][0]).startswith(
        "model 'some/other' cannot be loaded: some/other is not a local folder and is not"
    )
    assert [said for said, _ in offline] == [2, offline[1][0]]
    assert "the hub cannot be reached ([Errno 111] Connection refused), and its local cache does not" in str(
        offline[1][0]
    )
    assert offline[1][1] < AT_ONCE
