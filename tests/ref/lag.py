"""Few-shot set diffusion in "lag" mode: JAX/Flax names and (in, out) kernels.

A set of images is encoded with one image left out; the 256 patch tokens of that encoding are what
the DiT cross-attends to while it denoises the image left out. Sets are (b, ns, 3, H, W).
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

import common
from common import DEFAULTS, merged

FREQ = 256          # width of the DiT's time sinusoid
EPS = 1e-6
BF16_DRAWS = 8      # case.py: a temperature's gradient is one number

_SEED = merged(DEFAULTS, {
    "system": "lag", "batch": 32, "accumulate": 1,
    "model": {
        "set_size": 6, "image": 32, "image_channels": 3, "patch": 2,
        "context_width": 256, "encoder_depth": 6, "encoder_heads": 12, "encoder_head_width": 64,
        "encoder_mlp": 256, "time_width": 64,
        "hidden": 468, "depth": 6, "heads": 9, "mlp_ratio": 3,
        "timesteps": 250, "noise_schedule": "linear", "beta_start": 4e-4, "beta_end": 0.08},
    "ema": {"rule": "constant", "decay": 0.9999},
    "sampler": {"kind": "ddim", "steps": 250},
})
RECIPES = {
    "lag-32x6": _SEED,
    "lag-8x4": merged(_SEED, {"batch": 8, "model": {"set_size": 4}}),
    "lag-4x3": merged(_SEED, {"batch": 4, "model": {"set_size": 3}}),
    "lag-small": merged(_SEED, {
        "batch": 2,
        "model": {"set_size": 3, "image": 16, "context_width": 32, "encoder_depth": 2,
                  "encoder_heads": 3, "encoder_head_width": 16, "encoder_mlp": 32,
                  "time_width": 16, "hidden": 36, "depth": 2, "heads": 3},
        "optimizer": {"lr": 1e-3}, "ema": {"decay": 0.99}, "sampler": {"steps": 5}}),
}


def started(init, shape, fan_in, fan_out):
    """A kernel's starting values as Flax draws them."""
    kernel = torch.empty(*shape)
    if init == "lecun":                   # cut at two deviations, then scaled to 1 / fan_in
        std = fan_in ** -0.5 / 0.87962566103423978
        return nn.init.trunc_normal_(kernel, std=std, a=-2 * std, b=2 * std)
    if init == "xavier":
        bound = math.sqrt(6 / (fan_in + fan_out))
        return nn.init.uniform_(kernel, -bound, bound)
    return nn.init.normal_(kernel, std={"zero": 0.0, "time": 0.02}[init])


class Dense(nn.Module):
    """kernel (in, out), LeCun-normal or Xavier-uniform; bias zero. in and out may be several axes."""

    def __init__(self, ins, outs, bias=True, init="lecun"):
        super().__init__()
        ins, outs = tuple(ins), tuple(outs)
        self.ins, self.outs = ins, outs
        self.kernel = nn.Parameter(started(init, (*ins, *outs), math.prod(ins), math.prod(outs)))
        if bias:
            self.bias = nn.Parameter(torch.zeros(*outs))

    def forward(self, x):
        kernel = self.kernel.reshape(math.prod(self.ins), math.prod(self.outs))
        y = x.flatten(x.dim() - len(self.ins)) @ kernel
        y = y.unflatten(-1, self.outs)
        return y + self.bias if hasattr(self, "bias") else y


def dense(ci, co, bias=True, init="lecun"):
    return Dense([ci], [co], bias, init)


class LayerNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(c))
        self.bias = nn.Parameter(torch.zeros(c))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.scale, self.bias, EPS)


def plain_norm(x):
    return F.layer_norm(x, x.shape[-1:], eps=EPS)


class Mlp(nn.Module):
    def __init__(self, c, hidden, init="lecun"):
        super().__init__()
        self.Dense_0 = dense(c, hidden, init=init)
        self.Dense_1 = dense(hidden, c, init=init)
        if init == "xavier":              # the DiT's
            for layer in (self.Dense_0, self.Dense_1):
                nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x):
        return self.Dense_1(F.gelu(self.Dense_0(x), approximate="tanh"))


class Named(nn.Module):
    """Children by name, to reproduce Flax's nesting."""

    def __init__(self, **children):
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


# ---- set encoder -------------------------------------------------------------------------------

