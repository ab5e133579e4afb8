#!/usr/bin/env python3
"""soak.py PROGRAM WORK_FOLDER [STEPS] -- a long run (20,000 steps) stays as it is: resident memory, open descriptors and step time.

The run saves, validates and samples all the time, with all its data from files. Every twentieth of it a line is printed. It fails if
memory grows after the first line, if a descriptor stays open, or if steps become slower than others of the same run.
"""
import json
import os
import statistics
import subprocess
import sys
import time

LINES = 20
GROWTH_BYTES = 256 << 10  # the C library's own; a leak of 16 bytes a step would be 320 KiB
SLOWER = 1.5              # a machine that others use too
SMALL = ["unet-small", "--threads", "1", "--backend", "builtin", "--batch", "2", "--quiet"]
for key in ("model.widths=[8]", "model.groups=4", "model.heads=2", "model.height=8", "model.width=8", "save.keep=3",
            "schedule.kind=constant", "save.every=100", "validate.every=50", "validate.batches=2", "sample.every=500", "sample.n=2",
            "sampler.steps=4"):
    SMALL += ["--set", key]


def log_ms(folder):
    """Times of the steps in the log. Lines may be incomplete at the end."""
    times = []
    try:
        with open(f"{folder}/log.jsonl") as log:
            for line in log:
                if line.endswith("}\n"):
                    times.append(json.loads(line)["ms"])
    except FileNotFoundError:
        pass
    return times


def resident(pid):
    with open(f"/proc/{pid}/smaps_rollup") as rows:
        return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("Rss:"))


def descriptors(pid):
    return sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))


def main():
    program, work, steps = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int((sys.argv[3:] or ["20000"])[0])
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.environ["OMP_WAIT_POLICY"] = "passive"
    subprocess.run(["rm", "-rf", work], check=True)
    os.makedirs(work)
    first = [program, "train", *SMALL, "--steps", "0", "--out", f"{work}/first"]
    subprocess.run(first, cwd=root, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([program, "sample", f"{work}/first", "-n", "64", "--steps", "1", "-o", f"{work}/data", "--quiet"], cwd=root,
                   check=True, stdout=subprocess.DEVNULL)
    os.remove(f"{work}/data/samples.png")
    folder = f"{work}/run"
    process = subprocess.Popen([program, "train", *SMALL, "--steps", str(steps), "--data", f"{work}/data", "--out", folder],
                               cwd=root, stdout=subprocess.DEVNULL)
    part, seen, rows = max(1, steps // LINES), 0, []
    print("   steps  resident, KiB  descriptors  median step, ms")
    while process.poll() is None:
        times = log_ms(folder)
        if len(times) < seen + part:
            time.sleep(0.05)
            continue
        seen += part
        try:
            fds = descriptors(process.pid)
            rows.append((seen, resident(process.pid), len([fd for fd in fds if ".tmp" not in fd]),
                         statistics.median(times[seen - part:seen])))
        except (FileNotFoundError, ProcessLookupError, StopIteration, PermissionError):
            break  # it ended
        print(f"{rows[-1][0]:8d} {rows[-1][1] // 1024:14d} {rows[-1][2]:12d} {rows[-1][3]:16.3f}", flush=True)
    code = process.wait()
    wrong = [f"the run ended with exit code {code}"] if code else []
    if len(log_ms(folder)) != steps:
        wrong.append(f"{len(log_ms(folder))} steps are in the log")
    if len(rows) < 5:
        wrong.append("too few samples: ask for more steps")
    else:
        if rows[-1][1] > rows[0][1] + GROWTH_BYTES:
            wrong.append(f"resident memory grew by {rows[-1][1] - rows[0][1]} bytes")
        if min(row[2] for row in rows[-3:]) > min(row[2] for row in rows[:3]):  # a folder may be open for a moment
            wrong.append("descriptors stay open")
        middle = statistics.median(row[3] for row in rows)
        if min(row[3] for row in rows[-3:]) > SLOWER * middle:
            wrong.append("steps became slower")
    print("\n".join(wrong) or "resident memory, descriptors and step time are flat")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
