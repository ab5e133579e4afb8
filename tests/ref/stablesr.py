"""StableSR with an edge branch: super-resolution in latent space.

LQ latent and t -> struct encoder -> maps at four sizes; they steer every residual block of the UNet
by SPADE. An edge map goes through the edge processor and is fused with the noisy latent. Trained:
SPADE, struct encoder, edge processor, fusion, input convolution; the rest is frozen.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

import common
from common import DEFAULTS, conv, image, merged, tokens, zeroed
from stablesr_vae import Vae

EDGE_AFTER = {"edge_stem": 64, "edge_width": 256, "edge_convs": 3, "edge_ladder": [128, 64, 16, 4]}
EDGE_BEFORE = {"edge_stem": 0, "edge_width": 1024, "edge_convs": 5,
               "edge_ladder": [512, 256, 64, 16, 4]}
_SEED = merged(DEFAULTS, {
    "system": "stablesr", "batch": 2, "accumulate": 6,
    "model": {
        "image": 512, "latent": 64, "latents": "computed",
        "channels": 320, "mult": [1, 2, 4, 4], "layers": 2, "attention_levels": 3,
        "head_width": 64, "groups": 32, "context_tokens": 77, "context_width": 1024,
        "spade_hidden": 128, "struct_channels": 256, "struct_mult": [1, 1, 2, 2],
        "struct_heads": 4, "struct_out": 256, "vae_channels": 128, "vae_mult": [1, 2, 4, 4],
        **EDGE_AFTER, "fusion": "conv", "trainable": "default",
        "timesteps": 1000, "noise_schedule": "scaled_linear", "beta_start": 8.5e-4,
        "beta_end": 0.012},
    "optimizer": {"lr": 5e-5, "decay": 0.01},
    "sampler": {"kind": "ddpm", "steps": 200, "eta": 0.0, "colour": "adain"},
})
BF16_DRAWS = 20          # small tensors behind ReLUs: against 5 others, one such run of PyTorch fails too
RECIPES = {
    "stablesr-edge-before": merged(_SEED, {"batch": 6, "accumulate": 4, "model": EDGE_BEFORE}),
    "stablesr-edge-after": _SEED,
    "stablesr-latent": merged(_SEED, {"model": {"latents": "given"}}),
    "stablesr-small": merged(_SEED, {
        "accumulate": 1,
        "model": {"image": 128, "latent": 16, "channels": 32, "head_width": 16, "groups": 8,
                  "context_tokens": 7, "context_width": 16, "spade_hidden": 16,
                  "struct_channels": 32, "struct_out": 32, "vae_channels": 8,
                  "edge_stem": 8, "edge_width": 12, "edge_ladder": [12, 8, 8, 4]},
        "optimizer": {"lr": 1e-3}, "sampler": {"kind": "ddim", "steps": 4, "eta": 0.5}}),
}


# ---- edge branch -------------------------------------------------------------------------------

def conv_bn(ci, co, kernel, stride, relu=True):
    layers = [conv(ci, co, kernel, stride, 1), nn.BatchNorm2d(co)]
    return nn.Sequential(*layers, nn.ReLU()) if relu else nn.Sequential(*layers)


class EdgeProcessor(nn.Module):
    """Pooling a smaller map up to the latent's size copies each cell (adaptive average pool)."""

    def __init__(self, cfg):
        super().__init__()
        self.latent = cfg["latent"]
        c, width = cfg["edge_stem"] or 3, cfg["edge_width"]
        if cfg["edge_stem"]:
            self.initial_conv = conv_bn(3, c, 4, 2)
        self.stage1_layers = nn.ModuleList(conv_bn(c if i == 0 else width, width, 3, 1)
                                           for i in range(cfg["edge_convs"]))
        ladder = [width, *cfg["edge_ladder"]]
        self.stage2_layers = nn.ModuleList(
            conv_bn(a, b, 4, 2, relu=i + 2 < len(ladder))
            for i, (a, b) in enumerate(zip(ladder, ladder[1:])))

    def forward(self, x):
        if hasattr(self, "initial_conv"):
            x = self.initial_conv(x)
        for layer in [*self.stage1_layers, *self.stage2_layers]:
            x = layer(x)
        return F.adaptive_avg_pool2d(x, self.latent)


class EdgeFusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.fusion_conv = conv_bn(8, 8, 3, 1)

    def forward(self, x):
        return self.fusion_conv(x)


# ---- UNet and struct encoder -------------------------------------------------------------------

class Spade(nn.Module):
    def __init__(self, c, hidden, struct, groups):
        super().__init__()
        self.param_free_norm = nn.GroupNorm(groups, c, eps=1e-5)
        self.mlp_shared = nn.Sequential(conv(struct, hidden), nn.ReLU())
        self.mlp_gamma = conv(hidden, c)
        self.mlp_beta = conv(hidden, c)

    def forward(self, h, s):
        a = self.mlp_shared(s)
        return self.param_free_norm(h) * (1 + self.mlp_gamma(a)) + self.mlp_beta(a)


class ResBlock(nn.Module):
    """With SPADE in the UNet, without in the struct encoder."""

    def __init__(self, ci, co, temb, groups, spade=None):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(groups, ci), nn.SiLU(), conv(ci, co))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(temb, co))
        if spade is not None:
            self.spade = spade
        self.out_layers = nn.Sequential(nn.GroupNorm(groups, co), nn.SiLU(), nn.Dropout(0.0),
                                        zeroed(conv(co, co)))
        self.skip_connection = conv(ci, co, 1) if ci != co else nn.Identity()

    def forward(self, x, temb, struct=None):
        h = self.in_layers(x) + self.emb_layers(temb)[:, :, None, None]
        h = self.out_layers(h)
        if struct is not None:
            h = self.spade(h, struct[h.shape[-1]])
        return self.skip_connection(x) + h


