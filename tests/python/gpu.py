"""plimsoll.fit on a GPU: gradients bit for bit, and budgets held as PyTorch counts them.

    gpu.py LIBPLIMSOLL [--device cuda]

Each case is a process of its own, so that what it reserves is the step's. Deterministic algorithms
are on, so that two runs of one graph can be compared. Skipped without a GPU; --device cpu runs the
same lines with small models.
"""
import argparse
import gc
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("library")
parser.add_argument("--device", default="cuda")
parser.add_argument("--case", help=argparse.SUPPRESS)
options = parser.parse_args()
os.environ["PLIMSOLL_LIBRARY"] = os.path.abspath(options.library)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import checkers
from checkers import StorageMeter, check, done, torch, tree_leaves
from torch.utils._pytree import tree_map

import plimsoll

ON_GPU = options.device == "cuda"
EFFORT = 300
# An error of a gradient, in parts of its norm, that rounding does not explain.
BEYOND_ROUNDING = {"fp32": 1e-3, "bf16": 5e-2}


def mixed():
    torch.manual_seed(0)
    return checkers.Mixed(width=64, blocks=8), {"x": torch.randn(16, 3, 64, 64),
                                                "y": torch.randint(0, 10, (16,))}


def decoder():
    torch.manual_seed(0)
    return checkers.Decoder(width=256, layers=6, words=1000), torch.randint(0, 1000, (16, 129))


CASES = {"mixed": (mixed if ON_GPU else checkers.mixed, checkers.mixed_loss),
         "decoder": (decoder if ON_GPU else checkers.decoder, checkers.decoder_loss),
         "perceptron": ((lambda: checkers.perceptron(1024, 12)) if ON_GPU else checkers.perceptron,
                        checkers.perceptron_loss)}


def made(name):
    """Model and batch on the device, with the same numbers each time."""
    model, batch = CASES[name][0]()
    return model.to(options.device), tree_map(
        lambda x: x.to(options.device) if isinstance(x, torch.Tensor) else x, batch)


def gradients(model):
    return {n: p.grad.cpu() for n, p in model.named_parameters() if p.grad is not None}


def by_eager(name, precision):
    model, batch = made(name)
    torch.manual_seed(7)
    with torch.autocast(options.device, torch.bfloat16, enabled=precision == "bf16"):
        result = CASES[name][1](model, batch)
    tree_leaves(result)[0].backward()
    return gradients(model)


def by_fit(name, precision, budget):
    """Gradients of a step within the budget, its plan, and the peak of whole steps."""
    model, batch = made(name)
    step = plimsoll.fit(model, CASES[name][1], batch, budget, precision=precision, effort=EFFORT)
    torch.manual_seed(7)
    step(batch)
    found = gradients(model)
    model.zero_grad()
    return found, step.plan, peak(model, step, batch)


def peak(model, step, batch):
    """Reserved bytes of three steps with a fused AdamW; live storages on the CPU."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)

    def whole():
        for _ in range(3):
            step(batch)
            optimizer.step()
            optimizer.zero_grad()
    if not ON_GPU:
        with StorageMeter([*model.parameters(), *model.buffers(), *tree_leaves(batch)]) as meter:
            whole()
        return meter.peak
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    whole()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_reserved()


def swept():
    """Nothing of an earlier step is left on the device."""
    gc.collect()
    if ON_GPU:
        torch.cuda.empty_cache()


def off(a, b):
    """The largest error of a gradient, in parts of its norm. The gradient of a bias before a norm
    is nothing but rounding, so norms count from a ten-thousandth of the largest."""
    norms = {n: float(g.float().norm()) for n, g in b.items()}
    least = 1e-4 * max(norms.values())
    return max(float((a[n].float() - g.float()).norm()) / max(norms[n], least)
               for n, g in b.items())


def run(name, precision):
    what = "%s, %s" % (name, precision)
    eager = by_eager(name, precision)
    swept()
    kept, plan, seen = by_fit(name, precision, None)
    swept()
    print("%s: %s; seen %d; against eager %.1e" % (what, plan, seen, off(kept, eager)))
    check(what + ": as eager", off(kept, eager) < BEYOND_ROUNDING[precision])
    check(what + ": planned as seen", seen <= plan.peak_bytes and seen > 0.9 * plan.peak_bytes)
    for share in (0.85, 0.7):
        budget = int(share * plan.peak_bytes)
        try:
            found, within, seen = by_fit(name, precision, budget)
        except plimsoll.BudgetError as error:
            print("  %d %%: %s" % (100 * share, error))
            budget = error.minimum_bytes
            swept()
            found, within, seen = by_fit(name, precision, budget)
        swept()
        at = "%s at %d %%" % (what, 100 * share)
        print("  budget %d, planned %d, seen %d" % (budget, within.peak_bytes, seen))
        check(at + ": bit for bit", all(torch.equal(g, kept[n]) for n, g in found.items())
              and found.keys() == kept.keys())
        check(at + ": within the budget", seen <= budget)


if ON_GPU and not torch.cuda.is_available():
    print("skipped: there is no GPU")
    sys.exit(77)
if options.case:
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_default_device(options.device)
    run(*options.case.split(","))
    done()
failed = 0
for name in CASES:
    for precision in ("fp32", "bf16"):
        ended = subprocess.run([sys.executable, "-u", __file__, options.library, "--device",
                                options.device, "--case", name + "," + precision])
        failed += ended.returncode != 0
sys.exit(failed > 0)
