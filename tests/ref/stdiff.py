"""STDiff: video and range-image prediction.

Differences of the observed frames -> convolutional encoder -> ConvGRU -> motion state m; m runs on
through the future by a stochastic differential equation; a UNet denoises each future frame, given
the frame before it (channel concat) and m at its time (SPADE). Images are (N, C, H, W).
"""
import torch
from torch import nn
from torch.nn import functional as F

import common
from common import DEFAULTS, conv, image, merged, tokens

# The last bias is one number, and under L1 its gradient a sum of signs: how many of them bf16 flips is
# luck, 0 to 5 in 24 runs of PyTorch (0.0034 each). The most of 12 is near what any run may come to.
BF16_DRAWS = 12

_SEED = merged(DEFAULTS, {
    "system": "stdiff", "batch": 2, "accumulate": 2, "steps": 100000,
    "model": {
        "image": [64, 2048], "image_channels": 1, "observed": 5, "predicted": 5,
        "channels": [128, 256, 256, 512, 512], "layers": 2, "attention_from": 1,
        "groups": 32, "head_width": 128,
        "motion_channels": 64, "motion_downs": 2, "sde_layers": 2, "sde_dt": 0.1,
        "loss": "masked_l1", "timesteps": 1000, "noise_schedule": "cosine"},
    "optimizer": {"beta1": 0.95, "decay": 1e-6, "clip": 1.0},
    "schedule": {"kind": "cosine", "warmup": 1000, "cycles": 2},
    "ema": {"rule": "power", "decay": 0.9999, "power": 0.75},
    "sampler": {"kind": "ddpm", "steps": 50},
})
RECIPES = {
    "stdiff-64x2048": _SEED,
    "stdiff-64x512": merged(_SEED, {"model": {"image": [64, 512]}}),
    # 32 rows leave 2x4 cells at the deepest level; over the 1x4 of 16 rows, instance norm would
    # amplify rounding so far that bf16 gradients could not be compared.
    "stdiff-small": merged(_SEED, {
        "steps": 1000,
        "model": {"image": [32, 64], "observed": 3, "predicted": 2,
                  "channels": [32, 32, 32, 64, 64], "groups": 8, "head_width": 32,
                  "motion_channels": 8},
        "optimizer": {"lr": 1e-3}, "schedule": {"warmup": 2}, "sampler": {"steps": 4}}),
}


# ---- motion ------------------------------------------------------------------------------------

class MotionEncoder(nn.Module):
    def __init__(self, ci, width, downs):
        super().__init__()
        layers = [conv(ci, width, 5), nn.ReLU(), nn.MaxPool2d(2)]
        for _ in range(downs - 1):
            layers += [conv(width, 2 * width, 5), nn.ReLU(), nn.MaxPool2d(2)]
            width *= 2
        self.model = nn.Sequential(*layers, conv(width, 2 * width, 7), nn.ReLU())

    def forward(self, x):
        return self.model(x)


class ConvGru(nn.Module):
    """The candidate is not multiplied by u: h' = (1-u) h + g, as published."""

    def __init__(self, c):
        super().__init__()
        self.GateConv = conv(2 * c, 2 * c)
        self.NewStateConv = conv(2 * c, c)

    def forward(self, x, h):
        u, r = torch.sigmoid(self.GateConv(torch.cat([x, h], 1))).chunk(2, 1)
        g = torch.tanh(self.NewStateConv(torch.cat([x, r * h], 1)))
        return (1 - u) * h + g


class Field(nn.Module):
    """conv, [tanh, conv] x layers, tanh, conv (zero): drift, or diffusion with a final tanh."""

    def __init__(self, c, layers):
        super().__init__()
        parts = [conv(c, c)]
        for _ in range(layers):
            parts += [nn.Tanh(), conv(c, c)]
        self.net = nn.Sequential(*parts, nn.Tanh(), common.zeroed(conv(c, c)))

    def forward(self, m):
        return self.net(m)


class Fields(nn.Module):
    def __init__(self, c, layers):
        super().__init__()
        self.diff_unet_f = Field(c, layers)
        self.diff_unet_g = Field(c, layers)


