"""A training step's requests for memory, in eager order, without a GPU.

The step runs under PyTorch's fake tensors: shapes and storages, no numbers. A dispatch mode sees
each operator of forward, backward and update; a storage that appears is a request, its death a
free. `dispatch.as_cuda` and `rules.Rules` say what CUDA would do otherwise.

Explaining and planning both start from `capture`.
"""
from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import (DataDependentOutputException,
                                           DynamicOutputShapeException, FakeTensorMode,
                                           UnsupportedFakeTensorException)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from . import _native, convolutions, workspaces
from .dispatch import as_cuda
from .rules import Rules
from .training import Loop, StepForm, counts_on_host

_NOT_THE_USERS = tuple({str(p) for file in (torch.__file__, __file__)
                        for p in (Path(file).parent, Path(file).resolve().parent)}) + ("<",)
"""beginnings of the paths of PyTorch's code and of this package's, as frames name them"""


@dataclass
class Allocation:
    """One request: how large, and whose."""

    bytes: int
    kind: str
    """parameters, buffers, inputs, gradients, optimizer state, averages, weight casts, activations,
    backward temporaries, update temporaries or workspaces"""
    op: str = ""
    module: str = ""
    line: str = ""


@dataclass
class Capture:
    """Requests and frees of the set-up and of each step, in order."""

    allocations: list[Allocation] = field(default_factory=list)
    events: list[_native.Event] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    """Events before the first step, and before each later one."""
    notes: list[str] = field(default_factory=list)
    parameters: int = 0


class Recorder(TorchDispatchMode):
    """Turns storages into requests. Works on fake and on real tensors alike."""

    def __init__(self, rules: Rules | None = None) -> None:
        super().__init__()          # type: ignore[no-untyped-call]
        self.rules = rules
        self.out = Capture()
        self.phase = "forward"
        self.host_scalars = False
        """Does the optimizer keep its numbers of steps on the host?"""
        self.where: dict[int, tuple[str, str]] = {}
        self.modules: list[str] = []
        self.parameter_storages: set[int] = set()
        self._live: dict[int, tuple[int, Any]] = {}
        self._cublas: set[str] = set()
        self.convolutions: dict[convolutions.Call, int] = {}
        """how often each call of cuDNN was seen"""

    # ---- events ----

    def request(self, bytes: int, kind: str, op: str = "",
                at: tuple[str, str] = ("", "")) -> int:
        """Records a request that no tensor stands for; returns its id."""
        number = len(self.out.allocations)
        self.out.allocations.append(Allocation(bytes, kind, op, *at))
        self.out.events.append((_native.ALLOC, number, bytes))
        return number

    def release(self, number: int) -> None:
        self.out.events.append((_native.FREE, number, 0))

    def temporary(self, bytes: int, op: str, at: tuple[str, str]) -> None:
        if bytes > 0:
            self.release(self.request(bytes, "workspaces", op, at))

    def mark(self) -> None:
        self.out.marks.append(len(self.out.events))
        self.out.events.append((_native.MARK, 0, 0))

    def hold(self, tensor: torch.Tensor, kind: str, op: str = "",
             at: tuple[str, str] = ("", ""), least: int = 0) -> None:
        """A request for the tensor's storage of at least so many bytes, unless it is known."""
        if tensor.layout is not torch.strided:
            raise ValueError("a sparse tensor cannot be counted: use sparse=False in embeddings, "
                             "and dense inputs")
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live or storage.nbytes() == 0:
            return
        number = self.request(max(least, storage.nbytes()), kind, op, at)

        def dead(_: Any, key: int = key, number: int = number) -> None:
            self._live.pop(key, None)
            self.release(number)
        self._live[key] = (number, weakref.ref(storage, dead))

    def rename(self, tensor: torch.Tensor, kind: str) -> None:
        found = self._live.get(tensor.untyped_storage()._cdata)
        if found:
            self.out.allocations[found[0]].kind = kind

    def forget(self) -> None:
        """Frees that follow are no part of the step."""
        self._live.clear()

    # ---- whose ----

    def _here(self) -> tuple[str, str]:
        if self.phase == "backward":
            node = torch._C._current_autograd_node()
            return self.where.get(node._sequence_nr(), ("", "")) if node else ("", "")
        at = (self.modules[-1] if self.modules else "", _user_line())
        if self.phase == "forward":
            self.where[torch._C._autograd._get_sequence_nr() - 1] = at
        return at

    def _on_host(self, x: torch.Tensor) -> bool:
        return self.host_scalars and self.phase == "update" and x.dim() == 0

    def _kind(self, func: Any, args: Any) -> str:
        if self.phase == "forward":
            if func is torch.ops.aten._to_copy.default and \
                    args[0].untyped_storage()._cdata in self.parameter_storages:
                return "weight casts"
            return "activations"
        return "backward temporaries" if self.phase == "backward" else "update temporaries"

    # ---- operators ----

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda":
            kwargs["device"] = torch.device("cpu")
        if func is torch.ops.aten._local_scalar_dense.default and self.phase == "update":
            return 0.5          # a step's number, or a product of decays: sizes do not depend on it
        at = self._here()
        name = func._schema.name.removeprefix("aten::")
        if self.rules and workspaces.uses_cublas(name) and self.phase not in self._cublas:
            self._cublas.add(self.phase)
            self.request(self.rules.cublas_workspace_bytes(), "workspaces", "cuBLAS", at)
        copies = workspaces.hidden_copies(name, args) if self.rules else []
        held = [self.request(n, "workspaces", name + " (copy)", at) for n in copies]
        result = func(*args, **kwargs)
        if self.rules:
            result = workspaces.in_one_piece(name, args, result)
        kind = self._kind(func, args)
        least = workspaces.kept_bytes(name, args)
        cudnn = iter(convolutions.calls(name, args) if self.rules else [])
        for x in tree_leaves(result):
            call = next(cudnn, None)
            if isinstance(x, torch.Tensor) and not self._on_host(x):
                self.hold(x, kind, name, at, least)
            if call is not None:
                self._convolve(call, name, at)
        if self.rules:
            for n in workspaces.inside(self.rules, name, args):
                held.append(self.request(n, "workspaces", name, at))
        for number in reversed(held):
            self.release(number)
        return result

    def _convolve(self, call: convolutions.Call, name: str, at: tuple[str, str]) -> None:
        assert self.rules
        self.convolutions[call] = self.convolutions.get(call, 0) + 1
        self.temporary(convolutions.workspace(self.rules, call), name, at)


