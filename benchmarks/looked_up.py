"""`python -m benchmarks.looked_up FOLDER`: what relays and discussions with passages of their own took; needs no model.

FOLDER keeps an experiment such as `experiments/relay.yaml` or `experiments/ia.yaml`. Relays are told by how many
questions somebody finished, and what their steps were; discussions by how many ended with an answer in its form.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from sottovoce.environments.react import Action
from sottovoce.evaluation.experiments.files import read_experiment
from sottovoce.evaluation.experiments.folder import FILE, runs_in
from sottovoce.evaluation.runs.record import Record
from sottovoce.evaluation.runs.run import Run
from sottovoce.evaluation.statistics import share
from sottovoce.evaluation.views.tables import share_cells, table
from sottovoce.nodes.ia import answered, exchange
from sottovoce.nodes.react import Said, counted, steps_of
from sottovoce.nodes.state import Discussion

RELAY = "relay | finished | right | 95 % | steps | repeated | second calls | invalid | search, lookup, finish"
DISCUSSION = "discussion | answered | right | 95 % | rounds | #Q | #A"
SINGLE = "single | right | 95 %"


def state_of(record: Record) -> Discussion:
    """What the rules of a scheme read of a discussion."""
    rounds = max(message.round for message in record.messages) + 1
    epochs = [[0, 0]] * max(message.epoch for message in record.messages)
    return cast(Discussion, {**record.question, "board": record.messages, "round": rounds - 1, "epochs": epochs})


def relay(name: str, records: Sequence[Record]) -> list[str]:
    """A row of relays: what all their steps were."""
    states = [state_of(record) for record in records]
    counts = [counted(state) for state in states]
    steps = [[said for said, _ in steps_of(state)] for state in states]
    verbs = Counter(said.does.verb for each in steps for said in each if isinstance(said.does, Action))
    finished = sum(any(message.act == "answer" for message in record.messages) for record in records)
    sums = [sum(each) for each in zip(*counts, strict=True)]
    again = sum(map(repeated, steps))
    cells = [sums[0], again, *sums[2:], ", ".join(str(verbs[verb]) for verb in ("search", "lookup", "finish"))]
    return [f"`{name}`", f"{finished} of {len(records)}", *_right(records), *map(str, cells)]


def repeated(steps: Sequence[Said]) -> int:
    """How many steps search what was searched before."""
    done = [said.does.argument for said in steps if isinstance(said.does, Action) and said.does.verb == "search"]
    return len(done) - len(set(done))


def discussion(name: str, records: Sequence[Record]) -> list[str]:
    """A row of discussions."""
    states = [state_of(record) for record in records]
    ended = sum(map(answered, states))
    texts = [exchange(message.whole) for record in records for message in record.messages if message.act == "talk"]
    rounds = sum(state["round"] + 1 for state in states) / len(states)
    told = [f"{rounds:.1f}", *(str(sum(len(each[i]) for each in texts)) for i in (0, 1))]
    return [f"`{name}`", f"{ended} of {len(records)}", *_right(records), *told]


def single(name: str, records: Sequence[Record]) -> list[str]:
    """A row of single agents."""
    return [f"`{name}`", *_right(records)]


def _right(records: Sequence[Record]) -> list[str]:
    scores = [record.decision["score"] or 0.0 for record in records if record.decision]
    return share_cells(share(scores))


def tables(runs: Mapping[str, Run]) -> str:
    """The tables of the rows that are over."""
    over = {name: run for name, run in runs.items() if not run.unfinished}
    kinds = {"react": (RELAY, relay), "ia": (DISCUSSION, discussion), "single": (SINGLE, single)}
    found = []
    for scheme, (headings, row) in kinds.items():
        of = {name: [*run.records.values()] for name, run in over.items() if run.head.scheme == scheme}
        if of:
            found.append(table(headings, [row(name, records) for name, records in of.items()]))
    return "\n\n".join(found)


def main() -> None:
    """Print the tables of a folder."""
    parser = argparse.ArgumentParser("python -m benchmarks.looked_up", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the experiment says it is kept")
    folder: Path = parser.parse_args().folder
    experiment, _ = read_experiment(folder / FILE)
    print(tables(runs_in(folder, experiment)))


if __name__ == "__main__":
    main()
