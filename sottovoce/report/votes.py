"""Votes and decisions in words: each agent's answer and confidence, ties, and who decided."""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.core.text import one_line, shortened
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Vote
from sottovoce.nodes.votes import Viewpoint, abstaining, took, viewpoints
from sottovoce.prompts.kinds import KINDS, declines, kind_of
from sottovoce.runs.record import DiscussionRecord

RAW = 80  # characters of an unreadable answer's end


def count(round: int, votes: Sequence[Vote], question: Question) -> list[str]:
    """Return the votes of a round by answer: in one line, or a line for each answer if votes have weights."""
    found = sorted(viewpoints(votes, question), key=lambda view: (-view.weight, view.order))
    weighed = any("weight" in cast for cast in votes)
    held = [_held(view, weighed=weighed) for view in found]
    if silent := abstaining(votes):
        held.append(f"{'abstains' if len(silent) == 1 else 'abstain'}: {', '.join(silent)}")
    head = f"Vote after round {round + 1}:"
    lines = [head, *(f"  {line}" for line in held)] if weighed else [f"{head} {', '.join(held)}"]
    return list(map(one_line, lines))


def answer(found: str | None) -> str:
    """Return the decided answer in words."""
    return "no answer" if found is None else brief(found)


def brief(found: str) -> str:
    """Return an answer on one line; of an answer with several lines (a program) the beginning."""
    return shortened(" ".join(found.split())) if "\n" in found.strip() else one_line(found)


def support(run: DiscussionRecord, decision: Decision) -> list[str]:
    """Return the lines below a decision: tied answers, decisions by other rules, each agent's vote."""
    lines = []
    if "tied" in decision:
        decider = f"the {decision['by']}" if "by" in decision else "the first to speak"
        lines.append(f"tied: {' and '.join(decision['tied'])}; decided by {decider}")
    for rule, other in decision.get("beside", {}).items():
        if other != decision["answer"]:
            lines.append(f"by {rule} it would be {answer(other)}")
    lines += [f"{cast['agent']}: {vote(run, cast)}" for cast in decision["votes"]]
    kind = kind_of(run.question)
    unread = [name for name in abstaining(decision["votes"]) if not _declines(run, name)]
    if run.origin is None and kind in KINDS and unread:
        lines.append(f"a reply without an answer of the kind {kind} abstains; --kind asks for another")
    return lines


def vote(run: DiscussionRecord, cast: Vote) -> str:
    """Return one agent's final vote: its answer and confidence, or that it abstained and what it said."""
    if cast["answer"] is not None:
        return brief(cast["answer"]) + _sureness(cast) + ("" if cast["counts"] else " (does not count)")
    if _declines(run, cast["agent"]):
        return "says that the answer is unknown"
    message = run.said(cast["agent"])
    raw = one_line(message.full_text.strip()) if message else ""
    why = f" ({took(cast)})" if took(cast) else ""
    return f"abstains{why}; nothing could be read from: {raw if len(raw) <= RAW else '… ' + raw[-RAW:]}"


def _declines(run: DiscussionRecord, agent: str) -> bool:
    message = run.said(agent)
    return message is not None and declines(message.full_text)


def verdict(run: DiscussionRecord) -> str | None:
    """Return how good the decision was; None if the right answer is unknown."""
    target, decision = run.question.get("target"), run.decision
    if decision is None or decision["score"] is None or target is None:
        return None
    if decision["rule"] == "average" or decision["score"] not in (0, 1):
        return f"score {decision['score']:.2f}: share of agents that say {one_line(target)}"
    return f"{'right' if decision['score'] == 1 else 'wrong'}: the answer is {one_line(target)}"


def _held(view: Viewpoint, *, weighed: bool) -> str:
    """Return an answer and the agents that gave it: "22 ×2 (agent_1, agent_3)"."""
    holders = ", ".join(f"{cast['agent']}{_sureness(cast)}" for cast in view.votes)
    answer = f"{brief(view.answer)} ×{len(view.votes)}"
    return f"{answer}, weight {view.weight:g}: {holders}" if weighed else f"{answer} ({holders})"


def _sureness(cast: Vote) -> str:
    named = [f"{name} {cast[name]:g}" for name in ("confidence", "weight") if name in cast]
    named += [*([cast["note"]] if "note" in cast else []), *([took(cast)] if took(cast) else [])]
    named += ["mined from prose"] if cast.get("read") == "mined" else []
    return f" ({', '.join(named)})" if named else ""
