"""Bridges: what a map computes, where it stands, and what crosses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sottovoce.bridges.pairs import keys_values, read
from sottovoce.bridges.refine import prompt_of
from sottovoce.bridges.texts import Lesson
from sottovoce.channels import create
from sottovoce.channels.bridge import CUT, Bridge, bridge_for, features, handed, read_bridge, standardized
from sottovoce.channels.bridge_files import read_label, save_bridge
from sottovoce.channels.kv import KV
from sottovoce.channels.message import Message, MessageRef, Turn
from sottovoce.channels.options import Probe
from sottovoce.channels.payload import Payload
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import PayloadError, ProtocolError, UsageError
from sottovoce.models import Cached, Ids, LoadedModel, Request, Stop, Text, assemble
from tests.bridges.support import SIZE, deep, drawn, narrow, other_tokenizer, random_bridge
from tests.support import GREEDY, close, payload_of, request_of, tiny_loaded, tiny_model, tiny_tokenizer

FACT, QUESTION = "Mia has 3 apples.", "What is 14 + 3?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bridge of random numbers from the narrow model to the deep one."""
    path = tmp_path_factory.mktemp("bridges") / "narrow-deep"
    random_bridge(narrow(), deep(), path)
    return str(path)


def kv(folder: str, **options: Any) -> KV:
    return KV(bridge=(folder,), **options)


def store_load(store: PayloadStore) -> Any:
    return lambda ref: ref.load(store)


def sent(
    protocol: Protocol,
    store: PayloadStore,
    *turns: Turn,
    max_new: int = 0,
    hearers: tuple[LoadedModel, ...] | None = None,
    agent: str = "agent_1",
) -> Message:
    """A message of the narrow model about its turns, for the deep one."""
    asked = request_of(
        protocol,
        turns or (Turn("user", (FACT,)),),
        narrow(),
        store_load(store),
        max_new,
        hearers=(deep(),) if hearers is None else hearers,
    )
    payload = protocol.record_reply(narrow().engine.run(asked), narrow())
    return Message(agent, 0, "brief", payload.label.text, payload=store.put(payload))


def asked(protocol: Protocol, store: PayloadStore, *parts: Any, loaded: LoadedModel | None = None) -> Request:
    """The request of an agent that reads messages before a question, and answers in words."""
    loaded = loaded or deep()
    prompt = protocol.encode_prompt([Turn("user", (*parts, QUESTION))], loaded, store_load(store))
    return create("nl").make_request(prompt.request(loaded, 6, GREEDY), loaded)


def cached(request: Request) -> list[Cached]:
    return [piece for piece in request.prompt if isinstance(piece, Cached)]


def text_of(text: str) -> dict[str, torch.Tensor]:
    """What the narrow model computed of a text behind its template's head."""
    (found,) = keys_values(narrow(), [narrow().chat.ids(text, plain=True)], keys=False)
    return handed(found, narrow())


def rows_for(text: dict[str, torch.Tensor], reader: LoadedModel | None = None) -> torch.Tensor:
    return features(text, range(len(text["text"])), reader or deep())


def positions(*texts: str) -> int:
    """The positions that some texts of the narrow model become: the deep one's tokens."""
    return sum(len(deep().chat.ids(text, plain=True)) for text in texts)


# The map


def test_a_map_is_the_formula_of_the_specification_on_numbers_by_hand() -> None:
    """From three features to one layer with one head of 2."""
    label, _ = drawn(narrow(), deep())
    tensors = {
        "mean": torch.tensor([1.0, 0, 0]),
        "scale": torch.tensor([0.5, 1, 1]),
        "weight": torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 0, 0, 0], [0, 0, 0, 100.0]]).bfloat16(),
        "bias": torch.tensor([0.0, 0.5, 0.0, -1.0]),
    }
    bridge = Bridge(replace(label, receiver=replace(label.receiver, layers=1, heads=1, width=2)), tensors)
    keys, values = bridge.mapped(torch.tensor([[2.0, 0.5, 0], [100.0, -3.0, 1], [-100.0, 0, 0]]))
    assert keys.tolist() == [[[[7.0, 4.5], [CUT - 30, 2 * CUT + 0.5], [-CUT, -2 * CUT + 0.5]]]]
    assert values.tolist() == [[[[6.0, 7.0], [3 * CUT, 4 * CUT + 99], [-3 * CUT, -4 * CUT - 1]]]]


