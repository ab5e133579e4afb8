"""ranks.py -- a whole run of several ranks: validation, samples, a stop, other numbers of ranks; and refusals.

    ranks.py PLIMSOLL WORK_FOLDER

Runs over MPI on this machine; where neither Open MPI nor MPICH is installed, it is skipped (77). That every
recipe gives the bits of one process is shown by tests/comm/bits.py.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "comm"))
import rank_runs                                              # noqa: E402
from rank_runs import SKIPPED, TINY, Checks, checkpoint, digest, mpis, sets    # noqa: E402

PROGRAM, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
COMMON = ["--set", "batch=1", "--allow", "none", "--threads", "1", "--backend", "builtin", "--quiet", "--json"]
BASE = ["unet-small"] + sets(*TINY["unet-small"]) + COMMON
checks = Checks()


def train(what, options, launch=(), expect=0):
    """launch: the words before the program, or a list of such words for each rank, joined by ':'."""
    done = rank_runs.run([*launch, PROGRAM, "train", *options])
    checks(expect in (done.returncode, None), f"{what}: exit {done.returncode}: {done.stderr.strip()[-600:]}")
    return done


def log(run):
    """Every number of the log that is not a time or a memory."""
    rows = []
    for line in open(f"{WORK}/{run}/log.jsonl"):
        rows.append({key: value for key, value in json.loads(line).items()
                     if key in ("step", "loss", "lr", "grad_norm", "val_loss", "validation")})
    return rows


def bits(run, step):
    return digest(checkpoint(f"{WORK}/{run}", step))


def whole_run(first, last):
    """Validation, samples, bf16; stopped and continued by other numbers of ranks."""
    base = BASE + ["--precision", "bf16"] + sets(
        "accumulate=4", "validate.every=2", "validate.batches=2", "sample.every=4", "sample.n=2", "sampler.steps=2",
        "schedule.steps=4", "save.every=2")
    train("whole-1", base + ["--steps", "4", "--out", f"{WORK}/whole-1"])
    train("whole-4", base + ["--steps", "2", "--bucket", "16KiB", "--out", f"{WORK}/whole-4"], last + ["4"])
    train("whole-4", ["--resume", f"{WORK}/whole-4", "--steps", "3", "--quiet"], first + ["2"])
    train("whole-4", ["--resume", f"{WORK}/whole-4", "--steps", "4", "--quiet"])
    checks(bits("whole-1", 4) == bits("whole-4", 4), "4, then 2, then 1 rank: not the weights of one process")
    checks(log("whole-1") == log("whole-4"), "4, then 2, then 1 rank: another log")
    samples = [sorted(glob.glob(f"{WORK}/whole-{n}/samples/*/*")) for n in (1, 4)]
    checks(samples[0] and len(samples[0]) == len(samples[1]), "samples are missing")
    for one, other in zip(*samples):
        checks(digest(one) == digest(other), f"{other} differs")
    train("whole-2", base + ["--steps", "4", "--out", f"{WORK}/whole-2"], first + ["2"])
    checks(bits("whole-1", 4) == bits("whole-2", 4), "2 ranks that validate and sample: not the weights of one process")


def stopped(name, launch):
    """mpirun is asked to end: the ranks save, however often it passes that on, and another number of ranks continues."""
    run, steps = f"{WORK}/stopped-{name}", 400
    base = BASE + sets("accumulate=2", f"schedule.steps={steps}", "save.every=100000")
    mpirun = subprocess.Popen([*launch, "2", PROGRAM, "train", *base, "--steps", str(steps), "--out", run], cwd=rank_runs.ROOT,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.time() + 60
    while time.time() < deadline and mpirun.poll() is None and not (os.path.exists(f"{run}/log.jsonl") and os.path.getsize(f"{run}/log.jsonl")):
        time.sleep(0.02)
    mpirun.send_signal(signal.SIGTERM)
    mpirun.wait(timeout=60)
    saved = glob.glob(f"{run}/step-*.safetensors")
    if not checks(len(saved) == 1, f"{name}: after SIGTERM {len(saved)} checkpoints"):
        return
    at = int(re.search(r"step-(\d+)", saved[0]).group(1))
    end = min(at + 2, steps)
    train("continued", ["--resume", run, "--steps", str(end), "--quiet"])
    train("whole", base + ["--steps", str(end), "--out", f"{run}-whole"])
    checks(digest(checkpoint(run, end)) == digest(checkpoint(f"{run}-whole", end)), f"{name}: stopped at step {at}: other bits at {end}")


def refusals(launch):
    base = BASE + ["--steps", "1", "--out", "none"]
    done = train("ranks do not divide", base + sets("accumulate=3"), launch + ["2"], expect=2)
    checks("--set accumulate=4" in done.stderr, f"ranks that do not divide accumulate: {done.stderr}")
    last = '[ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 1 ] && %s; exec "$@"'                 # other words at rank 1
    for i, steps in enumerate((1, 2)):                                                          # weights to start with
        shutil.rmtree(f"{WORK}/weights-{i}", ignore_errors=True)
        train("weights", BASE + ["--steps", str(steps), "--out", f"{WORK}/weights-{i}"])
    init = f"--init {WORK}/weights-1/step-000002.safetensors"
    more = {"--threads 2": "the same number of threads", "--device cuda": "rank 1 on ", "--nosuch": "rank 1 on ", "--out": "rank 1 on ",
            f"--out {WORK}/elsewhere": "the same --out", "--check-ranks 3": "the same --check-ranks", "--seed 9": "the same --seed",
            "--shard 3": "the same --shard", "--plan nosuch.json": "rank 1 on "}
    cases = [(option, base, f'set -- "$@" {option}', says) for option, says in more.items()]
    cases += [("another instruction set", base, "export PLIMSOLL_ISA=v2", "the same instruction set"),
              ("other weights", base + ["--init", f"{WORK}/weights-0/step-000001.safetensors"], f'set -- "$@" {init}',
               "starts with other parameters")]
    for what, words, change, says in cases:
        done = train(f"rank 1 with {what}", words, launch + ["2", "sh", "-c", last % change, "sh"], expect=2)
        said = re.sub(r"\s+", " ", done.stderr)
        checks(said.count("plimsoll: ") == 1 and says in said, f"rank 1 with {what}: {done.stderr}")
    done = train("rank 1 ends before it joins", base + ["--patience", "3"], launch + ["2", "sh", "-c", last % "exit 3", "sh"], expect=None)
    checks(done.returncode != 0, f"rank 1 ends before it joins: exit 0: {done.stderr}")
    done = train("a wrong option at all ranks", base + ["--nosuch"], launch + ["2"], expect=2)
    checks(done.stderr.count("plimsoll: ") == 1, f"a wrong option at all ranks: {done.stderr}")
    done = train("level 7", base + ["--shard", "7"], expect=2)
    checks("--shard is" in done.stderr, f"--shard 7: {done.stderr}")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    here = list(mpis(PROGRAM).values())
    if not here:
        print("skipped:", rank_runs.missing_mpis(PROGRAM))
        return SKIPPED
    whole_run(here[0], here[-1])
    for launch in here:
        refusals(launch)
    for name, launch in mpis(PROGRAM).items():
        stopped(name, launch)
    print(f"{checks.n} checks over {', '.join(mpis(PROGRAM))}: {checks.failed} failed")
    return 1 if checks.failed else 0


sys.exit(main())
