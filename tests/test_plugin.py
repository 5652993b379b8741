"""A protocol in a package of its own (tests/plugin): named as an entry point, it is usable wherever protocols are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests import warm

PLUGIN = Path(__file__).parent / "plugin"
ENV = {**os.environ, "PYTHONPATH": str(PLUGIN)}
"""The environment of a process that has the package installed."""
MAIN = "import sys; from sottovoce.cli.main import main; sys.exit(main())"


def debate(*arguments: str) -> subprocess.CompletedProcess[str]:
    told = ("debate", "--protocol", "louder", "--rounds", "2", "--max-tokens", "24", *arguments, "--json")
    return warm.run(MAIN, *told, env=ENV)


def test_it_is_held_by_its_name_on_the_command_line() -> None:
    done = debate("--option", "gain=3")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["settings"]["protocol"] == "louder" and record["settings"]["option"] == {"gain": 3}
    spoken = [message for message in record["messages"] if not message["asked"]]  # the answer turn is text
    assert {message["payload"]["protocol"] for message in spoken} == {"louder"}


def test_it_stands_in_studio_s_form_without_being_loaded() -> None:
    asked = "import sys; from sottovoce.graphs import scheme; form = scheme('debate').settings.model_json_schema()"
    tell = "; import json; print(json.dumps([form['properties']['protocol']['enum'], 'louder' in sys.modules]))"
    assert json.loads(warm.run(asked + tell, env=ENV).stdout) == [
        ["nl", "cipher", "sde", "hidden", "kv", "thoughts", "graft", "louder"],
        False,
    ]
