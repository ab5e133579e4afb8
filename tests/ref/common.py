"""What the five references share: embeddings, noise schedules, the optimizer with its EMA rules.

A reference is slow and plain on purpose. It is written from the equations, uses PyTorch's own
operators, takes every random number as an argument, and runs in float64, float32 or under bf16
autocast. Each module (stdiff, stablesr, lag, sashimi, dit3d) offers

    RECIPES                          name -> cfg, the names of the recipes
    build(cfg)                       -> nn.Module, parameter names and shapes as published;
                                        requires_grad marks what is trained
    make_batch(cfg, gen)             -> (batch, noise): dicts of float32 and integer tensors
    output(model, batch, noise)      -> what the network predicts
    loss(model, batch, noise)        -> scalar
    make_sample(cfg, gen)            -> (inputs, noises)
    sample(model, inputs, noises)    -> dict of results, the chain step by step
    groups(model)                    -> optimizer groups, [{"params": [...], "lr": ...}]
"""
import copy
import math
import os

import torch
from torch import nn
from torch.nn import functional as F

# There are virtual machines whose processor names AMX but faults in oneDNN's AMX kernels, which
# bf16 would pick. oneDNN reads this at its first use; who sets it beforehand decides.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# What every recipe has beside its own `system`, `batch`, `accumulate`, `model` and `sampler`.
DEFAULTS = {
    "steps": 1000,
    "optimizer": {"kind": "adamw", "lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
                  "decay": 0.0, "clip": 0.0},
    "schedule": {"kind": "constant", "warmup": 0},
    "ema": {"rule": "none"},
}


