"""cuDNN's workspaces of the convolutions of real models: by plimsoll's rule, by cuDNN itself, and measured on the GPU that is here.

    torch_workspaces.py MODELS_FILE [--models NAME,...] [--precision fp32,bf16] --ask | --list | [--out python/plimsoll/convolutions.json]

Each distinct call of the models' steps runs once by itself; its workspace is what torch.cuda.max_memory_allocated rose by beyond the
result. plimsoll.explain and plimsoll.fit look it up in the table before they use their rule. The table is written after every call, so
that a run that is cut off leaves what it has. --ask compares the rule with what cuDNN says for a described H200 (.venv-cuda,
profiles/h200-device.cudnn); --list prints the calls only. Neither needs a GPU.
"""
import argparse
import json
import os

import torch

import torch_models                 # finds the package and its tests
import cudnn_answers
from plimsoll import capture, convolutions, explaining, training


def calls(options, rules):
    """Every distinct call of cuDNN."""
    found = {}
    for name in options.models.split(",") if options.models else torch_models.load(options.models_file, "cpu"):
        for precision in options.precision.split(","):
            model, loss_fn, batch = torch_models.made(options.models_file, name, "meta")
            recorder = capture.Recorder(rules)
            capture.capture(model, loss_fn, batch, training.StepForm(None, precision), rules, 1, recorder)
            found.update(recorder.convolutions)
    return sorted(found, key=str)


def tensor(shape, call):
    format = {4: torch.channels_last, 5: torch.channels_last_3d}.get(len(shape)) if call.last else None
    return torch.full(shape, 0.01, dtype=call.dtype, device="cuda").contiguous(memory_format=format or torch.contiguous_format)


def measured(call):
    """Bytes beyond the result; the second run counts, as in a later step."""
    x, w = tensor(call.x, call), tensor(call.w, call)
    how = (list(call.stride), list(call.padding), list(call.dilation), False, [0] * len(call.stride), call.groups)
    y = None if call.kind == convolutions.FORWARD else tensor(call.y, call)
    for _ in range(2):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        if y is None:
            result = torch.ops.aten.convolution(x, w, None, *how)
        else:
            asked = [call.kind == convolutions.DATA, call.kind == convolutions.WEIGHTS, False]
            result = torch.ops.aten.convolution_backward(y, x, w, None, *how, asked)
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


def answers(options):
    """What cuDNN says of each call; None: it refuses."""
    cudnn = cudnn_answers.described()
    if cudnn is None:
        raise SystemExit("cuDNN is not in .venv-cuda: run scripts/setup_cuda.sh")

    def ask(call):
        try:
            return cudnn.workspace(call)
        except cudnn_answers.Refused:
            return None
    return ask


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("models_file")
    parser.add_argument("--models")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--ask", action="store_true")
    parser.add_argument("--gpu", default="h200", help="the GPU's name in plimsoll.rules")
    parser.add_argument("--out")
    options = parser.parse_args()
    rules = explaining.find_rules(options.gpu, None)
    found = calls(options, rules)
    if options.list:
        print(*found, sep="\n")
        return
    size_of = answers(options) if options.ask else measured
    close = known = 0
    for call in found:
        # The rule's own figure: a table that is there already must not hide it.
        size, rule = size_of(call), convolutions.estimate(rules, call)
        if size is None:
            print(f"{'refused':>15} {rule:>15,}  {call}", flush=True)
            continue
        known += 1
        close += abs(size - rule) <= max(2 << 20, size // 20)
        print(f"{size:>15,} {rule:>15,}  {call}", flush=True)
        if options.out and not options.ask:
            store(options.out, options.gpu, {str(call): size})
    print(f"{close} of {known} workspaces are within 5 % or 2 MiB of the rule")


main()
