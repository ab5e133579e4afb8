"""plimsoll.fit against PyTorch's own ways to save memory: budgets held, and milliseconds a step.

    torch_fit.py MODELS_FILE [--models NAME,...] [--precision bf16,fp32] [--shares 0.7,0.5,0.35] [--compile] [--steps N]
                 [--together N] [--limit S] [--device cuda] [--json FILE]

MODELS_FILE has `Z`: name -> function of (model, loss), its helpers R and I make inputs. `small` in its place: three small models, for
a look on the CPU. Every row is a process of its own, with AdamW(fused=True) on both sides. S is 16 bytes per trained parameter. The
budgets are S + share x (the plain step's peak - S); on CUDA memory is torch.cuda.max_memory_reserved, on the CPU the live bytes of
storages. Then fit runs at the memory of the library's own gradient checkpointing, eager; with --compile compiled instead, against
torch.compile with activation_memory_budget at its memory. Up to N processes (--together) plan and compile at the same time; steps are
measured one process after the other. --limit: what has not begun after so many seconds is left out. Prints a table as it comes.
"""
import argparse
import collections
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

import results_file
import torch_models

COMPILED_BUDGETS = (1.0, 0.5, 0.2)


# ---- one row, in a process of its own ----

def made(job):
    model, loss_fn, batch = torch_models.made(job["models_file"], job["model"], job["device"])

    def with_autocast(m, b):
        with torch.autocast("cuda" if job["device"] == "cuda" else "cpu", torch.bfloat16, enabled=job["precision"] == "bf16"):
            return loss_fn(m, b)
    return model, with_autocast, batch


def step_of(job, model, loss_fn, batch):
    """A function that leaves gradients in .grad, and what is known of it before it runs."""
    import plimsoll

    if job["how"] in ("fit", "fit-compiled"):
        step = plimsoll.fit(model, loss_fn, batch, job["budget"], effort=job["effort"])
        known = {"planned_bytes": step.plan.peak_bytes, "extra_percent": round(100 * step.plan.slower, 2), "again": sum(step.plan.recomputed.values())}
        if job["how"] == "fit-compiled":
            step.compile()
        return lambda: step(batch), known
    if job["how"] == "checkpoint":
        (getattr(model, "enable_gradient_checkpointing", None) or model.gradient_checkpointing_enable)()
    if job["how"] == "selective":
        found = plimsoll.checkpoint(model, loss_fn, batch, job["budget"], effort=job["effort"])
        return lambda: loss_fn(model, batch).backward(), {"planned_bytes": found.peak_bytes}
    if job["how"] == "compile":
        torch._functorch.config.activation_memory_budget = job["memory_budget"]
        run = torch.compile(lambda: loss_fn(model, batch))
        return lambda: run().backward(), {}
    return lambda: loss_fn(model, batch).backward(), {}


