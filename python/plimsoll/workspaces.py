"""Memory inside of one CUDA call, which no tensor of the program shows."""
from __future__ import annotations

from typing import Any

import torch

from .rules import Rules

_CUBLAS = frozenset("mm addmm bmm baddbmm addmv mv dot linear _addmm_activation".split())
# These call contiguous() on what they are given.
_CONTIGUOUS = frozenset("""convolution convolution_backward native_layer_norm native_group_norm
native_layer_norm_backward native_group_norm_backward native_batch_norm _softmax _log_softmax
_softmax_backward_data _log_softmax_backward_data embedding_dense_backward""".split())


def uses_cublas(name: str) -> bool:
    """Does the operator need cuBLAS's workspace?"""
    return name in _CUBLAS


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


def _matrix_needs_copy(x: torch.Tensor) -> bool:
    """cuBLAS takes a matrix whose rows or columns are dense."""
    rows, columns = x.stride(-2), x.stride(-1)
    dense = (columns == 1 and rows >= max(1, x.shape[-1])) or \
            (rows == 1 and columns >= max(1, x.shape[-2]))
    return not dense and x.shape[-1] > 1 and x.shape[-2] > 1


def hidden_copies(name: str, args: Any) -> list[int]:
    """Dense copies of inputs that live as long as the call."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    if name in ("mm", "bmm", "addmm", "baddbmm"):
        return [_bytes(x) for x in tensors[-2:] if x.dim() >= 2 and _matrix_needs_copy(x)]
    if name not in _CONTIGUOUS:
        return []
    return [_bytes(x) for x in tensors if x.dim() > 1 and not x.is_contiguous()
            and not (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))
            and not (x.dim() == 5 and x.is_contiguous(memory_format=torch.channels_last_3d))]


def inside(rules: Rules, name: str, args: Any) -> list[int]:
    """Temporaries of attention's backward."""
    kernels = {"_scaled_dot_product_flash_attention_backward": "flash",
               "_scaled_dot_product_cudnn_attention_backward": "cudnn",
               "_scaled_dot_product_efficient_attention_backward": "efficient"}
    if name not in kernels:
        return []
    q = args[1]
    return rules.attention_backward_bytes(kernels[name], q.shape, q.dtype != torch.float32)


def in_one_piece(name: str, args: Any, result: Any) -> Any:
    """The efficient kernel's gradients of q, k and v that are parts of one tensor are parts of one,
    too; on tensors without numbers they are three."""
    if name != "_scaled_dot_product_efficient_attention_backward":
        return result
    q, k, v = args[1:4]
    storages = {x.untyped_storage()._cdata for x in (q, k, v)}
    if len(storages) > 1 or not q.shape == k.shape == v.shape:
        return result
    batch, heads, length, dim = q.shape
    whole = q.new_empty((batch, length, 3, heads, dim))
    return (*(part.transpose(1, 2) for part in whole.unbind(2)), *result[3:])


# Their result is the unreduced loss, reduced in place: the number keeps that storage.
_REDUCED_IN_PLACE = {"mse_loss": 2, "smooth_l1_loss": 2}


def kept_bytes(name: str, args: Any) -> int:
    """Bytes of the result's storage, where PyTorch keeps more than the result shows; else 0."""
    at = _REDUCED_IN_PLACE.get(name)
    if at is None or (len(args) > at and args[at] == 0):
        return 0
    shape: torch.Size = torch.broadcast_shapes(args[0].shape, args[1].shape)
    return int(shape.numel()) * torch.promote_types(args[0].dtype, args[1].dtype).itemsize
