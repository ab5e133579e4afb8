"""Exports public models (zoo.py, given as a folder) with torch.export and writes what PyTorch computes for them.

    zoo_export.py ZOO_FOLDER OUT [--only a,b] [--no-reference] [--dropout]

Writes a case for tests/reference/model_case.c to OUT/NAME: model.pt2 (forward(batch) -> loss: the first output if it is a
scalar, else the mean square of the first floating output in fp32), config.json, weights, batch and reference. --dropout leaves
dropout as the models have it; replay.py then makes the reference.
"""
import argparse, importlib, json, os, subprocess, sys, traceback, warnings
import torch


class WithLoss(torch.nn.Module):
    def __init__(self, model, keys):
        super().__init__()
        self.model, self.keys = model, keys

    def forward(self, *args):
        n = len(args) - len(self.keys)
        out = self.model(*args[:n], **dict(zip(self.keys, args[n:])), **self.fixed)
        return loss_of(out)


def flat(out):
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, dict):
        out = list(out.values())
    elif not isinstance(out, (list, tuple)) and hasattr(out, "to_tuple"):
        out = out.to_tuple()
    return [t for item in out for t in flat(item)] if isinstance(out, (list, tuple)) else []


def loss_of(out):
    first = flat(out)
    if first[0].dim() == 0:
        return first[0].float() if first[0].dtype != torch.float64 else first[0]
    y = next(t for t in first if t.is_floating_point())
    y = y if y.dtype == torch.float64 else y.float()
    return (y * y).mean()


