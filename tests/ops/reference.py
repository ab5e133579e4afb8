#!/usr/bin/env python3
"""Makes the references of operator cases: outputs and gradients by PyTorch in fp64.

    test_ops --dump cases.safetensors && reference.py cases.safetensors tests/ops [--live] [--only OP]

Into tests/ops each operator's file goes to its family, FAMILY/ref/OP.safetensors; into any other
folder to OP.safetensors.

A case is inputs, weights of its outputs and a line of torch text (tests/ops/cases.h). Written per
operator: <case>/out/<name> and <case>/grad/<name> as fp32. --live also makes those of the cases that are too
large to keep.
"""
import glob
import os
import re
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file


def run_case(text, tensors):
    scope = {"torch": torch, "F": F, "np": np, "math": __import__("math")}
    leaves = {}
    for (kind, name), array in tensors.items():
        if kind == "int":
            scope[name] = torch.from_numpy(array).long()
        elif kind in ("in", "const"):
            scope[name] = torch.from_numpy(array).double()
            if kind == "in":
                leaves[name] = scope[name].requires_grad_(True)
    exec(text, scope)
    loss, result = 0, {}
    for (kind, name), array in tensors.items():
        if kind == "weight":
            y = scope[name]
            assert tuple(y.shape) == array.shape, f"{name}: torch gives {tuple(y.shape)}, we give {array.shape}"
            loss = loss + (y * torch.from_numpy(array).double()).sum()
            result[f"out/{name}"] = y.detach().float().contiguous().numpy()
    if leaves:
        grads = [None] * len(leaves)
        if loss.requires_grad:  # not if all outputs are integers
            grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        for (name, leaf), grad in zip(leaves.items(), grads):
            result[f"grad/{name}"] = (torch.zeros_like(leaf) if grad is None else grad).float().contiguous().numpy()
    return result


def place(folder, op):
    """Beside the cases of the operator, if the folder has them."""
    for path in glob.glob(f"{folder}/*/cases_*.c"):
        if re.search(rf"\bcases_{op}\[\]", open(path).read()):
            family = os.path.join(os.path.dirname(path), "ref")
            os.makedirs(family, exist_ok=True)
            return f"{family}/{op}.safetensors"
    return f"{folder}/{op}.safetensors"


def main():
    dump, folder, flags = sys.argv[1], sys.argv[2], sys.argv[3:]
    only = flags[flags.index("--only") + 1] if "--only" in flags else None
    cases = {}
    for key, array in load_file(dump).items():
        op, case, kind, *name = key.split("/")
        entry = cases.setdefault(op, {}).setdefault(case, {"text": None, "live": False, "tensors": {}})
        if kind.startswith("torch"):
            entry["text"] = bytes(array).decode()
            entry["live"] = kind == "torch_live"
        else:
            entry["tensors"][kind, name[0]] = array
    torch.set_num_threads(2)
    for op, by_name in sorted(cases.items()):
        if only and op != only:
            continue
        out = {}
        for case, entry in by_name.items():
            if entry["live"] and "--live" not in flags:
                continue
            try:
                result = run_case(entry["text"], entry["tensors"])
            except Exception as error:
                sys.exit(f"{op} '{case}': {type(error).__name__}: {error}")
            out.update({f"{case}/{name}": array for name, array in result.items()})
        if out:
            save_file(out, place(folder, op))
        print(f"{op}: {len(out)} tensors")


main()
