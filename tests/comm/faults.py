"""faults.py -- a rank that is killed or stopped ends all ranks; the newest whole checkpoint then gives the bits of one undisturbed
process, on other numbers of ranks and other levels.

    faults.py PLIMSOLL WORK_FOLDER [--device cuda]

Each case: rank 0 or the last, of one MPI; killed or stopped between steps, and killed while a checkpoint is written. Prints how
long it took until all had ended. Where neither Open MPI nor MPICH is installed, it is skipped (77).
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import rank_runs
from rank_runs import ROOT, SKIPPED, Checks, checkpoint, digest, mpis, newest, ranks, sets, wait_until

PATIENCE, SAVE_EVERY, STEPS, LONGEST = 2, 4, 5000, 90
MODEL = ["dit3d-small"] + sets("batch=1", "accumulate=4", f"save.every={SAVE_EVERY}", "save.keep=2", f"schedule.steps={STEPS}")
COMMON = ["--allow", "none", "--quiet"]
checks = Checks()


class Run:
    def __init__(self, o, name, launch, n):
        self.o, self.name, self.launch, self.out = o, name, launch, f"{o.work}/{name}"
        self.options = COMMON + (["--device", o.device] if o.device else ["--threads", "1", "--backend", "builtin"])
        self.errors = open(f"{self.out}.err", "w+")
        words = [*launch, str(n), o.program, "train", *MODEL, "--steps", str(STEPS), "--out", self.out]
        self.launcher = subprocess.Popen(words + ["--patience", str(PATIENCE)] + self.options, cwd=ROOT, stdout=self.errors,
                                         stderr=self.errors, start_new_session=True)

    def lost(self, rank, how, when):
        """The rank gets the signal as soon as `when` holds; seconds until the launcher had ended."""
        if not checks(wait_until(lambda: when() or self.launcher.poll() is not None, LONGEST) and len(ranks(self.out)) > rank,
                      f"{self.name} did not come so far: {self.said()[-600:]}"):
            return None
        os.kill(ranks(self.out)[rank], how)
        began = time.time()
        try:
            self.launcher.wait(LONGEST)
        except subprocess.TimeoutExpired:
            checks(False, f"{self.name}: not ended after {LONGEST} s")
        took = time.time() - began
        checks(self.launcher.returncode not in (0, None), f"{self.name}: exit {self.launcher.returncode}")
        wait_until(lambda: not ranks(self.out), 2)
        checks(not ranks(self.out), f"{self.name}: ranks are left behind")
        return took

    def said(self):
        return open(self.errors.name, errors="replace").read()

    def goes_on(self, launch, options):
        """Two steps more, as one process would have made them."""
        end = newest(self.out) + 2
        done = rank_runs.run([*launch, self.o.program, "train", "--resume", self.out, "--steps", str(end), "--quiet", *options])
        checks(done.returncode == 0, f"{self.name} continued: exit {done.returncode}: {done.stderr[-600:]}")
        alone = f"{self.o.work}/alone"
        shutil.rmtree(alone, ignore_errors=True)
        rank_runs.run([self.o.program, "train", *MODEL, "--steps", str(end), "--out", alone, *self.options])
        checks(digest(checkpoint(self.out, end)) == digest(checkpoint(alone, end)), f"{self.name} continued: not the bits of one process")

    def end(self):
        for process in [self.launcher.pid, *ranks(self.out).values()]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.launcher.wait()
        self.errors.close()


def between(run):
    return lambda: newest(run.out) >= SAVE_EVERY


def saving(run):
    """A second checkpoint is being written."""
    return lambda: between(run)() and any("step-" in name and not name.endswith((".json", f"{SAVE_EVERY:06d}.safetensors"))
                                          for name in os.listdir(run.out))


def case(o, name, launch, rank, how, when, then):
    run = Run(o, name, launch, 2)
    try:
        took = run.lost(rank, how, when(run))
        if took is None:
            return
        print(f"{name}: all ended after {took:.1f} s", flush=True)
        if how == signal.SIGSTOP:
            says = re.sub(r"\s+", " ", run.said())
            checks(says.count("plimsoll: ") == 1 and re.search(rf"plimsoll: rank {rank} on \S+ has been silent for \d+ s, in step \d+", says),
                   f"{name}: {says[-600:]}")
        run.goes_on(*then)
    finally:
        run.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--device")
    o = parser.parse_args()
    o.program, o.work = os.path.abspath(o.program), os.path.abspath(o.work)
    here = mpis(o.program)
    if not here:
        print("skipped:", rank_runs.missing_mpis(o.program))
        return SKIPPED
    shutil.rmtree(o.work, ignore_errors=True)
    os.makedirs(o.work)
    for name, launch in here.items():
        case(o, f"{name}: rank 1 killed", launch, 1, signal.SIGKILL, between, (launch + ["4"], ["--shard", "3"]))
        case(o, f"{name}: rank 1 stopped", launch, 1, signal.SIGSTOP, between, (launch + ["2"], ["--shard", "0"]))
        case(o, f"{name}: rank 0 stopped", launch, 0, signal.SIGSTOP, between, ([], []))
        case(o, f"{name}: rank 0 killed as it saves", launch, 0, signal.SIGKILL, saving, (launch + ["2"], []))
    print(f"{checks.n} checks over {', '.join(here)}: {checks.failed} failed")
    return 1 if checks.failed else 0


sys.exit(main())
