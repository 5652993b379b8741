"""`python -m sottovoce.training.measure`: what the bundled model can do, as the model card tells it.

Every row runs through the product's own graphs, on held-out questions. The controls beside them
tell what a second agent adds: `echo` hands each agent its own message back in the place of the
other's, `mute` leaves the other's message empty, `withheld` takes the other's documents away.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sottovoce.errors import choose
from sottovoce.evaluation.arithmetic import TOP, questions, split_knowledge
from sottovoce.evaluation.statistics import mcnemar, share
from sottovoce.evaluation.views.tables import p_value, share_cells, table
from sottovoce.models import load
from sottovoce.prompts import kinds
from sottovoce.prompts.render import Prompts
from sottovoce.training.data import replies
from sottovoce.training.product import Place, Question, history, run, seen_by, speakers

SEED = 20_000  # of the questions; the data of a training run has other seeds and the other split
AT_ONCE = 32  # questions under way together
ROUNDS = 3
WORK = Path(__file__).parent / "work"
Result = dict[str, list[Any]]  # what a row came to, question by question; Any: booleans, or numbers where there are any
VALUE = re.compile(r"\b[a-z] = -?\d+")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    title: str
    scheme: str
    settings: dict[str, Any] = field(default_factory=dict)  # Any: settings of the scheme
    change: Literal["", "mute", "withheld"] = ""
    top: int = TOP
    """Largest number, in arithmetic."""


def _debate(title: str, change: Literal["", "mute", "withheld"] = "", **settings: object) -> Row:
    return Row(title, "debate", {"rounds": ROUNDS, **settings}, change)


def _schemes(cmd_agents: int) -> dict[str, Row]:
    return {
        "mad": Row("MAD, two sides, words", "mad"),
        # Three replies that never end, as long as a reply may be by default, would not fit the model's context.
        "reconcile": Row("ReConcile of three, words", "reconcile", {"max_tokens": 256}),
        "cmd": Row(f"CMD of {cmd_agents}, words", "cmd", {"agents": cmd_agents}),
    }


DEBATES = {
    "nl-greedy": _debate("debate, words, T = 0", temperature=[0.0]),
    "nl": _debate("debate, words, T = 0.7"),
    "cipher": _debate("debate, CIPHER", protocol="cipher"),
    "sde": _debate("debate, SDE", protocol="sde"),
    "hidden": _debate("debate, hidden states", protocol="hidden"),
    "echo": Row("control: own message handed back, T = 0.7", "echo"),
    "mute": _debate("control: the other's message empty, T = 0.7", "mute", role=["debater", "dummy"]),
}
TASKS: dict[str, dict[str, Row]] = {
    "arithmetic": {
        "single": Row("single, greedy", "single", {"temperature": [0.0]}),
        "single-sampled": Row("single, T = 0.7", "single"),
        "majority5": Row("self-consistency, 5 samples", "self_consistency", {"samples": 5}),
        **DEBATES,
        **_schemes(cmd_agents=6),
        "mad-cipher": Row("MAD, two sides, CIPHER", "mad", {"protocol": "cipher"}),
        "easy": Row("single, greedy, numbers to 99", "single", {"temperature": [0.0]}, top=99),
    },
    "split": {
        "single": Row("single with all documents, greedy", "single", {"temperature": [0.0]}),
        **DEBATES,
        **_schemes(cmd_agents=3),
        "withheld": _debate("control: the other's documents withheld, T = 0.7", "withheld"),
    },
}


def sample(task: str, row: Row, n: int) -> list[Question]:
    """The held-out questions of a row."""
    if task == "arithmetic":
        made = questions(n, SEED, top=row.top)
    else:
        scheme = row.scheme if row.scheme in ("mad", "reconcile", "cmd") else "debate"
        made = split_knowledge(n, speakers(scheme, **row.settings), SEED)
    return [_changed(question, row.change) for question in made]


def _changed(question: Question, change: str) -> Question:
    documents = question.get("documents")
    if change == "mute":
        return {**question, "decoys": [""]}
    if change == "withheld" and isinstance(documents, dict):
        return {**question, "documents": {"agent_1": documents["agent_1"]}}
    return question


def measure(key: str, n: int, model: str = "bundled") -> Result:
    """Which questions of a row (`task/name`) were answered rightly, and for which all values were looked up.

    Looked up: the first agent's last message states every value of the question rightly.
    """
    task, name = key.split("/")
    row = TASKS[task][name]
    asked, settings = sample(task, row, n), {"model": [model], **row.settings}
    ends = _echo(asked, model) if row.scheme == "echo" else asyncio.run(run(row.scheme, settings, asked, AT_ONCE))
    ended = list(zip(asked, ends, strict=True))
    right = [kinds.right(answer, question) for question, (answer, _) in ended]
    return {"right": right, "looked_up": [_states_all(question, text) for question, (_, text) in ended]}


def _echo(asked: Sequence[Question], model: str) -> list[tuple[str | None, str]]:
    """A debate whose second agent is the first one's echo; no graph has that, so the engine is asked itself."""
    loaded, me, said = load(model), "agent_1", [list[dict[str, str]]() for _ in asked]
    views = [seen_by(me, question, Prompts()) for question in asked]
    for r in range(ROUNDS):
        places = [Place(history(view, rounds)) for view, rounds in zip(views, said, strict=True)]
        seeds = [i * ROUNDS + r for i in range(len(asked))]
        for rounds, text in zip(said, replies(loaded, places, 256, loaded.sampling.temperature, seeds), strict=True):
            rounds.append({me: text, "echo": text})
    return [(kinds.read(rounds[-1][me], "number"), rounds[-1][me]) for rounds in said]


