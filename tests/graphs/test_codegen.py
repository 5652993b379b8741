"""CodeGen as a graph: who writes and judges when, what is heard, what cannot be read, sandboxes, resets, the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from sottovoce.agents.scripted import RecordedCall, ScriptedChatModel
from sottovoce.channels.message import Message, MessageRef
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.environments.codegen import ASSERTIONS, REFLECTIONS, code_form, ranks, scores
from sottovoce.environments.sandbox import ISOLATED, why_not
from sottovoce.graphs.codegen import CODERS, JUDGES, CodeGen, create_codegen
from sottovoce.models import Rows
from sottovoce.nodes.watch import Intervention
from tests.graphs.coding import ScriptedRunner, Verdict, block, reviews
from tests.graphs.support import Once, Recording, board, calls, lonely_loaded

KEYS = ["board", "decision", "votes", "reviews", "ranked", "errors", "passed", "notes", "epochs", "round", "settings"]
PROBLEM = 'def add(a, b):\n    """The sum of a and b."""\n'
GAME = {"test": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"], "entry_point": "add"}
QUESTION: Any = {"question": PROBLEM, "id": "add", "kind": "text", "game": GAME}
MINUS = "def add(a, b):\n    return a - b"
BODIES = {
    "PythonAssistant": MINUS,
    "AlgorithmDeveloper": "def add(a, b):\n    total = a\n    total += b\n    return total",
    "ComputerScientist": "def add(x, y):\n    return -(-x - y)",
    "Programmer": "def add(*numbers):\n    return sum(numbers)",
}
ASSERTS = "assert add(1, 2) == 3\nassert add(0, 0) == 0"
JUDGED = {
    "Tester": [ASSERTS] * 3,
    "Reflector": [reviews("One.", "Two.", "Three.", "Four.")] * 3,
    "Ranker": ["[4, 2]"] * 3,
}


def coders(**bodies: str) -> dict[str, list[str]]:
    """What each coder says in all rounds."""
    return {name: [block(body)] + [block(body, "[[5, 4, 3]]")] * 3 for name, body in {**BODIES, **bodies}.items()}


def fails_minus(solution: str, program: str) -> str | None:
    return "-1" if solution == MINUS and "add(1, 2)" in program else None


def run(
    replies: Any = None, verdict: Verdict = fails_minus, watch: Any = None, question: Any = QUESTION, **settings: Any
) -> tuple[Any, ScriptedChatModel, ScriptedRunner]:
    """The state at the end, the model that played all agents, and what was run."""
    model, runner = ScriptedChatModel(replies or {**coders(), **JUDGED}), ScriptedRunner(verdict)
    graph = create_codegen(CodeGen(**settings), models=model, runner=runner, watch=watch).compile()
    return graph.invoke(question, output_keys=KEYS), model, runner


def order(state: Any, round: int) -> list[str]:
    """Whose solutions judges read before a round, in the order in which they read them."""
    (told,) = [each.text for each in board(state) if (each.act, each.round) == ("check", round) and not each.epoch]
    return [line.partition("(")[2].partition(")")[0] for line in told.splitlines()]


# Who does what, and how it ends


def test_coders_write_judges_look_and_coders_write_anew_in_three_rounds() -> None:
    state, model, _ = run()
    acts = [(each.round, each.agent) for each in model.calls]
    for number in range(3):
        judged = ["Tester", "Reflector", "Ranker"] if number else []
        assert sorted(who for at, who in acts if at == number) == sorted([*CODERS, *judged])
    assert len(model.calls) == 4 + 2 * 7 and state["round"] == 2
    assert {each.act for each in board(state) if each.round == 0} == {"answer"}


def test_the_last_solution_that_passes_most_tests_is_chosen_and_the_hidden_tests_score_it() -> None:
    state, _, runner = run()
    decision = state["decision"]
    assert state["passed"] == dict.fromkeys(CODERS, 2) | {"PythonAssistant": 1}
    assert (decision["answer"], decision["by"]) == (BODIES["AlgorithmDeveloper"], "AlgorithmDeveloper")
    assert (decision["score"], decision["measures"]) == (1.0, {"pass": 1.0, "unreadable": 0})
    assert decision["why"] == "AlgorithmDeveloper's solution passes 2 of 2 tests; it solves the problem"
    hidden = [solution for solution, program in runner.asked if "add(-1, 1)" in program]
    assert hidden == [BODIES["AlgorithmDeveloper"]]


def test_all_tests_of_all_rounds_are_run_on_the_last_solutions() -> None:
    replies = {**coders(), **JUDGED, "Tester": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"]}
    state, _, _ = run(replies, lambda solution, program: None if "sum(" in solution else "0")
    assert state["passed"] == dict.fromkeys(CODERS, 0) | {"Programmer": 2}
    assert state["decision"]["votes"][3]["note"] == "2 of 2 tests"


def test_a_question_without_hidden_tests_is_worked_on_and_not_scored() -> None:
    question = {key: value for key, value in QUESTION.items() if key != "game"}
    state, model, _ = run(question=question)
    assert state["decision"]["score"] is None and state["decision"]["answer"] == BODIES["AlgorithmDeveloper"]
    assert "write it in Python" in model.calls[0].text


def test_a_program_of_tests_is_called_as_humaneval_does() -> None:
    game = {"test": "def check(candidate):\n    assert candidate(1, 2) == 3\n", "entry_point": "add"}
    _, _, runner = run(question={**QUESTION, "game": game})
    assert runner.asked[-1][1] == "def check(candidate):\n    assert candidate(1, 2) == 3\n\ncheck(add)\n"


def test_it_ends_as_soon_as_more_than_two_thirds_write_alike_after_judges_spoke() -> None:
    three = dict.fromkeys(CODERS[1:], "def add(a, b):\n    return a + b")
    state, model, _ = run({**coders(PythonAssistant=MINUS, **three), **JUDGED})
    assert len(model.calls) == 4 + 7 and state["decision"]["answer"] == "def add(a, b):\n    return a + b"
    assert state["decision"]["why"] == "AlgorithmDeveloper's solution passes 2 of 2 tests; it solves the problem"


@pytest.mark.parametrize(("alike", "consensus"), [(2, True), (4, False)])
def test_two_of_four_are_no_consensus_and_it_can_be_switched_off(alike: int, consensus: bool) -> None:
    same = dict.fromkeys(CODERS[:alike], "def add(a, b):\n    return b + a")
    _, model, _ = run({**coders(**same), **JUDGED}, consensus=consensus)
    assert len(model.calls) == 18


# What is heard


def solutions_in(asked: RecordedCall) -> list[tuple[str, str]]:
    return [
        (part.message.agent, part.text) for turn in asked.turns for part in turn.parts if isinstance(part, MessageRef)
    ]


def test_judges_read_all_solutions_in_one_order_that_changes_from_round_to_round() -> None:
    state, model, _ = run()
    for name in JUDGES[1:]:
        for asked in calls(model, name):
            assert solutions_in(asked) == [(who, BODIES[who]) for who in order(state, asked.round)]
            assert "add(-1, 1)" not in asked.text
    assert order(state, 1) != order(state, 2)


def test_coders_read_what_was_found_out_about_the_best_two_and_no_more() -> None:
    state, model, _ = run()
    first, second = (order(state, 1)[place] for place in (3, 1))  # the Ranker said [4, 2]
    for name in CODERS:
        asked = calls(model, name, "revise")[0]
        assert solutions_in(asked) == [
            (first, BODIES[first]), ("Reflector", "Four."), (second, BODIES[second]), ("Reflector", "Two.")
        ]  # fmt: skip
        assert asked.text.count("Syntax check: no error") == 2 and "Review: Four." in asked.text
        assert "add(-1, 1)" not in asked.text


def test_coders_are_shown_which_tests_failed_and_what_came_out() -> None:
    same = dict.fromkeys(CODERS, MINUS)
    _, model, _ = run({**coders(**same), **JUDGED}, consensus=False)
    assert (
        "Tests passed: 1\nassert add(0, 0) == 0\nTests failed: 1\nassert add(1, 2) == 3\nIt gave: -1\n"
        in calls(model, "Programmer", "revise")[0].text
    )


@pytest.mark.parametrize(
    "protocol", ["cipher", *(pytest.param(name, marks=pytest.mark.slow) for name in ("nl", "sde"))]
)
def test_local_models_write_blocks_scores_reviews_and_ranks_under_every_protocol(
    protocol: str, store: PayloadStore
) -> None:
    model = Recording(protocol=protocol, preloaded=lonely_loaded(), store=store, temperature=1.0, max_tokens=40)
    graph = create_codegen(
        CodeGen(rounds=2, agents=2, consensus=False), models=model, runner=ScriptedRunner()
    ).compile()
    state = graph.invoke(QUESTION, output_keys=KEYS)
    said = {act: [each for each in board(state) if each.act == act] for act in ("answer", "revise", "review", "rank")}
    assert all(re.search(r"^```python \n(.*\n)*[ \t]*```", each.text, re.MULTILINE) for each in said["answer"])
    assert all(scores(each, 3) for each in said["revise"]) and "[reflection 1]:" in said["review"][0].text
    assert ranks(said["rank"][0], 2)
    # A model without sense writes no program that others could hear; what it reads of its own shows the protocol.
    assert any(isinstance(piece, Rows) for each in model.requests for piece in each.prompt) == (protocol == "cipher")
    assert protocol == "sde" or not any(each.edits for each in model.requests)
    spoken = {each.agent: each.payload and each.payload.protocol for each in board(state) if each.payload}  # type: ignore[truthy-bool]
    assert spoken["Reflector"] == protocol and spoken["Tester"] == spoken["Ranker"] == "nl"


PROGRAM = 'def f(x):\n    """As `x` or ``y``, and\n    ``z`` too.\n    """\n\n    return f"`{x}`"'


@pytest.mark.parametrize(
    ("form", "after", "text"),
    [
        (code_form(), "```python", f"\n{PROGRAM}\n```\n\nAn example:\n\n```python\nf(1)\n```"),
        (code_form(3), "Help:", "[[1, 2, 5]]"),
        (ASSERTIONS, "assert", "sorted(f([2, 1])) == [1, 2]\n\nAnother:\nassert (\n    f([])\n) == []"),
        (
            REFLECTIONS,
            "[reflection 1]:",
            "nums[i]\n\n```python\n[1][0]\n```\n[reflection 2]: " + "So. " * 99,
        ),
    ],
)
def test_only_the_part_that_is_run_or_scored_is_kept_to_a_form(form: Form, after: str, text: str) -> None:
    assert form.after == after and re.fullmatch(form.pattern or "", text)


# What cannot be read


@pytest.mark.parametrize("said", [reviews("One.", "Two."), "They are fine.", reviews(*"abcde")])
def test_a_wrong_number_of_reviews_is_none_for_all(said: str) -> None:
    state, model, _ = run({**coders(), **JUDGED, "Reflector": [said] * 4})
    assert all(review["reflection"] is None for review in state["reviews"])
    assert calls(model, "Programmer", "revise")[0].text.count("Review: none") == 2
    told = next(each.text for each in board(state) if each.act == "report")
    assert "no reviews could be read" in told and len(calls(model, "Reflector")) == 2 * 2


def test_where_the_ranker_names_no_two_the_seed_of_the_place_draws_them() -> None:
    drawn = [run({**coders(), **JUDGED, "Ranker": ["[1, 9]", "Hm."] * 2}, seed=seed)[0] for seed in (0, 0, 1, 2)]
    assert drawn[0]["ranked"] == drawn[1]["ranked"] and len({tuple(each["ranked"]) for each in drawn}) > 1
    assert all(len(set(each["ranked"])) == 2 for each in drawn)
    assert "no two best could be read; drawn: " in board(drawn[0])[-5].text


def test_what_states_no_program_is_asked_for_again_abstains_fails_and_stops_nobody() -> None:
    prose = {"Programmer": ["I would add them."] * 6}
    state, model, _ = run({**coders(), **JUDGED, **prose})
    vote = state["votes"][3]
    assert (vote["answer"], vote["counts"]) == (None, False) and "Programmer" not in state["passed"]
    assert state["decision"]["score"] == 1.0 and len(calls(model, "Programmer")) == 6
    assert "it does not state one program for add" in calls(model, "Programmer")[1].text
    told = next(each.text for each in board(state) if each.act == "check")
    assert "(Programmer): there is no program" in told and "(nothing)" in calls(model, "Tester")[0].text


def test_coders_who_wrote_nothing_are_no_consensus() -> None:
    # Seen: the prompt's own signature, completed by nothing, was the program of each.
    nothing = dict.fromkeys(CODERS[:3], [""] * 6)
    state, _, _ = run({**coders(), **JUDGED, **nothing})
    assert [vote["answer"] for vote in state["votes"]] == [None] * 3 + [BODIES["Programmer"]]
    assert state["round"] == 2 and state["decision"]["by"] == "Programmer"


def test_muted_coders_have_no_program() -> None:
    def muted(run: Any, state: Any, messages: Sequence[Message]) -> Intervention | None:
        return None if messages[-1].agent == CODERS[3] else Intervention("mute", "it wavers")

    state, _, _ = run(watch=muted, rounds=2, cap=9)
    assert [vote["answer"] for vote in state["votes"]] == [None] * 3 + [BODIES["Programmer"]]


def test_a_solution_that_does_not_run_is_not_tested_and_coders_are_told_why() -> None:
    def verdict(solution: str, program: str) -> str | None:
        return "ImportError: no add" if solution == MINUS else None

    same = dict.fromkeys(CODERS[:3], MINUS)
    _, model, runner = run({**coders(**same), **JUDGED, "Ranker": ["[1, 2]"] * 2}, verdict, consensus=False, rounds=2)
    tried = [program for solution, program in runner.asked if solution == MINUS]
    assert len(tried) == 1 + 2  # by the Passer, and in the end by both tests; three times the same is run once
    assert "Syntax check: ImportError: no add\nReview: " in calls(model, "Programmer", "revise")[0].text


# The sandbox


def test_without_a_sandbox_nobody_speaks_and_all_are_named() -> None:
    model = ScriptedChatModel([])
    with pytest.raises(UsageError) as refused:
        create_codegen(models=model).compile().invoke(QUESTION)
    assert str(refused.value).startswith("codegen runs programs that models write, but no sandbox was named; add `sand")
    assert all(name in str(refused.value) for name in ("bwrap (", "podman (", "docker (", "limits (", "`unsafe=True`"))
    assert "\n" not in str(refused.value) and model.calls == []


def test_limits_alone_are_refused_unless_unsafe_is_said() -> None:
    with pytest.raises(UsageError, match="cannot run programs in the sandbox 'limits': limits alone leave open"):
        create_codegen(CodeGen(sandbox="limits"), models=ScriptedChatModel([])).compile().invoke(QUESTION)
    with pytest.raises(UsageError, match="`unsafe=` needs a sandbox, but none is set"):
        CodeGen(unsafe=True)


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ({"test": "assert 1", "entry_point": "f()"}, r"entry_point is 'f\(\)'; expected the name of a function"),
    ],
)
def test_a_problem_that_is_none_is_refused_before_anybody_speaks(game: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run({}, question={**QUESTION, "game": game})


def test_programs_run_in_the_sandbox_that_was_named() -> None:
    if why := why_not("limits"):
        pytest.skip(f"no program can be run here: {why}")
    model = ScriptedChatModel({**coders(), **JUDGED})
    graph = create_codegen(CodeGen(sandbox="isolated", unsafe=True, rounds=2, seconds=20), models=model).compile()
    state = graph.invoke(QUESTION, output_keys=KEYS)
    assert state["decision"]["score"] == 1.0 and state["passed"]["PythonAssistant"] == 1
    told = next(each.text for each in board(state) if each.act == "report")
    assert "  assert add(1, 2) == 3: -1" in told and "(ComputerScientist): passes 2 of 2" in told
    isolated = not all(map(why_not, ISOLATED))
    assert bool(state["notes"]) != isolated


# State


def test_coders_are_watched_from_the_second_round_on_and_judges_never() -> None:
    seen = []
    state, _, _ = run(watch=lambda run, state, messages: seen.append((messages[-1].agent, messages[-1].round)))
    assert sorted(seen) == sorted((name, round) for name in CODERS for round in (1, 2))
    assert state == run()[0]


def test_a_reset_renews_feedback_and_tests_and_has_all_coders_write_again() -> None:
    fresh = ["assert add(5, 5) == 10", "assert add(0, 0) == 0", "assert add(7, 7) == 14"]
    replies = {**coders(), **JUDGED, "Tester": fresh, "Ranker": ["[1, 2]", "[3, 4]", "[1, 2]"]}
    state, model, runner = run(replies, watch=Once("reset", "Programmer", 1))
    assert len(model.calls) == 18 + 7 and state["epochs"] == [[1, 0]]
    again = [each for each in board(state) if each.epoch == 1 and each.round == 1]
    assert {each.agent for each in again} == {*CODERS, *JUDGES}
    # The tests that were withdrawn count for nothing any more.
    last = {program for _, program in runner.asked[-10:] if "add(5, 5)" in program}
    assert not last and state["passed"] == dict.fromkeys(CODERS, 2)
    assert state["decision"]["why"].startswith("PythonAssistant's solution passes 2 of 2 tests")
