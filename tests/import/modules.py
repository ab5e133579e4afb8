"""Hand-written modules (zoo_odd.py), exported and compared with PyTorch: loss, every gradient, three updates and what buffers then hold.
Those that draw random numbers are repeated by PyTorch with the same numbers.

    modules.py BUILD_FOLDER WORK_FOLDER [--only NAME,...]
"""
import argparse
import os
import shutil
import subprocess
import sys
import warnings

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "py"))
sys.path.insert(0, here)
import find_torch  # noqa: F401,E402
import torch  # noqa: E402
import zoo_export  # noqa: E402
import zoo_odd  # noqa: E402

warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    return done.returncode, (done.stderr + done.stdout).strip().split("\n")


def replayed(build, folder):
    code, lines = run(os.path.join(build, "plimsoll"), "train", os.path.join(folder, "config.json"), "--init", os.path.join(folder, "weights.safetensors"),
                      "--seed", "1", "--steps", "3", "--dump-random", os.path.join(folder, "random.safetensors"), "--quiet")
    if not code:
        code, lines = run(sys.executable, os.path.join(here, "replay.py"), folder)
    return (code, lines) if code else run(os.path.join(build, "compare_model_case"), folder, "drawn")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build")
    parser.add_argument("work")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    build, work, failed = os.path.abspath(asked.build), os.path.abspath(asked.work), 0
    names = [n for n in zoo_odd.Z if not asked.only or n in asked.only.split(",")]
    shutil.rmtree(work, ignore_errors=True)
    for name in names:
        random, folder = name in zoo_odd.RANDOM, os.path.join(work, name)
        how = argparse.Namespace(dropout=random, reference=not random, static=False)
        try:
            zoo_export.export(name, zoo_odd.Z[name], work, how)
        except Exception:  # torch.export fixes some sizes
            zoo_export.export(name, zoo_odd.Z[name], work, argparse.Namespace(**{**vars(how), "static": True}))
        code, lines = replayed(build, folder) if random else run(os.path.join(build, "compare_model_case"), folder)
        failed += code != 0
        print("%-28s %s" % (name, lines[-1] if not code else "FAILED: " + "\n    ".join(lines[:8])), flush=True)
    print("%d modules passed, %d failed, 0 skipped" % (len(names) - failed, failed))
    if not failed:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
