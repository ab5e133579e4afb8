"""An FX graph by its storages: what each operator makes, reads and costs.

Views are no part of it. A reader of a view reads the storage, and the view is made again next to
its reader when the graph is rewritten. So the planner sees bytes, and no aliases.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import FlopCounterMode

from . import workspaces
from .joint import is_getitem

Cost = Callable[[fx.Node, int, int], float]
"""Of a node, from its flops and the bytes it moves."""
Workspace = Callable[[fx.Node, Any], int]
"""Of a node, from its arguments: bytes that it takes while it runs."""


@dataclass
class Storage:
    """Memory that one operator makes, or that is there before the step."""

    bytes: int
    persistent: bool = False
    final: bool = False


@dataclass
class Operator:
    """A node that computes: neither a view nor a pick from a tuple."""

    node: fx.Node
    inputs: list[int]
    """storages that it reads"""
    outputs: list[int]
    """storages that it makes or writes"""
    cost: float = 0.0
    workspace: int = 0
    once: bool = False
    random: bool = False


@dataclass
class Program:
    """Operators in the order in which they were traced, over numbered storages."""

    graph: fx.GraphModule
    cuda: bool = False
    storages: list[Storage] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    of: dict[fx.Node, int] = field(default_factory=dict)
    """the storage of every node that is a tensor"""
    views: set[fx.Node] = field(default_factory=set)
    scalars: set[fx.Node] = field(default_factory=set)
    """nodes that are neither tensors nor tuples, such as a size"""


def is_random(node: fx.Node) -> bool:
    """Does the node take numbers from the generator?"""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    # Tagged, but these take numbers for dropout only.
    chance = node.kwargs.get("dropout_p")
    names = [a.name for a in target._schema.arguments]
    if "dropout_p" in names:
        at = names.index("dropout_p")
        chance = node.args[at] if at < len(node.args) else chance
        return bool(chance)
    return True


def _bytes(storage: Any) -> int:
    return int(storage.nbytes())


class _Tracer(fx.Interpreter):
    """Runs a graph on fake tensors and notes storages."""

    def __init__(self, graph: fx.GraphModule, mode: FakeTensorMode, cost: Cost,
                 workspace: Workspace) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.mode = mode
        self.out = Program(graph)
        self.cost, self.workspace = cost, workspace
        self.known: dict[int, int] = {}
        self.alive: list[Any] = []      # no address may be used twice

    def storage(self, x: torch.Tensor) -> tuple[int, bool]:
        """Number, and whether it is new."""
        held = x.untyped_storage()
        key = held._cdata
        if key in self.known:
            return self.known[key], False
        self.alive.append((held, x))
        self.known[key] = len(self.out.storages)
        self.out.storages.append(Storage(_bytes(held)))
        return self.known[key], True

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        x = super().get_attr(target, args, kwargs)
        return self.mode.from_tensor(x) if isinstance(x, torch.Tensor) else x

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function" or is_getitem(n):
            result = super().run_node(n)
            self._note(n, result)
            return result
        with FlopCounterMode(display=False) as counter:
            result = super().run_node(n)
        if isinstance(n.target, torch._ops.OpOverload):
            result = workspaces.in_one_piece(n.target._schema.name.removeprefix("aten::"),
                                             self.fetch_args_kwargs_from_env(n)[0], result)
        self._operator(n, result, counter.get_total_flops())
        return result

    def _note(self, n: fx.Node, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            number, new = self.storage(result)
            self.out.of[n] = number
            if new:
                self.out.storages[number].persistent = True
            if n.op == "call_function" and n.args[0] in self.out.views:
                self.out.views.add(n)
        elif n.op != "output" and not isinstance(result, (tuple, list)):
            self.out.scalars.add(n)

    def _operator(self, n: fx.Node, result: Any, flops: int) -> None:
        inputs = sorted({self.out.of[a] for a in n.all_input_nodes if a in self.out.of})
        made = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        numbers = {self.storage(x) for x in made}
        fresh = sorted(i for i, new in numbers if new)
        if isinstance(result, torch.Tensor):
            self.out.of[n] = self.storage(result)[0]
        mutable = isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable
        if made and not fresh and not mutable:
            self.out.views.add(n)
            return
        if not made:
            self.out.scalars.add(n)
        written = [self.out.of[a] for a in _written(n)] if mutable else []
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if len(fresh) == 1 and isinstance(n.target, torch._ops.OpOverload):
            kept = workspaces.kept_bytes(n.target._schema.name.removeprefix("aten::"), args)
            self.out.storages[fresh[0]].bytes = max(kept, self.out.storages[fresh[0]].bytes)
        moved = sum(x.numel() * x.element_size() for x in _tensors((args, kwargs, result)))
        self.out.operators.append(Operator(
            n, inputs, sorted({*fresh, *written}), self.cost(n, flops, moved),
            self.workspace(n, args), once=mutable or not made, random=is_random(n)))


def _tensors(tree: Any) -> Iterable[torch.Tensor]:
    return (x for x in tree_leaves(tree) if isinstance(x, torch.Tensor))


def _written(n: fx.Node) -> list[fx.Node]:
    """Arguments that the schema says are written."""
    found = []
    for i, argument in enumerate(n.target._schema.arguments):       # type: ignore[union-attr]
        given = n.args[i] if i < len(n.args) else n.kwargs.get(argument.name)
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += [x for x in tree_leaves(given) if isinstance(x, fx.Node)]
    return found


def trace(graph: fx.GraphModule, cost: Cost, workspace: Workspace) -> Program:
    """The graph by its storages. Placeholders carry tensors that say shape and layout."""
    mode = FakeTensorMode()
    tracer = _Tracer(graph, mode, cost, workspace)
    with torch.no_grad(), mode:
        tracer.run(*(_like(n.meta["val"]) for n in graph.graph.nodes if n.op == "placeholder"))
    tracer.out.cuda = any(x.device.type == "cuda" for _, x in tracer.alive)
    return _finish(tracer.out)


def _like(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def _finish(program: Program) -> Program:
    results = program.graph.graph.output_node().args[0]

    def keep(x: Any) -> Any:
        if isinstance(x, fx.Node) and x in program.of:
            program.storages[program.of[x]].final = True
        return x
    tree_map(keep, results)
    return program
