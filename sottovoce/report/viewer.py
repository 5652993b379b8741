"""The discussions of runs as the page's viewer reads them: a row in the list, and items one below the other.

Items are what transcripts show (`report.blocks`), in the same order: headings, lines, messages. A message comes after
its earlier attempts and before its interventions. Texts are not escaped: the page inserts them as text only.

A message's payload becomes short arrays of numbers, with one entry per token:

end          the end of the token in the text, in UTF-16 units as JavaScript counts
entropy      nats; logprob: the negative log-probability of the token, in nats
alt          the most probable tokens: how many for each token, their words, their probabilities
near         cipher: the same for the distribution that was averaged
norm         sde: the length of the difference; hidden: of the state; by layer (`layers`) and token
at           kv, thoughts: the first and the last position of the keys, with the number of positions, their bytes and
             what they are of; think: the tokens nearest to the latent steps

Arrays are packed as base64 of 16 bits per number, or 32 where needed, with a scale; the page's `unpacked` reads them.
Words are decoded by the tokenizer of a model that the manifests of the page's runs name, if it is on this machine;
without it, ids stand for them. What a payload says of its model opens nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from sottovoce.channels.message import Message, Place
from sottovoce.channels.payload import Payload, Span
from sottovoce.core.any_types import JSON
from sottovoce.core.errors import ModelError, PayloadError
from sottovoce.core.text import counted, figure, one_line, shortened
from sottovoce.graphs import scheme
from sottovoce.models import load_tokenizer, vocabulary_digest
from sottovoce.models.huggingface.text import BROKEN
from sottovoce.nodes.decide import viewpoints
from sottovoce.nodes.question import question_digest, question_id
from sottovoce.nodes.state import Intervened
from sottovoce.prompts import kinds
from sottovoce.report import blocks, describe
from sottovoce.report.blocks import Block
from sottovoce.runs.log import Counts
from sottovoce.runs.manifest import RunManifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Run

DIGEST = 16
"""Characters of a question's digest, which identifies discussions of the same question in other runs."""
SHORT = 120
"""Characters of a question in the list."""


def outcome(record: DiscussionRecord) -> str:
    """Return how a discussion ended: right, wrong, partly, abstained, unscored or failed; else running or open."""
    result = record.result()
    if record.decision is None:
        return record.status if record.status in ("failed", "running") else "open"
    if result.abstained:
        return "abstained"
    if result.score is None:
        return "unscored"
    return {1.0: "right", 0.0: "wrong"}.get(result.score, "partly")


def disagreed(record: DiscussionRecord) -> bool:
    """Return whether agents gave different answers, after a round or at the end."""
    at_end = [record.decision["votes"]] if record.decision else []
    return any(len(viewpoints(votes, record.question)) > 1 for votes in (*(c.votes for c in record.counts), *at_end))


def votes(record: DiscussionRecord) -> dict[str, str]:
    """Return how good each agent's own last answer was: right, wrong, abstained or unscored."""
    known = record.question.get("target") is not None
    cast = record.decision["votes"] if record.decision else record.counts[-1].votes if record.counts else []

    def way(answer: str | None) -> str:
        if answer is None:
            return "abstained"
        return ("right" if kinds.right(answer, record.question) else "wrong") if known else "unscored"

    return {vote["agent"]: way(vote["answer"]) for vote in cast}


def row(record: DiscussionRecord, run: int, items: int, names: Mapping[str, str]) -> JSON:
    """Return the row of a discussion in the list; `run` is the index of its run in the report."""
    result, name = record.result(), question_id(record.question)
    return {
        "run": run,
        "id": name,
        "name": names[name].partition(":")[0] if name in names else name,  # its text follows in the list
        "asked": question_digest(record.question)[:DIGEST],
        "seed": record.seed,
        "text": shortened(record.question["question"], SHORT),
        "outcome": outcome(record),
        "votes": votes(record),
        "disagreed": disagreed(record),
        "watched": bool(record.interventions),
        "answer": None if result.answer is None else shortened(result.answer),
        "items": items,
    }


