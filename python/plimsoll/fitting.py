"""`fit`: a training step in PyTorch within a memory budget.

The step is captured as one graph of forward, loss and backward (joint.py), reduced to bytes and
costs (storages.py, costs.py), planned by the C planner (planning.py) and written back as an FX
graph in the plan's order (rewriting.py), which PyTorch runs.
"""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import arguments, costs, joint, planning, randomness, storages
from ._native import DoesNotFit, version
from .explaining import find_rules
from .report import size
from .rules import GPUS, Rules
from .running import Tensors, function_of, modules_of
from .training import trained

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class BudgetError(DoesNotFit):
    """No plan was found within the budget. minimum_bytes is one that works."""

    def __init__(self, budget_bytes: int, minimum_bytes: int, what: str) -> None:
        super().__init__(f"no plan for this step fits {size(budget_bytes)} ({budget_bytes} bytes) "
                         f"of {what}: the smallest found needs {size(minimum_bytes)} "
                         f"({minimum_bytes} bytes), which works as a budget")
        self.budget_bytes, self.minimum_bytes = budget_bytes, minimum_bytes


def _budget(given: str | int | None) -> int | None:
    found = None if given is None else parse_bytes(given)
    if found is not None and found <= 0:
        raise ValueError(f"the budget is {given!r}: give more than 0 bytes, or None for no limit")
    return found


def parse_bytes(text: str | int | float) -> int:
    """Bytes of 123, "16GiB", "500 MB" or "1.5G". KB, MB and GB are powers of 1,000."""
    if isinstance(text, (int, float)):
        return int(text)
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)(i?)(B?)\s*", text, re.IGNORECASE)
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise ValueError(f"the budget is {text!r}: write bytes, or a number with KiB, MiB or GiB")
    unit = _UNITS[found[2].upper()]
    if found[4] and not found[3] and found[2]:
        unit = 1000 ** "KMGT".index(found[2].upper()) * 1000
    return int(float(found[1]) * unit)


@dataclass(frozen=True)
class FitPlan:
    """What a planned step takes."""

    budget_bytes: int | None
    peak_bytes: int
    """of the whole step with its update: reserved on CUDA, live bytes of storages on the CPU"""
    live_bytes: int
    """as above, but always live bytes"""
    state_bytes: int
    """of the optimizer, included"""
    context_bytes: int
    """CUDA context and libraries, which come on top"""
    slower: float
    """estimated extra time of the step: 0.1 is 10 %"""
    recomputed: dict[str, int]
    """operators that run again, and how often"""
    saved_bytes: int
    """copied to the host and back in each step"""
    cuda: bool

    def __str__(self) -> str:
        what = "reserved" if self.cuda else "live"
        budget = f" of {size(self.budget_bytes)}" if self.budget_bytes is not None else ""
        again = sum(self.recomputed.values())
        copies = f", {size(self.saved_bytes)} copied to the host" if self.saved_bytes else ""
        context = f"; the context of {size(self.context_bytes)} comes on top" \
            if self.context_bytes else ""
        return (f"{size(self.peak_bytes)}{budget} {what}, {again} operators run again{copies}, "
                f"{100 * self.slower:.1f} % slower by estimate{context}")


@dataclass(frozen=True)
class Options:
    """What `fit` was asked for."""

    budget_bytes: int | None
    optimizer: str | Callable[..., Any] | None
    precision: str | None
    accumulate: bool
    grad_scaler: Any
    offload: bool
    host_budget_bytes: int
    effort: int


@dataclass
class _Ready:
    """A plan for batches of one form."""

    plan: FitPlan
    graph: fx.GraphModule
    joint: joint.Joint
    run: Callable[..., Any]
    parameters: Tensors
    buffers: Tensors
    compiled: bool = False


