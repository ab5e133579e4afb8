"""The benches of the package run, on small models of the CPU: what a GPU machine is asked for must
not fail there first.

    benches.py LIBPLIMSOLL
"""
import json
import os
import subprocess
import sys
import tempfile

from checkers import ROOT, check, done

environment = {**os.environ, "PLIMSOLL_LIBRARY": os.path.abspath(sys.argv[1])}


def run(script, *words):
    command = [sys.executable, os.path.join(ROOT, "bench", script), "small", *words]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    check("%s ends well %s" % (script, ended.stderr[-300:]), ended.returncode == 0)
    return ended.stdout


calls = run("torch_workspaces.py", "--models", "mixed", "--list").splitlines()
check("convolutions in both precisions", sum(" float32 " in c for c in calls)
      == sum(" bfloat16 " in c for c in calls) > 2)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "rows.json")
    run("torch_fit.py", "--models", "perceptron", "--precision", "fp32", "--shares", "0.8",
        "--effort", "50", "--steps", "1", "--together", "2", "--device", "cpu", "--json", path)
    with open(path) as f:
        rows = {r["variant"]: r for r in json.load(f)["rows"]}
    check("the plain step was measured", rows["plain"]["measured_bytes"] > 0)
    check("fit kept its budget", rows["fit"]["measured_bytes"] <= rows["fit"]["budget_bytes"])
    check("what a model cannot do is told", "gradient_checkpointing" in rows["checkpoint"]["error"])

sys.path.insert(0, os.path.join(ROOT, "bench"))
os.environ["PLIMSOLL_LIBRARY"] = environment["PLIMSOLL_LIBRARY"]
import torch_live

steps = list(torch_live.predicted_events("small", "perceptron", "fp32", "2.11"))
bytes_, live = torch_live.live_at_peak(steps[1])
more, other = torch_live.live_at_peak([("a", 12345, "user.py:3"), *steps[1]])
check("torch_live: two steps, the same beside itself", len(steps) == 2
      and not torch_live.differences(live, live, 9))
check("torch_live: a tensor more is told", more == bytes_ + 12345
      and "measured 1; 1 of user.py:3" in torch_live.differences(live, other, 9)[0])
done()
