"""The workspaces of cuDNN's convolutions, which PyTorch takes from its allocator for each call.

Tensor cores read channels last. Given tensors that are laid out otherwise, which is PyTorch's
default, cuDNN copies them into its workspace and copies the result back: the workspace is as large
as the call's tensors. bench/torch_workspaces.py compares this rule with cuDNN's own answers, and
measures a table on a GPU that is used before the rule.
"""
from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .rules import Rules

FORWARD, DATA, WEIGHTS = "forward", "data", "weights"
FEW_CHANNELS = 4
"""up to so many, kernels that read them as they lie are faster"""
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True)
class Call:
    """One call of cuDNN: y = x convolved with w, or the gradient of x or w."""

    kind: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    last: bool
    """are the tensors channels last?"""

    def __str__(self) -> str:
        """The call's name in the measured table."""
        said = [self.kind, str(self.dtype).removeprefix("torch."), "last" if self.last else "first"]
        sizes = (self.x, self.w, self.y, self.stride, self.padding, self.dilation)
        return " ".join(said + ["x".join(map(str, s)) for s in sizes] + [str(self.groups)])


def calls(name: str, args: Sequence[Any]) -> list[Call | None]:
    """For each result of aten.convolution or convolution_backward the call that computes it."""
    if name == "convolution":
        x, w, _, stride, padding, dilation, transposed, _, groups = args
        if x.dim() != w.dim():      # without a batch
            return []
        y = _output(x, w, args)
        kind, mask = FORWARD, (True,)
    elif name == "convolution_backward":
        y, x, w, _, stride, padding, dilation, transposed, _, groups, mask = args
        kind, y = DATA, tuple(y.shape)
    else:
        return []
    shapes = (tuple(x.shape), tuple(w.shape), y)
    kinds: tuple[str | None, ...] = (FORWARD,) if kind == FORWARD else (DATA, WEIGHTS, None)
    if transposed:
        shapes = (shapes[2], shapes[1], shapes[0])
        kinds = tuple({FORWARD: DATA, DATA: FORWARD}.get(k or "", k) for k in kinds)
    if _depthwise(shapes[0], shapes[1], groups):
        return []
    last = _last(x) or _last(w)
    return [Call(k, *shapes, x.dtype, tuple(stride), tuple(padding), tuple(dilation), groups, last)
            if k and asked else None for k, asked in zip(kinds, mask, strict=True)]


def _output(x: torch.Tensor, w: torch.Tensor, args: Sequence[Any]) -> tuple[int, ...]:
    _, _, _, stride, padding, dilation, transposed, output_padding, groups = args
    sizes = []
    for i, n in enumerate(x.shape[2:]):
        window = dilation[i] * (w.shape[2 + i] - 1)
        if transposed:
            sizes.append((n - 1) * stride[i] - 2 * padding[i] + window + output_padding[i] + 1)
        else:
            sizes.append((n + 2 * padding[i] - window - 1) // stride[i] + 1)
    return (x.shape[0], w.shape[1] * groups if transposed else w.shape[0], *sizes)


def _last(x: torch.Tensor) -> bool:
    format = _FORMATS.get(x.dim())
    return format is not None and not x.is_contiguous() and x.is_contiguous(memory_format=format)


def _depthwise(x: tuple[int, ...], w: tuple[int, ...], groups: int) -> bool:
    """PyTorch has kernels of its own for these."""
    return groups > 1 and groups == x[1] and w[0] % groups == 0


def workspace(rules: Rules, call: Call) -> int:
    """Bytes of one call on the rules' GPU: as measured there, or by the rule."""
    measured = _table(rules.gpu.name).get(str(call))
    return estimate(rules, call) if measured is None else measured


def is_measured(rules: Rules, call: Call) -> bool:
    """Is the call in the table of the rules' GPU?"""
    return str(call) in _table(rules.gpu.name)


def estimate(rules: Rules, call: Call) -> int:
    half = call.dtype in (torch.bfloat16, torch.float16)
    tensor_cores = rules.gpu.capability >= ((7, 0) if half else (8, 0))
    if call.last or not tensor_cores or not (half or call.dtype == torch.float32):
        return 0
    if call.x[1] <= FEW_CHANNELS and (call.kind == FORWARD or call.dtype == torch.float32):
        return 0
    return sum(_reordered(s) for s in (call.x, call.w, call.y)) * call.dtype.itemsize


def _reordered(shape: tuple[int, ...]) -> int:
    """Elements, unless both layouts have them in the same order."""
    return 0 if shape[1] == 1 or math.prod(shape[2:]) == 1 else math.prod(shape)


@functools.cache
def _table(gpu: str) -> dict[str, int]:
    """Workspaces measured on that GPU, by call; empty if there are none."""
    path = Path(__file__).with_name("convolutions.json")
    if not path.exists():
        return {}
    table: dict[str, dict[str, int]] = json.loads(path.read_text())
    return table.get(gpu, {})
