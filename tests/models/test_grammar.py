"""Forms over a vocabulary: every text of a form can be written, nothing else can, and what cannot be is refused."""

from __future__ import annotations

import json
import re
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sottovoce.core.errors import UsageError
from sottovoce.core.response_format import UNKNOWN, Form
from sottovoce.models import Ids, Sampling, Stop, assemble
from sottovoce.models.engine.grammar import Constrained, Grammar, grammar_of
from tests.models.support import fresh
from tests.support import request, tiny_loaded, tiny_model, tiny_tokenizer


def grammar(form: Form) -> Grammar:
    return grammar_of(form, tiny_tokenizer())


def takes_in(found: Grammar, text: str) -> bool:
    return found.vocabulary.ends(found.start, found.vocabulary.ids(text))


def takes(form: Form, text: str) -> bool:
    """Whether a text is in a form."""
    return takes_in(grammar(form), text)


def refused(form: Form, n: int = 400, **stop: Any) -> str:
    """What is said of a form before anything is decoded."""
    engine = tiny_loaded().engine
    before = engine.statistics.passes
    with pytest.raises(UsageError) as found:
        engine.submit(request(stop=Stop(n, **stop), form=form))
    assert engine.statistics.passes == before and "\n" not in str(found.value)
    return str(found.value)


# What a form takes


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), min_size=1, max_size=4))
@settings(deadline=None, max_examples=60)
def test_choices_of_any_characters_are_taken_and_nothing_beside_them(choices: list[str]) -> None:
    form = Form(choices=tuple(choices))

    assert all(takes(form, choice) for choice in [*choices, UNKNOWN])
    beside = {*choices, *(choice + "!" for choice in choices), *(choice[:-1] for choice in choices), ".*", ""}
    assert not any(takes(form, each) for each in beside - {*choices, UNKNOWN})


@given(
    st.dictionaries(st.sampled_from(["a", "b c", 'q"']), st.text(st.characters(exclude_categories=["Cs"])), min_size=3)
)
@settings(deadline=None, max_examples=40)
def test_any_object_of_texts_is_taken_as_json_writes_it(values: dict[str, str]) -> None:
    ordered = {name: values[name] for name in ["a", "b c", 'q"']}
    plain = {
        name: text.translate({ord(c): " " for c in map(chr, range(32)) if c not in "\n\r\t"})
        for name, text in ordered.items()
    }
    assert takes(Form.of_object(*ordered), json.dumps(plain, ensure_ascii=False).replace("\x7f", " "))


@pytest.mark.parametrize(
    ("field", "taken"),
    [
        ({"enum": ["x", "y"]}, ["x", UNKNOWN]),
        ({"type": "integer"}, [3, UNKNOWN]),
        ({"type": "array", "items": {"enum": ["x"]}}, [["x", UNKNOWN]]),
        (
            {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]},
            [{"b": True}, {"b": UNKNOWN}],
        ),
    ],
)
def test_fields_take_unknown_beside_what_they_are(field: dict[str, Any], taken: list[Any]) -> None:
    schema = {"type": "object", "properties": {"f": field}, "required": ["f"], "additionalProperties": False}
    texts = [json.dumps({"f": each}) for each in taken]

    assert all(takes(Form(schema), each) for each in texts)
    assert all(takes(Form(schema, unknown=False), each) == (UNKNOWN not in each) for each in texts)


@pytest.mark.parametrize("field", [Form(choices=("x", "y")), Form(pattern="[0-9]+")])
def test_a_field_may_be_empty_where_the_form_says_so(field: Form) -> None:
    closed, opened = Form.of_object("f", f=field), Form.of_object("f", f=field).may_be_empty("f")
    assert [takes(form, '{"f": ""}') for form in (closed, opened)] == [False, True]
    assert takes(opened, '{"f": "unknown"}') and not takes(opened, '{"f": "z"}')


def test_a_pattern_is_kept_together_beside_unknown() -> None:
    form = Form(pattern="a|b+", after="Answer:")

    assert all(takes(form, f" {each}") for each in ("a", "bb", UNKNOWN))
    assert not any(takes(form, each) for each in (" ", "a", " ab", f"a{UNKNOWN}", f"b {UNKNOWN}"))
    assert not takes(Form(pattern="a", unknown=False), UNKNOWN)


# The way to its end


@pytest.mark.parametrize(
    ("form", "shortest"),
    [
        (Form.of_object("a", "b"), '{"a": "", "b": ""}'),
        (Form({"type": "array", "items": {"type": "array"}, "minItems": 2, "maxItems": 9}), "[[], []]"),
        (Form(choices=("a long one", "b"), unknown=False), "b"),
        (Form(pattern=r"(Look|Find)\[.+\]|\(.*\)", unknown=False), "()"),
        (Form(pattern="x{3}|y{9}", unknown=False), "xxx"),
        (Form(pattern="é日", unknown=False), "é日"),
    ],
)
def test_a_form_is_completed_in_a_short_way(form: Form, shortest: str) -> None:
    assert grammar(form).vocabulary.text(grammar(form).path).decode() == shortest


def test_replies_share_a_grammar_and_no_matcher() -> None:
    """Engines of one vocabulary have threads of their own, and a matcher that is asked in two of them breaks."""
    found = grammar(Form.of_object("a"))

    guides = [found.begin(99, str) for _ in range(2)]

    matchers = [constraint.matcher for constraint in guides if isinstance(constraint, Constrained)]
    assert len({*map(id, [found.start, *matchers])}) == 3


