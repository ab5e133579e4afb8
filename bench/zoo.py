"""Public models in small configurations on the CPU: the exported program trained by us, the same module trained by PyTorch, in turn.

    zoo.py BUILD [--zoo FOLDER] [--steps N] [--rounds N] [--threads N] [--forms eager,compile] [--least MS] [--compile MS] [--limit S]
           [--json FILE] [MODEL ...]

The models are those of ../shared/zoo/zoo.py (or of the folder PLIMSOLL_ZOO), which needs .venv-zoo (scripts/setup_zoo.sh). Each is
exported once, by tests/import/zoo_export.py, to BUILD/zoo. fp32, fused AdamW, no clipping, no EMA, dropout off, the same batch in every
step. Each side is a process of its own; the fastest median of all rounds counts. torch.compile compiles before it is measured; its
cache stays in BUILD/zoo. Models whose eager step takes less than --least milliseconds (5) are left out, those of less than --compile
(0) are not compiled. --limit: no model is begun later. cpu_ms: of all threads, which other programs on the machine disturb less."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import results_file

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..")
ZOO = os.environ.get("PLIMSOLL_ZOO", os.path.join(ROOT, "..", "shared", "zoo"))
PYTHON = os.path.join(ROOT, ".venv-zoo", "bin", "python")
EXPORT = os.path.join(ROOT, "tests", "import", "zoo_export.py")
PLAIN = ["optimizer.clip=0", "ema.rule=none", "accumulate=1"]


def torch_step(zoo, name):
    """-> (module whose forward takes the batch and returns the loss, the batch)."""
    import torch
    import zoo as models
    import zoo_export
    torch.manual_seed(0)
    model, args, kwargs = models.Z[name]()[:3]
    model.train()
    zoo_export.no_dropout(model)
    zoo_export.perturb(model, 1)
    tensors = {k: v for k, v in kwargs.items() if isinstance(v, torch.Tensor)}
    module = zoo_export.WithLoss(model, list(tensors))
    module.fixed = {k: v for k, v in kwargs.items() if k not in tensors}
    return module, list(args) + list(tensors.values())


def timed(module, run, batch, steps):
    import torch
    adamw = torch.optim.AdamW(module.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    times, cpu = [], 0
    for i in range(steps + 3):
        start, spent = time.perf_counter(), time.process_time()
        loss = run(*batch)
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        if i >= 3:
            times.append(time.perf_counter() - start)
            cpu += time.process_time() - spent
    return {"ms": statistics.median(times) * 1e3, "cpu_ms": cpu / steps * 1e3, "loss": float(loss.detach())}


def run_torch(args):
    """A JSON line for each form; in .venv-zoo."""
    sys.path[:0] = [args.zoo, os.path.dirname(EXPORT)]
    import torch
    torch.set_num_threads(args.threads)
    module, batch = torch_step(args.zoo, args.models[0])
    for form in args.run.split(","):
        got = timed(module, torch.compile(module) if form == "compile" else module, batch, args.steps)
        print(json.dumps({"form": form, **got}), flush=True)
        if form == "eager" and got["ms"] < max(args.compile, args.least):
            return


def json_lines(command, env):
    """The JSON lines that a program prints, and why there are no more."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return lines, (done.stderr.strip().splitlines() or ["it printed nothing"])[-1] if done.returncode else None


def exported(work, zoo, name):
    """config.json of the exported program; None, and why, where torch.export refuses it."""
    config = os.path.join(work, name, "config.json")
    if not os.path.exists(os.path.join(work, name, "batch.safetensors")):
        done = subprocess.run([PYTHON, EXPORT, zoo, work, "--only", name, "--no-reference"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": zoo})
        if done.returncode:
            print(f"{name:20} {done.stdout.strip()}", flush=True)
            return None
    return config


def measure(args, work, name):
    """The best run of each side by its name, or an error; None: it is not exported, or too quick."""
    config = exported(work, args.zoo, name)
    if not config:
        return None
    env = {"OMP_NUM_THREADS": str(args.threads), "TORCHINDUCTOR_CACHE_DIR": os.path.join(work, "inductor")}
    theirs = [PYTHON, os.path.abspath(__file__), args.build, "--zoo", args.zoo, "--steps", str(args.steps), "--threads", str(args.threads),
              "--least", str(args.least), "--compile", str(args.compile), "--run", args.forms, name]
    ours = [os.path.join(args.build, "bench_step"), "--threads", str(args.threads), "--steps", str(args.steps), config, *PLAIN]
    best = {}
    for _ in range(args.rounds):
        for side, command in (("PyTorch", theirs), ("ours", ours)):
            lines, error = json_lines(command, env)
            for got in lines + ([{"form": side, "error": error}] if error else []):
                form = got.get("form", side)
                if "error" in got or form not in best or got["ms"] < best[form].get("ms", 0):
                    best[form] = got
            if best.get("eager", {}).get("ms", args.least) < args.least:
                return None
    return best


def row(name, best):
    figure, ours = results_file.figure, best.get("ours", {})
    out, text = {"work": name}, f"{name:20}"
    for side, got in best.items():
        text += f" {side} " + (f"{got['ms']:8.2f} ({got['cpu_ms']:7.2f})" if "ms" in got else got["error"][:100])
        if "ms" in got:
            prefix = "" if side == "ours" else side + "_"
            out.update({prefix + "ms": figure(got["ms"]), prefix + "cpu_ms": figure(got["cpu_ms"])})
    theirs = [best[form]["ms"] for form in best if form not in ("ours", "PyTorch") and "ms" in best[form]]
    if "ms" in ours and theirs:
        out["pytorch_ratio"] = figure(min(theirs) / ours["ms"], 3)
        text += f"  {out['pytorch_ratio']:.2f}"
    print(text, flush=True)
    return out


def names_of(zoo):
    listed = subprocess.run([PYTHON, "-c", "import zoo; print(' '.join(zoo.Z))"], capture_output=True, text=True,
                            env={**os.environ, "PYTHONPATH": zoo})
    return listed.stdout.split()


def main():
    parser = argparse.ArgumentParser(description="public models on the CPU against PyTorch")
    parser.add_argument("build")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--zoo", default=ZOO)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--least", type=float, default=5)
    parser.add_argument("--compile", type=float, default=0)
    parser.add_argument("--forms", default="eager,compile")
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--run", default="", help=argparse.SUPPRESS)
    results_file.add_option(parser)
    args = parser.parse_intermixed_args()
    args.zoo, args.build = os.path.abspath(args.zoo), os.path.abspath(args.build)
    if args.run:
        return run_torch(args)
    if not os.path.exists(PYTHON) or not os.path.isdir(args.zoo):
        print("skipped: .venv-zoo (scripts/setup_zoo.sh) or the models' list is not here")
        return 77
    work, rows, end = os.path.join(args.build, "zoo"), [], time.monotonic() + args.limit
    os.makedirs(work, exist_ok=True)
    print("ms of a step (and CPU ms of all threads); the last figure is the faster of PyTorch's / ours: above 1, ours is faster")
    for name in args.models or names_of(args.zoo):
        best = measure(args, work, name) if time.monotonic() < end else None
        if best:
            rows.append(row(name, best))
    results_file.write(args.json, rows, "scripts/bench.sh BUILD zoo",
                       f"fp32, taken in turn, the best of {args.rounds} rounds. cpu_ms: CPU time of all threads. pytorch_ratio: the faster of "
                       "PyTorch's times / ours.", threads=args.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