class Step:
    """A training step within a budget. Call it with a batch: it returns what loss_fn returns, and
    the gradients are in each parameter's .grad."""

    def __init__(self, model: torch.nn.Module, loss_fn: Callable[..., Any],
                 options: Options) -> None:
        self._model, self._loss_fn, self.options = model, loss_fn, options
        self._ready: dict[Any, _Ready] = {}
        self._last: _Ready | None = None
        self._backend: Callable[..., Any] | None = None

    @property
    def plan(self) -> FitPlan:
        """Of the batch that was planned or run last."""
        assert self._last is not None
        return self._last.plan

    @property
    def graph(self) -> fx.GraphModule:
        """The rewritten graph of the batch that was planned or run last."""
        assert self._last is not None
        return self._last.graph

    def __str__(self) -> str:
        return str(self.plan)

    def compile(self, backend: str = "inductor") -> Step:
        """Has a backend of torch.compile make each graph's code when it first runs; returns this
        step. Operators that run once may then take other random numbers than eager's."""
        if self.options.offload:
            raise ValueError("a step that copies to the host cannot be compiled: plan it without "
                             "offload")
        self._backend = torch._dynamo.lookup_backend(backend)
        return self

    # ---- plans ----

    def prepare(self, batch: Any) -> FitPlan:
        """Plans for batches of this form, unless that is done."""
        leaves, spec = tree_flatten(batch)
        key = (str(spec), tuple(_form(x) for x in leaves), self._mode())
        if key not in self._ready:
            self._ready[key] = self._plan(batch)
        self._last = self._ready[key]
        return self._last.plan

    def _mode(self) -> tuple[Any, ...]:
        """What decides on the graph beside the batch."""
        modules = list(modules_of(self._model))
        held = [p for m in modules for p in m._parameters.values() if p is not None]
        return (_autocast(held[0].device.type) if held else None,
                tuple(m.training for m in modules),
                tuple((p.requires_grad, p.dtype, p.device) for p in held))

    def _plan(self, batch: Any) -> _Ready:
        o = self.options
        hooked = any(p._backward_hooks for p in trained(self._model))
        if o.accumulate and hooked:
            raise ValueError("a parameter has a hook that changes its gradient: fit without "
                             "accumulate=True, which adds gradients inside of the graph")
        device = next((p.device.type for p in self._model.parameters()), "cpu")
        # loss_fn runs under autocast, the gradients do not: as precision has it.
        precision = o.precision or _autocast(device)
        with torch.autocast(device, enabled=False):
            found = joint.capture(self._model, self._loss_fn, batch, precision,
                                  o.grad_scaler is not None, o.accumulate)
        search, rules = _search(self._model, found, o)
        made = search.plan(0) if o.budget_bytes is None else search.within(o.budget_bytes)
        if made is None:
            assert o.budget_bytes is not None
            made = search.smallest()
            if made.measure.bytes > o.budget_bytes:
                raise BudgetError(o.budget_bytes, made.measure.bytes,
                                  "reserved memory" if search.cuda else "live storages")
        plan = _described(made, search, rules, o)
        graph = made.emitted.graph
        return _Ready(plan, graph, found, function_of(graph),
                      Tensors(self._model, found.parameters),
                      Tensors(self._model, found.buffers, buffers=True))

    # ---- runs ----

    def __call__(self, batch: Any) -> Any:
        self.prepare(batch)
        ready = self._last
        assert ready is not None
        parameters = ready.parameters.get()
        # Casts are operators of the graph: what autocast would add here is not in the plan.
        with torch.no_grad(), torch.autocast(parameters[0].device.type, enabled=False):
            given = self._inputs(ready, parameters, batch)
            results = self._code(ready, given)(*given)
            self._keep(ready.joint, parameters, results)
        outputs = [results[i] for i in ready.joint.outputs]
        return tree_unflatten(outputs, ready.joint.out_spec)

    def _code(self, ready: _Ready, given: list[Any]) -> Callable[..., Any]:
        if self._backend is not None and not ready.compiled:
            ready.run = self._backend(randomness.for_compile(ready.graph), given)
            ready.compiled = True
        return ready.run

    def _inputs(self, ready: _Ready, parameters: list[torch.nn.Parameter],
                batch: Any) -> list[Any]:
        of = ready.joint
        given: list[Any] = [*parameters, *ready.buffers.get()]
        given += [x for x in tree_flatten(batch)[0] if isinstance(x, torch.Tensor)]
        if of.scaled:
            one = torch.ones((), device=parameters[0].device)
            given.append(self.options.grad_scaler.scale(one))
        if of.accumulates:
            given += [_held_gradient(p) for p, at in zip(parameters, of.gradients, strict=True)
                      if at is not None]
        return given

    def _keep(self, of: joint.Joint, parameters: list[torch.nn.Parameter], results: Any) -> None:
        for p, at in zip(parameters, of.gradients, strict=True):
            if at is None:
                continue
            if not of.accumulates:
                _give_gradient(p, results[at])
            for hook in (p._post_accumulate_grad_hooks or {}).values():
                hook(p)


