"""How alike two solutions are: BLEU of one text against one other, as sacrebleu's `sentence_bleu` computes it.

Tokens are WMT's (mteval-13a), in lower case; n-grams up to four, shorter texts up to their length; where no n-gram of
a length matches, half the smallest precision, then a quarter, and so on. sacrebleu itself would bring lxml.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
APART = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),  # signs, but for the four that numbers and words hold
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
LONGEST = 4
"""Tokens of an n-gram."""
ALIKE = 90.0
"""BLEU from which on two solutions count as one (DyLAN)."""


def tokens(text: str) -> list[str]:
    """A text's tokens."""
    text = text.rstrip().lower().replace("-\n", "").replace("\n", " ")
    for entity, sign in ENTITIES:
        text = text.replace(entity, sign)
    text = f" {text} "
    for pattern, spaced in APART:
        text = pattern.sub(spaced, text)
    return text.split()


def bleu(text: str, reference: str) -> float:
    """From 0 to 100; of nothing, 0."""
    said, meant = tokens(text), tokens(reference)
    orders = range(1, min(len(said), LONGEST) + 1)
    matches = [_matches(said, meant, n) for n in orders]
    if not any(matches):
        return 0.0
    logs, halved = 0.0, 1.0
    for n, matched in zip(orders, matches, strict=True):
        halved *= 1 if matched else 2
        logs += math.log((matched or 1 / halved) / (len(said) - n + 1))
    brevity = min(0.0, 1 - len(meant) / len(said))
    return 100 * math.exp(brevity + logs / len(orders))


def agreeing(solutions: Sequence[str], least: float = ALIKE) -> list[int]:
    """The places of those that are like the one that most are like, that one among them."""
    alike = [[at for at, other in enumerate(solutions) if bleu(one, other) >= least] for one in solutions]
    return max(alike, key=len, default=[])


def _matches(said: Sequence[str], meant: Sequence[str], n: int) -> int:
    """N-grams of the one that the other has too, each as often as both have it."""
    grams = (Counter(tuple(each[i : i + n]) for i in range(len(each) - n + 1)) for each in (said, meant))
    return (next(grams) & next(grams)).total()
