"""A system's small cases, made by PyTorch in fp64 and compared with ours: loss, gradients, updates, sampling.

    model_cases.py PROGRAMS WORK_FOLDER SYSTEM

PROGRAMS is the folder with compare_model_case and, where the system samples, compare_sample_SYSTEM."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402

REF = os.path.join(os.path.dirname(__file__), "..", "ref")
sys.path.insert(0, REF)
from case import CASES, FP32_ONLY  # noqa: E402


def run(*command):
    print("+", *map(str, command), flush=True)
    return subprocess.run(command).returncode == 0


def compare(programs, folder, system, case):
    out = os.path.join(folder, case)
    made = "fp64" if case in FP32_ONLY else "bf16"
    if not run(sys.executable, os.path.join(REF, "case.py"), case, out, "--precision", made):
        return False
    model, sample = (os.path.join(programs, f"compare_{what}")
                     for what in ("model_case", f"sample_{system}"))
    if case in FP32_ONLY:
        return run(model, out, "fp32")
    good = [run(model, out, precision) for precision in ("fp32", "bf16")]
    if os.path.exists(sample):
        good.append(run(sample, out))
    return all(good)


def main():
    programs, folder, system = sys.argv[1:]
    cases = [c for c, (recipe, _) in CASES.items() if recipe.startswith(system + "-")]
    failed = [c for c in cases if not compare(programs, folder, system, c)]
    print(f"{system}: {len(cases)} cases, failed: {', '.join(failed) or 'none'}")
    return bool(failed) or not cases


if __name__ == "__main__":
    sys.exit(main())