def warmed(job, model, batch, step):
    """The whole step, ready to be timed, and on the CPU its peak."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)

    def whole():
        step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    if job["device"] == "cpu":
        from checkers import StorageMeter, tree_leaves
        held = [x for x in tree_leaves(batch) if isinstance(x, torch.Tensor)]
        with StorageMeter([*model.parameters(), *model.buffers(), *held]) as meter:
            whole()
            whole()
        return whole, meter.peak
    torch.cuda.reset_peak_memory_stats()
    whole()
    whole()
    torch.cuda.synchronize()
    return whole, None


def timed(job, whole):
    """The middle of the steps' times, while nobody else measures."""
    synchronize = torch.cuda.synchronize if job["device"] == "cuda" else lambda: None
    times = []
    for _ in range(job["steps"]):
        synchronize()
        begun = time.perf_counter()
        whole()
        synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    return sorted(times)[len(times) // 2]


def run_job(job):
    begun = time.time()
    model, loss_fn, batch = made(job)
    row = {**job, "S_bytes": 16 * sum(p.numel() for p in model.parameters() if p.requires_grad)}
    try:
        step, known = step_of(job, model, loss_fn, batch)
        row.update(known, seconds_to_plan=round(time.time() - begun, 1))
        with open(job["lock"], "w") as lock:
            # Compiling comes with the first step, and others may compile too: only what is timed is alone.
            compiles = "compile" in job["how"]
            fcntl.flock(lock, fcntl.LOCK_SH if compiles else fcntl.LOCK_EX)
            whole, peak = warmed(job, model, batch, step)
            fcntl.flock(lock, fcntl.LOCK_EX)
            row["ms"] = results_file.figure(timed(job, whole))
            row["measured_bytes"] = torch.cuda.max_memory_reserved() if peak is None else peak
    except Exception as error:
        row["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
        if hasattr(error, "minimum_bytes"):
            row["minimum_bytes"] = error.minimum_bytes
    print("ROW " + json.dumps(row), flush=True)


# ---- the rows ----

class Rows:
    """Runs jobs, several at a time; prints and stores each row as it comes. A row may ask for more."""

    def __init__(self, options, lock):
        self.options, self.lock, self.begun = options, lock, time.monotonic()
        self.waiting, self.running, self.found = collections.deque(), [], []

    def add(self, model, precision, how, then=None, **more):
        """then(row) is called with the row, if it was measured."""
        o = self.options
        job = {"model": model, "precision": precision, "how": how, "models_file": o.models_file, "steps": o.steps, "device": o.device,
               "effort": o.effort, "lock": self.lock, **more}
        self.waiting.append((job, then))

    def run(self):
        while self.waiting or self.running:
            while self.waiting and len(self.running) < self.options.together:
                self.start(*self.waiting.popleft())
            self.collect()

    def start(self, job, then):
        if time.monotonic() - self.begun > self.options.limit:
            print("| %s | %s | %s | left out, no time |" % (job["model"], job["precision"], job["how"]), flush=True)
            return
        out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        words = [sys.executable, "-u", os.path.abspath(__file__), "--job", json.dumps(job)]
        self.running.append((subprocess.Popen(words, stdout=out, stderr=err), out, err, job, then))

    def collect(self):
        time.sleep(0.2)
        for entry in [e for e in self.running if e[0].poll() is not None]:
            self.running.remove(entry)
            _, out, err, job, then = entry
            row = self.row_of(out, err, job)
            show(row)
            self.found.append(row)
            store(self.options, self.found)
            if then and "measured_bytes" in row:
                then(row)

    def row_of(self, out, err, job):
        out.seek(0)
        for line in out:
            if line.startswith("ROW "):
                return json.loads(line[4:])
        err.seek(0)
        return {**job, "error": err.read()[-300:]}


def show(row):
    budget, measured = row.get("budget"), row.get("measured_bytes")
    held = "" if budget is None or measured is None else "held" if measured <= budget else "OVER by %d" % (measured - budget)
    print("| %s | %s | %s | %s | %s | %s | %s | %s |" % (
        row["model"], row["precision"], row["how"] + (" %.2f" % row["memory_budget"] if row.get("memory_budget") else ""),
        f"{budget:,}" if budget else "", f"{row['planned_bytes']:,}" if "planned_bytes" in row else "", f"{measured:,}" if measured else "",
        "%.2f" % row["ms"] if "ms" in row else "", held or row.get("error", "").replace("\n", " ")), flush=True)


def store(options, found):
    left = ("models_file", "lock", "device", "effort", "steps", "model", "how", "budget")
    rows = [{"work": r["model"], "variant": r["how"], **({"budget_bytes": r["budget"]} if "budget" in r else {}),
             **{k: v for k, v in r.items() if k not in left}} for r in found]
    gpu = {"gpu": torch.cuda.get_device_name()} if options.device == "cuda" else {}
    results_file.write(options.json, rows, "bench/torch_fit.py", "a step with AdamW(fused=True): the middle of the steps' times; measured: "
                       "max_memory_reserved on a GPU, live storages on the CPU", versions={"pytorch": torch.__version__}, **gpu)


def ask(rows, options, model, precision):
    def of_library(row):
        rows.add(model, precision, "fit", budget=row["measured_bytes"], against="checkpoint")
        rows.add(model, precision, "selective", budget=row["measured_bytes"], against="checkpoint")

    def of_plain(row):
        above = row["measured_bytes"] - row["S_bytes"]
        for share in [float(s) for s in options.shares.split(",")]:
            rows.add(model, precision, "fit", budget=row["S_bytes"] + int(share * above), share=share)
        if not options.compile:
            rows.add(model, precision, "checkpoint", of_library)

    def of_compiled(row):
        rows.add(model, precision, "fit-compiled", budget=row["measured_bytes"], against="compile %.1f" % row["memory_budget"])

    if not options.compile:
        rows.add(model, precision, "plain", of_plain)
    for memory_budget in COMPILED_BUDGETS if options.compile else ():
        rows.add(model, precision, "compile", of_compiled, memory_budget=memory_budget)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("models_file", nargs="?")
    parser.add_argument("--models")
    parser.add_argument("--precision", default="bf16,fp32")
    parser.add_argument("--shares", default="0.7,0.5,0.35")
    parser.add_argument("--compile", action="store_true", help="the compiled forms, and these alone")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--effort", type=int, default=0)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    results_file.add_option(parser)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        return run_job(json.loads(options.job))
    print("| model | precision | how | budget | planned | measured | ms | |\n|---|---|---|---:|---:|---:|---:|---|", flush=True)
    names = options.models.split(",") if options.models else list(torch_models.load(options.models_file, "cpu"))
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(options, os.path.join(folder, "lock"))
        for name in names:
            for precision in options.precision.split(","):
                ask(rows, options, name, precision)
        rows.run()


if __name__ == "__main__":
    main()
