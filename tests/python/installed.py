"""The package as a user gets it: pip install of the source folder into a fresh virtual environment,
and the README's lines there.

    installed.py FOLDER

PyTorch is that of this interpreter, by a .pth file. Skipped where pip cannot fetch the build tools.
"""
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDER = os.path.abspath(sys.argv[1])


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def run(*command, **how):
    return subprocess.run(command, text=True, capture_output=True, cwd=FOLDER, **how)


def readme():
    """The lines that README.md shows for the package."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        text = f.read()
    found = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "plimsoll.fit" in b]
    assert len(found) == 1, found
    return found[0]


try:
    import torch  # noqa: F401
except ImportError:
    skip("PyTorch is not installed (scripts/setup_torch.sh)")
shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
if run(sys.executable, "-m", "venv", "fresh").returncode:
    skip("python -m venv does not work")
python = os.path.join(FOLDER, "fresh", "bin", "python")
if run(python, "-m", "pip", "download", "-q", "--no-deps", "scikit-build-core>=0.10").returncode:
    skip("pip cannot fetch scikit-build-core")
begun = time.time()
made = run(python, "-m", "pip", "install", "-q", ROOT)
print("pip install: %.0f s" % (time.time() - begun))
if made.returncode:
    print(made.stdout, made.stderr, "FAILED: pip install")
    sys.exit(1)
where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
with open(os.path.join(where, "torch_of_the_test.pth"), "w") as f:
    f.write(sysconfig.get_path("purelib") + "\n")
clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PLIMSOLL_LIBRARY")}
files = sorted(os.listdir(os.path.join(where, "plimsoll")))
out = run(python, "-c", readme(), env=clean)
print(out.stdout)
ok = out.returncode == 0 and "py.typed" in files and "lib" in files
built = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(where, "plimsoll"))
         for name in names if ".so" in name]
media = re.compile("libav|libsw(scale|resample)|libsndfile|libsamplerate|"
                   "libplimsoll_(video|audio)")
for path in built:                      # neither contained nor linked: libav may be under the GPL
    needs = run("readelf", "-d", path).stdout if shutil.which("readelf") else ""
    if media.search(os.path.basename(path)) or media.search(needs):
        print("FAILED:", path, "is or links a media library")
        ok = False
ok = ok and bool(built)
if not ok:
    print(files, out.stderr)
print("ok" if ok else "FAILED", ": the README's lines in a fresh environment")
sys.exit(not ok)
