"""bits.py -- digests of what the program computes: weights after three steps, plans, balance sheets.

    bits.py PLIMSOLL WORK_FOLDER LIST.json            compare with the list; exit 1 names what differs
    bits.py PLIMSOLL WORK_FOLDER LIST.json --write    make the list

A change that should not change a number (a rename, a move, a faster loop) must leave the list as it
is. A change of rounding is a change of the list, in the same commit, with its reason.

Device, backend, threads and ISA are stored in the list: the CPU's was made with the builtin backend,
ISA v3 and 2 threads, so that every machine with AVX2 and FMA gives the same bits. Names of nodes are
replaced by the order in which a plan mentions them: a renamed operator is the same plan. An entry that is null
was changed on purpose on a machine that could not make it: it is printed and not compared, until --write.
Python's standard library is enough.
"""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

SMALL = ["unet-small", "stdiff-small", "stablesr-vae-small", "stablesr-small", "lag-small",
         "sashimi-small", "dit3d-small", "dit3d-wrap-small"]
PRECISIONS = {"cpu": ["fp32", "bf16"], "cuda": ["fp32", "tf32", "bf16"]}
# recipe, budget, further options: plans of real size, exact and numeric levers
LARGE = {"cpu": [("lag-4x3", "900MiB", []), ("stdiff-64x512", "12GiB", ["--allow", "none"]),
                 ("sashimi-24576", "1GiB", []), ("dit3d-s", "2500MiB", []),
                 ("stablesr-latent", "8GiB", [])],
         "cuda": [("lag-32x6", "8GiB", ["--precision", "bf16"]),
                  ("stdiff-64x512", "9GiB", ["--precision", "bf16", "--allow", "none"]),
                  ("dit3d-s", "2500MiB", ["--precision", "bf16"])]}
EFFORT = "1000"


def run(command, codes=(0,)):
    """Standard output; any other exit code is an error with the program's own words."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"bits: {' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def tensors_digest(path):
    """sha256 over name, type, shape and bytes of every tensor, by name; metadata left out."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        for name in sorted(header):
            at = header[name]
            digest.update(f"{name} {at['dtype']} {at['shape']}\n".encode())
            file.seek(8 + size + at["data_offsets"][0])
            digest.update(file.read(at["data_offsets"][1] - at["data_offsets"][0]))
    return digest.hexdigest()


def plan_digest(path):
    """Figures, steps and offsets of a plan, its names replaced by numbers."""
    with open(path) as file:
        plan = json.load(file)
    names = {}
    phases = [[phase["name"].split("_")[0], phase["repeat"], phase["live_bytes"], phase["arena_bytes"],
               phase["offsets"],
               [[step[0], names.setdefault(step[1], len(names))] for step in phase["steps"]]]
              for phase in plan["phases"]]
    figures = [plan[key] for key in ("budget_bytes", "peak_bytes", "live_bytes", "arena_bytes",
                                     "bound_bytes", "persistent_bytes", "keep_all_bytes", "cut")]
    costs = ["%.9g" % plan[key] for key in ("cost", "base_cost")]
    text = json.dumps([figures, costs, phases], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest(), plan["peak_bytes"]


def made(program, folder, device):
    """All digests, one entry at a time."""
    where = ["--device", "cuda"] if device == "cuda" else ["--backend", BUILTIN, "--threads", "2"]
    planned = where if device == "cuda" else ["--backend", BUILTIN, "--device", "generic-cpu"]
    for recipe in SMALL:
        for precision in PRECISIONS[device]:
            out = os.path.join(folder, "run")
            shutil.rmtree(out, ignore_errors=True)
            train = json.loads(run([program, "train", recipe, *where, "--precision", precision,
                                    "--steps", "3", "--out", out, "--json", "--quiet"]))
            yield f"train {recipe} {precision}", {
                "tensors": tensors_digest(os.path.join(out, "step-000003.safetensors")),
                "loss_last": "%.9g" % train["loss_last"], "arena_bytes": train["measured_bytes"]}
            shutil.rmtree(out)
        explain = json.loads(run([program, "explain", recipe, *planned, "--json"]))
        yield f"explain {recipe}", {"peak_bytes": explain["peak_bytes"],
                                    "classes": explain["classes"]}
        budget = str(explain["peak_bytes"] * 7 // 10)
        yield f"fit {recipe}", fitted(program, folder, recipe, budget, planned)
    for recipe, budget, options in LARGE[device]:
        # the digests are of plans without validation but for sashimi's, whose schedule watches it
        steps_alone = [] if recipe.startswith("sashimi") else ["--set", "validate.every=0"]
        yield f"fit {recipe} {budget}", fitted(program, folder, recipe, budget, planned + options + steps_alone)


def fitted(program, folder, recipe, budget, options):
    path = os.path.join(folder, "plan.json")
    if os.path.exists(path):
        os.unlink(path)
    answer = run([program, "fit", recipe, "--budget", budget, "--effort", EFFORT, *options,
                  "-o", path, "--json"], codes=(0, 3))
    if not os.path.exists(path):
        return {"minimum_bytes": json.loads(answer)["minimum_bytes"]}
    digest, peak = plan_digest(path)
    return {"plan": digest, "peak_bytes": peak}


BUILTIN = "builtin"


def main():
    program, folder, list_path = sys.argv[1:4]
    write = sys.argv[4:] == ["--write"]
    device = "cuda" if "cuda" in os.path.basename(list_path) else "cpu"
    if device == "cpu":
        os.environ["PLIMSOLL_ISA"] = "v3"
    os.makedirs(folder, exist_ok=True)
    os.environ["XDG_CONFIG_HOME"] = os.path.abspath(folder)      # no profile of this machine
    known = {} if write else json.load(open(list_path))
    found, wrong, unknown = {}, 0, 0
    for name, entry in made(program, folder, device):
        found[name] = entry
        if write:
            print(name, entry, flush=True)
        elif name in known and known[name] is None:
            unknown += 1
            print(f"{name}: not known yet, found {entry}", flush=True)
        elif known.get(name) != entry:
            wrong += 1
            print(f"{name}:\n  list  {known.get(name)}\n  found {entry}", flush=True)
    if write:
        with open(list_path, "w") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
    elif missing := set(known) - set(found):
        wrong += len(missing)
        print(f"not made: {sorted(missing)}")
    print(f"{len(found) - wrong - unknown} passed, {wrong} failed, {unknown} not known yet")
    return 1 if wrong else 0


sys.exit(main())
