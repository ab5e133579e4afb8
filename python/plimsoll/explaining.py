"""`explain`: the memory of a training step in PyTorch on a GPU that need not be here."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from . import _native, report
from .rules import GPUS, Gpu, Rules, version_of

if TYPE_CHECKING:
    import torch

    from .capture import Allocation, Capture
    from .training import Average, StepForm


@dataclass(frozen=True)
class StepPeak:
    """Peaks of one step, as torch.cuda.max_memory_allocated and max_memory_reserved count."""

    allocated_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class Share:
    """Bytes that were live at the allocated peak, of one class, module or line."""

    name: str
    bytes: int
    tensors: int


@dataclass(frozen=True)
class Explanation:
    """What a training step takes."""

    device: str
    torch_version: str
    precision: str
    parameters: int
    before_bytes: int
    """allocated before the first step"""
    first: StepPeak
    later: StepPeak
    context_bytes: int
    """CUDA context and libraries, outside of PyTorch's allocator"""
    total_bytes: int
    """reserved peak of any step and the context: what the GPU must have"""
    device_bytes: int
    """memory of the GPU"""
    peak_phase: str
    """forward, backward or update: where the allocated peak of a later step is"""
    by_class: list[Share]
    by_module: list[Share]
    by_line: list[Share]
    notes: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Has the GPU that much memory?"""
        return self.total_bytes <= self.device_bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists, for JSON."""
        return {**asdict(self), "fits": self.fits}

    def __str__(self) -> str:
        return report.text(self)

    def _repr_html_(self) -> str:
        return report.html(self)


def find_rules(device: str, torch_version: str | None) -> Rules:
    """The rules for a GPU by name; without a version those of the installed PyTorch."""
    import torch

    gpu = GPUS.get("-".join(str(device).lower().split()))
    if gpu is None:
        raise ValueError(f"no GPU is called {str(device)!r}: use one of {', '.join(sorted(GPUS))}")
    version = version_of(torch_version or torch.__version__)
    return Rules(gpu, version, _notes(gpu, version))


def _notes(gpu: Gpu, version: tuple[int, int]) -> list[str]:
    notes: list[str] = []
    if not gpu.measured:
        notes.append(f"{gpu.name}: context and workspaces are estimated from an H200's")
    if not (2, 6) <= version <= (2, 13):
        notes.append(f"PyTorch {version[0]}.{version[1]}: the rules are those of 2.6 to 2.13")
    return notes


def _third_step(events: list[_native.Event], start: int, n_ids: int) -> list[_native.Event]:
    """The last step once more, with new ids: a later step finds the cache as an earlier one left
    it. Where it freed what the step before had left, it now frees what it left itself."""
    renamed: dict[int, int] = {}
    more: list[_native.Event] = []
    sizes = {number: size for action, number, size in events if action == _native.ALLOC}
    own = {number for action, number, _ in events[start:] if action == _native.ALLOC}
    left = [number for number in _live_at(events, len(events) - 1) if number in own]
    for action, number, size in events[start:]:
        if action == _native.ALLOC:
            renamed[number] = n_ids + len(renamed)
            more.append((action, renamed[number], size))
        elif action == _native.FREE and number in renamed:
            more.append((action, renamed[number], size))
        elif action == _native.FREE:
            again = next((n for n in left if sizes[n] == sizes[number]), None)
            if again is not None:
                left.remove(again)
                more.append((action, again, size))
        else:
            more.append((action, 0, size))
    return more


def _live_at(events: list[_native.Event], last: int) -> list[int]:
    live: dict[int, None] = {}
    for action, number, _ in events[:last + 1]:
        if action == _native.ALLOC:
            live[number] = None
        elif action == _native.FREE:
            live.pop(number, None)
    return list(live)


