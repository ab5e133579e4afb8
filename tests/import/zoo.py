"""Public models, exported and compared with PyTorch: loss, gradients and three updates, without and with dropout.

    zoo.py BUILD_FOLDER WORK_FOLDER [--all]

A handful of quick ones; --all: every model of ../shared/zoo/zoo.py and of zoo_more.py, one report line each. Skipped where
the models' libraries (scripts/setup_zoo.sh) or the list of models are not there: this test installs nothing.
"""
import json
import os
import re
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
python = os.path.join(root, ".venv-zoo", "bin", "python")
zoo = os.path.join(root, "..", "shared", "zoo")
QUICK = {zoo: ("diff_dit", "hf_gpt2", "hf_llama", "hf_vit"), os.path.join(here, "zoo_more.py"): ("more_t5", "more_clip_vision")}
DROPOUT = {zoo: ("hf_gpt2", "hf_bert")}
BUDGETS = ("hf_gpt2", "hf_llama")

build, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
everything = "--all" in sys.argv
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
        only = [] if everything else ["--only", ",".join(names)]
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
    program = os.path.join(build, "plimsoll")

    def train(budget, name):
        out = os.path.join(folder, name)
        done = run(program, "train", config, *first, "--allow", "none", "--budget", str(budget), "--out", out, "--json")
        if done.returncode:
            return done.returncode, done.stderr, None
        report = json.loads(done.stdout)
        assert report["planned_bytes"] == report["measured_bytes"] <= budget, report
        return 0, report["planned_bytes"], weights(out)

    code, most, kept = train(8 << 30, "kept")
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
shutil.rmtree(work, ignore_errors=True)
names, failed = export(os.path.join(work, "plain"))
passed = 0
for name in names:
    folder = os.path.join(work, "plain", name)
    done = run(compare, folder)
    passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
    print("%-24s %s" % (name, said(done)), flush=True)
    if name in BUDGETS:
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
