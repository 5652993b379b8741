"""Questions about the bundled encyclopedia, with six passages: the articles that are needed, and distractors.

One sample: "In which town was the author of The Salt Ledger born?", target "Greyholt", with the articles on the
book, on Orla Vance, and on four more books and people. Schemes with retrieval do not show agents these passages.
"""

from __future__ import annotations

import random
from functools import cache

from sottovoce.environments.encyclopedia import LABELS, TYPES, Asked, Type, encyclopedia, questions
from sottovoce.nodes.question import Passage, Question

PASSAGES = 6
"""Passages of a question, dealt to the agents in a discussion where each knows a part (SDE)."""
KINDS = {"fact": "text", "bridge": "text", "comparison": "text", "strategy": "yes_no", "claim": "label"}
CLAIM = (
    "A claim is held against what is known: SUPPORTS where that says so, REFUTES where it says otherwise, "
    "NOT ENOUGH INFO where it says neither."
)
SOURCE = "encyclopedia"


def about_the_world(type: Type | None, n: int, seed: int = 0) -> list[Question]:
    """Return the first `n` questions of a type, or of all types in turn, shuffled by the seed."""
    name = "world" if type is None else f"world/{type}"
    return [_question(f"{name}/{seed}/{i}", asked) for i, asked in enumerate(_order(type, seed)[:n])]


@cache
def _order(type: Type | None, seed: int) -> list[Asked]:
    if type is None:
        return [asked for row in zip(*(_order(each, seed) for each in TYPES), strict=False) for asked in row]
    found = list(questions(type))
    random.Random(f"world/{type}/{seed}").shuffle(found)
    return found


def _question(id: str, template: Asked) -> Question:
    world = encyclopedia()
    sentences = [world.by_title[title].sentences[at] for title, at in template.gold if at is not None]
    why = sentences or [f"The article on {template.gold[0].title} does not tell."]
    question = Question(
        id=id,
        question=template.text,
        kind=KINDS[template.type],
        target=template.answer,
        solution=f"{' '.join(why)} The answer is {template.answer}.",
        gold_passages=list(dict.fromkeys(title for title, _ in template.gold)),
        documents=passages(template),
    )
    return {**question, "choices": [*LABELS], "description": CLAIM} if template.type == "claim" else question


def passages(template: Asked) -> list[Passage]:
    """Return the gold articles and others of their kinds, shuffled, the same ones for the same question."""
    world, rng = encyclopedia(), random.Random(template.text)
    gold = [world.by_title[title] for title in dict.fromkeys(title for title, _ in template.gold)]
    kinds = {article.kind for article in gold}
    others = [article for article in world.articles if article.kind in kinds and article not in gold]
    mixed = [*gold, *rng.sample(others, PASSAGES - len(gold))]
    rng.shuffle(mixed)
    return [{"id": each.title, "title": each.title, "text": each.text, "source": SOURCE} for each in mixed]
