"""plimsoll.fit against PyTorch's own ways to save memory: budgets held, and milliseconds a step.

    torch_fit.py MODELS_FILE [--models NAME,...] [--precision bf16,fp32] [--shares 0.7,0.5,0.35] [--compile] [--steps N]
                 [--device cuda] [--out FILE]

MODELS_FILE has `Z`: name -> function of (model, loss), its helpers R and I make inputs. `small` in its place: two small models, for
a look on the CPU. Every row is a process of its own, with AdamW(fused=True) on both sides. S is 16 bytes per trained parameter. The
budgets are S + share x (the plain step's peak - S); on CUDA memory is torch.cuda.max_memory_reserved, on the CPU the live bytes of
storages. Then fit runs at the memory of the library's own gradient checkpointing, eager; with --compile also compiled, against
torch.compile with activation_memory_budget at its memory. Prints a table and, with --out, JSON.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time

import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests", "python")]
COMPILED_BUDGETS = (1.0, 0.5, 0.2)


def small_models():
    import checkers

    def closed(make, loss_fn):
        model, batch = make()
        return model, lambda: loss_fn(model, batch)
    return {"perceptron": lambda: closed(checkers.perceptron, checkers.perceptron_loss),
            "decoder": lambda: closed(checkers.decoder, checkers.decoder_loss)}


def load(path, device):
    if path == "small":
        return small_models()
    spec = importlib.util.spec_from_file_location("models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.R = lambda *s: torch.randn(*s, device=device)
    module.I = lambda n, *s: torch.randint(0, n, s, device=device)
    return module.Z


def cells(loss):
    """What the loss closes over beside modules and functions: its inputs."""
    return [c for c in loss.__closure__ if not isinstance(c.cell_contents, torch.nn.Module) and not callable(c.cell_contents)]


def made(job):
    """Model, loss_fn(model, batch) and batch."""
    torch.manual_seed(0)
    with torch.device(job["device"]):
        model, loss = load(job["models_file"], job["device"])[job["model"]]()
    model.train()
    held = cells(loss)

    def loss_fn(_, batch):
        for cell, value in zip(held, batch):
            cell.cell_contents = value
        with torch.autocast("cuda" if job["device"] == "cuda" else "cpu", torch.bfloat16, enabled=job["precision"] == "bf16"):
            return loss()
    return model, loss_fn, [c.cell_contents for c in held]


def step_of(job, model, loss_fn, batch):
    """A function that leaves gradients in .grad, and what is known of it before it runs."""
    import plimsoll

    if job["how"] in ("fit", "fit-compiled"):
        step = plimsoll.fit(model, loss_fn, batch, job["budget"], effort=job["effort"])
        known = {"planned": step.plan.peak_bytes, "slower_estimated": step.plan.slower, "again": sum(step.plan.recomputed.values())}
        if job["how"] == "fit-compiled":
            step.compile()
        return lambda: step(batch), known
    if job["how"] == "checkpoint":
        (getattr(model, "enable_gradient_checkpointing", None) or model.gradient_checkpointing_enable)()
    if job["how"] == "selective":
        found = plimsoll.checkpoint(model, loss_fn, batch, job["budget"], effort=job["effort"])
        return lambda: loss_fn(model, batch).backward(), {"planned": found.peak_bytes}
    if job["how"] == "compile":
        torch._functorch.config.activation_memory_budget = job["memory_budget"]
        run = torch.compile(lambda: loss_fn(model, batch))
        return lambda: run().backward(), {"memory_budget": job["memory_budget"]}
    return lambda: loss_fn(model, batch).backward(), {}


def measured(job, model, batch, step):
    """Peak of later steps and the middle of their times."""
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
        peak, synchronize = meter.peak, lambda: None
    else:
        torch.cuda.reset_peak_memory_stats()
        whole()
        whole()
        peak, synchronize = None, torch.cuda.synchronize
    times = []
    for _ in range(job["steps"]):
        synchronize()
        begun = time.perf_counter()
        whole()
        synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    if peak is None:
        peak = torch.cuda.max_memory_reserved()
    return {"peak": peak, "ms": sorted(times)[len(times) // 2]}


def run_job(job):
    begun = time.time()
    model, loss_fn, batch = made(job)
    row = {**job, "S": 16 * sum(p.numel() for p in model.parameters() if p.requires_grad)}
    try:
        step, known = step_of(job, model, loss_fn, batch)
        row.update(known, seconds_to_plan=round(time.time() - begun, 1))
        row.update(measured(job, model, batch, step))
    except Exception as error:
        row["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
        if hasattr(error, "minimum_bytes"):
            row["minimum"] = error.minimum_bytes
    print("ROW " + json.dumps(row), flush=True)


def child(job):
    text = subprocess.run([sys.executable, os.path.abspath(__file__), "--job", json.dumps(job)], capture_output=True, text=True)
    for line in text.stdout.splitlines():
        if line.startswith("ROW "):
            return json.loads(line[4:])
    return {**job, "error": text.stderr[-300:]}


def show(row):
    budget = row.get("budget")
    peak = row.get("peak")
    held = "" if budget is None or peak is None else "held" if peak <= budget else "OVER by %d" % (peak - budget)
    print("| %s | %s | %s | %s | %s | %s | %s | %s |" % (
        row["model"], row["precision"], row["how"] + (" %.2f" % row["memory_budget"] if row.get("memory_budget") else ""),
        f"{budget:,}" if budget else "", f"{row['planned']:,}" if "planned" in row else "", f"{peak:,}" if peak else "",
        "%.2f" % row["ms"] if "ms" in row else "", held or row.get("error", "")), flush=True)
    return row


def rows_of(options, name, precision):
    def job(how, **more):
        return show(child({"model": name, "precision": precision, "how": how, "models_file": options.models_file, "steps": options.steps,
                           "device": options.device, "effort": options.effort, **more}))

    plain = job("plain")
    yield plain
    if "peak" not in plain:
        return
    above = plain["peak"] - plain["S"]
    for share in [float(s) for s in options.shares.split(",")]:
        yield job("fit", budget=plain["S"] + int(share * above), share=share)
    library = job("checkpoint")
    yield library
    if "peak" in library:
        yield job("fit", budget=library["peak"], against="checkpoint")
        yield job("selective", budget=library["peak"], against="checkpoint")
    for memory_budget in COMPILED_BUDGETS if options.compile else ():
        compiled = job("compile", memory_budget=memory_budget)
        yield compiled
        if "peak" in compiled:
            yield job("fit-compiled", budget=compiled["peak"], against="compile %.1f" % memory_budget)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("models_file", nargs="?")
    parser.add_argument("--models")
    parser.add_argument("--precision", default="bf16,fp32")
    parser.add_argument("--shares", default="0.7,0.5,0.35")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--effort", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out")
    parser.add_argument("--job")
    options = parser.parse_args()
    if options.job:
        return run_job(json.loads(options.job))
    print("| model | precision | how | budget | planned | measured | ms | |\n|---|---|---|---:|---:|---:|---:|---|")
    names = options.models.split(",") if options.models else list(load(options.models_file, options.device))
    rows = [r for n in names for p in options.precision.split(",") for r in rows_of(options, n, p)]
    if options.out:
        with open(options.out, "w") as f:
            json.dump({"torch": torch.__version__, "device": options.device, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
