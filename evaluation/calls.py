"""Every model call of a discussion and what it hears (CMD, arXiv 2402.18272, Appendix A), read from a scripted run.

The graph itself is run by agents that never agree, so that all rounds are held and a tie goes to whoever is asked at
one; the prompts say who hears what. Edges that only carry an agent's own history are left out: its memory goes
without saying, and with it all that it read before.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from sottovoce.agents.scripted import Asked, ScriptedChatModel
from sottovoce.channels.message import Heard, Message, Place
from sottovoce.errors import UsageError
from sottovoce.nodes.settings import Settings, validated

Carries = Literal["question", "full", "viewpoint", "summary", "vote"]
Key = tuple[int, int, str, str]
"""Round, turn, agent and act: where a call's reply stands, whatever the attempt."""
MOST_CALLS = 300  # half a minute, where each hears all
QUESTION = {"question": "How many?", "solution": "The answer is 1.", "decoys": ["The answer is 2."]}
FIRST_VALUE = 813_000_000_000
VALUE = re.compile(r"\b813\d{9}\b")


class Call(NamedTuple):
    """One model call, an inference node."""

    agent: str
    round: int
    prompt: str
    """What it is told, whoever said it."""
    turn: int = 0


class Edge(NamedTuple):
    """What one call says is part of what another reads; None is the question (source x) or the decision (sink y)."""

    speaker: Call | None
    hearer: Call | None
    carries: Carries


class Unrolled(NamedTuple):
    """The calls of a discussion, in order of time, and the edges between them."""

    calls: tuple[Call, ...]
    edges: tuple[Edge, ...]
    others: tuple[str, ...] = ()
    """Who is called and does not discuss, each named by its role: nobody takes its place."""
    left_out: str = ""
    """What a reader must know of calls that are made and are not here."""

    def agents(self) -> list[str]:
        """Who discusses, in the order of their first calls."""
        return [name for name in dict.fromkeys(call.agent for call in self.calls) if name not in self.others]


class NeverAgreeing(ScriptedChatModel):
    """States a value of its own in each answer, in the form that was asked for, and leaves all else open."""

    answers: tuple[str, ...]
    """The acts that hold answers."""
    undecided: frozenset[str] = frozenset()
    """Agents that have no answer either."""

    def _next(self, agent: str) -> str:
        if len(self._asked) > MOST_CALLS:
            raise UsageError(f"the discussion has more than {MOST_CALLS} calls, too many; give fewer agents or rounds")
        asked = self._asked[-1]
        states = asked.act in self.answers and agent not in self.undecided
        value = str(FIRST_VALUE + len(self._asked)) if states else "unknown"
        if not (schema := (asked.options.get("form") or {}).get("schema")):
            return f"The answer is {value}."
        # A confidence is enough for any other field.
        return json.dumps({name: value if "answer" in name else "0.5" for name in schema["properties"]})