def test_features_and_numbers_are_ordered_by_layer_head_and_width() -> None:
    label, tensors = drawn(narrow(), deep())
    found = text_of("a")
    assert len(found["text"]) == 1
    keys, values = Bridge(label, tensors).mapped(rows_for(found))
    assert keys.shape == values.shape == (3, 1, 1, 16)
    states = [found["values"][layer, head, 0] for layer in range(2) for head in range(2)]
    row = torch.cat([*states, found["inputs"][0], torch.zeros_like(found["inputs"][0]), torch.tensor([1.0, 0, 0, 0])])
    out = ((row - tensors["mean"]) / tensors["scale"]).clamp(-CUT, CUT) @ tensors["weight"].float() + tensors["bias"]
    assert close(torch.cat([keys[:, 0, 0].flatten(), values[:, 0, 0].flatten()]), out, 1e-4)


def test_what_is_handed_over_are_texts_and_how_far_each_position_has_read() -> None:
    found, ids = text_of(FACT), narrow().chat.ids(FACT, plain=True)
    assert "".join(map(chr, found["characters"].tolist())) == FACT
    assert found["text"].tolist() == [end for _, end in narrow().detokenizer(special=True).spans(ids)]
    assert torch.equal(found["inputs"], narrow().table.rows[list(ids)])


def test_parts_of_a_text_are_tokenized_alone(folder: str) -> None:
    """A quote of some positions: its own characters, and no others."""
    found = text_of(FACT)
    assert len(features(found, [1, 2, 4], deep())) == sum(
        len(deep().chat.ids(FACT[found["text"][a] : found["text"][b]], plain=True)) for a, b in ((0, 2), (3, 4))
    )
    strange = {**found, "characters": torch.tensor([0xD800] * len(FACT), dtype=torch.int32)}
    assert len(rows_for(strange)) == len(deep().chat.ids("?" * len(FACT), plain=True))  # no text has a lone surrogate


def test_a_piece_before_a_prompt_is_the_head_and_then_keys_turned_to_their_places(folder: str) -> None:
    bridge, found = read_bridge(folder), text_of(FACT)
    keys, values = bridge.mapped(rows_for(found))
    head, n, at = bridge.label.head, positions(FACT), range(len(found["text"]))
    piece, quoted = (bridge.piece(found, at, deep(), first=first) for first in (True, False))
    assert piece.at.tolist() == [*range(head + n)] and piece.layers == (0, 1, 2) and not piece.gaps
    assert torch.equal(piece.keys[:, :, :head], bridge.tensors["head_keys"])
    assert torch.equal(piece.values[:, :, :head], bridge.tensors["head_values"])
    turned = deep().network.rotary.turn(keys, (0, 1, 2), torch.arange(head, head + n))
    assert torch.equal(piece.keys[:, :, head:], turned) and torch.equal(piece.values[:, :, head:], values)
    back = deep().network.rotary.turn(quoted.keys, (0, 1, 2), -quoted.at)
    assert len(quoted) == n and close(back, keys, 1e-5) and torch.equal(quoted.values, values)


