"""A run in words: what a message carried, who made it, how it was decided. Views and Markdown share them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sottovoce.channels.board import latest
from sottovoce.channels.message import Message
from sottovoce.errors import PayloadError
from sottovoce.evaluation.printable import counted, one_line, size
from sottovoce.evaluation.record import Run
from sottovoce.nodes.state import Vote

SOURCES = {"hosted": "hosted model"}  # others are called what they are
RAW = 80  # characters of an unreadable answer's end

Shade = tuple[str, float | None]
"""A piece of text, and the entropy (nats) of the distribution it was drawn from, where known."""


def shades(message: Message) -> list[Shade]:
    """A message's text in pieces, one a token, each with the uncertainty it was spoken with.

    One piece without an entropy where there is no payload, or the text was edited since.
    """
    try:
        payload = message.latent.load() if message.latent else None
    except PayloadError:  # a moved run; its words can still be read
        payload = None
    if payload is None or "entropy" not in payload.tensors:
        return [(message.text, None)]
    return list(_pieces(message.text, payload.spans, payload.tensors["entropy"].tolist()))


def speaker(message: Message) -> str:
    """Who says it: agent, act where it is a summary, and source where it is no local model."""
    name = f"{message.agent} sums up" if message.act == "summarise" else message.agent
    return name if message.source == "model" else f"{name} ({SOURCES.get(message.source, message.source)})"


def carried(message: Message) -> str:
    """Kind and size of what the message carried besides its words: "cipher: 57 rows x 128, float32, 74 kB"."""
    ref = message.payload
    if ref is None or ref.hidden is None:
        return "words"
    if ref.layers:
        layers = f"{counted(len(ref.layers), 'layer')} ({', '.join(map(str, ref.layers))})"
        shape = f"{counted(ref.tokens, 'token')} × {layers} × {ref.hidden}"
    else:
        shape = f"{counted(ref.tokens, 'row')} × {ref.hidden}"
    edited = "" if message.latent else "; edited since, heard in words"
    return f"{ref.protocol}: {shape}, {ref.dtype}, {size(ref.nbytes)}{edited}"


def footer(message: Message) -> str:
    """What stands under a message: what it carried, how it was spoken, and what to know of it."""
    stats = message.stats
    facts = [carried(message)]
    if "temperature" in stats:
        facts.append(f"temperature {stats['temperature']:.4g}")
    if "tokens_out" in stats:
        facts.append(counted(int(stats["tokens_out"]), "token"))
    if "mean_entropy" in stats:
        facts.append(f"entropy {stats['mean_entropy']:.2f} nats")
    return " · ".join([*facts, *map(one_line, message.notes)])


def rounds(messages: Iterable[Message]) -> Iterator[tuple[str, list[Message]]]:
    """The messages of each round under its heading; summaries have a row of their own after the round's."""
    ordered = latest(messages)
    for number in sorted({message.round for message in ordered}):
        of_round = [message for message in ordered if message.round == number]
        for heading, summaries in ((f"Round {number + 1}", False), (f"Summaries of round {number + 1}", True)):
            row = [message for message in of_round if (message.act == "summarise") == summaries]
            if row:
                yield heading, row


def setting(run: Run) -> str:
    """The run in one line: scheme, protocol, models, seed."""
    settings = run.settings
    models = ", ".join(dict.fromkeys(settings["model"]))
    return f"{run.scheme.replace('_', '-')} · {settings['protocol']} · {models} · seed {settings['seed']}"


def documents(run: Run) -> list[str]:
    """What agents know, one line each: "agent_1: a = 14."."""
    given = run.question.get("documents") or []
    if isinstance(given, dict):
        return [f"{agent}: {one_line(' '.join(texts))}" for agent, texts in given.items() if texts]
    return [f"all: {one_line(text)}" for text in given]


def vote(run: Run, cast: Vote) -> str:
    """One agent's vote: what was read, or that it abstained and what it said."""
    if cast["answer"] is not None:
        return one_line(cast["answer"]) + ("" if cast["counts"] else " (does not count)")
    message = run.said(cast["agent"])
    raw = one_line(message.text.strip()) if message else ""
    return f"abstains; nothing could be read from: {raw if len(raw) <= RAW else '… ' + raw[-RAW:]}"


def verdict(run: Run) -> str | None:
    """How good the decision was, where the right answer is known."""
    target, decision = run.question.get("target"), run.decision
    if decision is None or decision["score"] is None or target is None:
        return None
    if decision["rule"] == "average":
        return f"score {decision['score']:.2f}: share of agents that say {one_line(target)}"
    return f"{'right' if decision['score'] == 1 else 'wrong'}: the answer is {one_line(target)}"


def cost(run: Run) -> str:
    """What the run took."""
    usage = run.usage
    read, written = counted(usage.tokens_in, "token"), counted(usage.tokens_out, "token")
    return f"{counted(usage.calls, 'call')}, {read} read, {written} written, {run.seconds:.1f} s"


def _pieces(text: str, spans: list[tuple[int, int]], entropies: list[float]) -> Iterator[Shade]:
    """Tokens may share a character; each character is given once, to the first of them."""
    at = 0
    for (start, end), entropy in zip(spans, entropies, strict=True):
        if start > at:
            yield text[at:start], None
        if end > max(start, at):
            yield text[max(start, at) : end], entropy
        at = max(at, end)
    if at < len(text):
        yield text[at:], None
