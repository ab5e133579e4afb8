"""overlap.py -- bytes move while kernels run: over a link so slow that moving takes 30 % of a step, a rank waits for at most a
third of that. What a step then takes was predicted within 15 %, from a probe of one process and the link's own rate.

    overlap.py PLIMSOLL WORK_FOLDER [DEVICE]

With a DEVICE (cuda), whose waits the host does not see, what a step takes longer over the slow link counts as waiting, and the
prediction is printed only.
The link is slowed by slow_wire.c, which is preloaded: it holds back what arrives. Other programs on the machine can only add
to what is waited for, so several tries are made, and those in which the ranks lost their processors often do not count against
it. Skipped (77) without MPI, or where no try was quiet.
"""
import json
import os
import resource
import subprocess
import sys
import time

import rank_runs

PROGRAM, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
BUILD = os.path.dirname(PROGRAM)
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICE = sys.argv[3] if len(sys.argv) > 3 else None
STEP = ["--set", "model.width=192", "--set", "model.depth=6", "--batch", "2", "--set", "accumulate=4"]
STEP += ["--device", DEVICE] if DEVICE else ["--threads", "1", "--backend", "builtin"]
MODEL = ["dit3d-small", *STEP, "--shard", "1", "--steps", "8", "--out", "none", "--json"]
SHARE, WAITED, PREDICTED, TRIES = 0.3, 1 / 3, 0.15, 6
DISTURBED = 40                                                     # times a second that the ranks lose a processor


def launcher():
    """The command that starts two ranks, and the option that gives them variables."""
    for name, flags in (("openmpi", ["--allow-run-as-root", "--oversubscribe"]), ("mpich", [])):
        program, slow = rank_runs.launcher(name), f"{BUILD}/libslow_wire_{name}.so"
        if program and os.path.exists(f"{BUILD}/libplimsoll_mpi_{name}.so") and os.path.exists(slow):
            return [program, *flags, "-n", "2"], slow
    return None, None


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, cwd=HERE, env={**os.environ, "XDG_CONFIG_HOME": WORK}, timeout=300)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout


def slowed(rate):
    """The wire profile of the slowed link: what it holds back needs no processor, so all of it can be hidden."""
    path, why = f"{WORK}/slowed.json", "a test"
    with open(path, "w") as file:
        json.dump({"format": "plimsoll-wire-1", "name": "slowed", "title": "a link held back by slow_wire.c",
                   "inside": {"latency_us": 1, "message_us": 0.3, "bytes_per_s": rate, "shared": False, "peer_bytes": 0, "origin": why},
                   "hidden": {"share": 1, "origin": why}, "held": {"bytes": 0, "origin": why}}, file)
    return path


def train(start, slow=None, rate=0):
    more = ["env", f"LD_PRELOAD={slow}", f"SLOW_WIRE={rate}"] if slow else []
    wire = ["--wire", slowed(rate)] if slow else []
    return json.loads(run([*start, *more, PROGRAM, "train", *MODEL, *wire]))


def switches():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw


def main():
    os.makedirs(WORK, exist_ok=True)
    start, slow = launcher()
    if not start:
        print("skipped: no MPI here (scripts/setup_mpi.sh installs it)")
        return 77
    quiet = 0
    run([PROGRAM, "probe", "--model", "dit3d-small", *STEP])
    for _ in range(TRIES):
        lost, began = switches(), time.time()
        fast = train(start)
        own = fast["step_ms"] - (0 if DEVICE else fast["ranks"]["waited_ms"])      # of computing alone
        moving = SHARE / (1 - SHARE * WAITED) * own                # 30 % of a step that waits for a third of it
        rate = fast["ranks"]["sent_bytes"] / (moving * 1e-3)
        r = train(start, slow, rate)
        moving = r["ranks"]["sent_bytes"] / rate * 1e3
        waited = r["step_ms"] - fast["step_ms"] if DEVICE else r["ranks"]["waited_ms"]
        line = (f"moving {moving:.1f} ms of a step of {r['step_ms']:.1f} ({100 * moving / r['step_ms']:.0f} %), "
                f"waiting {waited:.1f} ms ({100 * waited / moving:.0f} % of moving); {r['predicted_ms']:.1f} ms a step were predicted")
        near = DEVICE or abs(r["predicted_ms"] - r["step_ms"]) <= PREDICTED * r["step_ms"]
        quiet += switches() - lost < DISTURBED * (time.time() - began)
        print(line)
        if waited <= WAITED * moving and moving >= 0.9 * SHARE * r["step_ms"] and near:
            return 0
    if not quiet:
        print(f"skipped: other programs took the processors in each of {TRIES} tries")
        return 77
    print("failed: in every try, more than a third of moving was waited for, or a step took another time than predicted")
    return 1


sys.exit(main())
