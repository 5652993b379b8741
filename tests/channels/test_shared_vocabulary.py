"""Means between two vocabularies: what is shared, what is heard as words, and what never comes in."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sottovoce.channels import shared_vocabulary
from sottovoce.channels.cipher import Cipher
from sottovoce.channels.message import MessageRef
from sottovoce.channels.nl import NL
from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.shared_vocabulary import Token
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import ProtocolError
from sottovoce.models import Ids, LoadedModel, Rows, Sampling, assemble, load
from tests.support import (
    CHATML,
    LESSON,
    VOCABULARY,
    close,
    hear,
    ids,
    longer_tokenizer,
    noise,
    payload_of,
    rows_in,
    say,
    tiny_loaded,
    tiny_model,
    tiny_tokenizer,
)

ENDS = [0, 1, 2]  # special tokens of the tiny tokenizer
MERGED = tuple(sorted(token for token in tiny_tokenizer().get_vocab() if len(token) > 1 and "<|" not in token))
NO_TEXT = tiny_tokenizer().convert_tokens_to_ids("\u00ff")  # the byte 0xff, which no text holds
WARM = Sampling(0.3)


@cache
def speaker() -> LoadedModel:
    """A model that never means to end, so that its means hold no special token to speak of."""
    model = tiny_model(sharp=1.0)
    model.get_output_embeddings().weight.data[ENDS] = 0
    return assemble("speaker", model, tiny_tokenizer())


@cache
def renumbered(without: tuple[str, ...] = ()) -> LoadedModel:
    """A wider model with the tiny tokenizer's tokens under other ids; those `without` are spelled otherwise."""
    without = tuple(token.replace(" ", "\u0120") for token in without)
    backend = json.loads(tiny_tokenizer().backend_tokenizer.to_str())
    other = {id: VOCABULARY + 2 - id for id in range(3, VOCABULARY)}
    spelled = {token: token * 9 if token in without else token for token in backend["model"]["vocab"]}
    backend["model"]["vocab"] = {spelled[token]: other.get(i, i) for token, i in backend["model"]["vocab"].items()}
    backend["model"]["merges"] = [
        pair for pair in backend["model"]["merges"] if not {*pair, "".join(pair)} & {*without}
    ]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(backend)),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHATML,
    )
    return assemble("renumbered", tiny_model("llama", seed=4, hidden_size=48), tokenizer)


@cache
def in_order() -> LoadedModel:
    """The renumbered model's table in the order of the speaker's ids."""
    loaded = tiny_loaded("llama", seed=5, hidden_size=48)
    order = [*ENDS, *(VOCABULARY + 2 - id for id in range(3, VOCABULARY))]
    loaded.table.rows.copy_(renumbered().table.rows[order])
    return loaded


@cache
def longer() -> LoadedModel:
    """The speaker itself, but for a token that was added to its tokenizer."""
    return replace(speaker(), name="longer", tokenizer=longer_tokenizer())


def written(said: str) -> Payload:
    """A message of the tiny tokenizer's tokens for a text."""
    found = ids(said)
    spans = torch.tensor(tiny_loaded().detokenizer(special=True).spans(found))
    return Payload(Label("cipher", said, "", "", ""), {"ids": torch.tensor(found), "spans": spans})


def nearest(rows: torch.Tensor, loaded: LoadedModel) -> str:
    """Rows as the text of the tokens that are nearest to them."""
    return loaded.detokenizer(special=True).text(loaded.table.nearest(rows).tolist())


# Rows


def test_between_equal_tokens_the_rows_are_the_ordinary_ones(store: PayloadStore) -> None:
    message = say(Cipher(shared_vocabulary=True), speaker(), store, sampling=WARM, hearers=(longer(),))

    found = rows_in(hear(Cipher(shared_vocabulary=True), longer(), store, MessageRef(message)))

    ordinary = payload_of(message, store).rows(speaker().table.key)
    assert ordinary is not None and close(found, ordinary)
    assert not torch.equal(ordinary, speaker().table.rows[list(payload_of(message, store).ids)])  # they are means


