"""Muon (Jordan et al., 2024): steps along the nearest orthogonal matrix of the momentum, for weights of convolutions.

A convolution's weights are a matrix from its inputs (channels × window) to its outputs. A step with equal
singular values changes all directions of that matrix alike, where a plain gradient changes few. The matrix is found by
five iterations X ← a·X + b·(XXᵀ)X + c·(XXᵀ)²X, which take singular values between 0 and 1 close to 1. A step is
scaled to the size that Adam's would have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
ADAMS_SIZE = 0.2
"""Usual root mean square of Adam's steps, in learning rates."""
MOMENTUM = 0.95
DECAY = 0.01
"""Share by which each step shrinks the weights, in learning rates."""


class Muon:
    """The Muon optimiser for weights of two or more dimensions. Weights of one shape are updated at once."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.shapes: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            self.shapes[tuple(parameter.shape)].append(parameter)
        self.averages = {shape: [torch.zeros_like(p) for p in group] for shape, group in self.shapes.items()}

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """Take one step from the gradients of the weights, at a learning rate that is a scalar tensor."""
        for shape, group in self.shapes.items():
            gradients = [parameter.grad for parameter in group if parameter.grad is not None]
            averages = self.averages[shape]
            torch._foreach_lerp_(averages, gradients, 1 - MOMENTUM)
            ahead = torch._foreach_lerp(gradients, averages, MOMENTUM)
            flat = torch.stack([update.flatten(1) for update in ahead])
            steps = orthogonal(flat).float() * (rate * ADAMS_SIZE * max(flat.shape[1:]) ** 0.5)
            torch._foreach_mul_(group, 1 - rate * DECAY)
            torch._foreach_sub_(group, [step.reshape(shape) for step in steps])


def orthogonal(matrices: Tensor) -> Tensor:
    """Return the matrices (N, rows, columns) with singular values moved close to 1."""
    x: Tensor = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[1] > x.shape[2]
    x = x.transpose(1, 2) if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = x @ x.transpose(1, 2)
        x = torch.baddbmm(a * x, b * square + c * square @ square, x)
    return x.transpose(1, 2) if tall else x
