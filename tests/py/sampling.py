"""`sample` with its options, against the equations in PyTorch and numpy.

    sampling.py PROGRAM WORK_FOLDER

The small U-Net from the same weights and noise: DDPM and DDIM with 0, 0.3 and 1 of the noise, by the options, by the
recipe's keys, and with fewer steps. Clips of range images: which samples inputs are, the newest frames of what is given,
metres, truth and error."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ref"))
import common  # noqa: E402
import unet  # noqa: E402

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
N, STEPS, SHAPE = 2, 6, (16, 16, 3)


def plimsoll(*words):
    return subprocess.run([program, *words, "--quiet", "--threads", "2"], check=True, capture_output=True, text=True, cwd=work).stdout


def ddpm_step(x, e, z, a, a_next):
    """Ho et al. (2020), equation 7; the variance is beta tilde."""
    beta, x0 = 1 - a / a_next, ((x - (1 - a) ** 0.5 * e) / a ** 0.5).clamp(-1, 1)
    mean = a_next ** 0.5 * beta / (1 - a) * x0 + (a / a_next) ** 0.5 * (1 - a_next) / (1 - a) * x
    return mean + (beta * (1 - a_next) / (1 - a)) ** 0.5 * z


@torch.no_grad()
def expected(model, noise, steps, step):
    abar, times = unet.alpha_bar(), common.respaced(1000, steps)
    x = torch.from_numpy(noise["noise.x"][0]).double().permute(0, 3, 1, 2)
    for i, k in enumerate(reversed(range(steps))):
        e = model(x, torch.full((N,), times[k]))
        z = torch.from_numpy(noise["noise.z"][i]).double().permute(0, 3, 1, 2)
        x = step(x, e, z, float(abar[times[k]]), float(abar[times[k - 1]]) if k else 1.0)
    return x.permute(0, 2, 3, 1).numpy()


def images():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    model = unet.UNet()
    for p in model.parameters():                      # zero starts hide mistakes
        if not p.detach().abs().sum() > 0:
            torch.nn.init.normal_(p, std=0.02)
    save_file({k: v.detach().numpy() for k, v in model.state_dict().items()}, f"{work}/weights.safetensors")
    plimsoll("train", "unet-small", "--init", f"{work}/weights.safetensors", "--steps", "0", "--out", f"{work}/run")
    rng = np.random.default_rng(3)
    noise = {"noise.x": rng.standard_normal((1, N, *SHAPE)).astype(np.float32),
             "noise.z": rng.standard_normal((STEPS, N, *SHAPE)).astype(np.float32)}
    save_file(noise, f"{work}/noise.safetensors")
    model.double()
    results = []
    for steps, eta, options in ((STEPS, None, ()), (STEPS, 0, ("--sampler", "ddim")), (4, 0.3, ("--sampler", "ddim", "--eta", "0.3")),
                                (STEPS, 1, ("--set", "sampler.kind=ddim", "--set", "sampler.eta=1"))):
        plimsoll("sample", f"{work}/run", "-n", str(N), "--steps", str(steps), "--given", f"{work}/noise.safetensors", "-o", f"{work}/drawn", "--format", "npy", *options)
        step = ddpm_step if eta is None else lambda *now: common.ddim_step(*now, eta)
        got, want = load_file(f"{work}/drawn/samples.safetensors")["samples"], expected(model, noise, steps, step)
        off = np.linalg.norm(got - want) / np.linalg.norm(want)
        print(f"{' '.join(options) or 'ddpm'}, {steps} steps: off by {off:.1e}")
        assert got.shape == want.shape and off < 2e-5, options
        results.append(want)
    ddpm, none, some, all_of_it = results
    assert np.abs(ddpm - all_of_it).max() < 1e-9, "DDIM with all of the noise is DDPM"
    assert min(np.abs(a - b).max() for a, b in ((ddpm, none), (ddpm, some), (none, some))) > 0.01, "the samplers should differ"
    drawn = np.load(f"{work}/drawn/sample-001.npy")
    assert drawn.shape == SHAPE and (drawn == got[1]).all(), "--format npy holds the numbers"


# ---- clips of range images

HEIGHT, WIDTH, OBSERVED, PREDICTED, FRAMES = 8, 16, 2, 3, 9


def scans_make():
    """Frames of four drives, in metres; a beam in five does not return."""
    rng = np.random.default_rng(5)
    for drive in range(4):
        os.makedirs(f"{work}/scans/{drive}")
        for k in range(FRAMES):
            metres = rng.uniform(2, 80, (HEIGHT, WIDTH)).astype(np.float32)
            metres[rng.random(metres.shape) < 0.2] = -1
            np.save(f"{work}/scans/{drive}/{k}.npy", metres)


def scaled(metres, low, high):
    """As the model sees them, back in metres: whole levels of 255, and `low` where no beam returned."""
    level = np.where(metres > 0, np.floor(255 * ((metres - low) / (high - low)).clip(0, 1)), 0)
    return low + level / 255 * (high - low)


def sample(*options):
    """JSON, lines of what was sampled from, clips, truths."""
    shutil.rmtree(f"{work}/clips", ignore_errors=True)
    words = ("sample", "run2", "-o", "clips", *options)
    said = json.loads(plimsoll(*words, "--json"))
    about = [line.split(": ", 1)[1] for line in plimsoll(*words).splitlines() if line.strip()[0].isdigit()]
    load = lambda name: [np.load(path) for path in said["files"] if os.path.basename(path).startswith(name) and path.endswith(".npy")]  # noqa: E731
    os.chdir(work)
    return said, about, load("clip-"), load("truth-")


def clips():
    scans_make()
    small = ("model.image=[8, 16]", "model.channels=[16]", "model.layers=1", "model.groups=4", "model.head_width=16", "batch=1",
             f"model.observed={OBSERVED}", f"model.predicted={PREDICTED}", "accumulate=1", "sampler.steps=2", "data.holdout=0.25")
    plimsoll("train", "stdiff-small", "--data", "scans", "--steps", "1", "--out", "run2", *(w for k in small for w in ("--set", k)))
    os.chdir(work)
    every = np.stack([[np.load(f"scans/{d}/{k}.npy") for k in range(FRAMES)] for d in range(4)])
    low, high = every[every > 0].min(), every[every > 0].max()

    said, about, drawn, truth = sample("-n", "6")                  # one clip of a drive: frames 2 to 6; the last drive is held out
    assert about == ["scans/3/2.npy"] * 6, about
    assert [a.shape for a in drawn + truth] == [(PREDICTED, HEIGHT, WIDTH, 1)] * 12
    after = every[3, 4:7]
    assert np.abs(truth[0][..., 0] - scaled(after, low, high)).max() < 1e-4, "the truth, in metres"
    off = np.concatenate([np.abs(d - t)[after > 0] for d, t in zip(drawn, truth)])
    assert said["error"]["pixels"] == off.size and said["error"]["unit"] == "m"
    assert abs(said["error"]["mean"] - off.mean()) < 1e-4 * off.mean(), f"{said['error']} {off.mean()}"
    assert all(d.min() >= low - 1e-4 and d.max() <= high + 1e-4 for d in drawn)

    said, about, drawn, truth = sample("-n", "2", "--input", "scans/1")   # nothing follows the newest frames
    assert about == [f"scans/1/{FRAMES - OBSERVED}.npy"] * 2 and not truth and "error" not in said, about
    for k in range(FRAMES - OBSERVED, FRAMES):
        os.makedirs("newest", exist_ok=True)
        shutil.copy(f"scans/1/{k}.npy", "newest")
    _, _, same, _ = sample("-n", "2", "--input", "newest")
    assert all((a == b).all() for a, b in zip(drawn, same)), "the frames before are not looked at"
    np.save("one.npy", every[1][..., None])
    _, _, same, _ = sample("-n", "2", "--input", "one.npy")
    assert all((a == b).all() for a, b in zip(drawn, same)), "or the same as one array"

    said, about, _, truth = sample("-n", "4", "--input", "scans", "--hold-back", "1")
    assert about == [f"scans/{d}/{FRAMES - OBSERVED - 1}.npy" for d in range(4)], about
    for d in range(4):
        assert np.abs(truth[d][0, ..., 0] - scaled(every[d, -1], low, high)).max() < 1e-4
    assert said["error"]["pixels"] == (every[:, -1] > 0).sum(), "only the last frame is known"
    said, _, _, truth = sample("-n", "1", "--input", "scans/2", "--hold-back", "5")
    assert np.abs(truth[0][..., 0] - scaled(every[2, 4:7], low, high)).max() < 1e-4

    shutil.move("scans/3", "other")                                # a test folder instead: scaled as in training all the same
    said, about, _, truth = sample("-n", "1", "--set", "data.holdout=0", "--set", "data.holdout_path=other")
    assert about == ["other/2.npy"] and np.abs(truth[0][..., 0] - scaled(after, low, high)).max() < 1e-4
    print("clips: which, metres, truth and error agree")


def main():
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    images()
    clips()
    print("2 passed")


main()
