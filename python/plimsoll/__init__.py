"""Plimsoll for PyTorch: what a training step takes, before it runs."""
from ._native import Block, DoesNotFit, Peak, replay, version
from .explaining import Explanation, Share, StepPeak, explain

__all__ = ["Block", "DoesNotFit", "Explanation", "Peak", "Share", "StepPeak", "explain", "replay",
           "version"]
