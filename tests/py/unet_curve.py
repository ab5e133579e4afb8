"""200 steps of the small U-Net from the same weights, images and noise, by PyTorch and by plimsoll train.

    unet_curve.py PROGRAM WORK_FOLDER

Contract section 6: losses differ by less than 1e-3 (relative) in each of the first 50 steps and by less than
2e-2 up to step 200; and the loss falls."""
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ref"))
import unet  # noqa: E402

STEPS, BATCH, MICRO, LR, WARMUP = 200, 4, 2, 1e-3, 10


def disc_images(rng, n):
    """Discs of random place, size and colour on a dark ground."""
    y, x = np.mgrid[0:16, 0:16] + 0.5
    out = np.empty((n, 16, 16, 3), np.float32)
    for i in range(n):
        cy, cx, r = rng.uniform(4, 12), rng.uniform(4, 12), rng.uniform(2, 6)
        inside = np.clip(r - np.hypot(y - cy, x - cx) + 0.5, 0, 1)[..., None]
        out[i] = -0.8 + inside * rng.uniform(0.3, 1.6, 3)
    return out


def factor(step):
    if step < WARMUP:
        return step / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def main():
    program, work = sys.argv[1], sys.argv[2]
    os.makedirs(work, exist_ok=True)
    rng = np.random.default_rng(1)
    torch.manual_seed(1)
    torch.set_num_threads(1)                      # small work: threads would wait longer than they compute
    model = unet.UNet()
    for name, p in model.named_parameters():      # zero starts hide mistakes
        if not p.detach().abs().sum() > 0:
            torch.nn.init.normal_(p, std=0.02)
    save_file({k: v.detach().numpy() for k, v in model.state_dict().items()}, f"{work}/weights.safetensors")
    given = {
        "x": disc_images(rng, STEPS * MICRO * BATCH).reshape(STEPS * MICRO, BATCH, 16, 16, 3),
        "t": rng.integers(0, 1000, (STEPS * MICRO, BATCH)).astype(np.int32),
        "noise": rng.standard_normal((STEPS * MICRO, BATCH, 16, 16, 3)).astype(np.float32),
    }
    save_file(given, f"{work}/given.safetensors")

    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    theirs = []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = LR * factor(step)
        optimizer.zero_grad()
        total = 0.0
        for micro in range(step * MICRO, (step + 1) * MICRO):
            loss = unet.loss(model, *(torch.from_numpy(given[k][micro]) for k in ("x", "t", "noise"))) / MICRO
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        theirs.append(total)

    run = f"{work}/run"
    subprocess.run(["rm", "-rf", run], check=True)
    subprocess.run([program, "train", "unet-small", "--init", f"{work}/weights.safetensors", "--given",
                    f"{work}/given.safetensors", "--out", run, "--steps", str(STEPS), "--batch", str(BATCH), "--threads", "2", "--quiet"], check=True)
    ours = [json.loads(line)["loss"] for line in open(f"{run}/log.jsonl")]
    assert len(ours) == STEPS, f"{len(ours)} steps were logged"
    off = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    print(f"loss {theirs[0]:.4f} -> {np.mean(theirs[-20:]):.4f} (PyTorch), {ours[0]:.4f} -> {np.mean(ours[-20:]):.4f} (ours); "
          f"largest relative difference {max(off[:50]):.2e} in 50 steps, {max(off):.2e} in {STEPS}")
    assert max(off[:50]) < 1e-3 and max(off) < 2e-2, "the loss curves part"
    assert np.mean(ours[-20:]) < 0.35 * ours[0], "the loss does not fall"
    print("1 passed, 0 failed")


main()
