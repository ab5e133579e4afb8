"""DiT3D, text to sign video: two readings of one document.

Reading B, `dit3d`: a diffusion transformer over 3-D patches, text and time by adaLN-Zero.
Reading A, `dit3d-wrap`: a frozen 2-D DiT looks at each frame, its pooled features are mixed in
time, modulated by text (FiLM) and decoded by a small convolutional net; the input is added back.
Clips are (B, 3, frames, H, W); text is a 768-vector, `keep` (B,) is 0 where it is dropped.
"""
import torch
from torch import nn
from torch.nn import functional as F

import common
from common import DEFAULTS, merged

TEXT = 768
FREQ = 256          # width of the time sinusoid
BF16_DRAWS = 8      # case.py: PyTorch's temporal_processor.norm1.weight is off by 0.011 to 0.029 over such runs

_SEED = merged(DEFAULTS, {
    "system": "dit3d", "batch": 1, "accumulate": 2,
    "model": {
        "reading": "patches", "frames": 16, "image": [64, 64], "image_channels": 3,
        "width": 256, "depth": 6, "heads": 4, "patch": [4, 16, 16], "mlp_ratio": 4,
        "temporal_heads": 8, "learn_sigma": False, "text_dropout": 0.1,
        "timesteps": 1000, "noise_schedule": "cosine"},
    "optimizer": {"decay": 0.01, "clip": 1.0},
    "schedule": {"kind": "restarts", "period": 1000, "growth": 2, "floor_lr": 1e-7},
    "sampler": {"kind": "ddpm", "steps": 1000, "guidance": 1.0},
})
_SIZES = {"xs": (192, 6, 3), "tiny": (256, 6, 4), "s": (384, 12, 6), "b": (768, 12, 12),
          "l": (1024, 24, 16), "xl": (1152, 28, 16)}


def _recipe(size, batch=1, accumulate=2, **model):
    width, depth, heads = _SIZES[size]
    model.update(width=width, depth=depth, heads=heads)
    return merged(_SEED, {"batch": batch, "accumulate": accumulate, "model": model})


def _volume(size, batch):
    return _recipe(size, batch, 1, image=[32, 32], patch=[2, 2, 2])


def _wrap(size, patch, **changes):
    return _recipe(size, reading="frames", patch=[patch], **changes)


_SMALL = {"batch": 2, "accumulate": 1,
          "model": {"width": 32, "depth": 1, "heads": 4, "frames": 4},
          "optimizer": {"lr": 1e-3}, "schedule": {"period": 2},
          "sampler": {"steps": 4, "guidance": 2.0}}
RECIPES = {
    "dit3d-tiny": _recipe("tiny"), "dit3d-xs": _recipe("xs"),
    "dit3d-s": _volume("s", 8), "dit3d-b": _volume("b", 4), "dit3d-l": _volume("l", 4),
    "dit3d-xl": _volume("xl", 4),
    "dit3d-small": merged(merged(_SEED, _SMALL), {"model": {"image": [16, 16],
                                                            "patch": [2, 4, 4]}}),
    "dit3d-wrap-tiny-4": _wrap("tiny", 4), "dit3d-wrap-tiny-2": _wrap("tiny", 2),
    "dit3d-wrap-xs-4": _wrap("xs", 4), "dit3d-wrap-xs-2": _wrap("xs", 2),
    "dit3d-wrap-s-2": _wrap("s", 2), "dit3d-wrap-b-2": _wrap("b", 2),
    "dit3d-wrap-l-2": _wrap("l", 2), "dit3d-wrap-xl-2": _wrap("xl", 2),
    "dit3d-wrap-before": _wrap("xl", 2, batch=2, accumulate=1, frames=28, image=[128, 128]),
    "dit3d-wrap-small": merged(_wrap("tiny", 4), _SMALL),
}


def modulate(x, shift, scale):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


class TimeEmbedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FREQ, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, t):
        return self.mlp(common.embed_time(t, FREQ, common.dtype_of(self)))


class QkvAttention(nn.Module):
    """Self-attention, [q|k|v] in one Linear."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        return self.proj(common.attend(*self.qkv(x).chunk(3, -1), self.heads))


class PackedAttention(nn.Module):
    """The same under the names of torch.nn.MultiheadAttention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x):
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        return self.out_proj(common.attend(*qkv.chunk(3, -1), self.heads))


