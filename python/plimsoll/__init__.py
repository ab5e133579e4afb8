"""Plimsoll for PyTorch: what a training step takes before it runs, and a step that fits."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._native import Block, DoesNotFit, Peak, replay, version
from .explaining import Explanation, Share, StepPeak, explain

if TYPE_CHECKING:
    from .fitting import BudgetError, FitPlan, Step, fit, parse_bytes

__all__ = ["Block", "BudgetError", "DoesNotFit", "Explanation", "FitPlan", "Peak", "Share", "Step",
           "StepPeak", "explain", "fit", "parse_bytes", "replay", "version"]

_LATER = {name: "fitting" for name in ("BudgetError", "FitPlan", "Step", "fit", "parse_bytes")}


def __getattr__(name: str) -> Any:
    """What needs PyTorch is imported when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"module 'plimsoll' has no attribute {name!r}")
    from importlib import import_module
    return getattr(import_module("." + _LATER[name], __name__), name)
