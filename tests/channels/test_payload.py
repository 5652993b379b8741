from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from sottovoce.channels.payload import (
    FORMAT,
    METADATA,
    WINDOW,
    Label,
    Payload,
    degeneration,
    entropies,
    repeated,
    surprise,
)
from sottovoce.channels.store import PayloadRef, text_digest
from sottovoce.core.errors import PayloadError
from tests.support import noise
from tests.tables import each_row

LABEL = Label("sde", "The answer is 22 €.", "tiny", "w" * 16, "v" * 16, layers=(0, 2))


def payload(dtype: torch.dtype = torch.float32, label: Label = LABEL, n: int = 3) -> Payload:
    tensors = {
        "ids": torch.arange(n),
        "spans": torch.tensor([[i, i + 1] for i in range(n)], dtype=torch.long).reshape(-1, 2),
        "states": noise(2, n, 8).to(dtype),
        "logprob": noise(n),
    }
    return Payload(label, tensors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_payload_comes_back_as_it_was(dtype: torch.dtype, n: int) -> None:
    before = payload(dtype, n=n)
    after = Payload.from_bytes(before.to_bytes())

    assert after.label == before.label
    assert sorted(after.tensors) == sorted(before.tensors)
    for name, tensor in before.tensors.items():
        assert after.tensors[name].dtype == tensor.dtype
        assert torch.equal(after.tensors[name], tensor)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_entropy_of_each_token_is_read_without_torch(n: int) -> None:
    before = payload(torch.bfloat16, n=n)
    assert entropies(before.to_bytes()) == []

    before = replace(before, tensors={**before.tensors, "entropy": noise(n)})

    assert entropies(before.to_bytes()) == [*zip(before.spans, before.tensors["entropy"].tolist(), strict=True)]
    with pytest.raises(PayloadError, match="not a payload file"):
        entropies(before.to_bytes()[:-1])


def test_equal_payloads_have_equal_bytes_however_often_they_are_saved() -> None:
    again = Payload(replace(LABEL), dict(reversed(list(payload().tensors.items()))))  # in another order
    assert {payload().to_bytes() for _ in range(20)} == {again.to_bytes()}


NAMES = ("protocol", "text", "model", "weights", "vocabulary")


def saved(label: object) -> bytes:
    line = label if isinstance(label, str) else json.dumps(label)
    return bytes(safetensors.torch.save({"ids": torch.arange(3)}, metadata={METADATA: line}))


@each_row(
    "data",
    [
        *(payload().to_bytes()[: int(share * len(payload().to_bytes()))] for share in (0.0, 0.001, 0.01, 0.5, 0.999)),
        b"not safetensors at all",
        b"\xff" * 64,
        bytes(safetensors.torch.save({"ids": torch.arange(3)})),
        saved("no json"),
        saved([1, 2]),
        saved({"format": FORMAT}),
        saved({"format": FORMAT, "layers": [], **dict.fromkeys(NAMES[:-1], ""), "more": 1}),
    ],
)
def test_another_file_is_no_payload(data: bytes) -> None:
    with pytest.raises(PayloadError, match=r"not a payload file \(\d+ bytes\): .*; expected safetensors"):
        Payload.from_bytes(data)


NESTED = "[" * 200_000 + "]" * 200_000


@each_row(
    "data",
    [
        len(NESTED).to_bytes(8, "little") + NESTED.encode(),
        saved('{"format":' + NESTED + "}"),
        saved('{"format":1,"protocol":' + NESTED + "}"),
        saved({"format": FORMAT, **dict.fromkeys(NAMES, ""), "layers": [0.5]}),
    ],
)
def test_a_label_of_anything_is_refused_in_one_short_line(data: bytes) -> None:
    """Seen: a RecursionError for 200,000 brackets."""
    with pytest.raises(PayloadError) as caught:
        Payload.from_bytes(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_header_of_many_tensors_is_refused_unread() -> None:
    with pytest.raises(PayloadError, match="header of 20,000,000 bytes; expected 10,000,000 at most"):
        Payload.from_bytes((20_000_000).to_bytes(8, "little") + b" " * 20_000_001)


ROWS = {"ids": torch.arange(3), "spans": torch.zeros(3, 2, dtype=torch.long), "kept": torch.tensor([0, 2])}
KEYS = {
    **{"ids": torch.arange(3), "spans": torch.zeros(3, 2, dtype=torch.long), "at": torch.arange(5)},
    **{"keys": torch.ones(2, 4, 5, 8), "values": torch.ones(2, 4, 5, 8)},
    **{"first_keys": torch.ones(1, 4, 1, 8), "first_values": torch.ones(1, 4, 1, 8)},
}
LONG = torch.long


@each_row(
    ("label", "tensors", "complaint"),
    [
        (LABEL, {"states": torch.ones(3, 3, 8)}, r"the shape of states is \(3, 3, 8\); expected \(layers, kept, \*\)"),
        (LABEL, {"states": torch.ones(2, 4, 8)}, "expected .*layers = 2, kept = 3"),
        (LABEL, {"states": torch.ones(2, 3)}, "the shape of states"),
        (LABEL, {"states": torch.ones(2, 3, 8, dtype=torch.int8)}, "the type of states is torch.int8; expected real"),
        (LABEL, {"states": torch.full((2, 3, 8), torch.nan)}, "a value of states is NaN"),
        (LABEL, {"states": torch.full((2, 3, 8), torch.inf)}, "a value of states is infinite"),
        (replace(LABEL, layers=(2, 0)), {"states": torch.ones(2, 3, 8)}, "list of layers is .2, 0.; expected them asc"),
        (LABEL, {"ids": torch.tensor([1, -2, 2])}, "a value of ids is -2; expected -1 or more"),
        (LABEL, {"ids": torch.ones(3)}, "the type of ids is torch.float32; expected whole numbers"),
        (LABEL, {"spans": torch.full((3, 2), 99)}, "a value of spans is 99; expected 0 to 19"),
        (LABEL, {"spans": torch.tensor([[1, 0]] * 3)}, "a span is backwards"),
        (LABEL, {"entropy": torch.ones(4)}, r"the shape of entropy is \(4,\); expected \(n\) with n = 3"),
        (LABEL, {"entropy": torch.tensor([1.0, torch.nan, 1.0])}, "a value of entropy is NaN"),
        (LABEL, {"sparse.ids": torch.ones(3, 2, dtype=LONG)}, "sparse.weights is missing; expected sparse.ids, "),
        (LABEL, {**ROWS, "kept": torch.tensor([0, 3])}, "a value of kept is 3; expected 0 to 2"),
        (LABEL, {**ROWS, "kept": torch.tensor([2, 0])}, "the order of kept is another; expected ascending places"),
        (LABEL, {**ROWS, "kept": torch.tensor([0, 0])}, "the order of kept is another; expected ascending places"),
        (LABEL, {**ROWS, "rows.t": torch.ones(3, 8)}, r"the shape of rows.t is \(3, 8\); expected \(kept, \*\)"),
        (LABEL, {**ROWS, "rows.t": torch.ones(2, 8).char(), "rows.t.scale": torch.ones(3)}, "shape of rows.t.scale"),
        (LABEL, {"state": torch.ones(2, 8)}, "the shape of state is"),
        (replace(LABEL, layers=(0, 1)), {**KEYS, "at": torch.arange(4)}, r"the shape of keys is"),
        (replace(LABEL, layers=(0, 1)), {**KEYS, "masked": torch.ones(2, 5).long()}, "layers of masked is 2"),
        (replace(LABEL, layers=(0, 1)), {**KEYS, "masked": torch.ones(3, 4).long()}, "the shape of masked is"),
        (replace(LABEL, layers=(0, 1)), {**KEYS, "masked": torch.full((3, 5), 2)}, "a value of masked is 2"),
        (replace(LABEL, layers=(0, 1)), {**KEYS, "at": torch.full((5,), -1)}, "a value of at is -1; expected 0 to"),
        (replace(LABEL, layers=(0, 1)), {**KEYS, "values": torch.ones(2, 4, 5, 9)}, "the shape of values is"),
        (replace(LABEL, layers=(0, 3)), KEYS, r"list of layers of keys is \[0, 3\]; expected layer 0 among .* of 3"),
        (replace(LABEL, layers=(1, 2)), KEYS, "the list of layers of keys"),
    ],
)
def test_tensors_that_do_not_fit_one_another_are_neither_read_nor_written(
    label: Label, tensors: dict[str, torch.Tensor], complaint: str
) -> None:
    words = {name: payload().tensors[name] for name in ("ids", "spans")}
    wrong = Payload(label, {**words, **tensors})
    line = json.dumps({**vars(label)})
    whole = {name: each.contiguous().clone() for name, each in wrong.tensors.items()}

    with pytest.raises(PayloadError, match=f"^payload is damaged: .*{complaint}"):
        Payload.from_bytes(safetensors.torch.save(whole, metadata={METADATA: line}))
    with pytest.raises(PayloadError, match=complaint):
        wrong.to_bytes()


def test_another_format_is_refused_by_its_number() -> None:
    with pytest.raises(PayloadError, match="payload has format 2; this version reads 1; run"):
        Payload.from_bytes(saved({"format": 2, "news": True}))


def test_a_reference_tells_what_there_is_without_a_tensor() -> None:
    data = payload(torch.bfloat16).to_bytes()

    ref = PayloadRef.of(payload(torch.bfloat16), data)

    assert (ref.protocol, ref.tokens, ref.nbytes, ref.layers) == ("sde", 3, len(data), (0, 2))
    assert (ref.hidden, ref.dtype) == (8, "bfloat16")
    assert ref.text_sha256 == text_digest(LABEL.text)


# Signs of degeneration

KEPT = Path(__file__).with_name("degenerate.jsonl")
"""Of each way of speaking, the sound replies that come nearest to a sign; and noise."""
REPLIES = [json.loads(line) for line in KEPT.read_text(encoding="utf-8").splitlines()]
REPEATS, UNLIKELY = "degenerates: repeats itself", "degenerates: unlikely under the model"


def spoken(ids: Sequence[int], logprob: Sequence[float] = (), entropy: Sequence[float] = ()) -> Payload:
    numbers = {"logprob": logprob or [0.0] * len(ids), "entropy": entropy or [0.0] * len(ids)}
    tensors = {"ids": torch.tensor(list(ids)), **{name: torch.tensor(list(each)) for name, each in numbers.items()}}
    return Payload(Label("nl", "", "", "", ""), tensors)


def test_noise_is_told_from_sound_replies() -> None:
    found = [bool(degeneration(spoken(reply["ids"], reply["logprob"], reply["entropy"]))) for reply in REPLIES]
    assert [
        reply["text"] for reply, is_noise in zip(REPLIES, found, strict=True) if is_noise is not reply["degenerate"]
    ] == []


def test_what_goes_round_in_a_circle_repeats_itself() -> None:
    assert degeneration(spoken([1, 2, 3] * 20)) == (REPEATS,)
    assert repeated([1, 2, 3] * 20) == 54 / 57  # the first three pieces of four are new


def test_only_the_end_counts() -> None:
    assert repeated([*[7] * 100, *range(100)]) == 0
    assert repeated([*range(100), *[7] * 100]) == 1


@pytest.mark.parametrize("sent", ["logprob", "entropy"])
def test_a_stretch_of_improbable_tokens_is_unlikely_wherever_it_stands(sent: str) -> None:
    stretch = [6.0] * WINDOW
    nats = [*[0.1] * 40, *stretch, *[0.1] * 40]
    numbers = [-each for each in nats] if sent == "logprob" else nats
    found = spoken(range(len(nats)), **{sent: numbers})
    assert degeneration(found) == (UNLIKELY,)
    assert surprise(found) == pytest.approx(6.0)


@pytest.mark.parametrize("n", [0, 1, WINDOW - 1])
def test_a_short_message_shows_no_sign(n: int) -> None:
    assert degeneration(spoken([7] * n, [-9.0] * n, [9.0] * n)) == ()
