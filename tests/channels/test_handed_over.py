"""kv, thoughts and graft: what is handed over, where it stands, and what a reader makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from sottovoce.channels import create
from sottovoce.channels.kv import KV, Thoughts
from sottovoce.channels.kv_layers import calibrated, chosen_layers, importance_of, layer_of, layer_scores
from sottovoce.channels.message import Message, MessageRef, Turn, with_readable_payloads
from sottovoce.channels.options import Probe
from sottovoce.channels.payload import Label, Payload
from sottovoce.channels.protocol import Protocol
from sottovoce.channels.sde import Graft
from sottovoce.channels.store import PayloadStore
from sottovoce.core.errors import PayloadError, ProtocolError, UsageError
from sottovoce.models import Cached, Ids, LoadedModel, Record, Reply, Request, assemble
from sottovoce.models.huggingface.layers import hooked
from sottovoce.models.huggingface.rotary import _keys
from tests.support import GREEDY, HIDDEN, close, longer_tokenizer, payload_of, request_of, tiny_loaded, tiny_model
from tests.tables import each_row

LOADED = tiny_loaded("llama", num_hidden_layers=4, sharp=0.15)
FACT, QUESTION = "Mia has 3 apples.", "What is 14 + 3?"


def hand(
    protocol: Protocol,
    store: PayloadStore,
    prompt: str = FACT,
    *,
    max_new: int = 0,
    loaded: LoadedModel = LOADED,
    agent: str = "agent_1",
) -> Message:
    """What an agent hands over of a prompt, without words unless it may use some."""
    asked = request_of(protocol, [Turn("user", (prompt,))], loaded, store_load(store), max_new)
    payload = protocol.record_reply(loaded.engine.run(asked), loaded)
    return Message(agent, 0, "brief", payload.label.text, payload=store.put(payload))


def store_load(store: PayloadStore) -> Any:
    return lambda ref: ref.load(store)


def asked(protocol: Protocol, store: PayloadStore, *parts: Any, loaded: LoadedModel = LOADED) -> Request:
    """The request of an agent that reads messages before a question, and answers in words."""
    prompt = protocol.encode_prompt([Turn("user", (*parts, QUESTION))], loaded, store_load(store))
    return create("nl").make_request(prompt.request(loaded, 6, GREEDY), loaded)


def chat(loaded: LoadedModel, text: str) -> Ids:
    (piece,) = loaded.chat.encode([Turn("user", (text,))])
    assert isinstance(piece, tuple)
    return Ids(piece)


def logprobs(reply: Reply) -> torch.Tensor:
    assert reply.stats is not None
    return reply.stats.logprob


def cached(request: Request) -> list[Cached]:
    return [piece for piece in request.prompt if isinstance(piece, Cached)]


# kv


def test_a_prompt_handed_over_is_one_sequence_of_both_prompts(store: PayloadStore) -> None:
    found = asked(KV(), store, MessageRef(hand(KV(), store)))
    expected = replace(found, prompt=(chat(LOADED, FACT), chat(LOADED, QUESTION)))
    one, other = LOADED.engine.run(found), LOADED.engine.run(expected)
    assert one.ids == other.ids and close(logprobs(one), logprobs(other), 1e-4)


@pytest.mark.parametrize("family", ["gptj", "codegen"])
def test_families_that_keep_tables_of_sines_hand_keys_over_and_turn_them(family: str, store: PayloadStore) -> None:
    loaded = tiny_loaded(family, rotary_dim=4)
    found = asked(KV(), store, MessageRef(hand(KV(), store, loaded=loaded)), loaded=loaded)
    expected = replace(found, prompt=(chat(loaded, FACT), chat(loaded, QUESTION)))
    one, other = loaded.engine.run(found), loaded.engine.run(expected)
    assert one.ids == other.ids and close(logprobs(one), logprobs(other), 1e-4)
    first, far = (torch.stack(_keys(loaded.model, at, loaded.table.rows[40])) for at in (0, 200))
    assert close(loaded.network.rotary.turn(first, (0, 1), torch.tensor([200])), far, 1e-4)


def test_several_senders_stand_in_the_order_in_which_they_are_heard(store: PayloadStore) -> None:
    messages = [hand(KV(), store, prompt, agent=prompt) for prompt in ("You know: 22 pears.", FACT)]
    heard = [MessageRef(each) for each in messages]
    pieces = cached(asked(KV(), store, *heard, "And again: ", heard[0]))
    lengths = [len(payload_of(each, store).tensors["at"]) for each in messages]
    assert [len(piece) for piece in pieces] == lengths  # each once, however often it is referred to
    assert all(piece.turned for piece in pieces)
    assert not any(piece.turned for piece in cached(asked(KV(positions="paper"), store, *heard)))


def test_agents_that_read_the_same_are_two_senders_also_where_no_bit_differs(store: PayloadStore) -> None:
    """Seen: one of two was dropped, unless they had been computed in other company, whose rounding differs."""
    one = hand(KV(), store)
    other = replace(one, agent="agent_2")
    first, second = cached(asked(KV(), store, MessageRef(one), MessageRef(other), MessageRef(one)))
    assert first.digest == second.digest


def test_the_state_of_a_message_that_is_quoted_twice_is_added_once(store: PayloadStore) -> None:
    protocol = Graft(merge="sum")
    one = hand(protocol, store, max_new=4)
    parts = [MessageRef(each, (span,)) for each in (one, replace(one, agent="agent_2")) for span in ((0, 1), (1, 2))]
    assert len(asked(protocol, store, *parts).edits) == 2


def test_words_stay_words_and_those_handed_over_are_not_read_again(store: PayloadStore) -> None:
    for options, own in (({}, 0), ({"carry": "reply"}, 8), ({"carry": "both"}, 8)):
        message = hand(create("kv", **options), store, max_new=8)
        before = asked(create("kv", **options), store, MessageRef(message))
        (piece,) = cached(before)
        prompt = len(chat(LOADED, FACT))
        assert len(piece) == (0 if options == {"carry": "reply"} else prompt) + own
        words = asked(create("nl"), store, MessageRef(message))
        assert before.prompt[1:] == words.prompt


def test_a_quoted_reply_in_its_own_place_is_what_was_said_there(store: PayloadStore) -> None:
    """Where all before it is the same, its keys and values are those that reading it would give."""
    protocol = KV(carry="reply", place="quoted")
    message = hand(protocol, store, max_new=8)
    turns = [Turn("user", (FACT,)), Turn("assistant", (MessageRef(message),)), Turn("user", (QUESTION,))]
    prompts = [each.encode_prompt(turns, LOADED, store_load(store)) for each in (protocol, create("nl"))]
    plain = (each.request(LOADED, 6, GREEDY) for each in prompts)
    one, other = (LOADED.engine.run(create("nl").make_request(each, LOADED)) for each in plain)
    assert one.ids == other.ids and close(logprobs(one), logprobs(other), 1e-4)


@pytest.mark.parametrize("reference", ["own", "plain", "old", "public"])
def test_what_is_not_heard_with_its_payload_is_words(store: PayloadStore, reference: str) -> None:
    message = hand(KV(), store, max_new=4)
    message = replace(message, public="22") if reference == "public" else message
    heard = MessageRef(message, own=reference == "own", plain=reference == "plain", latest=reference != "old")
    assert cached(asked(KV(), store, heard)) == []
    assert len(cached(asked(KV(inject="all"), store, heard))) == (reference == "old")


# Layers


def test_layers_are_chosen_by_attention_and_a_gaussian_on_a_case_by_hand() -> None:
    """Two heads, three tokens sent and two asked; the first position, an attention sink, is left out."""
    weights = torch.zeros(2, 5, 5)
    weights[0, 3, :4] = torch.tensor([0.5, 0.1, 0.2, 0.2])
    weights[0, 4, :] = torch.tensor([0.2, 0.2, 0.2, 0.2, 0.2])
    weights[1, 3, :4] = torch.tensor([0.1, 0.4, 0.4, 0.1])
    weights[1, 4, :] = torch.tensor([0.9, 0.0, 0.1, 0.0, 0.0])
    assert importance_of([weights, weights / 2], 3).tolist() == pytest.approx([0.4, 0.2])  # (.3 + .4 + .8 + .1) / 4
    importance = torch.tensor([0.4, 0.2, 0.1, 0.3])
    assert layer_scores(importance, 1.0).tolist() == pytest.approx([1, 1 / 3, 0, 2 / 3])
    edge, middle = (torch.exp(torch.tensor(-(apart**2) / 200.0)).item() for apart in (1.5, 0.5))
    assert edge < middle
    assert layer_scores(importance, 0.0).tolist() == pytest.approx([0, 1, 1, 0])  # min-max of edge and middle
    assert layer_scores(importance, 0.75).tolist() == pytest.approx([0.75, 0.5, 0.25, 0.5])


@pytest.mark.parametrize(
    ("share", "alpha", "expected"),
    [(1.0, 1.0, (0, 1, 2, 3)), (0.5, 0.0, (0, 1, 2)), (0.25, 0.0, (0, 1)), (0.3, 0.0, (0, 1))],
)
def test_a_share_of_layers_is_rounded_down_with_the_first(
    share: float, alpha: float, expected: tuple[int, ...]
) -> None:
    assert chosen_layers(LOADED, share, alpha) == expected


def test_calibration_measures_attention_once_and_leaves_the_model_as_it_was() -> None:
    kind = LOADED.model.config._attn_implementation
    found = calibrated(LOADED)
    assert found.shape == (4,) and (found > 0).all() and (found < 1).all()
    assert calibrated(LOADED) is found and LOADED.model.config._attn_implementation == kind
    best = int(found.argmax())
    assert chosen_layers(LOADED, 0.25, 1.0) == tuple(sorted({0, best}))


def test_layers_left_out_carry_their_first_position_alone(store: PayloadStore) -> None:
    whole, message = hand(KV(), store), hand(KV(layers=(2,)), store)
    payload, full = payload_of(message, store), payload_of(whole, store)
    assert payload.label.layers == (0, 2)
    assert torch.equal(payload.tensors["keys"], full.tensors["keys"][[0, 2]])
    assert torch.equal(payload.tensors["first_values"], full.tensors["values"][[1, 3], :, :1])
    (piece,) = cached(asked(KV(layers=(2,)), store, MessageRef(message)))
    assert piece.layers == (0, 2) and LOADED.engine.run(asked(KV(layers=(2,)), store, MessageRef(message))).ids
    assert message.payload is not None and whole.payload is not None
    assert message.payload.nbytes < 0.6 * whole.payload.nbytes


def test_the_first_position_of_layers_left_out_is_turned_by_its_own_distance(store: PayloadStore) -> None:
    """Seen: of a message heard in part, as if it were the position of the first token heard."""
    protocol = KV(carry="reply", place="quoted", layers=(2,))
    message = hand(protocol, store, max_new=8)
    payload = payload_of(message, store)
    request = asked(protocol, store, "You hear: ", MessageRef(message, (payload.spans[2],)))
    ((column, _),) = request.cached
    reply = LOADED.engine.run(replace(request, record=Record(cache=("received",))))
    assert reply.cache is not None
    by = column - payload.tensors["at"][:1]
    assert close(reply.cache.keys[[1, 3]], LOADED.network.rotary.turn(payload.tensors["first_keys"], (1, 3), by), 1e-4)


def test_a_reply_without_words_hands_nothing_over(store: PayloadStore) -> None:
    """Seen: a share of its layers was refused as damaged."""
    protocol = KV(carry="reply", layers=(2,))
    assert cached(asked(protocol, store, MessageRef(hand(protocol, store)))) == []


def test_another_depth_takes_each_layer_at_its_relative_place(store: PayloadStore) -> None:
    assert [layer_of(layer, 4, 8) for layer in range(4)] == [0, 2, 4, 6]
    assert [layer_of(layer, 8, 4) for layer in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [layer_of(layer, 3, 3) for layer in range(3)] == [0, 1, 2]
    assert layer_of(0, 4, 12) == 1  # the first layer stands at layer 0, too
    protocol, message = KV(allow_other_weights=True), MessageRef(hand(KV(), store))
    (far,) = cached(asked(protocol, store, message, loaded=tiny_loaded("llama", num_hidden_layers=12)))
    assert far.layers == (0, 1, 4, 7, 10) and torch.equal(far.keys[0], far.keys[1])
    deep = tiny_loaded("llama", num_hidden_layers=8, sharp=0.15)
    told = protocol.check(LOADED, deep)
    assert told is not None and "documents and role included" in told and "between other weights" in told
    (piece,) = cached(asked(protocol, store, message, loaded=deep))
    assert piece.layers == (0, 2, 4, 6) and len(piece.first_keys) == 4
    read = deep.engine.run(asked(protocol, store, message, loaded=deep)).usage
    assert read.reused >= len(piece)


def test_another_vocabulary_of_one_architecture_hears_what_was_read(store: PayloadStore) -> None:
    longer = assemble("longer", tiny_model("llama", num_hidden_layers=4, vocab_size=301), longer_tokenizer())
    protocol = KV(allow_other_weights=True)
    assert protocol.check(LOADED, longer) is not None
    assert len(cached(asked(protocol, store, MessageRef(hand(KV(), store)), loaded=longer))) == 1


def test_a_window_as_long_as_the_context_hands_over_a_part_of_the_layers(store: PayloadStore) -> None:
    wide = tiny_loaded("gemma2", sliding_window=512, max_position_embeddings=512)
    message = hand(KV(layers=(0,)), store, loaded=wide)
    reply = wide.engine.run(asked(KV(layers=(0,)), store, MessageRef(message), loaded=wide))
    assert len(reply.ids) and reply.usage.reused > 0


WHY = dict.fromkeys(("gemma2", "qwen2-window"), "sliding window") | dict.fromkeys(("bloom", "mpt"), "ALiBi")


@pytest.mark.parametrize(("family", "why"), [*WHY.items(), ("gpt2", "learned positions"), ("opt", "learned positions")])
def test_models_whose_keys_cannot_be_moved_are_refused_in_one_line(family: str, why: str, store: PayloadStore) -> None:
    other = tiny_loaded(family)
    for protocol in (KV(), Thoughts()):
        refusal = f"{protocol.name} cannot hand over keys and values .*{why}.*use nl, cipher or sde"
        with pytest.raises(ProtocolError, match=refusal) as told:
            protocol.check(other, other)
        assert "\n" not in str(told.value)


# Payloads


@pytest.mark.parametrize("carry_as", ["bfloat16", "int8"])
def test_fewer_bytes_are_read_back_close(store: PayloadStore, carry_as: str) -> None:
    whole, message = (hand(create("kv", **options), store) for options in ({}, {"carry_as": carry_as}))
    assert whole.payload is not None and message.payload is not None
    assert message.payload.nbytes < 0.7 * whole.payload.nbytes and message.payload.dtype == carry_as
    (one,), (other,) = (cached(asked(KV(), store, MessageRef(each))) for each in (message, whole))
    assert close(one.keys.float(), other.keys, 1e-2) and close(one.values.float(), other.values, 1e-2)


def test_a_reference_says_what_was_carried_and_survives_json(store: PayloadStore) -> None:
    message = hand(Thoughts(latent_steps=2), store)
    assert message.payload is not None
    positions = len(chat(LOADED, FACT)) + 2
    told = f"keys and values of {positions} positions of the prompt and the thoughts"
    assert message.payload.summary.startswith(f"thoughts: no words, {told} × 4 layers × 16, float32, ")
    assert (message.payload.tokens, message.payload.length) == (0, positions)
    back = Message.from_dict(json.loads(json.dumps(message.to_dict())))
    assert back == message and back.payload is not None and back.payload.summary == message.payload.summary
    words = hand(create("nl"), store, max_new=2).payload
    assert words is not None and "positions" not in words.to_dict() and "origin" not in words.to_dict()


def test_what_is_missing_or_damaged_is_one_line(store: PayloadStore) -> None:
    message = hand(KV(), store)
    assert message.payload is not None
    payload = payload_of(message, store)
    with pytest.raises(PayloadError, match="not a payload file"):
        Payload.from_bytes(payload.to_bytes()[:500])
    lost = PayloadStore(store.root / "another")
    with pytest.raises(PayloadError, match=r"message of 'agent_1', round 0: payload .* is missing"):
        asked(KV(), lost, MessageRef(message))
    turns = [Turn("user", (MessageRef(message),))]
    with pytest.raises(PayloadError, match="it has no words that could be read instead"):
        with_readable_payloads(turns, store_load(lost), in_words=True)
    worded = hand(KV(), store, max_new=4)
    assert worded.payload is not None
    (turn,) = with_readable_payloads([Turn("user", (MessageRef(worded),))], store_load(lost), in_words=True)
    assert isinstance(turn.parts[0], MessageRef) and turn.parts[0].message.payload is None


# Thoughts


def test_thoughts_are_made_with_the_table_s_mean_length_and_told_to_readers(store: PayloadStore) -> None:
    for realign in (False, True):
        protocol = Thoughts(latent_steps=3, realign=realign)
        request = request_of(protocol, [Turn("user", (FACT,))], LOADED, store_load(store), 0)
        assert request.thinking is not None
        assert request.thinking.norm == pytest.approx(float(LOADED.table.rows.norm(dim=-1).mean()))
        reply = LOADED.engine.run(request)
        payload = protocol.record_reply(reply, LOADED)
        assert reply.thoughts is not None
        nearest = LOADED.table.nearest(reply.thoughts)
        assert payload.tensors["thought_ids"].tolist() == nearest.tolist() and payload.ids == ()


def test_realignment_is_the_ridge_solution() -> None:
    w, e = LOADED.model.get_output_embeddings().weight.double(), LOADED.table.rows.double()
    expected = torch.linalg.inv(w.T @ w + 1e-5 * torch.eye(HIDDEN, dtype=torch.float64)) @ w.T @ e
    assert close(LOADED.realignment, expected.float(), 1e-3)


@pytest.mark.parametrize(
    ("depth", "sent", "compat"), [(6, {}, "paper"), (4, {"layers": (2,)}, "paper"), (7, {}, "reference")]
)
def test_what_was_received_is_handed_on_with_its_gaps(store: PayloadStore, depth: int, sent: Any, compat: Any) -> None:
    """Seen: the next reader attended to zeros, where its sender's layers had no positions of the first sender."""
    reader = tiny_loaded("llama", num_hidden_layers=depth, sharp=0.15)
    protocol = KV(keep="all", compat=compat, allow_other_weights=True)
    first = MessageRef(hand(KV(compat=compat, **sent), store))
    chain = request_of(protocol, [Turn("user", (first, "Hi"))], reader, store_load(store), 0)
    message = replace(first.message, payload=store.put(protocol.record_reply(reader.engine.run(chain), reader)))
    found = asked(protocol, store, MessageRef(message), loaded=reader)
    assert found.hidden == chain.hidden != {}
    if compat == "paper":  # in the published code, both prompts read as one would see one another
        expected = reader.engine.run(replace(found, prompt=(*chain.prompt, chat(reader, QUESTION))))
        assert close(logprobs(reader.engine.run(found)), logprobs(expected), 1e-4)