def unroll(
    create: Callable[..., Any],  # Any: an uncompiled graph
    settings: Settings,
    answers: tuple[str, ...] = ("answer", "revise"),
    **question: Any,  # Any: fields of a Question
) -> Unrolled:
    """The calls that a scheme's `create`, or `partial(create_discussion, rule)`, makes with these settings.

    No model is loaded. `answers` are the acts that hold answers; fields of the question (documents, wordings,
    starting_views) may tell agents apart.

    Raises:
        UsageError: the discussion is too large.
    """
    values = settings.model_dump(include=settings.model_fields_set - settings.of_models())

    def hold(undecided: frozenset[str] = frozenset(), seed: int = 0) -> tuple[list[Asked], Any]:  # Any: a state
        model = NeverAgreeing(answers=answers, undecided=undecided)
        graph = create(validated(type(settings), {**values, "seed": settings.seed + seed}), models=model).compile()
        config = {"recursion_limit": 10**6, "max_concurrency": 1}
        state = graph.invoke({**QUESTION, **question}, config, output_keys=["board", "decision"])
        return model.asked, state

    every, state = hold()
    board, decision, names = state["board"], state["decision"], settings.names()
    speakers = _speakers(board)
    end = _settled_until(speakers, lambda *other: _speakers(hold(*other)[1]["board"]))
    places = [Place(**each.place) for each in every]
    stated = {str(FIRST_VALUE + i): place[1:5] for i, place in enumerate(places, 1)}
    asked = {at[1:5]: each for at, each in zip(places, every, strict=True) if at.round < end and not at.attempt}
    told = {each.place[1:5]: each.source for each in board if each.agent in names and each.round < end}  # a dummy's
    told |= {key: _told(each, names) for key, each in asked.items()}
    calls = {key: Call(key[2], key[0], told[key], key[1]) for each in board if (key := each.place[1:5]) in told}
    last = {call.agent: call for call in calls.values()}
    deciding = {decision.get("by"), *(vote["agent"] for vote in decision["votes"] if vote["counts"])}
    deciding = deciding if end == len(speakers) else {*speakers[end - 1]}
    edges = [Edge(None, call, "question") for call in calls.values()]
    edges += [Edge(calls[one], calls[other], carries) for one, other, carries in _edges(asked, stated, answers)]
    edges += [Edge(call, None, "vote") for name, call in last.items() if name in deciding]
    left_out = "" if end == len(speakers) else f"all from round {end + 1} on: who speaks there depends on the answers"
    others = tuple(name for name in last if name not in settings.speakers())
    return Unrolled(tuple(calls.values()), tuple(edges), others, left_out)


def _settled_until(speakers: list[set[str]], other: Callable[[frozenset[str], int], list[set[str]]]) -> int:
    """Before which round the same agents speak whatever the answers are and the lots say.

    Looked at where fewer speak at last than at first: in the other runs those have no answer.
    """
    for seed in (1, 2, 3) if speakers[-1] < speakers[0] else ():
        for round, (one, two) in enumerate(zip(speakers, other(frozenset(speakers[-1]), seed), strict=False)):
            if one != two:
                return round
    return len(speakers)


def _speakers(board: list[Message]) -> list[set[str]]:
    return [{each.agent for each in board if each.round == round} for round in range(board[-1].round + 1)]


def _edges(
    asked: Mapping[Key, Asked], stated: Mapping[str, Key], answers: tuple[str, ...]
) -> Iterator[tuple[Key, Key, Carries]]:
    """Who hears whom: messages of others, and their answers in a prompt's words; what was read before adds nothing."""
    read = defaultdict[str, set[tuple[Key, Carries]]](set)
    for hearer, each in asked.items():
        parts = [part for turn in each.turns for part in turn.parts]
        values = VALUE.findall("\n".join(part for part in parts if isinstance(part, str)))
        heard: dict[Key, Carries] = {stated[value]: "viewpoint" for value in values if value in stated}
        for message in (part.message for part in parts if isinstance(part, Heard)):
            heard[message.place[1:5]] = "full" if message.act in answers else "summary"
        new = {(key, carries) for key, carries in heard.items() if key[2] != each.agent} - read[each.agent]
        read[each.agent] |= new
        yield from ((speaker, hearer, carries) for speaker, carries in new)


def _told(asked: Asked, names: list[str]) -> str:
    """The act and each line of a prompt once, without what depends on who said it; their order is left out."""
    either = "|".join(name.replace("_", "[_ ]") for name in names)  # prompts write "debater 3"
    lines = set[str]()
    for turn in asked.turns:
        text = "".join(part if isinstance(part, str) else "<said>" for part in turn.parts)
        lines |= {f"{turn.role}: {line}" for line in VALUE.sub("<said>", text).split("\n")}

    def named(found: re.Match[str]) -> str:
        return "<you>" if found[0].replace(" ", "_") == asked.agent else "<another>"

    return "\n".join([asked.act, *sorted({re.sub(rf"\b(?:{either})\b", named, line) for line in lines})])
