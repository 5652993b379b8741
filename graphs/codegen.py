"""CodeGen (Barbi et al., arXiv 2502.05986, after DyLAN): a world of programs, tests and judges.

Coders write in parallel. Before each later round Passer, Tester, Reflector and Ranker judge the programs, and coders
write again with feedback about the best two. The discussion ends when most programs agree in a round after the first
(equal first solutions may all be wrong, and nobody has judged them yet), or after the last round; then all tests are
run on all last solutions. A reset cannot take back submitted code, but it can take back feedback.

Agents hear solutions and reviews by the protocol, as parts of replies. The rules' findings are text: whether a solution
runs, and the tests that it passes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from sottovoce.agents.ask import WORDS, Ask
from sottovoce.channels.message import NOTHING, Message, MessageRef, Part, Turn, words
from sottovoce.core.any_types import JSONValue
from sottovoce.core.bounds import LONGEST_PROGRAM, Rounds, Tokens
from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import Form
from sottovoce.core.text import counted
from sottovoce.core.trust import Names
from sottovoce.environments import GAMES, Split, problems, sandbox
from sottovoce.environments.codegen import (
    ASSERTIONS,
    MOST_TESTS,
    REFLECTIONS,
    Program,
    agreeing,
    assertions,
    code_form,
    program,
    ranks,
    reflections,
    scores,
    statements,
)
from sottovoce.environments.problems import Problem, Report, Review, Runner
from sottovoce.graphs.scheme import Games, Graph, GraphInputs, Scheme, State
from sottovoce.nodes.decide import decided, with_unreadable
from sottovoce.nodes.option_groups import Per
from sottovoce.nodes.prompt_builder import PromptBuilder, blocks
from sottovoce.nodes.question import Question
from sottovoce.nodes.say import Validate, noted, say
from sottovoce.nodes.settings import Settings
from sottovoce.nodes.state import RESTORED, Decision, Discussion, Update, Vote, current_messages, rounds_of, said
from sottovoce.prompts.kinds import KindName

if TYPE_CHECKING:
    from sottovoce.nodes.agent import Agent
    from sottovoce.nodes.context import RunContext

CODERS = ("PythonAssistant", "AlgorithmDeveloper", "ComputerScientist", "Programmer")
JUDGES = PASSER, TESTER, REFLECTOR, RANKER = "Passer", "Tester", "Reflector", "Ranker"
SCORED = (PASSER, TESTER, REFLECTOR)
"""The judges whose help coders score, in this order."""
TEST, REVIEW, RANK, RUN, CHECK, REPORT = "test", "review", "rank", "run", "check", "report"
REPORTED = 1
"""The turn after the judges' and before the coders'."""


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
        """Return edges from coders to all, and from the Reflector to coders. Tests and ranks are sent as text."""
        return [*super().edges(), *((REFLECTOR, coder) for coder in self.speakers())]

    def approvable(self) -> list[str]:
        """Return the coders: judges' replies are used without approval."""
        return self.speakers()

    @property
    def capped(self) -> Per:
        """Each coder in each round, as in the paper's code."""
        return self.cap_per or "turn"

    def check_game(self, question: Mapping[str, JSONValue]) -> None:
        """Refuse a game that is not a problem."""
        Problem.model_validate(question["game"])

    @model_validator(mode="after")
    def _somewhere(self) -> CodeGen:
        if self.unsafe and self.sandbox is None:
            raise UsageError("`unsafe=` needs a sandbox, but none is set; add `sandbox='isolated'`, or leave it out")
        return self


class Coding(Discussion):
    """The state of CodeGen."""

    errors: Annotated[dict[str, str], RESTORED]
    """By coder: why the last round's solution does not run at all; empty if it runs."""
    reviews: Annotated[list[Review], RESTORED]
    """The reviews of the last round's solutions, in the order in which judges read them."""
    ranked: Annotated[list[str], RESTORED]
    """The authors of the two solutions that coders are shown, the best first."""
    passed: dict[str, int]
    """By coder: number of tests that the last solution passes."""


# Acts


