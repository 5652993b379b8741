"""Scripted runs of the schemes that judge, vote or ask again: what their agents say, and the record of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message
from sottovoce.channels.store import PayloadStore
from sottovoce.graphs import schemes
from sottovoce.graphs.cmd import CMD
from sottovoce.graphs.debate import Debate
from sottovoce.graphs.govsim import GovSim
from sottovoce.graphs.ia import IA
from sottovoce.graphs.mad import MAD
from sottovoce.graphs.madra import MADRA
from sottovoce.graphs.react import ReAct
from sottovoce.graphs.reconcile import ReConcile
from sottovoce.graphs.whodunit import WhoDunit
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.watch import Intervention, Watch
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Observer
from tests.runs.single import Task, run_one
from tests.runs.support import QUESTION

Replies = Mapping[str, list[str]]


def says(answer: object) -> str:
    """A statement that ends in an answer."""
    return f"The answer is {answer}."


def rules(answer: object = "") -> str:
    """A moderator's or judge's verdict; without an answer it is left open."""
    return json.dumps({"Reason": "because", "debate_answer": str(answer)})


def states(answer: object, confidence: object) -> str:
    """What an agent of ReConcile writes."""
    return json.dumps({"reasoning": "so", "answer": str(answer), "confidence_level": confidence})


def held(
    settings: Settings,
    replies: Replies,
    store: Path,
    observe: Observer | None = None,
    question: Question = QUESTION,
    watch: Watch | None = None,
) -> DiscussionRecord:
    """The record of a scripted run, as it is when time stands still; saved in `store`/run."""
    models = ScriptedChatModel(replies)
    name = next(each.name for each in schemes() if each.settings is type(settings))
    task = Task(name, settings, question, models=models, watch=watch)
    run = run_one(task, PayloadStore(store), folder=store / "run", observe=observe)
    run.seconds = 1.5
    return run


JUDGED: tuple[Settings, Replies] = (
    MAD(agents=3, rounds=2),
    {
        "affirmative": [says(22), says(22)],
        "negative": [says(21), says(21)],
        "debater_3": [says(20), says(20)],
        "moderator": ["Hard to say.", rules(), rules()],  # asked again in the first round
        "judge": ["22, 21 or 20", rules(22)],
    },
)
VOTED: tuple[Settings, Replies] = (
    Debate(agents=4, rounds=2, hears="ring", retain="diverse", rule="ranked", persona="written", show_majority=True),
    {
        **{f"agent_{n}": [says(20 + n), says(21 + n % 3), "2, 1"] for n in (1, 2, 3, 4)},
        "moderator": ["All of them.", "agent_1, agent_4"],  # asked again
        "writer": ['{"agent_1_role": "a poet", "agent_1_description": "Counts feet."}'] * 2,
    },
)
WEIGHED: tuple[Settings, Replies] = (
    ReConcile(rounds=1),
    {
        "agent_1": [states(22, 0.95)] * 2,
        "agent_2": [states(21, 0.85)] * 2,
        "agent_3": ["Hm.", "Hm!", " hm", states(21, "70%")],  # asked again, and for the answer alone
    },
)
HALVES = {f"agent_{i}": 22 if i <= 3 else 21 for i in range(1, 7)}
ASKED: tuple[Settings, Replies] = (
    CMD(rounds=2),
    {
        **{agent: [says(answer)] * 2 for agent, answer in HALVES.items()},
        "agent_2": ["Hm.", " 22", says(22)],
        "agent_3": ["Hm!", " hm", says(22)],
        "secretary": ["Both.", " 22"],
    },
)
SENT: tuple[Settings, Replies] = (
    CMD(rounds=1, secretary=False),
    {agent: [says(answer)] * 2 for agent, answer in HALVES.items()},
)
BOOK: Question = {"question": "Where was the author of The Salt Ledger born?", "kind": "text", "target": "Greyholt"}
LOOKED_UP: tuple[Settings, Replies] = (
    ReAct(agents=2),
    {
        "agent_1": [" Who wrote it?\nAction 1: Search[The Salt Ledger]", " It says where.\nAction 3: Finish[Greyholt]"],
        "agent_2": [" Orla Vance did.", " Search[Orla Vance]"],
    },
)
CHOSEN: tuple[Settings, Replies] = (
    MADRA(n_wiki=2),
    {
        "agent_1": ["It is in [1].\nEvidence: [1]", "[Brévanne]", "[No Found]", "[Greyholt]"],
        "agent_2": ["[0]", "[Greyholt]"] * 2,
        "judge": ["[No]", "[Yes]"],
        "summarizer": ["They say [Greyholt]."],
    },
)
DEALT: tuple[Settings, Replies] = (
    IA(),
    {"agent_1": ["#Q: Who?", r"\boxed{Aldmoor}"], "agent_2": ["#Q: Where?", r"\boxed{Bern}"]},
)
PLAYED: tuple[Settings, Replies] = (
    WhoDunit(suspects=3, attributes=3),
    {
        "Beth": [
            '{"thoughts": "Hm.", "action": 1, "character": 1, "property": "hat", "value": "brown"}',
            '{"thoughts": "So it is 2.", "action": 3, "character": 2}',
        ],
        "Alex": ["No.", '{"thoughts": "I look.", "action": 1, "value": "no"}'],
    },
)
LIVED: tuple[Settings, Replies] = (
    GovSim(agents=2, months=2, utterances=1),
    {
        "John": [
            *("Half.\nAnswer: 25 tons", "Say: 25 each?\nDone: no\nNext: Kate", "Plan: 25.\nRemember: it."),
            *("All!", "All!", "Say: Sorry.\nDone: yes\nNext: Kate", "Plan: none.\nRemember: it."),
        ],
        "Kate": ["Answer: 30 tons", "Plan: 30.\nRemember: it.", "Answer: 60 tons", "Plan: none.\nRemember: it."],
        "summarizer": ["He wants 25 each.", "Answer: 25 tons", "He is sorry.", "Answer: N/A"],
    },
)
ALL = (JUDGED, WEIGHED, ASKED, SENT)
WATCHED = {"agent_1": [says(21), says(20), says(22)], "agent_2": [says(22)] * 3}


class Once:
    """A watch that intervenes once, at the second thing that an agent says."""

    def __init__(self, what: Literal["again", "reset"]) -> None:
        self.what, self.looked = what, 0

    def __call__(self, run: object, state: object, messages: Sequence[Message]) -> Intervention | None:
        self.looked += messages[0].agent == "agent_1"
        if self.looked != 2 or messages[0].agent != "agent_1":
            return None
        return Intervention(self.what, "it wavers")