# What is refused


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        (Form(pattern="(a"), "a reply cannot be constrained to this pattern: unclosed group"),
        (Form({"if": {}, "then": {}}), r'cannot be constrained to this schema: Unimplemented keys: \["if", "then"\]'),
        (
            Form(pattern=r"[^\s\S]", unknown=False),
            r"no text of this format was found: '\[\^\\s\\S\]'; use another format",
        ),
    ],
)
def test_what_llguidance_does_not_take_is_told_in_its_words(form: Form, complaint: str) -> None:
    assert re.search(complaint, refused(form))


@pytest.mark.parametrize(
    ("form", "n", "complaint"),
    [
        (
            Form.of_object("a"),
            5,
            r'the format, at its shortest {"a": ?""}, takes \d+ tokens, but max_tokens is 5; raise it',
        ),
        (
            Form(choices=("a", "b" * 9), after="Answer:"),
            9,
            r"'bbbbbbbbb' after 'Answer:' takes 1\d tokens, but max_tok",
        ),
    ],
)
def test_a_form_that_the_reply_cannot_hold_is_refused_with_its_length(form: Form, n: int, complaint: str) -> None:
    assert re.search(complaint, refused(form, n))
    least = int(re.findall(r"takes (\d+) tokens", refused(form, n))[0])
    assert tiny_loaded().engine.run(request(max_new=least, form=form)).usage.new <= least


def sentencepiece() -> PreTrainedTokenizerFast:
    """A tokenizer as Llama 2 has it: spaces written as signs, one put before every text, bytes for what is rare."""
    words = [
        "<unk>",
        "</s>",
        *(f"<0x{i:02X}>" for i in range(256)),
        "\u2581",
        *string.ascii_letters,
        "\u2581r",
        "\u2581re",
    ]
    plain = Tokenizer(
        models.BPE(
            {word: i for i, word in enumerate(words)},
            [("\u2581", "r"), ("\u2581r", "e")],
            byte_fallback=True,
            unk_token="<unk>",
        )
    )
    plain.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    plain.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    plain.add_special_tokens(["<unk>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="</s>", unk_token="<unk>")


def test_a_tokenizer_that_puts_a_space_before_every_text_puts_none_before_the_marker() -> None:
    tokenizer = sentencepiece()
    loaded = assemble("sentencepiece", tiny_model("llama", vocab_size=len(tokenizer)), tokenizer)
    decode = loaded.detokenizer(special=False).text
    form = Form(choices=("red", "é"), after="So:")
    found = grammar_of(form, tokenizer)

    assert [decode([5, *found.marker(before)])[1:] for before in ("", "x")] == ["So:", "\nSo:"]
    assert takes_in(found, " red") and takes_in(found, " é")
    for seed in range(6):
        asked = request((Ids((300, 301)),), stop=Stop(40, (1,)), form=form, sampling=Sampling(1.0, seed=seed))
        # No line break in sight: a byte next to broken ones is decoded as broken too.
        assert re.search(r"So: (?:red|é|unknown)$", decode(loaded.engine.run(asked).ids))


def letters_only() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are small letters: none for any other byte."""
    words = {letter: i for i, letter in enumerate(["<unk>", *string.ascii_lowercase, " "])}
    plain = Tokenizer(models.BPE(words, [], unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    plain.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<unk>", unk_token="<unk>")


def test_a_choice_that_the_tokenizer_cannot_write_is_refused_by_its_name() -> None:
    engine, prompt = assemble("letters", tiny_model(), letters_only()).engine, (Ids((1, 2)),)
    assert engine.check(request(prompt, form=Form(choices=("yes", "no")))) is not None
    with pytest.raises(UsageError, match=r"^the model's tokenizer cannot write the choice 'C\+\+'; reword it$"):
        engine.check(request(prompt, form=Form(choices=("yes", "C++"))))


def test_a_stop_string_within_the_marker_is_refused() -> None:
    form = Form(choices=("a",), after="Answer:")
    assert refused(form, texts=("Observation", "\n")) == (
        "the stop string '\\n' would end the reply before its format, '\\nAnswer: '; leave it out"
    )


def test_equal_forms_are_compiled_once_and_other_models_have_their_own() -> None:
    first, again = (grammar(Form.of_object("a", "b")) for _ in range(2))
    assert first is again is not grammar(Form.of_object("b", "a"))
    assert fresh().engine.check(request(max_new=50, form=Form.of_object("a", "b"))) is first  # of one tokenizer


def test_a_short_way_is_found_through_several_lines_of_free_text() -> None:
    """States within free text look alike, whichever line they are on: the ways that had come further were dropped."""
    lines = [rf"\[{number}\]: [^\n]{{1,200}}" for number in range(1, 6)]
    found = grammar(Form(pattern=r"\n".join(lines), unknown=False))
    assert len(found.path) <= 60 and found.vocabulary.text(found.path).count(b"\n") == 4


@pytest.mark.parametrize(
    "text", ['{"a": "x"', '{"a":"x"}', '{"a": "x", "b": "y"}', "{}", '{"a": "\\ud800"}', '{"a": 1}']
)
def test_nothing_else_is_an_object_of_that_form(text: str) -> None:
    assert not takes(Form.of_object("a"), text)
