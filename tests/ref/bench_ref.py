#!/usr/bin/env python3
"""Step time and memory of PyTorch on the CPU workloads that Plimsoll is compared with.

    bench_ref.py [--threads 2] [--steps 8] [--precision fp32,bf16] [WORK ...]

One JSON line a run: {"work", "precision", "layout", "parameters", "ms", "peak_mib", "import_mib",
"static_mib", "loss", "threads", "torch"}. ms is the median step (forward, backward, fused AdamW,
EMA); peak_mib the most resident memory above the process with torch imported; static_mib what
parameters, gradients, Adam and EMA take. Each run is a process of its own. Convolutional work runs
in both layouts, since which is faster depends on the precision. A WORK that is a .json file is a
recipe with every key, as `plimsoll explain RECIPE --json` has it under `recipe`.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

CONVOLUTIONAL = ("stdiff", "edge", "stablesr")
WORKS = ("stdiff", "edge", "stablesr", "lag", "sashimi", "dit3d-tiny", "dit3d-s")


def workload(name):
    """-> (model, function that gives the loss of a micro-batch, cfg)."""
    import torch
    from torch.nn import functional as F

    import common
    import systems
    from common import merged
    R = systems.RECIPES
    gen = torch.Generator().manual_seed(0)
    train = merged(common.DEFAULTS, {"accumulate": 1, "ema": {"rule": "constant", "decay": 0.9999}})
    if name.endswith(".json"):
        with open(name) as f:
            cfg = json.load(f)
        module = systems.MODULES[cfg["system"]]
        model = module.build(cfg)
        batch, noise = module.make_batch(cfg, gen)
        return model, lambda: module.loss(model, batch, noise), cfg
    if name == "edge":
        import stablesr
        model = stablesr.EdgeProcessor(R["stablesr-edge-after"]["model"])
        x = torch.randn(1, 3, 128, 128, generator=gen)
        y = torch.randn(1, 4, 64, 64, generator=gen)
        return model, lambda: F.mse_loss(model(x), y), train
    if name == "stablesr":
        import stablesr
        sizes = merged(R["stablesr-edge-after"]["model"], {"channels": 64, "mult": [1, 2, 2, 2]})
        model = stablesr.UNet(sizes, edge=False)
        x = torch.randn(1, 8, 64, 64, generator=gen)
        y = torch.randn(1, 4, 64, 64, generator=gen)
        context = torch.randn(77, 1024, generator=gen)
        struct = {s: torch.randn(1, 256, s, s, generator=gen) for s in (64, 32, 16, 8)}
        t = torch.tensor([500])
        return model, lambda: F.mse_loss(model(x, t, context, struct), y), train
    cfg = {
        "stdiff": merged(R["stdiff-64x2048"], {"batch": 1, "model": {
            "image": [32, 64], "observed": 3, "predicted": 3, "channels": [32, 64, 64],
            "groups": 8, "head_width": 32, "motion_channels": 16}}),
        "lag": R["lag-4x3"],
        "sashimi": merged(R["sashimi-24576"],
                          {"model": {"length": 4096, "width": 32, "layers": 2}}),
        "dit3d-tiny": merged(R["dit3d-tiny"], {"batch": 4}),
        "dit3d-s": merged(R["dit3d-s"], {"batch": 1, "model": {"patch": [2, 4, 4]}}),
    }[name]
    module = systems.MODULES[cfg["system"]]
    model = module.build(cfg)
    batch, noise = module.make_batch(cfg, gen)
    return model, lambda: module.loss(model, batch, noise), train


def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(name, precision, layout, threads, steps):
    import torch

    import common
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    imported = peak_kib()
    model, loss_of, cfg = workload(name)
    if layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    groups = [{"params": [p for p in model.parameters() if p.requires_grad]}]
    trainer = common.Trainer(cfg, model, groups, fused=True)
    times = []
    for i in range(steps + 2):
        start = time.perf_counter()
        for _ in range(cfg["accumulate"]):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = loss_of() / cfg["accumulate"]
            loss.backward()
        trainer.update()
        if i >= 2:                                   # two steps of warm-up
            times.append(time.perf_counter() - start)
    n, trained = common.count(model), common.count(model, trained=True)
    print(json.dumps({
        "work": name, "precision": precision, "layout": layout, "parameters": n,
        "ms": round(statistics.median(times) * 1e3, 2),
        "peak_mib": round((peak_kib() - imported) / 1024, 1),
        "import_mib": round(imported / 1024, 1),
        "static_mib": round((4 * n + 16 * trained) / 2 ** 20, 1),
        "loss": round(float(loss.detach()), 6), "threads": threads, "torch": torch.__version__}),
        flush=True)


def amx_works():
    """False on machines that name AMX and then fault in oneDNN's kernels (see common.py)."""
    code = ("import torch; l = torch.nn.Linear(64, 64).bfloat16();"
            "l(torch.ones(64, 64).bfloat16()).sum().backward()")
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "DEFAULT"}
    probe = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True)
    return probe.returncode == 0


def choose_isa():
    """Before oneDNN's first use: all that works here, unless the caller has said something else."""
    if "ONEDNN_MAX_CPU_ISA" not in os.environ:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "DEFAULT" if amx_works() else "AVX512_CORE_FP16"


def main():
    parser = argparse.ArgumentParser(description="PyTorch's step time and memory on the CPU")
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--layout", help="one layout only: contiguous or channels_last")
    parser.add_argument("--here", action="store_true", help="one run, in this process")
    args = parser.parse_args()
    for work in args.works:
        if work not in WORKS and not work.endswith(".json"):
            parser.error(f"no work {work}; there are {', '.join(WORKS)}")
    if args.here:
        run(args.works[0], args.precision, args.layout, args.threads, args.steps)
        return 0
    choose_isa()
    env = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    failed = 0
    for work in args.works or WORKS:
        for precision in args.precision.split(","):
            convolutional = os.path.basename(work).startswith(CONVOLUTIONAL)
            layouts = ["contiguous"] + ["channels_last"] * convolutional
            for layout in [args.layout] if args.layout else layouts:
                failed += subprocess.run(
                    [sys.executable, os.path.abspath(__file__), work, "--here",
                     "--precision", precision, "--layout", layout, "--steps", str(args.steps),
                     "--threads", str(args.threads)], env=env).returncode != 0
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
