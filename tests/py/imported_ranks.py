"""imported_ranks.py -- a model of the user's own (torch.export) on several ranks: the bits of one process, batch norm and dropout
included; a number that is not finite at one rank alone is named with its rank, and the steps before it are saved.

    imported_ranks.py PLIMSOLL WORK_FOLDER

Needs PyTorch and an MPI; skipped (77) without.
"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "comm"))
import rank_runs                                              # noqa: E402
from rank_runs import SKIPPED, Checks, checkpoint, digest, mpis, sets    # noqa: E402

PROGRAM, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SAMPLES, BATCH = 64, 4
COMMON = sets("accumulate=4") + ["--allow", "none", "--threads", "1", "--backend", "builtin", "--quiet"]
checks = Checks()


def export(torch, normed):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 32, 3, stride=2, padding=1)
            self.norm = torch.nn.BatchNorm2d(16) if normed else torch.nn.Identity()
            self.drop, self.head = torch.nn.Dropout(0.1), torch.nn.Linear(32, 10)

        def forward(self, x, y):
            x = torch.relu(self.norm(self.first(x)))
            x = torch.relu(self.second(x)).mean((2, 3))
            return torch.nn.functional.cross_entropy(self.head(self.drop(x)), y)

    torch.manual_seed(0)
    inputs = torch.randn(BATCH, 3, 16, 16), torch.randint(0, 10, (BATCH,))
    torch.export.save(torch.export.export(Net().train(), inputs), f"{WORK}/{'normed' if normed else 'plain'}.pt2")


def data(np, name, bad):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((SAMPLES, 3, 16, 16)).astype(np.float32), rng.integers(0, 10, SAMPLES)
    if bad is not None:
        x[bad] = np.nan
    os.makedirs(f"{WORK}/{name}", exist_ok=True)
    np.save(f"{WORK}/{name}/x.npy", x)
    np.save(f"{WORK}/{name}/y.npy", y)


def train(what, words, launch=(), expect=0):
    done = rank_runs.run([*launch, PROGRAM, "train", *words, *COMMON], timeout=120)
    checks(done.returncode == expect, f"{what}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done


def same_bits(launches):
    words = [f"{WORK}/normed.pt2", "--data", f"{WORK}/good", "--steps", "3"]
    train("one process", words + ["--out", f"{WORK}/one"])
    for i, (launch, ranks, shard) in enumerate(((launches[0], 2, 3), (launches[-1], 4, 1))):
        out = f"{WORK}/many-{i}"
        train(f"{ranks} ranks", words + ["--out", out, "--shard", str(shard), "--bucket", "64KiB"], launch + [str(ranks)])
        checks(digest(checkpoint(out, 3)) == digest(checkpoint(f"{WORK}/one", 3)), f"{ranks} ranks, level {shard}: other bits")


def not_finite(launch):
    """Whichever rank the bad sample comes to, step N - 1 is saved as one process saves it."""
    words = [f"{WORK}/plain.pt2", "--data", f"{WORK}/bad", "--steps", "8", "--patience", "20"]
    one = train("one process, not finite", words + ["--out", f"{WORK}/bad-one"], expect=1)
    many = train("2 ranks, not finite", words + ["--out", f"{WORK}/bad-many"], launch + ["2"], expect=1)
    said = [line for line in many.stderr.splitlines() if line.startswith("plimsoll:")]
    checks(len(said) == 1 and "on rank" in said[0], f"not finite: {many.stderr}")
    step = next((n for n in range(1, 8) if os.path.exists(checkpoint(f"{WORK}/bad-one", n))), 0)
    checks(step > 0 and f"step {step} is saved" in one.stderr, f"not finite: {one.stderr}")
    checks(digest(checkpoint(f"{WORK}/bad-one", step)) == digest(checkpoint(f"{WORK}/bad-many", step)),
           f"not finite: step {step} of 2 ranks is not that of one process")


def main():
    launches = list(mpis(PROGRAM).values())
    if not launches:
        print("skipped:", rank_runs.missing_mpis(PROGRAM))
        return SKIPPED
    try:
        import numpy
        import torch
    except ImportError as missing:
        print("skipped:", missing)
        return SKIPPED
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    for normed in (True, False):
        export(torch, normed)
    data(numpy, "good", None)
    data(numpy, "bad", 5)
    same_bits(launches)
    not_finite(launches[0])
    print(f"{checks.n} checks over {', '.join(mpis(PROGRAM))}: {checks.failed} failed")
    return 1 if checks.failed else 0


sys.exit(main())
