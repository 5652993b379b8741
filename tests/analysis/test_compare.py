from dataclasses import replace

import pytest

from sottovoce.analysis.compare import Comparison, Pair, compare
from sottovoce.analysis.statistics import Difference, mean, paired_test, share
from sottovoce.core.errors import UsageError
from sottovoce.report.paper import compared
from sottovoce.report.report import headline
from sottovoce.report.tables import markdown
from sottovoce.runs.record import Result


def run(scores: list[float], seed: int = 0, **more: object) -> list[Result]:
    """A discussion of each question, q0 the first."""
    return [
        Result(f"q{i}", seed, answer="22", score=score, target="22", **more)  # type: ignore[arg-type]
        for i, score in enumerate(scores)
    ]


def game(question: str, seed: int = 0, **measures: float | None) -> Result:
    shares = frozenset({"success", "precision"})
    return Result(question, seed, score=measures.get("success"), target="3", measures=measures, shares=shares)


def pair(comparison: Comparison) -> Pair:
    (found,) = comparison.pairs
    return found


# A run by itself


def test_a_run_is_summed_up_with_its_abstentions_and_failures() -> None:
    right, wrong = run([1, 0])
    results = [
        replace(right, tokens_in=100, tokens_reused=60, tokens_out=10, flops=2e9, seconds=1.0),
        replace(wrong, tokens_in=200, tokens_reused=80, tokens_out=30, flops=4e9, seconds=2.0),
        replace(right, question="q2", abstained=True, score=0.0, tokens_in=300, tokens_reused=100, tokens_out=50),
        Result("q3", failed=True, tokens_in=9999, seconds=99.0),
    ]
    results[2] = replace(results[2], flops=6e9, seconds=6.0)
    (found,) = compare({"nl": results}).runs
    assert (found.questions, found.discussions, found.scored, found.abstained, found.failed) == (4, 4, 3, 1, 1)
    assert found.accuracy == share([1, 0, 0])
    assert (found.tokens_in, found.tokens_reused, found.tokens_out) == (200, 80, 30)
    assert (found.flops, found.seconds) == (4e9, 3.0)


def test_seeds_of_a_question_are_a_cluster() -> None:
    results = run([1, 0, 1, 1]) + run([1, 0, 0, 1], seed=1)
    (found,) = compare({"nl": results}).runs
    assert (found.questions, found.discussions) == (4, 8)
    assert found.accuracy == share([1, 0, 1, 1, 1, 0, 0, 1], [*"abcd"] * 2)


def test_what_a_world_measures_is_told_beside_with_the_games_that_it_applies_to() -> None:
    played = [game(f"g{i}", success=float(i % 2), precision=1.0 if i % 2 else None, turns=10 + i) for i in range(6)]
    comparison = compare({"nl": played, "debate": run([1, 0])})
    found = comparison.runs[0].measures
    assert found["precision"].n == 3 and found["success"].value == 0.5
    assert found["turns"] == mean([10, 11, 12, 13, 14, 15], shares=False)
    lines = markdown(*compared(comparison).parts).splitlines()
    at = lines.index("| run | success | precision | turns |")
    assert lines[at + 2] == "| `nl` | 0.5 (0.188 to 0.812) | 1 (0.439 to 1; in 3) | 12.5 (10.5 to 14.5) |"
    assert lines[at + 3] == "| `debate` |  |  |  |"


# Pairs


def test_a_pair_is_tested_question_by_question() -> None:
    before, after = [1.0, 0.0] * 10 + [0.0] * 10, [1.0, 0.0] * 10 + [1.0] * 8 + [0.0] * 2
    found = pair(compare({"nl": run(before), "cipher": run(after[::-1])[::-1]}))
    back = pair(compare({"nl": run(before), "cipher": run(after)}))
    assert (back.run, back.against, back.questions) == ("cipher", "nl", 30)
    assert back.difference.value == pytest.approx(8 / 30)
    assert back.difference.p == back.corrected == pytest.approx(2 / 2**8)
    assert found.difference.p != back.difference.p  # questions are matched by name, not by place


def test_a_question_is_compared_by_its_mean_over_seeds() -> None:
    before, after = run([1, 0, 0] * 5) + run([0, 0, 1] * 5, seed=1), run([1, 1, 0] * 5) + run([1, 0, 1] * 5, seed=1)
    comparison = compare({"nl": before, "cipher": after})
    assert pair(comparison).questions == 15 and comparison.notes == ()
    assert pair(comparison).difference == paired_test([0.5, 0.5, 0] * 5)


