"""Predicted against measured peaks of public models in PyTorch on an H200.

    torch_peaks.py PEAKS_TABLE MODELS_FILE [NAME,...] [fp32,bf16]

PEAKS_TABLE is a page with one row per model and precision (bytes measured), MODELS_FILE the script that made it: its `Z` is
name -> function of (model, loss). The models' libraries (diffusers, transformers) are needed, a GPU is not. Prints a table.
"""
import importlib.util
import os
import re
import statistics
import sys
import time

import torch

import plimsoll


def measured(path):
    rows = {}
    for line in open(path):
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if len(cells) == 9 and re.fullmatch(r"[\d,]+", cells[2]):
            rows[cells[0], cells[1]] = [int(c.replace(",", "")) for c in cells[3:8]]
    return rows


def load(path):
    # torchvision's wheel for CUDA loads on the CPU if its operators' names exist: a file beside the models may define them.
    if os.path.exists(os.path.join(os.path.dirname(path), "tvstub.py")):
        sys.path.insert(0, os.path.dirname(path))
        importlib.import_module("tvstub")
    spec = importlib.util.spec_from_file_location("models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.R = lambda *s: torch.randn(*s, device="cpu")
    module.I = lambda n, *s: torch.randint(0, n, s, device="cpu")
    return module


def cells(loss):
    """The loss closes over its inputs."""
    return [c for c in loss.__closure__ if not isinstance(c.cell_contents, torch.nn.Module) and not callable(c.cell_contents)]


def predict(models, name, precision):
    with torch.device("meta"):
        model, loss = models.Z[name]()
    model.train()
    if loss.__closure__ and any(getattr(c.cell_contents, "__closure__", None) for c in loss.__closure__):
        raise SystemExit("%s: a loss within a loss" % name)

    def loss_fn(_, batch):
        for cell, value in zip(cells(loss), batch):
            cell.cell_contents = value
        return loss()

    batch = [c.cell_contents for c in cells(loss)]
    begun = time.time()
    answer = plimsoll.explain(model, loss_fn, batch, precision=precision, device="h200", torch_version="2.11")
    return answer, time.time() - begun


def main():
    rows, models = measured(sys.argv[1]), load(sys.argv[2])
    names = sys.argv[3].split(",") if len(sys.argv) > 3 and sys.argv[3] != "all" else list(models.Z)
    precisions = sys.argv[4].split(",") if len(sys.argv) > 4 else ["fp32", "bf16"]
    print("| model | precision | first allocated | off % | allocated | off % | reserved | off % | s |\n|---|---|---|---|---|---|---|---|---|")
    off_allocated, off_reserved = [], []
    for (name, precision), (before, first, _, allocated, reserved) in rows.items():
        if name not in names or precision not in precisions:
            continue
        e, seconds = predict(models, name, precision)
        if "--why" in sys.argv:
            print(e, "\nbefore %d, measured %d" % (e.before_bytes, before))
        off = [100 * (got / want - 1) for got, want in ((e.first.allocated_bytes, first), (e.later.allocated_bytes, allocated),
                                                       (e.later.reserved_bytes, reserved))]
        off_allocated += off[:2]
        off_reserved.append(off[2])
        print("| %s | %s | %s | %+.2f | %s | %+.2f | %s | %+.2f | %.1f |" % (
            name, precision, f"{e.first.allocated_bytes:,}", off[0], f"{e.later.allocated_bytes:,}", off[1],
            f"{e.later.reserved_bytes:,}", off[2], seconds), flush=True)
    if off_allocated:
        sizes = [abs(x) for x in off_allocated]
        print("allocated: median %.2f %%, worst %.2f %%, lowest %+.2f %%; reserved: median %.2f %%" % (
            statistics.median(sizes), max(sizes), min(off_allocated), statistics.median(abs(x) for x in off_reserved)))


main()
