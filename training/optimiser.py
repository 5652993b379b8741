"""Muon for the weight matrices of the layers, AdamW for all else.

Muon (Jordan et al., 2024) replaces a momentum matrix by its nearest orthogonal one, found by a few
Newton-Schulz steps. Matrices of one shape are done as one batch, in float32: on a CPU that is
faster than bfloat16. The factor 0.2 sqrt(longer side) lets both share one learning rate
(Liu et al., 2025, arXiv 2502.16982).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
DECAY = 0.1


class Muon(torch.optim.Optimizer):
    """Muon over matrices; state is one momentum buffer each."""

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float) -> None:
        """All matrices share one group."""
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update from the gradients."""
        for group in self.param_groups:
            by_shape: defaultdict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for matrix in group["params"]:
                by_shape[matrix.shape].append(matrix)
            for matrices in by_shape.values():
                self._step(matrices, group["lr"])

    def _step(self, matrices: list[nn.Parameter], lr: float) -> None:
        nesterov = torch.stack([self._momentum(matrix) for matrix in matrices])
        updates = orthogonal(nesterov) * 0.2 * max(matrices[0].shape) ** 0.5
        for matrix, update in zip(matrices, updates, strict=True):
            matrix.mul_(1 - lr * DECAY).sub_(update, alpha=lr)

    def _momentum(self, matrix: nn.Parameter) -> Tensor:
        assert matrix.grad is not None, "every matrix takes part in the loss"
        state = self.state[matrix]
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum"]
        return matrix.grad.lerp(momentum.lerp_(matrix.grad, 1 - MOMENTUM), MOMENTUM)


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """The nearest orthogonal matrices, nearly: singular values end between 0.7 and 1.2. (k, rows, columns)."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x: Tensor = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x.mT if tall else x


def optimisers(model: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """One for the layers' matrices, one for embeddings, norms and biases."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and ".layers." in name]
    rest = [p for name, p in named if not (p.ndim == 2 and ".layers." in name)]
    return [Muon(matrices, lr), torch.optim.AdamW(rest, lr, betas=(0.9, 0.95), weight_decay=0.0)]
