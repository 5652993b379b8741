"""Runs to report: a scripted one whose messages carry entropies, as often as wanted, and one that is not over."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.datasets import arithmetic
from sottovoce.graphs.debate import Debate
from sottovoce.nodes.question import Question
from sottovoce.runs.manifest import new_manifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run
from sottovoce.runs.runner import run_all
from tests.runs.support import QUESTION, carrying, held

HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
REPLIES = {
    "agent_1": ["The answer is 29.", f"{HOSTILE} The answer is 22."],
    "agent_2": ["The answer is 22.", "The answer is 22."],
}


def scripted(folder: Path, discussions: int = 1, rounds: int = 2) -> Run:
    """A run of so many equal discussions, each of two messages a round, with a payload each."""
    store = PayloadStore(folder / "payloads")
    replies = {agent: [said[0], *said[1:] * (rounds - 1)] for agent, said in REPLIES.items()}
    record = held(replies, folder / "payloads")
    record.messages = [_carrying(message, store) for message in record.messages]
    asked: list[Question] = [{**QUESTION, "id": f"sum/{i}"} for i in range(discussions)]
    run = Run(new_manifest("debate", Debate(rounds=rounds), asked, models=ScriptedChatModel({})), asked, folder)
    (folder / "log.jsonl").touch()
    run.records = {(str(each["id"]), 0): record.model_copy(update={"question": each, "seed": 0}) for each in asked}
    run.status = "done"
    return run


def _carrying(message: Message, store: PayloadStore) -> Message:
    n = len(message.text)
    spans = [(i, min(i + 4, n)) for i in range(0, n, 4)]
    return carrying(message, spans, [0.1 * (i % 20) for i, _ in enumerate(spans)], store)


def cipher(folder: Path, questions: int = 2, **settings: Any) -> Run:
    """A CIPHER debate of the bundled model, kept in a folder."""
    made = Debate(protocol="cipher", rounds=2, max_tokens=48, **settings)
    asked = arithmetic.made_arithmetic("arithmetic", questions, seed=0)
    run = Run.start(new_manifest("debate", made, asked), asked, folder)
    run_all(run, run.manifest.own_settings(), run.store())
    return run


def unfinished(run: Run) -> Run:
    """The run with its last discussion still to be held."""
    key = next(reversed(run.records))
    run.records[key] = run.records[key].restarted()
    run.status = "stopped"
    return run


def withheld(record: DiscussionRecord) -> DiscussionRecord:
    """The record with a second attempt at its last message: a watch held the first back."""
    last = record.messages[-1]
    first = replace(last, text="I am lost.", payload=None, withdrawn=True)
    place = {name: getattr(last, name) for name in ("agent", "act", "epoch", "round", "turn", "attempt")}
    told: Any = {**place, "role": "agent", "score": 0.83, "what": "again", "why": "the monitor scores 0.83"}
    messages = [*record.messages[:-1], first, replace(last, attempt=1)]
    return record.model_copy(update={"messages": messages, "interventions": [told]})


PLACES = (
    *("question", "target", "description", "origin", "model", "torch", "text", "thoughts", "begun"),
    *("public", "notes", "act", "agent", "turns", "why", "rule", "answer", "documents"),
)
"""Where a poisoned run has a script: keys of its log."""


def hostile(place: str) -> str:
    return f"{HOSTILE} in {place}"


def poisoned(folder: Path) -> Path:
    """A saved run with a script wherever its log has a text."""
    asked: Question = {"question": "Who is it?", "id": hostile("id"), "kind": "text", "target": "x", "description": "x"}
    asked["documents"] = ["x"]
    model = ScriptedChatModel({agent: ["The answer is Ada."] * 9 for agent in ("agent_1", "agent_2")})
    made = Debate(rounds=2, agents=2)
    run = Run.start(new_manifest("debate", made, [asked], origin="x", models=model), [asked], folder)
    run_all(run, made, run.store(), models=model)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        for event in line.get("events", ()):
            if event["event"] == "said":
                event |= {"thoughts": "x", "begun": "x", "public": "x", "notes": ["x"]}
    told = "".join(json.dumps(_poison(line, "")) + "\n" for line in lines)
    (folder / "log.jsonl").write_text(told, encoding="utf-8")
    return folder


def _poison(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        return {key: _poison(each, key if isinstance(each, (str, list)) else "") for key, each in value.items()}
    if isinstance(value, list):
        return [_poison(each, place) for each in value]
    return f"{hostile(place)} {value}" if isinstance(value, str) and place in PLACES and value not in ROLES else value


ROLES = ("user", "system", "assistant")