class Motion(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg["motion_channels"] * 2 ** cfg["motion_downs"]
        self.dt = cfg["sde_dt"]
        self.motion_encoder = MotionEncoder(cfg["image_channels"], cfg["motion_channels"],
                                            cfg["motion_downs"])
        self.conv_gru_cell = ConvGru(c)
        self.diff_unet = Fields(c, cfg["sde_layers"])

    def context(self, observed):
        """(N, To, C, H, W) -> the state at the last observed frame."""
        n = observed.shape[0]
        diff = observed[:, 1:] - observed[:, :-1]
        code = self.motion_encoder(diff.flatten(0, 1)).unflatten(0, (n, -1))
        h = torch.zeros_like(code[:, 0])
        for i in range(code.shape[1]):
            h = self.conv_gru_cell(code[:, i], h)
        return h

    def future(self, m, z, times):
        """Euler-Heun from time 0 (the last observed frame) through the future times.

        z is N(0,1), one entry a sub-step; dW = sqrt(dt) z. -> (N, Tp, C_m, h, w)."""
        f, g = self.diff_unet.diff_unet_f, self.diff_unet.diff_unet_g
        per_frame = round(1 / self.dt)
        keep = [time * per_frame for time in times]
        out = []
        for step in range(keep[-1]):
            dw = z[step] * self.dt ** 0.5
            a = torch.tanh(g(m)) * dw
            b = torch.tanh(g(m + a)) * dw
            m = m + f(m) * self.dt + (a + b) / 2
            if step + 1 in keep:
                out.append(m)
        return torch.stack(out, 1)


# ---- UNet --------------------------------------------------------------------------------------

class Spade(nn.Module):
    def __init__(self, c, cm):
        super().__init__()
        hidden = (cm + c) // 2
        self.mlp_shared = nn.Sequential(conv(cm, hidden), nn.ReLU())
        self.mlp_gamma = conv(hidden, c)
        self.mlp_beta = conv(hidden, c)

    def forward(self, h, m):
        a = self.mlp_shared(F.interpolate(m, size=h.shape[-2:], mode="nearest"))
        return F.instance_norm(h, eps=1e-5) * (1 + self.mlp_gamma(a)) + self.mlp_beta(a)


class Resnet(nn.Module):
    def __init__(self, ci, co, temb, cm, groups):
        super().__init__()
        self.motion_cond_layer = Spade(co, cm)
        self.norm1 = nn.GroupNorm(groups, ci, eps=1e-5)
        self.conv1 = conv(ci, co)
        self.time_emb_proj = nn.Linear(temb, co)
        self.norm2 = nn.GroupNorm(groups, co, eps=1e-5)
        self.conv2 = conv(co, co)
        if ci != co:
            self.conv_shortcut = conv(ci, co, 1)

    def forward(self, x, temb, m):
        h = self.conv1(F.silu(self.norm1(x)))
        h = self.motion_cond_layer(h, m)
        h = h + self.time_emb_proj(F.silu(temb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.conv_shortcut(x) if hasattr(self, "conv_shortcut") else x) + h


class Attention(nn.Module):
    def __init__(self, c, head_width, groups):
        super().__init__()
        self.heads = c // head_width
        self.group_norm = nn.GroupNorm(groups, c, eps=1e-5)
        self.query, self.key, self.value, self.proj_attn = (nn.Linear(c, c) for _ in range(4))

    def forward(self, x):
        y = tokens(self.group_norm(x))
        y = common.attend(self.query(y), self.key(y), self.value(y), self.heads)
        return x + image(self.proj_attn(y), x)


class Resample(nn.Module):
    """A stride-2 convolution, or nearest x2 and a convolution."""

    def __init__(self, c, up):
        super().__init__()
        self.up = up
        self.conv = conv(c, c, 3, 1 if up else 2)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest") if self.up else x)


class Level(nn.Module):
    """One block of the UNet: resnets, each with its attention; then perhaps a resampler."""

    def __init__(self, widths, co, attention, resample, cfg, cm):
        super().__init__()
        temb = 4 * cfg["channels"][0]
        if attention:
            self.attentions = nn.ModuleList(
                Attention(co, cfg["head_width"], cfg["groups"]) for _ in range(attention))
        self.resnets = nn.ModuleList(Resnet(ci, co, temb, cm, cfg["groups"]) for ci in widths)
        if resample == "down":
            self.downsamplers = nn.ModuleList([Resample(co, up=False)])
        if resample == "up":
            self.upsamplers = nn.ModuleList([Resample(co, up=True)])

    def layer(self, i, x, temb, m):
        x = self.resnets[i](x, temb, m)
        return self.attentions[i](x) if hasattr(self, "attentions") else x


class TimeEmbedding(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.linear_1 = nn.Linear(c, 4 * c)
        self.linear_2 = nn.Linear(4 * c, 4 * c)

    def forward(self, x):
        return self.linear_2(F.silu(self.linear_1(x)))


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        B, L, c_img = cfg["channels"], cfg["layers"], cfg["image_channels"]
        cm = cfg["motion_channels"] * 2 ** cfg["motion_downs"]
        last = len(B) - 1
        self.width = B[0]
        self.conv_in = conv(2 * c_img, B[0])
        self.time_embedding = TimeEmbedding(B[0])
        self.down_blocks = nn.ModuleList()
        skips, c = [B[0]], B[0]
        for i, co in enumerate(B):
            att = L if i >= cfg["attention_from"] else 0
            down = "down" if i < last else None
            self.down_blocks.append(Level([c] + [co] * (L - 1), co, att, down, cfg, cm))
            skips += [co] * (L + (i < last))
            c = co
        self.mid_block = Level([c, c], c, 1, None, cfg, cm)
        self.up_blocks = nn.ModuleList()
        for i, co in reversed(list(enumerate(B))):
            widths = []
            for _ in range(L + 1):
                widths.append(c + skips.pop())
                c = co
            att = L + 1 if i >= cfg["attention_from"] else 0
            self.up_blocks.append(Level(widths, co, att, "up" if i > 0 else None, cfg, cm))
        self.conv_norm_out = nn.GroupNorm(cfg["groups"], B[0], eps=1e-5)
        self.conv_out = conv(B[0], c_img)

    def forward(self, x, t, m):
        temb = self.time_embedding(common.embed_time(t, self.width, x.dtype))
        x = self.conv_in(x)
        skips = [x]
        for block in self.down_blocks:
            for i in range(len(block.resnets)):
                x = block.layer(i, x, temb, m)
                skips.append(x)
            if hasattr(block, "downsamplers"):
                x = block.downsamplers[0](x)
                skips.append(x)
        x = self.mid_block.resnets[0](x, temb, m)
        x = self.mid_block.attentions[0](x)
        x = self.mid_block.resnets[1](x, temb, m)
        for block in self.up_blocks:
            for i in range(len(block.resnets)):
                x = block.layer(i, torch.cat([x, skips.pop()], 1), temb, m)
            if hasattr(block, "upsamplers"):
                x = block.upsamplers[0](x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class STDiff(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.diffusion_unet = UNet(cfg["model"])
        self.tde_model = Motion(cfg["model"])


def build(cfg):
    return STDiff(cfg)


def groups(model):
    return [{"params": list(model.parameters())}]


# ---- training ----------------------------------------------------------------------------------

def _sde_noise(m, n, gen):
    """N(0,1), an entry a sub-step."""
    h, w = m["image"]
    down = 2 ** m["motion_downs"]
    steps = m["predicted"] * round(1 / m["sde_dt"])
    return common.normal(gen, steps, n, m["motion_channels"] * down, h // down, w // down)


def _clip(gen, n, frames, c, h, w):
    """Broad shapes: deep maps must differ over space, or instance norm amplifies rounding."""
    coarse = torch.rand(n * frames, c, 3, 9, generator=gen) * 2 - 1
    smooth = F.interpolate(coarse, (h, w), mode="bilinear", align_corners=True)
    return smooth.unflatten(0, (n, frames))


def make_batch(cfg, gen):
    """observed, future, mask: the clip. noise: t a frame, eps a frame, z a sub-step of the SDE."""
    n, m = cfg["batch"], cfg["model"]
    to, tp, c, (h, w) = m["observed"], m["predicted"], m["image_channels"], m["image"]
    clip = _clip(gen, n, to + tp, c, h, w)
    mask = (torch.rand(n, tp, h, w, generator=gen) < 0.8).float()
    batch = {"observed": clip[:, :to], "future": clip[:, to:], "mask": mask}
    noise = {"t": torch.randint(m["timesteps"], (n * tp,), generator=gen),
             "eps": common.normal(gen, n * tp, c, h, w),
             "sde": _sde_noise(m, n, gen)}
    return batch, noise


def output(model, batch, noise):
    """Predicted noise (N*Tp, C, H, W), sample-major."""
    future, observed = batch["future"], batch["observed"]
    m = model.tde_model.context(observed)
    m = model.tde_model.future(m, noise["sde"], range(1, future.shape[1] + 1)).flatten(0, 1)
    prev = torch.cat([observed[:, -1:], future[:, :-1]], 1).flatten(0, 1)
    x = common.add_noise(future.flatten(0, 1), noise["eps"], noise["t"],
                         common.alpha_bar(model.cfg["model"]))
    return model.diffusion_unet(torch.cat([x, prev], 1), noise["t"], m)


def loss(model, batch, noise, predicted=None):
    predicted = output(model, batch, noise) if predicted is None else predicted
    error = (predicted - noise["eps"]).abs()
    if model.cfg["model"]["loss"] == "l1":
        return error.mean()
    mask = batch["mask"].flatten(0, 1)[:, None].expand_as(error)
    return (mask * error).sum() / mask.sum().clamp(min=1)


# ---- sampling ----------------------------------------------------------------------------------

def make_sample(cfg, gen):
    """x: the start of each frame's chain; z: noise of each step of each frame."""
    n, m, S = cfg["batch"], cfg["model"], cfg["sampler"]["steps"]
    tp, c, (h, w) = m["predicted"], m["image_channels"], m["image"]
    inputs = {"observed": _clip(gen, n, m["observed"], c, h, w)}
    noises = {"sde": _sde_noise(m, n, gen),
              "x": common.normal(gen, tp, n, c, h, w),
              "z": common.normal(gen, tp, S, n, c, h, w)}
    return inputs, noises


@torch.no_grad()
def sample(model, inputs, noises):
    """trace (Tp, S, N, C, H, W): x after each step; frames (N, Tp, C, H, W) in [0, 1]. By DDPM, and (_ddim)
    by DDIM with half of the noise."""
    trace, frames = predict(model, inputs, noises, ddpm_step)
    trace2, frames2 = predict(model, inputs, noises, lambda *step: common.ddim_step(*step, 0.5))
    return {"trace": trace, "frames": frames, "trace_ddim": trace2, "frames_ddim": frames2}


def ddpm_step(x, e, z, a, a_next):
    alpha = a / a_next
    beta = 1 - alpha
    x0 = ((x - (1 - a) ** 0.5 * e) / a ** 0.5).clamp(-1, 1)
    x = a_next ** 0.5 * beta / (1 - a) * x0 + alpha ** 0.5 * (1 - a_next) / (1 - a) * x
    return x if a_next == 1 else x + max(beta * (1 - a_next) / (1 - a), 1e-20) ** 0.5 * z


def predict(model, inputs, noises, step):
    cfg, S = model.cfg["model"], model.cfg["sampler"]["steps"]
    tp, abar = cfg["predicted"], common.alpha_bar(cfg)
    stride = cfg["timesteps"] // S
    m = model.tde_model.context(inputs["observed"])
    m = model.tde_model.future(m, noises["sde"], range(1, tp + 1))
    prev, trace, frames = inputs["observed"][:, -1], [], []
    for k in range(tp):
        x, chain = noises["x"][k], []
        for i, t in enumerate(range((S - 1) * stride, -1, -stride)):
            a = float(abar[t])
            a_next = float(abar[t - stride]) if t >= stride else 1.0
            e = model.diffusion_unet(torch.cat([x, prev], 1), torch.full((len(x),), t), m[:, k])
            x = step(x, e, noises["z"][k, i], a, a_next)
            chain.append(x)
        prev = x.clamp(-1, 1)
        trace.append(torch.stack(chain))
        frames.append((x / 2 + 0.5).clamp(0, 1))
    return torch.stack(trace), torch.stack(frames, 1)