def items(record: DiscussionRecord, tensors: Tensors | None) -> list[JSON]:
    """Return the items of one discussion: the question, messages, the decision, notes on the run.

    Without `tensors`, payloads and hearers are left out.
    """
    says, listed = _Says(record, tensors), list[JSON]()
    opening, *others = blocks.transcript(record)
    notes = [line for line in opening.lines if line.style == "note"]
    opening = replace(opening, lines=tuple(line for line in opening.lines if line.style != "note"))
    for block in (opening, *others, Block("Notes" if notes else "", lines=tuple(notes))):
        if block.heading:
            listed.append({"k": "head", "text": block.heading})
        for message in block.messages:
            listed += says.about(message)
        for line in block.lines:
            answer = {"answer": line.answer} if line.answer else {}
            listed.append({"k": "line", "text": line.text, "style": line.style, **answer})
    return listed


class _Says:
    def __init__(self, record: DiscussionRecord, tensors: Tensors | None) -> None:
        self._record, self._tensors = record, tensors
        self._prompts = {prompt.place: prompt.turns for prompt in record.prompts}
        self._said = describe.by_act(record.messages)
        self._edges = describe.edges(record) if tensors else []
        self._acted: dict[Place, list[Intervened]] = {}
        for entry in record.interventions:
            self._acted.setdefault(Place(**{name: entry[name] for name in Place._fields}), []).append(entry)  # type: ignore[literal-required]  # a Place's fields are among its keys

    def about(self, last: Message) -> Iterator[JSON]:
        """Yield all attempts at a message's place, in order, each followed by its interventions."""
        for message in self._said[last.place[:-1]]:
            yield self._message(last if message.place == last.place else message)
            for entry in self._acted.get(message.place, []):
                score = "" if entry["score"] is None else f" (score {figure(entry['score'])})"
                yield {"k": "line", "text": describe.intervention(entry, score), "style": "note"}

    def _message(self, message: Message) -> JSON:
        item: JSON = {
            "k": "said",
            "who": describe.speaker(message),
            "text": message.text if message.full_text else describe.NO_WORDS,
            "foot": describe.footer(message),
            "place": _when(message),
        }
        prompt = [[role, text] for role, text in self._prompts.get(message.place, [])]
        place, edges = message.place, self._edges
        heard = [[each.before.agent, _when(each.before), each.form] for each in edges if each.message.place == place]
        had = [[each.message.agent, _when(each.message), each.form] for each in edges if each.before.place == place]
        more = {
            "thoughts": message.thoughts.strip(),
            "begun": message.begun,
            "public": message.public,
            "mark": self._mark(message),
            "heard": heard,
            "had": had,
            "asked": prompt,
            "tokens": self._tensors and self._tensors.of(message),
        }
        return item | {name: value for name, value in more.items() if value}

    def _mark(self, message: Message) -> str:
        """Return why other agents do not read the message, or ""."""
        if message.withdrawn:
            return "withdrawn by a monitor: no agent read it"
        if self._record.withdrew(message):
            return "withdrawn by a reset"
        if message.asked == "answer":
            return "answer turn: parsed, but not shown to other agents"
        later = self._said[message.place[:-1]]
        again = any(attempt.attempt > message.attempt and attempt.asked != "answer" for attempt in later)
        return f"attempt {message.attempt + 1}, asked again" if again else ""


def _when(message: Message) -> str:
    again = f" after {counted(message.epoch, 'reset')}" if message.epoch else ""
    return f"round {message.round + 1}{again}, {one_line(message.act)}"


def about_run(name: str, head: RunManifest, status: str, counts: Counts | None, *notes: str) -> JSON:
    """Return the entry of a run in the list of runs; without counts nothing is known of its results."""
    models = ", ".join(dict.fromkeys(head.settings["model"]))
    title = [scheme(head.scheme).command, *blocks.channel(head.settings), models, *map(one_line, notes)]
    right = {"right": counts.score / counts.scored, "of": counts.scored} if counts and counts.scored else {}
    return {"name": name, "about": " · ".join(title), "status": status, "started": head.started, **right}