class Lsa(nn.Module):
    """Locality self-attention: a learned temperature, and no token sees itself."""

    def __init__(self, c, heads, head_width):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.tensor(math.log(head_width ** -0.5)))
        self.Dense_0 = dense(c, 3 * heads * head_width, bias=False)
        self.Dense_1 = dense(heads * head_width, c)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in self.Dense_0(x).chunk(3, -1))
        others = ~torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        q = (self.temperature.exp() * q).to(k.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=others, scale=1.0)
        return self.Dense_1(y.transpose(1, 2).flatten(-2))


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg["context_width"]
        self.LayerNorm_0 = LayerNorm(c)
        self.LSA_0 = Lsa(c, cfg["encoder_heads"], cfg["encoder_head_width"])
        self.LayerNorm_1 = LayerNorm(c)
        self.FeedForward_0 = Mlp(c, cfg["encoder_mlp"])

    def forward(self, x):
        x = x + self.LSA_0(self.LayerNorm_0(x))
        return x + self.FeedForward_0(self.LayerNorm_1(x))


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c, self.patch = cfg["context_width"], cfg["patch"]
        vector = self.patch ** 2 * cfg["image_channels"] * cfg["set_size"]
        n = (cfg["image"] // self.patch) ** 2
        self.to_patch_embedding = Named(norm=LayerNorm(vector), proj=dense(vector, c))
        self.pos_embedding = nn.Parameter(torch.randn(1, n + 2, c))
        self.cls_token = nn.Parameter(torch.randn(1, 1, c))
        self.to_time_embedding = dense(c, c)
        self.transformer = Named(**{f"layer_{i}": EncoderLayer(cfg)
                                    for i in range(cfg["encoder_depth"])})
        # Pooled head: feeds nothing in deterministic lag mode, so it is stored and not trained.
        self.mlp_norm = LayerNorm(c).requires_grad_(False)
        self.mlp_dense = dense(c, c).requires_grad_(False)

    def forward(self, sets, time):
        """(b, ns, c, H, W), (b, context) -> patch tokens (b, n, context)."""
        p = self.patch
        x = sets.transpose(1, 2).flatten(1, 2)                    # channel = c*ns + s
        x = x.unflatten(3, (-1, p)).unflatten(2, (-1, p))         # b, ch, gh, p1, gw, p2
        x = torch.einsum("bchpwq->bhwpqc", x).flatten(3).flatten(1, 2)
        x = self.to_patch_embedding.proj(self.to_patch_embedding.norm(x))
        head = [self.cls_token.expand(len(x), -1, -1), self.to_time_embedding(time)[:, None]]
        x = torch.cat([*head, x], 1) + self.pos_embedding
        for layer in self.transformer.children():
            x = layer(x)
        return x[:, 2:]


class TimeMlp(nn.Module):
    def __init__(self, dim, c, init="lecun"):
        super().__init__()
        self.dim = dim
        self.Dense_0 = dense(dim, c, init=init)
        self.Dense_1 = dense(c, c, init=init)

    def forward(self, t):
        x = common.embed_time(t, self.dim, self.Dense_0.kernel.dtype)
        return self.Dense_1(F.silu(self.Dense_0(x)))


# ---- DiT ---------------------------------------------------------------------------------------

class Attention(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads, split = heads, (heads, c // heads)
        self.query, self.key, self.value = (Dense([c], split, init="xavier") for _ in range(3))
        self.out = Dense(split, [c], init="xavier")

    def forward(self, x, context):
        q, k, v = self.query(x), self.key(context), self.value(context)    # (B, L, heads, width)
        y = F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in (q, k, v)))
        return self.out(y.transpose(1, 2))


class DiTBlock(nn.Module):
    def __init__(self, c, heads, context, ratio):
        super().__init__()
        self.Dense_0 = dense(c, 6 * c, init="zero")
        self.MultiHeadDotProductAttention_0 = Attention(c, heads)
        self.Dense_1 = dense(context, c, init="xavier")
        self.MultiHeadDotProductAttention_1 = Attention(c, heads)
        self.MlpBlock_0 = Mlp(c, ratio * c, init="xavier")

    def forward(self, x, c, context):
        sh1, sc1, g1, sh2, sc2, g2 = self.Dense_0(F.silu(c))[:, None].chunk(6, -1)
        y = plain_norm(x) * (1 + sc1) + sh1
        x = x + g1 * self.MultiHeadDotProductAttention_0(y, y)
        x = x + self.MultiHeadDotProductAttention_1(plain_norm(x), self.Dense_1(context))
        return x + g2 * self.MlpBlock_0(plain_norm(x) * (1 + sc2) + sh2)


class FinalLayer(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.Dense_0 = dense(c, 2 * c, init="zero")
        self.Dense_1 = dense(c, out, init="zero")

    def forward(self, x, c):
        shift, scale = self.Dense_0(F.silu(c))[:, None].chunk(2, -1)
        return self.Dense_1(plain_norm(x) * (1 + scale) + shift)


class PatchConv(nn.Module):
    """kernel (p, p, ci, co), stride p."""

    def __init__(self, p, ci, co):
        super().__init__()
        self.p = p
        self.kernel = nn.Parameter(started("xavier", (p, p, ci, co), p * p * ci, p * p * co))
        self.bias = nn.Parameter(torch.zeros(co))

    def forward(self, x):
        return common.tokens(F.conv2d(x, self.kernel.permute(3, 2, 0, 1), self.bias, self.p))


def positions(side, c):
    """First half of the channels: the column; second half: the row. (side*side, c)"""
    row, col = (i.flatten() for i in torch.meshgrid(torch.arange(side), torch.arange(side),
                                                    indexing="ij"))
    return torch.cat([common.sincos(col, c // 2), common.sincos(row, c // 2)], -1)


class DiT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c, self.p, self.ch = cfg["hidden"], cfg["patch"], cfg["image_channels"]
        self.side, self.depth = cfg["image"] // self.p, cfg["depth"]
        self.pos_embed = nn.Parameter(positions(self.side, c)[None].float(), requires_grad=False)
        self.PatchEmbed_0 = Named(Conv_0=PatchConv(self.p, self.ch, c))
        self.TimestepEmbedder_0 = TimeMlp(FREQ, c, init="time")
        for i in range(self.depth):
            self.add_module(f"DiTBlock_{i}", DiTBlock(c, cfg["heads"], cfg["context_width"],
                                                      cfg["mlp_ratio"]))
        self.FinalLayer_0 = FinalLayer(c, self.p ** 2 * self.ch)

    def forward(self, x, t, context):
        x = self.PatchEmbed_0.Conv_0(x) + self.pos_embed
        c = self.TimestepEmbedder_0(t)
        for i in range(self.depth):
            x = getattr(self, f"DiTBlock_{i}")(x, c, context)
        x = self.FinalLayer_0(x, c)                               # vector order (p, q, channel)
        x = x.unflatten(2, (self.p, self.p, self.ch)).unflatten(1, (self.side, self.side))
        return torch.einsum("bhwpqc->bchpwq", x).flatten(4, 5).flatten(2, 3)


class Lag(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg, cfg = cfg, cfg["model"]
        self.encoder = Named(params=Encoder(cfg))
        self.time_embed = Named(params=TimeMlp(cfg["time_width"], cfg["context_width"]))
        self.dit = Named(params=DiT(cfg))

    def context(self, sets, t):
        """Tokens of every image's set without that image: (b*ns, n, context)."""
        time, ns = self.time_embed.params(t), sets.shape[1]
        out = []
        for i in range(ns):
            others = [k for k in range(ns) if k != i]
            rest = torch.cat([sets[:, others], torch.zeros_like(sets[:, :1])], 1)
            out.append(self.encoder.params(rest, time))
        return torch.stack(out, 1).flatten(0, 1)


def build(cfg):
    return Lag(cfg)


def groups(model):
    return [{"params": [p for p in model.parameters() if p.requires_grad]}]


# ---- training ----------------------------------------------------------------------------------

def _set_shape(cfg):
    m = cfg["model"]
    return cfg["batch"], m["set_size"], m["image_channels"], m["image"], m["image"]


def make_batch(cfg, gen):
    """t is drawn once a set."""
    return ({"images": torch.rand(*_set_shape(cfg), generator=gen) * 2 - 1},
            {"t": torch.randint(cfg["model"]["timesteps"], (cfg["batch"],), generator=gen),
             "eps": common.normal(gen, *_set_shape(cfg)).flatten(0, 1)})


def output(model, batch, noise):
    sets = batch["images"]
    t = noise["t"].repeat_interleave(sets.shape[1])
    x = common.add_noise(sets.flatten(0, 1), noise["eps"], t,
                         common.alpha_bar(model.cfg["model"]))
    return model.dit.params(x, t, model.context(sets, noise["t"]))


def loss(model, batch, noise, predicted=None):
    predicted = output(model, batch, noise) if predicted is None else predicted
    return F.mse_loss(predicted, noise["eps"])


# ---- sampling ----------------------------------------------------------------------------------

def make_sample(cfg, gen):
    n = cfg["batch"] * cfg["model"]["set_size"]
    shape = (n, *_set_shape(cfg)[2:])
    return ({"support": torch.rand(*_set_shape(cfg), generator=gen) * 2 - 1},
            {"x": common.normal(gen, *shape),
             "z": common.normal(gen, cfg["sampler"]["steps"], *shape)})


@torch.no_grad()
def sample(model, inputs, noises):
    """ddim, ddim_eta (0.5), ddpm (S, b*ns, 3, H, W): x after each step of each chain."""
    cfg = model.cfg
    abar = common.alpha_bar(cfg["model"])
    times = common.respaced(cfg["model"]["timesteps"], cfg["sampler"]["steps"])
    support = inputs["support"]
    context = model.context(support, torch.zeros(len(support), dtype=torch.long))
    out = {}
    for kind in ("ddim", "ddim_eta", "ddpm"):
        x, trace = noises["x"], []
        for i, k in enumerate(reversed(range(len(times)))):
            a = float(abar[times[k]])
            a_next = float(abar[times[k - 1]]) if k else 1.0
            e = model.dit.params(x, torch.full((len(x),), times[k]), context)
            x0 = (x / a ** 0.5 - (1 / a - 1) ** 0.5 * e).clamp(-1, 1)
            if kind != "ddpm":
                x = common.ddim_step(x, e, noises["z"][i], a, a_next, 0.5 if kind == "ddim_eta" else 0.0)
            else:                                   # fixed-large: the variance is beta
                alpha = a / a_next
                x = (a_next ** 0.5 * (1 - alpha) * x0 + alpha ** 0.5 * (1 - a_next) * x) / (1 - a)
                if k:
                    x = x + (1 - alpha) ** 0.5 * noises["z"][i]
            trace.append(x)
        out[kind] = torch.stack(trace)
    return out
