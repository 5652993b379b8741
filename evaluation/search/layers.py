"""SDE's layers, one at a time, ranked by what discussions through them are worth (arXiv 2506.19209, Table 6).

Layers are 0-based. The last one is never tried: a delta that is added after it is never read.
FOLDER/layers.json has the ranking, FOLDER/layers.svg draws it; of the rest see `study`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.errors import UsageError
from sottovoce.evaluation.experiments.rows import Prepared
from sottovoce.evaluation.search.halving import Rung, Scores, exhaustive, halving, search
from sottovoce.evaluation.search.marks import Mark, mark
from sottovoce.evaluation.search.plots import bars
from sottovoce.evaluation.search.study import Study, about, opened_study, read_study
from sottovoce.evaluation.statistics import Mean, mean
from sottovoce.models.loaded import LoadedModel
from sottovoce.nodes.context import made_from
from sottovoce.nodes.settings import Settings

FILE, PLOT = "layers.json", "layers.svg"


@dataclass(frozen=True)
class Ranked:
    """A layer, and what it was worth."""

    layer: int
    questions: int
    """That it was asked; where halving dropped it early, few."""
    worth: float
    """The mean of EM + F1 for free text (at most 2), else of the scores (at most 1)."""
    low: float | None
    """Of its 95 % interval; None where all questions say the same, and they are no shares."""
    high: float | None
    exact: float
    overlap: float | None
    """EM and F1 by themselves; no F1 where answers are no free text."""


@dataclass(frozen=True)
class Ranking:
    """The layers from the best to the worst."""

    layers: tuple[Ranked, ...]
    usual: tuple[int, ...]
    """Those that are taken where none is chosen."""
    discussions: int
    exhaustive: int
    """Discussions of the exhaustive search."""


def rank(study: Study, row: Prepared, *, halve: bool) -> Ranking:
    """Search the layers, or go on with it; what was found is kept in the folder.

    Raises:
        UsageError: too few questions or layers, or the folder holds something else.
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
    """How many the model has, and its usual ones; told by the folder where it knows, so that no model is loaded."""
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
        raise UsageError(f"layers are a model's, and the seat of {agent} is a person's; drop --human")
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
