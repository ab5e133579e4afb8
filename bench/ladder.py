"""Budget against measured time: one recipe from everything kept down to the minimum, in ten rungs, exact levers only.

    ladder.py BUILD [--device cuda] [--rungs N] [--effort N] [--steps N] [--limit S] [--json FILE] RECIPE [KEY=VALUE ...]

Each rung is a run of bench_step: planned, placed and run. Plans are made in parallel, then the rungs are timed one after the other.
Prints budget, arena, host arena, recomputed nodes, offloaded values, predicted and measured ms."""
import argparse
import os
import sys
import time
from itertools import chain

import results_file
from cuda import Run

MIB = 2 ** 20


def start(args, seconds, *extra):
    command = [os.path.join(args.build, "bench_step"), "--device", args.device, "--steps", str(args.steps), "--effort",
               str(args.effort), "--hold", *extra, args.recipe, *args.sets]
    return Run(command, seconds)


def results(runs, deadline):
    """(bench_step's line, or None; its last message) of each, in order, once all of them are planned."""
    while not all(run.waits() for run in runs):
        time.sleep(0.2)
    for run in runs:
        yield run.result(deadline - time.monotonic())


def minimum(said):
    """The bytes a refusal names: "... needs at least 9.3 GiB (9987654321 bytes) ..."."""
    return int(said.split("at least", 1)[1].split("(", 1)[1].split(" ", 1)[0])


def main():
    parser = argparse.ArgumentParser(description="budget against measured time")
    parser.add_argument("build")
    parser.add_argument("recipe")
    parser.add_argument("sets", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rungs", type=int, default=10)
    parser.add_argument("--effort", type=int, default=20000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for all")
    results_file.add_option(parser)
    args = parser.parse_intermixed_args()
    deadline = time.monotonic() + args.limit
    (kept, failed), (none, why) = results([start(args, args.limit), start(args, args.limit, "--budget", "1")], deadline)
    if not kept:
        print(f"skipped: {failed}")
        return 77
    if none or "at least" not in why:
        print(f"the refusal names no minimum arena: {why}")
        return 1
    low, high = minimum(why), kept["arena"]
    budgets = [low + (high - low) * (args.rungs - 1 - i) // (args.rungs - 1) for i in range(args.rungs)]
    runs = [start(args, deadline - time.monotonic(), "--budget", str(budget)) for budget in budgets[1:]]
    print(f"{'budget MiB':>12} {'arena MiB':>11} {'host MiB':>10} {'recomputed':>10} {'offloaded':>9} {'predicted':>10} {'ms':>9} {'+%':>6}")
    rows = []
    for budget, (row, why) in zip(budgets, chain([(kept, "")], results(runs, deadline))):
        if not row:
            print(f"{budget / MIB:12.0f} {why}", flush=True)
            continue
        print(f"{budget / MIB:12.0f} {row['arena'] / MIB:11.0f} {row['host'] / MIB:10.0f} {row['recomputed']:10} {row['offloaded']:9} "
              f"{row['predicted']:10.1f} {row['ms']:9.1f} {100 * (row['ms'] / kept['ms'] - 1):6.1f}", flush=True)
        rows.append({"work": args.recipe, "variant": "Plimsoll", "budget_mib": budget // MIB, "mib": row["arena"] // MIB, "host_mib": row["host"] // MIB,
                     "recomputed": row["recomputed"], "offloaded": row["offloaded"], "predicted_ms": results_file.figure(row["predicted"]),
                     "ms": results_file.figure(row["ms"])})
    results_file.write(args.json, rows, " ".join(["bench/ladder.py BUILD", args.recipe, *args.sets]),
                 f"Exact levers, effort {args.effort:,}, budgets of the arena from everything kept down to the minimum.", gpu=args.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
