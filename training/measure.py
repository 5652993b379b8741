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
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.errors import choose
from sottovoce.evaluation.arithmetic import TOP, questions, split_knowledge
from sottovoce.graphs.cmd import create_cmd
from sottovoce.graphs.debate import create_debate
from sottovoce.graphs.mad import create_mad
from sottovoce.graphs.reconcile import create_reconcile
from sottovoce.graphs.self_consistency import create_self_consistency
from sottovoce.graphs.single import create_single
from sottovoce.models import Ids, Request, Sampling, Stop, load
from sottovoce.nodes.settings import CMD, MAD, Debate, ReConcile, SelfConsistency, Settings, Single
from sottovoce.nodes.state import Question
from sottovoce.nodes.views import View
from sottovoce.prompts import kinds
from sottovoce.prompts.render import Prompts
from sottovoce.training.chats import Encoder
from sottovoce.training.statistics import mcnemar, wilson

COMMAND = "python -m sottovoce.training.measure"
RESULTS = Path(__file__).parent / "work" / "measure.json"
SEED = 20_000
"""Of the questions; the data of a training run has other seeds and the other split."""
AT_ONCE = 32
"""Questions under way together."""
VALUE = re.compile(r"\b[a-z] = -?\d+")
Scheme = Literal["single", "self_consistency", "debate", "echo", "mad", "reconcile", "cmd"]
SCHEMES: dict[str, tuple[type[Settings], Callable[..., Any]]] = {  # Any: a StateGraph of the scheme's own types
    "single": (Single, create_single),
    "self_consistency": (SelfConsistency, create_self_consistency),
    "debate": (Debate, create_debate),
    "mad": (MAD, create_mad),
    "reconcile": (ReConcile, create_reconcile),
    "cmd": (CMD, create_cmd),
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    title: str
    scheme: Scheme
    settings: dict[str, Any] = field(default_factory=dict)  # Any: settings of the scheme
    change: Literal["", "mute", "withheld"] = ""
    top: int = TOP
    """Largest number, in arithmetic."""


def _debates(rounds: int) -> dict[str, Row]:
    base = {"rounds": rounds}
    muted = {**base, "role": ["debater", "dummy"]}
    return {
        "nl-greedy": Row("debate, words, T = 0", "debate", {**base, "temperature": [0.0]}),
        "nl": Row("debate, words, T = 0.7", "debate", base),
        "cipher": Row("debate, CIPHER", "debate", {**base, "protocol": "cipher"}),
        "sde": Row("debate, SDE", "debate", {**base, "protocol": "sde"}),
        "hidden": Row("debate, hidden states", "debate", {**base, "protocol": "hidden"}),
        "three": Row("debate of three, words, T = 0.7", "debate", {**base, "agents": 3}),
        "echo": Row("control: own message handed back, T = 0.7", "echo", base),
        "mute": Row("control: the other's message empty, T = 0.7", "debate", muted, "mute"),
    }


def _schemes(cmd_agents: int) -> dict[str, Row]:
    titles: dict[Scheme, str] = {
        "mad": "MAD, two sides",
        "reconcile": "ReConcile of three",
        "cmd": f"CMD of {cmd_agents}",
    }
    # Three replies that never end, as long as a reply may be by default, would not fit the model's context.
    fixed = {"cmd": {"agents": cmd_agents}, "reconcile": {"max_tokens": 256}}
    rows: dict[str, Row] = {}
    for scheme, title in titles.items():
        for name, words in (("", "words"), ("-cipher", "CIPHER"), ("-sde", "SDE")):
            protocol = {"protocol": name[1:]} if name else {}
            rows[scheme + name] = Row(f"{title}, {words}", scheme, {**fixed.get(scheme, {}), **protocol})
    return rows


TASKS: dict[str, dict[str, Row]] = {
    "arithmetic": {
        "single": Row("single, greedy", "single", {"temperature": [0.0]}),
        "single-sampled": Row("single, T = 0.7", "single"),
        "majority5": Row("self-consistency, 5 samples", "self_consistency", {"samples": 5}),
        **_debates(rounds=3),
        **_schemes(cmd_agents=6),
        "easy": Row("single, greedy, numbers to 99", "single", {"temperature": [0.0]}, top=99),
        "verify": Row("control: one agent checks itself, T = 0.7", "debate", {"rounds": 3, "agents": 1}),
    },
    "split": {
        "single": Row("single with all documents, greedy", "single", {"temperature": [0.0]}),
        **_debates(rounds=3),
        **_schemes(cmd_agents=3),
        "withheld": Row("control: the other's documents withheld, T = 0.7", "debate", {"rounds": 3}, "withheld"),
    },
}


@dataclass(frozen=True)
class Result:
    """What a row came to, question by question."""

    right: list[bool]
    looked_up: list[bool]
    """Whether the first agent's last message states every value of the question rightly (split only)."""


def sample(task: str, row: Row, n: int) -> list[Question]:
    """The held-out questions of a row."""
    if task == "arithmetic":
        made = questions(n, SEED, top=row.top)
    else:
        kind, _ = SCHEMES.get(row.scheme, (Debate, None))
        settings = kind(**row.settings)
        made = split_knowledge(n, settings.speakers() if settings.discusses else Debate().speakers(), SEED)
    return [_changed(question, row.change) for question in made]


def _changed(question: Question, change: str) -> Question:
    documents = question.get("documents")
    if change == "mute":
        return {**question, "decoys": [""]}
    if change == "withheld" and isinstance(documents, dict):
        return {**question, "documents": {"agent_1": documents["agent_1"]}}
    return question


async def measure(task: str, row: Row, n: int, model: str = "bundled") -> Result:
    """Run a row."""
    asked = sample(task, row, n)
    if row.scheme == "echo":
        ends = _echo(asked, row.settings["rounds"], model)
    else:
        ends = await _through_graph(asked, row, model)
    answered = [
        kinds.same(answer, question["target"], "number") for question, (answer, _) in zip(asked, ends, strict=True)
    ]
    return Result(answered, [_states_all(question, text) for question, (_, text) in zip(asked, ends, strict=True)])


async def _through_graph(asked: Sequence[Question], row: Row, model: str) -> list[tuple[str | None, str]]:
    """The decision's answer and the first agent's last words, for each question."""
    kind, create = SCHEMES[row.scheme]
    with tempfile.TemporaryDirectory() as folder:
        graph = create(kind(**{"model": [model], **row.settings}), store=PayloadStore(folder)).compile()
        ends = await graph.abatch(list(asked), {"max_concurrency": AT_ONCE}, output_keys=["decision", "board"])
    return [(end["decision"]["answer"], _last(end["board"])) for end in ends]


def _last(board: Sequence[Any]) -> str:  # Any: messages, or plain JSON as a checkpoint holds them
    messages = [entry if isinstance(entry, Message) else Message.from_dict(entry) for entry in board]
    first = messages[0].agent
    return max((message for message in messages if message.agent == first), key=lambda message: message.key).text


def _echo(asked: Sequence[Question], rounds: int, model: str) -> list[tuple[str | None, str]]:
    """A debate whose second agent is the first one's echo; no graph has that, so the engine is asked itself."""
    loaded, prompts = load(model), Prompts()
    encoder = Encoder(loaded.tokenizer)
    own: list[list[Message]] = [[] for _ in asked]
    for r in range(rounds):
        requests = []
        for i, question in enumerate(asked):
            turns = View(prompts, question, "agent_1").history(own[i], [[message] for message in own[i]])
            sampling = Sampling(loaded.sampling.temperature, seed=i * rounds + r)
            requests.append(
                Request((Ids(tuple(encoder.prompt(turns))),), Stop(256, loaded.stop_ids), sampling=sampling)
            )
        for i, reply in enumerate(loaded.engine.run_all(requests)):
            own[i].append(Message("agent_1", r, "revise" if r else "answer", encoder.text(reply.ids)))
    return [(kinds.read(said[-1].text, "number"), said[-1].text) for said in own]


def _states_all(question: Question, text: str) -> bool:
    values = set(VALUE.findall(question["solution"]))
    return bool(values) and values <= set(VALUE.findall(text))


def table(task: str, results: dict[str, Result]) -> str:
    """The measured rows of a task in markdown, with intervals and paired tests."""
    lines = [
        "| held-out " + task + " | right | 95 % | look-up | p, single | p, echo | row |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in TASKS[task].items():
        if name not in results:
            continue
        right, looked_up = results[name].right, results[name].looked_up
        low, high = wilson(sum(right), len(right))
        tests = [_p(results, name, other) for other in ("single", "echo")]
        looked = f"{sum(looked_up) / len(right):.1%}" if task == "split" else ""
        share = f"{sum(right) / len(right):.1%}"
        cells = [row.title, share, f"{low:.1%} to {high:.1%}", looked, *tests, f"`{task}/{name}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _p(results: dict[str, Result], name: str, other: str) -> str:
    if other not in results or name in (other, "easy") or len(results[other].right) != len(results[name].right):
        return ""
    p = mcnemar(results[other].right, results[name].right)
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def main() -> None:
    """Measure the rows that are named, or all; print the tables of everything measured so far."""
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Measure the bundled model on held-out questions: 15 to 60 seconds for a row of 500 on a CPU. "
        "p values compare with the rows `single` and `echo` and are blank until those are measured too.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", help="such as arithmetic/cipher; all if none is named")
    parser.add_argument("-n", type=int, default=500, help="questions a row")
    parser.add_argument("--model", default="bundled", help="a model, as the command line names it")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results are kept between calls")
    arguments = parser.parse_args()
    known = [f"{task}/{name}" for task, rows in TASKS.items() for name in rows]
    for key in arguments.rows:
        if key not in known:
            parser.error(choose("row", key, known))
    saved = json.loads(arguments.results.read_text(encoding="utf-8")) if arguments.results.exists() else {}
    for key in arguments.rows or known:
        task, name = key.split("/")
        result = asyncio.run(measure(task, TASKS[task][name], arguments.n, arguments.model))
        saved[key] = {"right": result.right, "looked_up": result.looked_up}
        print(f"{key}: {sum(result.right)} of {arguments.n} right", flush=True)
        arguments.results.parent.mkdir(parents=True, exist_ok=True)
        arguments.results.write_text(json.dumps(saved), encoding="utf-8")
    for task, rows in TASKS.items():
        measured = {name: Result(**saved[f"{task}/{name}"]) for name in rows if f"{task}/{name}" in saved}
        if measured:
            print(f"\n{table(task, measured)}")


if __name__ == "__main__":
    main()
