"""bits.py -- sha256 of the final checkpoint is that of one process, for any number of ranks.

    bits.py PLIMSOLL WORK_FOLDER [--all] [--device cuda] [RECIPE...]

Without --all: every small recipe with two or four ranks, the levels and libraries spread over them, and one
plan that recomputes. --all: every recipe with every level, 2 and 4 ranks (two rounds and one), Open MPI and
MPICH, everything kept and 90 % of that, or the minimum if it is more (half an hour). Where neither MPI is
installed, it is skipped (77). --device cuda: the ranks have GPUs, or share one.
"""
import argparse
import itertools
import os
import re
import shutil
import sys

import rank_runs
from rank_runs import SKIPPED, TINY, Checks, checkpoint, digest, mpis, result, sets

STEPS, ACCUMULATE = 2, 4
LEVELS = (0, 1, 2, 3)
COMMON = ["--allow", "none", "--steps", str(STEPS), "--quiet", "--json"]
CPU = ["--threads", "1", "--backend", "builtin"]
# recipe: what a short test runs: (library, ranks, level, small budget)
SHORT = {
    "unet-small": [("openmpi", 2, 0, False), ("mpich", 4, 3, False)],
    "dit3d-small": [("mpich", 2, 1, False)],
    "dit3d-wrap-small": [("openmpi", 2, 3, True)],
    "lag-small": [("mpich", 2, 3, False)],
    "sashimi-small": [("openmpi", 4, 1, False)],
    "stablesr-small": [("openmpi", 2, 1, False), ("mpich", 4, 3, False)],
    "stablesr-vae-small": [("mpich", 2, 2, False)],
    "stdiff-small": [("openmpi", 2, 1, False)],
}
# Without a folder to keep it in, this machine's pace is not measured: a plan within a budget then is the same in every run.
STEADY = {**os.environ, "HOME": "", "XDG_CACHE_HOME": ""}
checks = Checks()


class Recipe:
    """One recipe: its options, and the bits that one process gives."""

    def __init__(self, program, work, name, device):
        self.program, self.work, self.name, self.budgets = program, work, name, {}
        self.options = [name] + sets("batch=1", f"accumulate={ACCUMULATE}", *TINY[name]) + COMMON
        self.options += ["--device", device] if device else CPU
        self.bits, self.by = self.train("1", [])[0], ""

    def train(self, run, options, launch=()):
        """The digest of its last checkpoint, and the result."""
        out = f"{self.work}/{self.name}-{run}"
        done = rank_runs.run([*launch, self.program, "train", *self.options, *options, "--out", out], env=STEADY)
        checks(done.returncode == 0, f"{self.name} {run}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        bits = digest(checkpoint(out, STEPS))
        shutil.rmtree(out, ignore_errors=True)
        return bits, result(done)

    def budget(self, launch, options):
        """Nine tenths of everything kept, or what the refusal of that names as the minimum."""
        base = [*launch, self.program, "train", *self.options, *options, "--out", "none"]
        done = rank_runs.run(base + ["--steps", "1"], env=STEADY)
        tight = str(result(done).get("planned_bytes", 0) * 9 // 10) + "B"
        done = rank_runs.run(base + ["--steps", "1", "--budget", tight], env=STEADY)
        named = re.search(r"needs\s+at\s+least.*?\((\d+)\s+bytes\)", done.stderr, re.S)
        return named.group(1) + "B" if named else tight

    def same(self, library, ranks, level, small):
        run = f"{library}-{ranks}-{level}" + ("-budget" if small else "")
        launch = mpis(self.program)[library] + [str(ranks)]
        options = ["--shard", str(level)] + (["--bucket", "64KiB"] if ranks == 4 else [])
        if small:
            key = (ranks, level)
            self.budgets[key] = self.budgets.get(key) or self.budget(launch, options)
            options += ["--budget", self.budgets[key]]
        bits, got = self.train(run, options, launch)
        checks(bits == self.bits, f"{self.name} {run}: not the bits of one process")
        checks(got.get("planned_bytes") == got.get("measured_bytes"), f"{self.name} {run}: planned and measured differ")
        self.by = got.get("ranks", {}).get("by", "")
        return got.get("recomputed_nodes", 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("recipes", nargs="*")
    o = parser.parse_intermixed_args()                        # recipes may follow options
    program, work = os.path.abspath(o.program), os.path.abspath(o.work)
    here, recomputed, n = mpis(program), 0, 0
    if not here:
        print("skipped:", rank_runs.missing_mpis(program))
        return SKIPPED
    if rank_runs.missing_mpis(program):
        print(rank_runs.missing_mpis(program))
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    for name in o.recipes or TINY:
        recipe = Recipe(program, work, name, o.device)
        runs = itertools.product(here, (2, 4), LEVELS, (False, True)) if o.all else SHORT[name]
        for library, ranks, level, small in runs:
            if library in here:
                recomputed += recipe.same(library, ranks, level, small) > 0
                n += 1
        print(f"{name}: {recipe.bits[:16]}" + (f", by {recipe.by}" if recipe.by else ""), flush=True)
    checks(recomputed or o.recipes, "no plan recomputed anything: the budgets were too large")
    print(f"{n} runs of several ranks over {', '.join(here)}, {recomputed} that recompute: {checks.failed} failed")
    return 1 if checks.failed else 0


sys.exit(main())
