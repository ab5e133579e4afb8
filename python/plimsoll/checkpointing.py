"""A plan as selective activation checkpointing, for training loops that stay as they are.

The plan of `fit` says which results are kept until backward. `torch.utils.checkpoint` can follow it
block by block: it recomputes a whole block at once, so it needs more memory than the plan. What
it really takes is found on fake tensors, and the plan is made smaller until that fits.
"""
from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import (CheckpointPolicy, checkpoint as torch_checkpoint,
                                    create_selective_checkpoint_contexts)

from . import arguments, joint
from ._planner import RUN
from .fitting import BudgetError, Options, _budget, _rules, _search
from .planning import Planned, Search, _live_peak
from .report import size
from .storages import Program

TRIES = 6
Call = tuple[str, int]
"""A block and which of its calls in a step."""
Kept = dict[Call, set[tuple[str, int]]]
"""For each call the operators whose results are kept: the name, and which of that name."""


def outer_blocks(model: torch.nn.Module) -> list[str]:
    """The blocks of a model: members of its outermost module lists."""
    found: list[str] = []
    for name, module in model.named_modules():
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or not name:
            continue
        if not any(name.startswith(r + ".") for r in found):
            found += [f"{name}.{k}" for k, m in module.named_children()
                      if any(True for _ in m.parameters())]
    return found


