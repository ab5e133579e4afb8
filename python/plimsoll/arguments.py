"""What the calls are given, checked before anything is captured: each refusal is one sentence."""
from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule")


def check(model: Any, loss_fn: Any, batch: Any) -> None:
    """A module that can be captured, a function, and dense tensors."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"the model is a {type(model).__name__}: give a torch.nn.Module")
    if not callable(loss_fn):
        raise TypeError(f"loss_fn is a {type(loss_fn).__name__}: give a function of model and "
                        "batch that returns the loss")
    for name, module in model.named_modules():
        _check_module(name or "the model", module)
    if any(isinstance(x, torch.nn.UninitializedParameter) for x in model.parameters()):
        raise ValueError("the model has lazy layers whose shapes are not known yet: run it once "
                         "with a batch first")
    if any(isinstance(x, torch.Tensor) and x.layout is not torch.strided
           for x in tree_leaves(batch)):
        raise ValueError("the batch has a sparse tensor, which cannot be counted: use dense ones")


def _check_module(name: str, module: torch.nn.Module) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError(f"{name} is TorchScript: give the module that it was made from")
    if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
        raise ValueError(f"{name} is compiled by torch.compile: give the module itself (its "
                         "_orig_mod, or one without compile()), as its eager mode is captured")
    kinds = {kind.__name__ for kind in type(module).__mro__}
    wrapper = next((w for w in _WRAPPERS if w in kinds), None)
    if wrapper:
        raise ValueError(f"{name} is wrapped in {wrapper}: give the module inside of it "
                         "(model.module), as one process is planned; its buckets come on top, and "
                         "exchanging gradients between processes is up to the caller")


def check_scaler(scaler: Any) -> None:
    if scaler is not None and not callable(getattr(scaler, "scale", None)):
        raise TypeError(f"grad_scaler is {scaler!r}: give a torch.amp.GradScaler, or None")


def check_optimizer(which: Any) -> None:
    """A name, or a function; called before the optimizer is made."""
    if isinstance(which, torch.optim.Optimizer):
        name = type(which).__name__
        raise TypeError(f"the optimizer ({name}) holds other parameters than the ones that are "
                        f"counted: give a function such as lambda p: torch.optim.{name}(p)")


def check_steps_alone(optimizer: Any) -> None:
    """Its step() must not need a closure."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("LBFGS runs the model several times in one step, which cannot be counted "
                         "beforehand: use an optimizer whose step() needs no closure")