def test_an_exact_map_gives_the_reply_of_the_receiver_s_own_keys_and_values() -> None:
    """A map with more features than positions goes through all of them: the receiver reads what it would have read."""
    text, loaded = "Mia has 3 apples. 22 pears.", tiny_loaded("llama", seed=3, max_position_embeddings=4096)
    label, tensors = drawn(narrow(), loaded)
    known, (targets,) = read(narrow(), loaded, [Lesson(text)], lambda n: None)
    rows = known[0].features
    assert len(rows) < rows.shape[1]
    tensors |= {"mean": rows.mean(0), "scale": rows.std(0).clamp_min(1e-6), "bias": targets.mean(0)}
    known_rows = standardized(rows, tensors["mean"], tensors["scale"])
    tensors["weight"] = torch.linalg.lstsq(known_rows, targets - tensors["bias"], driver="gelsd").solution
    bridge, question = Bridge(label, tensors), Ids(prompt_of(loaded, QUESTION))
    head = Ids(loaded.chat.encode([Turn("user", (text,))], apart=True)[0])  # type: ignore[arg-type]
    own, mapped, nothing = (
        loaded.engine.run(Request((*before, question), Stop(12)))
        for before in (
            (head, Ids(loaded.chat.ids(text, plain=True))),
            (bridge.piece(text_of(text), range(len(known[0].features)), loaded, first=True),),
            (head,),
        )
    )
    assert mapped.ids == own.ids != nothing.ids


# What crosses


def test_the_template_s_tokens_stay_behind(folder: str, store: PayloadStore) -> None:
    """What the reader gets is its own head, and the positions of the sender's texts' tokens."""
    turns = (Turn("system", ("You know: 22 pears.",)), Turn("user", (FACT, " 3 apples")))
    message = sent(kv(folder), store, *turns)
    texts = ["You know: 22 pears.", FACT, " 3 apples"]
    ids = [id for text in texts for id in narrow().chat.ids(text, plain=True)]
    payload = payload_of(message, store)
    pieces = narrow().chat.encode(turns, apart=True)
    assert [id for piece in pieces if isinstance(piece, Text) for id in piece] == ids
    marked = [isinstance(piece, Text) for piece in pieces for _ in piece]  # type: ignore[union-attr]
    assert (payload.tensors["text"] >= 0).tolist() == marked
    assert "".join(map(chr, payload.tensors["characters"].tolist())) == "".join(texts)
    (piece,) = cached(asked(kv(folder), store, MessageRef(message)))
    bridge = read_bridge(folder)
    at = [i for i, is_text in enumerate(marked) if is_text]
    assert close(payload.tensors["inputs"][at], narrow().table.rows[ids], 0)
    crossed = bridge.mapped(features(payload.tensors, at, deep()))[1]
    assert torch.equal(piece.values[:, :, bridge.label.head :], crossed)
    assert crossed.shape[2] == sum(map(positions, (texts[0], texts[1] + texts[2])))  # the last two touch


def test_texts_apart_are_the_same_tokens_but_at_their_seams() -> None:
    turns = [Turn("system", ("You know: 22.",)), Turn("user", (FACT, "And <|im_end|> it", "\n"))]
    usual, apart = (narrow().chat.encode(turns, apart=each) for each in (False, True))
    decode = narrow().tokenizer.decode
    flat = [[id for piece in pieces for id in piece] for pieces in (usual, apart)]  # type: ignore[union-attr]
    assert decode(flat[0]) == decode(flat[1])
    assert [decode(list(each)) for each in apart if isinstance(each, Text)] == [
        "You know: 22.", FACT, "And <|im_end|> it", "\n"
    ]  # fmt: skip
    assert flat[1].count(narrow().tokenizer.convert_tokens_to_ids("<|im_end|>")) == 2  # the template's
    (plain,) = narrow().chat.encode([Turn("user", (FACT,))])
    assert isinstance(plain, tuple) and not isinstance(plain, Text)


def test_without_a_bridge_nothing_is_tokenized_apart_and_nothing_is_marked(store: PayloadStore) -> None:
    message = sent(KV(), store, hearers=())
    assert {"keys", "values", "at"} <= payload_of(message, store).tensors.keys()
    assert "text" not in payload_of(message, store).tensors
    (piece,) = KV().encode_prompt([Turn("user", (FACT,))], narrow(), store_load(store)).pieces
    assert isinstance(piece, Ids) and piece.origin == "prompt"


