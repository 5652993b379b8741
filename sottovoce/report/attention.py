"""The attention figure of CIPHER (arXiv 2310.06272, appendix B.3): where one layer attends at the end of a message.

Its axes are the heads, and the 100 positions before the last token of the first agent's last message. The discussion is
replayed through its scheme's graph by agents that repeat the replies of the run. So the prompt has the messages with
their payloads, and the model reads what it read in the run, including the rows of CIPHER and the changes of SDE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any

import torch

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.agents.scripted import ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef, Place, Turn
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.models import Cached, Ids, Piece, Rows, attention_of_last
from sottovoce.nodes.context import made_from
from sottovoce.nodes.question import question_digest
from sottovoce.report.plots import Plot, drawing, svg
from sottovoce.report.tensors import Numbers, text_of
from sottovoce.runs.manifest import RunManifest
from sottovoce.runs.record import DiscussionRecord
from sottovoce.runs.run import Key, Run
from sottovoce.runs.runner import Task, run_one
from sottovoce.runs.start import settings_of
from sottovoce.settings import Settings

BEFORE = 100
"""Number of positions that are shown."""
WIDTH, HEIGHT = 13.0, 3.2  # inches of a panel, large enough that each token can be read
LONGEST = 12  # characters of a token that are shown
SAID_BY_MODELS = ("model", "hosted")


@dataclass(frozen=True)
class Looked:
    """The panel of one run."""

    title: str
    weights: Numbers
    """Shape (heads, up to 100), for the positions before the last token."""
    tokens: tuple[str, ...]
    """The tokens at these positions; for a row of CIPHER, the nearest token."""


def attention_plot(runs: Mapping[str, Run], layer: int) -> Plot:
    """Plot a panel for each run, on the first question and seed that all discussed; negative layers count from the end.

    Raises:
        UsageError: they share no discussion, a model is hosted, the layer is out of range, or somebody intervened.
        ModelError: a model cannot be loaded.
    """
    key = _shared(runs)
    panels = [looked(name, run, key, layer) for name, run in runs.items()]
    most = max(float(panel.weights.max()) for panel in panels)
    drawn: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "vmin": 0, "vmax": most}  # Any: for imshow
    figure, places = drawing((WIDTH, HEIGHT * len(panels)), len(panels))
    for axes, panel in zip(places, panels, strict=True):
        heads, n = panel.weights.shape
        box = (-n - 0.5, -0.5, heads - 0.5, -0.5)
        shown = axes.imshow(panel.weights, extent=box, **drawn)
        axes.set_title(panel.title)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_xticks(range(-n, 0), map(_label, panel.tokens), rotation=90, fontsize=6)
        axes.set_xlabel("tokens before the last one")
        axes.set_ylabel("head")
    figure.colorbar(shown, ax=list(places), label="attention")
    caption = (
        f"Attention at the last token of the first agent's last message, head by head, "
        f"to the {BEFORE} tokens before it; question {key[0]}, seed {key[1]}."
    )
    return Plot(svg(figure, caption), caption, wide=True)


def looked(name: str, run: Run, key: Key, layer: int) -> Looked:
    """Return the attention of one layer of the first agent's model in one discussion."""
    record, settings = run.records[key], settings_of(run)
    agent = settings.speakers()[0]
    said = record.said(agent)
    if said is None:
        raise UsageError(f"{name}: {agent} never states an answer in {key[0]!r}; its attention cannot be drawn")
    model = made_from(settings, agent, run.store())
    if not isinstance(model, HookedChatModel):
        raise UsageError(f"{name}: {agent} is a hosted model, whose attention cannot be read; drop --attention")
    prompt = model.channel.encode_prompt(
        prompt_of(record, settings, said, run.manifest), model.loaded, lambda ref: ref.load(run.store())
    )
    prompt = prompt.with_text(said.begun, model.loaded)
    pieces = (*prompt.pieces, _spoken(said, model))
    weights = attention_of_last(model.loaded, pieces, prompt.edits, layer)
    title = f"{name} ({settings.protocol}), layer {layer % model.loaded.layers}"
    return Looked(title, weights[:, -1 - BEFORE : -1].numpy(), _tokens(pieces, model)[-1 - BEFORE : -1])


def _tokens(pieces: Sequence[Piece], model: HookedChatModel) -> tuple[str, ...]:
    loaded = model.loaded
    ids = [
        token
        for piece in pieces
        if not isinstance(piece, Cached)
        for token in (piece.ids if isinstance(piece, Ids) else loaded.table.nearest(piece.rows).tolist())
    ]
    return tuple(text_of(token, loaded.tokenizer) for token in ids)


def _label(token: str) -> str:
    """Return a token as a tick label: one short line, with visible spaces and line ends, and "$" escaped."""
    shown = token.strip(" ").replace("\n", "\u21b5") or "\u2423"
    line = "".join(sign if sign.isprintable() else "?" for sign in shown)
    return (line if len(line) <= LONGEST else f"{line[:LONGEST]}\u2026").replace("$", r"\$")


def prompt_of(record: DiscussionRecord, settings: Settings, said: Message, head: RunManifest) -> list[Turn]:
    """Return the prompt of a message, including the messages in it, as the run's own graph renders it."""
    if record.interventions:
        raise UsageError("the discussion has interventions and cannot be replayed for a figure; drop --attention")
    replies: dict[str, list[str]] = {}
    for message in record.messages:
        if message.source in SAID_BY_MODELS:
            replies.setdefault(message.agent, []).append(message.full_text)
    chosen = settings.model_dump(include=settings.model_fields_set - settings.of_models())
    models = {
        name: ScriptedChatModel(
            {name: replies.get(name, [])}, pack=head.packs.get(name), wording=head.answers.get(name, "short")
        )
        for name in settings.names()
    }
    task = Task(record.scheme, type(settings).model_validate(chosen), record.question, models=models)
    with TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True) as folder:
        run_one(task, PayloadStore(folder))
    by_place = {message.place: message for message in record.messages}
    call = next((request for request in models[said.agent].calls if request.place == said.place._asdict()), None)
    if call is None:
        raise UsageError(f"the graph no longer asks for the message of {said.place}; drop --attention")
    return [replace(turn, parts=tuple(_recorded(part, by_place) for part in turn.parts)) for turn in call.turns]


def _recorded(part: str | MessageRef, by_place: Mapping[Place, Message]) -> str | MessageRef:
    return part if isinstance(part, str) else replace(part, message=by_place[part.message.place])


def _spoken(said: Message, model: HookedChatModel) -> Piece:
    """Return what the agent read of its own reply while generating it: its rows, or its tokens."""
    if said.latent is None:
        raise UsageError(f"the message of {said.place} no longer has a payload; its attention cannot be drawn")
    payload = said.latent.load(model.store)
    rows = payload.rows(model.loaded.table.key)
    return Ids(payload.ids) if rows is None else Rows(rows.to(torch.float32))


def _shared(runs: Mapping[str, Run]) -> Key:
    ended = [[key for key, record in run.records.items() if record.decision is not None] for run in runs.values()]
    for key in ended[0]:
        if all(key in keys for keys in ended):
            digests = {question_digest(run.records[key].question) for run in runs.values()}
            if len(digests) == 1:  # ids may be row numbers of different files
                return key
    raise UsageError(f"{', '.join(runs)} have no discussion in common that ended; use --attention with other runs")
