"""Forward, loss and backward of a model as one functional FX graph.

PyTorch's AOT tracing runs the step once on fake tensors. No operator is decomposed. What the step
writes (running statistics of batch norm, for example) comes out as a new value and is copied back
by a node at the end, so that it is applied once however often its producer runs.
"""
from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from .capture import captured, swapped, unpacked_sequences
from .training import NO_PATH, loss_of

aten = torch.ops.aten
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass
class Joint:
    """A captured step."""

    graph: fx.GraphModule
    parameters: list[str]
    """names, in the order of the first placeholders; tied ones once"""
    buffers: list[str]
    """names, in the order of the placeholders after those"""
    gradients: list[int | None]
    """for each parameter the output that is its gradient"""
    outputs: list[int]
    """the outputs that loss_fn returned; the first is the loss"""
    out_spec: TreeSpec
    scaled: bool
    """Is the last placeholder a factor for the gradients (GradScaler)?"""
    accumulates: bool = False
    """Are the last placeholders gradients, to which the new ones are added?"""


def unique(named: Any) -> dict[str, torch.Tensor]:
    """Each tensor once, under the first of its names."""
    seen: set[int] = set()
    found: dict[str, torch.Tensor] = {}
    for name, x in named:
        if id(x) not in seen:
            seen.add(id(x))
            found[name] = x
    return found


def autocast(precision: str | None, device: str) -> Any:
    """The context in which the forward pass runs."""
    if precision in (None, "fp32"):
        return nullcontext()
    if precision not in _DTYPES:
        raise ValueError(f"the precision is {precision!r}: use fp32, {', '.join(_DTYPES)} or None "
                         "for what loss_fn does itself")
    return torch.autocast(device, _DTYPES[precision])


class _Wrapped(torch.nn.Module):
    """loss_fn(model, batch) of flat inputs, with every tied tensor once."""

    def __init__(self, model: torch.nn.Module, loss_fn: Callable[..., Any], leaves: list[Any],
                 spec: TreeSpec, precision: str | None, device: str, scaled: bool) -> None:
        super().__init__()
        self.parts = (model, loss_fn, leaves, spec)         # a tuple: not registered
        self.how = (precision, device, scaled)
        self.names = (list(unique(model.named_parameters())), list(unique(model.named_buffers())))
        self.out_spec: TreeSpec | None = None
        self.apart = False
        """Does each parameter get a gradient of its own? PyTorch's tracing stops where two share
        one, as the two biases of an LSTM do."""
        self.places: dict[int, str] = {}
        """id of the model's own tensor -> name of what stands for it here"""
        for i, name in enumerate(self.names[0]):
            self.register_parameter(f"p{i}", model.get_parameter(name))
            self.places[id(model.get_parameter(name))] = f"p{i}"
        for i, name in enumerate(self.names[1]):
            self.register_buffer(f"b{i}", model.get_buffer(name))
            self.places[id(model.get_buffer(name))] = f"b{i}"

    def _stand_in(self, place: str) -> torch.Tensor:
        x: torch.Tensor = getattr(self, place)
        return x.view_as(x) if self.apart and x.requires_grad else x

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        model, loss_fn, leaves, spec = self.parts
        precision, device, scaled = self.how
        given = iter(inputs)
        batch = tree_unflatten([next(given) if isinstance(x, torch.Tensor) else x for x in leaves],
                               spec)
        given_here = {own: self._stand_in(place) for own, place in self.places.items()}
        with swapped(model, given_here), autocast(precision, device):
            result = loss_fn(model, batch)
        flat, self.out_spec = tree_flatten(result)
        others = [x.detach().clone() for x in flat[1:]]
        # A copy: some losses keep the storage of the unreduced one.
        loss = loss_of(result).reshape(()).clone()
        return (loss * inputs[-1], loss.detach().clone(), *others) if scaled else (loss, *others)


