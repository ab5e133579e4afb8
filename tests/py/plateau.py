"""Rates that fall on a plateau, beside PyTorch's ReduceLROnPlateau fed with the same losses.

    plateau.py PROGRAM WORK_FOLDER"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import torch  # noqa: E402

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
recipe = os.path.join(os.path.dirname(__file__), "..", "..", "recipes", "sashimi-small.yaml")
SMALL = ["model.length=64", "model.width=8", "model.layers=1", "model.state=8", "batch=1", "data.samples=8",
         "optimizer.lr=0.03", "optimizer.slow_lr=0.002", "save.every=1000", "schedule.kind=plateau", "schedule.warmup=0"]
LR = 0.03
CASES = [  # settings of ours, arguments of PyTorch's, by what is watched
    ("validation", {"factor": 0.5, "patience": 1, "threshold": 0.01, "cooldown": 0, "floor_lr": 0.0}),
    ("validation", {"factor": 0.2, "patience": 0, "threshold": 0.05, "cooldown": 2, "floor_lr": 1e-3}),
    ("loss", {"factor": 0.3, "patience": 2, "threshold": 1e-4, "cooldown": 1, "floor_lr": 0.0}),
    ("loss", {"factor": 0.1, "patience": 0, "threshold": 0.2, "cooldown": 0, "floor_lr": 0.0}),  # down to PyTorch's eps
]
STEPS, EVERY, PERIOD = 90, 3, 2


def reference(lines, watch, how):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=how["factor"], patience=how["patience"], threshold=how["threshold"],
        cooldown=how["cooldown"], min_lr=how["floor_lr"])
    rates, losses = [], []
    for line in lines:
        rates.append(optimizer.param_groups[0]["lr"])
        losses.append(line["loss"])
        if watch == "loss" and len(losses) == PERIOD:
            schedule.step(sum(losses) / PERIOD)
            losses = []
        elif watch == "validation" and "val_loss" in line:
            schedule.step(line["val_loss"])
    return rates


failed = 0
for i, (watch, how) in enumerate(CASES):
    run = os.path.join(work, f"plateau{i}")
    subprocess.run(["rm", "-rf", run], check=True)
    sets = SMALL + [f"schedule.watch={watch}", f"schedule.period={PERIOD}", f"validate.every={EVERY}", "validate.batches=2"]
    sets += [f"schedule.{key}={value}" for key, value in how.items()]
    command = [program, "train", recipe, "--steps", str(STEPS), "--out", run, "--quiet", "--threads", "1"]
    for one in sets:
        command += ["--set", one]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(os.path.join(run, "log.jsonl"))]
    ours, theirs = [line["lr"] for line in lines], reference(lines, watch, how)
    worst = max(abs(a - b) / LR for a, b in zip(ours, theirs))
    cuts = sum(a != b for a, b in zip(ours, ours[1:]))
    print(f"{watch} {how}: {cuts} cuts, worst difference {worst:.1e} of the first rate")
    failed += worst > 1e-7 or cuts == 0 or len(lines) != STEPS
sys.exit(1 if failed else 0)