def test_no_steps_hand_the_cache_over(store: PayloadStore) -> None:
    for options in ({}, {"keep": "added"}):
        message = hand(create("thoughts", latent_steps=0, **options), store)
        assert message.payload is not None and message.payload.length == len(chat(LOADED, FACT))


@each_row(
    ("protocol", "named"),
    [
        (KV(), "the prompt"),
        (KV(carry="reply"), "the words"),
        (Thoughts(), "the prompt and the thoughts, and of what was received and the words, if any"),
        (Thoughts(latent_steps=0), "the prompt, and of what was received and the words, if any"),
        (Thoughts(latent_steps=0, carry="reply"), "what was received and the words, if any"),
    ],
)
def test_a_note_on_an_edge_names_what_is_sure_to_be_handed_over(protocol: KV, named: str) -> None:
    told = protocol.check(LOADED, LOADED) or ""
    assert told.partition(":")[0] == f"with keys and values of {named}"


# Graft


@pytest.mark.parametrize("merge", ["replace", "sum", "mean"])
def test_a_state_is_put_into_the_last_position_while_the_prompt_is_read(store: PayloadStore, merge: Any) -> None:
    protocol = Graft(layer_from=2, layer_to=3, merge=merge)
    message = hand(protocol, store)
    with torch.inference_mode():
        states = LOADED.model(torch.tensor([chat(LOADED, FACT).ids]), output_hidden_states=True).hidden_states
    state = states[2][0, -1]  # entering layer 2
    assert close(payload_of(message, store).tensors["state"][0], state, 1e-4)
    found = LOADED.engine.run(asked(protocol, store, MessageRef(message)))

    def change(hidden: torch.Tensor) -> torch.Tensor:
        if hidden.shape[1] == 1:  # it decodes
            return hidden
        own = hidden[:, -1]
        hidden = hidden.clone()
        hidden[:, -1] = {"replace": state, "sum": own + state, "mean": (own + state) / 2}[merge]
        return hidden

    prompt = torch.tensor([chat(LOADED, QUESTION).ids])
    with hooked(LOADED.network.layers, {2: change}):
        expected = LOADED.model.generate(prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False)  # type: ignore[operator]
    assert found.ids == tuple(expected[0, prompt.shape[1] :].tolist())[: len(found.ids)]


