"""Super-resolution of images of any size, as a user runs it: sizes, alpha, bits, seams, memory.

    enlarge.py PROGRAM WORK_FOLDER

A small StableSR trained for a few steps on 64 pixels. What is checked needs no good weights: the arena is the same for every
size, alpha is the cubic filter's, 8 and 16 bits and grey agree, and
pixels differ no more across the borders of tiles than within them."""
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib

try:
    import numpy as np
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TILE, CELL, LATENT = 64, 8, 8
passed = 0


def check(good, what):
    global passed
    assert good, what
    passed += 1


def plimsoll(*words, code=0):
    done = subprocess.run([program, *words, "--threads", "2"], capture_output=True, text=True, cwd=work)
    assert done.returncode == code, f"{words}: status {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def enlarge(name, *options):
    """The result and what JSON says."""
    said = json.loads(plimsoll("sample", "run", "--input", name, "--steps", "3", "-o", "out", "--json", *options))
    return png_read(os.path.join(work, said["files"][0])), said


# ---- PNG of any bits, which Pillow reduces to 8

def png_read(path):
    data, at, packed = open(path, "rb").read(), 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    step = {0: 1, 2: 3, 4: 2, 6: 4}[colour] * depth // 8
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * step)
    rows = np.zeros((height + 1, width * step), np.uint8)
    for y in range(height):
        kind, line, above, to = raw[y, 0], raw[y, 1:], rows[y], rows[y + 1]
        for x in range(width * step):
            left, corner = (int(to[x - step]), int(above[x - step])) if x >= step else (0, 0)
            up, guess = int(above[x]), 0
            if kind == 4:
                p = left + up - corner
                guess = min((left, up, corner), key=lambda v: abs(p - v))
            to[x] = (int(line[x]) + (0, left, up, (left + up) // 2, guess)[kind]) % 256
    out = rows[1:].reshape(height, width, -1)
    return out.view(">u2").astype(np.uint16) if depth == 16 else out


def png_write(name, pixels, more=b"", interlaced=False):
    """more: chunks before the pixels. A filter of its own for every row."""
    height, width, channels = pixels.shape
    depth, colour = 8 * pixels.itemsize, {1: 0, 2: 4, 3: 2, 4: 6}[channels]

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def lines(part):
        big = part.astype(">u2") if depth == 16 else part
        return b"".join(b"\0" + row.tobytes() for row in big) if part.size else b""

    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    raw = b"".join(lines(pixels[y::dy, x::dx]) for y, x, dy, dx in passes)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    with open(os.path.join(work, name), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def drawn_image(height, width, channels=3):
    y, x = np.mgrid[0:height, 0:width].astype(float)
    waves = [np.sin(x / (5 + c) + y / 11 + c) * 80 + np.cos(y / (4 + c)) * 30 + 128 for c in range(channels)]
    disc = (np.hypot(x - width / 2, y - height / 2) < min(height, width) / 3)[..., None]
    return np.where(disc, 255 - np.stack(waves, -1), np.stack(waves, -1)).clip(0, 255).astype(np.uint8)


def cubic(x, scale):
    """Keys' filter with a = -1/2 along both axes, as Pillow's BICUBIC; floats."""
    size = (x.shape[1] * scale, x.shape[0] * scale)
    return np.asarray(Image.fromarray(x.astype(np.float32)).resize(size, Image.BICUBIC)).clip(0, 255)


def sizes():
    png_write("small.png", drawn_image(30, 40))
    png_write("large.png", drawn_image(75, 133))
    png_write("thin.png", drawn_image(5, 90))
    arenas = set()
    for name, shape, tiles in (("small.png", (120, 160), "9 tiles"), ("large.png", (300, 532), "66 tiles"), ("thin.png", (20, 360), "8 tiles")):
        got, said = enlarge(name)
        check(got.shape == (*shape, 3), f"{name}: {got.shape}")
        check(said["planned_bytes"] == said["measured_bytes"], f"{said}")
        arenas.add(said["planned_bytes"])
        check(tiles in plimsoll("sample", "run", "--input", name, "--steps", "1", "-o", "out"), f"{name}: {tiles}")
    check(len(arenas) == 1, f"the arena does not depend on the image's size: {arenas}")
    one, _ = enlarge("small.png", "--batch", "3")
    again, _ = enlarge("small.png")
    check(np.abs(one.astype(int) - again).max() <= 1, "tiles at once change rounding alone")
    twice, _ = enlarge("small.png", "--scale", "2")
    check(twice.shape == (60, 80, 3), f"{twice.shape}")
    os.makedirs(os.path.join(work, "folder"))
    for name in ("small.png", "thin.png"):
        shutil.copy(os.path.join(work, name), os.path.join(work, "folder"))
    _, said = enlarge("folder")
    check([os.path.basename(f) for f in said["files"]] == ["sample-000.png", "sample-001.png"], said["files"])
    check((png_read(os.path.join(work, "out/sample-000.png")) == again).all(), "an image is the same by itself and in a folder")


def kinds():
    colour, grey = drawn_image(22, 30), drawn_image(22, 30, 1)
    png_write("rgb.png", colour)
    rgb, _ = enlarge("rgb.png")
    png_write("rgb16.png", colour.astype(np.uint16) * 257)
    deep, _ = enlarge("rgb16.png")
    check(deep.dtype == np.uint16 and deep.shape == rgb.shape, f"{deep.dtype}")
    check(np.abs(deep / 257.0 - rgb).max() <= 1 and len(np.unique(deep)) > 256, "16 bits are 16 bits")
    alpha = drawn_image(22, 30, 1)
    png_write("rgba.png", np.concatenate([colour, alpha], -1))
    got, _ = enlarge("rgba.png")
    check((got[..., :3] == rgb).all(), "colours do not depend on alpha")
    check(np.abs(got[..., 3] - cubic(alpha[..., 0], 4)).max() <= 1, "alpha is enlarged by a cubic filter")
    png_write("rgba16.png", np.concatenate([colour, alpha], -1).astype(np.uint16) * 257)
    deep, _ = enlarge("rgba16.png")
    check(deep.shape[2] == 4 and np.abs(deep[..., 3] / 257.0 - got[..., 3]).max() <= 1, "16 bits of alpha")
    png_write("grey.png", grey)
    got, _ = enlarge("grey.png")
    png_write("three.png", grey.repeat(3, -1))
    three, _ = enlarge("three.png")
    check(got.shape[2] == 1 and np.abs(got[..., 0] - three @ [0.299, 0.587, 0.114]).max() <= 1, "grey stays grey")
    png_write("greya.png", np.concatenate([grey, alpha], -1))
    both, _ = enlarge("greya.png")
    check(both.shape[2] == 2 and (both[..., :1] == got).all(), "grey with alpha")
    png_write("interlaced.png", colour, interlaced=True)
    got, _ = enlarge("interlaced.png")
    check((got == rgb).all(), "an interlaced image is the same image")
    Image.fromarray(colour).quantize(16).save(os.path.join(work, "palette.png"), transparency=3)
    got, _ = enlarge("palette.png")
    check(got.shape[2] == 4 and set(np.unique(got[..., 3])) >= {0, 255}, "a palette with a transparent colour has alpha")
    Image.fromarray(colour).save(os.path.join(work, "photo.jpg"), quality=95)
    got, _ = enlarge("photo.jpg")
    check(got.shape == rgb.shape and np.abs(got.astype(int) - rgb).mean() < 16, "a JPEG")


def borders(length):
    """Where tiles begin and end within the image, in pixels."""
    cells = max(-(-length // CELL), LATENT)
    n = 1 + -(-(cells - LATENT) // (LATENT - LATENT // 4))
    starts = [int(i * (cells - LATENT) / (n - 1) + 0.5) if n > 1 else 0 for i in range(n)]
    at = {s * CELL for s in starts} | {(s + LATENT) * CELL for s in starts}
    return sorted(a for a in at if 0 < a < length)


def seams():
    got, _ = enlarge("large.png")
    for axis in (0, 1):
        steps = np.abs(np.diff(got.astype(float), axis=axis)).mean(axis=(1 - axis, 2))
        at = np.array(borders(got.shape[axis])) - 1
        inside = np.delete(steps, at).mean()
        ratio = steps[at].mean() / inside
        print(f"steps across {len(at)} borders of axis {axis}: {ratio:.3f} of those inside")
        check(ratio <= 1.05, f"seams: {ratio:.3f}")


def refusals():
    def says(words, text, code):
        check(text in plimsoll("sample", "run", "--steps", "1", "-o", "out", *words, code=code), f"{words}: {text}")
    whole = open(os.path.join(work, "large.png"), "rb").read()
    open(os.path.join(work, "short.png"), "wb").write(whole[:len(whole) // 2])
    says(("--input", "short.png"), "truncated PNG", 1)
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 255
    open(os.path.join(work, "damaged.png"), "wb").write(damaged)
    shutil.rmtree(os.path.join(work, "out"))
    says(("--input", "damaged.png"), "damaged PNG", 1)
    check(not [f for f in os.listdir(os.path.join(work, "out")) if not f.startswith(".")], "no half of an image is left")
    says(("--input", "large.png", "--loader-memory", "1MiB"), "--loader-memory", 3)
    says(("--input", "interlaced.png", "--loader-memory", "1KiB"), "--loader-memory", 3)
    says(("--input", "large.png", "--budget", "1MiB", "--batch", "2"), "use a smaller --batch", 3)
    says(("--input", "nothing.png"), "nothing.png", 1)
    says(("--input", "folder", "-n", "3"), "holds 2 images", 2)
    says(("--input", "small.png", "--scale", "17"), "--scale takes 1 to 16", 2)
    says(("--scale", "2"), "--scale is for super-resolution of --input", 2)
    says(("--input", "small.png", "--format", "npy"), "written as png", 2)


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
plimsoll("train", "stablesr-small", "--set", "model.image=64", "--set", "model.latent=8", "--set", "model.vae_mult=[1, 2, 4, 4]", "--batch", "1", "--steps", "4", "--out", "run", "--quiet")
for part in (sizes, kinds, seams, refusals):
    part()
print(f"{passed} passed")
