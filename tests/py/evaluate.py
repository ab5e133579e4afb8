"""The measures of `plimsoll evaluate` against numpy.

    evaluate.py PROGRAM WORK_FOLDER

PSNR and SSIM of the image pairs that a small StableSR run writes, by their definitions; Frechet distances of random
features, with more and with fewer samples than features, by the eigenvalues of the covariances' product; range images
in metres from a test folder of another range than the training data; bits per sample of a WAV folder."""
import json
import os
import shutil
import subprocess
import sys
import wave

try:
    import numpy as np
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failed = 0


def run(*arguments, code=0):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, cwd=work)
    if done.returncode != code:
        sys.exit(f"plimsoll {' '.join(map(str, arguments))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout if code == 0 else done.stderr


def near(what, ours, theirs, relative):
    global failed
    if not abs(ours - theirs) <= relative * max(abs(theirs), 1e-3):
        print(f"{what}: {ours!r}, by numpy {theirs!r}")
        failed += 1


def train(name, recipe, *sets, data=()):
    run("train", recipe, "--out", name, "--quiet", "--threads", 2, *data,
        *[word for pair in sets for word in ("--set", pair)])


def evaluate(*arguments):
    return json.loads(run("evaluate", *arguments, "--json", "--threads", 2))


# ---- images

def windows(plane, weights):
    """The weighted mean at every place where an 11x11 window fits."""
    view = np.lib.stride_tricks.sliding_window_view(plane, (11, 11))
    return np.einsum("yxij,ij->yx", view, weights)


def ssim(a, b):
    line = np.exp(-np.arange(-5, 6) ** 2 / 4.5)
    weights = np.outer(line, line) / line.sum() ** 2
    ma, mb = windows(a, weights), windows(b, weights)
    aa, bb = windows(a * a, weights) - ma * ma, windows(b * b, weights) - mb * mb
    ab = windows(a * b, weights) - ma * mb
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return np.mean((2 * ma * mb + c1) * (2 * ab + c2) / ((ma**2 + mb**2 + c1) * (aa + bb + c2)))


def quality(a, b):
    luma = [16 + x @ np.array([65.481, 128.553, 24.966]) / 255 for x in (a, b)]
    psnr = [10 * np.log10(255**2 / np.mean((x - y) ** 2)) for x, y in ((a, b), luma)]
    return {"psnr": psnr[0], "psnr_y": psnr[1], "ssim": np.mean([ssim(a[..., c], b[..., c]) for c in range(3)]),
            "ssim_y": ssim(*luma)}


def images():
    train("sr", "stablesr-small", "model.image=64", "model.latent=8", "model.vae_mult=[1, 2, 4, 4]", "model.mult=[1, 2]", "model.struct_mult=[1, 2]",
          "steps=1", "batch=1", "sampler.steps=2", "data.samples=4")
    test = os.path.join(work, "photos")
    os.makedirs(test)
    random = np.random.default_rng(1)
    for i in range(3):                                      # of several sizes, one of them smaller than the model
        smooth = random.integers(0, 256, (5 + i, 4 + i, 3)).astype(np.uint8)
        Image.fromarray(smooth).resize((50 + 20 * i, 60 + 30 * i), Image.BICUBIC).save(f"{test}/{i}.png")
    found = evaluate("sr", "--data", test, "--pairs", "pairs", "--timesteps", 2)
    assert found["data"]["samples"] == 3 and found["drawn"] == 3
    each = []
    for i in range(3):
        pair = [np.asarray(Image.open(f"{work}/pairs/{kind}/{i:06d}.png")).astype(np.float64)
                for kind in ("result", "truth")]
        each.append(quality(*pair))
    for key, ours in found["images"]["result"].items():
        near(f"image {key}", ours, np.mean([q[key] for q in each]), 1e-9)


# ---- features

def frechet(a, b):
    c1, c2 = (np.atleast_2d(np.cov(x.astype(np.float64), rowvar=False)) for x in (a, b))
    values, vectors = np.linalg.eigh(c1)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ c2 @ root), 0)).sum()
    return ((a.mean(0, dtype=np.float64) - b.mean(0, dtype=np.float64)) ** 2).sum() + np.trace(c1 + c2) - 2 * cross


