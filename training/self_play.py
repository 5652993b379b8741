"""Debates between copies of the model: what the last stage learns from.

Messages that the model really says differ from imagined ones: their slips are its own, and so is
their rarity. Where all agents agree on the right answer little can be learnt, so most of those
debates end after the first round.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, Qwen2ForCausalLM

from sottovoce.channels.message import Turn
from sottovoce.nodes.views import View
from sottovoce.prompts.render import Prompts
from sottovoce.training import problems
from sottovoce.training.chats import Encoder
from sottovoce.training.data import agents_of
from sottovoce.training.debates import Talk, names

TEMPERATURE = 1.0
LONGEST = 100
"""Tokens of a reply."""
ROWS = 128
AGREED = 0.3
"""Share of the debates kept in which everybody is right at once."""
SPLIT = 0.35
"""Share of split-knowledge problems."""


def play(model: Qwen2ForCausalLM, encoder: Encoder, n: int, key: str) -> list[Talk]:
    """About n debates of two to four agents, two rounds each; the same ones for the same weights and key."""
    rng, prompts = random.Random(key), Prompts()
    talks = [_open(rng) for _ in range(n)]
    for r in range(2):
        places = [(talk, agent) for talk in talks for agent in talk.agents]
        asked = [encoder.prompt(turns(talk, agent, prompts)) for talk, agent in places]
        texts = [encoder.text(ids) for ids in reply(model, asked, encoder.end, f"{key}/{r}")]
        for talk in talks:
            talk.said.append({})
        for (talk, agent), text in zip(places, texts, strict=True):
            talk.said[r][agent] = text
        if r == 0:
            talks = [talk for talk in talks if not talk.agreed or rng.random() < AGREED]
    return talks


def _open(rng: random.Random) -> Talk:
    agents = names(agents_of(rng))
    problem = problems.split(rng, agents) if rng.random() < SPLIT else problems.plain(rng, problems.HARDER)
    return Talk(problem, [], agents)


def turns(talk: Talk, agent: str, prompts: Prompts) -> list[Turn]:
    """What an agent reads before it speaks next."""
    view = View(prompts, talk.problem.question, agent)
    rounds = range(len(talk.said))
    return view.history([talk.message(r, agent) for r in rounds], [talk.others(r, agent) for r in rounds])


def reply(
    model: Qwen2ForCausalLM, prompts: Sequence[Sequence[int]], end: int, key: str, temperature: float = TEMPERATURE
) -> list[list[int]]:
    """What the model says to each prompt, without the end mark; prompts of similar length run together."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    replies: list[list[int]] = [[] for _ in prompts]
    for at in range(0, len(order), ROWS):
        chosen = order[at : at + ROWS]
        seed = random.Random(f"{key}/{at}").getrandbits(62)
        for i, ids in zip(chosen, _batch(model, [prompts[i] for i in chosen], end, seed, temperature), strict=True):
            replies[i] = ids
    return replies


@torch.inference_mode()
def _batch(
    model: Qwen2ForCausalLM, prompts: Sequence[Sequence[int]], end: int, seed: int, temperature: float
) -> list[list[int]]:
    width = max(map(len, prompts))
    ids = torch.tensor([[end] * (width - len(row)) + list(row) for row in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts], device=model.device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    generator = torch.Generator(model.device).manual_seed(seed)
    cache, said, running = DynamicCache(), [], torch.ones(len(prompts), dtype=torch.bool, device=model.device)
    for _ in range(LONGEST):
        out = model(ids, mask, positions, past_key_values=cache, use_cache=True, logits_to_keep=1)
        ids = _pick(out.logits[:, -1].float(), temperature, generator)
        said.append(ids)
        running &= ids[:, 0] != end
        if not running.any():
            break
        mask = torch.cat([mask, torch.ones_like(ids)], 1)
        positions = positions[:, -1:] + 1
    return [row[: row.index(end)] if end in row else row for row in torch.cat(said, 1).tolist()]


def _pick(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if temperature == 0.0:
        return logits.argmax(-1, keepdim=True)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