def of_runs(runs: Iterable[Run], tensors: Tensors) -> Iterator[tuple[JSON, list[JSON]]]:
    """Yield the row and the items of each discussion that ended or has messages."""
    for number, run in enumerate(runs):
        store = run.store()  # messages find their payloads while it is open
        tensors.words.learn(run.manifest)
        for record in run.records.values():
            if record.messages or record.status in ("done", "failed"):
                listed = items(record, tensors)
                yield row(record, number, len(listed), run.names), listed
        del store


Numbers = NDArray[Any]  # Any: of any dtype
MAX_STEPS = 0xFFFF


def fractions(values: Numbers, step: float) -> JSON:
    """Pack numbers from 0 up in steps; values above 65,535 steps and NaN are stored as 65,535."""
    steps = np.nan_to_num(np.asarray(values, np.float64) / step, nan=MAX_STEPS, posinf=MAX_STEPS)
    return {"x": step, "b": _base64(np.clip(np.rint(steps), 0, MAX_STEPS).astype("<u2"))}


def scaled(values: Numbers) -> JSON:
    """Pack numbers from 0 up in 65,535ths of the largest."""
    top = float(np.max(values, initial=0.0))
    return fractions(values, top / MAX_STEPS if top > 0 else 1.0)


def counts(values: Numbers) -> JSON:
    """Pack whole numbers from 0 up, exactly."""
    numbers = np.asarray(values)
    wide = bool(np.max(numbers, initial=0) > MAX_STEPS)
    return {"x": 1, "b": _base64(numbers.astype("<u4" if wide else "<u2")), **({"wide": 1} if wide else {})}


def _base64(values: Numbers) -> str:
    return b64encode(values.tobytes()).decode("ascii")


class Words:
    """The distinct tokens that a page shows; messages refer to them by number."""

    def __init__(self) -> None:
        """Start without any token."""
        self.texts: list[str] = []
        self.notes: list[str] = []
        """Vocabularies whose tokenizer could not be loaded, and why."""
        self._models: dict[str, set[str]] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._tokenizers: dict[str, PreTrainedTokenizerBase | None] = {}

    def learn(self, manifest: RunManifest) -> None:
        """Take the models of a run, by their vocabulary."""
        for model in manifest.models.values():
            self._models.setdefault(model.vocabulary, set()).add(model.model)

    def numbers(self, ids: Numbers, vocabulary: str) -> Numbers:
        """Return the numbers of tokens of a vocabulary, in the shape of their ids."""
        distinct, at = np.unique(ids, return_inverse=True)
        for token in distinct.tolist():
            if (vocabulary, token) not in self._numbers:
                if vocabulary not in self._tokenizers:
                    self._tokenizers[vocabulary] = self._load(vocabulary)
                self._numbers[vocabulary, token] = len(self.texts)
                self.texts.append(text_of(token, self._tokenizers[vocabulary]))
        word_numbers = [self._numbers[vocabulary, token] for token in distinct.tolist()]
        return np.array(word_numbers, dtype=np.int64)[at].reshape(ids.shape)

    def _load(self, vocabulary: str) -> PreTrainedTokenizerBase | None:
        why = "no manifest names a model with their vocabulary"
        for name in sorted(self._models.get(vocabulary, ())):
            try:
                tokenizer = load_tokenizer(name)
                if vocabulary_digest(tokenizer) == vocabulary:
                    return tokenizer
                why = f"model {name!r} has another vocabulary now"
            except ModelError as error:
                why = str(error)
        self.notes.append(f"some tokens are shown as numbers: {why}")
        return None


def text_of(token: int, tokenizer: PreTrainedTokenizerBase | None) -> str:
    """Return a token's text, or its form in the vocabulary if its bytes are not a complete character."""
    if tokenizer is None or not 0 <= token < len(tokenizer):
        return f"#{token}"
    text = _text(tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False))
    return _text(tokenizer.convert_ids_to_tokens([token])) if BROKEN in text or not text else text


