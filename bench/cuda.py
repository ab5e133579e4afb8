"""Whole training steps on the GPU: ours and PyTorch's strongest forms, taken in the same job.

    cuda.py BUILD [--limit S] [--each S] [--steps N] [--together N] [--forms eager,graphs,ckpt,compile,captured,blocks]
            [--precision bf16|tf32] [WORK ...]

Each run is a process with a time limit (--each); --limit bounds all of them together, and what was not run is left out. PyTorch
compiles for minutes, so up to N of its processes (--together) warm up at the same time; while one of them takes its timed
steps, all others are stopped (SIGSTOP). Our runs come first, for all works; then PyTorch's forms:

    eager     bf16 autocast (none with --precision tf32), fused AdamW, tf32 for what stays in fp32
    graphs    torch.compile(mode="reduce-overhead"): forward and backward as CUDA graphs
    ckpt      torch.utils.checkpoint around every block
    compile   torch.compile
    captured  eager, the whole step with its update captured as one CUDA graph (torch.cuda.graph)
    blocks    torch.compile of every repeated block by itself: for models that do not compile as a whole in time

All train the same recipe: AdamW without clipping, an EMA, one micro-batch. ms is the median of steps without pauses, whose ends are
marked by events on the GPU, ours and PyTorch's alike. Bytes: our arena; PyTorch's max_memory_allocated, or what it has reserved where
it uses graphs, since their pools are not counted. S = fp32 parameters, gradients, Adam and EMA of what is trained, and the frozen
weights; the ratio above S is (arena - S) / (peak - S). Best is PyTorch's fastest form, min its smallest. Where our arena is above half
of the best form's bytes above S, "half" is our step planned within S + (peak - S) / 2 by exact levers: the price of half the memory."""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import results_file

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 2 ** 20
PLAIN = ["optimizer.clip=0", "ema.rule=constant", "accumulate=1"]
FORMS = ["eager", "graphs", "ckpt", "compile", "captured", "blocks"]      # the last only if it is named
WORKS = {                    # the most important first: arguments of bench_step, besides the precision
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
SKIPPED = {                  # known not to work, or to compile for too long
    ("sashimi-24576", "graphs"): "the compiler does not take the complex arithmetic",
    ("sashimi-24576", "compile"): "the compiler does not take the complex arithmetic",
    ("stdiff-64x2048", "graphs"): "compiles for too long",
    ("stdiff-64x2048", "compile"): "compiles for too long",
}
BLOCKS = {"dit3d": ("Block",), "lag": ("DiTBlock", "EncoderLayer"), "sashimi": ("Residual",),
          "stablesr": ("ResBlock", "SpatialTransformer", "QkvAttention"), "stdiff": ("Resnet", "Attention", "Field")}


# ---- one run of PyTorch, in its own process ----

def checkpointed(model, system):
    from torch.utils.checkpoint import checkpoint
    for module in model.modules():
        if type(module).__name__ in BLOCKS[system]:
            module.forward = (lambda inner: lambda *x: checkpoint(inner, *x, use_reentrant=False))(module.forward)


def blocks_compiled(model, system):
    import torch
    torch._dynamo.config.recompile_limit = 256           # a block is compiled for each of its shapes
    for module in model.modules():
        if type(module).__name__ in BLOCKS[system]:
            module.compile(dynamic=False)


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
    common.alpha_bar = lambda _: abar                    # once, and on the GPU
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
    if cfg["model"].get("latents") == "given":           # then the VAE does not run
        del model.first_stage_model
    batch, noise = (moved(part) for part in module.make_batch(cfg, gen))
    return model, cfg["system"], lambda: module.loss(model, batch, noise)


def event(torch):
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def captured(torch, step):
    """The step as one CUDA graph; what libraries and the optimizer create once is created before, on a side stream."""
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()                         # the graph has its own memory
    torch.cuda.reset_peak_memory_stats()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss
    return replay


def timed_steps(torch, step, steps, form, told):
    """Warms up, waits for the GPU, times steps and prints one line of JSON: what is told, and the figures."""
    ends, start_all = [], time.perf_counter()
    for i in range(steps + 4):
        if i == 4:
            torch.cuda.synchronize()
            warm_s = time.perf_counter() - start_all
            print("warm", flush=True)
            sys.stdin.readline()                     # until this process has the GPU to itself
            ends.append(event(torch))
        loss = step()
        if i >= 4:
            ends.append(event(torch))
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(ends, ends[1:])]
    free, total = torch.cuda.mem_get_info()
    reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
    print(json.dumps({**told, "form": form, "ms": round(statistics.median(times), 3),
                      "bytes": reserved if form in ("graphs", "captured") else allocated, "reserved": reserved, "used": total - free,
                      "loss": float(loss.detach()), "warm_s": round(warm_s, 1), "torch": torch.__version__}), flush=True)


