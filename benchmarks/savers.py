"""`python -m benchmarks.savers`: the bytes that each checkpoint saver stores for one debate.

The same debate is saved in memory, in a SQLite file, and in the database given by `--postgres`. "Stored" is the size
of checkpoints and writes; "on disk" is the size of the file or tables.
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sottovoce import Debate, PayloadStore, create_debate, open_saver
from sottovoce.core.text import amount
from sottovoce.graphs.runtime.saver import kind_of
from sottovoce.report.tables import table

QUESTION = {"question": "What is 14 + 3 * 5 - 7?"}
OF_SQLITE = (
    "SELECT (SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints) + "
    "(SELECT coalesce(sum(length(value)), 0) FROM writes)"
)
OF_POSTGRES = (
    "SELECT (SELECT coalesce(sum(length(checkpoint::text) + length(metadata::text)), 0) FROM checkpoints) + "
    "(SELECT coalesce(sum(length(blob)), 0) FROM checkpoint_blobs) + "
    "(SELECT coalesce(sum(length(blob)), 0) FROM checkpoint_writes)"
)
ON_DISK = "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables"


def discuss(where: str, settings: Debate, folder: Path) -> int:
    """Run the debate with a saver, and return the bytes that a saver in memory stores."""
    config: Any = {"configurable": {"thread_id": "1"}}
    with open_saver(where) as saver:
        graph: Any = create_debate(settings, store=PayloadStore(folder / "payloads")).compile(checkpointer=saver)
        graph.invoke(QUESTION, config, durability="sync")
        return _bytes_in([vars(saver).get(name, ()) for name in ("storage", "writes", "blobs")])


def stored(where: str) -> tuple[int, int]:
    """Return the bytes stored, and the bytes on disk."""
    if kind_of(where) == "postgres":
        import psycopg

        with psycopg.connect(where) as connection:
            rows = [connection.execute(each.encode()).fetchone() for each in (OF_POSTGRES, ON_DISK)]
        return int((rows[0] or (0,))[0]), int((rows[1] or (0,))[0] or 0)
    with closing(sqlite3.connect(where)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return int(database.execute(OF_SQLITE).fetchone()[0]), Path(where).stat().st_size


def _bytes_in(value: Any) -> int:  # Any: mappings and tuples of bytes, as LangGraph nests them
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_bytes_in, value.values()))
    return sum(map(_bytes_in, value)) if isinstance(value, (list, tuple)) else 0


def main() -> None:
    """Print a line for each saver, and the size of the payloads."""
    parser = argparse.ArgumentParser("python -m benchmarks.savers", description=__doc__)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--protocol", default="cipher")
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", help="an empty database: postgresql://USER@HOST/DATABASE")
    options = parser.parse_args()
    settings = Debate.model_validate(
        {name: getattr(options, name) for name in ("protocol", "agents", "rounds")}
        | {"model": [options.model], "exact": True}  # all debates are equal to the bit
    )
    with TemporaryDirectory(prefix="savers-") as temporary:
        folder = Path(temporary)
        lines = [["memory", amount(discuss("memory", settings, folder)), ""]]
        for where in filter(None, (str(folder / "kept.sqlite"), options.postgres)):
            discuss(where, settings, folder)
            lines.append([kind_of(where), *map(amount, stored(where))])
        files = [path.stat().st_size for path in (folder / "payloads").rglob("*.safetensors")]
    print(table("saver | stored | on disk", lines))
    print(f"besides: {len(files)} payloads, {amount(sum(files))}")


if __name__ == "__main__":
    main()