async def write(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return one coder's solution. A reply without one is asked for again."""
    builder, name = agent.prompt_builder(state), entry_point(state)
    asked = words(builder.prompts.render("codegen/solve", function=name))
    validate = validator(
        partial(program_in, question=state), f"it does not state one program for {name or 'the function'}"
    )
    if state["round"] == 0:
        turns = (*_role(builder, "coder"), Turn("user", blocks(builder.known([]), builder.question_of(asked))))
        ask = Ask("answer", turns, code_form())
        return {"board": await say(run, state, agent, ask, validate=validate, requested=asked)}
    spoken, reviews = replies_of(run, state), {review["agent"]: review for review in state["reviews"]}
    reflected = said(state, REFLECTOR, state["round"], (REVIEW,))
    assert reflected is not None, "judges speak before coders"
    best = [(reviews[who], spoken[who]) for who in state["ranked"]]
    ask = Ask("revise", later_turns(builder, name, best, reflected), code_form(len(SCORED)))
    *before, message = await say(run, state, agent, ask, validate=validate, requested=asked)
    found = scores(message, len(SCORED))  # how helpful it found the judges, for display and for monitors
    helped = f"no scores of {', '.join(SCORED)} could be read"
    if found is not None:
        helped = f"helped by {', '.join(f'{name} {score}' for name, score in zip(SCORED, found, strict=True))}"
    return {"board": [*before, noted(message, helped)]}


async def test(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return the Tester's tests."""
    request = run.prompts.render("codegen/test", function=entry_point(state), most=MOST_TESTS)
    ask = Ask(TEST, (), ASSERTIONS, protocol=WORDS)
    return await _judge(run, state, agent, ask, request, validator(assertions, "it holds no test"))


async def reflect(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return the Reflector's reviews, which use the protocol, since coders hear them."""
    count = run.settings.agents
    request, ask = run.prompts.render("codegen/reflect", count=count), Ask(REVIEW, (), REFLECTIONS)
    validate = validator(partial(reflections, solutions=count), "it does not review each solution once")
    return await _judge(run, state, agent, ask, request, validate)


async def rank(run: RunContext[CodeGen], state: Coding, agent: Agent) -> Update:
    """Return the Ranker's best two."""
    count = run.settings.agents
    request = run.prompts.render("codegen/rank", count=count)
    rankings = tuple(f"[{first}, {second}]" for first, second in permutations(range(1, count + 1), 2))
    ask = Ask(RANK, (), Form(choices=rankings, after="Best:", unknown=False), protocol=WORDS)
    validate = validator(partial(ranks, solutions=count), "it does not name the best two")
    return await _judge(run, state, agent, ask, request, validate)


async def _judge(
    run: RunContext[CodeGen], state: Coding, agent: Agent, ask: Ask, request: Sequence[Part], validate: Validate
) -> Update:
    ask = replace(ask, turns=judge_turns(agent.prompt_builder(state), [*replies_of(run, state).values()], request))
    return {"board": await say(run, state, agent, ask, validate=validate, requested=words(request))}


def validator(read: Callable[[Message], object], error: str) -> Validate:
    """Return the check that reports this error for a reply that `read` cannot parse."""
    return lambda message: "" if read(message) else error


# Problem and solutions


def problem_of(state: Question) -> Problem | None:
    """Return the question's problem, or None if it has none. No agent sees the problem's tests.

    Raises:
        UsageError: its `game` is not a problem.
    """
    given = state.get("game")
    return None if given is None else Problem.model_validate(given)


def entry_point(state: Question) -> str:
    """Return the name of the required function, or an empty text if it is not known."""
    problem = problem_of(state)
    return problem.entry_point if problem else ""


def replies_of(run: RunContext[CodeGen], state: Discussion) -> dict[str, Message]:
    """Return the coders' replies of the round before, in judges' order, which is shuffled in each round."""
    spoken = rounds_of(state, run.answers)[state["round"] - 1]
    coders = run.settings.speakers()
    random.Random(run.seed(state, "", "order")).shuffle(coders)
    return {coder: spoken[coder] for coder in coders}


def solutions_of(replies: Mapping[str, Message], state: Discussion) -> dict[str, str]:
    """Return the program in each reply that states one."""
    programs = {coder: program_in(message, state) for coder, message in replies.items()}
    return {coder: stated.text for coder, stated in programs.items() if stated}


def program_in(message: Message, question: Question) -> Program | None:
    """Return the program that a reply states for a question's problem."""
    return program(message, question["question"], entry_point(question))


def tests_of(state: Discussion) -> list[str]:
    """Return all of the Tester's tests, each once."""
    replies = [message for message in current_messages(state) if message.act == TEST]
    return list(dict.fromkeys(test for reply in replies for test in assertions(reply)))


# Prompts


def later_turns(
    builder: PromptBuilder, name: str, solutions: Sequence[tuple[Review, Message]], reflected: Message
) -> tuple[Turn, ...]:
    """Return the two best solutions of the round before with their reviews, and the problem."""
    feedback = list[list[object]]()
    for review, answer in solutions:
        start, end = review["reflection"] or (0, 0)
        reflection = MessageRef(reflected, ((start, end),)) if start < end else ""
        feedback.append([solution(builder, answer), review["error"], review["passed"], review["failed"], reflection])
    heard = builder.prompts.render("codegen/feedback", others=feedback)
    solve = words(builder.prompts.render("codegen/solve", function=name))
    improve = words(builder.prompts.render("codegen/improve", judges=SCORED))
    asked = blocks(builder.known([]), heard, builder.question_of(f"{solve} {improve}"))
    return (*_role(builder, "coder"), Turn("user", asked))


def judge_turns(builder: PromptBuilder, solutions: Sequence[Message], request: Sequence[Part]) -> tuple[Turn, ...]:
    """Return the solutions with their numbers, the problem, and the request to a judge."""
    heard = builder.prompts.render("codegen/solutions", others=[solution(builder, said) for said in solutions])
    asked = blocks(builder.known([]), heard, builder.question_of(words(request)))
    return (*_role(builder, "judge"), Turn("user", asked))


def solution(builder: PromptBuilder, said: Message) -> MessageRef | str:
    """Return the solution in a reply, as others hear it."""
    stated = program_in(said, builder.question)
    return MessageRef(said, (stated.span,), own=said.agent == builder.agent) if stated else NOTHING


def _role(builder: PromptBuilder, kind: str) -> list[Turn]:
    return builder.system_turn(*builder.prompts.render(f"codegen/{kind}", role=builder.agent))


# The end of a round


def agreed(state: Discussion) -> list[str]:
    """Return the coders with similar solutions if they are more than two thirds of all (rounded down), else []."""
    spoken = [(vote["agent"], vote["answer"]) for vote in state["votes"] if vote["answer"] is not None]
    alike = agreeing([solution for _, solution in spoken])
    return [spoken[at][0] for at in alike] if len(alike) > 2 * len(state["votes"]) // 3 else []


def hand_in(run: RunContext[CodeGen], state: Coding) -> Update:
    """Count the round's solutions; one that is not Python is an abstention. No reset goes back before this step."""
    solutions, votes = solutions_of(rounds_of(state, run.answers)[-1], state), list[Vote]()
    for coder in run.settings.speakers():
        solution = solutions.get(coder)
        is_python = solution is not None and bool(statements(solution))
        votes.append({"agent": coder, "answer": solution if is_python else None, "counts": is_python})
    return {"votes": votes, "marks": []}


# Programs, tests and the decision


@dataclass(frozen=True)
class ProgramTests:
    """The nodes that run programs of models, by a given runner or only in the sandbox that the settings name.

    They are sync functions, which LangGraph runs in threads, so that no event loop waits for a sandbox.
    """

    own_runner: Runner | None = None

    def begin(self, run: RunContext[CodeGen], state: Discussion) -> Update:
        """Return the first state, before any solution.

        Raises:
            UsageError: no sandbox is set, it is not available, or the question's problem is invalid.
        """
        problem_of(state)
        backend, unsafe, runner = run.settings.sandbox, run.settings.unsafe, self.runner(run.settings)
        checked = partial(problems.uncontained, backend, runner, unsafe=unsafe)
        notes = [] if self.own_runner else run.once("sandbox", checked)
        known: Update = {"errors": {}, "reviews": [], "ranked": [], "passed": {}, "kind": run.settings.answers_in}
        return known | {"notes": notes}

    def runner(self, settings: CodeGen) -> Runner:
        """Return the function that runs programs."""
        limits = sandbox.Limits(seconds=settings.seconds)
        return self.own_runner or partial(sandbox.run, limits=limits, backend=settings.sandbox, unsafe=settings.unsafe)

    def check(self, run: RunContext[CodeGen], state: Coding) -> Update:
        """Check that solutions run, and have the required function: the Passer's step."""
        replies = replies_of(run, state)
        look = partial(problems.tried, program=entry_point(state), run=self.runner(run.settings))
        tried = problems.of_each(look, solutions_of(replies, state))
        errors = {coder: tried.get(coder, "there is no program") or "" for coder in replies}
        lines = [f"{n} ({coder}): {why or 'runs'}" for n, (coder, why) in enumerate(errors.items(), 1)]
        return {"errors": errors, "board": [run.message(state, PASSER, CHECK, "\n".join(lines))]}

    def report(self, run: RunContext[CodeGen], state: Coding) -> Update:
        """Run the Tester's tests, and collect the judges' replies for the coders."""
        replies = replies_of(run, state)
        tests = assertions(_reply(state, TESTER, TEST))
        whole = {coder: text for coder, text in solutions_of(replies, state).items() if not state["errors"][coder]}
        of_tests = problems.of_each(partial(problems.report, tests=tests, run=self.runner(run.settings)), whole)
        reports = {coder: of_tests.get(coder, Report()) for coder in replies}
        spans = reflections(_reply(state, REFLECTOR, REVIEW), len(replies))
        reviews: list[Review] = [
            {
                "agent": coder,
                "error": state["errors"][coder],
                "passed": [*reports[coder].passed],
                "failed": [[*pair] for pair in reports[coder].failed],
                "reflection": [*spans[n]] if spans else None,
            }
            for n, coder in enumerate(replies)
        ]
        best, how = ranked(run, state, len(replies))
        lines = [*problems.review_lines(reviews, tests), *([] if spans else ["no reviews could be read"]), how]
        told = run.message(state, TESTER, REPORT, "\n".join(lines), turn=REPORTED)
        shown = {"reviews": reviews, "ranked": [reviews[n]["agent"] for n in best]}
        return {**shown, "board": [told], "turn": REPORTED + 1}

    def final_tests(self, run: RunContext[CodeGen], state: Coding) -> Update:
        """Run the tests of all rounds on each last solution."""
        solutions = {vote["agent"]: vote["answer"] for vote in state["votes"] if vote["answer"] is not None}
        tried = partial(problems.report, tests=tests_of(state), run=self.runner(run.settings))
        reports = problems.of_each(tried, solutions)
        return {"passed": {coder: len(found.passed) for coder, found in reports.items()}}

    def by_tests(self, run: RunContext[CodeGen], state: Coding) -> Decision:
        """Decide by the solution that passes most tests, the first of several; the problem's own tests score it.

        If most coders wrote similar solutions, only theirs are candidates.
        """
        total, problem = len(tests_of(state)), problem_of(state)
        unread = sum(vote["answer"] is None for vote in state["votes"]), len(state["votes"]), "solutions are not Python"
        passed, alike = state["passed"], agreed(state) if run.settings.consensus else []
        votes: list[Vote] = [
            {**vote, "note": f"{passed[vote['agent']]} of {total} tests"} if total and vote["agent"] in passed else vote
            for vote in state["votes"]
        ]
        candidates = [vote for vote in votes if vote["answer"] is not None and (not alike or vote["agent"] in alike)]
        best = max(candidates, key=lambda vote: passed[vote["agent"]], default=None)
        if best is None or best["answer"] is None:
            score = None if problem is None else 0.0
            lost: Decision = {**decided("tests", "", [], votes, state), "score": score, "measures": {"pass": score}}
            return with_unreadable(lost, *unread)
        why = f"{best['agent']}'s solution "
        why += f"passes {passed[best['agent']]} of {total} tests" if total else "is the first; no judge wrote a test"
        score = None
        if problem is not None:
            wrong = problems.tried(best["answer"], problem.program, self.runner(run.settings))
            score = float(wrong is None)
            failed = (wrong or "").removesuffix(": ")
            why += "; it solves the problem" if wrong is None else f"; it does not solve the problem: {failed}"
        decision = decided("tests", why, [], votes, state, (best["answer"],))
        made: Decision = {**decision, "by": best["agent"], "score": score, "measures": {"pass": score}}
        return with_unreadable(made, *unread)


def ranked(run: RunContext[CodeGen], state: Coding, count: int) -> tuple[tuple[int, int], str]:
    """Return the two best solutions (0-based), and a note; if the Ranker names none, they are drawn by seed."""
    found, how = ranks(_reply(state, RANKER, RANK), count), "ranked best"
    if found is None:
        first, second = random.Random(run.seed(state, RANKER, RANK)).sample(range(count), 2)
        found, how = (first, second), "no two best could be read; drawn"
    return found, f"{how}: {found[0] + 1}, {found[1] + 1}"


def _reply(state: Discussion, agent: str, act: str) -> Message:
    message = said(state, agent, state["round"], (act,))
    assert message is not None, "judges speak before the report"
    return message


# Graph


def who_begins(coders: list[str]) -> Callable[[State], list[str]]:
    """Return a router to the coders in the first round, when there is nothing to judge, and to the judges later."""
    return lambda state: [*JUDGES] if state["round"] else coders


def next_step(state: Coding) -> Literal["next_round", "final_tests"]:
    """Continue until most programs agree in a round after the first, or no round is left."""
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

    settings, tests = CodeGen.parse(settings), ProgramTests(runner)
    coders = settings.speakers()
    frame = Frame(SCHEME, settings, **inputs, rule=tests.by_tests, begin=tests.begin, state=Coding)
    frame.graph.add_conditional_edges("next_round", who_begins(coders), [*coders, *JUDGES])
    # Not a join of the frame: one that a reset left waiting would not wait for the coders.
    frame.graph.add_node("report", frame.step(tests.report))
    frame.graph.add_node(PASSER, frame.step(tests.check), metadata={"role": "judge"})
    frame.graph.add_edge(PASSER, "report")
    for judge, act in ((TESTER, test), (REFLECTOR, reflect), (RANKER, rank)):
        frame.act(judge, act, role="judge", to="report", watched=False, approved=False)
    for coder in coders:
        frame.graph.add_edge("report", coder)
        frame.act(coder, write, role="coder", to="hand_in", effect=lambda update: RUN)
    frame.join(
        "hand_in",
        frame.step(hand_in),
        to=next_step,
        labels={"next_round": "rounds left", "final_tests": "agreed, or last"},
    )
    frame.join("final_tests", frame.step(tests.final_tests), to="decide")
    return frame.graph


def manner(settings: CodeGen) -> str:
    """Return a phrase that describes how programs are written."""
    held = f"{settings.agents} coders, at most {counted(settings.rounds, 'round')}"
    return f"{held} · sandbox: {settings.sandbox or 'none'}{', unsafe' * settings.unsafe}"


def draw_problems(n: int, settings: CodeGen, seed: int = 0, split: Split | None = None) -> list[Question]:
    """Return the first `n` bundled problems. Seed 0 puts easy problems first; other seeds shuffle them."""
    order = [*problems.bundled_problems()]
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
    shares=frozenset({"pass"}),
    games=Games(
        samples=GAMES["codegen"],
        draw=draw_problems,
        most={"problems": 16},
    ),
    unrolls="in a world, messages depend on earlier actions",
    manner=manner,
    shows="two agents write a small function, judges test and rank what they wrote, and both write it again",
    first={"sandbox": "isolated", "agents": 2, "rounds": 2, "max_tokens": 128},
)
make_graph = SCHEME.make_graph
