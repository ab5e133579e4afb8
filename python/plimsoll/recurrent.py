"""Recurrent layers as CUDA runs them: cuDNN's are one operator for all steps and layers, single
cells have a kernel of PyTorch's.

What cuDNN keeps for the backward pass is its secret; here it is the gates and cells of each step
and the inputs of the upper layers.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_map

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_CELLS = {"lstm": 1, "gru": 1}
"""what is kept beside the gates, per element of the state"""


class _Recurrent(torch.autograd.Function):
    """Allocates and saves as _cudnn_rnn does: input, states, weights, output and reserve."""

    @staticmethod
    def forward(ctx: Any, name: str, layers: int, bidirectional: bool, batch_first: bool,
                n_states: int, x: Any, *others: Any) -> Any:
        states = others[:n_states]
        directions = 2 if bidirectional else 1
        dense = x.transpose(0, 1).contiguous() if batch_first else x
        steps, width = dense.shape[0] * dense.shape[1], states[-1].shape[-1] * directions
        kept = layers * (GATES[name] + _CELLS.get(name, 0)) + layers - 1
        reserve = x.new_empty(steps * width * kept if any(ctx.needs_input_grad) else 0)
        workspace = x.new_empty(steps * width * GATES[name])
        out = x.new_empty((*dense.shape[:2], states[0].shape[-1] * directions))
        del workspace, dense
        out = out.transpose(0, 1) if batch_first else out
        ctx.before_weights = 1 + n_states
        ctx.save_for_backward(x, *others, out, reserve)
        return (out, *(torch.empty_like(s) for s in states))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        *given, _, _ = ctx.saved_tensors
        before, weights = given[:ctx.before_weights], given[ctx.before_weights:]
        sizes = [w.numel() for w in weights]
        parts = weights[0].new_empty(sum(sizes)).split(sizes)
        found = [torch.empty_like(t) for t in before]
        found += [part.view(w.shape) for part, w in zip(parts, weights, strict=True)]
        return (None,) * 5 + tuple(found)


def kernel(name: str) -> Callable[..., Any]:
    """Of aten.lstm.input and its kin."""
    def run(x: Any, states: Any, weights: Any, has_biases: bool, layers: int, dropout: float,
            train: bool, bidirectional: bool, batch_first: bool) -> Any:
        given = tuple(states) if name == "lstm" else (states,)
        return _Recurrent.apply(name, layers, bidirectional,    # type: ignore[no-untyped-call]
                                batch_first, len(given), x, *given, *weights)
    return run


def autocast_kernel(op: Any, below: Callable[[], Any]) -> Callable[..., Any]:
    """Input, states and weights in the type of autocast."""
    def to_half(x: Any) -> Any:
        wide = isinstance(x, torch.Tensor) and x.dtype == torch.float32
        return x.to(torch.get_autocast_dtype("cpu")) if wide else x

    def run(*args: Any) -> Any:
        with below():
            return op(*tree_map(to_half, args))
    return run


class _Cell(torch.autograd.Function):
    """PyTorch's own kernel for the gates of one step, after the two products."""

    @staticmethod
    def forward(ctx: Any, lstm: bool, of_x: Any, of_h: Any, state: Any, *biases: Any) -> Any:
        ctx.lstm, ctx.n = lstm, len(biases)
        made = tuple(torch.empty_like(state) for _ in range(2 if lstm else 1))
        workspace = state.new_empty((state.shape[0], (4 if lstm else 5) * state.shape[-1]))
        ctx.save_for_backward(of_x, of_h, state, *biases, *made[1:], workspace)
        return made if lstm else made[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        of_x, of_h, state, *_ = ctx.saved_tensors
        found_x = torch.empty_like(of_x)
        found_h = found_x if ctx.lstm else torch.empty_like(of_h)
        found = (None, found_x, found_h, torch.empty_like(state))
        return found + tuple(g.sum(0) for g in (found_x, found_h)[:ctx.n])


def _gates(x: Any, state: Any, w_x: Any, w_h: Any) -> tuple[Any, Any]:
    """The two products. Autocast casts for them, and keeps the casts of the weights."""
    return F.linear(x, w_x), F.linear(state, w_h)


def lstm_cell(x: Any, states: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> Any:
    """As aten.lstm_cell."""
    gates = _gates(x, states[0], w_x, w_h)
    biases = () if b_x is None else (b_x, b_h)
    return _Cell.apply(True, *gates, states[1].to(gates[0].dtype),  # type: ignore[no-untyped-call]
                       *biases)


def gru_cell(x: Any, state: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> Any:
    """As aten.gru_cell."""
    gates = _gates(x, state, w_x, w_h)
    biases = () if b_x is None else (b_x, b_h)
    return _Cell.apply(False, *gates, state.to(gates[0].dtype),     # type: ignore[no-untyped-call]
                       *biases)


CELLS = {"lstm_cell": lstm_cell, "gru_cell": gru_cell}