@pytest.mark.parametrize("merge", ["replace", "sum"])
def test_states_of_another_width_change_the_last_coordinates(store: PayloadStore, merge: Any) -> None:
    wide = tiny_loaded("llama", hidden_size=64)
    protocol = Graft(layer_from=1, layer_to=1, merge=merge, allow_other_weights=True)
    for speaker, hearer in ((LOADED, wide), (wide, LOADED)):
        request = asked(protocol, store, MessageRef(hand(protocol, store, loaded=speaker)), loaded=hearer)
        (change,) = request.edits
        assert change.at == request.length - 1 and change.delta[0, -HIDDEN:].any()
        assert hearer.engine.run(request).ids


# Probes and refusals


@pytest.mark.parametrize("kind", [KV, Graft])
def test_what_one_model_computed_means_nothing_to_another(store: PayloadStore, kind: Any) -> None:
    """Seen: SmolLM2's state was put into Qwen2.5-Coder; README said that they need to share nothing."""
    other, allowing = tiny_loaded("llama", num_hidden_layers=4, sharp=0.15, seed=1), kind(allow_other_weights=True)
    with pytest.raises(ProtocolError, match=f"{kind.name} needs one model on both sides.*`allow_other_weights=True`"):
        kind().check(LOADED, other)
    assert (allowing.check(LOADED, other) or "").endswith("; between other weights")
    message = MessageRef(hand(kind(), store, max_new=4))
    read = [asked(protocol, store, message, loaded=other) for protocol in (kind(), allowing)]
    assert [bool(cached(each) or each.edits) for each in read] == [False, True]