@pytest.mark.parametrize("carry", ["prompt", "reply", "both"])
def test_a_prompt_a_reply_or_both_cross(carry: Any, folder: str, store: PayloadStore) -> None:
    protocol = kv(folder, carry=carry)
    message = sent(protocol, store, max_new=5)
    (piece,) = cached(asked(protocol, store, MessageRef(message)))
    payload = payload_of(message, store)
    prompt, reply = positions(FACT), positions(payload.label.text)
    expected = {"prompt": prompt, "reply": reply, "both": prompt + reply}[carry]
    assert len(payload) == 5 and len(piece) == read_label(folder).head + expected


def test_quoted_words_are_replaced_without_a_head(folder: str, store: PayloadStore) -> None:
    protocol = kv(folder, carry="reply", place="quoted")
    message = sent(protocol, store, max_new=5)
    request = asked(protocol, store, "You hear: ", MessageRef(message))
    (piece,) = cached(request)
    payload = payload_of(message, store)
    assert len(piece) == positions(payload.label.text) and isinstance(request.prompt[0], Ids)
    (part,) = cached(asked(protocol, store, "You hear: ", MessageRef(message, (payload.spans[2],))))
    assert len(part) == positions(payload.label.text[slice(*payload.spans[2])])


def test_a_reply_without_words_puts_no_head_before_the_prompt(folder: str, store: PayloadStore) -> None:
    """Seen: the receiver's own beginning of a turn stood there, with nothing behind it."""
    protocol = kv(folder, carry="reply")
    assert cached(asked(protocol, store, MessageRef(sent(protocol, store)))) == []


@pytest.mark.parametrize("heard", ["plain", "words of another", "prefill"])
def test_words_that_a_sender_heard_or_began_with_cross_like_any_text(
    heard: str, folder: str, store: PayloadStore
) -> None:
    """Seen: only what was quoted by its payload's tokens crossed, and no message in words."""
    protocol = kv(folder, carry="both")
    other = Message("agent_3", 0, "brief", "22 pears.")
    other = replace(sent(protocol, store, max_new=3), agent="agent_3") if heard == "plain" else other
    turn = Turn("user", (FACT,) if heard == "prefill" else (FACT, MessageRef(other, plain=heard == "plain")))
    prompt = protocol.encode_prompt([turn], narrow(), store_load(store))
    if heard == "prefill":
        prompt = protocol.with_prefill(prompt, Turn("assistant", ("22 pears.",)), narrow(), store_load(store))
    texts = [piece for piece in prompt.pieces if isinstance(piece, Ids) and piece.origin == "text"]
    assert len(texts) == 2


def test_several_senders_stand_one_behind_the_other(folder: str, store: PayloadStore) -> None:
    messages = [sent(kv(folder), store, Turn("user", (text,)), agent=text) for text in (FACT, "22 pears.")]
    pieces = cached(asked(kv(folder), store, *map(MessageRef, messages)))
    head = read_label(folder).head
    assert [len(each) - head for each in pieces] == [positions(FACT), positions("22 pears.")]


# Payloads