def _user_line() -> str:
    """The innermost line outside of PyTorch and of this package."""
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_NOT_THE_USERS):
            return f"{path}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back        # type: ignore[assignment]
    return ""


@contextmanager
def _module_names(model: torch.nn.Module, recorder: Recorder) -> Iterator[None]:
    handles: list[Any] = []
    for name, module in model.named_modules():
        def enter(_m: Any, _a: Any, name: str = name) -> None:
            recorder.modules.append(name)

        def leave(_m: Any, _a: Any, _o: Any) -> None:
            recorder.modules.pop()
        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _fake(mode: FakeTensorMode, x: torch.Tensor) -> torch.Tensor:
    with mode:
        made = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cpu")
    return made.requires_grad_(x.requires_grad)


def _line_of(error: BaseException) -> str:
    """The innermost line of the user's program that an exception came through."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith(_NOT_THE_USERS):
            found = f" at {path}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


@contextmanager
def captured() -> Iterator[None]:
    """Says what stands in the way of a capture where PyTorch's exception is for its developers.
    Checks of values are left out meanwhile, as distributions make them; so is PyTorch's log of
    what it could not run without numbers."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level, validates = log.level, torch.distributions.Distribution._validate_args
    try:
        log.setLevel(logging.CRITICAL)
        torch.distributions.Distribution.set_default_validate_args(False)
        yield
    except (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode,
            UnsupportedFakeTensorException) as error:
        raise ValueError(
            f"the step cannot be captured: it needs the values of a tensor{_line_of(error)}, and "
            "while it is captured tensors have shapes only. Use operators that keep shapes, such "
            "as torch.where in place of a branch, .item() or a mask as an index") from error
    except RuntimeError as error:
        if "use_reentrant=True" not in str(error):
            raise
        raise ValueError("the step cannot be captured while torch.utils.checkpoint runs with "
                         "use_reentrant=True: switch the model's gradient checkpointing off, or "
                         "use use_reentrant=False") from error
    finally:
        log.setLevel(level)
        torch.distributions.Distribution.set_default_validate_args(validates)


