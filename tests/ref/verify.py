#!/usr/bin/env python3
"""Does the reference itself hold? Every check here can fail on its own; prints one line each.

S4's kernel against its recurrence, generation against convolution, the mixture's total mass,
float32 and bf16 gradients against float64, and a falling loss for every case of case.py.
"""
import sys
import time

import torch

import case
import common
import dit3d
import sashimi
import stablesr
import stdiff

failures = []


def say(name, value, limit):
    ok = value <= limit
    print(f"{'ok  ' if ok else 'FAIL'} {name}: {value:.3g} (limit {limit:.3g})", flush=True)
    if not ok:
        failures.append(name)


def s4_kernel():
    """K_l = C Abar^l Bbar, C = C~ (I - Abar^L)^-1, for odd lengths of rows and several L."""
    for L in (3, 4, 15, 16, 64, 96, 1000):
        torch.manual_seed(L)
        kernel = sashimi.Kernel(5, 64, L).double()
        kernel.convert(sashimi._to_tilde(L))
        with torch.no_grad():
            K = kernel()
            A, x, C = kernel.dense()
            C = torch.linalg.solve(sashimi._to_tilde(L)(A), C[:, None], left=False)[:, 0]
            slow = []
            for _ in range(L):
                slow.append((C * x).sum(-1).real)
                x = (A @ x[..., None])[..., 0]
        slow = torch.stack(slow, 1)
        say(f"S4 kernel against recurrence, L={L}", float((K - slow).abs().max()), 1e-10)


def s4_doubling():
    """The kernel of C~ made for 2L agrees with that for L on the first L values."""
    torch.manual_seed(0)
    L = 32
    kernel = sashimi.Kernel(3, 64, L).double()
    kernel.convert(sashimi._to_tilde(L))
    with torch.no_grad():
        short = kernel()
        kernel.convert(lambda A: torch.eye(64, dtype=A.dtype) + torch.linalg.matrix_power(A, L))
        kernel.length = 2 * L
        long = kernel()
    say("S4 kernel after doubling its length", float((long[:, :L] - short).abs().max()), 1e-10)


def generation():
    """Step by step equals the convolutional form on the same tokens."""
    for name in ("sashimi", "sashimi-categorical"):
        cfg = case.config(name)
        module, model, micros, _ = case.prepare(cfg, 3)
        model = model.double()
        x = micros[0][0]["tokens"]
        with torch.no_grad():
            run = sashimi.Recurrent(model, len(x))
            steps = torch.stack([run.step(x[:, i]) for i in range(x.shape[1])], 1)
            say(f"{name}: recurrent against convolution", case.error(steps, model(x)), 1e-9)


def mixture_mass():
    """The bins of the mixture cover the line once, for wide and for narrow components."""
    gen = torch.Generator().manual_seed(0)
    for bits in (8, 12):
        Q = 2 ** bits
        params = torch.randn(7, 18, generator=gen, dtype=torch.float64)
        params[:, 12:] -= torch.linspace(0, 5, 7, dtype=torch.float64)[:, None]
        k = torch.arange(Q).expand(7, Q)
        mass = sashimi.dml_log_prob(params[:, None].expand(7, Q, 18), k, bits).exp().sum(1)
        say(f"mixture mass, {bits} bits", float((mass - 1).abs().max()), 1e-4)


def pool_replicates():
    x = torch.randn(1, 4, 4, 4)
    y = torch.nn.functional.adaptive_avg_pool2d(x, 16)
    z = torch.nn.functional.interpolate(x, scale_factor=4, mode="nearest")
    say("pooling up copies cells", float((y - z).abs().max()), 0.0)


def leave_one_out():
    """An image's context does not depend on that image, and does on the others and on t."""
    cfg = case.config("lag")
    _, model, micros, _ = case.prepare(cfg, 5)
    batch, noise = micros[0]
    with torch.no_grad():
        before = model.context(batch["images"], noise["t"])
        changed = batch["images"].clone()
        changed[0, 1] += 1
        after = model.context(changed, noise["t"])
        later = model.context(batch["images"], noise["t"] + 1)
    moved = (after - before).flatten(1).norm(dim=1) > 0
    expected = torch.tensor([True, False, True, False, False, False])
    say("leave-one-out: contexts that moved", float((moved != expected).sum()), 0)
    say("leave-one-out: time is seen", -float((later - before).norm()), -1e-6)


def causality():
    """No output of SaShiMi sees a later input."""
    cfg = case.config("sashimi")
    _, model, micros, _ = case.prepare(cfg, 6)
    x = micros[0][0]["tokens"]
    y = x.clone()
    y[:, 21] = (y[:, 21] + 99) % 256
    with torch.no_grad():
        diff = (model.double()(x) - model(y)).abs().amax((0, 2))
    say("causality: earlier outputs", float(diff[:21].max()), 1e-12)
    say("causality: the same output moves", -float(diff[21]), -1e-6)


