"""STDiff: from range arrays of a lidar and a PyTorch checkpoint to predicted frames.

Data: drives/NAME/000000.npy, ..., one scan of 64x2650x4 each (range, and three channels that are not used). Weights: a .pt of the
original's state dict as torch.compile leaves it, with `_orig_mod.` before each name.
"""
import os

import job
import numpy as np
import torch


def drive(folder, n, seed):
    """A ring of walls, and objects that come nearer; -1 where no beam returns."""
    os.makedirs(folder)
    rng = np.random.default_rng(seed)
    column, row = np.arange(2650) / 2650, np.arange(64)[:, None]
    walls = 25 + 8 * np.sin(2 * np.pi * (3 * column + rng.random())) + 0.1 * row
    places, speeds = rng.random(4), rng.uniform(-0.01, 0.01, 4)
    for f in range(n):
        metres = walls.copy()
        for place, speed in zip(places, speeds):
            near = np.abs((column - place - speed * f + 0.5) % 1 - 0.5) < 0.03
            metres[20:50, near] = 12 - 0.3 * f
        metres[rng.random(metres.shape) < 0.02] = -1
        scan = np.stack([metres, np.zeros_like(metres), np.zeros_like(metres), rng.random(metres.shape)], -1)
        np.save(os.path.join(folder, f"{f:06d}.npy"), scan.astype(np.float32))


j = job.Job("stdiff-small", __doc__)
data, test, run = j.folder("drives"), j.folder("test-drives"), j.path("run")
drive(os.path.join(data, "00"), 10, 1)
drive(os.path.join(data, "01"), 10, 2)
drive(os.path.join(test, "09"), 5, 3)

small = ["--set", "model.image=[16,64]", "--set", "accumulate=1"]
cfg = j.config(*small)
model = j.reference(cfg)
torch.save({"_orig_mod." + name: tensor for name, tensor in model.state_dict().items()}, j.path("pretrained.pt"))

words = ["stdiff-small", *small, "--data", data, "--init", j.path("pretrained.pt"), "--steps", 12]
more = ["--set", "data.range_channel=0", "--set", "data.range_low=0", "--set", "data.range_high=50", "--set", f"data.holdout_path={test}",
        "--set", "save.every=4", "--set", "validate.every=6"]
j.train_and_kill(run, 4, *words, *more)
j.plimsoll("train", "--resume", run)
j.evaluate(run, "--data", test)
j.plimsoll("sample", run, "-n", 1, "--input", test, "--steps", 5, "-o", j.path("samples"))
for name, option in ("weights", []), ("average", ["--ema"]):
    j.plimsoll("export", run, "-o", j.path(name + ".safetensors"), *option)
    j.same_loss(run, j.path(name + ".safetensors"), cfg)