def test_runs_that_share_only_some_seeds_are_compared_on_all_of_them() -> None:
    """Only the shared seed counted: 80 of 100 discussions were dropped without a word, and 80 against 0 was equal."""
    left = [each for seed in range(5) for each in run([float(seed > 0)] * 20, seed)]
    comparison = compare({"nl": left, "cipher": run([0.0] * 20)})
    assert pair(comparison).difference.value == pytest.approx(-0.8) and pair(comparison).corrected < 0.001
    assert comparison.notes == (
        "`cipher` and `nl`: scored under different seeds; each question's mean over its seeds is compared.",
    )


def test_all_pairs_are_compared_or_all_against_one() -> None:
    runs = {name: run([1, 0, 1]) for name in ("a", "b", "c")}
    assert [(each.run, each.against) for each in compare(runs).pairs] == [("b", "a"), ("c", "a"), ("c", "b")]
    assert [(each.run, each.against) for each in compare(runs, against="b").pairs] == [("a", "b"), ("c", "b")]


# Verdicts


def test_the_verdict_tells_which_is_better_and_by_how_much() -> None:
    runs = {"nl": run([0.0] * 8 + [1.0] * 22), "cipher": run([1.0] * 30)}
    found = pair(compare(runs))
    low, high = 100 * found.difference.low, 100 * found.difference.high
    better = f"`cipher` is better than `nl` by 26.7 points (95 %: {low:.1f} to {high:.1f}) on 30 questions; p = 0.008."
    assert found.verdict == better
    assert pair(compare(runs, against="cipher")).verdict == better


def test_the_verdict_names_the_correction_and_small_p_values() -> None:
    found = Pair("b", "a", 90, Difference(0.3, 0.2, 0.4, 0.0001, 0.05, 90), corrected=0.0003, family=3)
    assert found.verdict.endswith("p < 0.001 after Holm's correction for 3 comparisons.")


def test_the_verdict_says_what_would_have_shown() -> None:
    found = pair(compare({"nl": run([1, 0, 0, 1] * 50), "cipher": run([1, 0, 1, 0] * 50)}))
    # half of 200 pairs differ: 2.8 standard errors of sqrt(0.5 / 199)
    assert found.verdict == (
        "`cipher` and `nl`: no difference that 200 questions could show; differences below -9.9 and above 9.9 points "
        "are excluded (95 %), and one of 14.0 points would have shown in four of five such comparisons."
    )


@pytest.mark.parametrize(("left", "right"), [([1.0], [1.0]), ([1, 0, 1, 1, 0], [0, 0, 1, 1, 0])])
def test_a_difference_that_so_few_questions_cannot_show_is_never_named(left: list[float], right: list[float]) -> None:
    found = pair(compare({"nl": run(left), "cipher": run(right)}))
    assert found.verdict.endswith(" not even the largest would have shown in four of five such comparisons.")


def test_a_verdict_that_holms_correction_turns_says_so_beside_its_interval() -> None:
    base, better = [0.0] * 30, [1.0] * 6 + [0.0] * 24
    found = compare({"a": run(base), "b": run(better), "c": run(base)}, against="a").pairs[0]
    assert found.difference.low > 0
    assert "could show (p = 0.031 by itself, p = 0.062 after Holm's correction for 2 comparisons); " in found.verdict


# Failures


def test_failures_are_wrong_in_a_figure_of_their_own_and_in_verdicts() -> None:
    failed = [Result(f"q{i}", failed=True, target="22") for i in range(10)]
    short = [*failed, *run([1.0] * 30)[10:]]
    comparison = compare({"nl": run([1.0] * 30), "long": short})
    found = comparison.runs[1]
    assert found.accuracy == share([1.0] * 20) and found.failed_wrong == share([0.0] * 10 + [1.0] * 20)
    assert pair(comparison).verdict.startswith("`nl` is better than `long` by 33.3 points")
    assert "| 100.0% | 83.9% to 100.0% | 66.7% | 48.8% to 80.8% | 0 | 10 |" in markdown(*compared(comparison).parts)
    assert headline(comparison)[1][1].endswith(
        "66.7% right of 30 questions with failures as wrong (95 %: 48.8% to 80.8%), 100.0% of 20 discussions that did "
        "not fail"
    )
    assert [failed[0].to_dict()[name] for name in ("score", "score_failed_wrong")] == [None, 0.0]


