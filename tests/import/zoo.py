"""Public models, exported and compared with PyTorch: loss, gradients and three updates.

    zoo.py BUILD_FOLDER WORK_FOLDER [--all]

A handful of quick ones; --all: every model of ../shared/zoo/zoo.py and of zoo_more.py, one report line each. Skipped where
the models' libraries (scripts/setup_zoo.sh) or the list of models are not there: this test installs nothing.
"""
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
python = os.path.join(root, ".venv-zoo", "bin", "python")
zoo = os.path.join(root, "..", "shared", "zoo")
QUICK = {zoo: ("diff_dit", "hf_gpt2", "hf_llama", "timm_mixer"), os.path.join(here, "zoo_more.py"): ("more_t5", "more_clip_vision")}

build, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
everything = "--all" in sys.argv
if not os.path.exists(python):
    print("skipped: .venv-zoo is not here (scripts/setup_zoo.sh makes it)")
    sys.exit(77)
if not os.path.isdir(zoo):
    print("skipped: ../shared/zoo is not here")
    sys.exit(77)
shutil.rmtree(work, ignore_errors=True)
passed = failed = 0
for source, names in QUICK.items():
    done = subprocess.run([python, os.path.join(here, "zoo_export.py"), source, work] + ([] if everything else ["--only", ",".join(names)]),
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": zoo})
    print(done.stdout, end="")
    failed += done.stdout.count("not exported")
for name in sorted(os.listdir(work)) if os.path.isdir(work) else ():
    done = subprocess.run([os.path.join(build, "compare_model_case"), os.path.join(work, name)], capture_output=True, text=True)
    passed, failed = passed + (done.returncode == 0), failed + (done.returncode != 0)
    lines = (done.stderr + done.stdout).strip().split("\n")
    print("%-24s %s" % (name, lines[-1] if done.returncode == 0 else "FAILED: %s ... %s" % (lines[0], lines[-1])), flush=True)
    shutil.rmtree(os.path.join(work, name), ignore_errors=True)
print("%d models passed, %d failed, 0 skipped" % (passed, failed))
sys.exit(1 if failed or not passed else 0)
