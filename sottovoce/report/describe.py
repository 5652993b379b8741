"""Messages, votes, decisions and interventions in words, as all renderers of a transcript show them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sottovoce.channels.message import EDITED, Message, latest
from sottovoce.core.errors import PayloadError
from sottovoce.core.text import counted, one_line, shortened
from sottovoce.graphs import scheme
from sottovoce.nodes.decide import abstaining, took, viewpoints
from sottovoce.nodes.hearing import Hearing
from sottovoce.nodes.question import Question
from sottovoce.nodes.state import Decision, Intervened, Vote
from sottovoce.prompts.kinds import KINDS, declines, kind_of
from sottovoce.runs.record import DiscussionRecord

DOES = {"summarise": "sums up", "select": "chooses evidence", "retrieve": "finds"}
"""Words for acts whose agents do other acts too."""
NO_WORDS = "(no words)"
"""Shown in place of an empty message."""


def shades(message: Message) -> Iterator[tuple[str, float | None]]:
    """Yield a message's text in pieces, one per token, with the entropy (nats) of the distribution it was drawn from.

    Yield one piece without an entropy if there is no payload, or the text was edited. A character that tokens share
    goes to the first of them.
    """
    at = 0
    try:
        entropies = message.latent.entropies() if message.latent else []
    except PayloadError:  # a moved run; its words can still be read
        entropies = []
    for (start, end), entropy in entropies:
        yield message.text[at:start], None
        yield message.text[max(at, start) : end], entropy
        at = max(at, end)
    yield message.text[at:] if message.full_text else NO_WORDS, None


def speaker(message: Message) -> str:
    """Return the agent, with its act if that is in `DOES`, and its source if that is not a local model."""
    agent = one_line(message.agent)
    name = f"{agent} {DOES[message.act]}" if message.act in DOES else agent
    source = "hosted model" if message.source == "hosted" else message.source
    return name if source == "model" else f"{name} ({source})"


def carried(message: Message) -> str:
    """Return kind and size of a message's payload: "cipher: 57 rows x 128, float32, 74 kB"."""
    ref = message.payload
    if ref is None or ref.hidden is None:
        return "words"
    return ref.summary if message.latent or EDITED in message.notes else f"{ref.summary}; {EDITED}"


class Edge(NamedTuple):
    """A message, the hearer's next message, and the form in which the message was heard."""

    message: Message
    before: Message
    form: str


def edges(record: DiscussionRecord) -> list[Edge]:
    """Return who heard which message, in the order of the hearers' messages."""
    said = {message.place: message for message in record.messages}
    prompts = {prompt.place: prompt.heard for prompt in record.prompts}
    return [
        Edge(said[heard["place"]], message, _form(said[heard["place"]], heard))
        for message in record.messages
        for heard in prompts.get(message.place, ())
        if heard["place"] in said
    ]


def _form(message: Message, hearing: Hearing) -> str:
    form = "words" if hearing["form"] == "words" else carried(message)
    probe = ", replaced by a probe's" if hearing["form"] == "replaced" else ""
    return f"{'a part of it: ' if hearing['part'] else ''}{form}{probe}"


def footer(message: Message) -> str:
    """Return the line under a message: its payload, its generation, and notes on it."""
    edited = message.payload is not None and message.latent is None
    stats, facts = {} if edited else message.stats, [carried(message)]  # they belong to the text before the edit
    if "temperature" in stats:
        facts.append(f"temperature {stats['temperature']:.4g}")
    if "tokens_out" in stats and message.full_text:
        facts.append(counted(int(stats["tokens_out"]), "token"))
    if "mean_entropy" in stats and message.full_text:
        facts.append(f"entropy {stats['mean_entropy']:.2f} nats")
    if "shared_mass" in stats:
        facts.append(f"shared vocabulary: {stats['shared_mass']:.0%} of the mass, {stats['as_words']:.0%} as words")
    return " · ".join([*facts, *map(one_line, message.notes)])


def thoughts(message: Message) -> str:
    """Return the thoughts folded into a line: their length and their beginning; empty without thoughts."""
    if not message.thoughts:
        return ""
    tokens = message.stats.get("tokens_thoughts")
    length = "" if tokens is None else f", {counted(int(tokens), 'token')}"
    return f"thoughts{length}: {shortened(one_line(message.thoughts.strip()))}"


def last_attempts(messages: Sequence[Message]) -> list[Message]:
    """Return the latest reply of each act, in the board's order, with the notes of earlier attempts.

    The text of an answer turn is among the notes of its reply.
    """
    acts, replies = by_act(messages), []
    for message in latest(each for each in messages if each.asked != "answer"):
        of_act = acts[message.place[:-1]]
        before = [each for each in of_act if each.attempt < message.attempt and each.asked != "answer"]
        earlier = "; ".join(note for each in before for note in each.notes)
        which = "first attempt" if len(before) == 1 else "earlier attempts"
        notes = [*([f"{which}: {earlier}"] if earlier else []), *message.notes]
        for turn in (each for each in of_act if each.asked == "answer" and each.attempt > message.attempt):
            notes += [f'it says "{shortened(turn.text)}"', *(note for note in turn.notes if note not in notes)]
        replies.append(replace(message, notes=tuple(notes)))
    return replies


def intervention(intervened: Intervened, detail: str = "") -> str:
    """Return an intervention in words: its effect, its agent and its reason."""
    return one_line(f"{intervened['what']} at {intervened['agent']}{detail}: {intervened['why']}")


