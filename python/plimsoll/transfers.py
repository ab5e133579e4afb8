"""Copies to pinned memory and back, beside the computation (CUDA). On the CPU they happen at once,
for tests: what counts as the host there is not counted as the device's memory."""
from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

_streams: dict[torch.device, Any] = {}
_ends: dict[int, Any] = {}
"""address of a destination -> event after the copy into it"""


def _stream(device: torch.device) -> Any:
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


def _copy(source: torch.Tensor, to: torch.Tensor, device: torch.device) -> None:
    """Starts a copy that waits for what the device has been told so far."""
    stream = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        to.copy_(source, non_blocking=True)
        _ends[to.data_ptr()] = stream.record_event()


def _wait(copy: torch.Tensor, device: torch.device) -> None:
    end = _ends.pop(copy.data_ptr(), None)
    if end is not None:
        torch.cuda.current_stream(device).wait_event(end)


def to_host(x: torch.Tensor) -> torch.Tensor:
    """Starts copying to the host. `saved` must follow before x is freed."""
    if x.device.type != "cuda":
        with _disable_current_modes():
            return x.clone()
    host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    _copy(x, host, x.device)
    return host


def saved(host: torch.Tensor, x: torch.Tensor) -> None:
    """Waits for the end of a copy to the host."""
    if x.device.type == "cuda":
        _wait(host, x.device)


def to_device(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Starts copying back. `loaded` must follow before the result is read."""
    made = torch.empty(host.shape, dtype=host.dtype, device=device)
    if device.type == "cuda":
        _copy(host, made, device)
    else:
        made.copy_(host)
    return made


def loaded(x: torch.Tensor) -> torch.Tensor:
    """Waits for the end of a copy back."""
    if x.device.type == "cuda":
        _wait(x, x.device)
    return x
