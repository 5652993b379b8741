"""The stages' diets, and batches made from them: pure functions of (seed, stage, number)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from sottovoce.prompts.render import Prompts
from sottovoce.training import copying, debates, problems
from sottovoce.training.chats import Chat, Encoded, Encoder
from sottovoce.training.roles import RoleSkill, makers
from sottovoce.training.sources import Source

OldSkill = Literal[
    "repeat", "look_up", "single", "yes_no", "debate", "verify", "hard", "split", "split_single", "summary", "on_policy"
]
Skill = OldSkill | RoleSkill
Diet = Mapping[Skill, float]

DIETS: dict[str, Diet] = {
    "copy": {"repeat": 0.45, "look_up": 0.55},
    "basics": {
        "repeat": 0.03,
        "look_up": 0.05,
        "single": 0.60,
        "yes_no": 0.03,
        "debate": 0.08,
        "verify": 0.01,
        "hard": 0.03,
        "split": 0.10,
        "split_single": 0.04,
        "summary": 0.03,
    },
    "discussion": {
        "repeat": 0.01,
        "look_up": 0.03,
        "single": 0.45,
        "yes_no": 0.02,
        "debate": 0.04,
        "verify": 0.01,
        "hard": 0.03,
        "split": 0.07,
        "split_single": 0.03,
        "summary": 0.03,
        "on_policy": 0.28,
    },
    "roles": {
        "repeat": 0.01,
        "look_up": 0.02,
        "single": 0.55,
        "debate": 0.03,
        "verify": 0.01,
        "hard": 0.02,
        "split": 0.05,
        "split_single": 0.02,
        "summary": 0.02,
        "on_policy": 0.03,
        "compare": 0.25,
        "claim": 0.04,
        "label": 0.04,
        "option": 0.05,
        "dressed": 0.04,
        "form_debate": 0.03,
        "mad_debater": 0.03,
        "mad_moderator": 0.05,
        "mad_judge": 0.03,
        "reconcile_first": 0.02,
        "reconcile": 0.03,
        "reconcile_convinced": 0.01,
        "cmd_first": 0.01,
        "cmd": 0.03,
        "cmd_secretary": 0.01,
        "repair": 0.02,
    },
}
"""Shares of chats. Copying comes first and never leaves; single problems stay above 35 %."""

BATCH = 2400
"""Tokens of a batch, padding included."""
CHUNK = 16
"""Batches that are drawn together and sorted by length, so that little is padded."""
JUMPS = 0.1
"""Share of rows whose positions leap somewhere, as if the chat were longer."""
LEAP = 1200


class Cook:
    """Makes chats of a diet."""

    def __init__(self, diet: Diet, talks: Sequence[debates.Talk] = (), prompts: Prompts | None = None) -> None:
        """`talks` are debates between copies of the model itself; `prompts` the files in force, ours if None."""
        self.diet, self.talks, self.prompts = diet, talks, prompts or Prompts()
        self.tops = problems.HARDER if talks else problems.TOPS
        self.makers: dict[str, Callable[[random.Random], Chat]] = {
            "repeat": copying.repeat,
            "look_up": copying.look_up,
            "single": lambda rng: debates.alone(problems.plain(rng, self.tops), "agent_1", self.prompts),
            "yes_no": lambda rng: debates.alone(problems.claim(rng), "agent_1", self.prompts),
            "debate": self._debate,
            "verify": self._verify,
            "hard": self._hard,
            "split": self._split,
            "split_single": self._split_single,
            "summary": self._summary,
            "on_policy": self._on_policy,
            **makers(Source(self.prompts, self.tops, talks)),
        }

    def chat(self, rng: random.Random) -> Chat:
        """One chat."""
        (skill,) = rng.choices(list(self.diet), list(self.diet.values()))
        return self.makers[skill](rng)

    def _debate(self, rng: random.Random) -> Chat:
        agents = debates.names(agents_of(rng))
        talk = debates.imagined(rng, problems.plain(rng, self.tops), agents, _rounds(rng), slips=0.4)
        return debates.seen(rng, talk, rng.choice(agents), self.prompts)

    def _verify(self, rng: random.Random) -> Chat:
        agents = debates.names(1)
        problem = rng.choice((problems.plain(rng, self.tops), problems.split(rng, debates.names(2))))
        talk = debates.imagined(rng, problem, agents, _rounds(rng), slips=0.3)
        return debates.in_history(talk, agents[0], self.prompts)

    def _hard(self, rng: random.Random) -> Chat:
        problem, agents = problems.hard(rng), debates.names(agents_of(rng))
        if rng.random() < 0.2:
            return debates.alone(problem, agents[0], self.prompts)
        talk, me = debates.told_by_one(rng, problem, agents, min(_rounds(rng), 2))
        return debates.seen(rng, talk, me, self.prompts)

    def _split(self, rng: random.Random) -> Chat:
        agents = debates.names(agents_of(rng))
        talk = debates.imagined(rng, problems.split(rng, agents), agents, _rounds(rng), slips=0.15)
        return debates.seen(rng, talk, rng.choice(agents), self.prompts)

    def _split_single(self, rng: random.Random) -> Chat:
        agents = debates.names(agents_of(rng))
        return debates.alone(problems.split(rng, agents), rng.choice((None, None, rng.choice(agents))), self.prompts)

    def _summary(self, rng: random.Random) -> Chat:
        agents = debates.names(agents_of(rng))
        problem = problems.plain(rng, self.tops) if rng.random() < 0.5 else problems.split(rng, agents)
        talk = debates.imagined(rng, problem, agents, rng.choice((1, 1, 2)), slips=0.3)
        make = rng.choice((debates.summed_up, debates.in_summaries))
        return make(talk, rng.choice(agents), self.prompts)

    def _on_policy(self, rng: random.Random) -> Chat:
        talk = rng.choice(self.talks)
        cut = debates.Talk(talk.problem, talk.said[: rng.randint(1, len(talk.said))], talk.agents)
        return debates.seen(rng, cut, rng.choice(talk.agents), self.prompts)


def agents_of(rng: random.Random) -> int:
    """How many agents a debate has."""
    return rng.choices((2, 3, 4), (0.55, 0.35, 0.1))[0]


def _rounds(rng: random.Random) -> int:
    return rng.choices((1, 2, 3), (0.5, 0.46, 0.04))[0]


@dataclass(frozen=True)
class Batch:
    """Rows of equal padded length; `targets` is -100 where nothing is learnt."""

    ids: Tensor  # (b, t)
    positions: Tensor  # (b, t)
    targets: Tensor  # (b, t): targets[:, i] follows ids[:, i]
    tokens: int


class Chunks(Dataset[list[Batch]]):
    """Chunk k of a stage: a few batches, the same ones whenever and wherever they are made."""

    def __init__(self, seed: int, stage: str, encoder: Encoder, talks: Sequence[debates.Talk] = ()) -> None:
        """The stage's name picks its diet."""
        self.key, self.encoder, self.cook = f"{seed}/{stage}", encoder, Cook(DIETS[stage], talks)

    def __getitem__(self, k: int) -> list[Batch]:
        """Chunk k."""
        rng = random.Random(f"{self.key}/{k}")
        rows: list[Encoded] = []
        while sum(len(row.ids) for row in rows) < BATCH * CHUNK:
            rows.append(self.encoder(self.cook.chat(rng)))
        batches = [pad(rng, rows, self.encoder.pad) for rows in by_length(rows)]
        rng.shuffle(batches)
        return batches


