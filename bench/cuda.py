"""Whole training steps on the card: ours and PyTorch's strongest forms, taken in the same job.

    cuda.py BUILD [--limit S] [--each S] [--steps N] [--forms eager,graphs,ckpt,compile] [WORK ...]

Each run is a process of its own with a time limit (--each); --limit stops the whole in time, with what was not run left out. Ours
comes first for every work, then PyTorch's forms in the order named, for all works in the order of the table:

    eager     bf16 autocast, fused AdamW, tf32 where fp32 is left
    graphs    torch.compile(mode="reduce-overhead"): forward and backward as CUDA graphs
    ckpt      torch.utils.checkpoint around every block
    compile   torch.compile

All train the same recipe: AdamW without clipping, an EMA, one micro-batch. ms is the median step. Bytes: our arena; PyTorch's
max_memory_allocated, or reserved for graphs, whose pools it does not see. S = fp32 parameters, gradients, Adam and EMA of what is
trained, and the frozen weights (contract section 6); the ratio above S is (arena - S) / (peak - S). Best is PyTorch's fastest form."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 2 ** 20
PLAIN = ["optimizer.clip=0", "ema.rule=constant", "accumulate=1"]
FORMS = ["eager", "graphs", "ckpt", "compile"]
WORKS = {                    # most wanted first: what bench_step is told beside the precision
    "dit3d-tiny": ["dit3d-tiny"],
    "dit3d-s": ["dit3d-s"],
    "dit3d-xl": ["dit3d-xl"],
    "lag-32x6": ["lag-32x6", "data.kind=coloured-sets"],
    "lag-4x3": ["lag-4x3", "data.kind=coloured-sets"],
    "sashimi-24576": ["sashimi-24576", "data.kind=tones"],
    "stablesr-latent": ["--random", "stablesr-latent"],
    "edge": ["--part", "edge", "stablesr-edge-after"],
    "stdiff-64x512": ["stdiff-64x512", "data.kind=moving-shapes"],
    "stdiff-64x2048": ["stdiff-64x2048", "data.kind=moving-shapes"],
}
SKIPPED = {                  # known not to work, or to compile for longer than it is worth
    ("sashimi-24576", "graphs"): "the compiler does not take the complex arithmetic",
    ("sashimi-24576", "compile"): "the compiler does not take the complex arithmetic",
    ("stdiff-64x2048", "graphs"): "compiles for too long",
    ("stdiff-64x2048", "compile"): "compiles for too long",
}
BLOCKS = {"dit3d": ("Block",), "lag": ("DiTBlock", "EncoderLayer"), "sashimi": ("Residual",),
          "stablesr": ("ResBlock", "SpatialTransformer", "QkvAttention"), "stdiff": ("Resnet", "Attention", "Field")}


# ---- one run of PyTorch, in a process of its own ----

def checkpointed(model, system):
    from torch.utils.checkpoint import checkpoint
    for module in model.modules():
        if type(module).__name__ in BLOCKS[system]:
            module.forward = (lambda inner: lambda *x: checkpoint(inner, *x, use_reentrant=False))(module.forward)


def moved(values):
    return {k: v.cuda() for k, v in values.items()}


def workload(work, path):
    """-> (model, system, function that gives the loss)."""
    import torch
    from torch.nn import functional as F
    import common
    import systems
    with open(path) as f:
        cfg = json.load(f)
    gen = torch.Generator().manual_seed(0)
    module = systems.MODULES[cfg["system"]]
    abar = common.alpha_bar(cfg["model"]).cuda() if "noise_schedule" in cfg["model"] else None
    common.alpha_bar = lambda _: abar                    # once, and on the card
    if cfg["system"] == "dit3d":
        import dit3d
        grid = [n // p for n, p in zip([cfg["model"]["frames"], *cfg["model"]["image"]], cfg["model"]["patch"])]
        code = dit3d.positions(grid, cfg["model"]["width"]).float().cuda()
        dit3d.positions = lambda *_: code
    with torch.device("cuda"):
        if work == "edge":
            import stablesr
            m = cfg["model"]
            model = stablesr.EdgeProcessor(m)
            x = torch.randn(cfg["batch"], 3, m["image"], m["image"])
            y = torch.randn(cfg["batch"], 4, m["latent"], m["latent"])
            return model, cfg["system"], lambda: F.mse_loss(model(x), y)
        model = module.build(cfg)
    if cfg["model"].get("latents") == "given":           # the VAE is not run then
        del model.first_stage_model
    batch, noise = (moved(part) for part in module.make_batch(cfg, gen))
    return model, cfg["system"], lambda: module.loss(model, batch, noise)


def run_torch(work, form, path, steps):
    import torch
    sys.path.insert(0, os.path.join(HERE, "..", "tests", "ref"))
    import common
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    model, system, loss_of = workload(work, path)
    convolutional = system in ("stdiff", "stablesr")
    if convolutional:
        model = model.to(memory_format=torch.channels_last)
    if form == "ckpt":
        checkpointed(model, system)
    if form in ("compile", "graphs"):
        loss_of = torch.compile(loss_of, mode="reduce-overhead" if form == "graphs" else "default")
    params = [p for p in model.parameters() if p.requires_grad]
    adamw = torch.optim.AdamW(params, lr=1e-4, fused=True)
    ema = [p.detach().clone() for p in params]
    times, start_all = [], time.perf_counter()
    for i in range(steps + 4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        if form == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of()
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        torch._foreach_lerp_(ema, params, 1e-4)
        torch.cuda.synchronize()
        if i >= 4:
            times.append(time.perf_counter() - start)
        else:
            warm_s = time.perf_counter() - start_all
    free, total = torch.cuda.mem_get_info()
    reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    n, trained = common.count(model), common.count(model, trained=True)
    print(json.dumps({"work": work, "form": form, "ms": round(statistics.median(times) * 1e3, 3),
                      "bytes": reserved if form == "graphs" else allocated, "reserved": reserved, "used": total - free,
                      "static": 4 * n + 16 * trained, "parameters": n, "loss": float(loss.detach()),
                      "warm_s": round(warm_s, 1), "torch": torch.__version__}), flush=True)


# ---- the table ----

def one_line(command, seconds):
    """(the JSON a program printed, or None; why not)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(1, seconds))
    except subprocess.TimeoutExpired:
        return None, f"cut after {seconds:.0f} s"
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            return json.loads(line), ""
    words = [line for line in done.stderr.strip().splitlines() if line.strip()]
    memory = "OutOfMemoryError" in done.stderr
    return None, "out of memory" if memory else (words[-1][:90] if words else f"exit code {done.returncode}")