def test_a_renumbered_vocabulary_reads_what_it_would_read_in_the_speaker_s_order(store: PayloadStore) -> None:
    message = say(Cipher(shared_vocabulary=True), speaker(), store, sampling=WARM, hearers=(renumbered(), in_order()))
    found = rows_in(hear(Cipher(shared_vocabulary=True), renumbered(), store, MessageRef(message, ((1, 5),))))
    assert close(
        found, rows_in(hear(Cipher(shared_vocabulary=True), in_order(), store, MessageRef(message, ((1, 5),))))
    )


def test_a_mean_over_the_shared_vocabulary_is_the_part_that_is_shared_and_tells_its_mass() -> None:
    table = shared_vocabulary.between(tiny_loaded(), renumbered((" is",))).table
    weights = noise(5, VOCABULARY).softmax(-1)

    mean = table.mean(weights)

    kept = weights.clone()
    kept[:, [*ENDS, NO_TEXT, *ids(" is")]] = 0
    assert close(mean[:, :-1], kept @ in_order().table.rows) and close(mean[:, -1], kept.sum(-1))


# Words


@pytest.mark.parametrize("without", [(), (" is",), MERGED[::2], MERGED])
def test_a_message_of_sure_means_reads_as_its_text_whatever_is_shared(without: tuple[str, ...]) -> None:
    payload, hearer = written(LESSON), renumbered(without)
    means = shared_vocabulary.between(tiny_loaded(), hearer).table.rows[list(payload.ids)]

    found = shared_vocabulary.read_rows(payload, means, payload.tokens(), hearer)

    assert nearest(found, hearer) == LESSON
    assert (shared_vocabulary.crossing(means, payload.spans).count(False) > 0) is bool(without)


@pytest.mark.parametrize("crosses", [*product((0.1, 0.9), repeat=3)])
def test_a_character_of_several_tokens_is_heard_whole(crosses: tuple[float, ...]) -> None:
    payload, hearer = written("3 \u20ac"), renumbered()  # the sign has three bytes, each a token
    mass = torch.tensor([0.9] * (len(payload) - 3) + [*crosses])[:, None]
    means = shared_vocabulary.between(tiny_loaded(), hearer).table.rows[list(payload.ids)] * mass

    found = shared_vocabulary.read_rows(payload, means, payload.tokens(), hearer)

    assert nearest(found, hearer) == payload.label.text == "3 \u20ac"
    assert shared_vocabulary.crossing(means, payload.spans)[-3:] == [min(crosses) > 0.5] * 3


def test_what_is_not_shared_is_measured() -> None:
    spans = torch.tensor([[i, i + 1] for i in range(4)])
    means = torch.tensor([[1.0, 1.0], [1.0, 0.75], [0.0, 0.0], [0.1, 0.25]])
    tensors = {"ids": torch.arange(4), "spans": spans, f"{shared_vocabulary.SHARED}a.b": means}

    found = shared_vocabulary.measured(Payload(Label("cipher", "abcd", "", "", ""), tensors))

    assert found == {"shared_mass": 0.5, "as_words": 0.5}
    assert shared_vocabulary.measured(Payload(Label("nl", "", "", "", ""), {"ids": torch.arange(0)})) == {}


# What is shared


