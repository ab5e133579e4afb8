"""Public models, exported and compared with PyTorch: loss, gradients and three updates, without and with dropout.

    zoo.py BUILD_FOLDER WORK_FOLDER [--all]

A handful of quick ones; --all: every model of ../shared/zoo/zoo.py (or of the folder PLIMSOLL_ZOO) and of zoo_more.py, one report line
each, with three budgets each. --list FILE,...: these lists of models instead; --only NAME,...: these models. Skipped where the
models' libraries (scripts/setup_zoo.sh) or the list of models are not there: this test installs nothing.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
python = os.path.join(root, ".venv-zoo", "bin", "python")
zoo = os.environ.get("PLIMSOLL_ZOO", os.path.join(root, "..", "shared", "zoo"))
QUICK = {zoo: ("diff_dit", "hf_gpt2", "hf_llama", "hf_vit"), os.path.join(here, "zoo_more.py"): ("more_t5", "more_clip_vision")}
DROPOUT = {zoo: ("hf_gpt2", "hf_bert")}
BUDGETS = ("hf_gpt2", "hf_llama")

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("build")
parser.add_argument("work")
parser.add_argument("--all", action="store_true")
parser.add_argument("--list", default="")
parser.add_argument("--only", default="")
asked = parser.parse_args()
build, work = os.path.abspath(asked.build), os.path.abspath(asked.work)
everything = bool(asked.all or asked.list or asked.only)
if not os.path.exists(python):
    print("skipped: .venv-zoo is not here (scripts/setup_zoo.sh makes it)")
    sys.exit(77)
if not os.path.isdir(zoo):
    print("skipped: ../shared/zoo is not here")
    sys.exit(77)


def said(done):
    lines = (done.stderr + done.stdout).strip().split("\n")
    return lines[-1] if done.returncode == 0 else "FAILED: %s ... %s" % (lines[0], lines[-1])


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})


def export(folder, *options):
    """The cases, and how many could not be made."""
    lost = 0
    for source, names in QUICK.items():
        chosen = asked.only.split(",") if asked.only else [] if everything else names
        only = ["--only", ",".join(chosen)] if chosen else []
        done = subprocess.run([python, os.path.join(here, "zoo_export.py"), source, folder, *only, *options],
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": zoo})
        print(done.stdout, end="")
        lost += done.stdout.count("not exported") + (done.returncode != 0)
    return (sorted(os.listdir(folder)) if os.path.isdir(folder) else []), lost


def replayed(folder):
    """Dropout on: PyTorch repeats the steps with our random numbers."""
    config, numbers = os.path.join(folder, "config.json"), os.path.join(folder, "random.safetensors")
    done = run(os.path.join(build, "plimsoll"), "train", config, "--init", os.path.join(folder, "weights.safetensors"), "--seed", "1",
               "--steps", "3", "--dump-random", numbers, "--quiet")
    if done.returncode == 0:
        done = run(python, os.path.join(here, "replay.py"), folder)
    return run(compare, folder, "drawn") if done.returncode == 0 else done


def weights(folder):
    with open(os.path.join(folder, "step-000002.safetensors"), "rb") as f:
        return f.read()


def budgets(folder):
    """Three budgets under --allow none: the bits of everything kept; below the minimum exit code 3, and the minimum works."""
    config, first = os.path.join(folder, "config.json"), ["--init", os.path.join(folder, "weights.safetensors"), "--seed", "1", "--steps", "2"]
    program, plan = os.path.join(build, "plimsoll"), os.path.join(folder, "plan.json")

    def train(budget, name):
        out = os.path.join(folder, name)
        done = run(program, "fit", config, "--allow", "none", "--effort", "200", "--budget", str(budget), "-o", plan)
        if done.returncode == 0:
            done = run(program, "train", config, *first, "--plan", plan, "--out", out, "--json")
        if done.returncode:
            return done.returncode, done.stderr or done.stdout, None
        report = json.loads(done.stdout)
        assert report["planned_bytes"] == report["measured_bytes"] <= budget, report
        return 0, report["planned_bytes"], weights(out)

    code, most, kept = train(16 << 30, "kept")
    assert code == 0, most
    code, sentence, _ = train(most // 100, "none")
    least = re.search(r"needs at least [^(]*\((\d+) bytes\)", sentence)
    assert code == 3 and least, (code, sentence)
    least = int(least.group(1))
    for i, budget in enumerate((least, (least + most) // 2, most - 1)):
        code, peak, bits = train(budget, "budget%d" % i)
        assert code == 0 and bits == kept, (budget, code, peak)
    return least, most


compare = os.path.join(build, "compare_model_case")
if asked.list:
    QUICK = DROPOUT = {os.path.abspath(path): () for path in asked.list.split(",")}
elif everything:
    DROPOUT = QUICK
shutil.rmtree(work, ignore_errors=True)
names, failed = export(os.path.join(work, "plain"))
passed = 0
for name in names:
    folder = os.path.join(work, "plain", name)
    done = run(compare, folder)
    passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
    print("%-24s %s" % (name, said(done)), flush=True)
    if (everything or name in BUDGETS) and done.returncode == 0:
        try:
            print("%-24s the same bits within %d of %d bytes" % (name, *budgets(folder)), flush=True)
            passed += 1
        except AssertionError as wrong:
            print("%-24s FAILED: budgets: %s" % (name, wrong), flush=True)
            failed += 1
    shutil.rmtree(folder, ignore_errors=True)
QUICK = DROPOUT
names, lost = export(os.path.join(work, "dropout"), "--dropout")
failed += lost
for name in names:
    folder = os.path.join(work, "dropout", name)
    done = replayed(folder)
    passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
    print("%-24s with dropout: %s" % (name, said(done)), flush=True)
    shutil.rmtree(folder, ignore_errors=True)
print("%d checks of models passed, %d failed, 0 skipped" % (passed, failed))
sys.exit(1 if failed or not passed else 0)
