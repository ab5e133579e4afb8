"""ranks.py -- several ranks give the bits of one process: weights, samples, log, on every small recipe.

    ranks.py PLIMSOLL WORK_FOLDER [RECIPE...]

Runs over MPI on this machine; where neither Open MPI nor MPICH is installed, it is skipped (77).
"""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

PROGRAM, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The smallest sizes that keep every kind of node; stablesr-small has batch norm.
TINY = {
    "unet-small": ["model.widths=[8]", "model.groups=4", "model.heads=2", "model.height=8", "model.width=8"],
    "dit3d-small": [],
    "lag-small": [],
    "sashimi-small": [],
    "stablesr-small": [],
}
COMMON = ["--set", "batch=1", "--allow", "none", "--threads", "1", "--backend", "builtin", "--quiet", "--json"]
failed = []


def launchers():
    """By the name of a plugin: the command that starts N processes with it."""
    found = {}
    plugins = os.path.dirname(PROGRAM)
    for name, flags in (("openmpi", ["--allow-run-as-root", "--oversubscribe"]), ("mpich", [])):
        program = shutil.which("mpirun." + name)
        if program and os.path.exists(f"{plugins}/libplimsoll_mpi_{name}.so"):
            found[name] = [program] + flags
    return found


def check(what, good):
    if not good:
        failed.append(what)
        print("failed:", what)


def train(run, options, launcher=None, ranks=1, expect=0):
    command = (launcher + ["-n", str(ranks)] if ranks > 1 else []) + [PROGRAM, "train"] + options
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=300)
    if done.returncode != expect:
        check(f"{run}: exit {done.returncode}: {done.stderr.strip()[-600:]}", False)
    return done


def result(done):
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {}


def digest(run, step):
    try:
        with open(f"{WORK}/{run}/step-{step:06d}.safetensors", "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        return str(error)


def log(run):
    """Every number of the log that is not a time or a memory."""
    rows = []
    for line in open(f"{WORK}/{run}/log.jsonl"):
        rows.append({key: value for key, value in json.loads(line).items()
                     if key in ("step", "loss", "lr", "grad_norm", "val_loss", "validation")})
    return rows


def sets(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def same_bits(recipe, launcher):
    options = [recipe] + sets("accumulate=4", *TINY[recipe]) + COMMON + ["--steps", "2"]
    train("one", options + ["--out", f"{WORK}/{recipe}-1"])
    want = digest(f"{recipe}-1", 2)
    for ranks, level in ((2, "1"), (4, "0")):
        run = f"{recipe}-{ranks}"
        more = ["--bucket", "64KiB"] if ranks == 4 else []
        got = result(train(run, options + more + ["--shard", level, "--out", f"{WORK}/{run}"], launcher, ranks))
        check(f"{run}, level {level}: not the weights of one process", digest(run, 2) == want)
        check(f"{run}: measured bytes are not the planned ones",
              got.get("planned_bytes") == got.get("measured_bytes"))


def whole_run(launchers_here):
    """Validation, samples, a budget, bf16; stopped and continued by other numbers of ranks."""
    first = list(launchers_here.values())[0]
    last = list(launchers_here.values())[-1]
    base = ["unet-small"] + COMMON + ["--precision", "bf16"] + sets(
        "accumulate=4", "validate.every=2", "validate.batches=2", "sample.every=4", "sample.n=2", "sampler.steps=2",
        "schedule.steps=4", "save.every=2", *TINY["unet-small"])
    train("whole-1", base + ["--steps", "4", "--out", f"{WORK}/whole-1"])
    train("whole-4", base + ["--steps", "2", "--bucket", "16KiB", "--out", f"{WORK}/whole-4"], last, 4)
    train("whole-4", ["--resume", f"{WORK}/whole-4", "--steps", "3", "--quiet"], first, 2)
    train("whole-4", ["--resume", f"{WORK}/whole-4", "--steps", "4", "--quiet"])
    check("4, then 2, then 1 rank: not the weights of one process",
          digest("whole-1", 4) == digest("whole-4", 4))
    check("4, then 2, then 1 rank: another log", log("whole-1") == log("whole-4"))
    samples = [sorted(glob.glob(f"{WORK}/whole-{n}/samples/*/*")) for n in (1, 4)]
    check("samples are missing", samples[0] and len(samples[0]) == len(samples[1]))
    for one, other in zip(*samples):
        check(f"{other} differs", open(one, "rb").read() == open(other, "rb").read())
    train("whole-2", base + ["--steps", "4", "--out", f"{WORK}/whole-2"], first, 2)
    check("2 ranks that validate and sample: not the weights of one process",
          digest("whole-1", 4) == digest("whole-2", 4))


def refusals(launcher):
    base = ["unet-small"] + sets(*TINY["unet-small"]) + COMMON + ["--steps", "1", "--out", "none"]
    done = train("ranks do not divide", base + sets("accumulate=3"), launcher, 2, expect=2)
    check(f"ranks that do not divide accumulate: {done.stderr}", "--set accumulate=4" in done.stderr)
    done = train("level 7", base + ["--shard", "7"], expect=2)
    check(f"--shard 7: {done.stderr}", "--shard is" in done.stderr)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    here = launchers()
    if not here:
        print("skipped: no MPI here (scripts/setup_mpi.sh installs it)")
        return 77
    launcher = list(here.values())[0]
    names = sys.argv[3:] or list(TINY)
    for recipe in names:
        same_bits(recipe, launcher)
    if not sys.argv[3:]:
        whole_run(here)
        refusals(launcher)
    print(f"{len(names)} recipes over {', '.join(here)}: {len(failed)} failed")
    return 1 if failed else 0


sys.exit(main())
