"""From a traced step to a plan within a budget, and what that plan takes."""
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from . import _native, _planner
from .costs import Machine
from .rewriting import RNG_STATE_BYTES, Emitted, rewrite
from .storages import Program

TRIES = 8
"""searches for a plan whose reserved memory is within the budget"""


@dataclass(frozen=True)
class Update:
    """Requests of the optimizer's first and of its later steps, between gradients and their
    release. Ids of tensors that stay are negative."""

    first: list[_native.Event]
    later: list[_native.Event]
    state_bytes: int


@dataclass(frozen=True)
class Measure:
    """What a whole step takes: forward, backward and update."""

    bytes: int
    """CUDA: reserved; CPU: live bytes of storages"""
    live_bytes: int
    events: list[_native.Event]


@dataclass(frozen=True)
class Planned:
    """A plan with the graph that runs it."""

    plan: _planner.Plan
    emitted: Emitted
    measure: Measure


class Search:
    """Plans one program for one machine."""

    def __init__(self, program: Program, machine: Machine, update: Update, held: list[int],
                 cuda: bool, effort: int, host_budget_bytes: int | None) -> None:
        self.program, self.machine, self.update = program, machine, update
        self.held, self.cuda, self.effort = held, cuda, effort
        """held: sizes of what is there beside parameters, state and the batch at all times"""
        self.host_budget_bytes = host_budget_bytes

    # ---- the graph ----

    def graph(self) -> _planner.Graph:
        """Storages as values, operators as nodes. Random operators keep their order."""
        graph = _planner.Graph(1)
        for s in self.program.storages:
            flags = _planner.PERSISTENT if s.persistent else _planner.FINAL if s.final else 0
            graph.value(self._rounded(s.bytes), flags)
        state = self._rounded(self.update.state_bytes) + sum(map(self._rounded, self.held))
        graph.value(state, _planner.PERSISTENT)
        token: list[int] = []
        for op in self.program.operators:
            inputs, outputs = list(op.inputs), list(op.outputs)
            if op.random:
                inputs += token
                token = [graph.value(0 if self.cuda else RNG_STATE_BYTES, _planner.FINAL)]
                outputs += token
            graph.node(op.cost, op.workspace, inputs, outputs, op.once)
        if self.host_budget_bytes is not None and self.machine.host_bytes_per_ns > 0:
            graph.bandwidth(self.machine.host_bytes_per_ns, self.machine.host_bytes_per_ns)
        return graph

    def _rounded(self, bytes: int) -> int:
        return -(-bytes // self.machine.align) * self.machine.align

    # ---- plans ----

    def plan(self, budget_bytes: int) -> Planned:
        """The cheapest plan of so many live bytes, or the smallest that was found; 0: no limit."""
        with self.graph() as graph:
            found = graph.find_plan(budget_bytes, self.effort,
                                    host_budget_bytes=self.host_budget_bytes or 0)
        emitted = rewrite(self.program, found)
        return Planned(found, emitted, self.measure(emitted))

    def within(self, budget_bytes: int) -> Planned | None:
        """The cheapest plan whose whole step takes no more; None: not found."""
        aim = budget_bytes
        for _ in range(TRIES):
            made = self.plan(aim)
            if made.measure.bytes <= budget_bytes:
                return made
            if not made.plan.fits:
                return None
            over = made.measure.bytes - budget_bytes
            aim = min(aim, made.plan.live_bytes) - max(over, aim // 200)
        return None

    def smallest(self) -> Planned:
        """The plan with the least memory that is found."""
        return self.plan(1)

    # ---- what a step takes ----

    def measure(self, emitted: Emitted) -> Measure:
        """Three steps with their updates."""
        made = step_events(emitted)
        events = self._whole(made)
        live = _live_peak(events)
        if not self.cuda:
            return Measure(live, live, events)
        settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF",
                                  os.environ.get("PYTORCH_ALLOC_CONF", ""))
        peaks, _ = _native.replay(events, settings)
        return Measure(max(p.reserved_bytes for p in peaks), live, events)

    def _whole(self, made: StepEvents) -> list[_native.Event]:
        base = [s.bytes for s in self.program.storages if s.persistent]
        log = _Log()
        for size in base + self.held:
            log.request(size)
        for part in (self.update.first, self.update.later, self.update.later):
            log.mark()
            left = log.play(made.events)
            log.play(part, keep=True)
            for number in left:
                log.release(number)
        return log.events


@dataclass(frozen=True)
class StepEvents:
    """Requests and frees of one run of a graph; what it returns is never freed."""

    events: list[_native.Event]


def step_events(emitted: Emitted) -> StepEvents:
    """A piece of memory is freed after the last node that needs one of its holders."""
    nodes = list(emitted.graph.graph.nodes)
    at = {n: i for i, n in enumerate(nodes)}
    last: dict[int, int] = {}
    for node, pieces in emitted.holds.items():
        end = max((at[u] for u in node.users), default=at.get(node, 0))
        for piece in pieces:
            last[piece] = max(last.get(piece, 0), end)
    freed: dict[int, list[int]] = {}
    for piece, end in last.items():
        freed.setdefault(end, []).append(piece)
    return StepEvents(_events(emitted, nodes, freed))


def _events(emitted: Emitted, nodes: list[fx.Node],
            freed: dict[int, list[int]]) -> list[_native.Event]:
    events: list[_native.Event] = []
    known: set[int] = set()
    extra = len(emitted.sizes)
    for i, node in enumerate(nodes):
        if node.op == "output":
            break
        for piece in emitted.holds.get(node, []):
            if piece not in known and emitted.sizes[piece] > 0:
                known.add(piece)
                events.append((_native.ALLOC, piece, emitted.sizes[piece]))
        if emitted.workspace.get(node, 0) > 0:
            events += [(_native.ALLOC, extra, emitted.workspace[node]), (_native.FREE, extra, 0)]
            extra += 1
        events += [(_native.FREE, p, 0) for p in freed.get(i, []) if p in known]
    return events


class _Log:
    """Events of several parts with ids of their own."""

    def __init__(self) -> None:
        self.events: list[_native.Event] = []
        self.next = 0

    def request(self, bytes: int) -> int:
        if bytes > 0:
            self.events.append((_native.ALLOC, self.next, bytes))
        self.next += 1
        return self.next - 1

    def release(self, number: int) -> None:
        self.events.append((_native.FREE, number, 0))

    def mark(self) -> None:
        self.events.append((_native.MARK, 0, 0))

    def play(self, events: list[_native.Event], keep: bool = False) -> list[int]:
        """Returns what is left."""
        renamed: dict[int, int] = {}
        for action, number, bytes in events:
            if action == _native.ALLOC:
                renamed[number] = self.request(bytes)
            elif action == _native.FREE and number in renamed:
                self.release(renamed.pop(number))
        return [] if keep else list(renamed.values())


def _live_peak(events: list[_native.Event]) -> int:
    live: dict[int, int] = {}
    now = peak = 0
    for action, number, bytes in events:
        if action == _native.ALLOC:
            live[number] = bytes
            now += bytes
            peak = max(peak, now)
        elif action == _native.FREE:
            now -= live.pop(number, 0)
    return peak


def update_of(optimizer: str | Callable[..., Any] | None, parameters: list[torch.Tensor]) -> Update:
    """The requests of an optimizer's steps, on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from .capture import Recorder
    from .training import counts_on_host, make_optimizer

    if optimizer is None or not parameters:
        return Update([], [], 0)
    recorder = Recorder()
    with FakeTensorMode():
        fakes = [torch.nn.Parameter(torch.empty(p.shape, dtype=p.dtype)) for p in parameters]
        for p in fakes:
            p.grad = torch.empty_like(p)
        made = make_optimizer(optimizer, fakes)
        for x in fakes + [p.grad for p in fakes]:
            recorder.hold(x, "held")        # type: ignore[arg-type]
        recorder.phase = "update"
        recorder.host_scalars = counts_on_host(made)
        with recorder:
            for _ in range(2):
                recorder.mark()
                made.step()
            recorder.mark()
    recorder.forget()
    return _split(recorder.out.events, recorder.out.marks)


def _split(events: list[_native.Event], marks: list[int]) -> Update:
    first = events[marks[0] + 1:marks[1]]
    later = events[marks[1] + 1:marks[2]]
    # What a step frees of an earlier one is not seen here; an optimizer that swaps its state would.
    own = {e[1] for e in later if e[0] == _native.ALLOC}
    later = [e for e in later if e[0] == _native.ALLOC or e[1] in own]
    live: dict[int, int] = {}
    for action, number, bytes in first:
        if action == _native.ALLOC:
            live[number] = bytes
        elif action == _native.FREE:
            live.pop(number, None)
    return Update(first, later, sum(live.values()))
