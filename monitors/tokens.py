"""Tokens of a reply with statistics of their distributions, and the positions at which uncertainty is measured.

Tokens are read from a payload or from a chat model's response. A spot is one position, or several measured jointly:

all           every token: discussions
thoughts      every token of the thoughts before a reply, of local models that think
action        pairs of a character's and an action's number in the generated reply: WhoDunit
id            numbers of characters in an action's JSON: WhoDunit, as in the paper
id_x_action   like `action`, in the most probable tokens instead of the generated ones: WhoDunit, as in its code
scores        numbers of the last `[[a, b]]`: CodeGen
tons          numbers before "ton": GovSim

Positions for WhoDunit know both vocabularies of the game: a character may be called a suspect.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import TYPE_CHECKING

from sottovoce.core.any_types import JSONValue
from sottovoce.core.errors import UsageError
from sottovoce.core.registry import Registry

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from sottovoce.channels.payload import Payload, Span


FULL = ("entropy", "varentropy", "kurtosis")
"""Statistics of the whole distribution at each position in a payload: softmax(logits) at T = 1."""
BEST = "best"
"""Name of the tensor (n, bytes) with the text of each most probable token in a hosted model's payload."""
Decode = Callable[[int], str]
"""Function from a local model's token id to its text."""


@dataclass(frozen=True)
class Tokens:
    """The tokens of a reply; all sequences have one entry for each token."""

    text: str
    spans: Sequence[Span]
    """Start and end of each token in `text`."""
    top: Sequence[Sequence[float]]
    """Log-probabilities of the most probable tokens, highest first."""
    best_texts: Callable[[], Sequence[str]] | None = None
    """Function that returns `best`: most positions need no text, and a decoder may be slow to load."""
    full: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Statistics of the whole distribution by name; {} if only `top` is known."""

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def texts(self) -> list[str]:
        """Text of each generated token."""
        return [self.text[start:end] for start, end in self.spans]

    @cached_property
    def best(self) -> Sequence[str] | None:
        """Text of the most probable token at each position, generated or not; None if unknown."""
        return self.best_texts and self.best_texts()

    def overlapping(self, start: int, end: int) -> list[int]:
        """Return the positions of the tokens that overlap `text[start:end]`."""
        return [i for i, (first, last) in enumerate(self.spans) if first < end and last > start]


def of_payload(payload: Payload, decode: Decode | None = None) -> Tokens:
    """Read the tokens of a stored reply.

    `decode` turns a token id of a local model into text, for positions that read the most probable tokens. Payloads
    of hosted models contain these texts.

    Raises:
        UsageError: the payload has no log-probabilities.
    """
    tensors = payload.tensors
    if "top_logprobs" not in tensors:
        raise UsageError("the payload has no statistics; expected log-probabilities of the most probable tokens")

    def best() -> list[str]:
        if decode is None or BEST in tensors:
            return [bytes(row).rstrip(b"\0").decode() for row in tensors[BEST].tolist()]
        return [decode(ids[0]) for ids in tensors["top_ids"].tolist()]

    has_best = decode is not None or BEST in tensors
    full = {name: tensors[name].tolist() for name in FULL if name in tensors}
    return Tokens(payload.label.text, payload.spans, tensors["top_logprobs"].tolist(), best if has_best else None, full)


def encoded(texts: Sequence[str]) -> list[list[int]]:
    """Return the UTF-8 bytes of texts as rows of equal length, which a payload stores as the tensor `best`."""
    rows = [text.encode() for text in texts]
    width = max(map(len, rows), default=0)
    return [list(row.ljust(width, b"\0")) for row in rows]


def of_response(message: BaseMessage) -> Tokens:
    """Read the tokens from the response of a LangChain chat model that returns log-probabilities as OpenAI's does.

    Raises:
        UsageError: the response has no log-probabilities, or has them in another format.
    """
    logprobs: JSONValue = message.response_metadata.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    try:
        if not content or not all(token.get("top_logprobs") for token in content):
            found = "no log-probabilities" if not content else "a token without its most probable candidates"
            wanted = "expected a model that returns them: logprobs=True, top_logprobs=10"
            raise UsageError(f"the reply has {found}; {wanted}")
        tops = [sorted(token["top_logprobs"], key=lambda top: -top["logprob"]) for token in content]
        texts, best = ([_utf8(token["token"]) for token in each] for each in (content, [top[0] for top in tops]))
        return Tokens(
            "".join(texts),
            list(pairwise(accumulate(map(len, texts), initial=0))),
            [[top["logprob"] for top in candidates] for candidates in tops],
            lambda: best,
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise UsageError(f"the log-probabilities of the reply are not as OpenAI returns them: {error!r}") from error


def _utf8(token: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode: a byte-level token may be half a character."""
    return token.encode("utf-8", "replace").decode()