def token_order():
    """unpatchify undoes the patching order, for both DiTs."""
    cfg = case.config("dit3d")
    model = dit3d.build(cfg)
    clip = torch.arange(torch.Size(dit3d._clip_shape(cfg)).numel()).float()
    clip = clip.reshape(dit3d._clip_shape(cfg))
    p, grid = cfg["model"]["patch"], model.grid
    cut = clip.reshape(2, 3, grid[0], p[0], grid[1], p[1], grid[2], p[2])
    cut = cut.permute(0, 2, 4, 6, 3, 5, 7, 1).reshape(2, grid[0] * grid[1] * grid[2], -1)
    model.final_layer.forward = lambda x, c: cut
    with torch.no_grad():
        back = model(clip, torch.zeros(2), torch.zeros(2, 768))
    say("dit3d: unpatchify (pt,ph,pw,c)", float((back - clip).abs().max()), 0)


class Function(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def euler_heun():
    """Stratonovich: dm = 0.5 m o dW ends at exp(0.5 W); an Ito scheme would end elsewhere."""
    motion = stdiff.Motion(case.config("stdiff")["model"])
    motion.diff_unet.diff_unet_f = Function(torch.zeros_like)
    motion.diff_unet.diff_unet_g = Function(lambda m: torch.atanh(0.5 * m))   # tanh undoes it
    torch.manual_seed(1)
    fine = torch.randn(4096, 256, dtype=torch.float64) / 64 * 0.5
    for steps, limit in ((16, 1e-3), (256, 1e-4)):
        motion.dt = 1 / steps
        w = fine.reshape(steps, -1, 256).sum(1)
        m = torch.full((1, 256), 0.5, dtype=torch.float64)
        end = motion.future(m, (w / motion.dt ** 0.5)[:, None], [1])[0, 0]
        off = (end - 0.5 * torch.exp(0.5 * w.sum(0))).abs().mean()
        say(f"Euler-Heun, {steps} steps, against exp(W)", float(off), limit)


def motion_times():
    """A frame that is skipped does not change the state at the frames that are kept."""
    cfg = case.config("stdiff", ["model.predicted=3"])
    _, model, micros, _ = case.prepare(cfg, 2)
    batch, noise = micros[0]
    with torch.no_grad():
        m = model.tde_model.context(batch["observed"])
        every = model.tde_model.future(m, noise["sde"], [1, 2, 3])
        some = model.tde_model.future(m, noise["sde"], [1, 3])
    say("motion at chosen times", float((every[:, [0, 2]] - some).abs().max()), 0)


def colour():
    gen = torch.Generator().manual_seed(0)
    x, like = torch.randn(2, 2, 3, 64, 64, generator=gen, dtype=torch.float64)
    y = stablesr.adain(x, 3 * like + 1)
    say("AdaIN mean", float((y.mean((2, 3)) - (3 * like + 1).mean((2, 3))).abs().max()), 1e-9)
    say("wavelet of an image onto itself", float((stablesr.wavelet(x, x) - x).abs().max()), 1e-12)


def kinks(name, module, model, weights, micro):
    """The distance of the nearest ReLU input from 0, in units of that layer's rms."""
    model = case.model_at(model, weights, torch.float64)
    nearest = [1.0]

    def look(layer, inputs, result):
        x = inputs[0]
        nearest.append(float(x.abs().min() / x.square().mean().sqrt()))
    for layer in model.modules():
        if isinstance(layer, torch.nn.ReLU):
            layer.register_forward_hook(look)
    with torch.no_grad():
        module.output(model, *(case.cast(part, torch.float64) for part in micro))
    say(f"{name}: 1e-6 over the nearest ReLU's distance from 0", 1e-6 / min(nearest), 1.0)


def trains(name, steps=12):
    """Gradients of every trained tensor are finite and present in all precisions; loss falls."""
    start = time.time()
    cfg = case.config(name)
    module, model, micros, (inputs, noises) = case.prepare(cfg, case.SEEDS.get(name, 2))
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    exact, model32 = (case.model_at(model, weights, t) for t in (torch.float64, torch.float32))
    truth = case.first_step(module, exact, weights, micros[0])
    dead = [n for n, g in truth[2].items() if not g.isfinite().all() or not g.any()]
    say(f"{name}: tensors without a finite gradient {dead[:3]}", len(dead), 0)
    kinks(name, module, model, weights, micros[0])
    zero = case.zero_by_algebra(truth[2])
    for precision, limit in (("fp32", 1e-4), ("bf16", 0.8)):
        off = case.errors(case.first_step(module, model32, weights, micros[0], precision), truth)
        off = {n: e for n, e in off.items() if n not in zero}
        worst = max(off, key=off.get)
        say(f"{name}: {precision}, worst tensor {worst}", off[worst], limit)
    result = module.sample(model, inputs, noises)
    say(f"{name}: samples not finite", sum(not v.isfinite().all() for v in result.values()), 0)
    cfg["schedule"] = {"kind": "constant", "warmup": 0}
    trainer = common.Trainer(cfg, model, module.groups(model))
    losses = []
    for _ in range(steps):
        loss = module.loss(model, *micros[0])
        loss.backward()
        trainer.update()
        losses.append(float(loss.detach()))
    say(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, ratio", losses[-1] / losses[0], 0.995)
    print(f"     {name}: {time.time() - start:.1f} s", flush=True)


def main():
    torch.set_num_threads(1)
    for check in (s4_kernel, s4_doubling, generation, mixture_mass, pool_replicates,
                  leave_one_out, causality, token_order, euler_heun, motion_times, colour):
        check()
    for name in sys.argv[1:] or case.CASES:
        trains(name)
    print(f"{len(failures)} failed")
    return failures != []


if __name__ == "__main__":
    sys.exit(main())