def hosted(lost: int) -> dict[str, list[Result]]:
    """Two runs on 30 questions; a server failed in some discussions of the second."""
    failed = [Result(f"q{i}", failed=True, outside=True, target="22") for i in range(lost)]
    return {"nl": run([1.0] * 30), "hosted": [*failed, *run([1.0] * 30)[lost:]]}


def test_failures_by_causes_outside_of_scheme_and_protocol_are_left_out_of_verdicts_and_said_first() -> None:
    comparison = compare(hosted(3))
    assert (pair(comparison).questions, pair(comparison).difference.value) == (27, 0)
    assert comparison.notes[0].startswith("`hosted`: failed by causes outside of scheme and protocol, and left out")
    first, *_ = markdown(*compared(comparison).parts).splitlines()
    assert first == "Runs lost different shares of their discussions to failures: `nl` 0 of 30, `hosted` 3 of 30."


def test_of_many_runs_only_those_with_failures_are_named_first() -> None:
    runs = {**hosted(3), **{f"run {n}": run([1.0] * 30) for n in range(5)}}
    assert compare(runs, against="nl").warning.endswith(" to failures: `hosted` 3 of 30.")


def test_a_run_that_lost_more_than_a_tenth_has_no_verdict_unless_forced() -> None:
    comparison = compare(hosted(4))
    assert comparison.pairs == () and pair(compare(hosted(4), force=True)).questions == 26
    assert comparison.notes[-1] == (
        "`hosted` and `nl`: no verdict, as `hosted` lost more than a tenth; run it again, or add --force."
    )


def test_a_verdict_names_only_differences_that_are_excluded() -> None:
    """It said "differences below 0.0 points are excluded" of an interval that began at 0, at p = 0.09."""
    near = Pair("b", "a", 200, Difference(0.07, 0.0, 0.136, 0.054, 0.034, 200), corrected=0.054, smallest=0.1)
    assert "could show; differences above 13.6 points are excluded (95 %), and one of 10.0 points" in near.verdict


# The same question


def test_questions_are_paired_by_what_is_asked_and_not_by_their_ids() -> None:
    left = [replace(each, digest=f"d{i}") for i, each in enumerate(run([1, 0, 1, 1]))]
    right = [replace(each, question=f"q{i + 1}") for i, each in enumerate(left)]
    found = pair(compare({"nl": left, "cipher": right}))
    assert (found.questions, found.difference.value) == (4, 0)


def test_ten_texts_under_200_ids_are_ten_questions() -> None:
    """An id was a question: 43.1 to 56.9 %, and p of 200 pairs."""
    left = [replace(each, digest=f"d{i % 10}") for i, each in enumerate(run([1.0, 0.0] * 100))]
    right = [replace(each, question=f"other {each.question}", score=float(i % 10 < 6)) for i, each in enumerate(left)]
    comparison = compare({"nl": left, "cipher": right})
    (found, _), between = comparison.runs, pair(comparison)
    assert (found.questions, found.discussions, found.accuracy) == (10, 200, share([1, 0] * 5))
    assert found.accuracy is not None and f"{found.accuracy.low:.3f} {found.accuracy.high:.3f}" == "0.237 0.763"
    assert (between.questions, between.difference.p) == (10, 1.0)


@pytest.mark.parametrize(("target", "kind", "pairs"), [("29.0", "number", 2), ("29.0", "text", 1), ("30", "number", 1)])
def test_targets_are_one_if_their_kind_says_so(target: str, kind: str, pairs: int) -> None:
    left = [replace(each, digest=f"d{i}", kind=kind, target="29") for i, each in enumerate(run([1, 0]))]
    found = compare({"nl": left, "cipher": [replace(left[0], target=target), left[1]]})
    assert pair(found).questions == pairs
    assert any("different targets" in note for note in found.notes) == (pairs == 1)


def test_a_question_is_left_out_for_its_content_and_not_for_its_id() -> None:
    """q0 of one run and q0 of the other are different questions, and both have their pairs under other ids."""
    left = [replace(each, digest=f"d{i}") for i, each in enumerate(run([1, 0, 1]))]
    wrong_target = replace(left[2], question="q0", target="23")
    found = compare({"nl": left, "cipher": [replace(left[0], question="q9"), replace(left[1]), wrong_target]})
    assert pair(found).questions == 2
    assert found.notes == ("`cipher` and `nl`: scored against different targets, and left out of the pair: q0.",)


