"""Search for SDE's best layer: discussions with one layer at a time, ranked by score (arXiv 2506.19209, Table 6).

Layers are 0-based. The last one is never tried, because no layer reads a delta that is added after it.
FOLDER/layers.json contains the ranking, FOLDER/layers.svg plots it; for the other files see `study`.

Successive halving gives many layers few questions, the better half more, until one is left: Jamieson and Talwalkar
(2016), "Non-stochastic best arm identification and hyperparameter optimization" (1502.07943), algorithm 1. Each rung
may spend the same share of the budget. All layers of a rung get the same questions, new ones in each rung, and their
earlier scores still count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, log2
from statistics import fmean
from typing import NamedTuple

from sottovoce.agents.hooked import HookedChatModel
from sottovoce.analysis.statistics import Mean, mean
from sottovoce.core.errors import UsageError
from sottovoce.experiments.rows import Row
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
    n = len(row.questions)
    plan = halving(len(order), n) if halve else [Rung(len(order), range(n))]
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
        total = len(order) * n * len(row.seeds)
        rows = tuple(_ranked(layer, mean(scores[layer]), parts[layer]) for layer in ranked)
        ranking = Ranking(rows, default, study.discussions, total)
        # In the file the score is called `worth`.
        listed = [{"worth" if key == "score" else key: value for key, value in asdict(layer).items()} for layer in rows]
        study.save(FILE, {**asdict(ranking), "layers": listed})
        by_layer = sorted(rows, key=lambda layer: layer.layer)
        means = {layer.layer: Mean(layer.score, layer.low, layer.high) for layer in by_layer}
        bars(study.folder / PLOT, means, rows[0].layer, "accuracy" if rows[0].overlap is None else "EM + F1")
    return ranking


def _layers(study: Study, row: Row) -> tuple[int, tuple[int, ...]]:
    """Return the model's number of layers and its default ones, from the folder if possible to avoid loading it."""
    if (saved := study.definition) and "layers" in saved.get("search", {}):
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


def _ranked(layer: int, score: Mean, parts: Sequence[tuple[float, float | None]]) -> Ranked:
    overlaps = [overlap for _, overlap in parts if overlap is not None]
    exact = fmean(exact for exact, _ in parts)
    return Ranked(layer, len(parts), score.value, score.low, score.high, exact, fmean(overlaps) if overlaps else None)


# Halving

SAVING = 10
"""The exhaustive search takes at least this many times the discussions."""
Scores = dict[int, list[float]]
"""The scores of each candidate so far, in the order of questions."""
Ask = Callable[[int, int, range], list[float]]
"""Maps rung number, candidate and question positions to the candidate's scores."""


class Rung(NamedTuple):
    """A stage of the search: the number of candidates, and the 0-based positions of their questions."""

    candidates: int
    questions: range


def halving(candidates: int, questions: int) -> list[Rung]:
    """Return rungs that take at most a tenth of the exhaustive search's discussions.

    The remainder from rounding goes to the last two candidates, as far as there are questions.

    Raises:
        UsageError: there are fewer than two candidates, or too few questions for one each in the first rung.
    """
    if candidates < 2:
        raise UsageError(f"there is {candidates} layer to choose from; expected at least 2")
    steps = ceil(log2(candidates))
    budget = candidates * questions // SAVING
    if budget // steps < candidates:
        raise UsageError(
            f"{questions} questions are too few to halve {candidates} layers with a tenth of the discussions; "
            f"give at least {SAVING * steps}, or search without --halving"
        )
    rungs, start, left = list[Rung](), 0, budget
    for step in range(steps):
        size = ceil(candidates / 2**step)
        share = left // size if step == steps - 1 else budget // steps // size
        n = min(share, questions - start)
        rungs.append(Rung(size, range(start, start + n)))
        start, left = start + n, left - size * n
    return rungs


def search(plan: Sequence[Rung], order: Sequence[int], ask: Ask) -> tuple[list[int], Scores]:
    """Return the candidates from best to worst, and their scores; those that survived longer come first.

    Of equally good candidates, the one that is earlier in `order` survives.
    """
    scores: Scores = {candidate: [] for candidate in order}
    alive, out = list(order), list[int]()
    for number, rung in enumerate(plan):
        alive, lost = alive[: rung.candidates], alive[rung.candidates :]
        out = [*lost, *out]
        for candidate in sorted(alive):
            scores[candidate] += ask(number, candidate, rung.questions)
        alive = sorted(alive, key=lambda candidate: -fmean(scores[candidate]))  # stable: ties keep their order
    return [*alive, *out], scores