def capture(model: torch.nn.Module, loss_fn: Callable[..., Any], batch: Any,
            precision: str | None = None, scaled: bool = False,
            accumulates: bool = False) -> Joint:
    """Traces one step. Nothing is computed; the model and the generators are as before."""
    from torch._functorch.aot_autograd import aot_export_module

    leaves, spec = tree_flatten(batch)
    inputs = [x for x in leaves if isinstance(x, torch.Tensor)]
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if scaled:
        inputs.append(torch.ones((), device=device))
    wrapped = _Wrapped(model, loss_fn, leaves, spec, precision, device.type, scaled)
    with captured(), warnings.catch_warnings(), torch.enable_grad(), unpacked_sequences(), \
            _whole(aten.silu_backward.default), _complex_parts(), \
            torch.random.fork_rng([device] if device.type == "cuda" else []), \
            _steps_of_recurrent_layers(model), \
            _without_gradients(_unreached(model, loss_fn, batch, precision, device.type)):
        warnings.simplefilter("ignore")
        try:
            traced, signature = aot_export_module(wrapped, tuple(inputs), trace_joint=True,
                                                 output_loss_index=0)
        except AssertionError:
            wrapped.apart = True
            traced, signature = aot_export_module(wrapped, tuple(inputs), trace_joint=True,
                                                 output_loss_index=0)
        trained = [p.requires_grad for p in wrapped.parameters()]
    assert wrapped.out_spec is not None and isinstance(traced, fx.GraphModule)
    graph = traced
    _write_back(graph, signature)
    joint = _described(graph, signature, wrapped, trained)
    _clean(joint.graph)
    _own_gradients(joint)
    if accumulates:
        _accumulate(joint)
    joint.graph.graph.lint()
    return joint


@contextmanager
def _whole(op: Any) -> Iterator[None]:
    """The operator is traced as such. PyTorch would take it apart, into steps that no device runs:
    slower, larger, and rounded otherwise than in eager mode."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    before = op.py_kernels.get(key)
    op.py_kernels[key] = lambda *args, **kwargs: NotImplemented
    try:
        yield
    finally:
        del op.py_kernels[key]
        if before is not None:
            op.py_kernels[key] = before


@contextmanager
def _complex_parts() -> Iterator[None]:
    """Lets parts of complex tensors be written, as the gradient of an inverse FFT does. The joint
    graph is traced again with autograd on, where nothing is differentiated any more; but for these
    operators PyTorch has no gradient and refuses."""
    def below(op: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return op(*args, **kwargs)
        return run

    with torch.library._scoped_library("aten", "IMPL") as lib:
        for name in ("slice", "select", "diagonal", "as_strided"):
            op = getattr(aten, name + "_scatter").default
            for key in ("AutogradCPU", "AutogradCUDA"):
                lib.impl(op, below(op), key)
        yield


def _unreached(model: torch.nn.Module, loss_fn: Callable[..., Any], batch: Any,
               precision: str | None, device: str) -> list[torch.nn.Parameter]:
    """Parameters that require a gradient and get none: no path leads from them to the loss. A
    backward pass without numbers tells; PyTorch's tracing gives up."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake_batch = tree_map(lambda x: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x,
                          batch)
    fakes = {id(x): mode.from_tensor(x.detach()) for x in [*model.parameters(), *model.buffers()]}
    wanted = [p for p in model.parameters() if p.requires_grad]
    for p in wanted:
        fakes[id(p)].requires_grad_()
    with mode, swapped(model, fakes), autocast(precision, device):
        loss = loss_of(loss_fn(model, fake_batch))
    if not loss.requires_grad:
        raise ValueError(NO_PATH)
    with mode:
        found = torch.autograd.grad(loss, [fakes[id(p)] for p in wanted], allow_unused=True)
    return [p for p, g in zip(wanted, found, strict=True) if g is None]


def _steps_of_recurrent_layers(model: torch.nn.Module) -> Any:
    """Traced without numbers, the CPU's own kernel for a recurrent layer has no workspace, and its
    gradient then fails. Step by step it has none."""
    if not any(isinstance(m, torch.nn.RNNBase) for m in model.modules()):
        return nullcontext()
    return torch.backends.mkldnn.flags(enabled=False)


@contextmanager
def _without_gradients(parameters: list[torch.nn.Parameter]) -> Iterator[None]:
    """They require no gradient for a while."""
    for p in parameters:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in parameters:
            p.requires_grad_(True)


def _placeholders(graph: fx.GraphModule) -> list[fx.Node]:
    return [n for n in graph.graph.nodes if n.op == "placeholder"]


def _results(graph: fx.GraphModule) -> list[Any]:
    results: Any = graph.graph.output_node().args[0]
    return list(results)


def _set_results(graph: fx.GraphModule, results: list[Any]) -> None:
    graph.graph.output_node().args = (tuple(results),)


