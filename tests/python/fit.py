"""plimsoll.fit on small models: gradients, memory, random numbers, mutations, refusals.

    fit.py LIBPLIMSOLL [RESULTS]

RESULTS: a file for the figures of the budgets (bench/results/README.md); what follows them is not
run then.
"""
import copy
import os
import sys

os.environ["PLIMSOLL_LIBRARY"] = os.path.abspath(sys.argv[1])
from checkers import (F, ROOT, StorageMeter, allocator_peak, check, decoder, decoder_loss, done,
                    mixed, mixed_loss, perceptron, perceptron_loss, torch, tree_leaves)

import plimsoll

EFFORT = 500


def gradients(model):
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def near(a, b):
    return a.keys() == b.keys() and all(torch.allclose(a[k], b[k], rtol=1e-4, atol=1e-5) for k in a)


def one_step(model, loss_fn, batch, budget, **how):
    """A step of a copy of the model from seed 7."""
    model = copy.deepcopy(model)
    step = plimsoll.fit(model, loss_fn, batch, budget, effort=EFFORT, **how)
    torch.manual_seed(7)
    result = step(batch)
    return model, step, result


def eager(model, loss_fn, batch):
    model = copy.deepcopy(model)
    torch.manual_seed(7)
    result = loss_fn(model, batch)
    tree_leaves(result)[0].backward()
    return model, result


def metered(model, step, batch):
    """Two whole steps with fused AdamW under the meter."""
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    meter = StorageMeter([*model.parameters(), *model.buffers(), *tree_leaves(batch)])
    with meter:
        for _ in range(2):
            step(batch)
            optimizer.step()
            optimizer.zero_grad()
    return meter.peak


def allocated(model, step, batch):
    held = sum(x.untyped_storage().nbytes() for x in
               {x.untyped_storage()._cdata: x for x in [*model.parameters(), *model.buffers(),
                                                        *tree_leaves(batch)]}.values())

    def run():
        model.zero_grad()
        step(batch)
    return held + allocator_peak(run)


rows = []
for name, make, loss_fn, shares in (("mixed", mixed, mixed_loss, (0.8, 0.6)),
                                    ("decoder", decoder, decoder_loss, (0.8, 0.6)),
                                    ("perceptron", perceptron, perceptron_loss, (0.92,))):
    model, batch = make()
    by_eager, eager_result = eager(model, loss_fn, batch)
    kept, kept_step, kept_result = one_step(model, loss_fn, batch, None)
    check("%s: gradients as eager's" % name, near(gradients(by_eager), gradients(kept)))
    check("%s: buffers as eager's" % name, near(dict(by_eager.named_buffers()),
                                                dict(kept.named_buffers())))
    peak = kept_step.plan.peak_bytes
    for share in shares:
        fitted, step, result = one_step(model, loss_fn, batch, int(share * peak))
        what = "%s at %.0f %%" % (name, 100 * share)
        print(what, "-", step)
        check(what + ": gradients bit for bit", equal(gradients(kept), gradients(fitted)))
        check(what + ": results bit for bit", all(
            torch.equal(a, b) for a, b in zip(tree_leaves(kept_result), tree_leaves(result))))
        check(what + ": buffers written once", equal(dict(kept.named_buffers()),
                                                     dict(fitted.named_buffers())))
        check(what + ": something is recomputed", sum(step.plan.recomputed.values()) > 0)
        check(what + ": within the budget", step.plan.peak_bytes <= share * peak)
        seen = metered(fitted, step, batch)
        print("    planned %d, storages %d" % (step.plan.peak_bytes, seen))
        check(what + ": the meter sees no more", 0.97 * step.plan.peak_bytes <= seen
              <= step.plan.peak_bytes)
        rows.append({"work": name, "kept_bytes": peak, "budget_percent": round(100 * share),
                     "planned_bytes": step.plan.peak_bytes, "measured_bytes": seen,
                     "again": sum(step.plan.recomputed.values()),
                     "extra_percent": round(100 * step.plan.slower, 1)})
    step = plimsoll.fit(fitted, loss_fn, batch, int(shares[0] * peak), optimizer=None,
                        effort=EFFORT)
    inside = allocated(fitted, step, batch)
    print("    without an update: planned %d, allocator %d" % (step.plan.peak_bytes, inside))
    check("%s: nor does the allocator, but for workspaces" % name,
          inside <= step.plan.peak_bytes + (1 << 20))

