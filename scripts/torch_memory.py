#!/usr/bin/env python3
"""Plans the works whose PyTorch memory is known and writes our side of docs/user/TORCH_MEMORY.md as data.

    torch_memory.py PLIMSOLL [CACHE]     CACHE: a folder that keeps the program's answers between calls

Reads bench/results/*-pytorch-memory.json, writes bench/results/TODAY-planned-memory.json in place of the one
before, and takes some minutes. scripts/docs_tables.py then writes the tables.
"""
import json
import os
import sys
from datetime import date
from glob import glob

from ask import HERE, Tool

RESULTS = os.path.join(HERE, "bench", "results")
MIB = 1 << 20
AS_BENCHED = ["--set", "ema.rule=constant", "--set", "accumulate=1"]


def half_way(tool, row, peak, goal):
    """What it costs in predicted time to come down to `goal` bytes by recomputation alone."""
    if peak <= goal:
        return "as it is"
    r = tool.ask("fit", row["recipe"], "--threads", "2", *row["options"], *AS_BENCHED, "--precision", row["precision"], "--allow", "none",
                 "--effort", "2000", "--budget", str(int(goal)), "--json")
    return f"{100 * (r['time']['slowdown'] - 1):+.1f} %" if r["fits"] else "no plan"


def plan(tool, row):
    r = tool.ask("explain", row["recipe"], "--threads", "2", *row["options"], *AS_BENCHED, "--precision", row["precision"], "--json")
    weights = r["parameters"]
    s = 4 * (weights["count"] - weights["trainable"]) + 20 * weights["trainable"]
    half = half_way(tool, row, r["peak_bytes"], s + (row["mib"] * MIB - s) / 2)
    return r["device"], {"work": row["work"], "variant": "Plimsoll", "precision": row["precision"], "bytes": r["peak_bytes"],
                         "static_bytes": s, "parameters": weights["count"], "half": half, "min_bytes": r["minimum_bytes"]}


def main():
    tool = Tool(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    rows, device = [], None
    for path in sorted(glob(os.path.join(RESULTS, "*-pytorch-memory.json"))):
        with open(path) as f:
            theirs = json.load(f)
        for row in theirs["rows"]:
            device, ours = plan(tool, row)
            rows.append({**ours, "beside": theirs["machine"]["name"]})
            print(f"{row['work']}, {row['precision']}: {ours['bytes']:,} bytes", file=sys.stderr, flush=True)
    head = {"format": "plimsoll-bench-1", "date": date.today().isoformat(),
            "machine": {"name": "planned", "cpu": device["model"], "versions": {"library": device["library"]}, "threads": device["threads"]},
            "command": "scripts/torch_memory.py BUILD/plimsoll",
            "note": "Planned, not run. bytes: the arena with everything kept; static_bytes: S; half: predicted time, by roofline, of a plan at half of "
                    "PyTorch's bytes above S by recomputation alone (fit --allow none --effort 2000); min_bytes: the smallest arena that explain's "
                    "short search finds; beside: the machine of PyTorch's figure."}
    for path in glob(os.path.join(RESULTS, "*-planned-memory.json")):
        os.remove(path)
    with open(os.path.join(RESULTS, f"{head['date']}-planned-memory.json"), "w") as f:
        f.write("{\n" + "".join(f"  {json.dumps(k)}: {json.dumps(v)},\n" for k, v in head.items()))
        f.write('  "rows": [\n' + ",\n".join("    " + json.dumps(row) for row in rows) + "\n  ]\n}\n")


main()
