"""StableSR's autoencoder trained on its own (src/models/stablesr_vae.c): what comes back from drawn latents.

loss = mse(back, image) + 8 mse of both averaged to the latents' size + 1e-6 KL(scaled latents || N(0,1)), each a mean
over all its numbers, + 0.1 (mean square of the scaled mean latents - 1)^2.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

import common
from common import DEFAULTS, merged
from stablesr_vae import SCALE, Vae

BF16_DRAWS = 10          # biases before norms: small sums, a matter of luck
COARSE, KL, SIZE = 8.0, 1e-6, 0.1
RECIPES = {
    "vae-small": merged(DEFAULTS, {
        "system": "stablesr-vae", "batch": 2, "accumulate": 1,
        "model": {"image": 64, "latent": 8, "groups": 8, "vae_channels": 8, "vae_mult": [1, 2, 4, 4]},
        "optimizer": {"lr": 1e-3},
    }),
}


def build(cfg):
    m = cfg["model"]
    model = nn.Module()
    model.cfg = cfg
    model.first_stage_model = Vae(m["vae_channels"], m["vae_mult"], m["groups"])
    return model


def groups(model):
    return [{"params": list(model.parameters())}]


def make_batch(cfg, gen):
    n, m = cfg["batch"], cfg["model"]
    image = torch.rand(n, 3, m["image"], m["image"], generator=gen) * 2 - 1
    return {"image": image}, {"vae": common.normal(gen, n, 4, m["latent"], m["latent"])}


def posterior(model, image):
    vae = model.first_stage_model
    both = vae.quant_conv(vae.encoder(image))
    mean, logvar = both.to(torch.promote_types(both.dtype, torch.float32)).chunk(2, 1)
    return mean, logvar.clamp(-30, 20)


def output(model, batch, noise):
    mean, logvar = posterior(model, batch["image"])
    return model.first_stage_model.decode((mean + torch.exp(0.5 * logvar) * noise["vae"]) * SCALE)


def loss(model, batch, noise, predicted=None):
    image = batch["image"]
    back = output(model, batch, noise) if predicted is None else predicted
    mean, logvar = posterior(model, image)
    kl = 0.5 * ((mean * SCALE) ** 2 + logvar.exp() * SCALE ** 2 - logvar - 2 * math.log(SCALE) - 1).mean()
    size = model.cfg["model"]["latent"]
    coarse = F.mse_loss(F.adaptive_avg_pool2d(back, size), F.adaptive_avg_pool2d(image, size))
    return F.mse_loss(back, image) + COARSE * coarse + KL * kl + SIZE * (((mean * SCALE) ** 2).mean() - 1) ** 2


def make_sample(cfg, gen):
    return {"image": make_batch(cfg, gen)[0]["image"]}, {}


@torch.no_grad()
def sample(model, inputs, noises):
    mean, _ = posterior(model, inputs["image"])
    return {"back": model.first_stage_model.decode(mean * SCALE)}
