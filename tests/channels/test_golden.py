"""Debates recorded from the papers' own code, held again on the path that agents take (`compat="reference"`).

Format and tolerances of the traces are written beside them. Ids, positions and texts
must be exact. States may differ by 2e-4: the authors' torch summed matrix products in another order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from sottovoce.channels import create
from sottovoce.channels.message import Message, MessageRef, Part, Turn
from sottovoce.channels.payload import Payload
from sottovoce.channels.store import PayloadStore
from sottovoce.models import Ids, LoadedModel, Record, Reply, Request, Sampling, Stop, load
from tests.shared import SHARED, shared
from tests.support import prompt_ids, request_of

TRACES = "golden/traces"
NAMES = sorted(path.stem for path in (SHARED / TRACES).glob("*.json") if path.stem != "forward")
METHODS = {name: name.replace("quirk.", "").split(".")[1] for name in NAMES}
ENDS = {"eos": "stop", "length": "length"}
Json = dict[str, Any]  # Any: a trace as it comes


def of_method(*methods: str) -> list[str]:
    return [name for name in NAMES if METHODS[name] in methods] or ["absent"]


def close(found: torch.Tensor, expected: torch.Tensor, within: float = 2e-4) -> None:
    torch.testing.assert_close(found, expected, atol=within, rtol=1e-5)


@dataclass(frozen=True, eq=False)
class Call:
    """One model call: as the trace has it, and as we made it."""

    trace: Json
    turns: list[Turn]
    request: Request
    reply: Reply
    payload: Payload

    @property
    def prompt_ids(self) -> list[int]:
        return prompt_ids(self.request)


@dataclass(frozen=True, eq=False)
class Replay:
    """One debate: as the trace has it, and as we held it."""

    trace: Json
    tensors: dict[str, torch.Tensor]
    loaded: LoadedModel
    calls: list[Call]

    def with_tensor(self, name: str) -> Iterator[tuple[Call, torch.Tensor]]:
        """The calls whose tensor of this name was recorded, with it."""
        for call in self.calls:
            if f"c{call.trace['call']}.{name}" in self.tensors:
                yield call, self.tensors[f"c{call.trace['call']}.{name}"]


def turns_of(trace: Json, agent: int, round: int, said: dict[tuple[int, int], Message]) -> list[Turn]:
    """The chat of one agent. What the trace's templates keep apart stays apart, as neighbouring texts."""
    templates, question = trace["prompt_templates"], trace["detail"]["question"]
    first = templates["first_prompt"].replace("{question}", question)
    before, after = templates["debate_prompt"].replace("{question}", question).split("{all_other_response}")
    left, right = templates["other_response_prompt"].split("{other_response}")
    turns = [Turn("system", (trace["roles"][agent],))] if trace["roles"] else []
    turns.append(Turn("user", (first,)))
    for r in range(round):
        latest = r == round - 1
        others: list[Part] = []
        for other in range(trace["n_agents"]):
            if other != agent:
                others += [left, MessageRef(said[r, other], latest=latest), right]
        turns.append(Turn("assistant", (MessageRef(said[r, agent], latest=latest, own=True),)))
        turns.append(Turn("user", (before, *others, after)))
    return turns


def stopped_at_once(request: Request, loaded: LoadedModel) -> Request:
    """The request with the very token it begins its reply with among its stops."""
    (first,) = loaded.engine.run(replace(request, stop=Stop(1))).ids
    return replace(request, stop=replace(request.stop, ids=(*request.stop.ids, first)))


def hold_again(name: str, folder: Path) -> Replay:
    trace = json.loads((SHARED / TRACES / f"{name}.json").read_text())
    tensors = SHARED / TRACES / f"{name}.safetensors"
    loaded = load(shared(f"golden/models/{trace['model']}"), dtype="float32", device="cpu")
    layers = {"layers": tuple(trace["edit_layer_idx"])} if trace["edit_layer_idx"] else {}
    protocol = create(trace["method"], compat="reference", **layers)
    store, calls = PayloadStore(folder), []
    said: dict[tuple[int, int], Message] = {}
    for call in trace["calls"]:
        agent, round = call["agent"], call["round"]
        turns = turns_of(trace, agent, round, said)
        sampling = Sampling(temperature=call.get("temperature") or 0.0)
        request = request_of(protocol, turns, loaded, lambda ref: ref.load(store), trace["max_new_tokens"], sampling)
        if trace["forced"] and call["call"] == 0:  # the trace's note: agent 0 was made to say nothing
            request = stopped_at_once(request, loaded)
        reply = loaded.engine.run(request)
        payload = protocol.record_reply(reply, loaded)
        said[round, agent] = Message(f"agent_{agent}", round, "say", payload.label.text, payload=store.put(payload))
        calls.append(Call(call, turns, request, reply, payload))
    return Replay(trace, safetensors.torch.load_file(tensors) if tensors.exists() else {}, loaded, calls)


