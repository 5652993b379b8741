"""`python -m benchmarks.looked_up FOLDER`: statistics of schemes with retrieval or private passages; needs no model.

FOLDER contains an experiment such as `experiments/madra.yaml`, `relay.yaml` or `ia.yaml`. Debates are described by how
many agreed and which evidence they selected, relays by how many finished and what their steps did, discussions by how
many ended with an answer in its format; all by type of question.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast, get_args

from sottovoce.analysis.statistics import share
from sottovoce.environments.encyclopedia.questions import Type, questions
from sottovoce.environments.react import Action
from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.folder import FILE, runs_in
from sottovoce.nodes.ia import answered, exchange
from sottovoce.nodes.madra import SELECT
from sottovoce.nodes.react import ANSWER, Said, counted, steps_of
from sottovoce.nodes.state import Discussion
from sottovoce.report.tables import share_cells, table
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

RELAY = ["finished", "steps", "search, lookup, finish", "repeated", "second calls", "invalid"]
DEBATE = ["agreed", "rounds", "choices", "of what is needed", "of nothing"]
DISCUSSION = ["answered", "rounds", "#Q", "#A"]
Counts = Callable[[Sequence[DiscussionRecord]], list[str]]


def state_of(record: DiscussionRecord) -> Discussion:
    """Return the state that a scheme's rules read, for a discussion that was never reset."""
    rounds = max(message.round for message in record.messages) + 1
    return cast(Discussion, {**record.question, "board": record.messages, "round": rounds - 1, "epochs": []})


def relays(records: Sequence[DiscussionRecord]) -> list[str]:
    """Return how many were finished, and counts of their steps."""
    states = [state_of(record) for record in records]
    finished = sum(any(message.act == ANSWER for message in record.messages) for record in records)
    said = [[step for step, _ in steps_of(state)] for state in states]
    verbs = Counter(step.does.verb for steps in said for step in steps if isinstance(step.does, Action))
    steps, _, second, invalid = (sum(each) for each in zip(*map(counted, states), strict=True))
    did = ", ".join(str(verbs[verb]) for verb in ("search", "lookup", "finish"))
    return [str(each) for each in (finished, steps, did, sum(map(repeated, said)), second, invalid)]


def repeated(steps: Sequence[Said]) -> int:
    """Return how many steps repeat an earlier search."""
    done = [step.does.argument for step in steps if isinstance(step.does, Action) and step.does.verb == "search"]
    return len(done) - len(set(done))


def discussions(records: Sequence[DiscussionRecord]) -> list[str]:
    """Return how many had an answer in its format, the mean rounds, and the questions and answers of all messages."""
    states = [state_of(record) for record in records]
    texts = [exchange(message.full_text) for record in records for message in record.messages]
    rounds = sum(state["round"] + 1 for state in states) / len(states)
    asked, replied = (sum(len(each[i]) for each in texts) for i in (0, 1))
    return [str(sum(map(answered, states))), f"{rounds:.1f}", str(asked), str(replied)]


def debates(records: Sequence[DiscussionRecord]) -> list[str]:
    """Return how many agreed, the mean rounds, and how many choices contained a needed article, or nothing."""
    agreed = sum(bool(record.decision and record.decision.get("agreed")) for record in records)
    rounds = sum(state_of(record)["round"] + 1 for record in records) / len(records)
    choices = [(titles, record) for record in records for titles in chosen(record)]
    needed = sum(bool({*titles} & needed_by()[record.question["question"]]) for titles, record in choices)
    nothing = sum(not titles for titles, _ in choices)
    return [str(agreed), f"{rounds:.1f}", *map(str, (len(choices), needed, nothing))]


def chosen(record: DiscussionRecord) -> Iterator[list[str]]:
    """Yield the titles of each choice of evidence."""
    for message in record.messages:
        if message.act == SELECT:
            yield re.findall(r"\[\d+\] ([^,]*)", message.notes[-1])


def right(records: Sequence[DiscussionRecord]) -> list[str]:
    """Return the mean score with its interval, and the number of right answers by type of question."""
    scores = {record.question["question"]: record.decision["score"] or 0.0 for record in records if record.decision}
    by_type = defaultdict[str, list[float]](list)
    for text, score in scores.items():
        by_type[type_of()[text]].append(score)
    told = [f"{sum(by_type[type]):g} of {len(by_type[type])}" for type in get_args(Type) if by_type[type]]
    return [*share_cells(share([*scores.values()])), ", ".join(told)]


@cache
def needed_by() -> Mapping[str, set[str]]:
    """Return the articles that each question about the encyclopedia needs."""
    return {asked.text: {title for title, _ in asked.gold} for type in get_args(Type) for asked in questions(type)}


@cache
def type_of() -> Mapping[str, str]:
    """Return the type of each question about the bundled encyclopedia."""
    return {asked.text: type for type in get_args(Type) for asked in questions(type)}


def tables(runs: Mapping[str, Run]) -> str:
    """Return a table for each scheme, of its finished rows."""
    parts: dict[str, tuple[list[str], Counts]] = {
        "single": ([], lambda records: []),
        "madra": (DEBATE, debates),
        "react": (RELAY, relays),
        "ia": (DISCUSSION, discussions),
    }
    found = []
    for scheme, (headings, counts) in parts.items():
        over = {name: [*run.records.values()] for name, run in runs.items() if _is_over(run, scheme)}
        lines = [[f"`{name}`", *right(records), *counts(records)] for name, records in over.items()]
        if lines:
            asked = {type_of()[record.question["question"]] for records in over.values() for record in records}
            types = ", ".join(type for type in get_args(Type) if type in asked)
            found.append(table(" | ".join([scheme, "right", "95 %", types, *headings]), lines))
    return "\n\n".join(found)


def _is_over(run: Run, scheme: str) -> bool:
    return run.manifest.scheme == scheme and not run.unfinished


def main() -> None:
    """Print the tables for a folder."""
    parser = argparse.ArgumentParser("python -m benchmarks.looked_up", description=__doc__)
    parser.add_argument("folder", type=Path, help="the experiment's folder")
    folder: Path = parser.parse_args().folder
    experiment = read_experiment(folder / FILE)
    print(tables(runs_in(folder, experiment.rows)))


if __name__ == "__main__":
    main()
