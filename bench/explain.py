"""How long `explain` takes on every recipe: the balance sheet alone, and with the search for the
minimum budget and the largest batch for every GPU.

    explain.py PLIMSOLL [--json FILE]

CPU seconds, best of three, so that other work on the machine matters little. Steps are those of the plans; if
time grows in proportion to them, the last column stays the same.
"""
import argparse
import json
import math
import os
import resource
import subprocess

import results_file

parser = argparse.ArgumentParser()
parser.add_argument("program", metavar="PLIMSOLL")
results_file.add_option(parser)
args = parser.parse_args()
program = os.path.abspath(args.program)
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def used():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def run(recipe, *options):
    best, text = math.inf, b""
    for _ in range(3):
        start = used()
        text = subprocess.run([program, "explain", recipe, "--json", *options], cwd=here, check=True, capture_output=True).stdout
        best = min(best, used() - start)
    return best, json.loads(text)


points, rows = [], []
print(f"{'recipe':26} {'steps':>7} {'peak GiB':>9} {'sheet s':>8} {'whole s':>9} {'us/step':>8}")
for name in sorted(os.listdir(os.path.join(here, "recipes"))):
    recipe = name.removesuffix(".yaml")
    sheet_s, sheet = run(recipe, "--effort", "-1")
    whole_s, _ = run(recipe)
    steps = sum(p["steps"] for p in sheet["phases"])
    points.append((math.log(steps), math.log(sheet_s)))
    print(f"{recipe:26} {steps:7d} {sheet['peak_bytes'] / 2**30:9.2f} {sheet_s:8.3f} {whole_s:9.3f} {1e6 * sheet_s / steps:8.1f}")
    rows.append({"work": recipe, "steps": steps, "sheet_cpu_s": results_file.figure(sheet_s), "cpu_s": results_file.figure(whole_s)})
n = len(points)
mx, my = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
slope = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
print(f"time of the sheet grows as steps^{slope:.2f}")
results_file.write(args.json, rows, "bench/explain.py BUILD/plimsoll",
             "explain, best of three. sheet_cpu_s: the balance sheet alone; cpu_s: with the minimum and the largest batches.")
