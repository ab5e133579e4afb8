"""Predicted against measured peaks of public models in PyTorch on an H200.

    torch_peaks.py PEAKS_TABLE MODELS_FILE [--models NAME,...] [--precision fp32,bf16] [--why] [--json FILE]
    torch_peaks.py --measure MODELS_FILE [--optimizer adamw,adamw-fused] [--limit S] [...]

PEAKS_TABLE is a page with one row per model and precision (bytes measured), MODELS_FILE the script that made it: its `Z` is
name -> function of (model, loss). The models' libraries (diffusers, transformers) are needed, a GPU is not. --measure takes the
measured peaks on the GPU that is here instead, each in a process of its own; --limit: what has not begun after so many seconds is left
out. Prints a table; --why prints each prediction whole.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
import time

import results_file
import torch_models


def table_of(path):
    """(model, precision, optimizer) -> bytes: before, first allocated, first reserved, allocated, reserved."""
    rows = {}
    for line in open(path):
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if len(cells) == 9 and re.fullmatch(r"[\d,]+", cells[2]):
            rows[cells[0], cells[1], "adamw"] = [int(c.replace(",", "")) for c in cells[3:8]]
    return rows


# ---- on the GPU ----

def training_step(path, name, precision, optimizer):
    """A function that runs one step on the GPU; everything is there before the first."""
    import torch
    from plimsoll.training import make_optimizer

    model, loss_fn, batch = torch_models.made(path, name, "cuda")
    adamw = make_optimizer(optimizer, [p for p in model.parameters() if p.requires_grad])

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_fn(model, batch)
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
    return step


def measure(path, name, precision, optimizer):
    """What the first step and later ones take here."""
    import torch

    step = training_step(path, name, precision, optimizer)
    found = []

    def peaks(steps):
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        found.extend([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()])

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    found.append(torch.cuda.memory_allocated())
    peaks(1)
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    peaks(3)
    return found


def child(options, name, precision, optimizer):
    """The figures of a process of its own, or why there are none."""
    words = [sys.executable, "-u", __file__, "--measure", options.models_file, "--here", "--models", name, "--precision", precision,
             "--optimizer", optimizer]
    done = subprocess.run(words, capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    return (json.loads(lines[-1]), "") if done.returncode == 0 and lines else (None, done.stderr.strip()[-200:])


def measured_here(options, names):
    """The same as table_of gives, one after the other as they come."""
    begun = time.monotonic()
    for name in names:
        for precision in options.precision.split(","):
            for optimizer in options.optimizer.split(","):
                what = (name, precision, optimizer)
                if time.monotonic() - begun > options.limit:
                    print("%s %s %s: left out, no time" % what, flush=True)
                    continue
                figures, why = child(options, *what)
                if figures:
                    yield what, figures
                else:
                    print("%s %s %s: " % what + why, flush=True)


# ---- predictions ----

def predict(path, name, precision, optimizer, version):
    import plimsoll

    model, loss_fn, batch = torch_models.made(path, name, "meta")
    begun = time.time()
    answer = plimsoll.explain(model, loss_fn, batch, optimizer=optimizer, precision=precision, device="h200", torch_version=version)
    return answer, time.time() - begun


def row(what, e, seconds, measured_bytes):
    """A line of the results file."""
    _, first, _, allocated, reserved = measured_bytes
    return {"work": what[0], "precision": what[1], "optimizer": what[2], "seconds": results_file.figure(seconds, 2),
            "first_bytes": first, "first_off_percent": off(e.first.allocated_bytes, first),
            "allocated_bytes": allocated, "allocated_off_percent": off(e.later.allocated_bytes, allocated),
            "reserved_bytes": reserved, "reserved_off_percent": off(e.later.reserved_bytes, reserved)}


def off(got, want):
    return round(100 * (got / want - 1), 2)


def read_options():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("table", nargs="?")
    parser.add_argument("models_file")
    parser.add_argument("--models", help="names, with commas between them; default: all")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--optimizer", default="adamw,adamw-fused")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--why", action="store_true")
    results_file.add_option(parser)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = read_options()
    if options.here:
        print(json.dumps(measure(options.models_file, options.models, options.precision, options.optimizer)))
        return
    names = options.models.split(",") if options.models else list(torch_models.load(options.models_file, "cpu"))
    version, gpu = "2.11", {}
    if options.measure:
        import torch
        version, gpu = torch.__version__, {"gpu": torch.cuda.get_device_name()}
    found = []
    for what, figures in measured_here(options, names) if options.measure else table_of(options.table).items():
        if what[0] not in names or what[1] not in options.precision.split(","):
            continue
        e, seconds = predict(options.models_file, *what, version)
        if options.why:
            print(e, "\nbefore %d, measured %d" % (e.before_bytes, figures[0]))
        found.append(row(what, e, seconds, figures))
        print("%-18s %s %s: first %+.2f %%, allocated %+.2f %%, reserved %+.2f %%, %.1f s" % (
            *what, *(found[-1][k + "_off_percent"] for k in ("first", "allocated", "reserved")), seconds), flush=True)
        results_file.write(options.json, found, "bench/torch_peaks.py", f"PyTorch {version} on an H200, eager, AdamW (foreach unless fused): "
                           "bytes measured there, and how far plimsoll.explain is off, predicted without a GPU in so many seconds", **gpu)
    if not found:
        raise SystemExit("no model of that name and precision was measured")
    allocated = [r[k] for r in found for k in ("first_off_percent", "allocated_off_percent")]
    sizes, reserved = [abs(x) for x in allocated], [abs(r["reserved_off_percent"]) for r in found]
    print("allocated: median %.2f %%, worst %.2f %%, lowest %+.2f %%; reserved: median %.2f %%, worst %.2f %%" % (
        statistics.median(sizes), max(sizes), min(allocated), statistics.median(reserved), max(reserved)))


if __name__ == "__main__":
    main()
