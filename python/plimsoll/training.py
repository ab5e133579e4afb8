"""One training step as a loop in PyTorch does it: micro-batches, loss scaling, clipping, update,
average of the weights.

`capture.record` runs it under its recorder, on tensors with or without numbers.
"""
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from . import arguments

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
NO_PATH = ("no parameter leads to the loss: look for torch.no_grad() or detach() in the model and "
           "in loss_fn")
DECAY = 0.999
"""of the average; sizes do not depend on it"""

Average = Callable[[list[Any], list[Any]], None]


def _average_foreach(averages: list[Any], parameters: list[Any]) -> None:
    """As torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn."""
    torch._foreach_lerp_(averages, parameters, 1 - DECAY)


def _average_loop(averages: list[Any], parameters: list[Any]) -> None:
    """As diffusers' EMAModel: two temporaries of one parameter at a time."""
    for average, p in zip(averages, parameters, strict=True):
        average.sub_((1 - DECAY) * (average - p))


AVERAGES: dict[str, Average] = {"foreach": _average_foreach, "loop": _average_loop}


@dataclass(frozen=True)
class StepForm:
    """What a step consists of, beside the model and its loss."""

    optimizer: str | Callable[..., Any] | None = "adamw"
    precision: str = "fp32"
    accumulate: int = 1
    """micro-batches"""
    clip: bool = False
    """clip_grad_norm_ before the update"""
    ema: str | Average | None = None
    """foreach, loop, or a function that updates the averages from the parameters"""
    grad_scaler: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ValueError(f"the precision is {self.precision!r}: use one of "
                             f"{', '.join(PRECISIONS)}")
        if not isinstance(self.accumulate, int) or self.accumulate < 1:
            raise ValueError(f"accumulate is {self.accumulate!r}: use a number from 1")
        if isinstance(self.ema, str) and self.ema not in AVERAGES:
            raise ValueError(f"ema is {self.ema!r}: use foreach, loop, or a function of the "
                             "averages and the parameters")


def make_optimizer(which: str | Callable[..., Any], parameters: list[Any]) -> Any:
    """By name, as it would be on CUDA (foreach unless fused), or from a function of parameters."""
    arguments.check_optimizer(which)
    if callable(which):
        made = which(parameters)
        arguments.check_steps_alone(made)
        return made
    name, _, variant = which.lower().partition("-")
    made = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}.get(name)
    if made is None or variant not in ("", "fused", "loop"):
        raise ValueError(f"the optimizer is {which!r}: use adamw, adam or sgd, each with -fused or "
                         "-loop (foreach=False), or a function of the parameters")
    how: dict[str, Any] = {"momentum": 0.9} if name == "sgd" else {}
    if variant == "fused":
        if any(p.is_complex() for p in parameters):
            raise ValueError(f"PyTorch's fused optimizers take no complex parameters: give "
                             f"optimizer={name!r}")
        how["fused"] = True
    else:
        how["foreach"] = variant == ""
    return made(parameters, lr=1e-4, **how)


def counts_on_host(optimizer: Any) -> bool:
    """Does it keep its numbers of steps on the host?"""
    return not any(g.get("fused") or g.get("capturable") for g in optimizer.param_groups)


def loss_of(result: Any) -> torch.Tensor:
    """The loss in what loss_fn returned: it comes first."""
    first = next(iter(tree_leaves(result)), None)
    if not isinstance(first, torch.Tensor) or first.numel() != 1:
        raise TypeError("loss_fn(model, batch) must return a loss of one element, or a tuple or "
                        "dict that begins with it")
    return first


def trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Parameters that require a gradient; there must be one."""
    found = [p for p in model.parameters() if p.requires_grad]
    if not found:
        raise ValueError("no parameter of the model requires a gradient: call requires_grad_() on "
                         "those that are to be trained")
    return found


class Loop:
    """A model in training. `phase` is called as forward, backward, clipping, update and averaging
    begin; all gradients are there when clipping does."""

    def __init__(self, model: torch.nn.Module, loss_fn: Callable[..., Any], batch: Any,
                 form: StepForm, phase: Callable[[str], None]) -> None:
        self._model, self._loss_fn, self._batch, self._form = model, loss_fn, batch, form
        self._phase = phase
        self._trained = trained(model)
        self._averaged = [p.detach() for p in model.parameters()]
        self._scaler = torch.amp.GradScaler("cpu", enabled=form.grad_scaler)
        self._last: Any = None
        """what loss_fn returned: a program's names hold it until the next result replaces it"""
        self.averages: list[torch.Tensor] = []
        self.optimizer: Any = None
        if form.optimizer is not None:
            self.optimizer = make_optimizer(form.optimizer, self._trained)
        if form.ema is not None:
            self.averages = [p.clone() for p in self._averaged]

    def step(self) -> None:
        """One step, from the first micro-batch to gradients that are freed."""
        for _ in range(self._form.accumulate):
            self._phase("forward")
            self._last = self._result()
            loss = self._scaled(self._last)
            if not loss.requires_grad:
                raise ValueError(NO_PATH)
            self._phase("backward")
            loss.backward()
        self._phase("clipping")
        scales = self._form.grad_scaler and self.optimizer is not None
        if scales:
            self._scaler.unscale_(self.optimizer)
        if self._form.clip:
            torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._phase("update")
        if self.optimizer is not None:
            self.optimizer.step()
        self._phase("averaging")
        if scales:
            self._scaler.update()
        self._average()
        self._model.zero_grad(set_to_none=True)

    def state(self) -> list[Any]:
        """What the optimizer holds."""
        return tree_leaves(dict(self.optimizer.state)) if self.optimizer is not None else []

    def _result(self) -> Any:
        dtype = PRECISIONS[self._form.precision]
        with torch.autocast("cpu", dtype) if dtype else nullcontext():
            return self._loss_fn(self._model, self._batch)

    def _scaled(self, result: Any) -> torch.Tensor:
        loss = loss_of(result)
        if self._form.accumulate > 1:
            loss = loss / self._form.accumulate
        scaled: torch.Tensor = self._scaler.scale(loss)
        return scaled

    def _average(self) -> None:
        how = self._form.ema
        if how is not None:
            with torch.no_grad():
                (AVERAGES[how] if isinstance(how, str) else how)(self.averages, self._averaged)