@pytest.fixture(scope="module")
def replays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Replay]:
    shared(TRACES)
    return {name: hold_again(name, tmp_path_factory.mktemp("payloads")) for name in NAMES}


every_trace = pytest.mark.parametrize("name", of_method("nl", "sde", "cipher"))
every_nl = pytest.mark.parametrize("name", of_method("nl"))
every_sde = pytest.mark.parametrize("name", of_method("sde"))
every_cipher = pytest.mark.parametrize("name", of_method("cipher"))
every_token = pytest.mark.parametrize("name", of_method("nl", "sde"))


@every_trace
def test_the_model_is_read_as_the_authors_read_it(replays: dict[str, Replay], name: str) -> None:
    trace, loaded = replays[name].trace, replays[name].loaded

    assert list(loaded.stop_ids) == trace["eos_ids_generate"]
    assert loaded.eos == trace["eos_id_tokenizer"]
    assert loaded.network.hidden == trace["hidden_size"]


@every_token
def test_prompts_and_replies_have_exactly_the_recorded_ids_and_ends(replays: dict[str, Replay], name: str) -> None:
    for call in replays[name].calls:
        assert call.prompt_ids == call.trace["input_ids"]
        assert call.request.length == len(call.trace["input_ids"])  # so nothing else is in it
        raw = [id for id in call.trace["raw_generated_ids"] if id not in replays[name].loaded.stop_ids]
        assert list(call.reply.ids) == call.trace.get("output_ids", raw)
        assert call.reply.finish == ENDS[call.trace["stop"]]


@every_nl
def test_the_chat_has_the_recorded_words(replays: dict[str, Replay], name: str) -> None:
    for call in replays[name].calls:
        assert [{"role": turn.role, "content": turn.text} for turn in call.turns] == call.trace["messages"]


@every_trace
def test_the_texts_are_the_recorded_ones(replays: dict[str, Replay], name: str) -> None:
    calls, n = replays[name].calls, replays[name].trace["n_agents"]
    assert [call.payload.label.text for call in calls[-n:]] == replays[name].trace["final_output_text"]
    for call in calls:
        assert call.payload.label.text == call.trace.get("text", call.payload.label.text)


@pytest.mark.parametrize("name", of_method("sde", "cipher"))
def test_prompt_and_reply_together_are_the_recorded_history(replays: dict[str, Replay], name: str) -> None:
    loaded, trace = replays[name].loaded, replays[name].trace
    text = loaded.detokenizer(special=True).text
    for call in replays[name].calls[-trace["n_agents"] :]:
        table = loaded.table
        read = [piece.ids if isinstance(piece, Ids) else table.nearest(piece.rows) for piece in call.request.prompt]  # type: ignore[union-attr]
        prompt = "".join(text([int(id) for id in ids]) for ids in read)

        history = trace["detail"][f"agent_{call.trace['agent']}"]["history"]
        assert prompt + text(call.reply.ids) + "<|im_end|>\n" == history


@every_sde
def test_the_token_that_sde_drops_is_the_one_that_would_come_next(replays: dict[str, Replay], name: str) -> None:
    engine = replays[name].loaded.engine
    calls = [call for call in replays[name].calls if call.trace["stop"] == "length"]
    longer = [replace(call.request, stop=replace(call.request.stop, max_new=len(call.reply.ids) + 1)) for call in calls]

    for call, reply in zip(calls, engine.run_all(longer), strict=True):
        assert list(reply.ids) == call.trace["raw_generated_ids"]
        assert reply.ids[-1] == call.trace["dropped_id"]


