"""Which calls a scheme makes with given settings, and which models make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from sottovoce.errors import UsageError, choose
from sottovoce.evaluation.calls import Call, Edge, Unrolled, framed, hears_all_others, hears_in_groups, hears_others
from sottovoce.nodes.settings import CMD, MAD, Debate, ReConcile, Settings
from sottovoce.nodes.settings.cmd import SECRETARY, grouped


def unroll(scheme: str, settings: Settings) -> Unrolled:
    """A scheme as these settings have it; an agent's own system prompt is part of its prompts.

    Raises:
        UsageError: there is no such scheme.
    """
    key = scheme.replace("-", "_")
    if key not in UNROLLED:
        raise UsageError(choose("scheme", scheme, list(UNROLLED)))
    found, speakers = UNROLLED[key](settings), settings.speakers()
    systems = dict(zip(settings.names(), settings.each("system"), strict=False))  # none were given, or one each
    staff = tuple(name for name in found.agents() if name not in speakers)
    return replace(found, staff=staff).told({name: f"system {text!r}" for name, text in systems.items() if text})


def spoken_by(settings: Settings) -> dict[str, str]:
    """Each agent's model: at another temperature it is another one (another distribution of replies)."""
    models = dict(zip(settings.names(), settings.each("model"), strict=True))
    spoken = {name: f"{model} at {_temperature(settings, name)}" for name, model in models.items()}
    if not isinstance(settings, Debate) or settings.summarise != "shared":
        return spoken
    from sottovoce.nodes.summarise import SUMMARISER  # late: it imports langchain

    return {**spoken, SUMMARISER: spoken[settings.names()[0]]}


def debate(settings: Debate) -> Unrolled:
    """All hear the others' answers of the round before, or a summary of them; experts and dummies hear nobody."""
    decider = _decider(settings)
    rows = [[_debater(settings, name, r) for name in settings.names()] for r in range(settings.rounds)]
    if settings.last_round == "deciding":
        rows[-1] = [call for call in rows[-1] if call.agent == decider]
    edges = [edge for before, now in pairwise(rows) for edge in _heard(settings, before, now)]
    debaters = [call for call in rows[-1] if settings.roles()[call.agent] == "debater"] or rows[-1]
    by_one = _rule(settings) == "lowest_temperature"
    return framed(edges, chain.from_iterable(rows), [call for call in debaters if not by_one or call.agent == decider])


def mad(settings: MAD) -> Unrolled:
    """Debaters speak in turn, each after all since its own last statement; then the moderator, and at last the judge.

    The judge decides, since without an early stop the moderator leaves it open.
    """
    rows = [[_arguer(name, r, seat) for seat, name in enumerate(settings.speakers())] for r in range(settings.rounds)]
    moderators = [Call("moderator", r, "mad/moderate") for r in range(settings.rounds)]
    judge = [Call("judge", settings.rounds - 1, prompt) for prompt in ("mad/candidates", "mad/judge")]
    read = {"all": rows, "last": rows[-1:], "first": rows[:1]}[settings.judge_sees]
    edges = [edge for before, now in pairwise([[], *rows]) for edge in _hears_in_turn(before, now)]
    edges += [edge for row, moderator in zip(rows, moderators, strict=True) for edge in hears_others(row, moderator)]
    edges += hears_others(chain.from_iterable(read), judge[0])
    calls = [call for row, moderator in zip(rows, moderators, strict=True) for call in (*row, moderator)]
    return framed(edges, [*calls, *judge], judge[-1:])


def reconcile(settings: ReConcile) -> Unrolled:
    """All hear the answers of all, by viewpoint; the others' convincing samples are part of an agent's prompts."""
    rows = [[_round_table(settings, name, r) for name in settings.names()] for r in range(settings.rounds + 1)]
    edges = [edge for before, now in pairwise(rows) for edge in hears_all_others(before, now)]
    return framed(edges, chain.from_iterable(rows), rows[-1])


def cmd(settings: CMD) -> Unrolled:
    """Groups hear each other in full and other groups' viewpoints; at a tie a secretary decides, or a higher level.

    The secretary reads one explanation of each viewpoint: it may be any agent's, so all count as read.
    """
    levels = _levels(settings)
    active = [groups for groups in levels for _ in range(settings.rounds)]  # by round
    rows = [
        [Call(name, r, "cmd/discuss" if r else "cmd/agent") for group in groups for name in group]
        for r, groups in enumerate(active)
    ]
    edges = [edge for r in range(1, len(rows)) for edge in hears_in_groups(active[r], rows[r - 1], rows[r])]
    may_tie = settings.secretary and settings.agents > 1
    last = [Call(SECRETARY, len(rows) - 1, "cmd/secretary")] if may_tie else []
    found = framed([*edges, *hears_all_others(rows[-1], last)], chain.from_iterable(rows), [*rows[-1], *last])
    open_end = not settings.secretary and len(levels[-1]) > 1
    return replace(found, left_out=HIGHER_LEVELS if open_end else "")


