from __future__ import annotations

import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.prompts.structured import LONGEST, read_confidence, read_json
from tests.tables import each_row, some

WANTED = ("reasoning", "answer", "confidence_level")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"answer": "yes"}', {"answer": "yes"}),
        ('Sure!\n```json\n{"answer": "yes"}\n```\nHope it helps {really}.', {"answer": "yes"}),
        ('So {1, 2} and f{x}: {"answer": 2} is it.', {"answer": "2"}),
        ('{"reasoning": "a", "answer": 1} in the form {"answer": ...}', {"reasoning": "a", "answer": "1"}),
        ('{"answer": 1, "answer": 2}', {}),
        ('{"agent": "agent_2", "answer": 2}', {}),
        ('{"other_agents_answer": {"answer": 2}}', {}),
        # comments and commas
        (
            '{ // mine\n"answer": "yes", /* , */ # so\n"confidence_level": 0.8,\n}',
            {"answer": "yes", "confidence_level": "0.8"},
        ),
        (
            '{"reasoning": "see http://a.b/c # d", "answer": "a // b"}',
            {"reasoning": "see http://a.b/c # d", "answer": "a // b"},
        ),
        # quotes
        ("{'reasoning': \"They don't know\", 'answer': 'no'}", {"reasoning": "They don't know", "answer": "no"}),
        ('{"reasoning": "one\ntwo", "answer": 5}', {"reasoning": "one\ntwo", "answer": "5"}),
        (r'{"reasoning": "\"a\"\n\u00e9\ud83d\ude00 \ud83d", "answer": 5}', {"reasoning": '"a"\né😀 �', "answer": "5"}),
        (
            r'{"reasoning": "\(x\) is \frac{1}{2}", "answer": "\boxed{5}"}',
            {"reasoning": r"\(x\) is \frac{1}{2}", "answer": r"\boxed{5}"},
        ),
        (
            '{"reasoning": "a { and [ in it", "answer": "no"} and more }',
            {"reasoning": "a { and [ in it", "answer": "no"},
        ),
        # names
        ('{"answer (number)": 1, "confidence_level (0-1)": 0.5}', {"answer": "1", "confidence_level": "0.5"}),
        ('{"Answer": 1, "Confidence Level": 0.5}', {"answer": "1", "confidence_level": "0.5"}),
        ('{"ANSWER": 1, "confidenceLevel": 0.5}', {"answer": "1", "confidence_level": "0.5"}),
        # values
        ('{"answer": True, "reasoning": None, "confidence_level": 1}', {"answer": "true", "confidence_level": "1"}),
        ('{"reasoning": ["One.", "Two, [3].", 4], "answer": 5}', {"reasoning": "One., Two, [3]., 4", "answer": "5"}),
        ('{"more": {"answer": 6, "x": [{"answer": 7}]}, "answer": 5}', {"answer": "5"}),
        ('{"answer": 5, "more": {"answer": 6}}', {"answer": "5"}),
        ('{{"answer": 5}}', {"answer": "5"}),
        ('[{"answer": 5}]', {"answer": "5"}),
        # an object around it
        ('{"response": {"answer": 5}}', {"answer": "5"}),
        # another's, supposed or denied ones
        ('{"answer": 5}\n\nCompare agent 2: {"answer": 6}', {"answer": "5"}),
        ('Agent 2 wrote {"answer": 6}, which forgets one.\n{"answer": 5}', {"answer": "5"}),
        ('If it rains: {"answer": 6}. But it is dry: {"answer": 5}', {"answer": "5"}),
        ('{"answer": 5}\n{"answer": 6} is what agent 2 got.', {"answer": "5"}),
        ('{"answer": "5}\n\nI mean {"answer": "6"}', {"answer": "6"}),
        # two that agree
        ('{"answer": 5}\nOnce more: {"answer": 5, "confidence_level": 1}', {"answer": "5", "confidence_level": "1"}),
    ],
)  # fmt: skip
def test_fields_are_read_from_an_object_as_models_write_it(text: str, found: dict[str, str]) -> None:
    assert read_json(text, WANTED).values == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I think so.", "is missing: there is no whole JSON object"),
        ("", "is missing: there is no whole JSON object"),
        ("{}", "is missing: there is no whole JSON object"),
        ('{"reasoning": "so"}', "is missing"),
        ('{"answer": ""}', "is empty"),
        ('{"answer": null}', "is empty"),
        ('{"answer": None, "reasoning": "so"}', "is empty"),
        ('{"answer": {"answer": 6}}', "is missing"),
        ('{"answer": 5} or rather {"answer": 6}', "is missing: there are two objects that differ"),
        ('{"a": {"answer": 5}, "b": {"answer": 6}}', "is missing: there are two objects that differ"),
        # not in the form
        ('{"answer": 12', "is missing: there is no whole JSON object"),  # of 125?
        ('{"answer": "12"', "is missing: there is no whole JSON object"),
        ('{"answer": "12", "reasoning": "so I th', "is missing: there is no whole JSON object"),
        ('{"answer": yes}', "is missing: there is no whole JSON object"),
        ("{answer: 12}", "is missing: there is no whole JSON object"),
        ('{"reasoning": "he said "yes" to me", "answer": "no"}', "is missing: there is no whole JSON object"),
    ],
)
def test_why_a_field_is_missing_is_said(text: str, why: str) -> None:
    read = read_json(text, ["answer"])

    assert not read.values
    assert read.missing == {"answer": why}


