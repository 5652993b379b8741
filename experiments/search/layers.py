"""Search for SDE's best layer: discussions with one layer at a time, ranked by score (arXiv 2506.19209, Table 6).

Layers are 0-based. The last one is never tried, because no layer reads a delta that is added after it.
FOLDER/layers.json contains the ranking, FOLDER/layers.svg plots it; for the other files see `study`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.analysis.statistics import Mean, mean
from sottovoce.core.errors import UsageError
from sottovoce.experiments.rows import Prepared
from sottovoce.experiments.search.halving import Rung, Scores, exhaustive, halving, search
from sottovoce.experiments.search.plots import bars
from sottovoce.experiments.search.scores import Mark, mark
from sottovoce.experiments.search.study import Study, about, opened_study, read_study
from sottovoce.models.loaded import LoadedModel
from sottovoce.nodes.context import made_from
from sottovoce.settings import Settings

FILE, PLOT = "layers.json", "layers.svg"


@dataclass(frozen=True)
class Ranked:
    """A layer and its scores."""

    layer: int
    questions: int
    """The number of its discussions; small if halving dropped it early."""
    worth: float
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


def rank(study: Study, row: Prepared, *, halve: bool) -> Ranking:
    """Search the layers, or resume the search; the ranking is saved in the folder.

    Raises:
        UsageError: there are too few questions or layers, or the folder contains something else.
        RecordError, SottovoceError: see `Study.hold`.
    """
    layers, usual = _layers(study, row)
    given = {"halving": halve, "layers": layers, "usual": list(usual)}
    order = sorted(range(layers - 1), key=lambda layer: (abs(layer - usual[0]), layer))
    plan = (halving if halve else exhaustive)(len(order), len(row.questions))
    with opened_study(study, about("layers", row, given)):
        ranking = _searched(study, row, plan, order, usual)
        study.keep(FILE, asdict(ranking))
        _draw(study, ranking)
    return ranking


def _draw(study: Study, ranking: Ranking) -> None:
    shown = sorted(ranking.layers, key=lambda each: each.layer)
    best = ranking.layers[0]
    worth = {each.layer: Mean(each.worth, each.low, each.high) for each in shown}
    bars(study.folder / PLOT, worth, best.layer, "accuracy" if best.overlap is None else "EM + F1")


def _layers(study: Study, row: Prepared) -> tuple[int, tuple[int, ...]]:
    """Return the model's number of layers and its default ones, from the folder if possible to avoid loading it."""
    if (kept := read_study(study.folder)) and "layers" in kept.get("search", {}):
        return kept["search"]["layers"], tuple(kept["search"]["usual"])
    found = [_loaded(row.settings, agent) for agent in row.settings.names()]
    if len({each.layers for each in found}) > 1:
        raise UsageError(
            "the agents' models have different numbers of layers; search the layers of one model at a time"
        )
    if found[0].layers < 3:
        raise UsageError(
            f"{found[0].name!r} has {found[0].layers} layers, and the last is never read: there is nothing to choose"
        )
    return found[0].layers, found[0].latent_layers()


def _loaded(settings: Settings, agent: str) -> LoadedModel:
    model = made_from(settings, agent)
    if agent in settings.human:
        raise UsageError(f"layers need a model, and {agent} is a human; drop --human")
    if not isinstance(model, HookedChatModel):
        raise UsageError(f"{settings.of('model', agent)!r} is a hosted model, whose layers cannot be reached")
    return model.loaded


def _searched(
    study: Study, row: Prepared, plan: Sequence[Rung], order: Sequence[int], usual: tuple[int, ...]
) -> Ranking:
    marks: dict[int, list[Mark]] = {layer: [] for layer in order}

    def ask(rung: int, layer: int, places: range) -> list[float]:
        trial = replace(
            row,
            name=f"rung-{rung}-layer-{layer}",
            settings=row.settings.model_copy(update={"layers": (layer,)}),
            questions=[row.questions[place] for place in places],
        )
        found = [mark(record) for record in study.hold(trial).records.values()]
        marks[layer] += found
        return [each.worth for each in found]

    ranked, scores = search(plan, order, ask)
    full = len(order) * len(row.questions) * len(row.seeds)
    return Ranking(tuple(_ranked(layer, scores, marks[layer]) for layer in ranked), usual, study.spent, full)


def _ranked(layer: int, scores: Scores, marks: Sequence[Mark]) -> Ranked:
    interval = mean(scores[layer])
    f1 = [each.overlap for each in marks if each.overlap is not None]
    exact = fmean(each.exact for each in marks)
    return Ranked(layer, len(marks), interval.value, interval.low, interval.high, exact, fmean(f1) if f1 else None)
