"""Few-shot sets (lag): from an .npz of labelled images and a checkpoint to new images of a class, and on to Flax.

Data: sets.npz with images (N,20,20,3) and labels (N). Weights: a Lightning .ckpt with the original's (Flax's) names; the result goes
back as a Flax file (.msgpack), which starts the next run.
"""
import job
import numpy as np


def sets(path, classes, seed):
    """Each class is a colour and a form, each image a place."""
    rng = np.random.default_rng(seed)
    images, labels = [], []
    for label in range(classes):
        colour, wide = rng.integers(60, 256, 3), rng.integers(4, 10)
        for _ in range(9):
            image = np.full((20, 20, 3), 12, np.uint8)
            y, x = rng.integers(0, 20 - wide, 2)
            image[y:y + wide, x:x + wide] = colour
            images.append(image)
            labels.append(label)
    np.savez(path, images=np.stack(images), labels=np.array(labels))


j = job.Job("lag-small", __doc__)
data, test, run = j.path("sets.npz"), j.path("test.npz"), j.path("run")
sets(data, 24, 1)
sets(test, 4, 2)

cfg = j.config()
model = j.reference(cfg)
job.lightning_checkpoint(j.path("pretrained.ckpt"), {"model." + name: tensor for name, tensor in model.state_dict().items()})

words = ["lag-small", "--data", data, "--init", j.path("pretrained.ckpt"), "--steps", 120]
more = ["--set", f"data.holdout_path={test}", "--set", "save.every=20", "--set", "validate.every=60"]
j.train_and_kill(run, 40, *words, *more)
j.plimsoll("train", "--resume", run)
j.evaluate(run, "--data", test)
j.plimsoll("sample", run, "-n", 2, "--input", test, "--steps", 20, "-o", j.path("samples"))
for name, option in ("weights", []), ("average", ["--ema"]):
    j.plimsoll("export", run, "-o", j.path(name + ".safetensors"), *option)
    j.same_loss(run, j.path(name + ".safetensors"), cfg)

# To Flax and back: flax.serialization.msgpack_restore(open("weights.msgpack", "rb").read()) gives the tree of parameters.
j.plimsoll("export", run, "-o", j.path("weights.msgpack"))
j.plimsoll("train", "lag-small", "--data", data, "--init", j.path("weights.msgpack"), "--steps", 2, "--out", j.path("run2"))
