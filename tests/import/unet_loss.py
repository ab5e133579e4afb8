"""A small diffusion model as its user would write it: forward takes images and returns the loss."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, width), nn.Conv2d(width, out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, out), nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(width, out, 1) if width != out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU())
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.shrink = Block(width, width, 4 * width), nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = Block(2 * width, 2 * width, 4 * width)
        self.up = Block(3 * width, width, 4 * width)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        steps = torch.exp(-math.log(10000) / (self.width // 2) * torch.arange(self.width // 2))
        angle = t[:, None].float() * steps
        t = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        wide = self.down(self.first(x), t)
        low = F.interpolate(self.middle(self.shrink(wide), t), scale_factor=2.0)
        return self.last(self.up(torch.cat([wide, low], 1), t))


class DiffusionLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.unet = UNet()
        self.register_buffer("alpha", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0))

    def forward(self, images):
        noise = torch.randn_like(images)
        t = torch.randint(0, 1000, (images.shape[0],))
        alpha = self.alpha[t][:, None, None, None]
        return F.mse_loss(self.unet(alpha.sqrt() * images + (1 - alpha).sqrt() * noise, t), noise)
