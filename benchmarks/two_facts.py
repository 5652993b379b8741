"""`python -m benchmarks.two_facts`: what the protocols do on a real model, where each agent holds one of two facts.

Every row runs through the product's own graphs at T = 0 (CIPHER at its own temperatures), on seeded questions. The
agent that holds the last fact can name the answer by repeating it; the other cannot guess it: so results are told by
what an agent holds, and by round. Controls: an agent hears its own message in the place of the other's (`own`), an
empty one (`empty`), or what was said to another question (`stranger`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sottovoce.agents.ask import Ask
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.evaluation.facts import two_facts
from sottovoce.evaluation.statistics import share
from sottovoce.evaluation.views.tables import percent, share_cells, table
from sottovoce.graphs.debate import SCHEME, another_round
from sottovoce.graphs.frame import Frame
from sottovoce.graphs.scheme import scheme
from sottovoce.nodes import debate as acts
from sottovoce.nodes.context import RunContext
from sottovoce.nodes.decide import voted
from sottovoce.nodes.opening import close_round
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import say_answer
from sottovoce.nodes.settings import Debate
from sottovoce.nodes.state import Discussion, Update, rounds_of
from sottovoce.prompts import kinds

WORK = Path(__file__).parent / "work"
AT_ONCE = 32
ANSWERS = ("answer", "revise")
AGENTS = ("agent_1", "agent_2")
GREEDY: dict[str, Any] = {"temperature": [0.0], "max_tokens": 48}  # Any: settings
TITLES = {
    "both": "single agent, both facts",
    "first": "single agent, first fact",
    "last": "single agent, last fact",
    "nl": "debate, words",
    "cipher": "debate, CIPHER",
    "sde": "debate, SDE",
    "hidden": "debate, hidden states",
    "own": "control: own message back",
    "empty": "control: the other's message empty",
    "stranger": "control: a message on another question",
}
Said = list[dict[str, Any]]  # Any: JSON; one entry a round: text, answer, right
Result = list[dict[str, Said]]
"""By question, and in it by what an agent holds (both, first, last): what it said."""
Change = Callable[[Discussion, str, Message], Message]
"""The state, who hears, and the other's message -> what is heard in its place."""


def holds(question: Question, agent: str) -> str:
    """Which of the two facts an agent was dealt."""
    documents: Any = question["documents"]
    first = question["solution"].startswith(documents[agent][0]) if documents.get(agent) else False
    return "first" if first else "last"


def settings_of(row: str, model: str) -> dict[str, Any]:  # Any: settings of a scheme
    """The settings of a row's runs."""
    if row == "cipher":
        return {"model": [model], "max_tokens": 48, "protocol": "cipher"}
    return {"model": [model], **GREEDY, "protocol": row if row in ("sde", "hidden") else "nl"}


def controlled(settings: Debate, store: PayloadStore, change: Change) -> Any:  # Any: a compiled graph
    """A debate in which something else is heard in the place of the other's message."""

    async def speak(run: RunContext[Debate], state: Discussion, agent: str) -> Update:
        if not state["round"]:
            return await acts.speak(run, state, agent)
        said = rounds_of(state, run.answers)[0]
        (other,) = (name for name in AGENTS if name != agent)
        turns = run.view(state, agent).history([said[agent]], [[change(state, agent, said[other])]])
        return {"board": await say_answer(run, state, Ask(agent, "revise", turns))}

    frame = Frame(SCHEME, settings, store=store, rule=acts.by_rule)
    for agent in settings.speakers():
        frame.graph.add_edge("next_round", agent)
        frame.act(agent, speak, role="debater", to="close_round")
    frame.join("close_round", close_round, to=another_round)
    return frame.graph.compile()


def changes(strange: Mapping[str, Mapping[str, Message]]) -> dict[str, Change]:
    """The controls; `strange` has what each agent said first to another question."""
    return {
        "own": lambda state, agent, message: rounds_of(state, ANSWERS)[0][agent],
        "empty": lambda state, agent, message: replace(message, text="", payload=None),
        "stranger": lambda state, agent, message: replace(
            message, text=strange[state["id"]][message.agent].text, payload=strange[state["id"]][message.agent].payload
        ),
    }


