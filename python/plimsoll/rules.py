"""What eager CUDA does where the CPU does otherwise, by GPU and PyTorch version.

Nothing here asks the local build: a step is predicted for another machine.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """What the rules need to know of a GPU."""

    name: str
    capability: tuple[int, int]
    total_bytes: int
    context_bytes: int
    """CUDA context and libraries, outside of the allocator."""
    measured: bool
    """Are context_bytes and the rules below measured, or taken over from the H200?"""


def _gpu(name: str, capability: tuple[int, int], gib: float) -> Gpu:
    return Gpu(name, capability, int(gib * (1 << 30)), 557_842_432, False)


GPUS: dict[str, Gpu] = {g.name: g for g in (
    Gpu("h200", (9, 0), 150_100_639_744, 557_842_432, True),
    _gpu("h100", (9, 0), 79.1), _gpu("a100-80gb", (8, 0), 79.1), _gpu("a100-40gb", (8, 0), 39.4),
    _gpu("a10", (8, 6), 22.1), _gpu("l4", (8, 9), 22.0), _gpu("l40s", (8, 9), 44.4),
    _gpu("rtx-3060", (8, 6), 11.6), _gpu("rtx-3070", (8, 6), 7.7),
    _gpu("rtx-3080-10gb", (8, 6), 9.6), _gpu("rtx-3090", (8, 6), 23.6),
    _gpu("rtx-4060-ti-16gb", (8, 9), 15.6), _gpu("rtx-4090", (8, 9), 23.5),
    _gpu("t4", (7, 5), 14.6), _gpu("v100-16gb", (7, 0), 15.8), _gpu("v100-32gb", (7, 0), 31.7))}


def version_of(text: str) -> tuple[int, int]:
    """(2, 11) of "2.11.0+cu130"."""
    parts = text.split("+")[0].split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        raise ValueError(f"the PyTorch version is {text!r}: give one such as \"2.11\"")
    return int(parts[0]), int(parts[1])


@dataclass(frozen=True)
class Attention:
    """One call of scaled_dot_product_attention, as its choice of a kernel sees it."""

    half: bool
    """fp16 or bf16"""
    fp32: bool
    shape: tuple[int, ...]
    key_shape: tuple[int, ...]
    value_dim: int
    masked: bool
    causal: bool
    dropout: float
    last_stride_one: bool = True
    mask_needs_grad: bool = False


@dataclass(frozen=True)
class Rules:
    """Decisions for one GPU and one version of PyTorch."""

    gpu: Gpu
    torch: tuple[int, int]
    notes: list[str] = field(default_factory=list)

    def cublas_workspace_bytes(self) -> int:
        """Once per thread that multiplies: forward and backward are two."""
        major = self.gpu.capability[0]
        large = self.gpu.capability == (9, 0) or (self.torch >= (2, 12) and major in (9, 10, 12))
        return 32 * MIB if large else 8_519_680

    def attention_kernel(self, a: Attention) -> str:
        """cudnn, flash, efficient or math: the first of the version's order that takes it."""
        cudnn_first = self.torch >= (2, 9) and self.gpu.capability in ((9, 0), (10, 0))
        order = ("cudnn",) if cudnn_first else ()
        for kernel in order + ("flash", "efficient"):
            if getattr(self, "_takes_" + kernel)(a):
                return kernel
        return "math"

    def _takes_cudnn(self, a: Attention) -> bool:
        dim = a.shape[-1]
        return (a.half and len(a.shape) == 4 and dim == a.value_dim and dim % 8 == 0
                and dim <= 128 and a.last_stride_one and not a.mask_needs_grad
                and a.shape[-2] > 1 and a.key_shape[-2] > 1
                and a.shape[-3] == a.key_shape[-3])

    def _takes_flash(self, a: Attention) -> bool:
        return (a.half and not a.masked and len(a.shape) == 4 and a.shape[-1] <= 256
                and a.shape[-1] == a.value_dim and self.gpu.capability >= (8, 0)
                and a.last_stride_one
                and not (a.causal and a.shape[-2] != a.key_shape[-2]))

    def _takes_efficient(self, a: Attention) -> bool:
        align = (8 if self.gpu.capability >= (8, 0) else 4) if a.half else 4
        return ((a.half or a.fp32) and len(a.shape) == 4 and a.last_stride_one
                and a.shape[-1] % align == 0 and a.value_dim % align == 0
                and a.shape[-3] == a.key_shape[-3])

    def attention_backward_bytes(self, kernel: str, shape: Any, half: bool) -> list[int]:
        """Temporaries inside of the kernel's backward call."""
        batch, heads, length, dim = shape
        rounded = -(-length // 128) * 128
        if kernel == "efficient":
            delta = 4 * batch * heads * length
            if not half:
                return [delta]
            return [delta, 4 * batch * heads * rounded * (-(-dim // 64) * 64)]
        width = -(-dim // 32) * 32 if dim <= 128 else -(-dim // 64) * 64
        return [4 * batch * heads * rounded, 4 * batch * rounded * heads * width]
