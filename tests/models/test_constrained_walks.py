"""Random replies in many formats: each is complete and valid in its number of tokens, and no state is out of date."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sottovoce.core.response_format import Form
from sottovoce.models.engine.grammar import Grammar, grammar_of
from sottovoce.models.engine.sampling import Chosen
from tests.support import tiny_tokenizer


def flat(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


TEXT = {"type": "string"}
CHOICE = {"enum": ["a", "about", "beyond all doubt"]}
LONG = {"type": "string", "minLength": 3, "maxLength": 9}
PATTERN = {"type": "string", "pattern": "^[ab]+,? [^x]{2,}$"}
WORDS = {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 4}
FORMS = {
    "texts": Form.of_object("reasoning", "answer", "a"),
    "texts beside others": Form(flat(a=PATTERN, b=TEXT, c=CHOICE, d=TEXT, e=LONG), unknown=False),
    "numbers": Form(flat(n={"type": "integer"}, a=TEXT, x={"type": "number", "minimum": -3})),
    "arrays": Form(flat(a=TEXT, words=WORDS, rows={"type": "array", "items": WORDS, "maxItems": 2}, b=TEXT)),
    "equal names": Form(flat(a={**flat(b=PATTERN, c=TEXT)}, b=TEXT, c=TEXT), unknown=False),
    "an empty name": Form(flat(**{"a": PATTERN, "": TEXT, "c": TEXT}), unknown=False),
    "optional": Form({**flat(a=TEXT, b=LONG, c=TEXT), "required": ["b"]}, unknown=False),
    "open": Form({**flat(a=TEXT, b=TEXT), "additionalProperties": PATTERN}, unknown=False),
    "branches": Form({"anyOf": [flat(a={"const": "yes"}, b=TEXT), flat(a=TEXT, c=LONG)]}, unknown=False),
    "nested": Form(flat(a=TEXT, o=flat(b=TEXT, p=flat(c=WORDS, d=TEXT)), e=TEXT)),
    "a pattern": Form(pattern=r'[a-z ]{2,}: ("[^"]*")?(no|yes){2}'),
    "choices": Form(choices=("red", "blue and green", "bläulich")),
}


def walk(grammar: Grammar, n: int, chance: random.Random) -> tuple[int, ...]:
    """A random reply of at most n tokens; its masks are compared with those of a matcher that reads every token."""
    vocabulary, said = grammar.vocabulary, list[int]()
    constraint, plainly = grammar.begin(n, str), grammar.start.deep_copy()
    while len(said) < n:
        mask = constraint.mask()
        if mask is not None:
            assert np.array_equal(mask, vocabulary.mask(plainly)), vocabulary.text(said)
        allowed = np.arange(vocabulary.size) if mask is None else np.flatnonzero(mask)
        plain = [id for id in allowed.tolist() if id in vocabulary.plain]
        id = chance.choice(plain if plain and chance.random() < 0.8 else allowed.tolist())
        nearest = chance.choice([None, chance.randrange(vocabulary.size)])  # of a mean, which no mask limits
        effect = constraint.next(Chosen(id, nearest, False, said, n - len(said)))
        constraint = effect.then
        if effect.id is None:
            break
        said.append(effect.id)
        assert plainly.consume_token(effect.id), vocabulary.text(said)
        if effect.ends:
            break
    assert constraint.complete is not None, vocabulary.text(said)
    return tuple(said[: constraint.complete])


@pytest.mark.parametrize("name", FORMS)
def test_any_choices_lead_to_a_complete_reply_through_states_that_are_up_to_date(name: str) -> None:
    grammar, chance = grammar_of(FORMS[name].offered, tiny_tokenizer()), random.Random(name)
    for _ in range(12):
        n = grammar.least + chance.randrange(60)

        ids = walk(grammar, n, chance)

        assert len(ids) <= n and grammar.vocabulary.ends(grammar.start, ids)
        if FORMS[name].schema is not None:
            assert isinstance(json.loads(grammar.vocabulary.text(ids)), Mapping)


@pytest.mark.parametrize(
    ("name", "begun", "is_in_text"),
    [
        ("texts", '{"reasoning": "so', True),
        ("texts", '{"reasoning": "so", "answer": "', True),
        ("texts", '{"reasoning": "so", "answer": "", "a": "x', True),
        ("texts", '{"reasoning": "so\\', False),
        ("texts", '{"reasoning": "so", ', False),
        ("texts beside others", '{"a": "ab, so"', False),
        ("texts beside others", '{"a": "ab, so', False),
        ("texts beside others", '{"a": "ab, so", "b": "', True),
        ("texts beside others", '{"a": "ab, so", "b": "", "c": "a', False),
        ("arrays", '{"a": "", "words": ["', False),
        ("equal names", '{"a": {"b": "ab, so', False),
        ("an empty name", '{"a": "ab, so', False),
        ("an empty name", '{"a": "ab, so", "": "', True),
        ("open", '{"a": "', False),
        ("branches", '{"a": "', False),
    ],
)
def test_a_completion_tells_where_text_is_free(name: str, begun: str, is_in_text: bool) -> None:
    grammar = grammar_of(FORMS[name], tiny_tokenizer())
    matcher = grammar.vocabulary.after(grammar.start, grammar.vocabulary.ids(begun))
    assert matcher is not None
    path = grammar.completion(matcher, 99)

    assert path is not None and grammar.in_text(path) is is_in_text


def test_a_completion_that_first_ends_an_escape_is_not_one_of_a_free_text() -> None:
    grammar = grammar_of(FORMS["texts"], tiny_tokenizer())
    rest = grammar.vocabulary.ids('", "answer": "", "a": ""}')
    assert grammar.in_text(rest) and not grammar.in_text((*grammar.vocabulary.ids("n"), *rest))


def test_inside_a_free_text_whole_characters_keep_the_state() -> None:
    ids = grammar_of(FORMS["texts"], tiny_tokenizer()).vocabulary.ids('{"reasoning": "I say, yes')
    constraint = grammar_of(FORMS["texts"], tiny_tokenizer()).begin(99, str)
    states = [constraint]
    for i, id in enumerate(ids):
        states.append(states[-1].next(Chosen(id, None, False, ids[:i], 99 - i)).then)

    assert states[-1] is states[-4] is not states[0]


def test_escapes_and_parts_of_characters_need_no_search_for_a_completion() -> None:
    """Each took a search of 2 to 10 ms, which was half of the tokens of a Chinese reply."""
    grammar = grammar_of(FORMS["texts"], tiny_tokenizer())
    matcher, path = grammar.start, grammar.path
    for id in grammar.vocabulary.ids('{"reasoning": "so \\n\\\\ we, 日本à \\"ö\\" 😀", "answer": "ja"'):
        after = grammar.vocabulary.after(matcher, (id,))
        assert after is not None
        rest = grammar.vocabulary.rest_of(path, id, after)
        assert rest is not None, id
        matcher, path = after, rest