async def measure(row: str, n: int, model: str, seed: int) -> Result:
    """What was said to each question."""
    asked = two_facts(n, AGENTS, seed)
    with TemporaryDirectory() as folder:
        store, options = PayloadStore(folder), settings_of(row, model)
        if row in ("both", "first", "last"):
            graph = scheme("single").create(scheme("single").settings(**options), store=store).compile()
            return [_said(end, {"agent_1": row}) for end in await _run(graph, [_told(each, row) for each in asked])]
        settings = Debate(rounds=2, **options)
        deals = [{agent: holds(each, agent) for agent in AGENTS} for each in asked]
        plain = scheme("debate").create(settings, store=store).compile()
        if row in TITLES and row not in ("own", "empty", "stranger"):
            return [_said(end, deal) for end, deal in zip(await _run(plain, asked), deals, strict=True)]
        strange = await _strange(plain, asked, deals) if row == "stranger" else {}
        ends = await _run(controlled(settings, store, changes(strange)[row]), asked)
        return [_said(end, deal) for end, deal in zip(ends, deals, strict=True)]


async def _run(graph: Any, questions: Sequence[Question]) -> list[Discussion]:  # Any: a compiled graph
    keys = ["board", "round", "epochs", "kind", "target", "question"]
    ends: list[Discussion] = await graph.abatch(list(questions), {"max_concurrency": AT_ONCE}, output_keys=keys)
    return ends


def _told(question: Question, row: str) -> Question:
    """The question with the facts that a single agent is told."""
    documents: Any = question["documents"]
    held = [fact for agent in AGENTS for fact in documents[agent] if row in ("both", holds(question, agent))]
    held.sort(key=question["solution"].index)
    return {**question, "documents": held}


async def _strange(
    graph: Any, asked: Sequence[Question], deals: Sequence[Mapping[str, str]]
) -> dict[str, dict[str, Message]]:  # Any: a compiled graph
    """By question: what was said first to the next question that was dealt alike."""
    first = [rounds_of(end, ANSWERS)[0] for end in await _run(graph, asked)]
    n = len(asked)
    found = {}
    for i, question in enumerate(asked):
        next_one = next(j % n for j in range(i + 1, i + n) if deals[j % n] == deals[i])
        found[question["id"]] = dict(first[next_one])
    return found


def _said(end: Discussion, deal: Mapping[str, str]) -> dict[str, Said]:
    rounds = rounds_of(end, ANSWERS)
    said: dict[str, Said] = {}
    for agent, held in deal.items():
        votes = [(spoken[agent], voted(spoken[agent], end)) for spoken in rounds]
        said[held] = [
            {"text": message.text, "answer": vote["answer"], "right": kinds.right(vote["answer"], end)}
            for message, vote in votes
        ]
    return said


def alone(results: Mapping[str, Result]) -> str:
    """The single agents."""
    rows = [row for row in ("both", "first", "last") if row in results]
    return table(
        "agent | right | 95 % | row",
        [[TITLES[row], *share_cells(share(_right(results[row], row, 0))), row] for row in rows],
    )


def together(results: Mapping[str, Result]) -> str:
    """The debates: right by what an agent holds and by round, who learnt, and who was talked out of it."""
    lines = []
    for row in [row for row in TITLES if row in results and row not in ("both", "first", "last")]:
        cells = [TITLES[row]]
        for held in ("first", "last"):
            before, after = (_right(results[row], held, r) for r in (0, 1))
            pairs = list(zip(before, after, strict=True))
            cells += [percent(share(before).value), " ".join(share_cells(share(after)))]
            cells.append(f"+{sum(b and not a for a, b in pairs)} -{sum(a and not b for a, b in pairs)}")
        lines.append([*cells, row])
    headings = " | ".join(f"{held} fact: round 1 | round 2, 95 % | learnt, lost" for held in ("first", "last"))
    return table(f"debate | {headings} | row", lines)


def _right(result: Result, held: str, r: int) -> list[bool]:
    return [bool(said[held][r]["right"]) for said in result]


def main() -> None:
    """Measure the rows that are named and not yet measured, and print the tables of all that were."""
    parser = argparse.ArgumentParser("python -m benchmarks.two_facts", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(TITLES)}; all if none is named")
    parser.add_argument("-n", type=int, default=100, help="questions a row")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seed", type=int, default=1, help="of the questions")
    parser.add_argument("--results", type=Path, default=WORK / "two_facts.json", help="rows that are there are kept")
    given = parser.parse_args()
    saved: dict[str, Result] = json.loads(given.results.read_text()) if given.results.exists() else {}
    for row in given.rows or TITLES:
        if row in saved:
            continue
        begun = time.monotonic()
        saved[row] = asyncio.run(measure(row, given.n, given.model, given.seed))
        print(f"{row}: {time.monotonic() - begun:.0f} s", flush=True)
        given.results.parent.mkdir(parents=True, exist_ok=True)
        given.results.write_text(json.dumps(saved, indent=1), encoding="utf-8")
    print(f"\n{alone(saved)}\n\n{together(saved)}")


if __name__ == "__main__":
    main()