def test_keys_are_recorded_only_for_a_reader_with_the_same_weights(folder: str, store: PayloadStore) -> None:
    bridged = payload_of(sent(kv(folder), store), store)
    both = payload_of(sent(kv(folder), store, hearers=(deep(), narrow())), store)
    nobody = payload_of(sent(kv(folder), store, hearers=()), store)
    assert ["keys" in each.tensors for each in (bridged, both, nobody)] == [False, True, True]
    sizes = [
        sum(each.tensors[name].nbytes for name in ("keys", "values") if name in each.tensors)
        for each in (bridged, both)
    ]
    assert 2 * sizes[0] == sizes[1]
    for payload in (bridged, both):
        again = Payload.from_bytes(payload.to_bytes())
        assert again.label == payload.label and again.tensors.keys() == payload.tensors.keys()
        assert all(torch.equal(again.tensors[name], tensor) for name, tensor in payload.tensors.items())
        payload.check_for(deep())
        payload.check_for(narrow())
    own, mapped = (
        cached(asked(kv(folder), store, MessageRef(Message("a", 0, "b", "", payload=store.put(both))), loaded=loaded))
        for loaded in (narrow(), deep())
    )
    assert torch.equal(own[0].keys, both.tensors["keys"]) and len(mapped[0]) < len(own[0]) + read_label(folder).head
    alone = MessageRef(Message("a", 0, "b", "", payload=store.put(bridged)))
    assert cached(asked(kv(folder), store, alone, loaded=narrow())) == []  # no keys are there: its words


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"text": torch.ones(3)}, "the shape of text"),
        ({"inputs": None}, "inputs is missing"),
        ({"characters": torch.full((99,), 0x110000)}, "a value of characters"),
        ({"characters": torch.tensor([65])}, "a value of text"),
        ({"text": torch.ones(99).long()}, "the shape of text"),
        (
            {
                "values": torch.full((2, 2, 5, 8), torch.nan),
                "at": torch.arange(5),
                "text": torch.ones(5).long(),
                "inputs": torch.ones(5, 3),
            },
            "NaN",
        ),
        ({"at": None}, "at is missing"),
    ],
)
def test_damaged_payloads_are_refused(change: dict[str, Any], complaint: str, folder: str, store: PayloadStore) -> None:
    payload = payload_of(sent(kv(folder), store), store)
    tensors = {name: each for name, each in {**payload.tensors, **change}.items() if each is not None}
    with pytest.raises(PayloadError, match=complaint):
        Payload(payload.label, tensors).to_bytes()


def test_a_reference_says_what_is_carried(folder: str, store: PayloadStore) -> None:
    payload = sent(kv(folder), store).payload
    n = sum(map(len, narrow().chat.encode([Turn("user", (FACT,))], apart=True)))  # type: ignore[arg-type]
    assert payload is not None and payload.positions == n
    assert f"{n} positions of the prompt (values alone, for a bridge) × 2 layers × 16, float32" in payload.summary


@pytest.mark.parametrize("carry_as", ["bfloat16", "int8"])
def test_fewer_bytes_cross_close(carry_as: Any, folder: str, store: PayloadStore) -> None:
    whole, message = (sent(kv(folder, **options), store) for options in ({}, {"carry_as": carry_as}))
    assert whole.payload is not None and message.payload is not None
    assert message.payload.nbytes < 0.7 * whole.payload.nbytes and message.payload.dtype == carry_as
    (one,), (other,) = (cached(asked(kv(folder), store, MessageRef(each))) for each in (message, whole))
    assert close(one.keys, other.keys, 0.05) and not torch.equal(one.keys, other.keys)


@pytest.mark.parametrize("probe", ["shuffled", "zeroed", "noise", "noise_cov", "text"])
def test_probes_replace_what_crosses(probe: Probe, folder: str, store: PayloadStore) -> None:
    message, donor = sent(kv(folder), store), sent(kv(folder), store, Turn("user", ("22 pears. And so?",)))
    assert donor.payload is not None
    from_a_run = {"probe_from": "a run"} if probe in ("shuffled", "noise_cov") else {}
    protocol = kv(folder, probe=probe, **from_a_run)
    found = asked(protocol, store, MessageRef(message, donors=(donor.payload,)))
    pieces, (own,) = cached(found), cached(asked(kv(folder), store, MessageRef(message)))
    (other,) = cached(asked(kv(folder), store, MessageRef(donor)))
    if probe in ("zeroed", "text"):
        assert pieces == []
    elif probe == "shuffled":
        assert torch.equal(pieces[0].keys, other.keys) and torch.equal(pieces[0].values, other.values)
    else:
        head = read_label(folder).head
        assert pieces[0].values.shape == own.values.shape
        assert torch.equal(pieces[0].values[:, :, :head], own.values[:, :, :head])
        assert not close(pieces[0].values[:, :, head:], own.values[:, :, head:], 0.1)
    assert len(deep().engine.run(found).ids) > 0


# Who is connected