@every_sde
def test_states_are_added_exactly_where_the_reference_adds_them(replays: dict[str, Replay], name: str) -> None:
    for call in replays[name].calls:
        ranges = sorted({(edit.at, edit.at + len(edit.delta)) for edit in call.request.edits})

        assert [list(each) for each in ranges] == call.trace.get("edit_position_ranges", [])
        assert {edit.layer for edit in call.request.edits} <= set(call.trace["edit_layer_idx"])
    (layer,) = replays[name].trace["edit_layer_idx"]
    for call, rows in replays[name].with_tensor(f"edit.L{layer}"):
        added = torch.cat([edit.delta for edit in call.request.edits] or [torch.zeros(0, rows.shape[1])])
        close(added, rows)


@every_sde
def test_the_added_rows_come_from_the_recorded_calls(replays: dict[str, Replay], name: str) -> None:
    (layer,) = replays[name].trace["edit_layer_idx"]
    deltas = {call.trace["call"]: delta for call, delta in replays[name].with_tensor(f"delta.L{layer}")}
    for call in replays[name].calls:
        sources = call.trace.get("edit_sources", [])
        assert len(call.request.edits) == len(sources)
        for edit, source in zip(call.request.edits, sources, strict=True):
            rows = deltas[source["from_call"]][source["row_start"] : source["row_end"]]
            close(edit.delta, rows)


@every_sde
def test_saved_states_their_number_and_deltas_are_the_recorded_ones(replays: dict[str, Replay], name: str) -> None:
    (layer,) = replays[name].trace["edit_layer_idx"]
    saved, spoken = (list(replays[name].with_tensor(f"{kind}.L{layer}")) for kind in ("saved", "delta"))

    assert len(saved) == len(replays[name].calls)
    for call, states in saved:
        assert len(call.reply.states[layer]) == call.trace["n_forward"]
        close(call.reply.states[layer], states)
    assert len(spoken) == sum(bool(call.reply.ids) for call in replays[name].calls)
    for call, delta in spoken:
        assert call.payload.states is not None
        close(call.payload.states, delta[None])


@every_sde
def test_the_first_token_has_the_recorded_distribution(replays: dict[str, Replay], name: str) -> None:
    calls = list(replays[name].with_tensor("first_logits"))
    one = [replace(call.request, stop=Stop(1), record=Record(stats=True, top=8)) for call, _ in calls]

    assert len(calls) == len(replays[name].calls)
    for reply, (_, logits) in zip(replays[name].loaded.engine.run_all(one), calls, strict=True):
        expected = logits.log_softmax(-1)
        top = expected.topk(8)
        assert reply.stats is not None
        assert reply.stats.top_ids[0].tolist() == top.indices.tolist()
        close(reply.stats.top_logprobs[0], top.values, 1e-3)
        close(reply.stats.entropy[0], -(expected.exp() * expected).sum(), 1e-3)


@every_sde
def test_without_the_added_states_the_reply_is_the_recorded_other_one(replays: dict[str, Replay], name: str) -> None:
    calls = [call for call in replays[name].calls if "no_edit_output_ids" in call.trace]
    replies = replays[name].loaded.engine.run_all([replace(call.request, edits=()) for call in calls])
    for call, reply in zip(calls, replies, strict=True):
        assert list(reply.ids) == call.trace["no_edit_output_ids"]


@pytest.mark.parametrize("name", [name for name in of_method("sde") if "emptymsg" in name] or ["absent"])
def test_an_empty_message_is_heard_without_a_trace(replays: dict[str, Replay], name: str) -> None:
    silent, _, _, hearer = replays[name].calls

    assert (silent.reply.ids, silent.payload.label.text) == ((), "")
    assert len(silent.reply.states[2]) == 1  # the last position of the prompt alone
    assert silent.payload.states is not None and silent.payload.states.shape[1] == 0
    assert hearer.request.edits == ()


def rows_of(segment: Json, replay: Replay) -> torch.Tensor:
    if segment["kind"] == "tokens":
        return replay.loaded.table.rows[segment["ids"]]
    return replay.tensors[f"c{segment['call']}.out_embs"][segment["row_start"] : segment["row_end"]]