@pytest.mark.parametrize("kind", [KV, Graft])
@pytest.mark.parametrize("probe", ["zeroed", "noise"])
def test_probes_leave_words_alone_or_noise_of_equal_norms(store: PayloadStore, kind: Any, probe: Probe) -> None:
    message = hand(kind(), store, max_new=4)
    plain, found = (asked(each, store, MessageRef(message)) for each in (kind(), kind(probe=probe)))
    if probe != "noise":
        words = asked(create("nl"), store, MessageRef(message))
        assert found.prompt == words.prompt and found.edits == ()
        return
    pairs = [(one.keys, other.keys) for one, other in zip(cached(found), cached(plain), strict=True)]
    pairs += [(one.delta, other.delta) for one, other in zip(found.edits, plain.edits, strict=True)]
    assert pairs
    for one, other in pairs:
        assert close(one.norm(dim=-1), other.norm(dim=-1), 1e-4) and not close(one, other, 0.1)


def test_another_question_s_cache_is_heard_whole(store: PayloadStore) -> None:
    message, donor = hand(KV(), store), hand(KV(), store, "You know: 22 pears.")
    protocol = KV(probe="shuffled", probe_from="a run")
    assert donor.payload is not None
    heard = asked(protocol, store, MessageRef(message, donors=(donor.payload,)))
    assert cached(heard)[0].digest == cached(asked(KV(), store, MessageRef(donor)))[0].digest