def recipe_file(build, args, out):
    name = next(a for a in args if "=" not in a and not a.startswith("--") and a != "edge")
    sets = [a for a in args if "=" in a] + PLAIN
    command = [os.path.join(build, "plimsoll"), "explain", name, "--json"]
    for s in sets:
        command += ["--set", s]
    explained = subprocess.run(command, check=True, capture_output=True, text=True)
    with open(out, "w") as f:
        json.dump(json.loads(explained.stdout)["recipe"], f)
    return out


def print_row(work, ours, theirs):
    cells = [f"{theirs[f]['ms']:9.2f} {theirs[f]['bytes'] / MIB:8.0f}" if f in theirs else f"{'-':>9} {'-':>8}" for f in FORMS]
    line = f"{work:16} {ours['ms']:9.2f} {ours['arena'] / MIB:8.0f} {ours['used'] / MIB:8.0f} | {' | '.join(cells)} |"
    if theirs:
        best = min(theirs.values(), key=lambda r: r["ms"])
        least = min(r["bytes"] for r in theirs.values() if r["bytes"] > best["static"]) if theirs else 0
        s = best["static"]
        above = f"{(ours['arena'] - s) / (best['bytes'] - s):7.2f}" if best["bytes"] > s else f"{'-':>7}"
        line += f" {best['ms'] / ours['ms']:6.2f} {s / MIB:8.0f} {ours['arena'] / best['bytes']:7.2f} {above} {least / MIB:8.0f}"
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description="training steps on a card, against PyTorch")
    parser.add_argument("build")
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--limit", type=float, default=3600, help="seconds for all")
    parser.add_argument("--each", type=float, default=400, help="seconds for one run")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--here", help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    for work in args.works:
        if work not in WORKS:
            parser.error(f"no work {work}; there are {', '.join(WORKS)}")
    forms = args.forms.split(",")
    for form in forms:
        if form not in FORMS:
            parser.error(f"no form {form}; there are {', '.join(FORMS)}")
    if args.here:
        run_torch(args.works[0], forms[0], args.here, args.steps)
        return 0
    try:
        import torch
    except ImportError:
        print("skipped: PyTorch is not installed here")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no CUDA card here")
        return 77
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, bf16, ms a step and MiB", flush=True)
    deadline = time.monotonic() + args.limit
    works, ours, theirs = args.works or list(WORKS), {}, {}
    for work in works:
        command = [os.path.join(args.build, "bench_step"), "--device", "cuda", "--steps", str(args.steps), *WORKS[work], *PLAIN,
                   "precision=bf16"]
        ours[work], why = one_line(command, min(args.each, deadline - time.monotonic()))
        if not ours[work]:
            print(f"  {work}, ours: {why}", file=sys.stderr, flush=True)
    paths = {}
    for form in forms:
        for work in works:
            left = min(args.each, deadline - time.monotonic())
            why = SKIPPED.get((work, form)) or ("no time left" if left < 10 else "")
            if not why:
                if work not in paths:
                    paths[work] = recipe_file(args.build, WORKS[work], os.path.join(args.build, f"bench-cuda-{work}.json"))
                found, why = one_line([sys.executable, os.path.abspath(__file__), args.build, work, "--forms", form, "--here",
                                       paths[work], "--steps", str(args.steps)], left)
                if found:
                    theirs.setdefault(work, {})[form] = found
                    print(f"  {work} {form}: {found['ms']} ms, warm after {found['warm_s']} s", file=sys.stderr, flush=True)
            if why:
                print(f"  {work} {form}: left out, {why}", file=sys.stderr, flush=True)
    heads = " | ".join(f"{f:>18}" for f in FORMS)
    print(f"\n{'':16} {'ours':>9} {'arena':>8} {'used':>8} | {heads} | {'best /':>6} {'S':>8} {'arena/':>7} {'above':>7} {'least':>8}\n"
          f"{'':16} {'ms':>9} {'MiB':>8} {'MiB':>8} | {' | '.join(['       ms      MiB'] * 4)} | {'ours':>6} {'MiB':>8} {'best':>7} {'S':>7} {'MiB':>8}")
    for work in works:
        if ours[work]:
            print_row(work, ours[work], theirs.get(work, {}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
