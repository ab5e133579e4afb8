"""Clips as GIF, MP4 and WebM: what Pillow and ffmpeg read of them.

    test_clips.py PROGRAM WORK_FOLDER

PROGRAM is tests/reference/clip_file.c. GIF is exact up to 256 colours, by Pillow and ffmpeg, and else within the palette's error,
which is compared with Pillow's own. MP4 and WebM are lossy: 3 levels on average, of smooth frames whose colours have half the size."""
import os
import shutil
import subprocess
import sys

try:
    import numpy as np
    from PIL import Image, ImageSequence
except ImportError as error:
    print(f"skipped: {error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
rng = np.random.default_rng(0)
passed, skipped = 0, []


def check(good, what):
    global passed
    assert good, what
    passed += 1


def at(name):
    return os.path.join(work, name)


def write(clip, form, rate=8, env=None):
    np.save(at("clip.npy"), clip)
    done = subprocess.run([program, at("clip.npy"), at("clip"), form, str(rate)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def by_pillow(path):
    image = Image.open(path)
    frames = [np.asarray(f.convert("RGB")) for f in ImageSequence.Iterator(image)]
    image.seek(0)
    times = []
    for f in ImageSequence.Iterator(image):
        times.append(f.info["duration"])
    return np.stack(frames), times, image.info.get("loop")


def by_ffmpeg(path, shape):
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-vsync", "0", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                         check=True, capture_output=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, *shape)


def smooth(frames, height, width):
    """A colourful wave that moves, and a disc."""
    y, x, k = np.mgrid[0:height, 0:width, 0:frames].transpose(0, 3, 1, 2).astype(float)
    wave = [np.sin(2 * np.pi * (x / width * (1 + c) + y / height + k / 8) + c) for c in range(3)]
    clip = np.stack(wave, -1) * 100 + 128
    inside = (np.hypot(x - width / 2 - 2 * k, y - height / 2) < min(height, width) / 4)[..., None]
    return np.where(inside, clip / 2 + [90, 20, 60], clip).clip(0, 255).astype(np.uint8)


def exact():
    grey = rng.integers(0, 256, (5, 17, 23, 1)).astype(np.uint8).repeat(3, -1)
    few = rng.integers(0, 256, (256, 3)).astype(np.uint8)[rng.integers(0, 256, (4, 64, 96))]
    clips = {"grey": grey, "256 colours": few, "one pixel": grey[:1, :1, :1], "one colour": np.full((3, 40, 300, 3), 77, np.uint8),
             "a row": few[:1, :1], "long": np.zeros((1, 700, 700, 3), np.uint8) + few[0, 0, 0],
             "full tables": few[rng.integers(0, 4, 2), :48][:, rng.integers(0, 48, 260)][:, :, rng.integers(0, 96, 300)],
             "two": (rng.random((40, 16, 16, 1)) < 0.5).astype(np.uint8).repeat(3, -1) * 255}
    for name, clip in clips.items():
        path = write(clip, "gif")
        got, times, loop = by_pillow(path)
        check(got.shape == clip.shape and (got == clip).all(), f"{name}: Pillow reads other pixels")
        if len(clip) > 1:
            check(loop == 0 and abs(sum(times) - len(clip) * 125) <= 5, f"{name}: {times}, loop {loop}")
        if shutil.which("ffmpeg"):
            check((by_ffmpeg(path, clip.shape[1:]) == clip).all(), f"{name}: ffmpeg reads other pixels")


def palette():
    clip = smooth(6, 48, 64)
    got, _, _ = by_pillow(write(clip, "gif", 12.5))
    ours = np.abs(got.astype(int) - clip).mean()
    flat = Image.fromarray(clip.reshape(-1, 64, 3)).quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    theirs = np.abs(np.asarray(flat.convert("RGB")).reshape(clip.shape).astype(int) - clip).mean()
    check(ours <= theirs + 0.5, f"{ours:.2f} levels off on average, Pillow's palette {theirs:.2f}")
    noise = rng.integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
    got, _, _ = by_pillow(write(noise, "gif"))
    check(np.abs(got.astype(int) - noise).mean() < 16, "noise in 256 colours")
    check(open(write(noise, "gif"), "rb").read() == open(at("clip.gif"), "rb").read(), "always the same file")


def halved(clip):
    """The clip with colours at half the size, as these formats hold them, by ffmpeg. Sides are made even."""
    even = np.pad(clip, ((0, 0), (0, clip.shape[1] % 2), (0, clip.shape[2] % 2), (0, 0)), "edge")
    size = f"{even.shape[2]}x{even.shape[1]}"
    way = ("-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
    yuv = subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-i", "-", *way],
                         input=even.tobytes(), check=True, capture_output=True).stdout
    raw = subprocess.run(["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", size, "-i", "-", "-f", "rawvideo", "-pix_fmt",
                          "rgb24", "-"], input=yuv, check=True, capture_output=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(even.shape)[:, :clip.shape[1], :clip.shape[2]].astype(int)


def video():
    for form in ("mp4", "webm"):
        for frames, height, width, rate in ((8, 48, 64, 8), (5, 33, 47, 12.5), (3, 16, 16, 8), (1, 64, 32, 30)):
            clip = smooth(frames, height, width)
            path = write(clip, form, rate)
            check(path.endswith("." + form), f"{path}: libav here has no encoder for {form}")
            even = (height + height % 2, width + width % 2)
            got = by_ffmpeg(path, (*even, 3))
            check(len(got) == frames, f"{path}: {len(got)} frames, not {frames}")
            off = np.abs(got[:, :height, :width].astype(int) - halved(clip)).mean()
            print(f"{form} {height}x{width}: {off:.2f}")
            check(off < 3, f"{path}, {height} x {width}: {off:.2f} levels off on average")
            probe = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "stream=avg_frame_rate,codec_name",
                                    "-of", "csv=p=0", path], capture_output=True, text=True, check=True).stdout.strip().split(",")
            above, below = map(int, probe[1].split("/"))
            check(frames == 1 or abs(above / below - rate) < 0.01 * rate, f"{path}: {probe[1]} frames a second")
            check(probe[0] == "h264" if form == "mp4" else probe[0] in ("vp9", "vp8"), probe[0])
    first = open(write(clip, "mp4"), "rb").read()
    check(first == open(write(clip, "mp4"), "rb").read(), "always the same file")


# An av_codec_iterate() before libav's own that leaves out H.264: what it is where libav was built without.
LESS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libavcodec/avcodec.h>
const AVCodec *av_codec_iterate(void **at)
{
    const AVCodec *(*all)(void **), *codec;
    *(void **)&all = dlsym(RTLD_NEXT, "av_codec_iterate");
    while ((codec = all(at)) && (codec->id == AV_CODEC_ID_H264%s)) {
    }
    return codec;
}
"""


def without(name, more=""):
    open(at(name + ".c"), "w").write(LESS % more)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", at(name + ".so"), at(name + ".c"), "-lavcodec"], check=True)
    return dict(os.environ, LD_PRELOAD=at(name + ".so"))


def fallback():
    clip = smooth(4, 32, 32)
    path = write(clip, "mp4", env=without("no_h264"))
    check(path.endswith(".webm") and len(by_ffmpeg(path, (32, 32, 3))) == 4, path)
    np.save(at("clip.npy"), clip)
    done = subprocess.run([program, at("clip.npy"), at("none"), "mp4", "8"], capture_output=True, text=True,
                          env=without("none", " || codec->id == AV_CODEC_ID_VP8 || codec->id == AV_CODEC_ID_VP9"))
    check(done.returncode == 1 and "no encoder for H.264, VP9 or VP8" in done.stderr and "gif" in done.stderr, done.stderr)
    check(not os.path.exists(at("none.mp4")) and not os.path.exists(at("none.webm")), "nothing is written then")


exact()
palette()
if shutil.which("ffmpeg") and os.path.exists(os.path.join(os.path.dirname(program), "libplimsoll_video.so")):
    video()
    if shutil.which("cc"):
        fallback()
else:
    skipped.append("video (ffmpeg or its plugin is not here: make media)")
print(f"{passed} passed" + (f", {len(skipped)} skipped: {'; '.join(skipped)}" if skipped else ""))
