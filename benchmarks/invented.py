"""Passages of invented words with the features of real text, and questions about them; reproducible by seed.

A passage has 60 to 140 words (DPR's Wikipedia passages have 100), in sentences with capitals and commas. Of
a hundred words, 38 are English stop words, 43 are drawn by Zipf's law from 40,000 stems and 18 from the twelve stems
of the passage's topic (both with English endings), and one is a number (1,204, 3.5, 1987), an abbreviation (U.S.), a
name with an apostrophe (O'Vasel) or a compound with a hyphen. A question has six words of a passage, with new endings.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import accumulate, islice, product
from pathlib import Path

from sottovoce.retrievers import Passage

SYLLABLES = [a + b for a, b in product("bcdfghklmnprstvz", "aeiou")]
STEMS, FLATTER = 40_000, 30
"""Number of stems, and the 30 of their frequencies 1 / (rank + 30): the first is one in 220 (Mandelbrot's Zipf law)."""
STOP = "the of and in to a is was for as on with by that it are at be an this from or".split()
STOP_WEIGHTS = [1 / rank for rank in range(1, len(STOP) + 1)]
ENDINGS = {"": 50, "s": 16, "ed": 9, "ing": 8, "er": 4, "ation": 4, "ly": 3, "ness": 2, "'s": 4}
SORTS = {"stop": 38, "common": 43, "topic": 18, "odd": 1}
WORDS, SENTENCE, TOPIC, ASKED = (60, 140), (8, 24), 12, 6


class Language:
    """A vocabulary with word frequencies, which generates passages and questions."""

    def __init__(self, seed: int) -> None:
        """Create the vocabulary and the random generator of a seed."""
        self.rng = random.Random(f"invented/{seed}")
        stems = {"".join(self.rng.choices(SYLLABLES, k=self.rng.randint(2, 4))) for _ in range(2 * STEMS)}
        self.stems = self.rng.sample(sorted(stems), STEMS)
        self._cumulated = list(accumulate(1 / (rank + FLATTER) for rank in range(1, STEMS + 1)))

    def passages(self) -> Iterator[Passage]:
        """Yield passages without end."""
        number = 0
        while True:
            topic = self._stems(TOPIC)
            text = self._sentences(self._words(topic, self.rng.randint(*WORDS)))
            yield Passage(str(number), text, f"{topic[0]} {topic[1]}".title())
            number += 1

    def question(self, passage: Passage) -> str:
        """Return a question about a passage."""
        words = {word.strip(",.").lower() for word in passage.text.split()} - set(STOP)
        plain = sorted({_without_ending(word) for word in words if word.isalpha()})
        asked = self.rng.sample(plain, min(ASKED, len(plain)))
        return f"What is the {' '.join(map(str.__add__, asked, self._chosen(ENDINGS, len(asked))))}?"

    def _words(self, topic: list[str], n: int) -> list[str]:
        rows = zip(
            self._chosen(SORTS, n),
            self.rng.choices(STOP, STOP_WEIGHTS, k=n),
            self._stems(n),
            self.rng.choices(topic, k=n),
            self._chosen(ENDINGS, n),
            strict=True,
        )
        return [self._word(*row) for row in rows]

    def _word(self, sort: str, stop: str, common: str, topical: str, suffix: str) -> str:
        if sort == "stop":
            return stop
        if sort == "odd":
            number = self.rng.randint(1700, 9999)
            odd = (str(number), f"{number:,}", str(number / 100), "U.S.", f"O'{common.title()}", f"{common}-{topical}")
            return self.rng.choice(odd)
        return (topical if sort == "topic" else common) + suffix

    def _sentences(self, words: list[str]) -> str:
        said, left = list[str](), iter(words)
        while sentence := list(islice(left, self.rng.randint(*SENTENCE))):
            half = len(sentence) // 2
            clauses = [" ".join(each) for each in (sentence[:half], sentence[half:]) if each]
            said.append(f"{clauses[0][0].upper()}{', '.join(clauses)[1:]}.")
        return " ".join(said)

    def _stems(self, n: int) -> list[str]:
        return self.rng.choices(self.stems, cum_weights=self._cumulated, k=n)

    def _chosen(self, weights: dict[str, int], n: int) -> list[str]:
        return self.rng.choices([*weights], [*weights.values()], k=n)


def _without_ending(word: str) -> str:
    found = max((suffix for suffix in ENDINGS if word.endswith(suffix)), key=len)
    return word.removesuffix(found) if len(word) > len(found) + 2 else word


def write_corpus(file: Path, n: int, questions: int, seed: int = 0) -> list[str]:
    """Write `n` passages as JSON Lines; a smaller `n` gives a prefix of the same passages.

    Returns:
        Questions about some of them, evenly spaced.
    """
    language, asking = Language(seed), Language(seed + 1)
    asked = list[str]()
    with file.open("w", encoding="utf-8") as stream:
        for number, each in enumerate(islice(language.passages(), n)):
            stream.write(json.dumps({"docid": each.docid, "title": each.title, "text": each.text}) + "\n")
            if len(asked) * n <= number * questions:
                asked.append(asking.question(each))
    return asked