def by_act(messages: Iterable[Message]) -> Mapping[tuple[object, ...], list[Message]]:
    """Return all messages of each act, by their place without the attempt."""
    acts = defaultdict[tuple[object, ...], list[Message]](list)
    for message in messages:
        acts[message.place[:-1]].append(message)
    return acts


RAW = 80  # characters of an unreadable answer's end


def count(round: int, votes: Sequence[Vote], question: Question) -> list[str]:
    """Return the votes of a round by answer: in one line, or a line for each answer if votes have weights."""
    weighed, answers = any("weight" in cast for cast in votes), []
    for view in sorted(viewpoints(votes, question), key=lambda view: (-view.weight, view.order)):
        holders = ", ".join(f"{cast['agent']}{_sureness(cast)}" for cast in view.votes)
        text = f"{brief(view.answer)} ×{len(view.votes)}"
        answers.append(f"{text}, weight {view.weight:g}: {holders}" if weighed else f"{text} ({holders})")
    if silent := abstaining(votes):
        answers.append(f"{'abstains' if len(silent) == 1 else 'abstain'}: {', '.join(silent)}")
    head = f"Vote after round {round + 1}:"
    lines = [head, *(f"  {line}" for line in answers)] if weighed else [f"{head} {', '.join(answers)}"]
    return list(map(one_line, lines))


def answer(decided: str | None) -> str:
    """Return the decided answer in words."""
    return "no answer" if decided is None else brief(decided)


def brief(answer: str) -> str:
    """Return an answer on one line; of an answer with several lines (a program) the beginning."""
    return shortened(" ".join(answer.split())) if "\n" in answer.strip() else one_line(answer)


def support(run: DiscussionRecord, decision: Decision) -> list[str]:
    """Return the lines below a decision: tied answers, decisions by other rules, each agent's vote."""
    lines = []
    if "tied" in decision:
        decider = f"the {decision['by']}" if "by" in decision else "the first to speak"
        lines.append(f"tied: {' and '.join(decision['tied'])}; decided by {decider}")
    for rule, alternative in decision.get("beside", {}).items():
        if alternative != decision["answer"]:
            lines.append(f"by {rule} it would be {answer(alternative)}")
    by_vote: dict[str, list[str]] = {}
    for cast in decision["votes"]:
        by_vote.setdefault(vote(run, cast), []).append(cast["agent"])
    lines += [f"{', '.join(agents)}: {text}" for text, agents in by_vote.items()]
    kind = kind_of(run.question)
    unread = [name for name in abstaining(decision["votes"]) if not _declines(run, name)]
    if run.origin is None and kind in KINDS and unread:
        lines.append(f"a reply without an answer of the kind {kind} abstains; --kind asks for another")
    return lines


def vote(run: DiscussionRecord, cast: Vote) -> str:
    """Return one agent's final vote: its answer and confidence, or its abstention and its text."""
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
    return message is not None and declines(message.full_text, run.question)


def verdict(run: DiscussionRecord) -> str | None:
    """Return how good the decision was; None if the right answer is unknown."""
    target, decision = run.question.get("target"), run.decision
    if decision is None or decision["score"] is None or target is None:
        return None
    if decision["rule"] == "average" or decision["score"] not in (0, 1):
        return f"score {decision['score']:.2f}: share of agents that say {one_line(target)}"
    return f"{'right' if decision['score'] == 1 else 'wrong'}: the answer is {one_line(target)}"


def _sureness(cast: Vote) -> str:
    named = [f"{name} {cast[name]:g}" for name in ("confidence", "weight") if name in cast]
    named += [*([cast["note"]] if "note" in cast else []), *([took(cast)] if took(cast) else [])]
    return f" ({', '.join(named)})" if named else ""


# Interventions; a world classifies the messages that were withheld (`Scheme.truth`)


def interventions(records: Sequence[DiscussionRecord]) -> list[str]:
    """Describe the interventions of a run in a few lines; [] if nothing was monitored."""
    found = [(record, entry) for record in records for entry in record.interventions]
    if not found:
        watched = any(record.settings.get("watch") for record in records)
        return ["monitors did not intervene"] if watched else []
    in_all = f"{sum(bool(record.interventions) for record in records):,} of {counted(len(records), 'discussion')}"
    actions = _counts(entry["what"] for _, entry in found)
    classes = _counts(name for record, intervened in found if (name := true_class(record, intervened)))
    summary = f"{counted(len(found), 'intervention')} in {in_all}: {actions}"
    return [summary, *([f"true classes of the withheld messages: {classes}"] if classes else [])]


def true_class(record: DiscussionRecord, intervened: Intervened) -> str:
    """Return the true class of a withheld message; empty if the scheme does not classify it."""
    known, place = scheme(record.scheme).truth, (intervened["epoch"], intervened["round"], intervened["turn"])
    said = (intervened["agent"], intervened["act"], intervened["attempt"])
    message = next((message for message in record.messages if message.place == place + said), None)
    return known(message) if known is not None and message is not None else ""


def _counts(names: Iterable[str]) -> str:
    return ", ".join(f"{n:,} {one_line(name)}" for name, n in Counter(names).most_common())


def intervened_in_words(run: DiscussionRecord, intervened: Intervened) -> str:
    """Return an intervention in words: its effect, time and reason, and the actual mistake if it is known."""
    after = f" after {counted(intervened['epoch'], 'reset')}" if intervened["epoch"] else ""
    when = f", turn {intervened['round'] + 1}{after}"
    by_truth = f"; by the truth: {one_line(wrong)}" if (wrong := true_class(run, intervened)) else ""
    return f"{intervention(intervened, when)}{by_truth}"
