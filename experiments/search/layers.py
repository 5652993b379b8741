"""Search for SDE's best layer: discussions with one layer at a time, ranked by score (arXiv 2506.19209, Table 6).

Layers are 0-based. The last one is never tried, because no layer reads a delta that is added after it.
FOLDER/layers.json contains the ranking, FOLDER/layers.svg plots it; for the other files see `study`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.analysis.statistics import Mean, mean
from sottovoce.core.errors import UsageError
from sottovoce.experiments.rows import Row
from sottovoce.experiments.search.halving import exhaustive, halving, search
from sottovoce.experiments.search.plots import bars
from sottovoce.experiments.search.study import Study
from sottovoce.models.loaded import LoadedModel
from sottovoce.nodes.context import made_from
from sottovoce.runs.measures import answer_measures
from sottovoce.runs.record import DiscussionRecord
from sottovoce.settings import Settings

FILE, PLOT = "layers.json", "layers.svg"


@dataclass(frozen=True)
class Ranked:
    """A layer and its scores."""

    layer: int
    questions: int
    """The number of its discussions; small if halving dropped it early."""
    score: float
    """The mean of EM + F1 for free text (at most 2), else of the scores (at most 1)."""
    low: float | None
    """The lower end of the 95 % interval; None if all questions score the same and scores are not shares."""
    high: float | None
    exact: float
    overlap: float | None
    """`exact` is EM and `overlap` is F1; for other kinds of answers, the decision's score and None."""


@dataclass(frozen=True)
class Ranking:
    """The layers from best to worst."""

    layers: tuple[Ranked, ...]
    usual: tuple[int, ...]
    """The default layers."""
    discussions: int
    exhaustive: int
    """The number of discussions of the exhaustive search."""


def rank(study: Study, row: Row, *, halve: bool) -> Ranking:
    """Search the layers, or resume the search; the ranking is saved in the folder.

    Raises:
        UsageError: there are too few questions or layers, or the folder contains something else.
        RecordError, SottovoceError: see `Study.run`.
    """
    layers, default = _layers(study, row)
    order = sorted(range(layers - 1), key=lambda layer: (abs(layer - default[0]), layer))
    plan = (halving if halve else exhaustive)(len(order), len(row.questions))
    parts: dict[int, list[tuple[float, float | None]]] = {layer: [] for layer in order}

    def ask(rung: int, layer: int, places: range) -> list[float]:
        settings = row.settings.model_copy(update={"layers": (layer,)})
        questions = [row.questions[place] for place in places]
        run = study.run(replace(row, name=f"rung-{rung}-layer-{layer}", settings=settings, questions=questions))
        scores = [_scores(record) for record in run.records.values()]
        parts[layer] += scores
        # EM + F1 for free text: the paper's appendix ranks layers by their sum.
        return [exact + (overlap or 0.0) for exact, overlap in scores]

    with study.opened("layers", row, {"halving": halve, "layers": layers, "usual": list(default)}):
        ranked, scores = search(plan, order, ask)
        total = len(order) * len(row.questions) * len(row.seeds)
        rows = tuple(_ranked(layer, mean(scores[layer]), parts[layer]) for layer in ranked)
        ranking = Ranking(rows, default, study.discussions, total)
        study.save(FILE, {**asdict(ranking), "layers": [_as_json(layer) for layer in rows]})
        by_layer = sorted(rows, key=lambda layer: layer.layer)
        means = {layer.layer: Mean(layer.score, layer.low, layer.high) for layer in by_layer}
        bars(study.folder / PLOT, means, rows[0].layer, "accuracy" if rows[0].overlap is None else "EM + F1")
    return ranking


def _layers(study: Study, row: Row) -> tuple[int, tuple[int, ...]]:
    """Return the model's number of layers and its default ones, from the folder if possible to avoid loading it."""
    if (saved := study.definition()) and "layers" in saved.get("search", {}):
        return saved["search"]["layers"], tuple(saved["search"]["usual"])
    models = [_loaded(row.settings, agent) for agent in row.settings.names()]
    if len({model.layers for model in models}) > 1:
        raise UsageError(
            "the agents' models have different numbers of layers; search the layers of one model at a time"
        )
    if models[0].layers < 3:
        raise UsageError(
            f"{models[0].name!r} has {models[0].layers} layers, and the last is never read: there is nothing to choose"
        )
    return models[0].layers, models[0].latent_layers()


def _loaded(settings: Settings, agent: str) -> LoadedModel:
    model = made_from(settings, agent)
    if agent in settings.human:
        raise UsageError(f"layers need a model, and {agent} is a human; drop --human")
    if not isinstance(model, HookedChatModel):
        raise UsageError(f"{settings.of('model', agent)!r} is a hosted model, whose layers cannot be reached")
    return model.loaded


def _scores(record: DiscussionRecord) -> tuple[float, float | None]:
    """Return EM and F1 for free text, else the decision's score and None."""
    decision = record.decision
    assert decision is not None and decision["score"] is not None, (
        "failures and questions without a target were refused"
    )
    words = answer_measures(record.question, decision)
    return (words["EM"], words["F1"]) if words else (decision["score"], None)


def _as_json(layer: Ranked) -> dict[str, Any]:
    """Return a layer as the file has it, where the score is called `worth`."""
    return {"worth" if name == "score" else name: value for name, value in asdict(layer).items()}


def _ranked(layer: int, score: Mean, parts: Sequence[tuple[float, float | None]]) -> Ranked:
    overlaps = [overlap for _, overlap in parts if overlap is not None]
    exact = fmean(exact for exact, _ in parts)
    return Ranked(layer, len(parts), score.value, score.low, score.high, exact, fmean(overlaps) if overlaps else None)
