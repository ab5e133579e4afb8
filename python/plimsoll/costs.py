"""What an operator takes: time, roughly, and memory that no tensor shows."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from . import convolutions, workspaces
from .rules import Rules


@dataclass(frozen=True)
class Machine:
    """A device as the planner sees it. Times are in nanoseconds."""

    flops_per_ns: dict[torch.dtype, float]
    """of products; fp32 is the default for others"""
    bytes_per_ns: float
    launch_ns: float
    host_bytes_per_ns: float = 0.0
    """to and from pinned memory; 0: no copies"""
    align: int = 1

    def ns(self, dtype: torch.dtype, flops: int, moved: int) -> float:
        """The larger of arithmetic and traffic, and the launch."""
        rate = self.flops_per_ns.get(dtype, self.flops_per_ns[torch.float32])
        return self.launch_ns + max(flops / rate, moved / self.bytes_per_ns)


_HALF = (torch.bfloat16, torch.float16)

CPU = Machine({torch.float32: 50.0}, 10.0, 3000.0)


def _gpu(half: float, full: float, bandwidth: float) -> Machine:
    return Machine({torch.float32: full, **dict.fromkeys(_HALF, half)}, bandwidth, 6000.0, 25.0,
                   512)


# Rates that large products reach, about two thirds of the data sheet's; fp32 without TF32.
_GPUS = {"h200": _gpu(600e3, 40e3, 3800.0), "h100": _gpu(600e3, 40e3, 2600.0),
         "a100": _gpu(220e3, 15e3, 1400.0), "rtx-4090": _gpu(130e3, 55e3, 850.0)}


def machine(device: torch.device) -> Machine:
    """The machine that tensors of this device run on; GPUs by the words of their name."""
    if device.type != "cuda":
        return CPU
    name = torch.cuda.get_device_name(device).lower()
    for key, known in _GPUS.items():
        if all(word in name for word in key.split("-")):
            return known
    return _GPUS["a100"]


def _product_dtype(node: fx.Node) -> torch.dtype:
    for given in node.all_input_nodes:
        x = given.meta.get("val")
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            return x.dtype
    return torch.float32


class Estimate:
    """Cost by roofline, workspaces by the rules for the GPU (none on the CPU)."""

    def __init__(self, of: Machine, rules: Rules | None) -> None:
        self.machine, self.rules = of, rules

    def cost(self, node: fx.Node, flops: int, moved: int) -> float:
        return self.machine.ns(_product_dtype(node), flops, moved)

    def workspace(self, node: fx.Node, args: Any) -> int:
        if self.rules is None or not isinstance(node.target, torch._ops.OpOverload):
            return 0
        name = node.target._schema.name.removeprefix("aten::")
        inside = [*workspaces.hidden_copies(name, args),
                  *workspaces.inside(self.rules, name, args)]
        one_by_one = [convolutions.workspace(self.rules, call)
                      for call in convolutions.calls(name, args) if call]
        return sum(self._rounded(inside)) + max(self._rounded(one_by_one), default=0)

    def _rounded(self, sizes: Iterable[int]) -> list[int]:
        return [-(-n // 512) * 512 for n in sizes]
