"""Questions of each kind for a small real model: multiple choice, claims, evidence, trivia, sums."""

from __future__ import annotations

import random
from collections.abc import Iterator

from sottovoce.datasets.facts import two_facts
from sottovoce.nodes.question import Question

KINDS = ("number", "option", "yes_no", "label", "text")
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


def small_questions(kind: str, n: int) -> Iterator[Question]:
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