if len(sys.argv) > 2:
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    import results_file
    results_file.write(sys.argv[2], rows, "tests/python/fit.py LIBPLIMSOLL RESULTS",
                       "a step with AdamW(fused=True) on the CPU: kept, the plan's peak without a "
                       "budget; budget, the part of it that is allowed; measured, the peak of live "
                       "storages over two steps; again, recomputed operators",
                       versions={"pytorch": torch.__version__})
    done()

model, batch = mixed()
try:
    plimsoll.fit(model, mixed_loss, batch, "1KiB", effort=EFFORT)
    check("a budget that is too small is refused", False)
except plimsoll.BudgetError as error:
    minimum = error.minimum_bytes
    check("refused: %s" % error, str(minimum) in str(error) and minimum > 1024)
kept, _, _ = one_step(model, mixed_loss, batch, None)
least, step, _ = one_step(model, mixed_loss, batch, minimum)
check("the minimum works", step.plan.peak_bytes <= minimum
      and equal(gradients(kept), gradients(least)))
check("and is held", metered(least, step, batch) <= minimum)

# ---- gradients that add up ----

model, batch = perceptron()
twice, _ = eager(model, perceptron_loss, batch)
perceptron_loss(twice, batch).backward()
for how in ({}, {"accumulate": True}):
    fitted, step, _ = one_step(model, perceptron_loss, batch, None, **how)
    step(batch)
    check("two steps add up (%s)" % (how or "after the step"), near(gradients(twice),
                                                                   gradients(fitted)))

# ---- the loss scaled, autocast, other forms and modes ----

scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
plain, step, result = one_step(model, perceptron_loss, batch, None)
scaled, step, scaled_result = one_step(model, perceptron_loss, batch, None, grad_scaler=scaler)
check("GradScaler: gradients scaled, the loss not", torch.equal(result, scaled_result) and all(
    torch.allclose(g, 1024 * gradients(plain)[n]) for n, g in gradients(scaled).items()))
optimizer = torch.optim.SGD(scaled.parameters(), 0.1)
scaler.step(optimizer)
scaler.update()
check("GradScaler: unscaled by step()", near(gradients(plain), gradients(scaled)))

model, batch = decoder()
def half_loss(m, b):
    with torch.autocast("cpu", torch.bfloat16):
        return decoder_loss(m, b)
by_eager, eager_result = eager(model, half_loss, batch)
kept, kept_step, _ = one_step(model, decoder_loss, batch, None, precision="bf16")
fitted, step, result = one_step(model, decoder_loss, batch,
                                int(0.8 * kept_step.plan.peak_bytes), precision="bf16")
check("bf16: gradients bit for bit", equal(gradients(kept), gradients(fitted)))
check("bf16: as eager's", torch.allclose(result, eager_result, rtol=1e-3) and all(
    F.cosine_similarity(g.flatten(), gradients(fitted)[n].flatten(), 0) > 0.99
    for n, g in gradients(by_eager).items()))

by_context, within, _ = one_step(model, decoder_loss, batch, None)
first = gradients(by_context)
by_context.zero_grad()
torch.manual_seed(7)
with torch.autocast("cpu", torch.bfloat16):
    inside = within(batch)
check("a call within autocast: its casts", equal(gradients(kept), gradients(by_context))
      and torch.equal(inside, result))
by_context.zero_grad()
torch.manual_seed(7)
within(batch)
check("and without them again", equal(first, gradients(by_context)))

fitted.eval()
a, b = step(batch), step(batch)
check("eval mode: planned anew, without dropout", torch.equal(a, b))
fitted.zero_grad()
fitted.words.requires_grad_(False)
step(batch[:2])
check("a batch of another form and a frozen weight", fitted.words.weight.grad is None
      and fitted.layers[0].linear1.weight.grad is not None)
for wrong, words in (({"budget": "16 bananas"}, "KiB"), ({"precision": "fp8"}, "bf16"),
                     ({"optimizer": "lion"}, "adamw"), ({"budget": 0}, "more than 0"),
                     ({"grad_scaler": True}, "GradScaler")):
    try:
        plimsoll.fit(model, decoder_loss, batch, **wrong)
        check("refused: %s" % wrong, False)
    except (TypeError, ValueError) as error:
        check("refused: %s" % error, words in str(error))
try:
    plimsoll.fit(model, lambda m, x: m(x), batch)
    check("refused: no scalar", False)
