"""rank_runs.py -- for tests that start ranks: which MPIs are here, smallest recipes, running, digests."""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77                                          # exit code of a test that ran nothing
# Sizes at which a step takes milliseconds, where a recipe's own are larger; every kind of node stays.
TINY = {
    "unet-small": ["model.widths=[8]", "model.groups=4", "model.heads=2", "model.height=8", "model.width=8"],
    "dit3d-small": [],
    "dit3d-wrap-small": [],
    "lag-small": [],
    "sashimi-small": ["model.length=256"],
    "stablesr-small": [],                             # has batch norm
    "stablesr-vae-small": [],
    "stdiff-small": ["model.image=[16,32]"],
}


def sets(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def launcher(name):
    """mpirun of that library: Debian's name for it, or the only mpirun there is, if it says so."""
    if shutil.which("mpirun." + name):
        return shutil.which("mpirun." + name)
    plain = shutil.which("mpirun")
    says = subprocess.run([plain, "--version"], capture_output=True, text=True).stdout if plain else ""
    return plain if {"openmpi": "Open MPI", "mpich": "HYDRA"}[name] in says else None


def mpis(program):
    """By the name of a plugin: the command that starts N processes with it, up to "-n"."""
    found = {}
    for name, flags in (("openmpi", ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]), ("mpich", [])):
        if os.path.exists(f"{os.path.dirname(program)}/libplimsoll_mpi_{name}.so") and launcher(name):
            found[name] = [launcher(name)] + flags + ["-n"]
    return found


def ranks(run):
    """Process ids by rank of the programs that train to this folder."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{entry}/cmdline", "rb").read().split(b"\0")
            rank = re.search(rb"(?:^|\0)(?:OMPI_COMM_WORLD|PMI)_RANK=(\d+)", open(f"/proc/{entry}/environ", "rb").read())
        except OSError:                               # it has ended, or is another user's
            continue
        if rank and os.path.basename(words[0]) == b"plimsoll" and run.encode() in words:
            found[int(rank.group(1))] = int(entry)
    return found


def newest(run):
    """The step of the newest whole checkpoint; -1: there is none."""
    steps = [int(re.search(r"step-(\d+)\.json", path).group(1)) for path in glob.glob(f"{run}/step-*.json")]
    return max(steps, default=-1)


def wait_until(true, seconds):
    """Seconds until it was true; None: never."""
    begun = time.time()
    while not true():
        if time.time() - begun > seconds:
            return None
        time.sleep(0.05)
    return time.time() - begun


def missing_mpis(program):
    """One sentence for what cannot be tested here; None: nothing."""
    lacks = [name for name in ("openmpi", "mpich") if name not in mpis(program)]
    return f"not here: {', '.join(lacks)} (scripts/setup_mpi.sh installs it)" if lacks else None


class Checks:
    """Counts what failed, and says it as it happens."""

    def __init__(self):
        self.n = self.failed = 0

    def __call__(self, good, what):
        self.n += 1
        if not good:
            self.failed += 1
            print("failed:", what, flush=True)
        return good


def run(command, timeout=300, **more):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout, **more)


def result(done):
    """What --json printed."""
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {}


def digest(path):
    """sha256 of a file, or why it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        return str(error)


def checkpoint(run_folder, step):
    return f"{run_folder}/step-{step:06d}.safetensors"
