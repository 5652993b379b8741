"""Debates between copies of the model: what the last stages learn from.

Messages that the model really says differ from imagined ones: their slips are its own, and so is
their rarity. Where all agents agree on the right answer little can be learnt, so most of those
debates end after the first round.
"""

from __future__ import annotations

import copy
import random

from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

from sottovoce.models import assemble
from sottovoce.prompts.render import Prompts
from sottovoce.training import problems, product
from sottovoce.training.chats import replies
from sottovoce.training.debates import Talk, names
from sottovoce.training.product import Turn, View
from sottovoce.training.skills import agents_of

LONGEST = 100
"""Tokens of a reply, drawn at temperature 1."""
AGREED = 0.3
"""Share of the debates kept in which everybody is right at once."""
SPLIT = 0.35
"""Share of split-knowledge problems."""


def play(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase, n: int, key: str) -> list[Talk]:
    """About n debates of two to four agents, two rounds each; the same ones for the same weights and key."""
    rng, prompts = random.Random(key), Prompts()
    loaded = assemble("the model in training", copy.deepcopy(model), tokenizer)
    talks = [opened(rng) for _ in range(n)]
    for r in range(2):
        places = [(talk, agent) for talk in talks for agent in talk.agents]
        asked = [turns(talk, agent, prompts) for talk, agent in places]
        seeds = [random.Random(f"{key}/{r}/{i}").getrandbits(62) for i in range(len(asked))]
        said = iter(replies(loaded, asked, LONGEST, 1.0, seeds))
        for talk in talks:
            talk.said.append({agent: next(said) for agent in talk.agents})
        if r == 0:
            talks = [talk for talk in talks if not talk.agreed or rng.random() < AGREED]
    loaded.engine.close()
    return talks


def opened(rng: random.Random) -> Talk:
    """A debate in which nothing was said yet."""
    agents = names(agents_of(rng))
    problem = problems.split(rng, agents) if rng.random() < SPLIT else problems.plain(rng, problems.HARDER)
    return Talk(problem, [], agents)


def turns(talk: Talk, agent: str, prompts: Prompts) -> list[Turn]:
    """What an agent reads before it speaks next."""
    return product.history(View(prompts, talk.problem.question, agent), agent, talk.said)