def run_torch(work, form, path, steps, precision):
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
    if form == "blocks":
        blocks_compiled(model, system)
    if form in ("compile", "graphs"):
        loss_of = torch.compile(loss_of, mode="reduce-overhead" if form == "graphs" else "default")
    params = [p for p in model.parameters() if p.requires_grad]
    adamw = torch.optim.AdamW(params, lr=1e-4, fused=True, capturable=form == "captured")
    ema = [p.detach().clone() for p in params]

    def step():
        if form == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of()
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        torch._foreach_lerp_(ema, params, 1e-4)
        return loss

    if form == "captured":
        step = captured(torch, step)
    n, trained = common.count(model), common.count(model, trained=True)
    timed_steps(torch, step, steps, form, {"work": work, "static": 4 * n + 16 * trained, "parameters": n})


# ---- the table ----

class Run:
    """A program that prints one line of JSON; it may first print `warm` and wait for a line of input."""

    def __init__(self, command, seconds):
        self.until = time.monotonic() + seconds
        self.files = [tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.files[0], stderr=self.files[1], text=True,
                                        start_new_session=True)      # its own process group: compilers start helpers

    def signal_all(self, what):
        try:
            os.killpg(self.process.pid, what)
        except ProcessLookupError:                   # it has ended
            pass

    def said(self, which):
        return os.pread(self.files[which].fileno(), 1 << 24, 0).decode(errors="replace")     # pread: the child moves the file's offset

    def waits(self):
        """Whether it is warm, has ended, or is late."""
        return self.process.poll() is not None or self.warm() or time.monotonic() > self.until

    def warm(self):
        return "warm" in self.said(0).split()

    def result(self, seconds):
        """(the JSON, or None; why not)."""
        late = time.monotonic() > self.until and not self.warm()
        try:
            if late:
                raise subprocess.TimeoutExpired("", 0)
            self.process.communicate("\n", timeout=max(1, seconds))
        except subprocess.TimeoutExpired:
            return None, "its time was over before it was warm" if late else f"stopped after {seconds:.0f} s"
        finally:
            if self.process.poll() is None:              # late, or we are interrupted
                self.signal_all(signal.SIGKILL)
                self.process.wait()
        for line in self.said(0).splitlines():
            if line.startswith("{"):
                return json.loads(line), ""
        if "OutOfMemoryError" in self.said(1):
            return None, "out of memory"
        words = [line for line in self.said(1).strip().splitlines() if line.strip()]
        return None, words[-1] if words else f"exit code {self.process.returncode}"


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


def our_step(args, work, *more):
    found, why = Run([os.path.join(args.build, "bench_step"), "--device", "cuda", "--steps", str(args.steps), *more, *WORKS[work], *PLAIN,
                      f"precision={args.precision}"], args.each).result(args.each)
    told = f"{found['ms']} ms, {found['arena'] / MIB:.0f} MiB" if found else why[:90]    # shown at once: the table comes at the end
    print(f"  {work}, ours{''.join(' ' + m for m in more)}: {told}", file=sys.stderr, flush=True)
    return found


def best_of(theirs):
    return min(theirs.values(), key=lambda r: r["ms"])


def our_half(args, work, ours, theirs):
    """Our step in half of the memory that PyTorch's fastest form needs above S; None if ours is below that anyway."""
    best = best_of(theirs)
    half = best["static"] + (best["bytes"] - best["static"]) // 2
    return our_step(args, work, "--budget", str(half)) if best["bytes"] > best["static"] and ours["arena"] > half else None


def torch_runs(args, pairs, command, deadline):
    """Yields (work, form, JSON or None, why not) of each pair; several warm up at a time, one is timed at a time.

    command(work, form) is the command line of one run."""
    left, warming = list(pairs), {}
    try:
        while (left and deadline - time.monotonic() > 10) or warming:
            while left and len(warming) < args.together and deadline - time.monotonic() > 10:
                work, form = left.pop(0)
                warming[work, form] = Run(command(work, form), min(args.each, deadline - time.monotonic()))
            ready = next((pair for pair, run in warming.items() if run.waits()), None)
            if not ready:
                time.sleep(0.2)
                continue
            run, since = warming.pop(ready), time.monotonic()
            for other in warming.values():
                other.signal_all(signal.SIGSTOP)
            time.sleep(0.3)                              # until their queued work on the GPU is done
            found, why = run.result(args.each)
            for other in warming.values():
                other.signal_all(signal.SIGCONT)
                other.until = min(other.until + time.monotonic() - since, deadline)
            yield (*ready, found, why)
    finally:
        for run in warming.values():
            run.signal_all(signal.SIGKILL)
    for work, form in left:
        yield work, form, None, "no time left"


