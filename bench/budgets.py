"""Budgets on a GPU, held or not: random settings of all systems, planned for a budget and run by that plan.

    budgets.py BUILD [--count N] [--seed N] [--jobs N] [--limit S] [--json FILE]

A setting is a recipe, a precision, a batch, an accumulation and a budget between the least and what everything kept takes, stated
runtime included, drawn at random from --seed. It is planned with `fit --device h200`, which needs no GPU; --jobs plans are made at a
time. Each plan is then run alone by `train --plan --device cuda`: two steps, a validation, samples and a save. Used is nvidia-smi's
memory.used at its highest, read every 20 ms, less its value before the start. A budget is held if used is not above it.

Without a GPU the plans are made and listed only. Exit 1 if a budget was exceeded or a run failed."""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import results_file

MIB = 2 ** 20
# recipe, batches, drawn data, a sampler that is done quickly
SETTINGS = [
    ("dit3d-tiny", (1, 2, 4, 8), ["data.kind=captioned-shapes"], ["sampler.steps=3"]),
    ("dit3d-xs", (1, 2, 4, 8), ["data.kind=captioned-shapes"], ["sampler.steps=3"]),
    ("dit3d-s", (1, 2, 4, 8), ["data.kind=captioned-shapes"], ["sampler.steps=3"]),
    ("dit3d-b", (1, 2, 4), ["data.kind=captioned-shapes"], ["sampler.steps=3"]),
    ("dit3d-wrap-tiny-4", (1, 2, 4), ["data.kind=captioned-shapes"], ["sampler.steps=3"]),
    ("dit3d-wrap-s-2", (1, 2), ["data.kind=captioned-shapes"], ["sampler.steps=3"]),
    ("lag-4x3", (4, 8), ["data.kind=coloured-sets"], ["sampler.steps=3"]),
    ("lag-8x4", (4, 8, 12), ["data.kind=coloured-sets"], ["sampler.steps=3"]),
    ("lag-32x6", (8, 16, 32), ["data.kind=coloured-sets"], ["sampler.steps=3"]),
    ("sashimi-24576", (1, 2), ["data.kind=tones"], ["sampler.length=256"]),
    ("stablesr-edge-after", (1, 2), ["data.kind=drawn-pairs"], ["sampler.steps=2"]),
    ("stdiff-64x512", (1, 2), ["data.kind=moving-shapes"], ["sampler.steps=2"]),
    ("stdiff-64x2048", (1,), ["data.kind=moving-shapes"], ["sampler.steps=2"]),
]


class Setting:
    def __init__(self, draw, index):
        self.index = index
        self.recipe, batches, data, quick = draw.choice(SETTINGS)
        self.precision = draw.choice(["bf16", "bf16", "fp32"])
        self.sets = [f"batch={draw.choice(batches)}", f"accumulate={draw.choice([1, 2, 3])}", f"precision={self.precision}",
                     *data, *quick, "steps=2", "validate.every=2", "validate.batches=1", "save.minutes=0", "save.every=2"]
        self.share = draw.random()           # between the least and everything kept
        self.budget = self.planned = self.used = None
        self.why = ""

    def arguments(self):
        return [self.recipe, *(word for s in self.sets for word in ("--set", s))]

    def words(self):
        return f"{self.recipe}, {self.precision}, {self.sets[0]}, {self.sets[1]}"


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no message"


def plan(args, setting, folder):
    """The plan's path, or None: setting.why says why."""
    program = os.path.join(args.build, "plimsoll")
    common = [*setting.arguments(), "--device", "h200", "--json"]
    asked = subprocess.run([program, "explain", *common, "--effort", "20"], capture_output=True, text=True)
    if asked.returncode:
        setting.why = last_line(asked.stderr)
        return None
    told = json.loads(asked.stdout)
    everything = told["peak_bytes"] + told["runtime_bytes"]
    least = min(told.get("minimum_bytes", everything), everything)
    setting.budget = int(least + (everything - least) * setting.share)
    path = os.path.join(folder, f"{setting.index}.json")
    fitted = subprocess.run([program, "fit", *common, "--budget", str(setting.budget), "--effort", "300", "-o", path],
                            capture_output=True, text=True)
    if fitted.returncode:
        setting.why = last_line(fitted.stderr)
        return None
    told = json.loads(fitted.stdout)
    setting.planned = told["peak_bytes"] + told["runtime_bytes"]
    return path


def gpu_used():
    told = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return int(told.stdout.split()[0]) * MIB if told.returncode == 0 else None


class Watch(threading.Thread):
    """nvidia-smi's figure at its highest, from one process that repeats it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.highest = 0
        self.process = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "20"],
                                        stdout=subprocess.PIPE, text=True)
        self.start()

    def run(self):
        for line in self.process.stdout:
            self.highest = max(self.highest, int(line.split()[0]) * MIB)

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.join()
        return self.highest


def train(args, setting, path, folder):
    before, watch = gpu_used(), Watch()
    run = subprocess.run([os.path.join(args.build, "plimsoll"), "train", *setting.arguments(), "--plan", path, "--device", "cuda",
                          "--quiet", "--out", os.path.join(folder, f"run-{setting.index}")], capture_output=True, text=True)
    time.sleep(0.05)
    setting.used = watch.end() - before
    if run.returncode:
        setting.why = last_line(run.stderr)


def mib(n):
    return f"{n / MIB:10.2f}" if n is not None else f"{'-':>10}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=3600, help="seconds for the runs")
    results_file.add_option(parser)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    settings = [Setting(draw, i) for i in range(args.count)]
    try:
        gpu = gpu_used() is not None
    except FileNotFoundError:
        gpu = False
    wrong, ran, until = 0, 0, time.monotonic() + args.limit
    print(f"{'MiB':58}{'budget':>10} {'planned':>10} {'used':>10}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        for setting, path in zip(settings, pool.map(lambda s: plan(args, s, folder), settings)):
            if path and gpu and time.monotonic() < until:
                train(args, setting, path, folder)
                ran += 1
            over = setting.used is not None and setting.used > setting.budget
            wrong += over or bool(setting.why)
            note = "over the budget" if over else setting.why
            print(f"{setting.words():58}{mib(setting.budget)} {mib(setting.planned)} {mib(setting.used)}  {note}", flush=True)
    print(f"{len(settings)} settings, {ran} run, {wrong} wrong")
    if ran:
        rows = [{"work": s.recipe, "precision": s.precision, "sets": " ".join(s.sets[:2]), "budget_bytes": s.budget,
                 "planned_bytes": s.planned, "used_bytes": s.used} for s in settings if s.used is not None]
        results_file.write(args.json, rows, "bench/budgets.py BUILD", "used: the highest of nvidia-smi's memory.used less its value before",
                           gpu="h200")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
