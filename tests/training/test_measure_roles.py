import pytest

from sottovoce.training.measure_roles import ROWS, WORK, Result, places_of, read, results_of, tables


@pytest.mark.parametrize("name", ROWS)
def test_what_is_right_counts_as_readable_and_right(name: str) -> None:
    places = places_of(name, 20)
    result = read(places, [place.right for place in places])
    assert result["readable"] == result["right"] == [True] * 20


def test_a_text_that_breaks_off_is_neither_readable_nor_right() -> None:
    places = places_of("moderator", 20)
    result = read(places, [place.right[:40] for place in places])
    assert result["readable"] == result["right"] == [False] * 20


def test_the_table_tells_how_sure_right_and_wrong_answers_are() -> None:
    right, sure = [True, True, False, False], [1.0, 0.9, 0.5, None]
    result: Result = {"readable": [True] * 4, "right": right, "sure": sure}
    line = "| ReConcile, first answer | 100.0% | 50.0% | 15.0% to 85.0% | 0.95, 0.50 | `reconcile-first` |"
    assert tables({"reconcile-first": result}).splitlines()[-1] == line


def test_the_rows_of_another_model_are_kept_in_a_file_of_their_own() -> None:
    kept = {results_of(model) for model in ("bundled", "Qwen/Qwen3-0.6B", "../bundled")}
    assert len(kept) == 3
    assert {path.parent for path in kept} == {WORK}
