"""Similarity of solutions: BLEU of a text against one reference, as sacrebleu's `sentence_bleu` computes it.

Tokens are WMT's (mteval-13a), in lowercase. N-grams have up to four tokens, or as many as a shorter text. Orders
without a match are smoothed exponentially: half a match, then a quarter, and so on. sacrebleu itself requires lxml.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
SPACED = (
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),  # signs, except the four in numbers and words
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)
LONGEST = 4
"""Most tokens of an n-gram."""
EQUAL_FROM = 90.0
"""BLEU from which two solutions count as equal (DyLAN)."""


def tokens(text: str) -> list[str]:
    """Return a text's tokens."""
    text = text.rstrip().lower().replace("-\n", "").replace("\n", " ")
    for entity, sign in ENTITIES:
        text = text.replace(entity, sign)
    text = f" {text} "
    for pattern, spaced in SPACED:
        text = pattern.sub(spaced, text)
    return text.split()


def bleu(text: str, reference: str) -> float:
    """Return the BLEU of a text against a reference, from 0 to 100; 0 if nothing matches."""
    said, meant = tokens(text), tokens(reference)
    orders = range(1, min(len(said), LONGEST) + 1)
    matches = [(_ngrams(said, n) & _ngrams(meant, n)).total() for n in orders]
    if not any(matches):
        return 0.0
    logs, halved = 0.0, 1.0
    for n, matched in zip(orders, matches, strict=True):
        halved *= 1 if matched else 2
        logs += math.log((matched or 1 / halved) / (len(said) - n + 1))
    brevity = min(0.0, 1 - len(meant) / len(said))
    return 100 * math.exp(brevity + logs / len(orders))


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def agreeing(solutions: Sequence[str], least: float = EQUAL_FROM) -> list[int]:
    """Return the places of the largest set of solutions that are like one of them, including that one."""
    alike = [[at for at, reference in enumerate(solutions) if bleu(text, reference) >= least] for text in solutions]
    return max(alike, key=len, default=[])
