"""JAX models as StableHLO text, compared with JAX: loss and every gradient.

    stablehlo.py COMPARE_PROGRAM WORK_FOLDER

Lag (few-shot set diffusion in Flax) and Hugging Face's Flax GPT-2 among them (jax_models.py). JAX is found, or installed into
.venv-jax, by scripts/setup_jax.sh; without it the test is skipped.
"""
import os
import subprocess
import sys

try:
    import numpy
    from safetensors.numpy import load_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
names = sys.argv[3:] or ["net", "scan", "lag", "gpt2"]
setup = subprocess.run(["sh", os.path.join(root, "scripts", "setup_jax.sh")], capture_output=True, text=True)
if setup.returncode:
    print("skipped: JAX cannot be installed here (scripts/setup_jax.sh):", setup.stderr[-300:])
    sys.exit(77)
jax_python = os.path.join(root, setup.stdout.strip())
made = subprocess.run([jax_python, os.path.join(here, "jax_models.py"), work, *names], capture_output=True, text=True)
if made.returncode:
    print(made.stdout, made.stderr[-3000:])
    sys.exit(1)

failed = 0
for name in names:
    folder = os.path.join(work, name)
    for old in ("ours.safetensors", "said.txt"):
        if os.path.exists(os.path.join(folder, old)):
            os.remove(os.path.join(folder, old))
    subprocess.run([program, folder], check=True)
    if not os.path.exists(os.path.join(folder, "ours.safetensors")):
        with open(os.path.join(folder, "said.txt")) as f:
            print(f"{name}: {f.read().strip()}")
        failed += 1
        continue
    ours, theirs = (load_file(os.path.join(folder, file + ".safetensors")) for file in ("ours", "jax"))
    gradients = [key for key in theirs if key != "loss"]
    size = {key: numpy.linalg.norm(theirs[key].astype(float)) for key in gradients}
    floor, worst = 1e-4 * max(size.values()), (0.0, "")
    for key in gradients:
        if key not in ours or ours[key].size != theirs[key].size:
            print(f"{name}: {key} is missing")
            failed += 1
            continue
        difference = numpy.linalg.norm(ours[key].astype(float).ravel() - theirs[key].astype(float).ravel())
        worst = max(worst, (difference / max(size[key], floor), key))
    loss = abs(ours["loss"].item() / theirs["loss"].item() - 1)
    good = loss < 1e-5 and worst[0] < 2e-4
    failed += not good
    print(f"{name}: loss {ours['loss'].item():.6f}, JAX {theirs['loss'].item():.6f}; {len(gradients)} gradients, "
          f"largest error {worst[0]:.1e} ({worst[1]}){'' if good else ': too large'}")
sys.exit(failed > 0)