def _states_all(question: Question, text: str) -> bool:
    values = set(VALUE.findall(question["solution"]))
    return bool(values) and values <= set(VALUE.findall(text))


def tables(results: dict[str, Result]) -> str:
    """The measured rows in markdown, with intervals and paired tests; `results` by task/row."""
    return "\n\n".join(
        table(f"held-out {task} | right | 95 % | look-up | p, single | p, echo | row", cells)
        for task, rows in TASKS.items()
        if (cells := [_cells(results, task, name) for name in rows if f"{task}/{name}" in results])
    )


def _cells(results: dict[str, Result], task: str, name: str) -> list[str]:
    right, looked_up = results[f"{task}/{name}"].values()
    others = ["" if name in (other, "easy") else f"{task}/{other}" for other in ("single", "echo")]
    tests = [_p(right, results[other]["right"]) if other in results else "" for other in others]
    looked = f"{sum(looked_up) / len(right):.1%}" if task == "split" else ""
    return [TASKS[task][name].title, *share_cells(share(right)), looked, *tests, f"`{task}/{name}`"]


def _p(right: Sequence[bool], other: Sequence[bool]) -> str:
    return p_value(mcnemar(other, right) if len(other) == len(right) else None)


def results_of(name: str, model: str) -> Path:
    """Where a model's rows are kept: a table that mixed models would compare them as if they were one."""
    return WORK / f"{name}-{quote(model, safe='')}.json"


def command(
    name: str,
    about: str,
    rows: Sequence[str],
    measure: Callable[[str, int, str], Result],
    tables: Callable[[dict[str, Result]], str],
) -> None:
    """Measure the rows that are named, or all; print the tables of everything measured so far."""
    shown = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(f"python -m sottovoce.training.{name}", description=about, formatter_class=shown)
    parser.add_argument("rows", nargs="*", help=f"such as {rows[0]}; all if none is named")
    parser.add_argument("-n", type=int, default=500, help="questions a row")
    parser.add_argument("--model", default="bundled", help="a model, as the command line names it")
    parser.add_argument("--results", type=Path, help="kept between calls; each model has a file of its own if none")
    given = parser.parse_args()
    for row in given.rows:
        if row not in rows:
            parser.error(choose("row", row, list(rows)))
    path = given.results or results_of(name, given.model)
    saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for row in given.rows or rows:
        saved[row] = measure(row, given.n, given.model)
        print(f"{row}: {sum(saved[row]['right'])} of {given.n} right", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(saved), encoding="utf-8")
    print(f"\n{tables(saved)}")


if __name__ == "__main__":
    command(
        "measure",
        "Measure the bundled model on held-out questions: 15 to 60 seconds for a row of 500 on a CPU. "
        "p values compare with the rows `single` and `echo` and are blank until those are measured too.",
        [f"{task}/{name}" for task, rows in TASKS.items() for name in rows],
        measure,
        tables,
    )
