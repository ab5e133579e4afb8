"""The five systems, written in PyTorch (tests/ref) and exported, against the hand-written ones: loss, gradients, updates, bytes.

    systems.py BUILD_FOLDER WORK_FOLDER [CASE ...] [--bf16] [--time STEPS [--json FILE]]

Each case of tests/ref/case.py becomes an exported program and a case for tests/reference/model_case.c with the same weights, batch
and reference, so the imported graph is held to the tolerances that the hand-written one is held to. Then the peaks of both training
steps, everything kept, are compared: the exported model may need 5 % more. --bf16: in bf16 too. --time: CPU time of steps too, by
bench_step with one thread, the least of five runs; it is printed, and with --json written as results (bench/results_file.py), and
never checked. With cases' names, those alone.
"""
import json
import os
import re
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "..", "ref"), os.path.join(here, "..", "..", "bench")]
import results_file  # noqa: E402
try:
    import torch
    from safetensors.torch import load_file, save_file
    import case
    import common
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# The settings that an imported model does not have: rates by group, sampling. sashimi-long: where states and length, not what every
# node costs, decide.
CASES = {"dit3d": {}, "lag": {}, "sashimi": {"optimizer": {"slow_lr": None}}, "stdiff": {},
         "stablesr": {"model": {"latents": "given"}}, "sashimi-long": {"case": "sashimi", "model": {"length": 4096, "width": 16}}}
PEAK = 1.05


class WithLoss(torch.nn.Module):
    """forward(tensors of the batch and its noise) -> loss, as a user would export it."""

    def __init__(self, system, model, batch, noise):
        super().__init__()
        self.system, self.model, self.batch, self.noise = system, model, list(batch), list(noise)

    def forward(self, *tensors):
        n = len(self.batch)
        batch, noise = dict(zip(self.batch, tensors)), dict(zip(self.noise, tensors[n:]))
        if self.system.__name__ == "sashimi":
            return masked_nats(self.system, self.model, batch)
        return self.system.loss(self.model, batch, noise)


def masked_nats(system, model, batch):
    """sashimi.loss without an indexing by truth values, whose size would depend on the data: torch.export refuses that."""
    seen = batch["target"] != system.IGNORE
    nats = -system.dml_log_prob(system.output(model, batch, {}).float(), batch["target"].where(seen, 0), model.cfg["model"]["bits"])
    whole = batch["denominator"][0] / model.cfg["accumulate"] if "denominator" in batch else seen.sum()
    return nats.where(seen, 0).sum() / whole


def settings(name):
    cfg = case.config(CASES[name].get("case", name))
    cfg = common.merged(cfg, {k: v for k, v in CASES[name].items() if k == "model"})
    cfg["optimizer"].pop("slow_lr", None)
    if cfg["system"] == "sashimi":
        cfg["optimizer"]["slow_lr"] = cfg["optimizer"]["lr"]
    return cfg


def stored(path, tensors):
    save_file({k: (v.float() if v.is_floating_point() else v.long()).contiguous().clone() for k, v in tensors.items()}, path)


def renamed(tensors):
    """The reference's tensors under the names of the wrapper's parameters."""
    out = {}
    for key, value in tensors.items():
        kind, dot, name = key.partition(".")
        if not dot:
            out[key] = value
        elif kind == "error" and name.partition(".")[0] in ("param", "ema"):
            inner, _, name = name.partition(".")
            out[f"error.{inner}.model.{name}"] = value
        elif kind == "error" and name in ("loss", "output", "outliers"):
            out[key] = value
        else:
            out[f"{kind}.model.{name}"] = value
    return out


def read_weights(program):
    """Names of the parameters and statistics that a call of the program reads; not counters of batches, which nothing follows from."""
    read = {n.name for n in program.graph.nodes if n.op == "placeholder" and n.users}
    return [s.target for s in program.graph_signature.input_specs
            if s.kind.name in ("PARAMETER", "BUFFER") and s.arg.name in read and not s.target.endswith("num_batches_tracked")]


