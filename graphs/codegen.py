"""CodeGen (Barbi et al., arXiv 2502.05986, after DyLAN): a world of programs, tests and judges.

Coders write in parallel. Before each later round Passer, Tester, Reflector and Ranker judge the programs, and coders
write again with feedback about the best two. The discussion ends when most programs agree in a round after the first
(equal first solutions may all be wrong, and nobody has judged them yet), or after the last round; then all tests are
run on all last solutions. A reset cannot take back submitted code, but it can take back feedback.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.core.any_types import JSONValue
from sottovoce.core.bounds import LONGEST_PROGRAM, Rounds, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.text import counted
from sottovoce.core.trust import Names
from sottovoce.environments import Split
from sottovoce.environments.problems import Problem, Runner, bundled_problems
from sottovoce.graphs.scheme import Games, Graph, GraphInputs, Scheme, State
from sottovoce.nodes.option_groups import Per
from sottovoce.nodes.question import Question
from sottovoce.nodes.settings import Settings
from sottovoce.prompts.kinds import KindName

CODERS = ("PythonAssistant", "AlgorithmDeveloper", "ComputerScientist", "Programmer")
PASSER, TESTER, REFLECTOR, RANKER = "Passer", "Tester", "Reflector", "Ranker"


class CodeGen(Settings):
    """Coders write a program; judges test and rank it (CodeGen).

    Judges also review it, and coders rewrite it (arXiv 2502.05986).
    """

    default_temperature: ClassVar[float | None] = 0.0
    shows_documents: ClassVar[bool] = False
    measured_at: ClassVar[str] = "scores"
    answers_in: ClassVar[KindName | None] = "text"
    watched_from: ClassVar[int] = 1
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({"run": "the program is submitted, and run with the tests"})

    sandbox: Annotated[str | None, Names("sandbox", opens=False)] = Field(
        default=None,
        description="Where to run programs that models write: isolated (the first of the next three that "
        "works here), bwrap, podman[:IMAGE], docker[:IMAGE], or limits, which isolates nothing. Required.",
    )
    unsafe: Annotated[bool, Names("sandbox", opens=False)] = Field(
        default=False, description="Run programs even without isolation, under resource limits alone."
    )
    seconds: Annotated[float, Names("time limit", opens=False)] = Field(
        default=5.0,
        gt=0,
        le=LONGEST_PROGRAM,
        allow_inf_nan=False,
        description="Maximum run time of a program for one test, in seconds.",
    )
    agents: int = Field(
        default=4, ge=2, le=len(CODERS), description="Number of coders, not counting Tester, Reflector and Ranker."
    )
    rounds: Rounds = Field(
        default=3, ge=1, description="Maximum number of rounds; judges speak before each one except the first."
    )
    consensus: bool = Field(
        default=True,
        description="End after a round, except the first, in which more than two thirds of the coders write similar "
        "programs (BLEU of 90 or more).",
    )
    max_tokens: Tokens = Field(default=1024, ge=1, description="Maximum length of a reply, in tokens.")

    def speakers(self) -> list[str]:
        """Return the coders."""
        return [*CODERS[: self.agents]]

    def others(self) -> list[str]:
        """Return the judges that are models; Passer is a tool."""
        return [TESTER, REFLECTOR, RANKER]

    def edges(self) -> list[tuple[str, str]]:
        """Return edges from coders to all, and from the Reflector to coders; tests and ranks are sent as text."""
        return [*super().edges(), *((REFLECTOR, coder) for coder in self.speakers())]

    def approvable(self) -> list[str]:
        """Return the coders: judges' replies are used without approval."""
        return self.speakers()

    @property
    def capped(self) -> Per:
        """Each coder in each round, as in the paper's code."""
        return self.cap_per or "turn"

    def check_game(self, question: Mapping[str, JSONValue]) -> None:
        """Refuse what is not a problem."""
        Problem.model_validate(question["game"])

    @model_validator(mode="after")
    def _somewhere(self) -> CodeGen:
        if self.unsafe and self.sandbox is None:
            raise UsageError("--unsafe needs a sandbox, but none is set; add --sandbox isolated, or leave it out")
        return self


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
    from sottovoce.graphs.frame import Frame  # late, as all that imports langgraph
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