def test_one_text_about_two_sets_of_documents_is_two_questions_and_one_without_documents_is_about_both() -> None:
    left = [replace(each, digest="a", documents=(f"x{i}",)) for i, each in enumerate(run([1, 0]))]
    deaf = [replace(each, documents=(), score=1.0) for each in left]
    assert pair(compare({"nl": left, "cipher": left[::-1]})).questions == 2
    found = pair(compare({"nl": left, "deaf": deaf}))
    assert (found.questions, found.difference.value) == (1, 0.5)


def test_questions_that_share_an_id_and_a_target_and_nothing_else_are_not_paired() -> None:
    left = [replace(each, digest=f"a{i}") for i, each in enumerate(run([1, 0]))]
    comparison = compare({"nl": left, "cipher": [replace(left[0], digest="b"), left[1]]})
    assert pair(comparison).questions == 1
    assert comparison.notes == ("`cipher` and `nl`: different questions under the same id, not paired: q0.",)


def test_the_same_words_about_other_documents_are_another_question_and_fewer_documents_are_not() -> None:
    (left,) = (replace(each, digest="a", documents=("x", "y")) for each in run([1]))
    assert compare({"nl": [left], "cipher": [replace(left, documents=("v", "w"))]}).pairs == ()
    assert compare({"nl": [left], "deaf": [replace(left, documents=("x",))]}).pairs != ()


# What is left out, and what is refused


def test_failed_discussions_and_questions_without_a_target_are_named() -> None:
    failed = [Result(f"f{i}", failed=True) for i in range(7)]
    notes = compare({"nl": [*run([1]), *failed, Result("open", answer="a")]}).notes
    assert notes == (
        "`nl`: failed, left out of accuracy, and wrong in verdicts: f0, f1, f2, f3, f4 and 2 more.",
        "`nl`: without a target, and left out of accuracy: open.",
    )


def test_runs_without_a_common_question_are_not_compared() -> None:
    found = compare({"nl": run([1]), "cipher": [Result("other", score=1.0, target="22")]})
    assert found.pairs == ()
    assert found.notes == ("`cipher` and `nl`: not compared, as they have no scored question in common.",)


@pytest.mark.parametrize(
    ("runs", "against", "said"),
    [
        ({}, None, "there are no runs to compare; name some"),
        ({"nl": []}, None, "run 'nl' contains no discussions; expected at least one"),
        ({"nl": run([1])}, "sde", "unknown run 'sde'; choose from: nl"),
        ({"nl": run([1]) * 2}, None, "run 'nl' contains question 'q0', seed 0 twice; expected it once"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs: dict[str, list[Result]], against: str | None, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        compare(runs, against)
    assert str(refused.value) == said


# As a reader sees it


def test_tables_and_verdicts_are_markdown() -> None:
    left, right = run([1, 0, 0, 1] * 50, calls=4, tokens_in=1234, flops=1.5e12), run([1, 0, 1, 0] * 50, seconds=0.25)
    lines = markdown(
        *compared(compare({"nl": left, "a|b": [*right, Result("late", failed=True, flops=1.0)]})).parts
    ).splitlines()
    head = "| run | questions | discussions | accuracy | 95 % | failed as wrong | 95 % | abstained | failed | "
    half = "50.0% | 43.1% to 56.9%"
    head += "calls | tokens read | tokens reused | tokens written |"
    assert lines[:6] == [
        "Runs lost different shares of their discussions to failures: `nl` 0 of 200, `a|b` 1 of 201.",
        "",
        f"{head} FLOPs | seconds, in parallel |",
        "|" + "|".join(["---"] * 15) + "|",
        f"| `nl` | 200 | 200 | {half} | {half} | 0 | 0 | 4 | 1,234 | 0 | 0 | 1.50e+12 | 0.00 |",
        f"| `a\\|b` | 201 | 201 | {half} | {half} | 0 | 1 | 0 | 0 | 0 | 0 |  | 0.25 |",
    ]
    assert lines[9].startswith("| `a\\|b` | `nl` | 200 | +0.0 | -9.9 to 9.9 | 1.000 | 1.000 |")
    assert lines[11:] == [
        "- `a|b` and `nl`: no difference that 200 questions could show; differences below -9.9 and above 9.9 points "
        "are excluded (95 %), and one of 14.0 points would have shown in four of five such comparisons.",
        "- `a|b`: failed, left out of accuracy, and wrong in verdicts: late.",
    ]
