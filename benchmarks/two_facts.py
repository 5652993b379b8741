"""`python -m benchmarks.two_facts FOLDER`: which agents learned the answer or were talked out of it; needs no model.

FOLDER contains a run of `experiments/two_facts.yaml`, where each of two agents knows one of two facts. The agent with
the last fact can name the answer by repeating it, and the other cannot guess it. Results are therefore listed by fact
and by round.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from sottovoce.analysis.statistics import share
from sottovoce.experiments.files import read_experiment
from sottovoce.experiments.folder import FILE, runs_in
from sottovoce.graphs import scheme
from sottovoce.nodes.decide import voted
from sottovoce.nodes.question import Question, passages_of
from sottovoce.nodes.state import Discussion, rounds_of
from sottovoce.prompts import kinds
from sottovoce.report.tables import percent, share_cells, table
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

FIRST, LAST = "first", "last"
Right = dict[str, list[bool]]
"""Whether an agent was right in each round, by the fact that it knows ("both" if it knows both)."""


def right(record: DiscussionRecord) -> Right:
    """Return which agents of a discussion were right, round by round."""
    rounds = max(message.round for message in record.messages) + 1
    about = {**record.question, "board": record.messages, "round": rounds - 1, "epochs": []}
    state = cast(Discussion, about)
    spoken = rounds_of(state, scheme(record.scheme).answers)
    return {
        fact: [kinds.right(voted(said[agent], state)["answer"], record.question) for said in spoken]
        for agent in spoken[0]
        if (fact := holds(record.question, agent))
    }


def holds(question: Question, agent: str) -> str:
    """Return which fact an agent knows: first, last, both, or empty for none. The solution states them in order."""
    texts = [passage["text"] for passage in passages_of(question, agent)]
    begins = [question["solution"].startswith(text) for text in texts]
    return "both" if len(texts) > 1 else "" if not texts else FIRST if begins[0] else LAST


def alone(rows: Mapping[str, list[Right]]) -> str:
    """Return the table of single agents."""
    lines = [
        [f"`{name}`", *share_cells(share([answers[0] for said in answers_by_fact for answers in said.values()]))]
        for name, answers_by_fact in rows.items()
    ]
    return table("single agent | right | 95 %", lines)


def together(rows: Mapping[str, list[Right]]) -> str:
    """Return the table of debates: right answers by fact and round, answers learned, and answers lost."""
    headings = " | ".join(f"{fact} fact: round 1 | last round | 95 % | learnt, lost" for fact in (FIRST, LAST))
    return table(
        f"debate | {headings}", [[f"`{name}`", *_cells(answers_by_fact)] for name, answers_by_fact in rows.items()]
    )


def _cells(answers_by_fact: list[Right]) -> Iterator[str]:
    for fact in (FIRST, LAST):
        before, after = ([said[fact][r] for said in answers_by_fact] for r in (0, -1))
        pairs = list(zip(before, after, strict=True))
        yield percent(share(before).value)
        yield from share_cells(share(after))
        yield f"+{sum(b and not a for a, b in pairs)} -{sum(a and not b for a, b in pairs)}"


def tables(runs: Mapping[str, Run]) -> str:
    """Return both tables, of all finished rows."""
    over = {name: run for name, run in runs.items() if not run.unfinished}
    rows = {name: [right(record) for record in run.records.values()] for name, run in over.items()}
    debated = {
        name: answers_by_fact for name, answers_by_fact in rows.items() if over[name].manifest.scheme != "single"
    }
    single = {name: answers_by_fact for name, answers_by_fact in rows.items() if name not in debated}
    return "\n\n".join([*([alone(single)] if single else []), *([together(debated)] if debated else [])])


def main() -> None:
    """Print the tables for a folder."""
    parser = argparse.ArgumentParser("python -m benchmarks.two_facts", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of `experiment run experiments/two_facts.yaml`")
    folder: Path = parser.parse_args().folder
    experiment = read_experiment(folder / FILE)
    print(tables(runs_in(folder, experiment.rows)))


if __name__ == "__main__":
    main()
