"""CodeGen (Barbi et al., arXiv 2502.05986, after DyLAN): a world of programs, tests and judges.

Coders write in parallel. Before each later round Passer, Tester, Reflector and Ranker judge the programs, and coders
write again with feedback about the best two. The discussion ends when most programs agree in a round after the first
(equal first solutions may all be wrong, and nobody has judged them yet), or after the last round; then all tests are
run on all last solutions. A reset cannot take back submitted code, but it can take back feedback.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal, Unpack

from sottovoce.core.text import counted
from sottovoce.environments import Split
from sottovoce.environments.problems import Runner, bundled_problems
from sottovoce.graphs.scheme import Games, Graph, GraphInputs, Scheme, State
from sottovoce.nodes.question import Question
from sottovoce.settings import CodeGen
from sottovoce.settings.worlds import PASSER, RANKER, REFLECTOR, TESTER

JUDGES = (PASSER, TESTER, REFLECTOR, RANKER)


def who_begins(coders: list[str]) -> Callable[[State], list[str]]:
    """Return a router to the coders in the first round, when there is nothing to judge, and to the judges later."""
    return lambda state: [*JUDGES] if state["round"] else coders


def next_step(state: Any) -> Literal["next_round", "final_tests"]:
    """Continue until most programs agree in a round after the first, or no round is left."""
    from sottovoce.nodes.codegen import agreed

    settings, judged = state["settings"], state["round"] > 0
    over = state["round"] + 1 >= settings["rounds"] or (settings["consensus"] and judged and bool(agreed(state)))
    return "final_tests" if over else "next_round"


def create_codegen(
    settings: CodeGen | None = None, *, runner: Runner | None = None, **inputs: Unpack[GraphInputs]
) -> Graph:
    """Return the uncompiled graph of CodeGen. Names in `models`: coders, Tester, Reflector, Ranker.

    `runner` runs programs instead of the sandbox that the settings name.
    """
    from sottovoce.graphs.runtime.frame import Frame  # late, as all that imports langgraph
    from sottovoce.nodes import codegen as acts
    from sottovoce.nodes.codegen_tests import ProgramTests

    settings, tests = CodeGen.parse(settings), ProgramTests(runner)
    coders = settings.speakers()
    frame = Frame(SCHEME, settings, **inputs, rule=tests.by_tests, begin=tests.begin, state=acts.Coding)
    frame.graph.add_conditional_edges("next_round", who_begins(coders), [*coders, *JUDGES])
    # Not a join of the frame: one that a reset left waiting would not wait for the coders.
    frame.graph.add_node("report", frame.step(tests.report))
    frame.graph.add_node(PASSER, frame.step(tests.check), metadata={"role": "judge"})
    frame.graph.add_edge(PASSER, "report")
    for judge, act in ((TESTER, acts.test), (REFLECTOR, acts.reflect), (RANKER, acts.rank)):
        frame.act(judge, act, role="judge", to="report", watched=False, approved=False)
    for coder in coders:
        frame.graph.add_edge("report", coder)
        frame.act(coder, acts.write, role="coder", to="hand_in", effect=lambda update: acts.RUN)
    frame.join(
        "hand_in",
        frame.step(acts.hand_in),
        to=next_step,
        labels={"next_round": "rounds left", "final_tests": "agreed, or last"},
    )
    frame.join("final_tests", frame.step(tests.final_tests), to="decide")
    return frame.graph


def manner(settings: CodeGen) -> str:
    """Return a phrase that describes how programs are written."""
    held = f"{settings.agents} coders, at most {counted(settings.rounds, 'round')}"
    return f"{held} · sandbox: {settings.sandbox or 'none'}{', unsafe' * settings.unsafe}"


def problems(n: int, settings: CodeGen, seed: int = 0, split: Split | None = None) -> list[Question]:
    """Return the first `n` bundled problems: easy ones first for seed 0, else shuffled by the seed."""
    order = [*bundled_problems()]
    if seed:
        random.Random(f"problems/{seed}").shuffle(order)
    return [
        Question(
            id=f"problems/{seed}/{i}",
            question=problem.prompt,
            kind="text",
            solution=f"{problem.prompt}{problem.body}",
            game={"test": [f"assert {test}" for test in problem.tests], "entry_point": problem.name},
        )
        for i, problem in enumerate(order[:n])
    ]


SCHEME = Scheme(
    "codegen",
    CodeGen,
    create_codegen,
    headings=dict.fromkeys(("check", "test", "report", "review", "rank"), "Before round {round}"),
    sample="problems",
    games=Games(
        samples={"problems": "small functions to write, with hidden tests; for the scheme codegen"},
        draw=problems,
        most={"problems": 16},
    ),
    unrolls="in a world, messages depend on earlier actions",
    manner=manner,
    first_options="--sandbox isolated --agents 2 --rounds 1 --max-tokens 128",
)
make_graph = SCHEME.make_graph
