"""Whole training steps against the PyTorch reference on this machine: the small recipes, and the CPU workloads whose
PyTorch figures are known.

    systems.py BUILD [--steps N] [--rounds N] [--threads N] [--precision fp32,bf16] [--json FILE] [WORK ...]

Both sides run in turns, each run in its own process. The fastest median step of all rounds counts; for PyTorch the faster
of its memory layouts, with the smallest peak of those runs. Ours is the plan that keeps everything. Memory: our arena;
PyTorch's resident memory above that of the process with torch imported; S = fp32 parameters, gradients, Adam and EMA of
what is trained, and the frozen weights. The ratio above S compares what either side needs beyond that."""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "py")]
import find_torch  # noqa: F401,E402
import results_file  # noqa: E402

REF = os.path.join(HERE, "..", "tests", "ref", "bench_ref.py")
MIB = 2 ** 20
SMALL = ["stdiff-small", "stablesr-small", "lag-small", "sashimi-small", "dit3d-small", "dit3d-wrap-small"]
PLAIN = ["optimizer.clip=0", "ema.rule=constant", "accumulate=1"]        # as bench_ref.py trains its own workloads
BASELINES = {                # bench_ref.py's name of the work: arguments of bench_step
    "stdiff": ["stdiff-64x2048", "batch=1", "model.image=[32,64]", "model.observed=3", "model.predicted=3",
               "model.channels=[32,64,64]", "model.groups=8", "model.head_width=32", "model.motion_channels=16",
               "data.kind=moving-shapes"],
    "edge": ["--part", "edge", "stablesr-edge-after", "batch=1", "model.image=128", "model.latent=64",
             "model.vae_mult=[1,2]"],
    "stablesr": ["--part", "unet", "stablesr-edge-after", "batch=1", "model.channels=64", "model.mult=[1,2,2,2]"],
    "lag": ["lag-4x3", "data.kind=coloured-sets"],
    "sashimi": ["sashimi-24576", "model.length=4096", "model.width=32", "model.layers=2", "data.kind=tones"],
    "dit3d-tiny": ["dit3d-tiny", "batch=4"],
    "dit3d-s": ["dit3d-s", "batch=1", "model.patch=[2,4,4]"],
}


def json_lines(command, **more):
    """The JSON lines that a program prints; none, and its last message, if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        print(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return []
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def recipe_file(build, name):
    """The recipe with every key resolved, for the reference to read."""
    out = subprocess.run([os.path.join(build, "plimsoll"), "explain", name, "--json"], check=True, capture_output=True, text=True)
    path = os.path.join(build, f"bench-{name}.json")
    with open(path, "w") as f:
        json.dump(json.loads(out.stdout)["recipe"], f)
    return path


def compare(build, work, precision, args):
    """(ours, theirs): the best run of either side, or None where one did not run."""
    small = work in SMALL
    ours_args = [work] if small else BASELINES[work] + PLAIN
    theirs_arg = recipe_file(build, work) if small else work
    threads = str(args.threads)
    ours, theirs = [], []
    for _ in range(args.rounds):
        ours += json_lines([os.path.join(build, "bench_step"), "--threads", threads, "--steps", str(args.steps), *ours_args,
                            f"precision={precision}"], env={**os.environ, "OMP_NUM_THREADS": threads})
        theirs += json_lines([sys.executable, REF, theirs_arg, "--threads", threads, "--steps", str(args.steps),
                              "--precision", precision])
    best = [min(side, key=lambda r: r["ms"], default=None) for side in (ours, theirs)]
    if best[1]:
        best[1]["peak_mib"] = min(r["peak_mib"] for r in theirs if r["layout"] == best[1]["layout"])
    return best


def row(work, precision, mine, theirs):
    arena, peak, static = mine["arena"] / MIB, theirs["peak_mib"], theirs["static_mib"]
    above = f"{(arena - static) / (peak - static):9.2f}" if peak > static else f"{'-':>9}"
    print(f"{work:18} {precision:5} {mine['ms']:10.1f} {theirs['ms']:10.1f} {theirs['ms'] / mine['ms']:7.2f} "
          f"{arena:9.1f} {peak:9.1f} {static:9.1f} {arena / peak:9.2f} {above}", flush=True)
    same, ours = {"work": work, "precision": precision}, {"ms": results_file.figure(mine["ms"]), "mib": results_file.figure(arena)}
    if peak > static:
        ours["above_s"] = results_file.figure((arena - static) / (peak - static), 3)
    return [{**same, "variant": "Plimsoll", **ours, "pytorch_ratio": results_file.figure(theirs["ms"] / mine["ms"], 3)},
            {**same, "variant": "PyTorch", "ms": results_file.figure(theirs["ms"]), "mib": results_file.figure(peak), "static_mib": results_file.figure(static)}]


def main():
    works = SMALL + list(BASELINES)
    parser = argparse.ArgumentParser(description="training steps against PyTorch")
    parser.add_argument("build")
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(works))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="fp32,bf16")
    results_file.add_option(parser)
    args = parser.parse_intermixed_args()
    for work in args.works:
        if work not in works:
            parser.error(f"there is no work {work}; there are {', '.join(works)}")
    print(f"{'':18} {'':5} {'ours':>10} {'PyTorch':>10} {'PyTorch':>7} {'ours':>9} {'PyTorch':>9} {'S':>9} {'ours /':>9} {'above S':>9}\n"
          f"{'':18} {'':5} {'ms':>10} {'ms':>10} {'/ ours':>7} {'MiB':>9} {'MiB':>9} {'MiB':>9} {'PyTorch':>9} {'':>9}")
    failed, rows = 0, []
    for work in args.works or works:
        for precision in args.precision.split(","):
            best = compare(args.build, work, precision, args)
            if all(best):
                rows += row(work, precision, *best)
            else:
                failed += 1
    results_file.write(args.json, rows, "scripts/bench.sh BUILD systems",
                 f"Taken in turn, the best of {args.rounds} rounds. mib: our arena; PyTorch's resident memory above the start. pytorch_ratio: PyTorch's "
                 "time / ours; above_s: our memory above S / PyTorch's.", threads=args.threads)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