def features():
    random = np.random.default_rng(2)
    for n, m, d, kind in ((500, 300, 40, np.float32), (60, 50, 130, np.float64), (2, 3, 1, np.float64),
                          (1000, 900, 257, np.float32)):
        mix = random.normal(size=(d, d))
        a = (random.normal(size=(n, d)) @ mix).astype(kind)
        b = (0.7 * random.normal(size=(m, d)) @ mix + 0.1).astype(kind)
        np.save(f"{work}/a.npy", a)
        np.save(f"{work}/b.npy", b)
        found = json.loads(run("evaluate", "--features", "a.npy", "b.npy", "--json"))
        # zero eigenvalues are rounded to about 1e-16 of the largest, and their roots to 1e-8 of it
        near(f"frechet of {n}x{d} and {m}x{d}", found["frechet"], frechet(a, b), 1e-8 if min(n, m) > d else 1e-6)


# ---- range images

def ranges():
    random = np.random.default_rng(3)
    for folder, low, high in (("scans", 2, 80), ("test_scans", 5, 40)):
        for sequence in range(2):
            os.makedirs(f"{work}/{folder}/{sequence}")
            for i in range(4):
                metres = random.uniform(low, high, (8, 16)).astype(np.float32)
                metres[0, 0] = low if i else high
                metres[random.uniform(size=metres.shape) < 0.2] = -1
                np.save(f"{work}/{folder}/{sequence}/{i}.npy", metres)
    train("st", "stdiff-small", "model.image=[8, 16]", "model.channels=[16]", "model.layers=1", "model.groups=4",
          "model.head_width=16", "model.observed=2", "model.predicted=2", "steps=1", "batch=1", "accumulate=1",
          "sampler.steps=2", data=("--data", "scans"))
    found = evaluate("st", "--data", "test_scans", "--timesteps", 2)
    valid = sum(int((np.load(f"{work}/test_scans/{s}/{i}.npy") > 0).sum()) for s in range(2) for i in (2, 3))
    assert found["clips"]["valid_pixels"] == valid and found["clips"]["pixels"] == 512 and found["clips"]["unit"] == "m"
    trained = [np.load(f"{work}/scans/{s}/{i}.npy") for s in range(2) for i in range(4)]
    low, high = (float(f(np.stack(trained)[np.stack(trained) > 0])) for f in (np.min, np.max))
    again = evaluate("st", "--data", "test_scans", "--timesteps", 2, "--set", f"data.range_low={low!r}",
                     "--set", f"data.range_high={high!r}")
    near("MAE by the training data's range", found["clips"]["mae"], again["clips"]["mae"], 1e-6)
    assert found["data"]["fingerprint"] == again["data"]["fingerprint"]
    shutil.rmtree(f"{work}/scans")                  # the run keeps the metres; one of an older version looks at the data
    assert evaluate("st", "--data", "test_scans", "--timesteps", 2)["data"]["fingerprint"] == again["data"]["fingerprint"]
    kept = open(f"{work}/st/recipe.yaml").read().splitlines(keepends=True)
    open(f"{work}/st/recipe.yaml", "w").writelines(line for line in kept if "range_low:" not in line and "range_high:" not in line)
    assert "data.range_low" in run("evaluate", "st", "--data", "test_scans", "--timesteps", 2, code=1)


# ---- audio

def audio():
    random = np.random.default_rng(4)
    os.makedirs(f"{work}/audio")
    for i in range(2):
        with wave.open(f"{work}/audio/{i}.wav", "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(1)
            out.setframerate(8000)
            tone = 128 + 90 * np.sin(0.07 * np.arange(400)) + random.normal(size=400)
            out.writeframes(np.clip(tone, 0, 255).astype(np.uint8).tobytes())
    train("au", "sashimi-small", "model.length=128", "model.width=8", "steps=1", "data.scaling=none",
          "validate.every=0")
    found = evaluate("au", "--data", "audio")
    assert found["data"]["samples"] == 6 and not found["timesteps"]      # three whole chunks of each file
    near("bits", found["bits_per_sample"], found["loss"] / np.log(2), 1e-12)
    near("mean of samples", np.mean([s["loss"] for s in found["samples"]]), found["loss"], 1e-6)
    assert evaluate("au", "--data", "audio", "--batch", 3)["data"]["fingerprint"] == found["data"]["fingerprint"]
    assert evaluate("au", "--data", "audio", "-n", 2)["data"]["fingerprint"] != found["data"]["fingerprint"]


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
for test in (features, audio, ranges, images):
    test()
print(f"evaluate: {failed} differences")
sys.exit(failed > 0)