def embedded(request: Request, loaded: LoadedModel) -> torch.Tensor:
    pieces = [loaded.table.rows[list(p.ids)] if isinstance(p, Ids) else p.rows for p in request.prompt]  # type: ignore[union-attr]
    return torch.cat(pieces)


@every_cipher
def test_the_prompt_has_the_recorded_embeddings(replays: dict[str, Replay], name: str) -> None:
    for call, rows in replays[name].with_tensor("in_embs"):
        close(embedded(call.request, replays[name].loaded), rows)
    for call in replays[name].calls:
        expected = torch.cat([rows_of(segment, replays[name]) for segment in call.trace["segments"]])
        found = embedded(call.request, replays[name].loaded)

        assert len(found) == call.trace["n_input"]
        # The messages in it are our own rows, so they differ by what the calls before amplified.
        close(found, expected)

        words = [id for segment in call.trace["segments"] for id in segment.get("ids", [])]
        latent = sum(len(piece) for piece in call.request.prompt if not isinstance(piece, Ids))
        recorded = sum(segment.get("row_end", 0) - segment.get("row_start", 0) for segment in call.trace["segments"])

        # A recorded row that equals a row of the table may be told as a token: the stop row of a sure model.
        assert recorded <= latent
        assert len(call.prompt_ids) + latent == len(words) + recorded


@every_cipher
def test_mean_embeddings_are_the_recorded_ones(replays: dict[str, Replay], name: str) -> None:
    calls = list(replays[name].with_tensor("out_embs"))
    assert len(calls) == len(replays[name].calls)
    for call, rows in calls:
        found = call.reply.rows[replays[name].loaded.table.key]
        allowed = 1e-5 * max(10, call.trace["amplification"])  # feedback amplifies what float32 rounds
        assert found.shape == rows.shape
        assert (found - rows).norm() <= allowed * rows.norm()


@every_cipher
def test_nearest_and_most_probable_tokens_and_ends_are_the_recorded_ones(replays: dict[str, Replay], name: str) -> None:
    for call in replays[name].calls:
        assert list(call.reply.ids) == call.trace["nearest_ids"]
        assert len(call.reply.ids) == call.trace["n_output"]
        assert call.payload.tensors["top_ids"][:, 0].tolist() == call.trace["argmax_ids"]
        assert call.reply.finish == ENDS[call.trace["stop"]]


@pytest.fixture(scope="module")
def forward() -> tuple[Json, dict[str, torch.Tensor]]:
    folder = shared(TRACES)
    tensors = safetensors.torch.load_file(folder / "forward.safetensors")
    return json.loads((folder / "forward.json").read_text()), tensors


def test_a_plain_forward_pass_has_the_recorded_logits(forward: tuple[Json, dict[str, torch.Tensor]]) -> None:
    recorded, tensors = forward
    loaded = load(shared("golden/models/qwen2-tiny"), dtype="float32", device="cpu")
    every = Record(stats=True, top=len(loaded.table))

    reply = loaded.engine.run(Request((Ids(tuple(recorded["qwen2-tiny"])),), Stop(1), record=every))

    assert reply.stats is not None
    logprobs = torch.empty(len(loaded.table)).scatter_(0, reply.stats.top_ids[0], reply.stats.top_logprobs[0])
    expected = tensors["qwen2-tiny.last_logits"].log_softmax(-1)
    close(logprobs, expected, 1e-3)


def test_the_outputs_of_all_layers_are_the_recorded_ones(forward: tuple[Json, dict[str, torch.Tensor]]) -> None:
    recorded, tensors = forward
    loaded = load(shared("golden/models/qwen2-tiny"), dtype="float32", device="cpu")
    ids, layers = Ids(tuple(recorded["qwen2-tiny"])), tuple(range(loaded.layers))

    plain = loaded.engine.run(Request((ids,), Stop(1), record=Record(layers)))
    normed = loaded.engine.run(Request((ids,), Stop(1), record=Record(layers, final_norm=True)))

    for layer in layers:
        expected = tensors["qwen2-tiny.layer_outputs"][layer, -1]
        close(plain.states[layer][0], expected)
    expected = tensors["qwen2-tiny.hidden_states"][-1, -1]
    close(normed.states[layers[-1]][0], expected)
