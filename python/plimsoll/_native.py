"""The C library: PyTorch's caching allocator as plimsoll_torch_replay (plimsoll.h)."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ALLOC, FREE, MARK, EMPTY = range(4)
_OK, _FAILED, _USAGE, _DOES_NOT_FIT = range(4)

Event = tuple[int, int, int]
"""Action, id, bytes."""


class DoesNotFit(RuntimeError):
    """A request failed: the memory that may be reserved is used up."""


class _Event(ctypes.Structure):
    _fields_ = [("action", ctypes.c_int64), ("id", ctypes.c_int64), ("bytes", ctypes.c_int64)]


class _Peak(ctypes.Structure):
    _fields_ = [("allocated_bytes", ctypes.c_int64), ("reserved_bytes", ctypes.c_int64),
                ("allocated_event", ctypes.c_int64), ("reserved_event", ctypes.c_int64)]


class _Block(ctypes.Structure):
    _fields_ = [("segment", ctypes.c_int64), ("offset", ctypes.c_int64),
                ("bytes", ctypes.c_int64)]


class _Error(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 1024)]


@dataclass(frozen=True)
class Peak:
    """Between two marks. An event of -1: at the mark itself."""

    allocated_bytes: int
    reserved_bytes: int
    allocated_event: int
    reserved_event: int


@dataclass(frozen=True)
class Block:
    """Where a request was placed; segment -1: the event was no request."""

    segment: int
    offset: int
    bytes: int


def _load() -> ctypes.CDLL:
    path = os.environ.get("PLIMSOLL_LIBRARY")
    if path:
        return ctypes.CDLL(path)
    here = Path(__file__).resolve().parent
    for found in sorted((here / "lib").glob("libplimsoll.so*")):
        return ctypes.CDLL(str(found))
    raise ImportError(f"libplimsoll.so is not in {here / 'lib'}: install the package with `pip "
                      "install .`, or name the library in PLIMSOLL_LIBRARY")


_library: ctypes.CDLL | None = None


def _lib() -> ctypes.CDLL:
    global _library
    if _library is None:
        _library = _load()
        _library.plimsoll_version.restype = ctypes.c_char_p
        _library.plimsoll_torch_replay.argtypes = [
            ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
            ctypes.c_void_p, ctypes.c_void_p]
        _library.plimsoll_torch_replay.restype = ctypes.c_int
    return _library


def version() -> str:
    """Of the loaded library."""
    return str(_lib().plimsoll_version().decode())


def replay(events: Sequence[Event], settings: str = "",
           capacity_bytes: int = 0) -> tuple[list[Peak], list[Block]]:
    """PyTorch's allocator over a list of requests: a peak per interval between marks, and where
    each request was placed. Settings as in PYTORCH_CUDA_ALLOC_CONF."""
    n = len(events)
    given = (_Event * max(n, 1))(*(_Event(*e) for e in events))
    peaks = (_Peak * (1 + sum(e[0] == MARK for e in events)))()
    blocks = (_Block * max(n, 1))()
    error = _Error()
    status = _lib().plimsoll_torch_replay(settings.encode(), capacity_bytes, given, n, peaks,
                                          blocks, ctypes.byref(error))
    if status != _OK:
        text = error.text.decode(errors="replace")
        raise {_USAGE: ValueError, _DOES_NOT_FIT: DoesNotFit}.get(status, RuntimeError)(text)
    return ([Peak(p.allocated_bytes, p.reserved_bytes, p.allocated_event, p.reserved_event)
             for p in peaks],
            [Block(b.segment, b.offset, b.bytes) for b in blocks[:n]])
