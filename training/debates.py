"""Debates as training data, imagined or between copies of the model, as seen by one of the agents.

Real messages of the model differ from imagined ones: in the kinds of its slips and in their frequency. If all agents
agree on the right answer, there is little to learn, so most of those debates end after the first round.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sottovoce.models import assemble
from sottovoce.prompts.render import Prompts
from sottovoce.training import problems, product
from sottovoce.training.data import Chat, replies
from sottovoce.training.problems import Problem
from sottovoce.training.product import (
    Order,
    Place,
    PromptBuilder,
    Said,
    Turn,
    documents_of,
    in_words,
    seen_by,
    trained_prompts,
)

FRESH, REORDERED = 0.15, 0.15
"""Shares of chats with one prompt per round, and of others that restate the agent's own answer with the others'."""
LONGEST = 100  # maximum tokens of a reply of the model in training, drawn at temperature 1
AGREED = 0.3  # share of its debates that are kept although all agents are right at once
SPLIT = 0.35  # share of split-knowledge problems in its debates


@dataclass(frozen=True)
class Talk:
    """A problem, and what each agent said in each round: `said[round][agent]`."""

    problem: Problem
    said: list[dict[str, str]]
    agents: list[str]


def names(n: int) -> list[str]:
    """Return the names of a debate's agents."""
    return [f"agent_{i + 1}" for i in range(n)]


def some(rng: random.Random) -> list[str]:
    """Return two to four names."""
    return names(rng.choices((2, 3, 4), (0.55, 0.35, 0.1))[0])


def imagined(rng: random.Random, problem: Problem, agents: Sequence[str], rounds: int, slips: float) -> Talk:
    """Return an imagined debate: in each round, each agent gives the right reply or slips."""
    said: list[dict[str, str]] = []
    for r in range(rounds):
        before, spoken = [text for earlier in said for text in earlier.values()], {}
        for agent in agents:
            known = problem.known([*documents_of(problem.question, agent), *before])
            slipped = rng.random() < (slips if r == 0 else slips / 2)
            spoken[agent] = problem.reply(known, problem.slip(rng) if slipped else (0, 0))
        said.append(spoken)
    return Talk(problem, said, list(agents))


def played(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, n: int, key: str) -> list[Talk]:
    """Return about n debates between copies of a model, of two rounds each, determined by the weights and the key."""
    rng, prompts = random.Random(key), trained_prompts()
    loaded = assemble("the model in training", copy.deepcopy(model), tokenizer)
    talks = [opened(rng) for _ in range(n)]
    for r in range(2):
        places = [Place(turns(talk, agent, prompts)) for talk in talks for agent in talk.agents]
        seeds = [random.Random(f"{key}/{r}/{i}").getrandbits(62) for i in range(len(places))]
        said = iter(replies(loaded, places, LONGEST, 1.0, seeds))
        for talk in talks:
            talk.said.append({agent: next(said) for agent in talk.agents})
        talks = talks if r else [talk for talk in talks if not _agreed(talk) or rng.random() < AGREED]
    loaded.engine.close()
    return talks


def opened(rng: random.Random) -> Talk:
    """Return a debate before its first message."""
    agents = some(rng)
    problem = problems.split(rng, agents) if rng.random() < SPLIT else problems.plain(rng, problems.HARDER)
    return Talk(problem, [], agents)


def turns(talk: Talk, agent: str, prompts: Prompts) -> Sequence[Turn]:
    """Return the turns that an agent reads before it speaks next."""
    return product.history(seen_by(agent, talk.problem.question, prompts), talk.said)


def _agreed(talk: Talk) -> bool:
    """Return True if all agents gave exactly the right reply in the last round, with all facts known."""
    right = talk.problem.reply(list(talk.problem.facts))
    return all(text == right for text in talk.said[-1].values())


def next_of(problem: Problem, me: str | None, statements: Iterable[tuple[str, str]]) -> tuple[str, frozenset[int]]:
    """Return the right reply of `me` after the statements (agent, text), and which of its own were right then."""
    context, own, right = documents_of(problem.question, me), 0, set[int]()
    for agent, text in statements:
        if agent == me:
            right |= {own} if text == problem.reply(problem.known(context)) else set()
            own += 1
        context = [*context, text]
    return problem.reply(problem.known(context)), frozenset(right)


def alone(problem: Problem, view: PromptBuilder) -> Chat:
    """Return the chat of the question alone, for one agent or for one that has all documents."""
    return Chat(in_words(view), problem.reply(problem.known(view.documents())))


def in_history(talk: Talk, me: str, prompts: Prompts, order: Order | None = None, *, summed_up: bool = False) -> Chat:
    """Return the whole chat of one agent, which hears the others' answers or summaries of them."""
    view = seen_by(me, talk.problem.question, prompts)
    summaries = [summary(talk.problem, me, spoken) for spoken in talk.said] if summed_up else []
    heard = [{"summary": text} for text in summaries] or talk.said
    rounds = [{me: spoken[me], **others} for spoken, others in zip(talk.said, heard, strict=True)]
    statements = [statement for spoken in rounds for statement in spoken.items()]
    turns = product.history(view, talk.said, order, summaries)
    right, lessons = next_of(talk.problem, me, statements)
    # After a fact-sharing round the chat lacks that message: own messages are counted from those that are left.
    left_out = len(talk.said) - sum(turn.role == "assistant" for turn in turns)
    return Chat(Place(turns), right, frozenset(n - left_out for n in lessons if n >= left_out))


def seen(rng: random.Random, talk: Talk, me: str, prompts: Prompts) -> Chat:
    """Return the debate as `me` saw it, in one of the forms that prompts have."""
    order: Order | None = rng.choice(("others_first", "own_first"))
    if rng.random() < FRESH and len(talk.said[-1]) > 1:
        view, last = seen_by(me, talk.problem.question, prompts), talk.said[-1]
        right, _ = next_of(talk.problem, me, last.items())
        return Chat(Place(product.fresh(view, last, rng.choice((None, order)))), right)
    return in_history(talk, me, prompts, order if rng.random() < REORDERED else None)


def summary(problem: Problem, me: str, spoken: Said) -> str:
    """Return a summary of the others' answers, or of the values they tell if none has an answer."""
    texts = [text for name, text in spoken.items() if name != me]
    values = [problem.read(text) for text in texts]
    known = [name for name in problem.known(texts) if name.isalpha()]
    if known and not any(values):
        return "; ".join(f"{name} = {problem.facts[name]}" for name in known) + "."
    *words, last = [value or "unknown" for value in values]
    return f"The agents answer {', '.join(words)} and {last}." if words else f"The agent answers {last}."
