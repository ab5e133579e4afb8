"""StableSR: from a folder of good images and the original's .ckpt to enlarged images.

Data: photos/*.png and *.jpg, good images alone; the program makes the degraded ones. Weights: a .ckpt as latent diffusion writes it: the
UNet, struct encoder and autoencoder, beside them a text tower, a noise schedule and an average with names without dots.
"""
import os

import job
import numpy as np
import torch
from PIL import Image


def photos(folder, n, seed):
    """Lines, discs and a slope of colours; every third is a JPEG."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        y, x = np.mgrid[0:144, 0:176] / 144
        image = np.stack([x * rng.random() + y * rng.random() for _ in range(3)], -1) * 160
        for _ in range(12):
            cy, cx, r = rng.random(3) * (1, 1.2, 0.2)
            image[(y - cy) ** 2 + (x - cx) ** 2 < r * r] = rng.integers(0, 256, 3)
        image[np.abs(np.sin(20 * (x + y * rng.random()))) < 0.08] = 240
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(os.path.join(folder, f"{i:03d}.{'jpg' if i % 3 == 2 else 'png'}"), quality=95)


def original(model):
    """The state dict of the original's Lightning module."""
    state = dict(model.state_dict())
    for name, tensor in model.named_parameters():
        if name.startswith("model."):                       # LitEma, of the module `model`
            state["model_ema." + name[len("model."):].replace(".", "")] = tensor.detach() * 0.9
    state["model_ema.decay"], state["model_ema.num_updates"] = torch.tensor(0.9999), torch.tensor(7)
    state["betas"] = state["alphas_cumprod"] = torch.linspace(0, 1, 1000)
    state["cond_stage_model.model.ln_final.weight"] = torch.ones(1024)
    return state


j = job.Job("stablesr-small", __doc__)
data, test, run = j.folder("photos"), j.folder("test-photos"), j.path("run")
photos(data, 12, 1)
photos(test, 2, 2)

cfg = j.config()
model = j.reference(cfg)
job.lightning_checkpoint(j.path("pretrained.ckpt"), original(model))

words = ["stablesr-small", "--data", data, "--init", j.path("pretrained.ckpt"), "--steps", 16]
more = ["--set", f"data.holdout_path={test}", "--set", "save.every=4", "--set", "validate.every=8", "--set", "validate.batches=1"]
j.train_and_kill(run, 8, *words, *more)
j.plimsoll("train", "--resume", run)
j.evaluate(run, "--data", test)
small = j.path("small.png")
Image.open(os.path.join(test, "000.png")).resize((44, 36), Image.BICUBIC).save(small)
j.plimsoll("sample", run, "-n", 1, "--input", small, "--steps", 10, "-o", j.path("samples"))
for name, option in ("weights", []), ("average", ["--ema"]):
    j.plimsoll("export", run, "-o", j.path(name + ".safetensors"), *option)
    j.same_loss(run, j.path(name + ".safetensors"), cfg)
