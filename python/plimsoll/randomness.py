"""Operators that take random numbers and run again: with the numbers of the first run."""
from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.utils._pytree import tree_leaves


def _generator(args: Any) -> torch.Generator:
    """The one that operators on these tensors use."""
    for x in tree_leaves(args):
        if isinstance(x, torch.Tensor) and x.device.type == "cuda":
            return torch.cuda.default_generators[x.device.index or 0]
    return torch.default_generator


def first(op: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    """Runs the operator; returns the state that it began from, and its result."""
    state = _generator(args).get_state()
    return state, op(*args, **kwargs)


def again(state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs the operator from that state; other operators do not notice."""
    generator = _generator(args)
    now = generator.get_state()
    generator.set_state(state)
    try:
        return op(*args, **kwargs)
    finally:
        generator.set_state(now)


def for_compile(graph: fx.GraphModule) -> fx.GraphModule:
    """The same graph with the operators that torch.compile knows for this purpose."""
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph.graph, {}))
    known = {first: run_and_save_rng_state, again: run_with_rng_state}
    for node in copy.nodes:
        node.target = known.get(node.target, node.target)
    return fx.GraphModule(graph, copy, "PlimsollStep")
