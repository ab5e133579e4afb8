"""rank_plans.py -- several ranks planned without any, and with them: what explain, fit and compare say of one rank is what
train --ranks then uses; links are measured under mpirun; refusals.

    rank_plans.py PLIMSOLL WORK_FOLDER

The first half needs no MPI. The second is skipped where neither Open MPI nor MPICH is installed (77, if nothing failed).
"""
import json
import os
import shutil
import subprocess
import sys

PROGRAM, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TINY = ["unet-small", "--set", "model.widths=[8]", "--set", "model.groups=4", "--set", "model.heads=2", "--set",
        "model.height=8", "--set", "model.width=8", "--batch", "1", "--set", "accumulate=4", "--threads", "1",
        "--backend", "builtin"]
failed = []


def check(what, good):
    if not good:
        failed.append(what)
        print("failed:", what)


def run(words, expect=0, launcher=(), env=None):
    done = subprocess.run([*launcher, PROGRAM, *words], capture_output=True, text=True, cwd=HERE, timeout=300,
                          env={**os.environ, "XDG_CONFIG_HOME": WORK, **(env or {})})
    check(f"{' '.join(words[:3])}: exit {done.returncode}: {done.stderr.strip()[-400:]}", done.returncode == expect)
    return done


def answer(words, expect=0, **more):
    try:
        return json.loads(run(words + ["--json"], expect, **more).stdout)
    except ValueError:
        return {}


def planned():
    """Without ranks: one rank's bytes by level, and a time that grows with a slower link."""
    one = answer(["explain", *TINY, "--effort", "-1"])
    two = answer(["explain", *TINY, "--effort", "-1", "--ranks", "2", "--per-node", "2"])
    ranks = two.get("ranks", {})
    levels = {row["shard"]: row for row in ranks.get("levels", [])}
    check("one process has no ranks", "ranks" not in one)
    check(f"ranks of explain: {ranks}", ranks.get("rounds") == 2 and ranks.get("wire") == "loopback" and
          ranks.get("wire_assumed") is True and len(levels) >= 3)
    state = [levels[level]["state"]["optimizer"] for level in (0, 1)]
    check(f"level 1 does not halve the moments: {state}", 0.45 < state[1] / state[0] < 0.6)
    check("the table's level is not the sheet's", levels[1]["peak_bytes"] == two["peak_bytes"])
    times = [answer(["explain", *TINY, "--effort", "-1", "--ranks", "4", "--wire", wire])["ranks"] for wire in
             ("nvlink4+ib-ndr400", "ethernet-100g")]
    check(f"a slower link is not slower: {times}", times[1]["moving_ms"] > 1.3 * times[0]["moving_ms"] > 0)
    fit = answer(["fit", *TINY, "--ranks", "2", "--per-node", "2", "--shard", "0", "--allow", "none", "--budget", "1GiB"])
    check(f"fit: {fit.get('peak_bytes')} bytes for {levels[0]['peak_bytes']}, {fit.get('ranks')}",
          fit.get("peak_bytes") == levels[0]["peak_bytes"])
    check(f"levels 0 to 3: {sorted(levels)}", sorted(levels) == [0, 1, 2, 3])
    parameters = [levels[level]["state"]["parameters"] for level in (1, 3)]
    check(f"level 3 does not halve the parameters: {parameters}", 0.45 < parameters[1] / parameters[0] < 0.6)
    rows = answer(["compare", *TINY, "--ranks", "2", "--budget", "1GiB", "--time-limit", "5"])["rows"]
    check("compare does not show one rank", rows[0]["peak_bytes"] == two["peak_bytes"])
    said = run(["explain", *TINY, "--effort", "-1", "--ranks", "2"]).stdout
    check("explain does not say what a rank is", "--shard" in said and "One rank of 2" in said)


def refusals():
    def refused(words, says):
        done = run(words, expect=2)
        check(f"{words}: {done.stderr}", says in done.stderr)
    refused(["explain", *TINY, "--ranks", "3"], "--set accumulate=6")
    refused(["fit", *TINY, "--ranks", "3", "--budget", "1GiB"], "--set accumulate=6")
    refused(["explain", *TINY, "--ranks", "2", "--wire", "loopbac"], "did you mean 'loopback'")
    refused(["explain", *TINY, "--ranks", "2", "--per-node", "1", "--wire", "loopback"], "--per-node 2")
    refused(["explain", *TINY, "--wire", "loopback"], "give --ranks N")
    refused(["explain", *TINY, "--ranks", "2", "--shard", "9"], "--shard is")
    refused(["explain", *TINY, "--ranks", "200000"], "is more than")
    refused(["probe", "--wire"], "mpirun -n N")
    refused(["probe", "--wire", "--ops"], "leave out --ops")


def launchers():
    for name, flags in (("openmpi", ["--allow-run-as-root", "--oversubscribe"]), ("mpich", [])):
        program = shutil.which("mpirun." + name)
        if program and os.path.exists(f"{os.path.dirname(PROGRAM)}/libplimsoll_mpi_{name}.so"):
            yield [program, *flags, "-n", "2"]


def with_ranks(launcher):
    """The plan of fit --ranks is followed; its bytes are measured; links are measured and then used."""
    plan, wire = f"{WORK}/plan.json", f"{WORK}/wire.json"
    fit = answer(["fit", *TINY, "--ranks", "2", "--per-node", "2", "--shard", "0", "--budget", "1GiB", "-o", plan])
    train = answer(["train", *TINY, "--plan", plan, "--steps", "2", "--out", "none"], launcher=launcher)
    check(f"planned {fit.get('peak_bytes')}, used {train.get('measured_bytes')}",
          fit.get("peak_bytes") == train.get("measured_bytes"))
    said = run(["probe", "--wire", "-o", wire], launcher=launcher).stdout
    check(f"probe --wire: {said}", "inside" in said and "written to" in said)
    with open(wire) as file:
        link = json.load(file)["inside"]
    check(f"an odd link: {link}", 1e8 < link["bytes_per_s"] < 1e12 and link["latency_us"] < 1e5)
    run(["probe", "--wire"], launcher=launcher, env={"XDG_CONFIG_HOME": f"{WORK}/home"})
    used = answer(["explain", *TINY, "--effort", "-1", "--ranks", "2", "--per-node", "2"],
                  env={"XDG_CONFIG_HOME": f"{WORK}/home"})["ranks"]
    check(f"the links that were measured are not used: {used}", used["wire"] == "wire" and not used["wire_assumed"])


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    planned()
    refusals()
    here = list(launchers())
    for launcher in here:
        with_ranks(launcher)
    print(f"{len(here)} launchers, {len(failed)} failed")
    if failed:
        return 1
    if not here:
        print("skipped: no MPI here (scripts/setup_mpi.sh installs it)")
        return 77
    return 0


sys.exit(main())
