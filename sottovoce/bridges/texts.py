"""The texts that a bridge is fitted on, with requests about them: nothing of it is shipped or downloaded.

There are three kinds. Lists of words teach rare names: the words come from the two tokenizers' vocabularies. Invented
facts come with questions about them; their relations and wordings occur in none of the samples of `datasets.facts`, so
that a fit can be tested on those. Natural sentences come from the bundled encyclopedia, or from a file of the user's.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sottovoce.core.errors import SottovoceError, UsageError
from sottovoce.models import LoadedModel

PLAIN = re.compile(r"[Ġ▁ ]?([a-z]{3,9})")
"""A word or its end as a token of a vocabulary; the first sign, if any, stands for a space."""
ENOUGH = 50  # words, below which names are made of syllables alone
SYLLABLES = "ba do fen gil har ik jo kel lum mar nev or pas quin ro sel tan ul ven wy zor".split()
FACTS: Sequence[tuple[str, *tuple[tuple[str, str], ...]]] = (  # a fact, questions about it with what they ask for
    ("The boat of {person} is named {name}.", ("What is the boat of {person} named?", "{name}")),
    ("{person} chose the password {word}.", ("Which password did {person} choose?", "{word}")),
    ("{person} ordered {word} for lunch.", ("What did {person} order for lunch?", "{word}")),
    ("The train to {place} leaves from platform {number}.",
     ("From which platform does the train to {place} leave?", "{number}"),
     ("Where does the train from platform {number} go?", "{place}")),
    ("Room {number} belongs to {person}.", ("Which room belongs to {person}?", "{number}"),
     ("To whom does room {number} belong?", "{person}")),
    ("{person} wrote a book about {word}.", ("What did {person} write a book about?", "{word}"),
     ("Who wrote a book about {word}?", "{person}")),
    ("{place} Limited makes {word}.", ("What does {place} Limited make?", "{word}")),
    ("The dog that {person} walks is {name}.", ("What is the name of the dog that {person} walks?", "{name}")),
    ("{person} drove {number} miles yesterday.", ("How many miles did {person} drive yesterday?", "{number}")),
    ("{person} paid {number} coins for the ticket.", ("How many coins did {person} pay for the ticket?", "{number}")),
    ("The wall around {place} is built of {word}.", ("What is the wall around {place} built of?", "{word}")),
    ("The teacher of {person} was {name} {other}.", ("Who was the teacher of {person}?", "{name} {other}")),
    ("At night, {person} dreams of {word}.", ("What does {person} dream of at night?", "{word}")),
    ("The signal for {place} is {word}.", ("What is the signal for {place}?", "{word}")),
    ("{person} sent the letter to {name}.", ("To whom did {person} send the letter?", "{name}")),
    ("In the club, {person} has the nickname {name}.", ("Which nickname does {person} have in the club?", "{name}")),
    ("The shop of {person} sells {word}.", ("What does the shop of {person} sell?", "{word}")),
    ("{person} collects {word}.", ("What does {person} collect?", "{word}")),
    ("There are {number} lamps in {place}.", ("How many lamps are there in {place}?", "{number}")),
    ("{person} studies {word} at the school of {place}.", ("What does {person} study?", "{word}"),
     ("At the school of which place does {person} study?", "{place}")),
    ("The cat of {person} sleeps under the {word}.", ("What does the cat of {person} sleep under?", "the {word}")),
    ("The code for the gate of {place} is {number}.", ("What is the code for the gate of {place}?", "{number}")),
    ("{person} met {name} {other} in {place}.", ("Whom did {person} meet in {place}?", "{name} {other}"),
     ("Where did {person} meet {name} {other}?", "{place}")),
    ("The cook at {place} puts {word} in every dish.", ("What does the cook at {place} put in every dish?", "{word}")),
    ("{person} lost {number} buttons.", ("How many buttons did {person} lose?", "{number}")),
    ("The flag of {place} shows a {word}.", ("What does the flag of {place} show?", "a {word}")),
    ("{person} is afraid of {word}.", ("What is {person} afraid of?", "{word}")),
    ("Bus {number} stops in {place}.", ("Which bus stops in {place}?", "{number}"),
     ("Where does bus {number} stop?", "{place}")),
    ("{name} is the captain of the team of {place}.", ("Who is the captain of the team of {place}?", "{name}")),
    ("For the winter, {place} stored {number} sacks of {word}.",
     ("How many sacks did {place} store for the winter?", "{number}"),
     ("What did {place} store for the winter?", "{word}")),
    ("{person} repaired the {word} of {name}.", ("What did {person} repair?", "the {word} of {name}"),
     ("For whom did {person} repair the {word}?", "{name}")),
    ("The museum of {place} owns {number} paintings.",
     ("How many paintings does the museum of {place} own?", "{number}")),
    ("{person} married {name} {other}.", ("Whom did {person} marry?", "{name} {other}")),
    ("{person} grows {word} in the garden.", ("What does {person} grow in the garden?", "{word}")),
    ("The secret of the soup {name} is {word}.", ("What is the secret of the soup {name}?", "{word}")),
    ("Bottle {number} contains {word}.", ("What does bottle {number} contain?", "{word}"),
     ("Which bottle contains {word}?", "{number}")),
    ("{person} won {number} games against {name}.", ("How many games did {person} win against {name}?", "{number}"),
     ("Against whom did {person} win {number} games?", "{name}")),
    ("The uncle of {person} sails to {place}.", ("Where does the uncle of {person} sail to?", "{place}")),
    ("According to the list, {person} brings {word}.", ("What does {person} bring according to the list?", "{word}")),
    ("Of all drinks, {person} likes {word} most.", ("Which drink does {person} like most?", "{word}")),
    ("{name} guards the tower of {place}.", ("Who guards the tower of {place}?", "{name}"),
     ("Which tower does {name} guard?", "the tower of {place}")),
    ("In her left hand, {person} holds a {word}.", ("What does {person} hold in her left hand?", "a {word}")),
)  # fmt: skip
SHORTLY = ("", " Answer with a few words.", " Give the answer only.")
IN_A_SENTENCE = ("", " Reply in one short sentence.", " State the answer from the notes above.")
REPEAT = "Repeat the text above."
LONGEST = 400  # characters of a natural text
ASKED = re.compile("born in|known for|lies on the river")
"""Wordings of the samples in the encyclopedia."""


@dataclass(frozen=True)
class Lesson:
    """A text, and requests about it with the replies that are wanted."""

    text: str
    asked: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Texts:
    """A source of lessons: the words of both vocabularies, and natural texts."""

    words: Sequence[str]
    natural: Sequence[str]

    @classmethod
    def of(cls, sender: LoadedModel, receiver: LoadedModel, file: Path | None = None) -> Texts:
        """Collect the words of two models, and the texts of a file, or of the encyclopedia."""
        vocabularies = [loaded.tokenizer.get_vocab() for loaded in (sender, receiver)]
        found = [{match[1] for token in each if (match := PLAIN.fullmatch(token))} for each in vocabularies]
        shared = found[0] & found[1]
        return cls(sorted(shared if len(shared) >= ENOUGH else found[0] | found[1]), natural_texts(file))

    def lessons(self, rng: random.Random) -> Iterator[Lesson]:
        """Yield lessons without end: of five, three have facts, one a list of words, one a natural text."""
        while True:
            yield self._facts(rng)
            yield self._facts(rng)
            yield self._list(rng)
            yield Lesson(rng.choice(self.natural)[:LONGEST]) if self.natural else self._list(rng)
            yield self._facts(rng)

    def word(self, rng: random.Random) -> str:
        """Return a word."""
        known = len(self.words) >= ENOUGH and rng.random() < 0.8
        return rng.choice(self.words) if known else "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3)))

    def name(self, rng: random.Random) -> str:
        """Return an invented name: one word, or two of three times in ten."""
        return " ".join(self._name(rng) for _ in range(1 if rng.random() < 0.7 else 2))

    def _name(self, rng: random.Random) -> str:
        first = self.word(rng)
        return (first if rng.random() < 0.4 else first[: rng.randint(3, 5)] + self.word(rng)[:3]).capitalize()

    def _facts(self, rng: random.Random) -> Lesson:
        facts, asked = list[str](), list[tuple[str, str]]()
        few, many = rng.choices(((1, 4), (4, 8), (8, 16)), (6, 3, 1))[0]
        for fact, *questions in rng.sample(FACTS, rng.randint(few, many)):
            drawn = {
                **{"person": f"{self._name(rng)} {self._name(rng)}", "place": self.name(rng), "word": self.word(rng)},
                **{"name": self.name(rng), "other": self._name(rng), "number": _number(rng)},
            }
            facts.append(fact.format(**drawn))
            for question, reply in questions:
                whole = rng.random() < 0.5
                manner = rng.choice(IN_A_SENTENCE if whole else SHORTLY)
                asked.append((question.format(**drawn) + manner, facts[-1] if whole else f"{reply.format(**drawn)}."))
        text = "- " + "\n- ".join(facts) if rng.random() < 0.4 else " ".join(facts)
        return Lesson(text, (*asked, (REPEAT, text)))

    def _list(self, rng: random.Random) -> Lesson:
        drawn = (_number(rng) if rng.random() < 0.15 else self.word(rng) for _ in range(rng.randint(20, 40)))
        text = " ".join(each.capitalize() if rng.random() < 0.3 else each for each in drawn)
        return Lesson(text, ((REPEAT, text),))


def _number(rng: random.Random) -> str:
    return str(rng.randint(2, 99) if rng.random() < 0.7 else rng.randint(100, 9999))


def natural_texts(file: Path | None) -> list[str]:
    """Return the passages or questions of a file, or the articles of the encyclopedia if there is none.

    Raises:
        UsageError: the file has neither passages nor questions.
    """
    if file is None:
        from sottovoce.environments.encyclopedia import encyclopedia  # late, as below

        return [article.text for article in encyclopedia().articles if not ASKED.search(article.text)]
    from sottovoce.datasets.question_files import read_file
    from sottovoce.nodes.question import passages_of
    from sottovoce.retrievers.index import Corpus

    why = "it is empty"
    try:
        if passages := [passage.text for passage in Corpus(file)]:
            return passages
    except SottovoceError as error:
        why = str(error)
    try:
        questions = read_file(file).questions
    except SottovoceError as error:
        raise UsageError(
            f"texts {str(file)!r} is neither a file of passages ({why}) nor of questions ({error})"
        ) from error
    return [text for asked in questions for text in (asked["question"], *(p["text"] for p in passages_of(asked, None)))]
