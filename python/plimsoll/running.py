"""A step's graph as a Python function, with little time between two operators."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

_CALL = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)\(")


def function_of(graph: fx.GraphModule) -> Callable[..., Any]:
    """As graph.forward, but each operator's name stands for its kernel at once: FX's own code looks
    up four names per call and goes through a wrapper."""
    code = graph.graph.python_code("self")
    names: dict[str, Any] = dict(code.globals)

    def short(found: re.Match[str]) -> str:
        packet = getattr(getattr(torch.ops, found[1]), found[2])
        name = "_".join(("_kernel", *found.groups()))
        names[name] = getattr(packet, found[3])._op
        return name + "("
    exec(compile(_CALL.sub(short, code.src), "<plimsoll step>", "exec"), names)
    forward = names["forward"]
    return lambda *given: forward(graph, *given)


class Tensors:
    """Parameters or buffers of a model by their names. Modules may be replaced between steps."""

    def __init__(self, model: torch.nn.Module, names: Sequence[str], buffers: bool = False) -> None:
        self._model, self._table = model, "_buffers" if buffers else "_parameters"
        owners = [tuple(name.split(".")[:-1]) for name in names]
        self._paths = list(dict.fromkeys(owners))
        self._places = [(self._paths.index(owner), name.rpartition(".")[2])
                        for owner, name in zip(owners, names, strict=True)]

    def get(self) -> list[Any]:
        tables = []
        for path in self._paths:
            module: Any = self._model
            for name in path:
                module = module._modules[name]
            tables.append(getattr(module, self._table))
        return [tables[i][name] for i, name in self._places]


def modules_of(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Faster than modules(); one that stands in several places comes as often."""
    yield model
    for module in model._modules.values():
        if module is not None:
            yield from modules_of(module)