def independent(settings: Settings) -> Unrolled:
    """Each answers alone: the single agent and self-consistency's samples."""
    calls = [Call(name, 0, "shared/answer") for name in settings.names()]
    return framed([], calls, calls)


UNROLLED: dict[str, Callable[[Any], Unrolled]] = {  # Any: each takes its own settings
    "debate": debate,
    "mad": mad,
    "reconcile": reconcile,
    "cmd": cmd,
    "single": independent,
    "self_consistency": independent,
}
HIGHER_LEVELS = "the levels above the first: who represents a group there depends on the answers"


def _debater(settings: Debate, name: str, round: int) -> Call:
    role = settings.roles()[name]
    if role != "debater":
        return Call(name, round, role)
    revises = "verify" if settings.agents == 1 else "fresh" if settings.shape == "fresh" else "revise"
    prompt = f"debate/{revises if settings.summarise == 'none' else 'revise_from_summary'}"
    return Call(name, round, prompt if round else "shared/answer")


def _heard(settings: Debate, before: Sequence[Call], now: Sequence[Call]) -> list[Edge]:
    from sottovoce.nodes.summarise import SUMMARISER  # late: it imports langchain

    hearers = [call for call in now if settings.roles()[call.agent] == "debater"]
    if settings.summarise == "none":
        return hears_all_others(before, hearers)
    of_round = before[0].round
    if settings.summarise == "shared":
        summary = Call(SUMMARISER, of_round, "debate/summarise")
        return [*hears_others(before, summary), *(Edge(summary, call, "summary") for call in hearers)]
    own = [(Call(call.agent, of_round, "debate/summarise"), call) for call in hearers]
    return [edge for summary, call in own for edge in (*hears_others(before, summary), Edge(summary, call, "summary"))]


def _arguer(name: str, round: int, seat: int) -> Call:
    return Call(name, round, "mad/rebut" if round else "mad/oppose" if seat else "shared/answer")


def _hears_in_turn(before: Sequence[Call], now: Sequence[Call]) -> list[Edge]:
    """Each hears who spoke before it in this round, and who spoke after it in the last."""
    return [edge for seat, call in enumerate(now) for edge in hears_others([*before[seat + 1 :], *now[:seat]], call)]


def _round_table(settings: ReConcile, name: str, round: int) -> Call:
    """One call of ReConcile; of the other agents' samples each is shown once."""
    prompt, files = "reconcile/discuss" if round else "shared/answer", settings.each("convincing")
    others = {file for other, file in zip(settings.names(), files, strict=False) if other != name}  # none, or one each
    shown = others and (round or settings.convincing_in == "all")
    return Call(name, round, f"{prompt}; samples of {sorted(others)}" if shown else prompt)


def _levels(settings: CMD) -> list[list[list[str]]]:
    """The groups of each level, as far as settings alone tell who is sent there."""
    levels = [settings.groups()]
    while not settings.secretary and settings.representative == "first" and len(levels[-1]) > 1:
        levels.append(grouped([group[0] for group in levels[-1]]))
    return levels


def _temperature(settings: Settings, name: str) -> str:
    """As set; else as scheme and protocol have it for local models (`Stage.temperature`, without loading any)."""
    from sottovoce.channels.registry import PROTOCOLS  # late: it imports torch

    speakers, values, own = settings.speakers(), settings.each("temperature"), settings.warmth
    if values:
        return f"temperature {values[settings.names().index(name)]:.4g}"
    channel, spread = PROTOCOLS[settings.protocol](), settings.discusses and name in speakers
    share = channel.temperature(speakers.index(name), len(speakers), 1.0) if spread else 1.0
    if own is not None and not (spread and channel.averages):
        return f"temperature {share * own:.4g}"
    return "its own temperature" if share == 1 else f"{share:.4g} of its temperature"


def _rule(settings: Debate) -> str:
    from sottovoce.channels.registry import PROTOCOLS  # late: it imports torch

    if settings.rule is None and settings.last_round == "deciding":
        return "lowest_temperature"
    return settings.rule or PROTOCOLS[settings.protocol].final_rule


def _decider(settings: Debate) -> str:
    """The debater with the lowest temperature, the first of several; unset ones count as equal or rising."""
    warmth = dict(zip(settings.names(), settings.each("temperature") or [1.0] * settings.agents, strict=True))
    debaters = [name for name, role in settings.roles().items() if role == "debater"]
    return min(debaters or settings.names(), key=warmth.__getitem__)
