from __future__ import annotations

import torch

from sottovoce.models import Table
from sottovoce.models.huggingface.table import tensor_digest
from tests.support import VOCABULARY, noise, tiny_loaded, tiny_model


def test_a_mean_is_the_weighted_sum_of_the_rows() -> None:
    table, weights = Table(noise(50, 8)), noise(3, 50, seed=1).softmax(-1)

    by_hand = sum(weights[:, [id]] * table.rows[id] for id in range(50))

    torch.testing.assert_close(table.mean(weights), by_hand)  # float32 sums in another order


def test_every_row_of_any_length_is_nearest_to_itself() -> None:
    table = Table(noise(50, 8))

    assert table.nearest(table.rows).tolist() == list(range(50))
    assert table.nearest(0.01 * table.rows).tolist() == list(range(50))


def test_the_nearest_row_is_nearest_by_angle() -> None:
    table = Table(torch.tensor([[1.0, 0.0], [0.0, 100.0], [-1.0, 0.0]]))

    assert table.nearest(torch.tensor([[2.0, 1.0], [1.0, 2.0], [-0.1, 0.0]])).tolist() == [0, 1, 2]


def test_of_equal_rows_the_first_is_nearest() -> None:
    row = noise(1, 8)

    assert Table(torch.cat([noise(2, 8, seed=1), row, row])).nearest(row).tolist() == [2]


def test_a_key_tells_tables_apart_by_their_values() -> None:
    table = Table(noise(50, 8))
    changed = noise(50, 8)
    changed[7, 3] += 1

    assert Table(noise(50, 8)).key == table.key
    assert len({table.key, Table(changed).key, Table(noise(50, 8).reshape(100, 4)).key}) == 3


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