def by_length(rows: list[Encoded]) -> list[list[Encoded]]:
    """Rows of similar length together, each group within the size of a batch."""
    groups: list[list[Encoded]] = []
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if not groups or (len(groups[-1]) + 1) * len(row.ids) > BATCH:
            groups.append([])
        groups[-1].append(row)
    return groups


def pad(rng: random.Random, rows: Sequence[Encoded], filler: int) -> Batch:
    """One batch, padded on the right: with causal attention no mask is needed there."""
    width = max(len(row.ids) for row in rows)
    ids = torch.full((len(rows), width), filler)
    targets = torch.full((len(rows), width), -100)
    positions = torch.arange(width).repeat(len(rows), 1)
    for r, row in enumerate(rows):
        n = len(row.ids)
        ids[r, :n] = torch.tensor(row.ids)
        learnt = torch.tensor(row.learnt[1:])
        targets[r, : n - 1] = torch.where(learnt, ids[r, 1:n], targets[r, : n - 1])
        if rng.random() < JUMPS:
            positions[r, rng.randrange(n) :] += rng.randint(1, LEAP)
    return Batch(ids, positions, targets, sum(len(row.ids) for row in rows))


def corpus(seed: int, n: int = 3000) -> list[str]:
    """Texts for the tokenizer: prompts as they are rendered, and what is said in them."""
    rng = random.Random(f"{seed}/tokenizer")
    cook = Cook({skill: share for skill, share in DIETS["basics"].items() if skill != "repeat"})
    turns = [turn for _ in range(n) for turn in cook.chat(rng).turns]
    texts = [part if isinstance(part, str) else part.text for turn in turns for part in turn.parts]
    return [*texts, *[f"{role}\n" for role in ("system", "user", "assistant")] * n, *wordings(cook.prompts)]


def wordings(prompts: Prompts) -> list[str]:
    """The lines that ask for the other forms of an answer."""
    forms = [name for name in prompts.names() if name.startswith("answers/")]
    return [str(part) for name in forms for part in prompts.render(name, steps=True)] * 20