def _write_back(graph: fx.GraphModule, signature: Any) -> None:
    """Mutations as copy_ nodes at the end, in place of outputs."""
    written = {**signature.buffers_to_mutate, **signature.parameters_to_mutate}
    holders = {**{v: k for k, v in signature.inputs_to_buffers.items()},
               **{v: k for k, v in signature.inputs_to_parameters.items()},
               **{x: x for x in signature.user_inputs}}
    written |= signature.user_inputs_to_mutate
    by_name = {n.name: n for n in graph.graph.nodes}
    count = len(written)
    results = _results(graph)
    with graph.graph.inserting_before(graph.graph.output_node()):
        for result in results[:count]:
            target = by_name[holders[written[result.name]]]
            node = graph.graph.call_function(aten.copy_.default, (target, result))
            node.meta["val"] = target.meta["val"]
    _set_results(graph, results[count:])


def _described(graph: fx.GraphModule, signature: Any, wrapped: _Wrapped,
               trained: list[bool]) -> Joint:
    n_user = len(signature.user_outputs)
    results = _results(graph)
    assert signature.backward_signature is not None and wrapped.out_spec is not None
    gradients: list[int | None] = [None] * len(wrapped.names[0])
    reached = [i for i, wanted in enumerate(trained) if wanted]
    for at, i in zip(range(n_user, len(results)), reached, strict=False):
        if results[at] is not None:
            gradients[i] = at
    scaled = wrapped.how[2]
    return Joint(graph, *wrapped.names, gradients, list(range(1 if scaled else 0, n_user)),
                 wrapped.out_spec, scaled)


def _is_assert(node: fx.Node) -> bool:
    return node.op == "call_function" and "_assert" in str(node.target)


def _clean(graph: fx.GraphModule) -> None:
    """Without detach, alias and assertions, which do nothing here."""
    for node in list(graph.graph.nodes):
        if node.target in (aten.detach.default, aten.alias.default):
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        elif _is_assert(node) and not node.users:
            graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output")
                                    or n.target is aten.copy_.default)
    graph.recompile()


def _dense_like(gradient: torch.Tensor, parameter: torch.Tensor) -> bool:
    whole = gradient.numel() * gradient.element_size()
    return gradient.stride() == parameter.stride() and \
        gradient.untyped_storage().nbytes() == whole


def _origin(node: fx.Node) -> fx.Node:
    """The node whose storage a chain of views shows; a wrong guess costs a copy only."""
    while node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) \
            and node.target.is_view and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _own_gradients(joint: Joint) -> None:
    """Each gradient gets a storage of its own, laid out as its parameter, as autograd sees to."""
    graph, results = joint.graph, _results(joint.graph)
    holders = _placeholders(graph)
    taken = {_origin(r) for r in (results[i] for i in joint.outputs) if isinstance(r, fx.Node)}
    taken |= set(holders)
    with graph.graph.inserting_before(graph.graph.output_node()):
        for holder, at in zip(holders, joint.gradients, strict=False):
            if at is None:
                continue
            made, wanted = results[at].meta["val"], holder.meta["val"]
            if _origin(results[at]) in taken or not _dense_like(made, wanted):
                results[at] = _copied(graph, results[at], wanted)
            taken.add(_origin(results[at]))
    _set_results(graph, results)


def _copied(graph: fx.GraphModule, node: fx.Node, like: torch.Tensor) -> fx.Node:
    format = torch.contiguous_format
    if not like.is_contiguous() and like.dim() == 4:
        format = torch.channels_last
    copy = graph.graph.call_function(aten.clone.default, (node,), {"memory_format": format})
    copy.meta["val"] = node.meta["val"].clone(memory_format=format)
    return copy


def _accumulate(joint: Joint) -> None:
    """Gradients are added to those of the placeholders, which come last."""
    graph, results = joint.graph, _results(joint.graph)
    holders = _placeholders(graph)
    for name, at in zip(joint.parameters, joint.gradients, strict=True):
        if at is None:
            continue
        with graph.graph.inserting_after(_placeholders(graph)[-1]):
            held = graph.graph.placeholder("grad_" + name.replace(".", "_"))
        held.meta["val"] = holders[joint.parameters.index(name)].meta["val"]
        with graph.graph.inserting_before(graph.graph.output_node()):
            added = graph.graph.call_function(aten.add_.Tensor, (held, results[at]))
        added.meta["val"] = held.meta["val"]
        results[at] = added
    _set_results(graph, results)
    joint.accumulates = True


def result_bytes(joint: Joint) -> list[int]:
    """Of what loss_fn returned."""
    values = [_results(joint.graph)[i] for i in joint.outputs]
    return [x.meta["val"].untyped_storage().nbytes() for x in values if isinstance(x, fx.Node)
            and isinstance(x.meta.get("val"), torch.Tensor)]


def is_getitem(node: fx.Node) -> bool:
    """Does the node pick one result of several?"""
    return node.op == "call_function" and node.target is operator.getitem