class CrossAttention(nn.Module):
    def __init__(self, c, context, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(c, c, bias=False)
        self.to_k = nn.Linear(context, c, bias=False)
        self.to_v = nn.Linear(context, c, bias=False)
        self.to_out = nn.Sequential(nn.Linear(c, c))

    def forward(self, x, context):
        y = common.attend(self.to_q(x), self.to_k(context), self.to_v(context), self.heads)
        return self.to_out(y)


class Geglu(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.proj = nn.Linear(c, 8 * c)

    def forward(self, x):
        a, b = self.proj(x).chunk(2, -1)
        return a * F.gelu(b)


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(Geglu(c), nn.Dropout(0.0), nn.Linear(4 * c, c))

    def forward(self, x):
        return self.net(x)


class TransformerBlock(nn.Module):
    def __init__(self, c, context, heads):
        super().__init__()
        self.attn1 = CrossAttention(c, c, heads)
        self.attn2 = CrossAttention(c, context, heads)
        self.ff = FeedForward(c)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(c) for _ in range(3))

    def forward(self, x, context):
        y = self.norm1(x)
        x = x + self.attn1(y, y)
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class SpatialTransformer(nn.Module):
    def __init__(self, c, cfg):
        super().__init__()
        self.norm = nn.GroupNorm(cfg["groups"], c, eps=1e-6)
        self.proj_in = nn.Linear(c, c)
        self.transformer_blocks = nn.ModuleList(
            [TransformerBlock(c, cfg["context_width"], c // cfg["head_width"])])
        self.proj_out = zeroed(nn.Linear(c, c))

    def forward(self, x, context):
        y = self.proj_in(tokens(self.norm(x)))
        y = self.transformer_blocks[0](y, context)
        return x + image(self.proj_out(y), x)


class Down(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.op = conv(c, c, 3, 2)

    def forward(self, x):
        return self.op(x)


class Up(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = conv(c, c)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


def time_mlp(c):
    return nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))


def apply(block, x, temb, context, struct):
    for layer in block:
        if isinstance(layer, ResBlock):
            x = layer(x, temb, struct)
        elif isinstance(layer, SpatialTransformer):
            x = layer(x, context)
        else:
            x = layer(x)
    return x


class UNet(nn.Module):
    """edge=False leaves out the edge branch: the 8-channel input is then given whole."""

    def __init__(self, cfg, edge=True):
        super().__init__()
        C, G, L = cfg["channels"], cfg["groups"], cfg["layers"]
        self.width, self.fusion = C, cfg["fusion"]

        def res(ci, co):
            spade = Spade(co, cfg["spade_hidden"], cfg["struct_out"], G)
            return ResBlock(ci, co, 4 * C, G, spade)

        def with_attention(level, c, layers):
            if level < cfg["attention_levels"]:
                layers.append(SpatialTransformer(c, cfg))
            return layers
        self.time_embed = time_mlp(C)
        self.input_blocks = nn.ModuleList([nn.ModuleList([conv(8, C)])])
        skips, c, last = [C], C, len(cfg["mult"]) - 1
        for level, m in enumerate(cfg["mult"]):
            for _ in range(L):
                block = with_attention(level, C * m, [res(c, C * m)])
                c = C * m
                self.input_blocks.append(nn.ModuleList(block))
                skips.append(c)
            if level < last:
                self.input_blocks.append(nn.ModuleList([Down(c)]))
                skips.append(c)
        self.middle_block = nn.ModuleList([res(c, c), SpatialTransformer(c, cfg), res(c, c)])
        self.output_blocks = nn.ModuleList()
        for level, m in reversed(list(enumerate(cfg["mult"]))):
            for i in range(L + 1):
                block = with_attention(level, C * m, [res(c + skips.pop(), C * m)])
                c = C * m
                if level > 0 and i == L:
                    block.append(Up(c))
                self.output_blocks.append(nn.ModuleList(block))
        self.out = nn.Sequential(nn.GroupNorm(G, c), nn.SiLU(), zeroed(conv(c, 4)))
        if edge:
            self.edge_processor = EdgeProcessor(cfg)
            if self.fusion == "conv":
                self.edge_fusion = EdgeFusion()

    def enter(self, x, edge):
        """The 8-channel input: [latent | processed edge], fused if the recipe says so."""
        x = torch.cat([x, self.edge_processor(edge)], 1)
        return self.edge_fusion(x) if self.fusion == "conv" else x

    def forward(self, x, t, context, struct):
        """x (B, 8, h, w); struct: width of a map -> the map."""
        temb = self.time_embed(common.embed_time(t, self.width, x.dtype))
        context = context.expand(len(x), -1, -1)
        skips = []
        for block in self.input_blocks:
            x = apply(block, x, temb, context, struct)
            skips.append(x)
        x = apply(self.middle_block, x, temb, context, struct)
        for block in self.output_blocks:
            x = apply(block, torch.cat([x, skips.pop()], 1), temb, context, struct)
        return self.out(x)


class QkvAttention(nn.Module):
    """qkv laid out [head][q|k|v][width]; q and k each scaled by width^(-1/4)."""

    def __init__(self, c, heads, groups):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, c)
        self.qkv = nn.Conv1d(c, 3 * c, 1)
        self.proj_out = zeroed(nn.Conv1d(c, c, 1))

    def forward(self, x):
        qkv = self.qkv(self.norm(x).flatten(2)).unflatten(1, (self.heads, 3, -1))
        q, k, v = (part.transpose(-1, -2) for part in qkv.unbind(2))      # (B, head, L, width)
        y = F.scaled_dot_product_attention(q, k, v)                       # scale width^(-1/2)
        y = self.proj_out(y.transpose(-1, -2).flatten(1, 2))
        return x + y.view_as(x)


class StructEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        C, G, heads = cfg["struct_channels"], cfg["groups"], cfg["struct_heads"]
        self.width = C
        self.time_embed = time_mlp(C)
        self.input_blocks = nn.ModuleList([nn.ModuleList([conv(4, C)])])
        c, last, tapped = C, len(cfg["struct_mult"]) - 1, []
        for level, m in enumerate(cfg["struct_mult"]):
            for _ in range(cfg["layers"]):
                block = [ResBlock(c, C * m, 4 * C, G)]
                c = C * m
                if level < cfg["attention_levels"]:
                    block.append(QkvAttention(c, heads, G))
                self.input_blocks.append(nn.ModuleList(block))
            tapped.append(c)
            if level < last:
                self.input_blocks.append(nn.ModuleList([Down(c)]))
        self.middle_block = nn.ModuleList([ResBlock(c, c, 4 * C, G), QkvAttention(c, heads, G),
                                           ResBlock(c, c, 4 * C, G)])
        self.fea_tran = nn.ModuleList(ResBlock(ci, cfg["struct_out"], 4 * C, G) for ci in tapped)

    def forward(self, x, t):
        """Maps keyed by their width: before each downsampling, and after the middle."""
        temb = self.time_embed(common.embed_time(t, self.width, x.dtype))
        taps = []
        for block in self.input_blocks:
            if isinstance(block[0], Down):
                taps.append(x)
            x = apply(block, x, temb, None, None)
        taps.append(apply(self.middle_block, x, temb, None, None))
        return {tap.shape[-1]: tran(tap, temb) for tran, tap in zip(self.fea_tran, taps)}


class Diffusion(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.diffusion_model = UNet(cfg)


class StableSR(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg, cfg = cfg, cfg["model"]
        self.model = Diffusion(cfg)
        self.structcond_stage_model = StructEncoder(cfg)
        self.first_stage_model = Vae(cfg["vae_channels"], cfg["vae_mult"], cfg["groups"])
        published = ("spade", "structcond_stage_model")
        intended = ("edge_processor", "edge_fusion", "diffusion_model.input_blocks.0.0.")
        words = published + (intended if cfg["trainable"] == "default" else ())
        for name, p in self.named_parameters():
            all_but_vae = cfg["trainable"] == "all" and not name.startswith("first_stage_model")
            p.requires_grad_(all_but_vae or any(word in name for word in words))


def build(cfg):
    return StableSR(cfg)


def groups(model):
    return [{"params": [p for p in model.parameters() if p.requires_grad]}]


# ---- training ----------------------------------------------------------------------------------

def _images(cfg, gen):
    n, s = cfg["batch"], cfg["model"]["image"]
    gt = F.interpolate(torch.rand(n, 3, 11, 11, generator=gen) * 2 - 1, (s, s), mode="bilinear")
    edge = (torch.rand(n, 1, s, s, generator=gen) < 0.2).float().expand(-1, 3, -1, -1) * 2 - 1
    lq = F.interpolate(F.avg_pool2d(gt, 4), scale_factor=4, mode="nearest")
    return gt, lq, edge.contiguous()


def _context(cfg):
    gen = torch.Generator().manual_seed(77)
    return common.normal(gen, cfg["model"]["context_tokens"], cfg["model"]["context_width"])


def make_batch(cfg, gen):
    n, m = cfg["batch"], cfg["model"]
    z = (n, 4, m["latent"], m["latent"])
    gt, lq, edge = _images(cfg, gen)
    batch = {"edge": edge, "context": _context(cfg)}
    noise = {"t": torch.randint(m["timesteps"], (n,), generator=gen),
             "eps": common.normal(gen, *z)}
    if m["latents"] == "given":
        batch.update(latent=common.normal(gen, *z), latent_lq=common.normal(gen, *z))
    else:
        batch.update(image=gt, image_lq=lq)
        noise.update(vae=common.normal(gen, *z), vae_lq=common.normal(gen, *z))
    return batch, noise


def latents(model, batch, noise):
    """Of the ground truth and of the low-quality image."""
    if "latent" in batch:
        return batch["latent"], batch["latent_lq"]
    with torch.no_grad():
        return (model.first_stage_model.encode(batch["image"], noise["vae"]),
                model.first_stage_model.encode(batch["image_lq"], noise["vae_lq"]))


def output(model, batch, noise):
    z, z_lq = latents(model, batch, noise)
    x = common.add_noise(z, noise["eps"], noise["t"], common.alpha_bar(model.cfg["model"]))
    unet = model.model.diffusion_model
    struct = model.structcond_stage_model(z_lq, noise["t"])
    return unet(unet.enter(x, batch["edge"]), noise["t"], batch["context"], struct)


def loss(model, batch, noise, predicted=None):
    predicted = output(model, batch, noise) if predicted is None else predicted
    return F.mse_loss(predicted, noise["eps"])


# ---- sampling ----------------------------------------------------------------------------------

def make_sample(cfg, gen):
    z = (cfg["batch"], 4, cfg["model"]["latent"], cfg["model"]["latent"])
    _, lq, edge = _images(cfg, gen)
    inputs = {"image_lq": lq, "edge": edge, "context": _context(cfg)}
    noises = {"vae_lq": common.normal(gen, *z), "x": common.normal(gen, *z),
              "z": common.normal(gen, cfg["sampler"]["steps"], *z)}
    if cfg["model"]["latents"] == "computed":        # an image larger than the model, by a few cells down and by half across
        l, f = cfg["model"]["latent"], cfg["model"]["image"] // cfg["model"]["latent"]
        h, w = l + 3, l + l // 2 + 1
        inputs["wide_lq"] = torch.rand(1, 3, h * f, w * f, generator=gen) * 2 - 1
        inputs["wide_edge"] = (torch.rand(1, 1, h * f, w * f, generator=gen) < 0.1).float().repeat(1, 3, 1, 1) * 2 - 1
        noises["wide_x"] = common.normal(gen, 1, 4, h, w)
        noises["wide_z"] = common.normal(gen, cfg["sampler"]["steps"], 1, 4, h, w)
    return inputs, noises


def adain(x, like):
    """Per image and channel, the mean and (unbiased, eps 1e-5) deviation of `like`."""
    def stats(v):
        var, mean = torch.var_mean(v, (2, 3), correction=1, keepdim=True)
        return mean, (var + 1e-5).sqrt()
    (mx, sx), (ml, sl) = stats(x), stats(like)
    return (x - mx) / sx * sl + ml


def low_band(x, levels=5):
    """A-trous smoothing, [1 2 1]/4 both ways with holes 1, 2, 4, 8, 16, edges repeated."""
    row = torch.tensor([0.25, 0.5, 0.25], dtype=x.dtype)
    kernel = (row[:, None] * row).expand(x.shape[1], 1, 3, 3)
    for i in range(levels):
        d = 2 ** i
        x = F.conv2d(F.pad(x, (d,) * 4, mode="replicate"), kernel, dilation=d, groups=x.shape[1])
    return x


def wavelet(x, like):
    """High bands of x on the low band of `like`."""
    return x - low_band(x) + low_band(like)


def ddpm_step(x, e, z, a, a_next):
    alpha = a / a_next
    x0 = x / a ** 0.5 - (1 / a - 1) ** 0.5 * e
    x = ((1 - alpha) * a_next ** 0.5 * x0 + (1 - a_next) * alpha ** 0.5 * x) / (1 - a)
    return x + ((1 - alpha) * (1 - a_next) / (1 - a)) ** 0.5 * z


# ---- tiles ----

def tile_starts(length, side):
    """Tiles that overlap by a quarter of their side or more, spread evenly."""
    n = 1 + -(-(length - side) // (side - side // 4))
    return [math.floor(i * (length - side) / (n - 1) + 0.5) if n > 1 else 0 for i in range(n)]


def ramp(side, overlap):
    at = torch.arange(side, dtype=torch.float64)
    return ((torch.minimum(at, side - 1 - at) + 0.5) / overlap).clamp(max=1)


def merged_tiles(shape, tiles, overlap):
    """The average of tiles [(y, x, tile)], weighted by ramps down and across."""
    total, weights = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape[-2:], dtype=torch.float64)
    for y, x, tile in tiles:
        h, w = tile.shape[-2:]
        window = ramp(h, overlap[0])[:, None] * ramp(w, overlap[1])
        total[..., y:y + h, x:x + w] += window * tile
        weights[y:y + h, x:x + w] += window
    return total / weights


def wide(model, inputs, noises):
    """An image larger than the model: every step predicts the noise of overlapping tiles and averages it."""
    cfg, unet, vae = model.cfg, model.model.diffusion_model, model.first_stage_model
    l, batch = cfg["model"]["latent"], cfg["batch"]
    f, (h, w) = cfg["model"]["image"] // l, noises["wide_x"].shape[-2:]
    ys, xs = tile_starts(h, l), tile_starts(w, l)
    places = [(y, x, noises["vae_lq"][j % batch:j % batch + 1]) for y in ys for j, x in enumerate(xs)]
    cells, overlap = (1, 4, h, w), (l // 4, l // 4)

    def cut(tensor, y, x, times=1):
        return tensor[..., y * times:(y + l) * times, x * times:(x + l) * times]

    low = merged_tiles(cells, [(y, x, vae.encode(cut(inputs["wide_lq"], y, x, f), z)) for y, x, z in places], overlap)
    edge = merged_tiles(cells, [(y, x, unet.edge_processor(cut(inputs["wide_edge"], y, x, f))) for y, x, _ in places], overlap)

    def predict(x, t):
        def one(top, left):
            part = torch.cat([cut(x, top, left), cut(edge, top, left)], 1)
            part = unet.edge_fusion(part) if unet.fusion == "conv" else part
            return unet(part, t, inputs["context"], model.structcond_stage_model(cut(low, top, left), t))
        return merged_tiles(cells, [(y, x, one(y, x)) for y, x, _ in places], overlap)

    abar, times, x = common.alpha_bar(cfg["model"]), common.respaced(cfg["model"]["timesteps"], cfg["sampler"]["steps"]), noises["wide_x"]
    for i, k in enumerate(reversed(range(len(times)))):
        e, a_next = predict(x, torch.full((1,), times[k])), float(abar[times[k - 1]]) if k else 1.0
        x = ddpm_step(x, e, noises["wide_z"][i] if k else 0, float(abar[times[k]]), a_next)
    decoded = [(y * f, left * f, wavelet(vae.decode(cut(x, y, left)), cut(inputs["wide_lq"], y, left, f))) for y, left, _ in places]
    least = [min([b + l - c for b, c in zip(at, at[1:])], default=l) * f for at in (ys, xs)]
    return merged_tiles((1, 3, h * f, w * f), decoded, least)


@torch.no_grad()
def sample(model, inputs, noises):
    """ddpm, ddim (S, B, 4, h, w): the latent after each step; image and its two colour fixes.

    Batch norm uses its running statistics here."""
    cfg = model.cfg
    model.eval()
    unet, vae = model.model.diffusion_model, model.first_stage_model
    abar = common.alpha_bar(cfg["model"])
    times = common.respaced(cfg["model"]["timesteps"], cfg["sampler"]["steps"])
    z_lq = vae.encode(inputs["image_lq"], noises["vae_lq"])
    out = {}
    for kind in ("ddpm", "ddim"):
        x, trace = noises["x"], []
        for i, k in enumerate(reversed(range(len(times)))):
            t = torch.full((len(x),), times[k])
            a = float(abar[times[k]])
            a_next = float(abar[times[k - 1]]) if k else 1.0
            struct = model.structcond_stage_model(z_lq, t)
            e = unet(unet.enter(x, inputs["edge"]), t, inputs["context"], struct)
            if kind == "ddpm":
                x = ddpm_step(x, e, noises["z"][i] if k else 0, a, a_next)
            else:
                x = common.ddim_step(x, e, noises["z"][i], a, a_next, cfg["sampler"]["eta"], clip=False)
            trace.append(x)
        out[kind] = torch.stack(trace)
    out["image"] = vae.decode(out["ddpm"][-1])
    out["adain"] = adain(out["image"], inputs["image_lq"])
    out["wavelet"] = wavelet(out["image"], inputs["image_lq"])
    if "wide_lq" in inputs:
        out["wide"] = wide(model, inputs, noises)
    model.train()
    return out
