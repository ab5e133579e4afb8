"""Nothing is lost: a run is killed at random moments, and system calls fail under it, one at a time.

    torture.py PROGRAM WORK_FOLDER [--kills N] [--every N] [--seed N]

Kills: SIGKILL at N random moments, each time resumed; the run must end with the bits of one that was not touched.
Failing calls (needs strace): the n-th write, fsync, rename, open, read, mmap, close and unlink of a resumed run fails with EIO,
ENOSPC or EMFILE, for every n (--every 1) or every N-th one. Whatever fails, the program must end by itself, with an exit code that is
documented and one sentence where it failed; and from what is then on the disk the run must reach the bits of one in which nothing failed.
"""
import argparse
import collections
import filecmp
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

SMALL = ["unet-small", "--threads", "1", "--backend", "builtin", "--batch", "2", "--quiet"]
for key in ("model.widths=[8]", "model.groups=4", "model.heads=2", "model.height=8", "model.width=8", "save.keep=2",
            "schedule.kind=constant", "save.every=1", "validate.every=2", "validate.batches=1",
            "save.best=false"):  # of a checkpoint that could not be written, the JSON of later ones says nothing
    SMALL += ["--set", key]
CALLS = ("write", "fsync", "rename", "openat", "read", "pread64", "mmap", "close", "unlink", "ftruncate")
ERRORS = ("EIO", "ENOSPC", "EMFILE")
BASE, END = 2, 5  # steps of the run that is resumed, and of its end
KILL_END = 400
LIMIT_S = 120  # a hang
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
Result = collections.namedtuple("Result", "code err")

failed = []


def run(command):
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return Result("none: it hung", "")
    return Result(done.returncode, done.stderr.decode(errors="replace"))


def must(command):
    result = run(command)
    if result.code:
        sys.exit(f"{' '.join(command)}: exit code {result.code}\n{result.err}")


def resume(program, folder, steps):
    return [program, "train", "--resume", folder, "--threads", "1", "--steps", str(steps), "--quiet"]


def fresh(source, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)


def same_end(whole, folder, step):
    names = [f"step-{step:06d}.safetensors", f"step-{step:06d}.json"]
    return all(os.path.exists(f"{folder}/{name}") and filecmp.cmp(f"{whole}/{name}", f"{folder}/{name}", False)
               for name in names)


def log_steps(folder):
    with open(f"{folder}/log.jsonl") as log:
        return [int(re.match(r'{"step": (\d+),', line)[1]) for line in log]


def wrong(what, result):
    failed.append(what)
    print(f"{what}\n    exit code {result.code}: {result.err.strip()}", flush=True)


# ---- kills ----


def newest(folder):
    steps = [int(name[5:-5]) for name in os.listdir(folder) if re.fullmatch(r"step-\d+\.json", name)]
    return max(steps, default=-1)


def begin(program, folder):
    command = (resume(program, folder, KILL_END) if os.path.isdir(folder) and newest(folder) >= 0
               else [program, "train", *SMALL, "--steps", str(KILL_END), "--out", folder])
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kills(program, work, n, dice):
    """Each kill comes within the next ten steps that a run makes, or at its start."""
    whole, folder, done = f"{work}/kill-whole", f"{work}/killed", 0
    must([program, "train", *SMALL, "--steps", str(KILL_END), "--out", whole])
    while done < n:
        process = begin(program, folder)
        if dice.random() < 0.3:
            time.sleep(dice.random() * 0.05)  # while it starts
        else:
            before, end = (newest(folder) if os.path.isdir(folder) else -1), time.time() + LIMIT_S
            more = dice.randrange(1, 1 + max(1, KILL_END // (n + 1)))
            while process.poll() is None and time.time() < end:
                if os.path.isdir(folder) and newest(folder) >= before + more:
                    break
                time.sleep(0.001)
            time.sleep(dice.random() * 0.01)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            done += 1
        elif newest(folder) == KILL_END:
            break  # it was faster
        process.wait()
    result = run(resume(program, folder, KILL_END))
    if result.code or not same_end(whole, folder, KILL_END) or log_steps(folder) != list(range(1, KILL_END + 1)):
        wrong(f"after {done} kills the run should end with the bits of a whole one, and every step once in its log", result)
    print(f"{done} kills", flush=True)


# ---- failing calls ----


def count_calls(program, work):
    """How often each call is made by the run that is resumed."""
    fresh(f"{work}/base", f"{work}/counted")
    trace = f"{work}/trace"
    if run(["strace", "-f", "-qq", "-o", trace, "-e", "trace=" + ",".join(CALLS),
            *resume(program, f"{work}/counted", END)]).code:
        return None
    with open(trace, errors="replace") as lines:
        return collections.Counter(match[1] for match in map(re.compile(r"\d+ +(\w+)\(").match, lines) if match)


def inject(program, work, call, error, n):
    folder, log = f"{work}/injected", f"{work}/strace"
    fresh(f"{work}/base", folder)
    result = run(["strace", "-f", "-qq", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={n}",
                  *resume(program, folder, END)])
    what = f"{call} {n}: {error}"
    # before main the dynamic linker ends the process, in its own words
    loader = (result.code == 127 and
              re.search("shared libraries|TLS data structures|^[^ ]*ld[^ ]*:|cannot enable executable", result.err))
    # and without its first memory by a signal: /bin/true does too
    loader = loader or (result.code == -signal.SIGSEGV and (call, n) == ("mmap", 1))
    if not loader and result.code not in (0, 1, 2, 3):
        wrong(f"{what}: it should end by itself with a documented exit code", result)
    elif not loader and result.code and not re.search(r"^plimsoll: .", result.err, re.M):
        # unless its own sentence was what could not be written
        if not (call == "write" and "plimsoll" not in result.err):
            wrong(f"{what}: a failure should be one sentence", result)
    if result.code == 0 and not same_end(f"{work}/whole", folder, END):
        wrong(f"{what}: it says that all went well, but its end differs", result)
    again = run(resume(program, folder, END))
    if again.code or not same_end(f"{work}/whole", folder, END):
        wrong(f"{what}: the run should go on from what is on the disk, to the same bits", again)
    elif log_steps(folder) != list(range(1, END + 1)):
        wrong(f"{what}: every step should stand in the log once, not {log_steps(folder)}", again)


def injections(program, work, every, dice):
    must([program, "train", *SMALL, "--steps", str(END), "--out", f"{work}/whole"])
    must([program, "train", *SMALL, "--steps", str(BASE), "--out", f"{work}/base"])
    counts = count_calls(program, work)
    if not counts:
        print("failing calls: left out, strace cannot trace here")
        return
    cases = [(call, error, n) for call in CALLS for error in ERRORS for n in range(1, counts[call] + 1)]
    first = dice.randrange(every)
    for case in cases[first::every]:
        inject(program, work, *case)
    print(f"{len(cases[first::every])} of {len(cases)} failing calls: "
          + ", ".join(f"{call} {counts[call]}" for call in CALLS if counts[call]), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("work")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--every", type=int, default=17)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    program, work, dice = os.path.abspath(args.program), os.path.abspath(args.work), random.Random(args.seed)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    kills(program, work, args.kills, dice)
    if shutil.which("strace"):
        injections(program, work, args.every, dice)
    else:
        print("failing calls: left out, strace is not installed")
    print(f"{len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