@dataclass
class Checkpointed:
    """A model whose blocks recompute what the plan does not keep."""

    blocks: list[str]
    """modules that recompute something"""
    peak_bytes: int
    """predicted of the whole step: reserved on CUDA, live bytes of storages on the CPU"""
    kept: Kept = field(repr=False)
    _before: list[tuple[torch.nn.Module, Any]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        return f"{size(self.peak_bytes)}, {len(self.blocks)} modules recompute"

    def remove(self) -> None:
        """Takes the checkpointing back."""
        for module, forward in self._before:
            if forward is None:
                del module.forward
            else:
                module.forward = forward
        self._before.clear()

    def context_fn(self, block: str, call: int = 0) -> Callable[[], Any]:
        """For torch.utils.checkpoint.checkpoint(..., use_reentrant=False, context_fn=...)."""
        return functools.partial(_contexts, self.kept.get((block, call), set()))


def _contexts(kept: set[tuple[str, int]]) -> Any:
    counts: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        name = str(op)
        number = counts[ctx.is_recompute][name]
        counts[ctx.is_recompute][name] += 1
        keep = (name, number) in kept
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
    return create_selective_checkpoint_contexts(policy)


# ---- which operators belong to which call ----

@contextmanager
def _marked(model: torch.nn.Module, blocks: list[str],
            found: dict[Call, list[str]]) -> Iterator[None]:
    """While the model is traced: the names of the nodes that each call adds."""
    handles: list[Any] = []
    begun: list[int] = []
    calls: Counter[str] = Counter()

    def nodes() -> list[Any] | None:
        mode = get_proxy_mode()
        return None if mode is None else list(mode.tracer.graph.nodes)

    for block in blocks:
        def enter(_m: Any, _a: Any) -> None:
            begun.append(len(nodes() or []))

        def leave(_m: Any, _a: Any, _o: Any, block: str = block) -> None:
            start, now = begun.pop(), nodes()
            if now is not None:
                found[block, calls[block]] = [n.name for n in now[start:]]
                calls[block] += 1
        module = model.get_submodule(block)
        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _kept(made: Planned, program: Program, calls: dict[Call, list[str]]) -> Kept:
    runs = Counter(i for kind, i in made.plan.steps if kind == RUN)
    by_name = {op.node.name: i for i, op in enumerate(program.operators)}
    forward = {n for names in calls.values() for n in names}
    late = {s for op in program.operators if op.node.name not in forward for s in op.inputs}
    found: Kept = {}
    for call, names in calls.items():
        seen: Counter[str] = Counter()
        found[call] = set()
        for i in (by_name[n] for n in names if n in by_name):
            op = program.operators[i]
            name = str(op.node.target)
            if runs[i] == 1 and late.intersection(op.outputs):
                found[call].add((name, seen[name]))
            seen[name] += 1
    return found


def _recomputing(made: Planned, program: Program, calls: dict[Call, list[str]]) -> list[str]:
    """Regions with an operator that runs again."""
    runs = Counter(i for kind, i in made.plan.steps if kind == RUN)
    again = {program.operators[i].node.name for i, n in runs.items() if n > 1}
    return list(dict.fromkeys(block for (block, _), names in calls.items()
                              if again.intersection(names)))


# ---- applied and measured ----

def _apply(model: torch.nn.Module, made: Checkpointed, calls: dict[Call, list[str]]) -> None:
    for block in made.blocks:
        module = model.get_submodule(block)
        of_step = sum(r == block for r, _ in calls)
        before = module.__dict__.get("forward")
        made._before.append((module, before))
        module.forward = _wrapped(module.forward, made, block, of_step)


def _wrapped(forward: Callable[..., Any], made: Checkpointed, block: str,
             of_step: int) -> Callable[..., Any]:
    count = 0

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        call = count % of_step
        count += 1
        return torch_checkpoint(forward, *args, use_reentrant=False,
                                context_fn=made.context_fn(block, call), **kwargs)
    return run


def _measured(model: torch.nn.Module, loss_fn: Callable[..., Any], batch: Any, o: Options) -> int:
    """What the step takes as PyTorch will run it, on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from . import capture
    from .explaining import summarize
    from .training import StepForm

    rules = _rules(next(model.parameters()).device)
    form = StepForm(o.optimizer, o.precision or "fp32")
    if rules is not None:
        found = capture.capture(model, loss_fn, batch, form, rules)
        return summarize(found, rules, form).later.reserved_bytes
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake = tree_map(lambda x: capture._fake(mode, x) if isinstance(x, torch.Tensor) else x, batch)
    with capture._faked(model, mode), mode:
        out = capture.record(capture.Recorder(), model, loss_fn, fake, form, 2)
    return _live_peak(out.events)


def checkpoint(model: torch.nn.Module, loss_fn: Callable[[Any, Any], Any], example_batch: Any,
               budget: str | int, *, modules: list[str] | None = None,
               optimizer: str | Callable[..., Any] | None = "adamw-fused",
               precision: str | None = None, effort: int = 0) -> Checkpointed:
    """Selective activation checkpointing that keeps a step within a budget. It replaces
    enable_gradient_checkpointing() (diffusers) or gradient_checkpointing_enable() (transformers).

    The model's blocks recompute in backward what the plan does not keep; the training loop stays
    as it is. If the budget is too small, BudgetError names the smallest one found for this form of
    checkpointing; `fit` can go lower.

    Args:
        modules: names of the modules that may recompute; default: the members of the outermost
            module lists.
        The other arguments are those of fit.
    """
    arguments.check(model, loss_fn, example_batch)
    o = Options(_budget(budget), optimizer, precision, False, None, False, 0, effort)
    unknown = sorted(set(modules or ()) - {name for name, _ in model.named_modules()})
    if unknown:
        raise ValueError(f"the model has no module {unknown[0]!r}: give names as named_modules() "
                         "does")
    blocks = modules if modules is not None else outer_blocks(model)
    calls: dict[Call, list[str]] = {}
    with _marked(model, blocks, calls):
        found = joint.capture(model, loss_fn, example_batch, precision)
    search, _ = _search(model, found, o)
    try_plan = functools.partial(_try, model, loss_fn, example_batch, o, search, calls)
    return _found(try_plan, search, o)


def _try(model: torch.nn.Module, loss_fn: Callable[..., Any], batch: Any, o: Options,
         search: Search, calls: dict[Call, list[str]], live_bytes: int) -> Checkpointed:
    """Applies the plan of so many live bytes, and measures."""
    made = search.plan(live_bytes)
    result = Checkpointed(_recomputing(made, search.program, calls), 0,
                          _kept(made, search.program, calls))
    _apply(model, result, calls)
    result.peak_bytes = _measured(model, loss_fn, batch, o)
    return result


def _found(try_plan: Callable[[int], Checkpointed], search: Search, o: Options) -> Checkpointed:
    """The largest of some plans whose step fits as PyTorch runs it."""
    assert o.budget_bytes is not None
    kept = try_plan(0)
    if kept.peak_bytes <= o.budget_bytes:
        return kept
    kept.remove()
    high, low = search.plan(0).plan.live_bytes, search.smallest().plan.live_bytes
    least = try_plan(1)
    least_bytes, fits = least.peak_bytes, least.peak_bytes <= o.budget_bytes
    best, aim_of_best = least, 1
    for _ in range(TRIES):
        aim = (low + high) // 2
        best.remove()
        made = try_plan(aim)
        least_bytes = min(least_bytes, made.peak_bytes)
        if made.peak_bytes <= o.budget_bytes:
            best, low, fits, aim_of_best = made, aim, True, aim
        else:
            made.remove()
            high = aim
            best = try_plan(aim_of_best)
    if not fits:
        best.remove()
        raise BudgetError(o.budget_bytes, least_bytes, "memory with selective checkpointing")
    return best