def test_an_empty_value_counts_where_it_may_be_empty() -> None:
    text = '{"Whether there is a preference": "No", "debate_answer": ""}'

    assert read_json(text, ["debate_answer"], may_be_empty=["debate_answer"]).values == {"debate_answer": ""}


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\b\f"), max_size=60)
names = st.text("abc xyz_-.?'\"{}[]:,#/\\\n", max_size=30)


@given(texts, texts, st.dictionaries(names, texts | st.lists(texts) | st.integers()), st.sampled_from([None, 2]))
def test_every_valid_object_is_read_exactly(
    reasoning: str, answer: str, rest: dict[str, object], indent: int | None
) -> None:
    more = {f"z{key}": value for key, value in rest.items()}
    valid = json.dumps({"reasoning": reasoning, **more, "answer": answer}, indent=indent)
    read = read_json(f"Well. {valid} So.", WANTED, may_be_empty=WANTED)

    assert read.values == {"reasoning": reasoning.strip(), "answer": answer.strip()}


@each_row("seed", range(200))
def test_an_object_is_found_within_noise_and_noise_raises_nothing(seed: int) -> None:
    dice = random.Random(seed)
    signs = ["word", " ", "\n", "}", "]", ":", ",", "'", "# x\n", "```", "85%", "\\", "é", "// y\n", "(", "”", "f{x}"]

    def noise(more: list[str]) -> str:
        return "".join(dice.choices(signs + more, k=40))

    assert read_json(f'{noise([])}\n{{"reasoning": "so", "answer": "7"}}\n{noise([])}', WANTED).values["answer"] == "7"
    read_json(noise(["{", "[", '"', '{"', '{"answer": ', '"answer"', "/*", "“", "null", "\\u00"]), WANTED)


@pytest.mark.parametrize(
    "unit",
    [
        *["{", "[", '"', "\\", "{'", '{"', '{"a":', "{a:", '{"a": [', '{"a": ["', '{"a": "b" ', '{"a": "b", '],
        *['{"a": "x ', "/*", "{/*", "{#", "{ //", "```json\n", "{ ", "\n", '"\n', "{a ", "x", "9", "\\u0041",],
        *['{"a": {"a": 1}, ', "'a' ", '"}{"', '"a": "b}", ', '}{"a": "b'],
    ],
)  # fmt: skip
@pytest.mark.parametrize("start", some(["", '{"a": "', '{"a": [', '{"a": ', '{"a": "b"'], ""))
def test_a_hostile_text_ends_soon(start: str, unit: str) -> None:
    began = time.process_time()
    read_json(start + unit * (LONGEST // len(unit) - 10) + "!", WANTED)

    assert time.process_time() - began < 3  # seconds, where 0.2 is usual; minutes if time grew as the square


def test_of_a_huge_text_the_end_is_read() -> None:
    assert read_json("{" * 10_000_000 + ' {"answer": 5}', ["answer"]).values == {"answer": "5"}
    assert read_json('{"a":' * 100_000 + "1" + "}" * 100_000, ["answer"]).missing


@pytest.mark.parametrize(
    ("stated", "confidence"),
    [
        ("0.85", 0.85),
        (".5", 0.5),
        ("0,9", 0.9),
        ("0", 0.0),
        ("1", 1.0),
        ("85%", 0.85),
        ("85 %", 0.85),
        ("0.5%", 0.005),
        ("1.05", None),  # a slip, not a percentage
        ("9", None),  # perhaps of ten
        ("9 out of 10", 0.9),
        ("95,0 %", 0.95),
        ("very high (0.95)", None),
        ("11", 0.11),
        ("85", 0.85),
        ("300 %", None),
        ("-0.2", None),
        ("high", None),
        ("0.8 - 0.9", None),
        ("8/10", 0.8),
        ("9/7", None),
        ("12/10", None),
        ("1e-1", 0.1),
        ("~0.9", 0.9),
        ("NaN", None),
        ("9" * 400, None),
        ("", None),
        (None, None),
    ],
)
def test_confidences(stated: str | None, confidence: float | None) -> None:
    assert read_confidence(stated) == (None if confidence is None else pytest.approx(confidence, abs=1e-12))