def sentencepiece() -> LoadedModel:
    """A vocabulary that spells spaces and bytes as sentencepiece does."""
    listed = ["<unk>", "</s>", "<0x41>", "<0xE2>", "<0x20>", "\u2581", "A", "\u2581A", "ple", "\u2581What", "\u2581is"]
    bpe = Tokenizer(models.BPE({token: i for i, token in enumerate(listed)}, [], byte_fallback=True, unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    bpe.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, unk_token="<unk>", eos_token="</s>", chat_template=CHATML)
    return assemble("sentencepiece", tiny_model("llama", vocab_size=len(listed)), tokenizer)


def test_byte_level_and_sentencepiece_spell_the_same_tokens() -> None:
    ours, theirs = shared_vocabulary.tokens(tiny_loaded()), shared_vocabulary.tokens(sentencepiece())
    found = {ours[i].spelling: theirs[j].spelling for i, j in shared_vocabulary.shared(ours, theirs).items()}
    assert found == {"A": "A", "\u0120": "\u2581", "\u00e2": "<0xE2>"} | (
        {"\u0120is": "\u2581is"} if "\u0120is" in tiny_tokenizer().get_vocab() else {}
    )


def test_of_tokens_that_write_the_same_the_one_of_equal_spelling_is_taken() -> None:
    theirs = {3: Token("<0x41>", b"A"), 4: Token("A", b"A"), 5: Token("B", b"B")}
    assert shared_vocabulary.shared({0: Token("<0x41>", b"A"), 1: Token("A", b"A"), 2: Token("C", b"C")}, theirs) == {
        0: 3,
        1: 4,
    }


@pytest.mark.parametrize("hearer", [longer, renumbered, sentencepiece, load])
def test_no_special_token_is_shared(hearer: object) -> None:
    other: LoadedModel = hearer()  # type: ignore[operator]  # each makes a model
    for speaks, hears in ((tiny_loaded(), other), (other, tiny_loaded())):
        pairs = shared_vocabulary.shared(shared_vocabulary.tokens(speaks), shared_vocabulary.tokens(hears))
        for loaded, found in ((speaks, pairs.keys()), (hears, pairs.values())):
            apart = {*loaded.stop_ids, *loaded.tokenizer.all_special_ids, *loaded.tokenizer.added_tokens_decoder}
            assert pairs and apart and not apart & {*found}


def test_special_tokens_of_a_message_are_heard_as_their_characters() -> None:
    hearer, spoken = renumbered(), (*ids("3"), 2)
    payload = Payload(
        Label("cipher", "3<|im_end|>", "", "", ""),
        {"ids": torch.tensor(spoken), "spans": torch.tensor([[0, 1], [1, 11]])},
    )
    means = shared_vocabulary.between(tiny_loaded(), hearer).table.rows[list(spoken)]

    found = hearer.table.nearest(shared_vocabulary.read_rows(payload, means, [0, 1], hearer)).tolist()

    assert not {*found} & {*ENDS} and text_of(found, hearer) == "3<|im_end|>"


def text_of(found: list[int], loaded: LoadedModel) -> str:
    return loaded.detokenizer(special=False).text(found)


# Who may cross


def test_a_note_says_how_much_is_shared_and_without_the_option_the_edge_is_refused() -> None:
    told = Cipher(shared_vocabulary=True).check(tiny_loaded(), renumbered(("e",)))
    assert told == (
        "by cipher over the shared vocabulary: 100% of the tokens of 'qwen2-0' are shared, the rest is heard as words, "
        "which is outside the paper"
    )
    with pytest.raises(
        ProtocolError, match=r"cipher needs one vocabulary, .* `shared_vocabulary=True`, or .* `fallback='nl'`"
    ):
        Cipher().check(tiny_loaded(), renumbered(("e",)))


def test_vocabularies_without_a_common_token_are_refused_by_name(store: PayloadStore) -> None:
    nothing = renumbered(tuple(sorted(tiny_tokenizer().get_vocab())))

    with pytest.raises(
        ProtocolError, match="'qwen2-0' and 'renumbered' have no shared vocabulary: they share no token"
    ):
        Cipher(shared_vocabulary=True).check(tiny_loaded(), nothing)
    message = say(Cipher(shared_vocabulary=True), tiny_loaded(), store, hearers=(nothing,))  # as with --fallback nl
    assert all(
        isinstance(piece, Ids)
        for piece in hear(Cipher(shared_vocabulary=True), nothing, store, MessageRef(message)).prompt
    )


def test_what_is_to_be_heard_as_words_is_so_over_the_shared_vocabulary_too(store: PayloadStore) -> None:
    hearer = renumbered()
    message = say(Cipher(shared_vocabulary=True), speaker(), store, sampling=WARM, hearers=(hearer,))

    request = hear(Cipher(shared_vocabulary=True), hearer, store, MessageRef(message, plain=True))

    assert not any(isinstance(piece, Rows) for piece in request.prompt)
    assert request.length == hear(NL(), hearer, store, MessageRef(message)).length


def test_models_of_one_vocabulary_share_all_of_it(store: PayloadStore) -> None:
    assert Cipher(shared_vocabulary=True).check(tiny_loaded(), in_order()) is None
    message = say(Cipher(shared_vocabulary=True), tiny_loaded(), store, hearers=(in_order(),))
    assert not any(name.startswith(shared_vocabulary.SHARED) for name in payload_of(message, store).tensors)
