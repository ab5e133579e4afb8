"""cuDNN's workspaces of the convolutions of real models, measured on the GPU that is here.

    torch_workspaces.py MODELS_FILE [--models NAME,...] [--precision fp32,bf16] [--list] [--out python/plimsoll/convolutions.json]

Each distinct call of the models' steps runs once by itself; its workspace is what torch.cuda.max_memory_allocated rose by beyond the
results. The table is what plimsoll.explain and plimsoll.fit look up. It is written after every call, so that a run that is cut off
leaves what it has. --list prints the calls only and needs no GPU.
"""
import argparse
import json
import os

import torch

import torch_models
from plimsoll import capture, explaining, training


def calls(options):
    """Every distinct convolution: key -> (operator, arguments with capture.Sizes for tensors)."""
    rules = explaining.find_rules("h200", None)
    found = {}
    for name in options.models.split(",") if options.models else torch_models.load(options.models_file, "cpu"):
        for precision in options.precision.split(","):
            model, loss_fn, batch = torch_models.made(options.models_file, name, "meta")
            recorder = capture.Recorder(rules)
            capture.capture(model, loss_fn, batch, training.StepForm(None, precision), rules, 1, recorder)
            found.update(recorder.convolutions)
    return found


def real(x):
    if not isinstance(x, capture.Sizes):
        return x
    return torch.empty_strided(x.shape, x.stride, dtype=x.dtype, device="cuda").fill_(0.01)


def workspace(name, args):
    """Bytes beyond the results; the second run counts, as in a later step."""
    given = [real(x) for x in args]
    operator = getattr(torch.ops.aten, name).default
    for _ in range(2):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = operator(*given)
        torch.cuda.synchronize()
        rose = torch.cuda.max_memory_allocated() - before
        kept = torch.cuda.memory_allocated() - before
        del result
    return max(0, rose - kept)


def store(path, gpu, table):
    known = json.load(open(path)) if os.path.exists(path) else {}
    known.setdefault(gpu, {}).update(table)
    with open(path + ".tmp", "w") as f:
        json.dump(known, f, indent=0, sort_keys=True)
    os.replace(path + ".tmp", path)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("models_file")
    parser.add_argument("--models")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--gpu", default="h200", help="the GPU's name in plimsoll.rules")
    parser.add_argument("--out")
    options = parser.parse_args()
    for key, call in sorted(calls(options).items()):
        if options.list:
            print(key)
            continue
        size = workspace(*call)
        print(f"{size:>15,}  {key}", flush=True)
        if options.out:
            store(options.out, options.gpu, {key: size})


main()
