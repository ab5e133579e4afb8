"""Plimsoll for PyTorch: what a training step takes before it runs, and a step that fits."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._native import Block, DoesNotFit, Peak, replay, version
from .explaining import Explanation, Share, StepPeak, explain

if TYPE_CHECKING:
    from .batching import BatchSize, batch_size
    from .checkpointing import Checkpointed, checkpoint
    from .fitting import BudgetError, FitPlan, Step, fit, parse_bytes

__all__ = ["BatchSize", "Block", "BudgetError", "Checkpointed", "DoesNotFit", "Explanation",
           "FitPlan", "Peak", "Share", "Step", "StepPeak", "batch_size", "checkpoint", "explain",
           "fit", "parse_bytes", "replay", "version"]

_LATER = {"batching": ("BatchSize", "batch_size"), "checkpointing": ("Checkpointed", "checkpoint"),
          "fitting": ("BudgetError", "FitPlan", "Step", "fit", "parse_bytes")}


def __getattr__(name: str) -> Any:
    """What needs PyTorch is imported when it is first used."""
    from importlib import import_module

    for module, names in _LATER.items():
        if name in names:
            return getattr(import_module("." + module, __name__), name)
    raise AttributeError(f"module 'plimsoll' has no attribute {name!r}")
