"""The small U-Net of src/models/unet.c in PyTorch, written from its description, for comparison."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_embedding(t, width):
    half = width // 2
    freq = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float64) / half)
    angle = t.double()[:, None] * freq[None]
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=1)


class Block(nn.Module):
    def __init__(self, ci, co, time, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, ci), nn.Conv2d(ci, co, 3, padding=1)
        self.time = nn.Linear(time, co)
        self.norm2, self.conv2 = nn.GroupNorm(groups, co), nn.Conv2d(co, co, 3, padding=1)
        if ci != co:
            self.shortcut = nn.Conv2d(ci, co, 1)

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.shortcut(x) if hasattr(self, "shortcut") else x) + h


class Attention(nn.Module):
    def __init__(self, width, groups, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.proj = nn.GroupNorm(groups, width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, c, h, w = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(tokens).view(b, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        return x + self.proj(out).transpose(1, 2).view(b, c, h, w)


class UNet(nn.Module):
    def __init__(self, channels=3, widths=(32, 64), groups=8, heads=4):
        super().__init__()
        base, time, deepest = widths[0], 4 * widths[0], widths[-1]
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.conv_in = nn.Conv2d(channels, base, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        last = base
        for i, width in enumerate(widths):
            level = nn.Module()
            level.block = Block(last, width, time, groups)
            if i + 1 < len(widths):
                level.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
            self.down.append(level)
            last = width
        self.mid = nn.Module()
        self.mid.block1 = Block(deepest, deepest, time, groups)
        self.mid.attention = Attention(deepest, groups, heads)
        self.mid.block2 = Block(deepest, deepest, time, groups)
        for i, width in enumerate(widths):
            level = nn.Module()
            level.block = Block((widths[i + 1] if i + 1 < len(widths) else deepest) + width, width, time, groups)
            if i > 0:
                level.up = nn.Conv2d(width, width, 3, padding=1)
            self.up.append(level)
        self.norm_out, self.conv_out = nn.GroupNorm(groups, base), nn.Conv2d(base, channels, 3, padding=1)

    def forward(self, x, t):
        time = self.time(time_embedding(t, self.base).to(x.dtype))
        h, skips = self.conv_in(x), []
        for level in self.down:
            h = level.block(h, time)
            skips.append(h)
            if hasattr(level, "down"):
                h = level.down(h)
        h = self.mid.block2(self.mid.attention(self.mid.block1(h, time)), time)
        for level, s in zip(reversed(self.up), reversed(skips)):
            h = level.block(torch.cat([h, s], dim=1), time)
            if hasattr(level, "up"):
                h = level.up(F.interpolate(h, scale_factor=2, mode="nearest"))
        return self.conv_out(F.silu(self.norm_out(h)))


def alpha_bar(steps=1000, first=1e-4, last=0.02):
    return torch.cumprod(1 - torch.linspace(first, last, steps, dtype=torch.float64), 0)


def loss(model, x, t, noise):
    """x and noise channels-last, as the engine has them."""
    x, noise = x.permute(0, 3, 1, 2), noise.permute(0, 3, 1, 2)
    a = alpha_bar()[t].to(x.dtype)[:, None, None, None]
    return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
