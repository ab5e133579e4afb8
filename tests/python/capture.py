"""The Python package's capture against a real run on the CPU, and its rules for CUDA.

    capture.py LIBPLIMSOLL

The requests of fake tensors must be those of real ones: same order, same bytes, same frees.
"""
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
os.environ["PLIMSOLL_LIBRARY"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(ROOT, "python"))
try:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_map
except ImportError:
    print("skipped: PyTorch is not installed (scripts/setup_torch.sh)")
    sys.exit(77)

import plimsoll
from plimsoll import capture, dispatch, rules
from plimsoll.training import StepForm

F = torch.nn.functional


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.norm = torch.nn.GroupNorm(4, 16)
        self.qkv = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.silu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(h).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out((h + a).mean(1))


MODELS = {
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.LayerNorm(32),
                                        torch.nn.GELU(), torch.nn.Linear(32, 5)), (6, 8)),
    "block": (Block, (6, 3, 8, 8)),
}


def loss_fn(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def events(name, form, fake):
    """Sizes of requests and frees of two steps, without the rules for CUDA."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, batch = make(), (torch.randn(shape), torch.randint(0, 5, (6,)))
    recorder = capture.Recorder()
    if not fake:
        out = capture.record(recorder, model, loss_fn, batch, form, 2)
    else:
        mode = FakeTensorMode()
        batch = tree_map(lambda x: capture._fake(mode, x), batch)
        with capture._faked(model, mode), mode:
            out = capture.record(recorder, model, loss_fn, batch, form, 2)
    # Without numbers, _foreach_norm falls apart into its norms.
    named = [(a.bytes, a.op.replace("linalg_vector", "_foreach")) for a in out.allocations]
    return [(a, *named[i]) for a, i, _ in out.events]


def check(what, holds):
    global failed
    failed += not holds
    print("%s: %s" % ("ok" if holds else "FAILED", what))


FORMS = (StepForm("adamw"), StepForm("adamw-fused"), StepForm("sgd"),
         StepForm("adamw", accumulate=3, clip=True, ema="foreach"),
         StepForm("adamw-fused", clip=True, ema="loop", grad_scaler=True))
failed = 0
for name in MODELS:
    for form in FORMS:
        real, fake = events(name, form, False), events(name, form, True)
        first = next((i for i, (r, f) in enumerate(zip(real, fake)) if r != f), None)
        check("%s, %s: %d events equal" % (name, form, len(real)),
              len(real) > 50 and real == fake)
        if first is not None:
            print("  event %d: real %s, fake %s" % (first, real[first], fake[first]))

model = Block()
weight = model.out.weight
batch = (torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,)))
h200 = rules.Rules(rules.GPUS["h200"], (2, 11))
fp32 = capture.capture(model, loss_fn, batch, StepForm("adamw", "fp32"), h200)
bf16 = capture.capture(model, loss_fn, batch, StepForm("adamw", "bf16"), h200)
ops = {a.op for a in fp32.allocations}, {a.op for a in bf16.allocations}
check("the model has its own weights again", model.out.weight is weight)
check("fp32: efficient attention", "_scaled_dot_product_efficient_attention" in ops[0])
check("bf16: cuDNN's attention", "_scaled_dot_product_cudnn_attention" in ops[1])
check("weights are cast in bf16 only", [sum(a.kind == "weight casts" for a in c.allocations)
                                        for c in (fp32, bf16)] == [0, 12])
check("two cuBLAS workspaces of 32 MiB", [a.bytes for a in fp32.allocations if a.op == "cuBLAS"]
      == [32 << 20] * 2)
freed = {i for action, i, _ in fp32.events if action == plimsoll._native.FREE}
kept = {a.kind for i, a in enumerate(fp32.allocations) if i not in freed}
check("nothing of a step outlives it but its result", kept == {
    "parameters", "inputs", "optimizer state", "workspaces", "activations"} and
    [a.op for i, a in enumerate(fp32.allocations) if i not in freed and a.kind == "activations"]
    == ["nll_loss_forward"])
e = plimsoll.explain(model, loss_fn, batch, precision="fp32", torch_version="2.11")
check("by class adds up to the later steps' peak",
      sum(s.bytes for s in e.by_class) == e.later.allocated_bytes)
check("reserved holds allocated", e.later.reserved_bytes >= e.later.allocated_bytes > 64 << 20)
check("text and HTML name the line", "capture.py:" in str(e) and "<table>" in e._repr_html_())
state = 4 * sum(p.numel() for p in model.parameters())
held = plimsoll.explain(model, loss_fn, batch, precision="fp32", torch_version="2.11", ema="loop")
check("an average is held as long as the parameters",
      held.before_bytes - e.before_bytes >= state
      and any(s.name == "averages" and s.bytes >= state for s in held.by_class))
twice = plimsoll.explain(model, loss_fn, batch, precision="fp32", torch_version="2.11",
                         accumulate=2)
check("accumulated gradients lie beside those that are computed",
      twice.later.allocated_bytes > e.later.allocated_bytes)
scaled = capture.capture(model, loss_fn, batch, StepForm(precision="fp16", grad_scaler=True), h200)
check("a scaler keeps two numbers and allocates its inverse",
      {"reciprocal", "_amp_update_scale_"} & {a.op for a in scaled.allocations} != set())
REFUSED = (({"device": "no-gpu"}, "use"), ({"precision": "fp8"}, "use"), ({"ema": "yes"}, "use"),
           ({"optimizer": "lion"}, "use"), ({"accumulate": 0}, "use"), ({"accumulate": "2"}, "use"),
           ({"optimizer": torch.optim.SGD(model.parameters())}, "lambda p: torch.optim.SGD(p)"),
           ({"optimizer": torch.optim.LBFGS}, "closure"))
for wrong, words in REFUSED:
    try:
        plimsoll.explain(model, loss_fn, batch, **wrong)
        check("refused: %s" % wrong, False)
    except (TypeError, ValueError) as err:
        check("refused: %s" % err, words in str(err) and "\n" not in str(err))

registered = []


class Once:
    """Stands for PyTorch's library, which before 2.13 takes one kernel per operator and key."""

    def impl(self, op, kernel, key):
        registered.append((str(op), key))


dispatch._register_autocast(Once(), h200)
check("each operator is registered once", len(registered) == len(set(registered)) > 50)
loss = next(i for i, a in enumerate(fp32.allocations) if a.op == "nll_loss_forward")
check("a result lives until the next one", fp32.events.index((plimsoll._native.FREE, loss, 0))
      > fp32.marks[1])
together = [a.bytes for a in fp32.allocations if a.kind == "backward temporaries"
            and a.op == "_scaled_dot_product_efficient_attention_backward"]
check("gradients of q, k and v that are parts of one tensor are, too",
      together == [3 * 4 * 6 * 64 * 2 * 8] * 2)
for name in ("NAdam", "RAdam", "Adafactor"):
    e = plimsoll.explain(model, loss_fn, batch, getattr(torch.optim, name))
    check(name, e.later.allocated_bytes > e.first.allocated_bytes // 2)
spread = torch.distributions.Normal
plimsoll.explain(model, lambda m, b: -spread(m(b[0]), 1.0).log_prob(m(b[0])).mean(), batch)
check("distributions do not check values", spread._validate_args)
check("a GPU in its own spelling", plimsoll.explain(model, loss_fn, batch, device="RTX 4090")
      .device == "rtx-4090")

lstm = torch.nn.LSTM(8, 16, 2)
flat = list(lstm._flat_weights)
told = plimsoll.explain(lstm, lambda m, x: m(x)[0].sum(), torch.randn(5, 3, 8), precision="fp32")
weights = 4 * sum(p.numel() for p in lstm.parameters())
held = {s.name: s.bytes for s in told.by_class}
check("the weights of a recurrent layer are trained", held["optimizer state"] >= 2 * weights
      and held["parameters"] >= weights)
made = capture.capture(lstm, lambda m, x: m(x)[0].sum(), torch.randn(5, 3, 8), StepForm(None), h200)
check("gates and cells of both layers are kept", 4 * 5 * 3 * 16 * (2 * (4 + 1) + 1)
      in [a.bytes for a in made.allocations if a.kind == "activations"]
      and any("recurrent" in n for n in told.notes))
for make in (torch.nn.GRU, torch.nn.RNN):
    both = make(8, 16, 2, batch_first=True, bidirectional=True)
    for precision in ("fp32", "bf16"):
        e = plimsoll.explain(both, lambda m, x: m(x)[0].sum(), torch.randn(3, 5, 8),
                             precision=precision)
        check("%s, %s" % (make.__name__, precision), e.later.allocated_bytes > e.before_bytes)
for make, state, width in ((torch.nn.LSTMCell, 2, 4), (torch.nn.GRUCell, 1, 5)):
    cell, where = make(8, 16), (lambda h: h[0]) if state == 2 else (lambda h: h)
    for precision, size in (("fp32", 4), ("bf16", 2)):
        made = capture.capture(cell, lambda m, x, where=where: where(m(x)).sum(),
                               torch.randn(3, 8), StepForm("sgd", precision), h200)
        check("%s, %s: the gates are kept" % (make.__name__, precision), size * 3 * width * 16
              in [a.bytes for a in made.allocations if a.op == "new_empty"])
check("and are its own again", all(a is b for a, b in zip(flat, lstm._flat_weights)))


def refused(what, model, loss_fn, batch, words):
    try:
        plimsoll.explain(model, loss_fn, batch)
        check("refused: " + what, False)
    except (TypeError, ValueError) as err:
        check("%s: %s" % (what, err), words in str(err) and "\n" not in str(err))


linear = torch.nn.Linear(4, 4)
rows = torch.randn(3, 4)
HERE = os.path.basename(__file__) + ":"
refused("a branch on values", linear, lambda m, x: m(x).sum() if x.sum() > 0 else m(-x).sum(),
        rows, HERE)
refused("a mask as an index", linear, lambda m, x: m(x[x[:, 0] > 0]).sum(), rows, HERE)
refused("sparse gradients", torch.nn.Embedding(9, 4, sparse=True), lambda m, x: m(x).sum(),
        torch.tensor([1, 2]), "sparse=False")
refused("sparse inputs", linear, lambda m, x: m(x.to_dense()).sum(), rows.to_sparse(), "dense")
refused("no way to the loss", linear, lambda m, x: x.sum(), rows, "detach()")
refused("a wrapped model", torch.nn.DataParallel(linear), lambda m, x: m(x).sum(), rows,
        "model.module")
refused("a compiled model", torch.compile(linear, backend="eager"), lambda m, x: m(x).sum(), rows,
        "_orig_mod")
linear.compile(backend="eager")
refused("a model compiled in place", linear, lambda m, x: m(x).sum(), rows, "compile()")
linear = torch.nn.Linear(4, 4)
refused("a lazy layer", torch.nn.LazyLinear(4), lambda m, x: m(x).sum(), rows, "run it once")
refused("no module", loss_fn, lambda m, x: m(x).sum(), rows, "torch.nn.Module")
refused("nothing to train", torch.nn.Linear(4, 4).requires_grad_(False), lambda m, x: m(x).sum(),
        rows, "requires_grad_()")
named = plimsoll.explain(linear, lambda m, x: {"loss": m(x).sum(), "out": m(x)}, rows)
check("a dict that begins with the loss", named.later.allocated_bytes
      >= plimsoll.explain(linear, lambda m, x: m(x).sum(), rows).later.allocated_bytes)
sys.exit(failed > 0)