def _text(text: str | Iterable[str | None]) -> str:
    """Return one string: transformers' types allow lists."""
    return text if isinstance(text, str) else "".join(piece or "" for piece in text)


SHOWN = ("entropy", "logprob", "top_logprobs", "sparse.weights")
NATS = 0.001
"""The step of stored entropies."""
PART = 1 / 65535
"""The step of stored probabilities."""
MAX_CHOICES, MIN_CHOICES, SMALL = 8, 3, 0.002
"""Maximum and minimum number of a token's alternatives; those beyond the minimum have this probability or more."""


class Tensors:
    """Summaries of payloads, each computed once, even if several messages carry it."""

    def __init__(self, words: Words) -> None:
        """Collect the tokens of all payloads in `words`."""
        self.words = words
        self._summaries: dict[str, JSON] = {}
        self.missing: list[str] = []
        """Digests of payloads that are missing or damaged."""

    def of(self, message: Message) -> JSON | None:
        """Return a message's summary; None if it has no payload, its text was edited, or the payload is lost."""
        ref = message.uncertainty
        if ref is None or ref.sha256 in self.missing:
            return None
        if ref.sha256 not in self._summaries:
            try:
                payload = ref.load()
            except PayloadError:  # a moved run, or one that was tampered with; its words can still be read
                self.missing.append(ref.sha256)
                return None
            self._summaries[ref.sha256] = _summary(payload, message.text, self.words)
        return self._summaries[ref.sha256]


def _summary(payload: Payload, text: str, words: Words) -> JSON:
    tensors = {name: tensor.float().numpy() for name, tensor in payload.tensors.items() if name in SHOWN}
    summary: JSON = {"end": counts(_ends(payload.spans, text))}
    if "entropy" in tensors:
        summary["entropy"] = fractions(tensors["entropy"], NATS)
    if "logprob" in tensors:
        summary["logprob"] = fractions(-tensors["logprob"], NATS)
    if "top_ids" in payload.tensors:
        summary["alt"] = _choices(payload, "top_ids", np.exp(tensors["top_logprobs"]), words)
    if "sparse.ids" in payload.tensors:
        summary["near"] = _choices(payload, "sparse.ids", tensors["sparse.weights"], words)
    if payload.states is not None:
        summary["layers"] = list(payload.label.layers)
        summary["norm"] = scaled(payload.states.float().norm(dim=-1).numpy())
    if "at" in payload.tensors:
        at = payload.tensors["at"]
        summary["layers"] = list(payload.label.layers)
        summary["at"] = [int(at[0]), int(at[-1]), len(at)] if len(at) else [0, 0, 0]
        summary["carried"] = [payload.carried_bytes, payload.label.origin]
    if "thought_ids" in payload.tensors:
        summary["think"] = counts(words.numbers(payload.tensors["thought_ids"].numpy(), payload.label.vocabulary))
    return summary


def _choices(payload: Payload, ids: str, parts: Numbers, words: Words) -> JSON:
    """Pack ids and probabilities, both (n, k): of each row only the relevant ones."""
    chosen, order = payload.tensors[ids].numpy(), np.argsort(-parts, axis=-1, kind="stable")[:, :MAX_CHOICES]
    chosen, parts = np.take_along_axis(chosen, order, -1), np.take_along_axis(parts, order, -1)
    likely = (parts >= SMALL) | ((np.arange(parts.shape[-1]) < MIN_CHOICES) & (parts > 0))
    return {
        "n": counts(likely.sum(-1)),
        "word": counts(words.numbers(chosen[likely], payload.label.vocabulary)),
        "p": fractions(parts[likely], PART),
    }


def _ends(spans: Sequence[Span], text: str) -> Numbers:
    """Return the ends of tokens; text between two tokens belongs to the later one."""
    ends = np.maximum.accumulate([min(end, len(text)) for _, end in spans]) if spans else np.zeros(0, np.int64)
    if text.isascii() or max(text) <= "\uffff":
        return np.asarray(ends)
    units = np.cumsum([0, *(1 + (letter > "\uffff") for letter in text)])
    return np.asarray(units[ends])