def _shares(allocations: list[Allocation], blocks: dict[int, int], live: list[int],
            key: Callable[[Allocation], str]) -> list[Share]:
    sums: dict[str, list[int]] = {}
    for number in live:
        entry = sums.setdefault(key(allocations[number]), [0, 0])
        entry[0] += blocks[number]
        entry[1] += 1
    return sorted((Share(k, v[0], v[1]) for k, v in sums.items()), key=lambda s: -s.bytes)


_PHASES = {"backward temporaries": "backward", "gradients": "backward",
           "update temporaries": "update", "optimizer state": "update"}


def summarize(found: Capture, rules: Rules, form: StepForm, settings: str = "") -> Explanation:
    """Replays a capture of two steps through the allocator and says what was live at the peak."""
    events = found.events + _third_step(found.events, found.marks[-1], len(found.allocations))
    peaks, blocks = _native.replay(events, settings)
    placed = {e[1]: b.bytes for e, b in zip(events, blocks, strict=True) if b.segment >= 0}
    first, steps = peaks[1], peaks[2:]
    top = max(steps, key=lambda p: p.allocated_bytes)
    # Blame is told for the second step, whose requests have names.
    at = steps[0].allocated_event if steps[0].allocated_event >= 0 else found.marks[-1]
    live = _live_at(events, at)
    allocations = found.allocations
    phase = _PHASES.get(allocations[events[at][1]].kind, "forward")
    later = StepPeak(top.allocated_bytes, max(p.reserved_bytes for p in steps))
    total = max(first.reserved_bytes, later.reserved_bytes) + rules.gpu.context_bytes
    return Explanation(
        device=rules.gpu.name, torch_version=f"{rules.torch[0]}.{rules.torch[1]}",
        precision=form.precision, parameters=found.parameters,
        before_bytes=peaks[0].allocated_bytes,
        first=StepPeak(first.allocated_bytes, first.reserved_bytes), later=later,
        context_bytes=rules.gpu.context_bytes, total_bytes=total,
        device_bytes=rules.gpu.total_bytes, peak_phase=phase,
        by_class=_shares(allocations, placed, live, lambda a: a.kind),
        by_module=_shares(allocations, placed, live, lambda a: a.module),
        by_line=_shares(allocations, placed, live, lambda a: a.line), notes=list(found.notes))


def explain(model: torch.nn.Module, loss_fn: Callable[[Any, Any], Any], batch: Any,
            optimizer: str | Callable[..., Any] | None = "adamw", precision: str = "bf16",
            device: str = "h200", torch_version: str | None = None, settings: str = "", *,
            accumulate: int = 1, clip: bool = False, ema: str | Average | None = None,
            grad_scaler: bool | None = None) -> Explanation:
    """Predicts the memory of a training step on a GPU, without a GPU.

    Args:
        model: the module, on the CPU or on meta.
        loss_fn: loss_fn(model, batch) returns the loss, or a tuple or dict that begins with it. It
            runs on fake tensors.
        batch: an example batch; only its shapes and types matter.
        optimizer: adamw, adam or sgd, also with -fused or -loop; or a function of the parameters.
        precision: fp32, or bf16 or fp16 with autocast.
        device: the name of the GPU.
        torch_version: the PyTorch version to predict; default: the installed one.
        settings: the text of PYTORCH_CUDA_ALLOC_CONF.
        accumulate: batches per step.
        clip: clip_grad_norm_ runs before the update.
        ema: an average of the parameters: "foreach" updates all at once (torch's AveragedModel),
            "loop" one by one (diffusers' EMAModel), a function gets averages and parameters.
        grad_scaler: a GradScaler scales the losses; default: in fp16.
    """
    from . import arguments
    from .capture import capture
    from .training import StepForm

    arguments.check(model, loss_fn, batch)
    _native.version()           # without the library nothing is worth capturing
    rules = find_rules(device, torch_version)
    form = StepForm(optimizer, precision, accumulate, clip, ema,
                    precision == "fp16" if grad_scaler is None else grad_scaler)
    found = capture(model, loss_fn, batch, form, rules)
    return summarize(found, rules, form, settings)
