"""rank_samples.py -- sampling and evaluation by several ranks give the files and figures of one process.

    rank_samples.py PLIMSOLL WORK_FOLDER

The ranks share results by their numbers: 5 results and 3 samples are chosen so that the last ranks have less to
do, or nothing. Where neither Open MPI nor MPICH is installed, it is skipped (77).
"""
import glob
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "comm"))
import rank_runs                                              # noqa: E402
from rank_runs import SKIPPED, TINY, Checks, digest, mpis, result, sets    # noqa: E402

PROGRAM, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
COMMON = ["--threads", "1", "--backend", "builtin", "--quiet"]
MODELS = {"lag-small": 2, "sashimi-small": 3, "stablesr-small": 2, "stdiff-small": 4}    # and the ranks that share it
checks = Checks()


def run(what, words, launch=(), expect=0):
    done = rank_runs.run([*launch, PROGRAM, *words])
    checks(done.returncode == expect, f"{what}: exit {done.returncode}: {done.stderr.strip()[-600:]}")
    return done


def files(folder):
    return {os.path.relpath(path, folder): digest(path) for path in glob.glob(f"{folder}/**", recursive=True)
            if os.path.isfile(path)}


def sampled(name, launch, ranks, n=5):
    """The files, and what is said of them but for the time and the bytes of one rank."""
    folder = f"{WORK}/{name}-samples-{ranks}"
    steps = [] if name in ("sashimi-small", "stablesr-vae-small") else ["--steps", "3"]
    done = run(f"{name}: {ranks} ranks sample", ["sample", f"{WORK}/{name}", "-n", str(n), "-o", folder, *steps, *COMMON], launch)
    return files(folder), [line.replace(folder, "") for line in done.stdout.splitlines() if " drawn in " not in line]


def evaluated(name, launch, ranks):
    pairs = ["--pairs", f"{WORK}/{name}-pairs-{ranks}"] if name == "stablesr-small" else []
    times = [] if name == "sashimi-small" else ["--timesteps", "2"]
    done = run(f"{name}: {ranks} ranks evaluate", ["evaluate", f"{WORK}/{name}", "-n", "3", *times, "--json", *pairs, *COMMON], launch)
    found = result(done)
    for key in ("seconds", "planned_bytes", "measured_bytes"):
        found.pop(key, None)
    return found, files(f"{WORK}/{name}-pairs-{ranks}")


def enlarged(launch, ranks):
    folder = f"{WORK}/enlarged-{ranks}"
    done = run(f"{ranks} ranks enlarge", ["sample", f"{WORK}/stablesr-small", "--input", f"{WORK}/inputs", "--scale", "2", "-o", folder,
                                          "--steps", "2", *COMMON], launch)
    return files(folder), [line.replace(folder, "") for line in done.stdout.splitlines() if " drawn in " not in line]


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(f"{WORK}/inputs")
    here = mpis(PROGRAM)
    if not here:
        print("skipped:", rank_runs.missing_mpis(PROGRAM))
        return SKIPPED
    for i, (name, ranks) in enumerate(MODELS.items()):
        launch = list(here.values())[i % len(here)] + [str(ranks)]
        run(f"{name}: training", ["train", name, *sets("batch=1", *TINY[name]), "--steps", "1", "--out", f"{WORK}/{name}", *COMMON])
        one, many = sampled(name, (), 1), sampled(name, launch, ranks)
        checks(len(one[0]) > 5 and one == many, f"{name}: {ranks} ranks sample {many}, one process {one}")
        one, many = evaluated(name, (), 1), evaluated(name, launch, ranks)
        checks(one[0].get("loss") and one == many, f"{name}: {ranks} ranks find {many}, one process {one}")
    # With 8 results at once the first maps have tiles enough for another algorithm than with 4: ranks take that of all.
    launch = list(here.values())[0]
    run("stablesr-vae-small: training", ["train", "stablesr-vae-small", *sets("batch=1"), "--steps", "1", "--out",
                                         f"{WORK}/stablesr-vae-small", *COMMON])
    one, many = sampled("stablesr-vae-small", (), 1, 8), sampled("stablesr-vae-small", launch + ["2"], 2, 8)
    checks(len(one[0]) > 8 and one == many, f"stablesr-vae-small: 2 ranks sample {many}, one process {one}")
    for i in range(3):
        shutil.copy(f"{WORK}/stablesr-small-samples-1/sample-00{i}.png", f"{WORK}/inputs/{i}.png")
    launch = list(here.values())[-1]
    one, many = enlarged((), 1), enlarged(launch + ["2"], 2)
    checks(len(one[0]) == 3 and one == many, f"2 ranks enlarge {many}, one process {one}")
    done = run("no such run", ["sample", f"{WORK}/none", *COMMON], launch + ["2"], expect=2)
    checks("is not a run" in done.stderr, f"no such run: {done.stderr}")
    print(f"{checks.n} checks over {', '.join(here)}: {checks.failed} failed")
    return 1 if checks.failed else 0


sys.exit(main())