def make(name, folder, bf16):
    """The hand-written system's case in folder/hand, the exported model's in folder/exported."""
    hand, exported = os.path.join(folder, "hand"), os.path.join(folder, "exported")
    os.makedirs(hand), os.makedirs(exported)
    cfg = settings(name)
    module, model, micros, _ = case.prepare(cfg, case.SEEDS.get(CASES[name].get("case", name), 2))
    weights = model.state_dict()
    exact = case.model_at(model, weights, torch.float64)
    truth = case.first_step(module, exact, weights, micros[0])
    ref = {"loss": truth[0].reshape(1), **case.prefixed("grad.", truth[2])}
    own = case.own_errors(module, model, weights, micros[0], "bf16" if bf16 else "fp32", truth)
    ref.update({"error." + k: torch.tensor([v]) for k, v in own.items()})
    ended = case.three_updates(module, cfg, model, weights, micros)
    ref.update(ended)
    if bf16:
        got = case.three_updates(module, cfg, model, weights, micros, bf16=True)
        ref.update({"error." + k: torch.tensor([v]) for k, v in case.moved_errors(got, ended, weights).items()})
    batch, noise = micros[0]
    wrapper = WithLoss(module, case.model_at(model, weights, torch.float32), batch, noise)
    inputs = (*batch.values(), *noise.values())
    program = torch.export.export(wrapper, inputs)
    path = os.path.join(exported, "model.pt2")
    torch.export.save(program, path)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    given = {}
    for i, micro in enumerate(micros):
        for key, x in zip(names, (*micro[0].values(), *micro[1].values())):
            given[f"micro{i}.{key}"] = x
    stored(os.path.join(exported, "batch.safetensors"), given)
    stored(os.path.join(exported, "weights.safetensors"), {k: weights[k[6:]] for k in read_weights(program)})
    stored(os.path.join(exported, "ref.safetensors"), renamed(ref))
    shared = {k: cfg[k] for k in ("batch", "accumulate", "steps", "schedule", "ema")}
    optimizer = {k: v for k, v in cfg["optimizer"].items() if k != "slow_lr"}
    frozen = ["model." + n for n, p in model.named_parameters() if not p.requires_grad]
    write(os.path.join(exported, "config.json"), {"system": "import", **shared, "optimizer": optimizer, "model": {"file": path}})
    write(os.path.join(hand, "config.json"), cfg)
    return len(program.graph.nodes), len(frozen)


def write(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=2)


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})


def peak(program, folder):
    done = run(program, "explain", os.path.join(folder, "config.json"), "--json", "--effort", "-1")
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["peak_bytes"]


def step_ms(build, folder, steps, given):
    """CPU milliseconds of a step; given: no drawn data has the inputs."""
    done = run(os.path.join(build, "bench_step"), "--threads", "1", "--steps", str(steps), *["--random"] * given,
               os.path.join(folder, "config.json"))
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)["cpu_ms"]


def compare(build, work, name, bf16, steps, rows):
    """How many checks failed; prints one line, and adds a row of results."""
    program, folder = os.path.join(build, "plimsoll"), os.path.join(work, name)
    nodes, _ = make(name, folder, bf16)
    exported, failed, said = os.path.join(folder, "exported"), 0, []
    for precision in ["fp32"] + ["bf16"] * bf16:
        done = run(os.path.join(build, "compare_model_case"), exported, precision)
        lines = done.stderr.strip().split("\n")
        error = re.search(r"largest error (\S+)", done.stdout)
        said.append(f"{precision} largest error {error.group(1) if error else '?'}" if done.returncode == 0 else
                    f"{precision} FAILED: {lines[0]} ... {lines[-1]}")
        failed += done.returncode != 0
    drawn = run(program, "train", os.path.join(exported, "config.json"), "--steps", "1", "--seed", "1", "--quiet")
    failed += drawn.returncode != 0  # inputs drawn by the program, within the bounds that the file implies
    said += [f"with drawn inputs FAILED: {drawn.stderr.strip()}"] * (drawn.returncode != 0)
    ours, theirs = (peak(program, os.path.join(folder, side)) for side in ("exported", "hand"))
    over = ours > PEAK * theirs
    rows.append({"work": name, "bytes": ours, "hand_bytes": theirs, "peak_ratio": results_file.figure(ours / theirs)})
    failed += over
    said.append(f"peak {ours} against {theirs} ({ours / theirs:.3f}){' FAILED' if over else ''}")
    if steps:
        times = [[step_ms(build, os.path.join(folder, side), steps, name == "stablesr") for side in ("exported", "hand")]
                 for _ in range(5)]
        ours, theirs = (min(t[i] for t in times) for i in (0, 1))
        said.append(f"step {ours:.2f} ms against {theirs:.2f} ({ours / theirs:.2f})")
        rows[-1].update({"cpu_ms": results_file.figure(ours), "hand_cpu_ms": results_file.figure(theirs),
                         "time_ratio": results_file.figure(ours / theirs, 3)})
    print(f"{name:12s} {nodes} nodes: {'; '.join(said)}", flush=True)
    return failed


def main():
    words = sys.argv[1:]
    bf16 = "--bf16" in words
    steps = int(words[words.index("--time") + 1]) if "--time" in words else 0
    names = [w for w in words[2:] if w in CASES] or list(CASES)
    build, work = os.path.abspath(words[0]), os.path.abspath(words[1])
    torch.set_num_threads(1)
    shutil.rmtree(work, ignore_errors=True)
    rows = []
    failed = sum(compare(build, work, name, bf16, steps, rows) for name in names)
    results_file.write(words[words.index("--json") + 1] if "--json" in words else None, rows,
                       f"tests/import/systems.py BUILD WORK --time {steps}",
                       "Small settings, everything kept. cpu_ms: of a step with one thread, the least of five runs in turn.", threads=1)
    print(f"{len(names)} systems, {failed} checks failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