def no_dropout(model):
    for module in model.modules():
        for name in ("p", "drop_prob", "dropout", "attention_dropout", "drop_path_rate"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def perturb(model, seed):
    """Contract 6: zero-initialised tensors would hide gradients."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.is_floating_point() and not p.any():
                p.copy_(torch.randn(p.shape, generator=g) * 0.02)


def wide(x):
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def grads(model):
    return {name: p.grad.detach().clone() for name, p in model.named_parameters() if p.grad is not None}


def shaken(model, seed):
    """Weights changed in their last bit or two. A ReLU, a pool or a batch norm over few values whose operands are equal up to
    rounding then decides otherwise, as another order of the same sums would make it: what differs is noise."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + 2e-7 * torch.randn(p.shape, generator=g))
    return model


def loss_in(model, batch, kind):
    """Tensors that the module makes as it runs have the default type: fp32 as exported. Where those do not go with weights in
    fp64, the default is fp64 for that run."""
    inputs = [x.to(kind) if x.is_floating_point() else x for x in batch]
    torch.manual_seed(SEED)
    kept = {k: b.clone() for k, b in model.named_buffers()}
    try:
        return model(*inputs)
    except RuntimeError:
        if kind is not torch.float64:
            raise
    with torch.no_grad():
        for k, b in model.named_buffers():
            b.copy_(kept[k])
    torch.manual_seed(SEED)
    torch.set_default_dtype(kind)
    try:
        return model(*inputs)
    finally:
        torch.set_default_dtype(torch.float32)


def first_step(model, batch, kind):
    loss = loss_in(model, batch, kind)
    loss.backward()
    return {"loss": loss.detach().reshape(1), **{"grad." + k: v for k, v in grads(model).items()}}


def three_updates(model, batch, kind, first=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    for step in range(3):
        optimizer.zero_grad()
        loss_in(model, batch, kind).backward()
        if step == 0 and first is not None:
            first.update({"first." + k: v for k, v in grads(model).items()})
        optimizer.step()
    return {k: p.detach().double() for k, p in model.named_parameters()}


def states(model):
    return {k: b.detach().double() for k, b in model.named_buffers() if b.is_floating_point()}


def state_errors(want, have):
    """As model_case.c measures: running means relative to the deviations that they are subtracted from."""
    errors = {}
    for k, r in want.items():
        spread = want[k[:-4] + "var"].sum().sqrt() if k.endswith("_mean") else torch.zeros(())
        errors[k] = ((have[k] - r).norm() / max(r.norm(), spread, 1e-30)).item()
    return errors


def movement_errors(start, want, have, found, largest):
    """As model_case.c measures: without the elements whose gradient is noise, relative to the movement."""
    errors = {}
    for k, r in want.items():
        g = found.get("first." + k)
        if g is None:
            continue
        sizes = g.abs().flatten().sort()[0]
        below = (sizes.square().cumsum(0) <= (2e-4 * max(g.norm(), 1e-4 * largest)) ** 2).sum()
        keep = g.abs() > (sizes[below - 1] if below else -1)
        moved = max((r - start[k]).norm().item(), RATE * r.numel() ** 0.5)
        errors[k] = ((have[k] - r) * keep).norm().item() / moved
    return errors


def reference(wrapper, batch):
    """Loss and gradients in fp64, three AdamW steps, and, as a measure of what is noise, how far PyTorch in fp32 is from them:
    with these weights, and with weights that differ in their last bits."""
    found = first_step(copy_of(wrapper).double(), batch, torch.float64)
    largest = max(v.norm() for k, v in found.items() if k.startswith("grad."))
    runs = [first_step(m, batch, torch.float32) for m in (copy_of(wrapper), shaken(copy_of(wrapper), 1), shaken(copy_of(wrapper), 2))]
    for k in list(found):
        r = found[k]
        name = k[5:] if k.startswith("grad.") else k
        found["error." + name] = max((v[k].double() - r).norm() / max(r.norm(), 1e-4 * largest) for v in runs).reshape(1)
    model = copy_of(wrapper).double()
    start = {k: p.detach().double().clone() for k, p in model.named_parameters()}
    want, want_states = three_updates(model, batch, torch.float64, found), states(model)
    medians = [0.0]
    for seed in (1, 2):
        twin = shaken(copy_of(wrapper), seed)
        have = three_updates(twin, batch, torch.float32)
        errors = movement_errors(start, want, have, found, largest)
        medians.append(sorted(errors.values())[len(errors) // 2])
        off = {"param." + k: e for k, e in errors.items()}
        off.update({"state." + k: e for k, e in state_errors(want_states, states(twin)).items()})
        for k, e in off.items():
            old = found.get("error." + k, torch.zeros(1))
            found["error." + k] = torch.maximum(old, torch.tensor([e]))
    found["error.median"] = torch.tensor([max(medians)])
    found.update({"param." + k: p for k, p in want.items()})
    found.update({"state." + k: b for k, b in want_states.items()})
    return {k: v.float().contiguous() for k, v in found.items()}


RATE, SEED = 1e-3, 7


class Draws(torch.fx.Interpreter):
    """The random numbers that a program draws, by the name of the value."""

    def __init__(self, module):
        super().__init__(module)
        self.drawn = {}

    def run_node(self, n):
        out = super().run_node(n)
        if n.op == "call_function" and any(w in str(n.target) for w in ("rand", "normal", "bernoulli", "dropout")):
            if isinstance(out, torch.Tensor) and str(n.target).split(".")[1].rstrip("_") in ("rand", "randn", "rand_like", "randn_like", "randint"):
                self.drawn[n.name] = out.detach().clone()
        return out


def draws(program, inputs):
    torch.manual_seed(SEED)
    module = program.module()
    run = Draws(module)
    with torch.no_grad():
        run.run(*inputs)
    return run.drawn


def copy_of(wrapper):
    """Some modules hold tensors that are no leaves and cannot be copied."""
    model, args, kwargs = wrapper.make()[:3]
    model.train()
    if not wrapper.dropout:
        no_dropout(model)
    twin = WithLoss(model, wrapper.keys)
    twin.fixed, twin.make, twin.dropout = wrapper.fixed, wrapper.make, wrapper.dropout
    twin.load_state_dict(wrapper.state_dict())
    return twin


def export(name, make, out, options):
    from safetensors.torch import save_file
    torch.manual_seed(0)
    model, args, kwargs = make()[:3]
    model.train()
    if not options.dropout:
        no_dropout(model)
    perturb(model, 1)
    tensors = {k: v for k, v in kwargs.items() if isinstance(v, torch.Tensor)}
    wrapper = WithLoss(model, list(tensors))
    wrapper.dropout = options.dropout
    wrapper.fixed, wrapper.make = {k: v for k, v in kwargs.items() if k not in tensors}, make
    inputs = list(args) + list(tensors.values())
    program = None
    if not options.static:
        try:
            batch = inputs[0].shape[0]
            free = torch.export.Dim.DYNAMIC  # the program itself says which sizes it allows
            shapes = tuple({0: free} if x.dim() and x.shape[0] == batch else None for x in inputs)
            program = torch.export.export(copy_of(wrapper), tuple(inputs), dynamic_shapes=(shapes,))
        except Exception:
            program = None
    how = "symbolic" if program is not None else "static"
    if program is None:
        program = torch.export.export(copy_of(wrapper), tuple(inputs))
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.pt2")
    torch.export.save(program, path)
    config = {"system": "import", "model": {"file": path}, "batch": inputs[0].shape[0], "accumulate": 1,
              "optimizer": {"kind": "adamw", "lr": RATE, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "decay": 0.01}}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    weights = {k: v.float().contiguous() for k, v in wrapper.named_parameters()}
    weights.update({k: v.float().contiguous() for k, v in wrapper.named_buffers() if k.endswith(("running_mean", "running_var"))})
    save_file({k: v.detach().clone() for k, v in weights.items()}, os.path.join(folder, "weights.safetensors"))
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    given = {}
    drawn = draws(program, inputs)
    for i in range(3):
        for n, x in list(zip(names, inputs)) + list(drawn.items()):
            given["micro%d.%s" % (i, n)] = (x.float() if x.is_floating_point() else x.long()).contiguous().clone()
    save_file(given, os.path.join(folder, "batch.safetensors"))
    if options.reference:
        save_file(reference(wrapper, inputs), os.path.join(folder, "ref.safetensors"))
    return how, len(program.graph.nodes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("zoo")
    parser.add_argument("out")
    parser.add_argument("--only", default="")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--dropout", action="store_true")
    parser.add_argument("--no-reference", dest="reference", action="store_false")
    options = parser.parse_args()
    options.reference &= not options.dropout
    warnings.filterwarnings("ignore")
    folder, file = (options.zoo, "zoo") if os.path.isdir(options.zoo) else os.path.split(os.path.abspath(options.zoo))
    sys.path.insert(0, folder)
    zoo = importlib.import_module(file.replace(".py", ""))
    os.makedirs(options.out, exist_ok=True)
    failed = 0
    for name, make in zoo.Z.items():
        if options.only and name not in options.only.split(","):
            continue
        try:
            how, n = export(name, make, options.out, options)
            print("%-22s %s, %d nodes" % (name, how, n), flush=True)
        except Exception as e:
            if not options.static:  # a failed export with free sizes leaves some in PyTorch's caches: a process of its own
                again = [sys.executable, os.path.abspath(__file__), options.zoo, options.out, "--only", name, "--static"]
                again += ([] if options.reference else ["--no-reference"]) + (["--dropout"] if options.dropout else [])
                done = subprocess.run(again, capture_output=True, text=True)
                if done.returncode == 0:
                    print(done.stdout.strip(), flush=True)
                    continue
            failed += 1
            print("%-22s not exported: %s" % (name, (type(e).__name__ + " " + str(e)).split("\n")[0][:160]), flush=True)
            if options.only:
                traceback.print_exc()
    return 1 if options.only and failed else 0


if __name__ == "__main__":
    sys.exit(main())
