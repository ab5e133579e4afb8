"""A plan as an FX graph: operators in the plan's order, recomputed ones twice.

Values are freed by the generated code after their last reader, so a drop of the plan needs no node.
Views stand next to their readers. What is run twice and takes random numbers keeps the generator's
state of its first run.
"""
from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

from . import randomness, transfers
from ._planner import DROP, FREE_HOST, LOAD, RUN, SAVE, WAIT, Plan
from .joint import is_getitem
from .storages import Operator, Program

aten = torch.ops.aten
RNG_STATE_BYTES = 5056
"""of the CPU's generator; that of CUDA lives on the host"""


@dataclass
class Emitted:
    """The rewritten graph, and which memory each of its nodes holds."""

    graph: fx.GraphModule
    sizes: list[int] = field(default_factory=list)
    """bytes of each piece of memory that the graph makes, in order"""
    holds: dict[fx.Node, list[int]] = field(default_factory=dict)
    """pieces that stay while a node's result does"""
    workspace: dict[fx.Node, int] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    """operators that run again"""
    saved_bytes: int = 0
    """copied to the host"""


class _Rewriter:
    def __init__(self, program: Program, plan: Plan) -> None:
        self.program, self.plan = program, plan
        self.new = fx.Graph()
        self.out = Emitted(program.graph)
        self.current: dict[fx.Node, fx.Node] = {}
        """for each tensor that is up to date: its node"""
        self.of_storage: dict[int, list[fx.Node]] = {}
        """nodes of the traced graph that are up to date, by storage"""
        self.flat: dict[int, fx.Node] = {}
        """storages that came back from the host, as one row of elements"""
        self.host: dict[int, fx.Node] = {}
        self.rng: dict[fx.Node, fx.Node] = {}
        self.runs: dict[int, int] = {}
        self.bases = _bases(program)
        for kind, number in plan.steps:
            if kind == RUN:
                self.runs[number] = self.runs.get(number, 0) + 1

    # ---- nodes ----

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
             like: fx.Node | None = None) -> fx.Node:
        node = self.new.call_function(target, args, kwargs or {})
        if like is not None and "val" in like.meta:
            node.meta["val"] = like.meta["val"]
        return node

    def remember(self, old: fx.Node, node: fx.Node, pieces: list[int]) -> None:
        self.current[old] = node
        self.of_storage.setdefault(self.program.of[old], []).append(old)
        self.out.holds[node] = pieces

    def forget(self, storage: int) -> None:
        for old in self.of_storage.pop(storage, []):
            self.current.pop(old, None)
        self.flat.pop(storage, None)

    def ref(self, old: Any) -> Any:
        """The node that stands for a traced one; views and picks of scalars are made here."""
        if not isinstance(old, fx.Node):
            return old
        found = self.current.get(old)
        if found is not None:
            return found
        if old in self.program.of and old in self.bases.get(self.program.of[old], ()):
            return self._from_flat(old)
        assert old in self.program.views or is_getitem(old) or old in self.program.scalars, \
            f"{old} is read but not there"
        args, kwargs = tree_map(self.ref, (old.args, old.kwargs))
        node = self.call(old.target, args, kwargs, old)
        base = next((a for a in tree_leaves((args, kwargs)) if isinstance(a, fx.Node)), None)
        pieces = self.out.holds.get(base, []) if base is not None else []
        if old in self.program.of:
            self.remember(old, node, pieces)
        else:
            self.out.holds[node] = pieces
            if not is_getitem(old):
                self.current[old] = node
        return node

    def _from_flat(self, old: fx.Node) -> fx.Node:
        storage = self.program.of[old]
        assert storage in self.flat, f"{old} is read but not there"
        x = old.meta["val"]
        flat = self.flat[storage]
        node = self.call(aten.as_strided.default, (flat, list(x.shape), list(x.stride()),
                                                   x.storage_offset()), like=old)
        self.remember(old, node, self.out.holds[flat])
        return node

    # ---- steps ----

    def run(self, number: int) -> None:
        op = self.program.operators[number]
        args, kwargs = tree_map(self.ref, (op.node.args, op.node.kwargs))
        made = {s: self._piece(s) for s in op.outputs
                if not self.program.storages[s].persistent}
        for storage in made:
            self.forget(storage)
        node = self._random(op, number, args, kwargs) if op.random else \
            self.call(op.node.target, args, kwargs, op.node)
        self.out.workspace[node] = op.workspace
        self.out.holds[node] = list(made.values())
        self._results(op.node, node, made)

    def _piece(self, storage: int) -> int:
        self.out.sizes.append(self.program.storages[storage].bytes)
        return len(self.out.sizes) - 1

    def _random(self, op: Operator, number: int, args: Any, kwargs: Any) -> fx.Node:
        if op.node in self.rng:
            return self.call(randomness.again, (self.rng[op.node], op.node.target, *args),
                             kwargs, op.node)
        if self.runs[number] == 1:
            return self.call(op.node.target, args, kwargs, op.node)
        both = self.call(randomness.first, (op.node.target, *args), kwargs)
        self.out.holds[both] = []
        self.rng[op.node] = self.call(operator.getitem, (both, 0))
        self.out.sizes.append(0 if self.program.cuda else RNG_STATE_BYTES)
        self.out.holds[self.rng[op.node]] = [len(self.out.sizes) - 1]
        return self.call(operator.getitem, (both, 1), like=op.node)

    def _results(self, old: fx.Node, node: fx.Node, made: dict[int, int]) -> None:
        """Registers a tensor, or picks what is read from a tuple at once."""
        if old in self.program.of:
            storage = self.program.of[old]
            self.remember(old, node, [made[storage]] if storage in made else [])
            return
        if old in self.program.scalars:
            self.current[old] = node
        for pick in sorted(old.users, key=lambda u: str(u.args[1])):
            if not is_getitem(pick) or not pick.users:
                continue
            picked = self.call(operator.getitem, (node, pick.args[1]), like=pick)
            if pick in self.program.of:
                storage = self.program.of[pick]
                self.remember(pick, picked, [made[storage]] if storage in made else [])
            else:
                self.current[pick] = picked
                self._results(pick, picked, made)

    def save(self, storage: int) -> None:
        base = self.ref(self.bases[storage][0])
        row = self._row(storage, base)
        self.host[storage] = self.call(transfers.to_host, (row,))
        self.out.holds[self.host[storage]] = []
        self.out.saved_bytes += self.program.storages[storage].bytes

    def _row(self, storage: int, base: fx.Node) -> fx.Node:
        x = self.bases[storage][0].meta["val"]
        count = self.program.storages[storage].bytes // x.element_size()
        row = self.call(aten.as_strided.default, (base, [count], [1], 0))
        self.out.holds[row] = self.out.holds[base]
        return row

    def load(self, storage: int) -> None:
        self.forget(storage)
        device = self.bases[storage][0].meta["val"].device
        flat = self.call(transfers.to_device, (self.host[storage], device))
        self.out.holds[flat] = [self._piece(storage)]
        self.flat[storage] = flat

    def wait(self, storage: int) -> None:
        flat = self.flat.get(storage)
        if flat is not None:
            ready = self.call(transfers.loaded, (flat,))
            self.out.holds[ready] = self.out.holds[flat]
            self.flat[storage] = ready
        elif storage in self.host:
            row = self._row(storage, self.ref(self.bases[storage][0]))
            done = self.call(transfers.saved, (self.host[storage], row))
            self.out.holds[done] = []

    def step(self, kind: int, number: int) -> None:
        if kind == RUN:
            self.run(number)
            return
        if number >= len(self.program.storages):        # an order token, or what the update needs
            return
        if kind == DROP:
            self.forget(number)
        elif kind != FREE_HOST:
            {SAVE: self.save, LOAD: self.load, WAIT: self.wait}[kind](number)

    # ---- the whole ----

    def rewrite(self) -> Emitted:
        for old in self.program.graph.graph.nodes:
            if old.op in ("placeholder", "get_attr"):
                node = self.new.node_copy(old)
                self.current[old] = node
                self.out.holds[node] = []
                if old in self.program.of:
                    self.of_storage.setdefault(self.program.of[old], []).append(old)
        for kind, number in self.plan.steps:
            self.step(kind, number)
        self.out.again = [str(self.program.operators[i].node.target)
                          for i, n in self.runs.items() for _ in range(n - 1)]
        results = self.program.graph.graph.output_node().args[0]
        self.new.output(tree_map(self.ref, results))
        self.new.lint()
        self.out.graph = fx.GraphModule(self.program.graph, self.new, "PlimsollStep")
        return self.out


def _bases(program: Program) -> dict[int, list[fx.Node]]:
    """For each storage the tensors that its operator returns."""
    found: dict[int, list[fx.Node]] = {}
    for node, storage in program.of.items():
        if node not in program.views and not program.storages[storage].persistent:
            found.setdefault(storage, []).append(node)
    return found


def rewrite(program: Program, plan: Plan) -> Emitted:
    """The graph that runs the plan."""
    return _Rewriter(program, plan).rewrite()
