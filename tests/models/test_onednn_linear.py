"""Linear layers with reordered weights multiply as torch's own, and follow every change of their weights."""

import pytest
import torch
from torch import nn

from sottovoce.models.huggingface.onednn_linear import OneDNNLinear, available, use_onednn

pytestmark = pytest.mark.skipif(not available(), reason="this torch has no oneDNN")
CLOSE = 1e-5  # another order of float32 sums


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=CLOSE, atol=CLOSE)


def layers(bias: bool = True) -> tuple[nn.Linear, OneDNNLinear]:
    torch.manual_seed(0)
    plain = nn.Linear(96, 40, bias=bias).requires_grad_(False)
    return plain, OneDNNLinear(plain)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(96,), (1, 96), (3, 5, 96), (2, 0, 96)])
def test_a_reordered_layer_multiplies_as_the_one_it_was_made_of(bias: bool, shape: tuple[int, ...]) -> None:
    plain, reordered = layers(bias)
    x = torch.randn(shape)
    close(reordered(x), plain(x))


def test_it_follows_a_weight_that_is_changed_in_place_or_replaced() -> None:
    plain, reordered = layers()
    x = torch.randn(4, 96)
    reordered(x)
    plain.weight.mul_(2)
    close(reordered(x), plain(x))
    plain.weight = reordered.weight = nn.Parameter(torch.randn(40, 96), requires_grad=False)
    close(reordered(x), plain(x))


def test_a_change_that_leaves_no_trace_counts_once_the_weight_is_forgotten() -> None:
    plain, reordered = layers()
    x = torch.randn(4, 96)
    before = reordered(x)
    plain.weight.data.mul_(2)
    torch.testing.assert_close(reordered(x), before)
    reordered.forget()
    close(reordered(x), plain(x))


def test_gradients_flow_through_it() -> None:
    _, reordered = layers()
    x = torch.randn(4, 96, requires_grad=True)
    reordered(x).sum().backward()
    assert x.grad is not None
    close(x.grad, reordered.weight.sum(0).expand(4, 96))


@pytest.mark.parametrize(("least", "most", "taken"), [(0, 10**6, True), (10**6, 10**7, False), (0, 100, False)])
def test_models_that_are_small_or_too_large_are_left_as_they_are(least: int, most: int, taken: bool) -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    use_onednn(model, least=least, most=most)
    assert [isinstance(each, OneDNNLinear) for each in model] == [taken, False, taken]


def test_only_float32_and_torchs_own_linear_layers_are_replaced() -> None:
    class Quantised(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(8, 8, dtype=torch.bfloat16), Quantised(8, 8), nn.Linear(8, 8))
    use_onednn(model, least=0, most=10**6)
    assert [type(each) for each in model.children()] == [nn.Linear, Quantised, OneDNNLinear]