def _give_gradient(p: torch.nn.Parameter, gradient: torch.Tensor) -> None:
    """As autograd does, with the hooks that the user registered on the parameter."""
    for hook in (p._backward_hooks or {}).values():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    if p.grad is None:
        p.grad = gradient
    else:
        p.grad.add_(gradient)


def _autocast(device: str) -> str | None:
    """The precision to which operators cast here."""
    if not torch.is_autocast_enabled(device):
        return None
    return joint.PRECISIONS.get(torch.get_autocast_dtype(device))


def _held_gradient(p: torch.nn.Parameter) -> torch.Tensor:
    if p.grad is None:
        p.grad = torch.zeros_like(p)
    return p.grad


def _form(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return (tuple(x.shape), x.stride(), x.dtype, x.device)
    return x


def _rules(device: torch.device) -> Rules | None:
    """Those of the GPU at hand; None on the CPU."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device).lower()
    known = next((k for k in GPUS if all(w in name for w in k.split("-")[:2])), "a100-80gb")
    return find_rules(known, None)


def _search(model: torch.nn.Module, found: joint.Joint,
            o: Options) -> tuple[planning.Search, Rules | None]:
    device = next(model.parameters()).device
    rules, machine = _rules(device), costs.machine(device)
    estimate = costs.Estimate(machine, rules)
    program = storages.trace(found.graph, estimate.cost, estimate.workspace)
    reached = [model.get_parameter(n) for n, at in zip(found.parameters, found.gradients,
                                                       strict=True) if at is not None]
    update = planning.update_of(o.optimizer, list(reached))
    held = [rules.cublas_workspace_bytes()] if rules else []
    held += joint.result_bytes(found)       # the last step's, which the caller has a name for
    return planning.Search(program, machine, update, held, device.type == "cuda", o.effort,
                           o.host_budget_bytes if o.offload else None), rules


def _described(made: planning.Planned, search: planning.Search, rules: Rules | None,
               o: Options) -> FitPlan:
    p, e = made.plan, made.emitted
    return FitPlan(
        o.budget_bytes, made.measure.bytes, made.measure.live_bytes, search.update.state_bytes,
        rules.gpu.context_bytes if rules else 0, p.cost / max(p.base_cost, 1e-9) - 1,
        dict(Counter(e.again)), e.saved_bytes, search.cuda)


def fit(model: torch.nn.Module, loss_fn: Callable[[Any, Any], Any], example_batch: Any,
        budget: str | int | None = None, *,
        optimizer: str | Callable[..., Any] | None = "adamw-fused", precision: str | None = None,
        accumulate: bool = False, grad_scaler: Any = None, offload: bool = False,
        host_budget: str | int = 0, effort: int = 0) -> Step:
    """A training step that stays within a budget.

        step = plimsoll.fit(model, loss_fn, batch, budget="16GiB")
        loss = step(batch)              # gradients are in .grad
        optimizer.step()
        optimizer.zero_grad()

    The budget is the peak of a whole step: parameters, buffers, batch, gradients, the optimizer's
    state and its update. On CUDA it limits torch.cuda.max_memory_reserved(), on the CPU the live
    bytes of storages. If no plan is found, BudgetError names a budget that works. A batch of
    another shape, or another mode of the model (train, eval, frozen parameters), is captured and
    planned when it first occurs.

    Args:
        model: the module to train.
        loss_fn: loss_fn(model, batch) returns the loss, or a tuple or dict that begins with it;
            other results are returned without gradients.
        example_batch: any nest of lists, tuples and dicts.
        budget: bytes, or text such as "16GiB"; None: nothing is recomputed.
        optimizer: the optimizer whose state and temporaries the budget includes: adamw, adam or
            sgd, also with -fused or -loop; or a function of the parameters that makes it; or None.
        precision: bf16 or fp16 runs loss_fn under autocast.
        accumulate: adds gradients to those in .grad, within the budget.
        grad_scaler: a torch.amp.GradScaler that scales the loss.
        offload: allows copies of values to pinned host memory (CUDA).
        host_budget: limit of those copies in bytes; 0: no limit.
        effort: search moves of the planner; 0: about ten seconds.
    """
    options = Options(_budget(budget), optimizer, precision,
                      accumulate, grad_scaler, offload, parse_bytes(host_budget), effort)
    arguments.check(model, loss_fn, example_batch)
    arguments.check_scaler(grad_scaler)
    version()                   # without the library nothing is worth capturing
    step = Step(model, loss_fn, options)
    step.prepare(example_batch)
    return step
