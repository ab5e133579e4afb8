"""StableSR's frozen KL autoencoder: images to 4-channel latents and back."""
import torch
from torch import nn
from torch.nn import functional as F

import common
from common import conv

SCALE = 0.18215
EPS = 1e-6


class Resnet(nn.Module):
    def __init__(self, ci, co, groups):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, ci, eps=EPS)
        self.conv1 = conv(ci, co)
        self.norm2 = nn.GroupNorm(groups, co, eps=EPS)
        self.conv2 = conv(co, co)
        if ci != co:
            self.nin_shortcut = conv(ci, co, 1)

    def forward(self, x):
        h = self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))
        return (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x) + h


class Attention(nn.Module):
    """One head as wide as the map has channels."""

    def __init__(self, c, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, c, eps=EPS)
        self.q, self.k, self.v, self.proj_out = (conv(c, c, 1) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        y = common.attend(*(common.tokens(f(h)) for f in (self.q, self.k, self.v)), heads=1)
        return x + self.proj_out(common.image(y, x))


class Middle(nn.Module):
    def __init__(self, c, groups):
        super().__init__()
        self.block_1 = Resnet(c, c, groups)
        self.attn_1 = Attention(c, groups)
        self.block_2 = Resnet(c, c, groups)

    def forward(self, x):
        return self.block_2(self.attn_1(self.block_1(x)))


class Down(nn.Module):
    """Pad right and below by one, then a stride-2 convolution without padding."""

    def __init__(self, c):
        super().__init__()
        self.conv = conv(c, c, 3, 2, 0)

    def forward(self, x):
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Up(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = conv(c, c)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class Level(nn.Module):
    def __init__(self, ci, co, blocks, groups):
        super().__init__()
        self.block = nn.ModuleList(Resnet(ci if i == 0 else co, co, groups)
                                   for i in range(blocks))


class Encoder(nn.Module):
    def __init__(self, width, mult, groups):
        super().__init__()
        self.conv_in = conv(3, width)
        self.down = nn.ModuleList()
        c = width
        for i, m in enumerate(mult):
            level = Level(c, width * m, 2, groups)
            c = width * m
            if i + 1 < len(mult):
                level.downsample = Down(c)
            self.down.append(level)
        self.mid = Middle(c, groups)
        self.norm_out = nn.GroupNorm(groups, c, eps=EPS)
        self.conv_out = conv(c, 8)

    def forward(self, x):
        x = self.conv_in(x)
        for level in self.down:
            for block in level.block:
                x = block(x)
            if hasattr(level, "downsample"):
                x = level.downsample(x)
        return self.conv_out(F.silu(self.norm_out(self.mid(x))))


class Decoder(nn.Module):
    def __init__(self, width, mult, groups):
        super().__init__()
        c = width * mult[-1]
        self.conv_in = conv(4, c)
        self.mid = Middle(c, groups)
        levels = []
        for i, m in reversed(list(enumerate(mult))):
            level = Level(c, width * m, 3, groups)
            c = width * m
            if i > 0:
                level.upsample = Up(c)
            levels.insert(0, level)
        self.up = nn.ModuleList(levels)                  # up.3 runs first
        self.norm_out = nn.GroupNorm(groups, c, eps=EPS)
        self.conv_out = conv(c, 3)

    def forward(self, x):
        x = self.mid(self.conv_in(x))
        for level in reversed(self.up):
            for block in level.block:
                x = block(x)
            if hasattr(level, "upsample"):
                x = level.upsample(x)
        return self.conv_out(F.silu(self.norm_out(x)))


class Vae(nn.Module):
    def __init__(self, width, mult, groups):
        super().__init__()
        self.encoder = Encoder(width, mult, groups)
        self.decoder = Decoder(width, mult, groups)
        self.quant_conv = conv(8, 8, 1)
        self.post_quant_conv = conv(4, 4, 1)

    def encode(self, x, noise):
        """Scaled latent drawn from the posterior: (mean + std noise) * 0.18215."""
        mean, logvar = self.quant_conv(self.encoder(x)).chunk(2, 1)
        return (mean + torch.exp(0.5 * logvar.clamp(-30, 20)) * noise) * SCALE

    def decode(self, z):
        return self.decoder(self.post_quant_conv(z / SCALE))