def test_a_bridge_connects_two_models_in_one_direction(folder: str) -> None:
    label, protocol = read_label(folder), kv(folder)
    told = protocol.check(narrow(), deep())
    assert told is not None and told.endswith(f"; over the bridge qwen2-0 to deep, {label.digest[:12]}, not tested")
    assert "between other weights" not in told
    assert "bridge" not in (protocol.check(narrow(), narrow()) or "")
    with pytest.raises(
        ProtocolError, match=r"no bridge leads from 'deep' to 'qwen2-0'.*fit one with `bridge fit`"
    ) as no:
        protocol.check(deep(), narrow())
    assert "\n" not in str(no.value) and "leads from qwen2-0 to deep" in str(no.value)
    with pytest.raises(ProtocolError, match=r"kv needs one architecture .*, or a bridge, but"):
        KV().check(narrow(), deep())


def test_what_a_sender_received_is_not_said_to_cross(folder: str, store: PayloadStore) -> None:
    """Seen: a note under `keep=all` promised it, and a bridge maps only texts and words."""
    told = kv(folder, keep="all").check(narrow(), deep())
    assert told is not None and "received" not in told
    assert "what was received" in (kv(folder, keep="all").check(narrow(), narrow()) or "")


def other(**change: Any) -> tuple[LoadedModel, LoadedModel]:
    """The two models, one with other weights, dtype or tokenizer."""
    shape: Any = {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 1}
    model = tiny_model(
        "llama", vocab_size=SIZE, max_position_embeddings=4096, **{"seed": 1, **shape, **change.pop("model", {})}
    )
    return narrow(), assemble(
        "other", model.to(change.get("dtype", torch.float32)), change.get("tokenizer", other_tokenizer())
    )


@pytest.mark.parametrize(
    "change",
    [{"model": {"seed": 2}}, {"dtype": torch.bfloat16}, {"tokenizer": tiny_tokenizer()}],
    ids=["weights", "dtype", "tokenizer"],
)
def test_a_bridge_is_of_two_models_alone(change: dict[str, Any], folder: str) -> None:
    sender, receiver = other(**change)
    with pytest.raises(ProtocolError, match="no bridge leads from 'qwen2-0' to 'other'"):
        kv(folder).check(sender, receiver)


def test_the_bridge_of_several_is_the_one_between_the_two(folder: str, tmp_path: Path) -> None:
    random_bridge(deep(), narrow(), tmp_path / "back")
    labels = {each: read_label(each) for each in (folder, str(tmp_path / "back"))}
    for sender, receiver, name in ((narrow(), deep(), folder), (deep(), narrow(), str(tmp_path / "back"))):
        bridge = bridge_for(sender.weights_key, receiver, labels)
        assert bridge is not None and bridge.label == read_label(name)
    assert bridge_for(narrow().weights_key, narrow(), labels) is None
    random_bridge(narrow(), deep(), tmp_path / "again", seed=1)
    with pytest.raises(UsageError, match="lead from one model to one other; name one"):
        KV(bridge=(folder, str(tmp_path / "again"))).check(narrow(), deep())


def test_a_label_with_another_shape_than_its_models_have_leads_nowhere(tmp_path: Path) -> None:
    """Seen: keys of two layers were put into an engine of three, whose other requests failed too."""
    label, _ = drawn(narrow(), deep())
    label = replace(label, receiver=replace(label.receiver, layers=2))
    tensors = {name: torch.ones(shape) for name, (shape, _) in label.shapes().items()}
    save_bridge(tmp_path, label, {**tensors, "weight": tensors["weight"].bfloat16()})
    with pytest.raises(ProtocolError, match="no bridge leads from"):
        kv(str(tmp_path)).check(narrow(), deep())


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("thoughts", {}, "this is thoughts with compat paper"),
        ("kv", {"compat": "reference"}, "this is kv with compat reference"),
        ("kv", {"layers": (0,)}, "leave out layers, layer_share and positions"),
        ("kv", {"layer_share": 0.5}, "leave out layers, layer_share and positions"),
        ("kv", {"positions": "paper"}, "leave out layers, layer_share and positions"),
    ],
)
def test_options_that_a_bridge_cannot_follow_are_refused(name: str, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        create(name, bridge=("bridges/one",), **options)
