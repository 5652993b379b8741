"""Successive halving with scripted scores: a tenth of the discussions, paired questions, the best one found."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from sottovoce.core.errors import UsageError
from sottovoce.experiments.search.layers import Rung, halving, search


@pytest.mark.parametrize(("candidates", "questions"), [(2, 40), (3, 100), (5, 600), (13, 300), (29, 300)])
def test_rungs_spend_a_tenth_at_most_and_almost_all_of_it(candidates: int, questions: int) -> None:
    plan = halving(candidates, questions)

    budget = candidates * questions // 10
    assert budget - 2 < sum(rung.candidates * len(rung.questions) for rung in plan) <= budget
    assert plan[0].candidates == candidates and plan[-1].candidates == 2
    assert all(later.candidates == -(-former.candidates // 2) for former, later in pairwise(plan))


def test_rungs_ask_new_questions_and_never_more_than_there_are() -> None:
    for candidates in range(2, 100):
        places = [place for rung in halving(candidates, 200) for place in rung.questions]

        assert places == [*range(len(places))] and len(places) <= 200


def test_a_clearly_better_layer_is_found_wherever_it_stands() -> None:
    for best in range(13):
        rng = random.Random(best)

        def ask(rung: int, layer: int, places: range, best: int = best, rng: random.Random = rng) -> list[float]:
            return [float(rng.random() < (0.95 if layer == best else 0.3)) for _ in places]

        ranked, scores = search(halving(13, 600), range(13), ask)

        assert ranked[0] == best and sorted(ranked) == [*range(13)]
        assert len(scores[best]) == max(map(len, scores.values()))


def test_a_rung_has_the_same_new_questions_for_all_candidates() -> None:
    asked: list[tuple[int, int, range]] = []

    def ask(rung: int, layer: int, places: range) -> list[float]:
        asked.append((rung, layer, places))
        return [layer / 10] * len(places)

    search(halving(5, 100), range(5), ask)
    ranked, _ = search(halving(5, 100), [3, 4, 2, 1, 0], lambda rung, layer, places: [0.5] * len(places))

    assert ranked == [3, 4, 2, 1, 0], "of equal candidates the first survive"

    assert [(rung, layer) for rung, layer, _ in asked] == [
        *((0, layer) for layer in range(5)), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4),
    ]  # fmt: skip
    assert {rung: {places for each, _, places in asked if each == rung} for rung in range(3)} == {
        rung: {halving(5, 100)[rung].questions} for rung in range(3)
    }


def test_an_exhaustive_search_gives_every_candidate_every_question() -> None:
    ranked, scores = search(
        [Rung(3, range(4))], range(3), lambda rung, layer, places: [float(layer == 1)] * len(places)
    )

    assert ranked == [1, 0, 2] and scores == {0: [0] * 4, 1: [1] * 4, 2: [0] * 4}


@pytest.mark.parametrize(("candidates", "questions", "least"), [(5, 29, 30), (29, 10, 50), (2, 9, 10)])
def test_too_few_questions_are_refused_and_the_number_that_is_named_is_enough(
    candidates: int, questions: int, least: int
) -> None:
    with pytest.raises(UsageError, match=f"{questions} questions are too few .* give at least {least}, or"):
        halving(candidates, questions)

    assert len(halving(candidates, least)[0].questions) == 1
    with pytest.raises(UsageError, match="there is 1 layer to choose from; expected at least 2"):
        halving(1, least)