class Block(nn.Module):
    """DiT block: six vectors (shift, scale, gate for attention, then for the MLP) from c."""

    def __init__(self, width, attention, ratio):
        super().__init__()
        self.attn = attention
        self.mlp = nn.Sequential(nn.Linear(width, ratio * width), nn.GELU(approximate="tanh"),
                                 nn.Linear(ratio * width, width))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, c):
        sh1, sc1, g1, sh2, sc2, g2 = self.adaLN_modulation(c).chunk(6, -1)
        x = x + g1[:, None] * self.attn(modulate(x, sh1, sc1))
        return x + g2[:, None] * self.mlp(modulate(x, sh2, sc2))


# ---- reading B: patches ------------------------------------------------------------------------

class PatchEmbed(nn.Module):
    def __init__(self, ci, width, patch):
        super().__init__()
        self.proj = nn.Conv3d(ci, width, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class FinalLayer(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.linear = nn.Linear(width, out)

    def forward(self, x, c):
        shift, scale = self.adaLN_modulation(c).chunk(2, -1)
        return self.linear(modulate(x, shift, scale))


def positions(grid, width):
    """Fixed 3-D code of tokens in (t, h, w) order: width/4 for t, 3/8 for h, 3/8 for w."""
    t, h, w = (i.flatten() for i in torch.meshgrid(*map(torch.arange, grid), indexing="ij"))
    side = 3 * width // 8
    return torch.cat([common.sincos(t, width // 4), common.sincos(h, side),
                      common.sincos(w, side)], -1)


class PatchDiT(nn.Module):
    def __init__(self, recipe):
        super().__init__()
        self.recipe, cfg = recipe, recipe["model"]
        self.cfg = cfg
        D, patch = cfg["width"], cfg["patch"]
        self.grid = [n // p for n, p in zip([cfg["frames"], *cfg["image"]], patch)]
        self.out_channels = cfg["image_channels"] * (2 if cfg["learn_sigma"] else 1)
        self.x_embedder = PatchEmbed(cfg["image_channels"], D, patch)
        self.t_embedder = TimeEmbedder(D)
        self.y_embedder = nn.Sequential(nn.Linear(TEXT, D), nn.GELU(), nn.Linear(D, D))
        self.blocks = nn.ModuleList(Block(D, QkvAttention(D, cfg["heads"]), cfg["mlp_ratio"])
                                    for _ in range(cfg["depth"]))
        for block in self.blocks:
            common.zeroed(block.adaLN_modulation)
        volume = patch[0] * patch[1] * patch[2]
        self.final_layer = common.zeroed(FinalLayer(D, volume * self.out_channels))

    def forward(self, x, t, text):
        x = self.x_embedder(x)
        x = x + positions(self.grid, self.cfg["width"]).to(x)
        c = self.t_embedder(t) + self.y_embedder(text)
        for block in self.blocks:
            x = block(x, c)
        x = self.final_layer(x, c)                      # vector order (pt, ph, pw, channel)
        x = x.unflatten(-1, (*self.cfg["patch"], self.out_channels)).unflatten(1, self.grid)
        x = torch.einsum("bthwpqrc->bctphqwr", x)
        return x.flatten(6, 7).flatten(4, 5).flatten(2, 3)


# ---- reading A: frames -------------------------------------------------------------------------

class Backbone(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        D, p = cfg["width"], cfg["patch"][0]
        self.side = max(cfg["image"])     # other frames are resized to squares of this side
        self.pos_embed = nn.Parameter(torch.randn(1, (self.side // p) ** 2, D) * 0.02)
        self.patch_embed = nn.Conv2d(cfg["image_channels"], D, p, p)
        self.blocks = nn.ModuleList(Block(D, PackedAttention(D, cfg["heads"]), cfg["mlp_ratio"])
                                    for _ in range(cfg["depth"]))
        self.t_embedder = TimeEmbedder(D)

    def forward(self, frames, t):
        """(N, 3, H, W), (N,) -> (N, D)."""
        if frames.shape[-2:] != (self.side, self.side):
            frames = F.interpolate(frames, (self.side, self.side), mode="bilinear")
        x = common.tokens(self.patch_embed(frames)) + self.pos_embed
        c = self.t_embedder(t)
        for block in self.blocks:
            x = block(x, c)
        return x.mean(1)


class BackboneHolder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.backbone = Backbone(cfg)


class TextEmbedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.projection = nn.Sequential(nn.Linear(TEXT, width), nn.GELU(), nn.Dropout(0.0),
                                        nn.Linear(width, width))

    def forward(self, text):
        return self.projection(text)


class TemporalProcessor(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        D = cfg["width"]
        self.temporal_pos_embed = nn.Parameter(torch.randn(1, cfg["frames"], D) * 0.02)
        self.temporal_attn = PackedAttention(D, cfg["temporal_heads"])
        self.norm1 = nn.LayerNorm(D)
        self.norm2 = nn.LayerNorm(D)
        self.ffn = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Dropout(0.0),
                                 nn.Linear(4 * D, D))

    def forward(self, x):
        x = x + self.temporal_pos_embed
        x = self.norm1(x + self.temporal_attn(x))
        return self.norm2(x + self.ffn(x))


class Film(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.projection = nn.Linear(width, 2 * width)

    def forward(self, f, e):
        gamma, beta = self.projection(e)[:, None].chunk(2, -1)
        return f * (1 + gamma) + beta


def group_norm(c):
    return nn.GroupNorm(next(g for g in (8, 4, 2, 1) if c % g == 0), c)


class VideoUpsampler(nn.Module):
    def __init__(self, width, c):
        super().__init__()
        self.c = c
        self.feature_proj = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(),
                                          nn.Linear(width, c * 8 * 8))
        up = [nn.ConvTranspose2d(ci, co, 4, 2, 1)
              for ci, co in ((c, 2 * c), (2 * c, 2 * c), (2 * c, c), (c, c))]
        self.conv_layers = nn.Sequential(up[0], group_norm(2 * c), nn.GELU(),
                                         up[1], group_norm(2 * c), nn.GELU(),
                                         up[2], group_norm(c), nn.GELU(), up[3])

    def forward(self, f, size):
        x = self.feature_proj(f).unflatten(-1, (self.c, 8, 8))
        x = self.conv_layers(x)
        return x if x.shape[-2:] == size else F.interpolate(x, size, mode="bilinear")


class FrameDiT(nn.Module):
    def __init__(self, recipe):
        super().__init__()
        self.recipe, cfg = recipe, recipe["model"]
        self.cfg = cfg
        D, c = cfg["width"], cfg["image_channels"]
        self.out_channels = c * (2 if cfg["learn_sigma"] else 1)
        self.dit_backbone = BackboneHolder(cfg).requires_grad_(False)
        self.text_embedder = TextEmbedder(D)
        self.temporal_processor = TemporalProcessor(cfg)
        self.conditioning_layers = nn.ModuleList(Film(D) for _ in range(3))
        self.feature_modulation = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D))
        self.video_upsampler = VideoUpsampler(D, c)
        self.final_temporal_conv = nn.Sequential(
            nn.Conv3d(c, 2 * c, 3, padding=1), group_norm(2 * c), nn.GELU(),
            nn.Conv3d(2 * c, self.out_channels, 3, padding=1))
        self.start()

    def start(self):
        """The trained part's starting values, by kind of layer."""
        for name, module in self.named_modules():
            if name.startswith("dit_backbone"):
                continue
            if isinstance(module, nn.Linear) and name.startswith("text_embedder"):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
            elif isinstance(module, (nn.ConvTranspose2d, nn.Conv3d)):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            else:
                continue
            nn.init.zeros_(module.bias)

    def forward(self, x, t, text):
        n = x.shape[2]
        frames = x.transpose(1, 2).flatten(0, 1)
        f = self.dit_backbone.backbone(frames, t.repeat_interleave(n)).unflatten(0, (-1, n))
        f = self.temporal_processor(f)
        e = self.text_embedder(text)
        for film in self.conditioning_layers:
            f = film(f, e)
        f = self.feature_modulation(f).flatten(0, 1)
        y = self.video_upsampler(f, x.shape[-2:]).unflatten(0, (-1, n)).transpose(1, 2)
        y = self.final_temporal_conv(y)
        pad = y.shape[1] - x.shape[1]
        return y + (F.pad(x, (0,) * 7 + (pad,)) if pad else x)


def build(cfg):
    return PatchDiT(cfg) if cfg["model"]["reading"] == "patches" else FrameDiT(cfg)


def groups(model):
    return [{"params": [p for p in model.parameters() if p.requires_grad]}]


# ---- training ----------------------------------------------------------------------------------

def _clip_shape(cfg):
    m = cfg["model"]
    return cfg["batch"], m["image_channels"], m["frames"], *m["image"]


def make_batch(cfg, gen):
    batch = {"clip": torch.rand(*_clip_shape(cfg), generator=gen) * 2 - 1,
             "text": common.normal(gen, cfg["batch"], TEXT)}
    keep = torch.ones(cfg["batch"])
    keep[-1] = 0.0 if cfg["batch"] > 1 else 1.0        # the dropped case is always seen
    noise = {"t": torch.randint(cfg["model"]["timesteps"], (cfg["batch"],), generator=gen),
             "eps": common.normal(gen, *_clip_shape(cfg)), "keep": keep}
    return batch, noise


def abar_clipped(cfg):
    return common.alpha_bar(cfg).clamp(1e-6, 1 - 1e-6)


def output(model, batch, noise):
    x = common.add_noise(batch["clip"], noise["eps"], noise["t"], abar_clipped(model.cfg))
    return model(x, noise["t"], batch["text"] * noise["keep"][:, None])


def loss(model, batch, noise, predicted=None):
    predicted = output(model, batch, noise) if predicted is None else predicted
    return F.mse_loss(predicted[:, :model.cfg["image_channels"]], noise["eps"])


# ---- sampling ----------------------------------------------------------------------------------

def make_sample(cfg, gen):
    S = cfg["sampler"]["steps"]
    return ({"text": common.normal(gen, cfg["batch"], TEXT)},
            {"x": common.normal(gen, *_clip_shape(cfg)),
             "z": common.normal(gen, S, *_clip_shape(cfg))})


@torch.no_grad()
def sample(model, inputs, noises):
    """trace (S, B, C, F, H, W); clip: the last, clipped. As published, (_clipped) the posterior of
    the predicted clip, which is kept within [-1,1], and (_ddim) DDIM with half of the noise."""
    clip, trace = chain(model, inputs, noises, published_step)
    clip2, trace2 = chain(model, inputs, noises, clipped_step)
    clip3, trace3 = chain(model, inputs, noises, ddim_step)
    return {"trace": trace, "clip": clip, "trace_clipped": trace2, "clip_clipped": clip2,
            "trace_ddim": trace3, "clip_ddim": clip3}


def published_step(x, e, z, a, a_next, alpha):
    """alpha is the unclipped ratio of abar."""
    beta = 1 - alpha
    x = (x - beta / (1 - a) ** 0.5 * e) / alpha ** 0.5
    return x if z is None else x + max(beta * (1 - a_next) / (1 - a), 1e-6) ** 0.5 * z


def clipped_step(x, e, z, a, a_next, alpha):
    """q(x' | x, x0) for the levels that training adds noise at; alpha is not looked at."""
    x0 = (x / a ** 0.5 - (1 / a - 1) ** 0.5 * e).clamp(-1, 1)
    ratio = a / a_next
    variance = (1 - a_next) / (1 - a) * (1 - ratio)
    x = (a_next ** 0.5 * (1 - ratio) * x0 + ratio ** 0.5 * (1 - a_next) * x) / (1 - a)
    return x if z is None else x + variance ** 0.5 * z


def ddim_step(x, e, z, a, a_next, alpha):
    return common.ddim_step(x, e, z, a, a_next, 0.5)


def chain(model, inputs, noises, step):
    cfg, sampler = model.cfg, model.recipe["sampler"]
    text, w = inputs["text"], sampler["guidance"]
    times = common.respaced(cfg["timesteps"], sampler["steps"])
    free, abar = common.alpha_bar(cfg), abar_clipped(cfg)
    x, trace = noises["x"], []
    for i, k in enumerate(reversed(range(len(times)))):
        t = times[k]
        tt = torch.full((len(x),), t)
        e = model(x, tt, text)[:, :cfg["image_channels"]]
        if w != 1.0:
            plain = model(x, tt, torch.zeros_like(text))[:, :cfg["image_channels"]]
            e = plain + w * (e - plain)
        a_next = float(abar[times[k - 1]]) if k else 1.0
        alpha = float(free[t] / free[times[k - 1]]) if k else float(free[t])
        x = step(x, e, noises["z"][i] if k else None, float(abar[t]), a_next, alpha)
        trace.append(x)
    return x.clamp(-1, 1), torch.stack(trace)