def test_part_of_a_message_under_a_shorter_one_s_keys_keeps_its_length(store: PayloadStore) -> None:
    message, donor = (hand(KV(carry="reply"), store, max_new=n) for n in (8, 2))
    protocol = KV(carry="reply", place="quoted", probe="shuffled", probe_from="a run")
    assert donor.payload is not None
    part = MessageRef(message, tuple(payload_of(message, store).spans[:3]), donors=(donor.payload,))
    (piece,) = cached(asked(protocol, store, "You hear: ", part))
    assert len(piece) == len(payload_of(message, store).tokens(part.spans))


@each_row(
    ("name", "options", "told"),
    [
        ("kv", {"keep": 0.5}, "keep is 0.5, a share of tokens; for kv it is all, added or thoughts; use layer_share"),
        ("kv", {"keep": "thoughts"}, "with carry prompt and keep thoughts, kv has nothing to hand over"),
        ("kv", {"place": "quoted"}, "use carry reply or both"),
        ("kv", {"layers": (1,), "layer_share": 0.5}, "give only one"),
        ("kv", {"layer_alpha": 0.5}, "layer_alpha is 0.5, and all layers .* drop it, or add layer_share"),
        ("kv", {"layers": (1,), "layer_alpha": 0.5}, "it has nothing to choose"),
        ("thoughts", {"latent_steps": 0, "realign": True}, "realign maps .* and latent_steps is 0; drop one of them"),
        (
            "thoughts",
            {"keep": "thoughts", "carry": "prompt"},
            "carry is prompt, but keep is thoughts, .* leave out one",
        ),
        ("kv", {"latent_steps": 5}, "protocol 'kv' has no option 'latent_steps'"),
        ("thoughts", {"latent_steps": 0, "keep": "thoughts"}, "thoughts has nothing to hand over"),
        ("sde", {"keep": "all"}, "for sde it is a share of tokens"),
        ("graft", {"keep": 0.5}, "graft carries a single state"),
        ("graft", {"merge": "max"}, "replace"),
    ],
)
def test_options_that_do_not_fit_are_one_line(name: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        create(name, **options)
    with pytest.raises(UsageError, match="layer 9 is out of range"):
        Graft(layer_from=9).check(LOADED, LOADED)


def test_thoughts_that_nobody_gets_are_refused_where_a_message_has_no_words(store: PayloadStore) -> None:
    protocol = Thoughts(latent_steps=2, carry="prompt")
    with pytest.raises(UsageError, match="carry is prompt, so the 2 latent steps of a message without words"):
        hand(protocol, store)
    assert hand(protocol, store, max_new=2).text  # they change what it says


# Payloads that lie


@each_row(
    ("name", "changes", "complaint"),
    [
        ("nl", {"ids": torch.tensor([0, 10**6, 1])}, "a token of ids is 1000000; expected 0 to"),
        ("cipher", {f"rows.{LOADED.table.key}": torch.ones(3, 8)}, r"the width of rows\.\w+ is 8; expected"),
        ("cipher", {"sparse.ids": torch.full((3, 2), 10**6), "sparse.weights": torch.ones(3, 2)}, "of sparse.ids"),
        ("sde", {"states": torch.ones(1, 3, 8)}, "the width of states is 8; expected"),
        ("hidden", {"states": torch.ones(1, 3, HIDDEN), "layers": (4,)}, "a layer is 4; expected 0 to 3"),
        ("graft", {"state": torch.ones(1, 8)}, "the width of state is 8; expected"),
        ("kv", dict.fromkeys(("keys", "values"), torch.ones(4, 2, 5, 3)), r"keys of .heads, width, layers. is"),
        ("kv", {"at": torch.full((5,), LOADED.network.context or 0)}, r"a position of the keys is \d+; expected 0 to"),
        ("thoughts", {"thought_ids": torch.tensor([10**6])}, "a token of thought_ids is 1000000"),
    ],
)
def test_a_payload_that_does_not_fit_its_reader_is_one_line_before_the_model_runs(
    name: str, changes: dict[str, Any], complaint: str, store: PayloadStore
) -> None:
    """Seen: an IndexError within the engine, which ended the requests of others too."""
    label = Label(name, "abc", "tiny", LOADED.weights_key, LOADED.vocabulary_key, changes.pop("layers", (1,)))
    tensors = {"ids": torch.arange(3), "spans": torch.tensor([[0, 1], [1, 2], [2, 3]])}
    if name in ("kv", "thoughts"):
        heads, width = LOADED.network.cache_shape
        label = replace(label, layers=(0, 1, 2, 3))
        tensors |= {"keys": torch.ones(4, heads, 5, width), "values": torch.ones(4, heads, 5, width)}
        tensors |= {"at": torch.arange(5)}
    message = Message("agent_1", 0, "answer", "abc", payload=store.put(Payload(label, {**tensors, **changes})))

    with pytest.raises(PayloadError, match=f"^message of 'agent_1', round 0: payload does not fit .*{complaint}"):
        asked(create(name), store, MessageRef(message))


def test_a_payload_of_another_message_is_not_read_in_its_place(store: PayloadStore) -> None:
    one, other = hand(create("sde"), store, max_new=4), hand(create("sde"), store, "Leo has 4 pears.", max_new=5)
    assert one.payload is not None and other.payload is not None
    swapped = replace(one, payload=replace(one.payload, sha256=other.payload.sha256))

    with pytest.raises(PayloadError, match="is another message's: 5 tokens of sde, or another text; expected sde, 4"):
        asked(create("sde"), store, MessageRef(swapped))
