"""Replies in the styles of today's strong models: none is read as something else, and what is not read is asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sottovoce.channels.message import Message
from sottovoce.core.thoughts import split
from sottovoce.environments import react
from sottovoce.environments.codegen import program
from sottovoce.environments.govsim.talk import read_limit
from sottovoce.environments.whodunit.actions import WORDINGS, Malformed, read
from sottovoce.environments.whodunit.games import attributes, drawn
from sottovoce.graphs import mad, madra, reconcile
from sottovoce.graphs.react import action_in
from sottovoce.nodes.decide import read_vote
from sottovoce.nodes.say import lacks_answer
from sottovoce.prompts import kinds
from tests.shared import shared

MORE = Path(__file__).with_name("replies") / "strong_roles.jsonl"
ASK, NOTHING = "ask", "nothing"
"""What is asked for again, and what counts as an abstention without asking."""
GAME = drawn("replies", attributes(12), 10)
JUDGES = {"moderator": mad.verdict, "judge": mad.judgement}


def outcome(row: dict[str, Any]) -> Any:
    """Return what a reply is read as in its role."""
    message, role = Message("agent_1", 0, "answer", split(row["reply"]).text), row["role"]
    question: Any = {"question": row.get("question", ""), "kind": row.get("kind"), "choices": row.get("choices") or []}
    if role in ("debate", "secretary"):
        return read_vote(message, question)["answer"] or (ASK if lacks_answer(question)(message) else NOTHING)
    if role == "reconcile":
        said = reconcile.stated(message, question)
        nothing = ASK if said.error else NOTHING
        return [said.answer or nothing, nothing if said.confidence is None else said.confidence]
    if role in JUDGES:
        judged = JUDGES[role](message, question)
        return judged.answer or (ASK if judged.error else NOTHING)
    if role == "select":
        chosen = madra.selected(message, 9, 3)
        return ASK if chosen is None else chosen
    if role == "mjudge":
        return {True: "yes", False: "no", None: ASK}[madra.verdict(message)]
    if role == "react":
        action = action_in(message)
        return [action.verb, action.argument] if isinstance(action, react.Action) else ASK
    if role == "ia":
        return kinds.boxed(message, question) or NOTHING
    if role in ("wish", "limit"):
        limit = read_limit(message)
        return int(limit) if limit.isdigit() else NOTHING if limit and role == "limit" else ASK
    if role in ("accuser", "intel"):
        done = read(message, role, GAME, WORDINGS["positive"])
        return ASK if isinstance(done, Malformed) else done
    written = program(message, "", row.get("entry", ""))
    return written.text if written else ASK


def fits(found: Any, row: dict[str, Any]) -> str:
    """Return `meant`, `asked`, `unread` (and not asked) or `otherwise`."""
    meant, role = row["meant"], row["role"]
    if role == "reconcile":
        parts = [fits(each, {**row, "role": "debate", "meant": part}) for each, part in zip(found, meant, strict=True)]
        return max(parts, key=["meant", "asked", "unread", "otherwise"].index)
    none = meant in ("abstain", "none", "unknown", None, ASK)
    if found in (ASK, NOTHING):
        return "meant" if none and (meant != ASK or found == ASK) else "asked" if found == ASK else "unread"
    if role == "accuser":
        is_meant = (found.verb, found.person, found.attribute, found.value.lower()) == (
            "ask", meant["character"], meant["property"], meant["value"]
        )  # fmt: skip
        return "meant" if is_meant else "otherwise"
    if role == "intel":
        return "meant" if found.truth == meant["value"] else "otherwise"
    if role == "coder":
        return "meant" if f"def {meant}(" in found and found.count("def ") == 1 else "otherwise"
    if none or isinstance(meant, list | int | float) or isinstance(found, list | int | float):
        return "meant" if found == meant else "otherwise"
    question = {"question": row["question"], "kind": row["kind"], "choices": row.get("choices") or []}
    is_same = kinds.right(found, {**question, "target": meant}) if role != "mjudge" else found == meant
    return "meant" if is_same else "otherwise"


@pytest.mark.parametrize("name", ["shared", "ours"])
def test_no_reply_is_read_as_something_else_and_few_are_neither_read_nor_asked_for(name: str) -> None:
    path = MORE if name == "ours" else shared("reports/strong_replies.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    outcomes = [fits(outcome(row), row) for row in rows]
    counts = Counter(outcomes)
    others = [(how, row["role"], row["meant"], row["reply"], outcome(row))
              for how, row in zip(outcomes, rows, strict=True) if how in ("otherwise", "unread")]  # fmt: skip

    assert not counts["otherwise"] and counts["unread"] <= 3, others
    assert counts["asked"] <= len(rows) // 3
