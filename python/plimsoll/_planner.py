"""The C planner (plimsoll.h): a graph of values and nodes, the cheapest plan within a budget."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _native

PERSISTENT, FINAL = 1, 2
RUN, DROP, SAVE, LOAD, WAIT, FREE_HOST = range(6)

_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "graph_new": (ctypes.c_void_p, []),
    "graph_free": (None, [ctypes.c_void_p]),
    "graph_write": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]),
    "value": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint]),
    "node": (ctypes.c_int32, [ctypes.c_void_p, ctypes.c_double, ctypes.c_int64, ctypes.c_void_p,
                              ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32]),
    "once": (None, [ctypes.c_void_p, ctypes.c_int32]),
    "align": (None, [ctypes.c_void_p, ctypes.c_int64]),
    "bandwidth": (None, [ctypes.c_void_p, ctypes.c_double, ctypes.c_double]),
    "find_plan": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                                 ctypes.c_void_p]),
    "plan_free": (None, [ctypes.c_void_p]),
}


class _Options(ctypes.Structure):
    _fields_ = [("budget_bytes", ctypes.c_int64), ("host_budget_bytes", ctypes.c_int64),
                ("effort", ctypes.c_int64), ("time_limit_s", ctypes.c_double),
                ("seed", ctypes.c_uint64), ("place", ctypes.c_bool)]


class _Step(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("id", ctypes.c_int32)]


class _Plan(ctypes.Structure):
    _fields_ = [("steps", ctypes.POINTER(_Step)), ("n_steps", ctypes.c_size_t),
                ("live_ranges", ctypes.c_void_p), ("n_live_ranges", ctypes.c_size_t),
                ("live_bytes", ctypes.c_int64), ("arena_bytes", ctypes.c_int64),
                ("host_bytes", ctypes.c_int64), ("bound_bytes", ctypes.c_int64),
                ("cost", ctypes.c_double), ("base_cost", ctypes.c_double), ("cut", ctypes.c_bool)]


@dataclass(frozen=True)
class Plan:
    """An order of runs, drops and copies that the C checker has accepted."""

    steps: tuple[tuple[int, int], ...]
    """(RUN, node) or (DROP, SAVE, LOAD, WAIT or FREE_HOST, value)"""
    live_bytes: int
    host_bytes: int
    bound_bytes: int
    cost: float
    base_cost: float
    fits: bool
    """False: nothing fits, and this is the smallest plan that was found."""


def _call(name: str) -> Any:
    call = getattr(_native._lib(), "plimsoll_" + name)
    call.restype, call.argtypes = _CALLS[name]
    return call


def _ids(numbers: Sequence[int]) -> Any:
    return (ctypes.c_int32 * max(1, len(numbers)))(*numbers)


class Graph:
    """A plimsoll-graph-1 in memory. Use it in a `with` statement."""

    def __init__(self, align: int = 1) -> None:
        self._graph = _call("graph_new")()
        if not self._graph:
            raise MemoryError("no memory for a graph")
        _call("align")(self._graph, align)

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _call("graph_free")(self._graph)
        self._graph = None

    def value(self, bytes: int, flags: int = 0) -> int:
        """Adds a value; returns its number."""
        return int(_call("value")(self._graph, bytes, flags))

    def node(self, cost: float, workspace: int, inputs: Sequence[int], outputs: Sequence[int],
             once: bool = False) -> int:
        """Adds a node, after those that it needs; returns its number."""
        number = _call("node")(self._graph, cost, workspace, _ids(inputs), len(inputs),
                               _ids(outputs), len(outputs))
        if once:
            _call("once")(self._graph, number)
        return int(number)

    def bandwidth(self, to_host: float, to_device: float) -> None:
        """Allows copies to the host and back, in bytes per unit of cost."""
        _call("bandwidth")(self._graph, to_host, to_device)

    def write(self, path: str) -> None:
        """As graph.json, which `plimsoll plan` reads."""
        error = _native._Error()
        _check(_call("graph_write")(self._graph, path.encode(), ctypes.byref(error)), error)

    def find_plan(self, budget_bytes: int = 0, effort: int = 0, seed: int = 0,
                  host_budget_bytes: int = 0) -> Plan:
        """The cheapest plan within the budget; 0: everything kept."""
        options = _Options(budget_bytes, host_budget_bytes, effort, 0.0, seed, False)
        found = ctypes.POINTER(_Plan)()
        error = _native._Error()
        status = _call("find_plan")(self._graph, ctypes.byref(options), ctypes.byref(found),
                                    ctypes.byref(error))
        if status != _native._DOES_NOT_FIT:
            _check(status, error)
        try:
            p = found.contents
            steps = tuple((p.steps[i].kind, p.steps[i].id) for i in range(p.n_steps))
            return Plan(steps, p.live_bytes, p.host_bytes, p.bound_bytes, p.cost, p.base_cost,
                        status == _native._OK)
        finally:
            _call("plan_free")(found)


def _check(status: int, error: Any) -> None:
    if status != _native._OK:
        raise RuntimeError(error.text.decode(errors="replace"))
