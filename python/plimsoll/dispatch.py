"""Operators that CUDA runs otherwise than the CPU: autocast's lists, attention, dropout, RMS norm,
recurrent layers.

While `as_cuda` is active, calls on CPU tensors dispatch as they would on CUDA. The kernels are
registered for the CPU's autocast and autograd keys and taken back at the end.
"""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_map

from . import recurrent
from .rules import Attention, Rules

aten = torch.ops.aten

# ATen/autocast_mode.h: what CUDA runs in fp32 under autocast and the CPU does not.
_FP32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow
softplus layer_norm group_norm rms_norm frobenius_norm nuclear_norm cosine_similarity
poisson_nll_loss l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss soft_margin_loss
binary_cross_entropy_with_logits nll_loss nll_loss2d nll_loss_nd kl_div dist pdist cdist renorm
logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
_upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
_upsample_bicubic2d_aa""".split()
# Those whose result becomes fp32, without a copy of the input.
_FP32_RESULT = "prod softmax.int log_softmax.int cumprod cumsum linalg_vector_norm sum".split()
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add"
_HALVES = (torch.bfloat16, torch.float16)


def _overloads(name: str) -> list[Any]:
    name, _, only = name.partition(".")
    packet = getattr(aten, name, None)
    if packet is None:
        return []
    names = [only] if only else packet.overloads()
    return [getattr(packet, n) for n in names
            if "out" not in n and "dimname" not in n.lower() and n != "Scalar_Scalar"]


def _eligible(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point() and x.dtype != torch.float64


def _below_autocast() -> Any:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    return torch._C._ExcludeDispatchKeyGuard(keys)


def _in_fp32(op: Any) -> Callable[..., Any]:
    def to_fp32(x: Any) -> Any:
        return x.to(torch.float32) if _eligible(x) and x.dtype in _HALVES else x

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            return op(*tree_map(to_fp32, args), **tree_map(to_fp32, kwargs))
    return kernel


def _fp32_result(op: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        names = [a.name for a in op._schema.arguments]
        given = names.index("dtype") < len(args) and args[names.index("dtype")] is not None
        if args and _eligible(args[0]) and not given and kwargs.get("dtype") is None:
            if names.index("dtype") < len(args):
                args = args[:names.index("dtype")] + (torch.float32,)
            else:
                kwargs["dtype"] = torch.float32
        with _below_autocast():
            return op(*args, **kwargs)
    return kernel


def _in_widest(op: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        flat = torch.utils._pytree.tree_leaves((args, kwargs))
        if any(_eligible(x) and x.dtype == torch.float32 for x in flat):
            return _in_fp32(op)(*args, **kwargs)
        with _below_autocast():
            return op(*args, **kwargs)
    return kernel


def _register_autocast(lib: Any, rules: Rules) -> None:
    for names, make in ((_FP32, _in_fp32), (_FP32_RESULT, _fp32_result),
                        (_WIDEST.split(), _in_widest)):
        for name in names:
            if name == "rms_norm" and rules.torch < (2, 12):
                continue        # its entry is younger
            for op in _overloads(name):
                if make is _fp32_result and "dtype" not in str(op._schema):
                    continue
                lib.impl(op, make(op), "AutocastCPU")
    for name in recurrent.GATES:
        op = getattr(aten, name).input
        lib.impl(op, recurrent.autocast_kernel(op, _below_autocast), "AutocastCPU")
    # In the CPU's lists only, or cast within.
    for name in ("avg_pool3d", "stack", "cat", "index_copy", *recurrent.CELLS):
        for op in _overloads(name):
            lib.impl(op, torch.library.fallthrough_kernel, "AutocastCPU")


def _describe(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool) -> Attention:
    return Attention(
        half=q.dtype in _HALVES, fp32=q.dtype == torch.float32, shape=tuple(q.shape),
        key_shape=tuple(k.shape), value_dim=v.shape[-1], masked=mask is not None, causal=causal,
        dropout=dropout, last_stride_one=all(t.stride(-1) == 1 for t in (q, k, v)),
        mask_needs_grad=mask is not None and mask.requires_grad)


def _additive(mask: Any, q: Any) -> Any:
    """A mask of truth values becomes one that is added."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=q.dtype))


def _padded_bias(mask: Any, q: Any, k: Any) -> Any:
    """Rows of 16 elements at a time: the efficient kernel reads a padded mask."""
    if mask is None:
        return None
    rest = -mask.shape[-1] % 16
    if rest:
        mask = torch.nn.functional.pad(mask, (0, rest))[..., :mask.shape[-1]]
    return mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])


def _attention(rules: Rules) -> Callable[..., Any]:
    def kernel(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0,
               is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False) -> Any:
        chosen = rules.attention_kernel(_describe(q, k, v, attn_mask, dropout_p, is_causal))
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
        if chosen == "math":
            mask = _additive(attn_mask, q)
            return aten._scaled_dot_product_attention_math(
                q, k, v, mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]
        if chosen == "cudnn":
            mask = _additive(attn_mask, q)
            if mask is not None:
                mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
            return aten._scaled_dot_product_cudnn_attention(
                q, k, v, mask, needs_grad, dropout_p, is_causal, False, scale=scale)[0]
        if chosen == "efficient":
            mask = _padded_bias(_additive(attn_mask, q), q, k)
            return aten._scaled_dot_product_efficient_attention(
                q, k, v, mask, needs_grad, dropout_p, is_causal, scale=scale)[0]
        dim = q.shape[-1]
        scale = scale if scale is not None else 1 / math.sqrt(dim)
        rest = -dim % 8
        if rest:
            q, k, v = (torch.nn.functional.pad(t, (0, rest)) for t in (q, k, v))
        out = aten._scaled_dot_product_flash_attention(
            q, k, v, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :dim] if rest else out
    return kernel


def _dropout(x: Any, p: float, train: bool) -> Any:
    if not train or p == 0 or x.numel() == 0:
        return x
    return aten.native_dropout(x, p, train)[0]


class _FusedRmsNorm(torch.autograd.Function):
    """What CUDA's kernel allocates and saves: input, weight and one number per row. The operator
    itself falls apart into steps on the CPU, and those save more."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rows: tuple[int, ...],
                weight: torch.Tensor | None) -> torch.Tensor:
        inverse = x.new_empty((*rows, 1), dtype=torch.float32)
        ctx.save_for_backward(x, weight, inverse)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), None, None if weight is None else torch.empty_like(weight)


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    if weight is not None and weight.dtype != x.dtype:
        wide = x.to(torch.float32)      # no kernel for two types: step by step
        scale = (wide.pow(2).mean(list(range(-len(shape), 0)), True) + 1e-6).rsqrt()
        return (wide * scale * weight).to(x.dtype)
    rows = tuple(x.shape[:x.dim() - len(shape)])
    return _FusedRmsNorm.apply(x, rows, weight)     # type: ignore[no-untyped-call]


@contextmanager
def as_cuda(rules: Rules) -> Iterator[None]:
    """Dispatch on the CPU as the rules say CUDA would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.library._scoped_library("aten", "IMPL") as lib:
            _register_autocast(lib, rules)
            lib.impl("scaled_dot_product_attention", _attention(rules), "AutogradCPU")
            lib.impl("dropout", _dropout, "AutogradCPU")
            for name in recurrent.GATES:
                lib.impl(name + ".input", recurrent.kernel(name), "AutogradCPU")
            for name, kernel in recurrent.CELLS.items():
                lib.impl(name, kernel, "AutogradCPU")
            if rules.torch >= (2, 9):
                lib.impl("rms_norm", _rms_norm, "AutogradCPU")
            yield
