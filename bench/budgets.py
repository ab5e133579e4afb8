"""Budgets on a GPU, held or not: random settings of all systems, planned for a budget and run by that plan.

    budgets.py BUILD [--plans FOLDER] [--count N] [--seed N] [--jobs N] [--limit S] [--json FILE]

A setting is a recipe, a precision, a batch, an accumulation and a budget between the least and what everything kept takes, stated
runtime included, in whole MiB, drawn at random from --seed. It is planned with `fit --device h200`, which needs the CUDA plugin but no
GPU; --jobs plans are made at a time. Each plan is then run alone by `train --plan --device cuda`: two steps, a validation, samples and
a save. Used is nvidia-smi's memory.used at its highest, read every 20 ms, less its value before the start. A budget is held if used is
not above it.

Plans and results stay in FOLDER (BUILD/budgets). A later call with the same seed goes on from there, so the plans can be made where
there is no GPU, and the runs divided among calls of --limit seconds. Exit 1 if a budget was exceeded, or a plan or run failed."""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import results_file

MIB = 2 ** 20
PLAN_S, RUN_S, READ_S = 1800, 300, 30  # a hang
READINGS = 10                          # fewer say nothing of a run
KEPT = ("budget", "planned", "used", "why")
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
                     *data, *quick, "steps=2", "validate.every=2", "validate.batches=1", "sample.every=2", "sample.n=1",
                     "save.minutes=0", "save.every=2"]
        self.share = draw.random()           # between the least and everything kept
        self.budget = self.planned = self.used = None
        self.why = ""

    def read(self, folder):
        """What an earlier call found out. Failures are tried again."""
        try:
            with open(os.path.join(folder, f"{self.index}.setting.json")) as f:
                old = json.load(f)
        except FileNotFoundError:
            return
        if old["words"] == self.words() and old["share"] == self.share and not old["why"]:
            for key in KEPT:
                setattr(self, key, old[key])

    def write(self, folder):
        with open(os.path.join(folder, f"{self.index}.setting.json"), "w") as f:
            json.dump({"words": self.words(), "share": self.share, **{key: getattr(self, key) for key in KEPT}}, f)

    def arguments(self):
        return [self.recipe, *(word for s in self.sets for word in ("--set", s))]

    def words(self):
        return f"{self.recipe}, {self.precision}, {self.sets[0]}, {self.sets[1]}"


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no message"


def call(command, limit_s):
    """Exit code, stdout, last line of stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return 1, "", f"no end after {limit_s} s"
    return done.returncode, done.stdout, last_line(done.stderr)


def plan(args, setting, until):
    """Makes the plan, unless it is there. setting.why says why it could not be made."""
    setting.read(args.plans)
    path = os.path.join(args.plans, f"{setting.index}.json")
    if (setting.planned and os.path.exists(path)) or time.monotonic() > until:
        return
    setting.used = None
    program = os.path.join(args.build, "plimsoll")
    common = [*setting.arguments(), "--device", "h200", "--json"]
    code, told, setting.why = call([program, "explain", *common, "--effort", "20"], PLAN_S)
    if code == 0:
        told = json.loads(told)
        if not told["device"]["workspaces"]:
            sys.exit("budgets.py: BUILD has no CUDA plugin (make cuda), so its plans would count no workspaces")
        everything = told["peak_bytes"] + told["runtime_bytes"]
        least = min(told.get("minimum_bytes") or everything, everything)
        setting.budget = -int(-(least + (everything - least) * setting.share) // MIB) * MIB
        code, told, setting.why = call([program, "fit", *common, "--budget", str(setting.budget), "--effort", "300", "-o", path], PLAN_S)
    if code == 0:
        told = json.loads(told)
        setting.planned, setting.why = told["peak_bytes"] + told["runtime_bytes"], ""
    setting.write(args.plans)


def gpu_used():
    told = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return int(told.stdout.split()[0]) * MIB if told.returncode == 0 else None


class Watch(threading.Thread):
    """nvidia-smi's figure at its highest, from one process that repeats it. It has begun when this returns."""

    def __init__(self):
        super().__init__(daemon=True)
        self.highest = self.readings = 0
        self.begun = threading.Event()
        self.process = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "20"],
                                        stdout=subprocess.PIPE, text=True)
        self.start()
        self.begun.wait(READ_S)

    def run(self):
        for line in self.process.stdout:
            self.highest = max(self.highest, int(line.split()[0]) * MIB)
            self.readings += 1
            self.begun.set()

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.join()


def train(args, setting):
    out = os.path.join(args.plans, f"run-{setting.index}")
    shutil.rmtree(out, ignore_errors=True)
    before, watch = gpu_used(), Watch()
    first = watch.readings
    code, _, why = call([os.path.join(args.build, "plimsoll"), "train", *setting.arguments(), "--plan",
                         os.path.join(args.plans, f"{setting.index}.json"), "--device", "cuda", "--quiet", "--out", out], RUN_S)
    time.sleep(0.05)
    watch.end()
    shutil.rmtree(out, ignore_errors=True)
    if code:
        setting.why = why
    elif watch.readings - first < READINGS:
        setting.why = f"nvidia-smi was read {watch.readings - first} times only"
    else:
        setting.used = watch.highest - before
    setting.write(args.plans)


def mib(n):
    return f"{n / MIB:10.2f}" if n is not None else f"{'-':>10}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--plans", metavar="FOLDER", help="plans and results (BUILD/budgets)")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which nothing more is begun")
    results_file.add_option(parser)
    args = parser.parse_args()
    args.plans = args.plans or os.path.join(args.build, "budgets")
    os.makedirs(args.plans, exist_ok=True)
    draw = random.Random(args.seed)
    settings = [Setting(draw, i) for i in range(args.count)]
    try:
        gpu = gpu_used() is not None
    except FileNotFoundError:
        gpu = False
    wrong, until = 0, time.monotonic() + args.limit
    print(f"{'MiB':58}{'budget':>10} {'planned':>10} {'used':>10}")
    with ThreadPoolExecutor(args.jobs) as pool:
        for setting, _ in zip(settings, pool.map(lambda s: plan(args, s, until), settings)):
            if setting.planned and setting.used is None and gpu and time.monotonic() < until:
                train(args, setting)
            over = setting.used is not None and setting.used > setting.budget
            wrong += over or bool(setting.why)
            note = "over the budget" if over else setting.why
            print(f"{setting.words():58}{mib(setting.budget)} {mib(setting.planned)} {mib(setting.used)}  {note}", flush=True)
    ran = [s for s in settings if s.used is not None]
    print(f"{len(settings)} settings, {sum(s.planned is not None for s in settings)} planned, {len(ran)} run, {wrong} wrong")
    if ran:
        rows = [{"work": s.recipe, "precision": s.precision, "sets": " ".join(s.sets[:2]), "budget_bytes": s.budget,
                 "planned_bytes": s.planned, "used_bytes": s.used} for s in ran]
        results_file.write(args.json, rows, "bench/budgets.py BUILD", "used: the highest of nvidia-smi's memory.used less its value before",
                           gpu="h200")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
