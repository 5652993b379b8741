"""The material of roles: problems in all formats, their components, and messages of agents, imagined or on-policy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sottovoce.datasets.arithmetic import Split
from sottovoce.prompts.kinds import lettered
from sottovoce.prompts.render import Prompts
from sottovoce.training import problems
from sottovoce.training.debates import Talk
from sottovoce.training.problems import FORMS, Form, Problem, pose, spoilt
from sottovoce.training.product import COMPONENTS, PromptBuilder, Question, documents_of

SHARES: dict[Form, float] = {"number": 0.46, "yes_no": 0.18, "label": 0.18, "option": 0.18}
ON_POLICY = 0.3  # share of discussions with real messages of copies of the model
FOLLOWS = 0.2  # share of statements that repeat another agent's wrong one
DESCRIPTIONS = (
    "These are questions about sums and products.",
    "Work out an expression. Products come before sums.",
    "Each question has one right answer.",
    "Letters stand for whole numbers.",
    "The task: arithmetic in several steps.",
)
SYSTEMS = (
    "You are a careful mathematician.",
    "You are a helpful assistant.",
    "Answer briefly.",
    "You check each step twice.",
    "You are agent 2 of a team.",
)
Naming = Callable[[int], list[str]]


@dataclass(frozen=True)
class Source:
    """The source of problems and talks; equal random states give equal draws."""

    prompts: Prompts
    tops: Sequence[int] = problems.TOPS
    talks: Sequence[Talk] = ()
    """Debates between copies of the model."""
    part: Split = "train"

    def form(self, rng: random.Random) -> Form:
        """Return one of the answer formats."""
        return rng.choices(FORMS, [SHARES[form] for form in FORMS])[0]

    def alone(self, rng: random.Random, form: Form, agents: Sequence[str] = ("agent_1", "agent_2")) -> Problem:
        """Return a problem in this format; sometimes with documents, which its agents share or not."""
        return pose(rng, self._problem(rng, agents), form)

    def talk(self, rng: random.Random, naming: Naming, n: int, rounds: int, *, in_turn: bool = False) -> Talk:
        """Return a discussion of about `rounds` rounds between about n agents.

        With `in_turn`, an agent has heard those that speak before it in a round, as in MAD.
        """
        if self.talks and rng.random() < ON_POLICY:
            return renamed(rng.choice(self.talks), naming, rounds)
        agents = naming(n)
        return argued(rng, pose(rng, self._problem(rng, agents), self.form(rng)), agents, rounds, in_turn=in_turn)

    def view(self, rng: random.Random, problem: Problem, me: str | None, share: float = 0.03) -> PromptBuilder:
        """Return the prompt builder of `me` (None has all documents), with each component in `share` of the chats."""
        question: Question = {**problem.question}
        if rng.random() < share:
            question["description"] = rng.choice(DESCRIPTIONS)
        if rng.random() < share:
            question["demonstrations"] = [_demonstration(rng, problem)]
        if rng.random() < share:
            slip = problem.slip(rng) if rng.random() < 0.5 else (0, 0)
            question["starting_views"] = {me or "agent_1": problem.answer_sentence(list(problem.facts), slip)}
        off = {"answer_description"} if rng.random() < share else set[str]()
        system = rng.choice(SYSTEMS) if rng.random() < share else ""
        shown = frozenset(COMPONENTS) - off
        return PromptBuilder(self.prompts, question, me, system, me or "agent_1", shown, answers="sentence")

    def _problem(self, rng: random.Random, agents: Sequence[str]) -> Problem:
        kind = rng.random()
        if kind < 0.05 and self.part == "train":
            return problems.hard(rng)
        return problems.split(rng, agents, self.part) if kind < 0.25 else problems.plain(rng, self.tops, self.part)


def argued(rng: random.Random, problem: Problem, agents: Sequence[str], rounds: int, *, in_turn: bool) -> Talk:
    """Return an imagined discussion: agents are right, slip, follow a wrong answer, or are unreadable."""
    said: list[dict[str, str]] = []
    slips = rng.choice((0.15, 0.3, 0.5))
    expert = rng.choice(agents)
    is_hard = any(not name.isalpha() for name in problem.facts)
    for r in range(rounds):
        before, spoken = [text for earlier in said for text in earlier.values()], dict[str, str]()
        for agent in agents:
            heard = [*documents_of(problem.question, agent), *before, *(spoken.values() if in_turn else ())]
            known = list(problem.facts) if agent == expert and is_hard else problem.known(heard)
            spoken[agent] = problem.reply(known, problem.slip(rng) if rng.random() < slips / (r + 1) else (0, 0))
            wrong = [text for text in heard if _is_wrong(problem, text)]
            if wrong and rng.random() < FOLLOWS:
                spoken[agent] = rng.choice(wrong)
            if rng.random() < 0.02:
                spoken[agent] = spoilt(rng, spoken[agent])
        said.append(spoken)
    return Talk(problem, said, list(agents))


def renamed(talk: Talk, naming: Naming, rounds: int) -> Talk:
    """Return a talk between copies of the model with other names of its agents."""
    new = dict(zip(talk.agents, naming(len(talk.agents)), strict=True))
    question: Question = {**talk.problem.question}
    if isinstance(documents := question.get("documents"), dict):
        question["documents"] = {new[agent]: lines for agent, lines in documents.items()}
    said = [{new[agent]: text for agent, text in spoken.items()} for spoken in talk.said[:rounds]]
    return Talk(replace(talk.problem, question=question), said, list(new.values()))


def _is_wrong(problem: Problem, text: str) -> bool:
    answer = problem.read(text)
    return answer is not None and answer.lower() != problem.stated(list(problem.facts)).lower()


def _demonstration(rng: random.Random, problem: Problem) -> str:
    shown = pose(rng, problems.plain(rng), problem.form)
    lines = [shown.question["question"], *lettered(shown.offered)]
    return "\n".join([*lines, shown.reply([])])