except TypeError as error:
    check("refused: %s" % error, "one element" in str(error))


class Unreached(torch.nn.Module):
    """A part under no_grad and a part that is not used: both require gradients and get none."""

    def __init__(self):
        super().__init__()
        self.body, self.unused = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x):
        with torch.no_grad():
            h = self.body(x)
        return self.head(torch.tanh(h))


torch.manual_seed(0)
model, batch = Unreached(), torch.randn(5, 8)
by_eager, _ = eager(model, lambda m, x: m(x).square().mean(), batch)
fitted, step, _ = one_step(model, lambda m, x: m(x).square().mean(), batch, None)
check("parameters without a gradient stay without one, and trainable", near(
    gradients(by_eager), gradients(fitted)) and all(p.requires_grad for p in fitted.parameters()))
model, batch = mixed()
state = torch.get_rng_state()
plimsoll.fit(model, mixed_loss, batch, effort=EFFORT)
check("planning takes no random numbers", torch.equal(state, torch.get_rng_state()))
batch = torch.randn(5, 8)
shared = torch.nn.Linear(8, 8)
shared.weight.register_hook(lambda g: 2 * g)
model = torch.nn.Sequential(shared, torch.nn.Tanh(), shared)
weights = list(model.parameters())
model(batch).square().mean().backward()
by_eager = {n: g.clone() for n, g in gradients(model).items()}
model.zero_grad()
step = plimsoll.fit(model, lambda m, x: m(x).square().mean(), batch, effort=EFFORT)
step(batch)
check("a module in two places, with a hook on its weight", near(by_eager, gradients(model)))
check("and its own weights afterwards", all(a is b for a, b in zip(weights, model.parameters())))
gated = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.SiLU(), torch.nn.Linear(8, 8))
step = plimsoll.fit(gated, lambda m, x: m(x).square().mean(), batch, effort=EFFORT)
names = [str(n.target) for n in step.graph.graph.nodes]
check("SiLU's gradient is one operator", "aten.silu_backward.default" in names
      and "aten.sigmoid.default" not in names)
old = gated[0]
gated[0] = torch.nn.Linear(8, 8)
step(batch)
check("a module may be replaced", old.weight.grad is None and gated[0].weight.grad is not None)
gated.double()
gated.zero_grad()
step(batch.double())
check("a model of another type is planned anew", gated[0].weight.grad.dtype == torch.float64)
model = Unreached()
for what, loss_fn, words in (
        ("no way to the loss", lambda m, x: m(x).detach().square().mean(), "detach()"),
        ("a branch on values", lambda m, x: m(x).sum() * (2 if x.sum() > 0 else 1), "torch.where"),
        ("reentrant checkpointing", lambda m, x: torch.utils.checkpoint.checkpoint(
            m.head, m.unused(x), use_reentrant=True).sum(), "use_reentrant=False")):
    try:
        plimsoll.fit(model, loss_fn, batch, effort=EFFORT)
        check("refused: " + what, False)
    except ValueError as error:
        check("%s: %s" % (what, error), words in str(error))
class Spectral(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, dtype=torch.cfloat))

    def forward(self, x):
        f = torch.zeros(x.shape[0], 5, dtype=torch.cfloat)
        f[:, :3] = torch.fft.rfft(x)[:, :3] * self.weight
        return torch.fft.irfft(f)


spectral, spectral_loss = Spectral(), lambda m, x: m(x).square().mean()
by_eager, _ = eager(spectral, spectral_loss, batch)
fitted, step, _ = one_step(spectral, spectral_loss, batch, None, optimizer="adamw")
check("parts of complex tensors, inverse FFT", near(gradients(by_eager), gradients(fitted)))
try:
    plimsoll.fit(spectral, spectral_loss, batch, effort=EFFORT)
    check("refused: fused on complex parameters", False)
except ValueError as error:
    check("refused: %s" % error, "'adamw'" in str(error))
try:
    plimsoll.fit(torch.nn.DataParallel(model), lambda m, x: m(x).mean(), batch, effort=EFFORT)
    check("refused: a wrapped model", False)
except ValueError as error:
    check("refused: %s" % error, "model.module" in str(error))
check("bytes", [plimsoll.parse_bytes(x) for x in ("16GiB", "2 MB", "1.5K", "7", 9)]
      == [16 << 30, 2_000_000, 1536, 7, 9])
done()
