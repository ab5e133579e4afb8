"""Predicted against measured peaks of public models in PyTorch on an H200.

    torch_peaks.py PEAKS_TABLE MODELS_FILE [--models NAME,...] [--precision fp32,bf16] [--why] [--json FILE]

PEAKS_TABLE is a page with one row per model and precision (bytes measured), MODELS_FILE the script that made it: its `Z` is
name -> function of (model, loss). The models' libraries (diffusers, transformers) are needed, a GPU is not. Prints a table; --why
prints each prediction whole.
"""
import argparse
import importlib.util
import os
import re
import statistics
import sys
import time

import torch

import plimsoll
import results_file


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


def row(name, precision, e, seconds, measured_bytes):
    """A line of the results file."""
    _, first, _, allocated, reserved = measured_bytes
    return {"work": name, "precision": precision, "seconds": results_file.figure(seconds, 2),
            "first_bytes": first, "first_off_percent": off(e.first.allocated_bytes, first),
            "allocated_bytes": allocated, "allocated_off_percent": off(e.later.allocated_bytes, allocated),
            "reserved_bytes": reserved, "reserved_off_percent": off(e.later.reserved_bytes, reserved)}


def off(got, want):
    return round(100 * (got / want - 1), 2)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("table")
    parser.add_argument("models_file")
    parser.add_argument("--models", help="names, with commas between them; default: all")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--why", action="store_true")
    results_file.add_option(parser)
    options = parser.parse_args()
    models = load(options.models_file)
    names = options.models.split(",") if options.models else list(models.Z)
    found = []
    for (name, precision), figures in measured(options.table).items():
        if name not in names or precision not in options.precision.split(","):
            continue
        e, seconds = predict(models, name, precision)
        if options.why:
            print(e, "\nbefore %d, measured %d" % (e.before_bytes, figures[0]))
        found.append(row(name, precision, e, seconds, figures))
        print("%-18s %s: first %+.2f %%, allocated %+.2f %%, reserved %+.2f %%, %.1f s" % (
            name, precision, *(found[-1][k + "_off_percent"] for k in ("first", "allocated", "reserved")), seconds), flush=True)
    if not found:
        raise SystemExit("no model of that name and precision is in the table")
    allocated = [r[k] for r in found for k in ("first_off_percent", "allocated_off_percent")]
    sizes, reserved = [abs(x) for x in allocated], [abs(r["reserved_off_percent"]) for r in found]
    print("allocated: median %.2f %%, worst %.2f %%, lowest %+.2f %%; reserved: median %.2f %%, worst %.2f %%" % (
        statistics.median(sizes), max(sizes), min(allocated), statistics.median(reserved), max(reserved)))
    results_file.write(options.json, found, "bench/torch_peaks.py", "PyTorch 2.11 on an H200, eager, AdamW (foreach): bytes measured "
                       "there, and how far plimsoll.explain is off, predicted without a GPU in so many seconds")


main()
