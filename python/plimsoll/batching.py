"""`batch_size`: the largest batch whose step fits, found on fake tensors."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .explaining import Explanation, explain
from .fitting import parse_bytes
from .report import size

MOST = 1 << 20
"""no larger batch is tried"""


@dataclass(frozen=True)
class BatchSize:
    """The largest batch that fits, and what it takes."""

    samples: int
    explanation: Explanation
    memory_bytes: int
    """what the step may take, context included"""
    next_bytes: int
    """what one sample more would take"""

    def __int__(self) -> int:
        return self.samples

    def __str__(self) -> str:
        taken = self.explanation.total_bytes
        return (f"{self.samples} samples take {size(taken)} of {size(self.memory_bytes)}; "
                f"{self.samples + 1} would take {size(self.next_bytes)}")


def resized(batch: Any, samples: int) -> Any:
    """The batch with so many samples, without numbers. The first dimension of each tensor that has
    as many entries there as the first tensor is taken for the samples."""
    leaves = [x for x in tree_leaves(batch) if isinstance(x, torch.Tensor) and x.dim() > 0]
    if not leaves:
        raise ValueError("the batch has no tensor with samples along its first dimension")
    before = leaves[0].shape[0]

    def change(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dim() == 0 or x.shape[0] != before:
            return x
        return torch.empty((samples, *x.shape[1:]), dtype=x.dtype, device="meta")
    return tree_map(change, batch)


def batch_size(model: torch.nn.Module, loss_fn: Callable[[Any, Any], Any], example_batch: Any,
               memory: str | int | None = None, *, multiple_of: int = 1,
               make_batch: Callable[[Any, int], Any] = resized, **how: Any) -> BatchSize:
    """Finds the largest batch whose training step fits a GPU, without that GPU.

    Args:
        model, loss_fn: as in explain.
        example_batch: defines the shapes.
        memory: bytes for the step, including the CUDA context; default: the GPU's memory.
        multiple_of: the result is a multiple of this number.
        make_batch: make_batch(example_batch, samples) returns a batch of another size; by default
            the first dimension of each tensor changes.
        how: further arguments of explain, such as device and precision.
    """
    if multiple_of < 1:
        raise ValueError(f"multiple_of is {multiple_of}: use a number from 1")
    tried: dict[int, Explanation] = {}

    def step(count: int) -> Explanation:
        if count not in tried:
            batch = make_batch(example_batch, count * multiple_of)
            tried[count] = explain(model, loss_fn, batch, **how)
        return tried[count]

    limit = parse_bytes(memory) if memory is not None else step(1).device_bytes
    if step(1).total_bytes > limit:
        raise ValueError(f"{multiple_of} samples already take {size(step(1).total_bytes)}, more "
                         f"than {size(limit)}: see plimsoll.fit")
    count = _largest(lambda n: step(n).total_bytes <= limit, MOST // multiple_of)
    after = make_batch(example_batch, count * multiple_of + 1)
    return BatchSize(count * multiple_of, step(count), limit,
                     explain(model, loss_fn, after, **how).total_bytes)


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest n up to most that fits, where 1 does: doubled, then halved."""
    low = 1
    while low < most and fits(min(2 * low, most)):
        low = min(2 * low, most)
    high = min(2 * low, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