@contextmanager
def unpacked_sequences() -> Iterator[None]:
    """transformers asks the values of position ids whether several sequences share a row. Tensors
    without numbers cannot tell: then it builds a mask that a usual run does not have. Here the
    answer is no."""
    masking: Any = sys.modules.get("transformers.masking_utils")
    before = getattr(masking, "find_packed_sequence_indices", None)
    if masking is None or before is None:
        yield
        return
    masking.find_packed_sequence_indices = lambda position_ids: None
    try:
        yield
    finally:
        masking.find_packed_sequence_indices = before


def _renew_flat_weights(model: torch.nn.Module) -> None:
    """Recurrent layers have a list of their weights beside the weights themselves."""
    for module in model.modules():
        if isinstance(module, torch.nn.RNNBase):
            module._flat_weights = [getattr(module, name, None)
                                    for name in module._flat_weights_names]


@contextmanager
def swapped(model: torch.nn.Module, made: dict[int, Any]) -> Iterator[None]:
    """The model with other parameters and buffers, given by the id of its own, which come back at
    the end. A module that stands in several places is changed once."""
    before: list[tuple[dict[str, Any], str, Any]] = [
        (table, name, x) for module in model.modules()
        for table in (module._parameters, module._buffers)
        for name, x in table.items() if x is not None and id(x) in made]
    try:
        for table, name, x in before:
            table[name] = made[id(x)]
        _renew_flat_weights(model)
        yield
    finally:
        for table, name, x in before:
            table[name] = x
        _renew_flat_weights(model)


@contextmanager
def _faked(model: torch.nn.Module, mode: FakeTensorMode) -> Iterator[None]:
    """The model with fake parameters and buffers."""
    made: dict[int, Any] = {id(b): _fake(mode, b.detach()) for b in model.buffers()}
    for p in model.parameters():
        made[id(p)] = torch.nn.Parameter(_fake(mode, p.detach()), p.requires_grad)
    with swapped(model, made):
        yield


def record(recorder: Recorder, model: torch.nn.Module, loss_fn: Callable[..., Any], batch: Any,
           form: StepForm, steps: int) -> Capture:
    """Runs the steps under the recorder, on whatever tensors model and batch have."""
    for p in model.parameters():
        recorder.hold(p, "parameters")
        recorder.parameter_storages.add(p.untyped_storage()._cdata)
    for b in model.buffers():
        recorder.hold(b, "buffers")
    for x in tree_leaves(batch):
        if isinstance(x, torch.Tensor):
            recorder.hold(x, "inputs")
    recorder.out.parameters = sum(p.numel() for p in model.parameters())

    def phase(name: str) -> None:
        if name == "clipping":
            for p in model.parameters():
                if p.grad is not None:
                    recorder.rename(p.grad, "gradients")
        recorder.phase = name

    loop = Loop(model, loss_fn, batch, form, phase)
    for average in loop.averages:
        recorder.hold(average, "averages")
    if loop.optimizer is not None:
        recorder.host_scalars = counts_on_host(loop.optimizer)
    with recorder, _module_names(model, recorder):
        for _ in range(steps):
            recorder.mark()
            loop.step()
            for x in loop.state():
                if isinstance(x, torch.Tensor):
                    recorder.rename(x, "optimizer state")
    recorder.forget()
    return recorder.out


def capture(model: torch.nn.Module, loss_fn: Callable[..., Any], batch: Any, form: StepForm,
            rules: Rules, steps: int = 2, recorder: Recorder | None = None) -> Capture:
    """The requests of the first steps on CUDA. The model may be on any device, also on meta; it
    is as before afterwards."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    recorder = recorder or Recorder(rules)
    recorder.out.notes.extend(rules.notes)
    fake_batch = tree_map(lambda x: _fake(mode, x) if isinstance(x, torch.Tensor) else x, batch)
    with captured(), _faked(model, mode), as_cuda(rules), unpacked_sequences(), mode:
        found = record(recorder, model, loss_fn, fake_batch, form, steps)
    if any(isinstance(m, torch.nn.RNNBase) for m in model.modules()):
        found.notes.append("what cuDNN keeps of recurrent layers is estimated")
    guessed = sum(n for call, n in recorder.convolutions.items()
                  if not convolutions.is_measured(rules, call))
    if guessed:
        found.notes.append(f"the workspaces of {guessed} calls of cuDNN's convolutions are "
                           "estimated")
    return found
