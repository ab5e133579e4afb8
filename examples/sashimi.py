"""SaShiMi: from FLAC files and a Lightning checkpoint to sampled audio.

Data: songs/*.flac at 16 kHz; the program converts them to the model's rate. Weights: a Lightning .ckpt of the original, with its
buffers l_kernel (the length that each kernel is valid for) and the decoder that its loss does not use.
"""
import os

import job
import numpy as np
import torch

RATE = 16000


def songs(folder, n, first):
    """Three seconds of a tone with two overtones that decays again and again."""
    t = np.arange(3 * RATE) / RATE
    for i in range(first, first + n):
        pitch = 180 * 2 ** (i % 12 / 12)
        tone = sum(np.sin(2 * np.pi * k * pitch * t) / k for k in (1, 2, 3)) * np.exp(-4 * (t % 0.5))
        pcm = (tone / np.abs(tone).max() * 30000).astype("<i2").tobytes()
        job.ffmpeg("-f", "s16le", "-ar", RATE, "-ac", 1, "-i", "-", os.path.join(folder, f"tone{i:02d}.flac"), data=pcm)


def original(model, length):
    """The state dict with what the original's has beside the parameters."""
    state = dict(model.state_dict())
    for name in list(state):
        if name.endswith("kernel.C"):
            state[name[:-1] + "l_kernel"] = torch.tensor(length >> 2 * depth(name))
    state["decoder.0.output_transform.weight"] = torch.zeros(256, 12)
    state["decoder.0.output_transform.bias"] = torch.zeros(256)
    return state


def depth(name):
    """How many times the sequence is pooled by 4 before this layer."""
    return 2 if name.startswith("model.c_layers") else 1 - int(name.split(".")[2])


j = job.Job("sashimi-small", __doc__)
job.need_plugin(j, "audio")
data, test, run = j.folder("songs"), j.folder("test-songs"), j.path("run")
songs(data, 8, 0)
songs(test, 2, 8)

cfg = j.config()
model = j.reference(cfg)
job.lightning_checkpoint(j.path("pretrained.ckpt"), original(model, cfg["model"]["length"]))

words = ["sashimi-small", "--data", data, "--init", j.path("pretrained.ckpt"), "--steps", 24]
more = ["--set", f"data.holdout_path={test}", "--set", "save.every=6", "--set", "validate.every=12"]
j.train_and_kill(run, 6, *words, *more)
j.plimsoll("train", "--resume", run)
j.evaluate(run, "--data", test)
j.plimsoll("sample", run, "-n", 1, "--length", 4000, "-o", j.path("samples"))
for name, option in ("weights", []), ("average", ["--ema"]):
    j.plimsoll("export", run, "-o", j.path(name + ".safetensors"), *option)
    j.same_loss(run, j.path(name + ".safetensors"), cfg)