def merged(base, changes):
    """A deep copy of base with changes laid over it, dicts key by key."""
    out = copy.deepcopy(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merged(out[key], value) if both else copy.deepcopy(value)
    return out


# ---- layers ------------------------------------------------------------------------------------

def embed_time(t, dim, dtype=torch.float32):
    """[cos(t f_k) | sin(t f_k)], f_k = 10000^(-k/half): (B,) -> (B, dim). Angles in float64."""
    half = dim // 2
    k = torch.arange(half, dtype=torch.float64, device=t.device)
    freq = torch.exp(-math.log(10000.0) * k / half)
    angle = t.to(torch.float64)[:, None] * freq
    return torch.cat([angle.cos(), angle.sin()], dim=-1).to(dtype)


def sincos(position, dim):
    """[sin(p w_k) | cos(p w_k)], w_k = 10000^(-k/half): the fixed position code, float64."""
    half = dim // 2
    omega = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = position.to(torch.float64)[:, None] * omega
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def attend(q, k, v, heads, scale=None):
    """Softmax attention over (B, L, C); the head is the high part of the channel."""
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    y = F.scaled_dot_product_attention(split(q), split(k), split(v), scale=scale)
    return y.transpose(1, 2).flatten(-2)


def tokens(x):
    """(B, C, H, W) -> (B, H*W, C), row by row."""
    return x.flatten(2).transpose(1, 2)


def image(x, like):
    """Undo tokens()."""
    return x.transpose(1, 2).unflatten(2, like.shape[-2:])


def conv(ci, co, kernel=3, stride=1, pad=None):
    return nn.Conv2d(ci, co, kernel, stride, kernel // 2 if pad is None else pad)


def zeroed(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


def dtype_of(model):
    return next(model.parameters()).dtype


# ---- diffusion ---------------------------------------------------------------------------------

def betas(model):
    """The noise schedule of a recipe's `model` section, float64 (T,)."""
    T = model["timesteps"]
    kind = model["noise_schedule"]
    if kind == "cosine":
        u = torch.arange(T + 1, dtype=torch.float64) / T
        f = torch.cos((u + 0.008) / 1.008 * math.pi / 2) ** 2
        return (1 - f[1:] / f[:-1]).clamp(max=0.999)
    lo, hi = model["beta_start"], model["beta_end"]
    if kind == "scaled_linear":      # linear in sqrt(beta)
        return torch.linspace(lo ** 0.5, hi ** 0.5, T, dtype=torch.float64) ** 2
    if kind == "linear":
        return torch.linspace(lo, hi, T, dtype=torch.float64)
    raise ValueError(f"unknown noise schedule {kind}")


def alpha_bar(model):
    return torch.cumprod(1 - betas(model), 0)


def add_noise(x0, eps, t, abar):
    a = abar.to(x0)[t].view(-1, *[1] * (x0.dim() - 1))
    return a.sqrt() * x0 + (1 - a).sqrt() * eps


def respaced(T, S):
    """S of the T times, first and last kept, evenly rounded (halves to even); all for S = T."""
    return [0] if S == 1 else [round(i * (T - 1) / (S - 1)) for i in range(S)]


def ddim_step(x, e, z, a, a_next, eta, clip=True):
    """Song et al. (2021), equations 12 and 16; where x0 is clipped, e is what it implies."""
    x0 = (x - (1 - a) ** 0.5 * e) / a ** 0.5
    if clip:
        x0 = x0.clamp(-1, 1)
        e = (x - a ** 0.5 * x0) / (1 - a) ** 0.5
    sigma = eta * ((1 - a_next) / (1 - a)) ** 0.5 * (1 - a / a_next) ** 0.5
    x = a_next ** 0.5 * x0 + (1 - a_next - sigma ** 2) ** 0.5 * e
    return x if sigma == 0 else x + sigma * z


# ---- optimizer and EMA ---------------------------------------------------------------------------

def lr_factor(cfg, step):
    """What every rate is multiplied by at update `step`, counted from 0."""
    schedule = cfg["schedule"]
    if step < schedule["warmup"]:
        return step / schedule["warmup"]
    step -= schedule["warmup"]
    kind = schedule["kind"]
    if kind == "constant":
        return 1.0
    if kind == "cosine":                       # falls `cycles` times, to 0 at the end of the run
        p = step / max(1, cfg["steps"] - schedule["warmup"])
        return 0.0 if p >= 1 else 0.5 * (1 + math.cos(math.pi * ((schedule["cycles"] * p) % 1.0)))
    if kind == "restarts":                     # SGDR: each period `growth` times the last
        period = schedule["period"]
        while step >= period:
            step -= period
            period *= schedule["growth"]
        low = schedule["floor_lr"] / cfg["optimizer"]["lr"]
        return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * step / period))
    raise ValueError(f"unknown learning rate schedule {kind}")


def ema_decay(ema, update):
    """The decay at update 1, 2, 3, ... The shadow starts as a copy of the initial weights."""
    if ema["rule"] == "constant":
        return ema["decay"]
    if ema["rule"] == "copy_first":            # the first update copies
        return 0.0 if update == 1 else ema["decay"]
    if ema["rule"] == "power":                 # s = update - 1; 1 - (1+s)^-power, at most decay
        s = update - 1
        return 0.0 if s <= 0 else min(ema["decay"], 1 - (1 + s) ** -ema["power"])
    raise ValueError(f"unknown ema rule {ema['rule']}")


class Trainer:
    """AdamW (decoupled weight decay), global-norm clip, learning rate schedule, EMA."""

    def __init__(self, cfg, model, groups, fused=False):
        self.cfg, self.opt, self.ema = cfg, cfg["optimizer"], cfg["ema"]
        self.trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        for g in groups:
            g["base_lr"] = g.setdefault("lr", self.opt["lr"])
        self.adamw = torch.optim.AdamW(
            groups, betas=(self.opt["beta1"], self.opt["beta2"]), eps=self.opt["eps"],
            weight_decay=self.opt["decay"], fused=fused)
        self.shadow = None
        if self.ema["rule"] != "none":
            self.shadow = [p.detach().clone() for _, p in self.trained]
        self.updates, self.fused = 0, fused

    def update(self):
        """Use the gradients that backward() left. Returns their norm before clipping, or None where
        nothing is clipped and time is measured (fused)."""
        params = [p for _, p in self.trained]
        limit = self.opt["clip"] if self.opt["clip"] > 0 else float("inf")
        norm = None
        if limit < float("inf") or not self.fused:
            norm = nn.utils.clip_grad_norm_(params, limit)
        for g in self.adamw.param_groups:
            g["lr"] = g["base_lr"] * lr_factor(self.cfg, self.updates)
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        self.updates += 1
        if self.shadow is not None:
            weight = 1 - ema_decay(self.ema, self.updates)
            with torch.no_grad():
                torch._foreach_lerp_(self.shadow, params, weight)
        return norm


# ---- names -----------------------------------------------------------------------------------

def shapes(model):
    """name -> shape of every parameter (no buffers)."""
    return {n: list(p.shape) for n, p in model.named_parameters()}


def count(model, trained=False):
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trained)


def perturb_zeros(model, gen):
    """Replace every parameter that is all zero by N(0, 0.02): else its gradient proves nothing."""
    with torch.no_grad():
        for p in model.parameters():
            if not p.any():
                p.copy_(torch.randn(p.shape, generator=gen) * 0.02)
    return model


def normal(gen, *shape):
    return torch.randn(*shape, generator=gen)
