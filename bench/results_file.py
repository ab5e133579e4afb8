"""A benchmark's figures as a results file (bench/results/README.md): the option --json FILE of every bench.

The machine's name is BENCH_MACHINE, or cpu-Nc with the number of processors. bench/results_file.h does the same in C.
"""
import json
import os
from datetime import date


def add_option(parser):
    parser.add_argument("--json", metavar="FILE", help="also write the figures as a results file")


def figure(value, digits=4):
    """A measured number with the digits that mean something."""
    return float(f"{value:.{digits}g}")


def cpu():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return f"{names[0] if names else 'unknown type'}, {os.cpu_count()} processors"


def write(path, rows, command, note, **machine):
    """Does nothing without a path. machine: gpu, versions, threads; the CPU if there is no gpu."""
    if not path:
        return
    name = os.environ.get("BENCH_MACHINE") or f"cpu-{os.cpu_count()}c"
    head = {"format": "plimsoll-bench-1", "date": date.today().isoformat(),
            "machine": {"name": name, **({} if "gpu" in machine else {"cpu": cpu()}), **machine}, "command": command, "note": note}
    with open(path, "w") as f:
        f.write("{\n" + "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items()))
        f.write('  "rows": [\n' + ",\n".join("    " + json.dumps(row) for row in rows) + "\n  ]\n}\n")
