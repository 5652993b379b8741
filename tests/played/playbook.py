"""The prompts of every seat in every scheme, as a writer who plays a strong model reads them.

    python -m tests.played.playbook debate mad ... > playbook.txt

Each prompt is that of a small discussion in which earlier replies are placeholders.
"""

from __future__ import annotations

import sys
from typing import Any

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.core.errors import UsageError
from sottovoce.graphs import scheme

QUESTIONS: dict[str, dict[str, Any]] = {
    "number": {"question": "A crate holds 12 jars and 3 crates are full. How many jars are there?"},
    "option": {"question": "Which of these is a metal?", "choices": ["oak", "copper", "wool", "None of the above"]},
    "yes_no": {"question": "Could a glacier have been seen by the first settlers of Iceland?"},
    "label": {
        "question": "The Nile flows through Cairo.",
        "choices": ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"],
    },
    "text": {"question": "In which city was the founder of the company that built the ship born?"},
}
DOCUMENTS = {
    "agent_1": ["The ship Vela was built by the company Harrow & Sons."],
    "agent_2": ["Harrow & Sons was founded by Ida Harrow, who was born in Leith."],
}
OPEN = '{"Reason": "...", "Whether there is a preference": "No", "Supported Side": "", "debate_answer": ""}'
JUDGED = '{"Reason": "...", "debate_answer": "Leith"}'
STATED = '{"reasoning": "...", "answer": "ANSWER", "confidence_level": 0.8}'
SETTINGS: dict[str, dict[str, Any]] = {
    "debate": {"rounds": 2},
    "mad": {"rounds": 1},
    "reconcile": {"agents": 2, "rounds": 1},
    "cmd": {"agents": 4, "rounds": 2},
    "madra": {"rounds": 2, "wiki": "documents"},
    "react": {"steps": 3, "library": "documents"},
    "ia": {"rounds": 2},
    "self-consistency": {"samples": 1},
    "govsim": {"agents": 2, "months": 2, "utterances": 2},
    "codegen": {"rounds": 2},
}
REPLIES = {
    "moderate": OPEN,
    "judge": JUDGED,
    "select": "(explanation)\nEvidence: [0]",
    "agree": "[No]",
    "step": " (thought)\nAction 1: Search[Vela]",
}
ANSWERS = {"number": ("36", "35"), "option": ("(B)", "(D)"), "yes_no": ("yes", "no"), "label": ("SUPPORTS", "REFUTES")}


class Placeholders(ScriptedChatModel):
    """A model whose replies say whose they are, in the form that lets the discussion go on."""

    kind: str = "text"

    def _next(self, agent: str) -> str:
        asked = self._recorded[-1]
        answer = ANSWERS.get(self.kind, ("Leith", "Edinburgh"))[int(agent[-1:].isdigit() and int(agent[-1]) % 2 == 0)]
        if asked.options.get("form") and "confidence_level" in str(asked.options["form"]):
            return STATED.replace("ANSWER", answer)
        if asked.act in REPLIES:
            return REPLIES[asked.act]
        return f"(reply of {agent})\nAnswer: {answer}"


def prompts(name: str, kind: str) -> list[RecordedCall]:
    """Return the calls of a small discussion, in order."""
    found, model = scheme(name), Placeholders(kind=kind)
    settings = found.settings(**SETTINGS.get(name, {}))
    question = {**QUESTIONS[kind], "kind": kind}
    if name in ("ia", "madra", "react") or (name == "debate" and kind == "text"):
        texts = [text for each in DOCUMENTS.values() for text in each]
        question["documents"] = DOCUMENTS if name == "debate" else texts
    try:
        found.create(settings, models=model).compile().invoke(question)
    except UsageError as error:
        print(f"!! {name} {kind}: {error}", file=sys.stderr)
    return model.calls


def main(names: list[str]) -> None:
    """Print the prompts of each scheme: all of a text question, and of other kinds the last turn of each act."""
    for name in names:
        for kind in ("text", "number", "option", "yes_no", "label"):
            seen = set[str]()
            for asked in prompts(name, kind):
                if kind != "text" and asked.act in seen:
                    continue
                seen.add(asked.act)
                print(f"=== {name} | kind {kind} | {asked.agent} | act {asked.act} | round {asked.round + 1}")
                print(asked.text if kind == "text" else f"(last turn)\n{asked.turns[-1].text}")
                begun = asked.options.get("begun")
                print(f"[you write the reply of {asked.agent}{f', which goes on from: {begun}' if begun else ''}]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
