"""DiT3D: from videos with captions and a PyTorch checkpoint to sampled clips.

Data: clips/NAME.mp4 with clips/NAME.txt. Weights: a .pt as a training script saves it, under "model_state_dict" and with the
`module.` of DataParallel before each name, an average beside it.
"""
import os

import job
import numpy as np
import torch

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 70, 230), "yellow": (230, 220, 50)}


def clips(j, folder, n, first):
    """A box of one colour that moves, 48x48 at 12 frames a second, as H.264."""
    for i in range(n):
        colour, rightwards = list(COLOURS)[(first + i) % 4], (first + i) // 4 % 2
        frames = np.full((12, 48, 48, 3), 20, np.uint8)
        for f in range(12):
            x = 2 + 2 * f if rightwards else 24 - 2 * f
            frames[f, 14:34, x:x + 20] = COLOURS[colour]
        name = os.path.join(folder, f"{first + i:03d}-{colour}")
        job.ffmpeg("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "48x48", "-r", 12, "-i", "-", "-pix_fmt", "yuv420p", name + ".mp4", data=frames.tobytes())
        with open(name + ".txt", "w") as f:
            f.write(f"a {colour} box that moves {'right' if rightwards else 'left'}\n")


j = job.Job("dit3d-small", __doc__)
job.need_plugin(j, "video")
train, test, run = j.folder("clips"), j.folder("test-clips"), j.path("run")
clips(j, train, 16, 0)
clips(j, test, 4, 16)

cfg = j.config()
model = j.reference(cfg)
state = {"module." + name: tensor for name, tensor in model.state_dict().items()}
torch.save({"epoch": 25, "model_state_dict": state, "ema_state_dict": {k: v * 0.5 for k, v in state.items()}}, j.path("pretrained.pt"))

words = ["dit3d-small", "--data", train, "--init", j.path("pretrained.pt"), "--steps", 120]
more = ["--set", f"data.holdout_path={test}", "--set", "save.every=20", "--set", "validate.every=60"]
j.train_and_kill(run, 40, *words, *more)
j.plimsoll("train", "--resume", run)
j.evaluate(run, "--data", test)
j.plimsoll("sample", run, "-n", 2, "--prompt", "a red box that moves right", "--steps", 20, "-o", j.path("samples"))
for name, option in ("weights", []), ("average", ["--ema"]):
    j.plimsoll("export", run, "-o", j.path(name + ".safetensors"), *option)
    j.same_loss(run, j.path(name + ".safetensors"), cfg)
