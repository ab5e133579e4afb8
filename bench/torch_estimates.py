"""Three estimates of a training step's memory in PyTorch beside what was measured on an H200: ours, PyTorch's, accelerate's.

    torch_estimates.py PEAKS_TABLE MODELS_FILE [--models NAME,...] [--precision fp32,bf16] [--limit S] [--json FILE]

PEAKS_TABLE and MODELS_FILE as for torch_peaks.py. No GPU is needed and none is used; each estimate is a process of its own.

    plimsoll     plimsoll.explain(...).later.allocated_bytes
    MemTracker   torch.distributed._tools.mem_tracker under FakeTensorMode, two whole steps, its peak. The tensors are of the CPU: fake
                 ones of CUDA stop in backward where PyTorch was built without CUDA
    accelerate   what `accelerate estimate-memory` prints as "Training using Adam" for the model's bytes
"""
import argparse
import json
import re
import subprocess
import sys
import time

import results_file
import torch_models
from torch_peaks import off, table_of

TOOLS = ("plimsoll", "MemTracker", "accelerate")


def by_plimsoll(path, name, precision):
    import plimsoll

    model, loss_fn, batch = torch_models.made(path, name, "meta")
    return plimsoll.explain(model, loss_fn, batch, precision=precision, device="h200", torch_version="2.11").later.allocated_bytes


def by_mem_tracker(path, name, precision):
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode():
        model, loss_fn, batch = torch_models.made(path, name, "cpu")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *(x for x in torch.utils._pytree.tree_leaves(batch) if isinstance(x, torch.Tensor)))
        with tracker:
            for _ in range(2):
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                    loss = loss_fn(model, batch)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


def by_accelerate(path, name, precision):
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    model, _, _ = torch_models.made(path, name, "meta")
    total, _ = calculate_maximum_sizes(model)
    return max(estimate_training_usage(total, "bfloat16" if precision == "bf16" else "float32").values())


def child(options, tool, name, precision):
    """Bytes, or a word why there are none; and seconds."""
    words = [sys.executable, __file__, options.table, options.models_file, "--models", name, "--precision", precision, "--tool", tool]
    begun = time.monotonic()
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return None, f"not done after {options.limit:g} s"
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return None, (done.stderr.strip().splitlines() or ["ended without a word"])[-1][:200]
    return json.loads(lines[-1]), round(time.monotonic() - begun, 1)


def row(options, name, precision, measured):
    found = {"work": name, "precision": precision, "allocated_bytes": measured}
    for tool in TOOLS:
        bytes_, told = child(options, tool, name, precision)
        key = re.sub(r"\W", "", tool).lower()
        print("%-18s %s %-10s %s" % (name, precision, tool, "%+.2f %%, %s s" % (off(bytes_, measured), told) if bytes_ else told), flush=True)
        if bytes_:
            found.update({key + "_bytes": bytes_, key + "_off_percent": off(bytes_, measured), key + "_s": told})
        else:
            found[key + "_failed"] = told
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("table")
    parser.add_argument("models_file")
    parser.add_argument("--models")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one estimate")
    results_file.add_option(parser)
    parser.add_argument("--tool", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tool:
        run = {"plimsoll": by_plimsoll, "MemTracker": by_mem_tracker, "accelerate": by_accelerate}[options.tool]
        print(json.dumps(run(options.models_file, options.models, options.precision)))
        return
    rows = []
    for (name, precision, _), figures in table_of(options.table).items():
        if precision in options.precision.split(",") and (not options.models or name in options.models.split(",")):
            rows.append(row(options, name, precision, figures[3]))
            results_file.write(options.json, rows, "bench/torch_estimates.py", "measured: PyTorch 2.11 on an H200, eager, AdamW (foreach), later "
                               "steps; off: how far each estimate is from it, made without a GPU in so many seconds")


if __name__ == "__main__":
    main()
