"""`python -m benchmarks.replies KIND`: replies of a real model to questions of a kind, one JSON object per line.

The questions are our own, the prompts those of the product; the first half is answered greedily, the rest sampled at
T = 0.7. People label the replies (tests/prompts/replies), which then test the answer parsers.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator

from sottovoce.channels.message import Turn
from sottovoce.datasets.arithmetic import questions
from sottovoce.datasets.facts import two_facts
from sottovoce.models import Ids, LoadedModel, Request, Sampling, Stop, load
from sottovoce.nodes.prompt_builder import PromptBuilder
from sottovoce.nodes.question import Question
from sottovoce.prompts.render import Prompts

LONGEST = 72
LABELS = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
CHOICES = """Which of these is a fruit?|apple|hammer|chair|river
Which animal can fly?|eagle|dog|trout|cow
What is the capital of France?|Paris|Berlin|Madrid|Rome
Which is the largest?|an elephant|a mouse|a cat|a horse
Which of these is a colour?|blue|table|bread|shoe
What do bees make?|honey|milk|wool|bread
Where do fish live?|in water|in trees|in the sky|in caves
Which of these is hot?|fire|ice|snow|rain
Which one is a vegetable?|carrot|spoon|car|stone
Which day comes after Monday?|Tuesday|Sunday|Friday|Saturday
What do we use to write?|a pencil|a pillow|a plate|a lamp
Which planet do we live on?|Earth|Mars|Venus|Jupiter
What is frozen water called?|ice|steam|sand|oil
Which of these is a musical instrument?|violin|ladder|bucket|carpet
How many legs does a spider have?|eight|six|four|ten
Which season is the coldest?|winter|summer|spring|autumn
What do cows drink as calves?|milk|tea|juice|coffee
Which of these can you read?|a book|a fork|a sock|a brick
Who flies an aeroplane?|a pilot|a baker|a tailor|a nurse
Which is a shape?|a triangle|a potato|a window|a song"""
CLAIMS = """Paris is in France.|yes
The sun is cold.|no
Fish live in water.|yes
A cat is a plant.|no
Seven is greater than five.|yes
Pigs can fly.|no
Ice is cold.|yes
Berlin is in Spain.|no
A week has seven days.|yes
Milk is black.|no
Birds have feathers.|yes
A triangle has four sides.|no
Rain falls from clouds.|yes
The moon is made of cheese.|no
Bread is made from flour.|yes
Snakes have legs.|no
Gold is a metal.|yes
Spiders have six legs.|no
The heart pumps blood.|yes
Winter is warmer than summer.|no"""
EVIDENCE = """The Rhine is a river in Europe.|The Rhine flows from Switzerland to the Netherlands.|SUPPORTS
Mount Everest is in Africa.|Mount Everest lies on the border of Nepal and China.|REFUTES
Mira owns a boat.|Mira was born in 1970.|NOT ENOUGH INFO
The bridge was built in 1932.|Work on the bridge ended in 1932.|SUPPORTS
The film was a success.|The film was shot in Oslo.|NOT ENOUGH INFO
Tobin is a baker.|Tobin has worked as a tailor all his life.|REFUTES
The lake is deep.|The lake is 300 metres deep.|SUPPORTS
The library is closed on Monday.|The library is open every day of the week.|REFUTES
Ada speaks French.|Ada lives in a small house.|NOT ENOUGH INFO
The town has a market.|Every Friday there is a market in the town.|SUPPORTS"""
TRIVIA = """What is the capital of Italy?|Rome
What do bees make?|honey
Which animal barks?|dog
What colour is grass?|green
Which planet is known as the red planet?|Mars
Who wrote Romeo and Juliet?|Shakespeare
What is frozen water called?|ice
In which country is Tokyo?|Japan
Which metal do magnets attract?|iron
Which season comes after winter?|spring"""
STORIES = (
    "A shelf holds {a} boxes with {b} cups each. How many cups are on the shelf?",
    "Ilse has {c} apples and gives {a} away. How many apples does she have left?",
    "What is {a} + {b} + {c}?",
    "A pencil costs {a} euros and a book costs {c} euros. How much do both cost?",
    "A train runs {c} kilometres in an hour. How far does it run in {a} hours?",
)


def asked(kind: str, n: int) -> Iterator[Question]:
    """Yield questions of a kind in a fixed random order."""
    rng = random.Random(f"replies/{kind}")
    for i in range(n):
        yield _MADE[kind](rng, i)


def _number(rng: random.Random, i: int) -> Question:
    a, b, c = rng.randint(2, 9), rng.randint(2, 9), rng.randint(10, 40)
    target = (a * b, c - a, a + b + c, a + c, a * c)[i % 5]
    return Question(question=STORIES[i % 5].format(a=a, b=b, c=c), kind="number", target=str(target))


def _option(rng: random.Random, i: int) -> Question:
    text, right, *wrong = rng.choice(CHOICES.splitlines()).split("|")
    choices = rng.sample([right, *wrong], 4)
    return Question(question=text, kind="option", choices=choices, target="ABCD"[choices.index(right)])


def _yes_no(rng: random.Random, i: int) -> Question:
    claim, target = rng.choice(CLAIMS.splitlines()).split("|")
    return Question(question=f"Is this true? {claim}", kind="yes_no", target=target)


def _label(rng: random.Random, i: int) -> Question:
    claim, evidence, target = rng.choice(EVIDENCE.splitlines()).split("|")
    text = f"Evidence: {evidence} Claim: {claim} What does the evidence say about the claim?"
    return Question(question=text, kind="label", choices=LABELS, target=target)


def _text(rng: random.Random, i: int) -> Question:
    if i % 2:
        text, target = rng.choice(TRIVIA.splitlines()).split("|")
        return Question(question=text, kind="text", target=target)
    made = two_facts(1, ("agent_1",), seed=1000 + i)[0]
    return {**made, "documents": made["documents"]["agent_1"]}  # type: ignore[call-overload]


_MADE = {"number": _number, "option": _option, "yes_no": _yes_no, "label": _label, "text": _text}


def replied(loaded: LoadedModel, turns: list[tuple[Turn, ...]], temperature: float) -> list[str]:
    """Return one reply to each chat."""
    requests = []
    for i, chat in enumerate(turns):
        (ids,) = loaded.chat.encode(chat)
        assert isinstance(ids, tuple)
        sampling = Sampling(temperature=temperature, seed=i)
        requests.append(Request((Ids(ids),), Stop(LONGEST, loaded.stop_ids), sampling=sampling))
    return [loaded.detokenizer(special=False).text(reply.ids) for reply in loaded.engine.run_all(requests)]


def main() -> None:
    """Ask the questions, and print the replies."""
    parser = argparse.ArgumentParser("python -m benchmarks.replies", description=__doc__)
    parser.add_argument("kind", choices=list(_MADE))
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--model", default="smollm2")
    given = parser.parse_args()
    made, prompts = list(asked(given.kind, given.n)), Prompts()
    if given.model == "bundled" and given.kind == "number":
        made = list(questions(given.n, 7))
    chats = [PromptBuilder(prompts, question, None, answers="sentence").independent() for question in made]
    half = len(chats) // 2
    loaded = load(given.model)
    texts = replied(loaded, chats[:half], 0.0) + replied(loaded, chats[half:], 0.7)
    for question, text in zip(made, texts, strict=True):
        kept = {name: question.get(name) for name in ("kind", "question", "choices", "target") if question.get(name)}
        sys.stdout.write(json.dumps({"model": given.model, **kept, "text": text}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