Spot = tuple[int, ...]
Selector = Callable[[Tokens], Sequence[Spot]]

PEOPLE = ("character", "suspect")
"""Names of a person in the vocabularies of WhoDunit."""
ACTIONS = ("action",)
IDS = re.compile(rf"""["']?(?:{"|".join(PEOPLE)})["']?\s*:\s*(\[[^\]]*\]|["']?\s*\d+)""", re.IGNORECASE)
SCORES = re.compile(r"\[\[\s*[1-5](?:\s*,\s*[1-5])*\s*\]\]")
NUMBER = re.compile(r"\d+", re.ASCII)
NUMBER_TOKEN = re.compile(r"\W*\d+\W*", re.ASCII)
AHEAD = 5  # tokens after a word that are searched for its number, as in the paper's code
BEHIND = 4  # most tokens of a number before "ton"


def everywhere(tokens: Tokens) -> list[Spot]:
    """Select each token."""
    return [(at,) for at in range(len(tokens))]


def suspects(tokens: Tokens) -> list[Spot]:
    """Select the tokens of the numbers under the key "character" or "suspect", one number or a list."""
    return [spot for match in IDS.finditer(tokens.text) for spot in _numbers(tokens, *match.span(1))]


def actions(tokens: Tokens) -> list[Spot]:
    """Select pairs of a character's and an action's number; if the reply has only one kind, its single numbers.

    The number of a character or an action is the first one in the five tokens after a mention, in thoughts too.
    """
    return _pairs(tokens.texts)


def probable_actions(tokens: Tokens) -> list[Spot]:
    """Select as `actions` does, in the text of the most probable token at each position."""
    if tokens.best is None:
        raise UsageError(
            "positions 'id_x_action' need the texts of the most probable tokens, and the reply has none; "
            "choose 'action', or pass `of_payload` a decoder of token ids"
        )
    return _pairs(tokens.best)


def scores(tokens: Tokens) -> list[Spot]:
    """Select the tokens of the helpfulness scores, 1 to 5, in the last list of scores."""
    matches = list(SCORES.finditer(tokens.text))
    return _numbers(tokens, *matches[-1].span()) if matches else []


def tons(tokens: Tokens) -> list[Spot]:
    """Select up to four tokens of digits directly before each token that contains "ton"."""
    texts, spots = tokens.texts, list[Spot]()
    for at in (at for at, text in enumerate(texts) if "ton" in text.lower()):
        first = at
        while first > max(at - BEHIND, 0) and NUMBER.fullmatch(texts[first - 1].strip()):
            first -= 1
        spots += [(digit,) for digit in range(first, at)]
    return spots


def _numbers(tokens: Tokens, start: int, end: int) -> list[Spot]:
    numbers = (tokens.overlapping(*match.span()) for match in NUMBER.finditer(tokens.text, start, end))
    return [(at,) for at in dict.fromkeys(at for number in numbers for at in number)]


def _pairs(texts: Sequence[str]) -> list[Spot]:
    people, acts = _first_numbers(texts, PEOPLE), _first_numbers(texts, ACTIONS)
    return list(product(people, acts)) if people and acts else [(at,) for at in people or acts]


def _first_numbers(texts: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return the first number token after each mention; a word may span several tokens in small vocabularies."""
    ends = list(accumulate(map(len, texts)))
    mentions = re.finditer("|".join(words), "".join(texts), re.IGNORECASE)
    ahead = (range(last + 1, last + 1 + AHEAD) for last in (bisect_left(ends, match.end()) for match in mentions))
    first = ([at for at in places if NUMBER_TOKEN.fullmatch("".join(texts[at : at + 1]))][:1] for places in ahead)
    return list(dict.fromkeys(at for places in first for at in places))


OURS = {
    "all": "everywhere",
    "thoughts": "everywhere",
    "action": "actions",
    "id": "suspects",
    "id_x_action": "probable_actions",
    "scores": "scores",
    "tons": "tons",
}
POSITIONS: Registry[Selector] = Registry(
    "positions", "sottovoce.positions", {name: f"{__name__}:{selector}" for name, selector in OURS.items()}
)
"""Selectors by name."""
