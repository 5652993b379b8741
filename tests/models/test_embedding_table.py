from __future__ import annotations

import pytest
import torch

from sottovoce.models import Table
from sottovoce.models.huggingface import embedding_table
from sottovoce.models.huggingface.embedding_table import LEFT_OUT, SMALL, largest, tensor_digest
from tests.support import FLOAT32, VOCABULARY, noise, tiny_loaded, tiny_model


@pytest.fixture(autouse=True, params=[SMALL, 0], ids=["whole", "parts"])
def as_small_and_large_tables_are_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_table, "SMALL", request.param)


def test_every_row_of_any_length_is_nearest_to_itself() -> None:
    table = Table(noise(50, 8))
    assert table.nearest(table.rows).tolist() == list(range(50))
    assert table.nearest(0.01 * table.rows).tolist() == list(range(50))


def test_of_equal_rows_the_first_is_nearest() -> None:
    row = noise(1, 8)
    assert Table(torch.cat([noise(2, 8, seed=1), row, row])).nearest(row).tolist() == [2]


def test_a_table_is_read_through_its_module() -> None:
    loaded = tiny_loaded("gemma2")  # scales inside its embedding
    weight = loaded.model.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)

    torch.testing.assert_close(loaded.table.rows, weight * loaded.network.hidden**0.5)


def test_rows_beyond_the_tokenizer_are_left_out() -> None:
    padded = tiny_model(vocab_size=VOCABULARY + 20)
    assert len(Table.of(padded.get_input_embeddings(), VOCABULARY)) == VOCABULARY


def test_a_digest_sees_shape_dtype_and_every_value() -> None:
    tensor = noise(2, 6)
    changed = tensor.clone()
    changed[1, 5] += 1

    digests = [tensor_digest(each) for each in (tensor, tensor.reshape(3, 4), tensor.double(), changed)]

    assert tensor_digest(tensor.T.contiguous().T) == digests[0]
    assert len(set(digests)) == 4


# Means over the heaviest rows


def weights_of(kind: str, temperature: float, size: int = 5000) -> torch.Tensor:
    """Averaging weights (3, V) of a kind, at a temperature."""
    logits = {
        "random": 3 * noise(3, size),
        "flat": torch.zeros(3, size),
        "one-hot": torch.full((3, size), -1e4).index_fill(1, torch.tensor([4321]), 0.0),
        "two clusters": torch.cat([noise(3, 60), noise(3, size - 60, seed=1) - 12], 1),
        "ties": torch.zeros(3, size).index_fill(1, torch.arange(0, size, 7), 5.0),
        "forbidden": (3 * noise(3, size)).index_fill(1, torch.arange(size // 2), -torch.inf),
        "a long tail": -torch.arange(1.0, size + 1).log().expand(3, -1) * 2,
        "unlike": torch.stack([torch.zeros(size), 9 * noise(size), 30 * noise(size)]),
    }[kind]
    return (logits / temperature).softmax(-1)


@pytest.mark.parametrize(
    "kind", ["random", "flat", "one-hot", "two clusters", "ties", "forbidden", "a long tail", "unlike"]
)
def test_a_mean_of_the_heaviest_rows_is_that_of_all_within_its_bound(kind: str) -> None:
    table, weights = Table(noise(5000, 16)), weights_of(kind, 1.0)

    found, expected = table.mean(weights), weights.double() @ table.rows.double()

    bound = LEFT_OUT * table.rows.norm(dim=-1).max()
    assert ((found - expected).norm(dim=-1) <= bound + FLOAT32 * expected.norm(dim=-1).clamp_min(0.1)).all()
    torch.testing.assert_close(table.mean(weights, all_rows=True), found, atol=1e-5, rtol=1e-5)


def test_weights_below_zero_count_by_their_size() -> None:
    table, weights = Table(noise(300, 16)), noise(3, 300)
    torch.testing.assert_close(table.mean(weights), weights @ table.rows, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("spoiled", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_give_no_mean(spoiled: float) -> None:
    weights = weights_of("one-hot", 1.0)
    weights[1, 7] = spoiled

    found = Table(noise(5000, 8)).mean(weights)

    assert found.isfinite().all(-1).tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_mean_has_its_tables_dtype(dtype: torch.dtype) -> None:
    table, weights = Table(noise(5000, 16).to(dtype)), weights_of("random", 0.35)

    found = table.mean(weights)

    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), weights @ table.rows.float(), atol=2e-2, rtol=2e-2)


# Guesses at the nearest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("away", [0.0, 0.4, 1.0])
def test_a_guess_changes_no_nearest_row(away: float, dtype: torch.dtype) -> None:
    table = Table(torch.cat([noise(400, 6), noise(20, 6), noise(20, 6)]).to(dtype))  # the last 20 twice
    guesses = torch.arange(440).repeat(3)
    rows = (table.rows[guesses].float() + away * noise(1320, 6, seed=2)).to(dtype)
    wrong = guesses.roll(5)

    expected = table.nearest(rows)

    assert torch.equal(table.nearest(rows, guesses), expected)
    assert torch.equal(table.nearest(rows, wrong), expected)


def test_a_row_is_surely_nearer_to_one_token_than_to_its_rivals_or_not() -> None:
    table = Table(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]))
    rows = torch.tensor([[2.0, 0.1], [2.0, 0.1], [0.1, 2.0]])
    assert table.nearer(rows, torch.tensor([0, 0, 0]), torch.tensor([[1, 2], [1, 3], [1, 2]])).tolist() == [
        True,
        False,  # its twin is as near
        False,
    ]


@pytest.mark.parametrize(("k", "dtype"), [(1, torch.float32), (4, torch.float32), (40, torch.float32), (4, torch.half)])
def test_the_largest_values_are_found_in_order_and_of_equal_ones_the_first(k: int, dtype: torch.dtype) -> None:
    values = torch.tensor([[0.0, 3.0, 1.0, 3.0, 0.0, 0.5], [2.0, 2.0, 2.0, 5.0, 2.0, 2.0]], dtype=dtype)
    before = values.clone()

    ids, found = largest(values, k)

    assert ids.tolist() == [row[:k] for row in ([1, 3, 2, 5, 0, 4], [3, 0, 1, 2, 4, 5])]
    assert torch.equal(found, values.gather(-1, ids)) and torch.equal(values, before)