def print_row(work, ours, theirs, half):
    cells = [f"{theirs[f]['ms']:9.2f} {theirs[f]['bytes'] / MIB:8.0f}" if f in theirs else f"{'-':>9} {'-':>8}" for f in FORMS]
    line = f"{work:16} {ours['ms']:9.2f} {ours['arena'] / MIB:8.0f} {ours['used'] / MIB:8.0f} | {' | '.join(cells)} |"
    if theirs:
        best = best_of(theirs)
        smallest = min(r["bytes"] for r in theirs.values() if r["bytes"] > best["static"]) if theirs else 0
        s = best["static"]
        above = f"{(ours['arena'] - s) / (best['bytes'] - s):7.2f}" if best["bytes"] > s else f"{'-':>7}"
        line += f" {best['ms'] / ours['ms']:6.2f} {s / MIB:8.0f} {ours['arena'] / best['bytes']:7.2f} {above} {smallest / MIB:8.0f}"
    if half:
        line += f" {half['arena'] / MIB:8.0f} {half['ms']:8.2f}"
    print(line, flush=True)


def row_figures(args, work, ours, theirs, half):
    """The rows of a results file: ours, each form of PyTorch, ours in half of its memory."""
    def row(variant, found, memory, **more):
        return {"work": work, "variant": variant, "precision": args.precision, "ms": results_file.figure(found["ms"]), "mib": found[memory] // MIB, **more}
    static = {"static_mib": best_of(theirs)["static"] // MIB} if theirs else {}
    rows = [row("Plimsoll", ours, "arena", used_mib=ours["used"] // MIB, **static)]
    rows += [row(form, found, "bytes") for form, found in theirs.items()]
    return rows + ([row("Plimsoll, half", half, "arena")] if half else [])


def main():
    parser = argparse.ArgumentParser(description="training steps on a GPU, against PyTorch")
    parser.add_argument("build")
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--limit", type=float, default=3600, help="seconds for all")
    parser.add_argument("--each", type=float, default=400, help="seconds for one run")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--together", type=int, default=1, help="PyTorch processes that warm up at the same time")
    parser.add_argument("--forms", default=",".join(FORMS[:5]))
    parser.add_argument("--precision", choices=["bf16", "tf32"], default="bf16")
    results_file.add_option(parser)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    for work in args.works:
        if work not in WORKS:
            parser.error(f"there is no work {work}; there are {', '.join(WORKS)}")
    forms = args.forms.split(",")
    for form in forms:
        if form not in FORMS:
            parser.error(f"there is no form {form}; there are {', '.join(FORMS)}")
    if args.here:
        run_torch(args.works[0], forms[0], args.here, args.steps, args.precision)
        return 0
    try:
        import torch
    except ImportError:
        print("skipped: PyTorch is not installed here")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no CUDA GPU here")
        return 77
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {args.precision}, ms a step and MiB", flush=True)
    deadline = time.monotonic() + args.limit
    works = args.works or list(WORKS)
    pairs = [(work, form) for form in forms for work in works]
    for pair in [pair for pair in pairs if pair in SKIPPED]:
        print(f"  {' '.join(pair)}: left out, {SKIPPED[pair]}", file=sys.stderr, flush=True)
        pairs.remove(pair)
    paths = {work: recipe_file(args.build, WORKS[work], os.path.join(args.build, f"bench-cuda-{work}.json")) for work in works}
    ours, theirs = {work: our_step(args, work) for work in works}, {work: {} for work in works}

    def command(work, form):
        return [sys.executable, os.path.abspath(__file__), args.build, work, "--forms", form, "--here", paths[work],
                "--steps", str(args.steps), "--precision", args.precision]
    for work, form, found, why in torch_runs(args, pairs, command, deadline):
        if found:
            theirs[work][form] = found
        told = f"{found['ms']} ms, {found['bytes'] / MIB:.0f} MiB, warm after {found['warm_s']} s" if found else f"left out, {why[:90]}"
        print(f"  {work} {form}: {told}", file=sys.stderr, flush=True)
    heads = " | ".join(f"{f:>18}" for f in FORMS)
    print(f"\n{'':16} {'ours':>9} {'arena':>8} {'used':>8} | {heads} | {'best /':>6} {'S':>8} {'arena/':>7} {'above':>7} {'min':>8} {'half':>8}\n"
          f"{'':16} {'ms':>9} {'MiB':>8} {'MiB':>8} | {' | '.join(['       ms      MiB'] * len(FORMS))} | {'ours':>6} {'MiB':>8} {'best':>7} {'S':>7} {'MiB':>8} {'MiB':>8} {'ms':>8}")
    rows = []
    for work in works:
        if ours[work]:
            half = our_half(args, work, ours[work], theirs[work]) if theirs[work] and deadline > time.monotonic() else None
            print_row(work, ours[work], theirs[work], half)
            rows += row_figures(args, work, ours[work], theirs[work], half)
    results_file.write(args.json, rows, "bench/cuda.py BUILD", "mib: our arena; PyTorch's max_memory_allocated. static_mib: S.",
                 gpu=torch.cuda.get_device_name(), versions={"pytorch": torch.__version__})
    return 0


if __name__ == "__main__":
    sys.exit(main())
