"""Stand-ins for the trained monitors that a table needs, for small runs."""

from __future__ import annotations

from pathlib import Path

from sottovoce.experiments.tables.table_schema import Published
from sottovoce.monitors.monitor import Monitor

MONITOR = ".json"


def write_stand_ins(table: Published, folder: Path) -> None:
    """Write a stand-in for each monitor that the table needs; it always triggers.

    A monitor's role is its file's name up to the first dot: "accuser.second.json" is the Accuser's.
    """
    for name in (each for each in table.needs if each.endswith(MONITOR)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _always(path.name.partition(".")[0]).save(path)


def _always(role: str) -> Monitor:
    return Monitor(
        role=role,
        features=("entropy", "turn"),
        log_features=False,
        bounds=((0.0, 1.0), (0.0, 15.0)),
        exponents=((0, 0),),
        coefficients=(0.0,),
        intercept=1.0,
        threshold=0.5,
    )
