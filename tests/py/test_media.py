"""Video, audio and range arrays: what the model gets, against ffmpeg's frames resized by PIL, ffmpeg's and analytic audio, and
numpy; damaged and foreign files; and the cache of decoded files.

    test_media.py PROGRAM WORK_FOLDER [PART ...]

PROGRAM is tests/reference/data.c; the plugins lie beside it. Files are made with ffmpeg. Tolerances: a level of 255 in frames,
2e-4 in audio that is only decoded (2e-3 for MP3 and Ogg, whose decoders may differ), 2e-3 where it is resampled."""
import glob
import os
import shutil
import subprocess
import sys

try:
    import numpy as np
    from PIL import Image
except ImportError as error:
    print(f"skipped: {error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

from data_run import Data, Refused

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
beside = os.path.dirname(program)
shutil.rmtree(work, ignore_errors=True)
data = Data(program, work)
HEIGHT, WIDTH, FRAMES = 16, 24, 3
rng = np.random.default_rng(0)
passed, skipped = 0, []


def at(name):
    path = os.path.join(work, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def check(good, what):
    global passed
    assert good, what
    passed += 1


def ffmpeg(*arguments):
    return subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments], check=True, capture_output=True).stdout


def pattern(path, *options, size="64x48", rate=25, seconds=1):
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}:duration={seconds}", *options, path)
    return path


# ---- video ----

ALL = {"observed": ("F32", (1, HEIGHT, WIDTH, 3))}       # every frame is a clip of its own
CLIP = {"clip": ("F32", (FRAMES, HEIGHT, WIDTH, 3)), "text": ("F32", (8,))}


def frames_of(path, *options):
    """ffmpeg's frames as they are shown, RGBA composed over black."""
    probe = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "stream=width,height:frame=pts_time",
                            "-show_frames", "-of", "flat", path], capture_output=True, text=True, check=True).stdout
    value = dict(line.split("=", 1) for line in probe.splitlines() if "=" in line)
    times = [float(v.strip('"')) for k, v in value.items() if k.startswith("frames.frame") and k.endswith(".pts_time")]
    still = ffmpeg("-i", path, *options, "-frames:v", "1", "-f", "image2pipe", "-c:v", "png", "-")
    open(at("still.png"), "wb").write(still)
    width, height = Image.open(at("still.png")).size
    raw = ffmpeg("-i", path, "-vsync", "0", "-sws_flags", "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp", *options,
                 "-f", "rawvideo", "-pix_fmt", "rgba", "-")
    rgba = np.frombuffer(raw, np.uint8).reshape(-1, height, width, 4).astype(np.int64)
    return (rgba[..., :3] * rgba[..., 3:] + 127) // 255, np.array(times) - min(times)


def fitted(frames, cover, channels=3):
    out = []
    for frame in frames:
        height, width = frame.shape[:2]
        if cover:
            shape = WIDTH / HEIGHT
            h, w = (height, round(height * shape)) if width > height * shape else (round(width / shape), width)
            frame = frame[(height - h) // 2:, (width - w) // 2:][:h, :w]
        if channels == 1:
            frame = (frame @ np.array([0.299, 0.587, 0.114]))[..., None]
        planes = [np.asarray(Image.fromarray(frame[..., c].astype(np.float32)).resize((WIDTH, HEIGHT), Image.BICUBIC))
                  for c in range(channels)]
        out.append(np.clip(np.stack(planes, -1), 0, 255))
    return np.array(out)


def shows(path, frames, said=None, levels=1.001, **keys):
    """All frames of the file, in order, stretched to the model's size."""
    arrays, detail, _ = data.run(path, ALL, kind="clips", **keys)
    got, want = (arrays["observed"][:, 0] + 1) * 127.5, fitted(frames, False)
    check(got.shape == want.shape, f"{path}: {len(got)} frames, not {len(want)}")
    check(np.abs(got - want).max() <= levels, f"{path}: {np.abs(got - want).max():.2f} levels apart")
    if said:
        check(said in detail, f"{path}: said {detail}")


def formats():
    made = [pattern(at("v/h264.mp4"), "-pix_fmt", "yuv420p"), pattern(at("v/fast.mp4"), "-pix_fmt", "yuv420p", "-movflags", "faststart"),
            pattern(at("v/b.mov"), "-pix_fmt", "yuv444p", "-bf", "3", "-c:v", "libx264") if has("libx264") else None,
            pattern(at("v/odd.mkv"), "-c:v", "ffv1", size="33x17"), pattern(at("v/odd.avi"), "-c:v", "mjpeg", size="31x19", rate=30),
            pattern(at("v/vp9.webm"), "-c:v", "libvpx-vp9") if has("libvpx-vp9") else None, pattern(at("v/p.gif"), rate=10),
            pattern(at("v/m4.avi"), "-c:v", "mpeg4", rate=12), pattern(at("v/range.mp4"), "-pix_fmt", "yuvj420p", "-c:v", "mjpeg"),
            pattern(at("v/space.mkv"), "-c:v", "ffv1", "-pix_fmt", "yuv420p", "-colorspace", "bt709"),
            pattern(at("v/deep.mkv"), "-c:v", "ffv1", "-pix_fmt", "yuv422p10le"), pattern(at("v/one.mp4"), "-frames:v", "1", "-pix_fmt", "yuv420p")]
    for path in filter(None, made):
        shows(path, frames_of(path)[0])
    grey, _, _ = data.run(at("v/odd.mkv"), {"observed": ("F32", (1, HEIGHT, WIDTH, 1))}, kind="clips")
    want = fitted(frames_of(at("v/odd.mkv"))[0], False, 1)
    check(np.abs((grey["observed"][:, 0] + 1) * 127.5 - want).max() <= 1.001, "one channel")


def has(encoder):
    return encoder in subprocess.run(["ffmpeg", "-v", "error", "-encoders"], capture_output=True, text=True).stdout


def upright():
    """The matrix of the track says how frames are shown."""
    plain = open(pattern(at("t/plain.mp4"), "-pix_fmt", "yuv420p", seconds=0.2), "rb").read()
    frames = frames_of(at("t/plain.mp4"))[0]
    one, zero, minus = b"\0\1\0\0", b"\0\0\0\0", b"\xff\xff\0\0"
    ways = {"quarter": ((zero, one, minus, zero), lambda f: np.rot90(f, -1, (1, 2))), "half": ((minus, zero, zero, minus), lambda f: f[:, ::-1, ::-1]),
            "back": ((zero, minus, one, zero), lambda f: np.rot90(f, 1, (1, 2))), "mirror": ((minus, zero, zero, one), lambda f: f[:, :, ::-1]),
            "flip": ((one, zero, zero, minus), lambda f: f[:, ::-1]), "diagonal": ((zero, one, one, zero), lambda f: f.transpose(0, 2, 1, 3))}
    place = plain.index(b"tkhd") + 44
    for name, ((a, b, c, d), turn) in ways.items():
        matrix = a + b + zero + c + d + zero + plain[place + 24:place + 36]
        open(at(f"t/{name}.mp4"), "wb").write(plain[:place] + matrix + plain[place + 36:])
        shows(at(f"t/{name}.mp4"), turn(frames))
        if name in ("quarter", "half", "back"):
            apart = np.abs(frames_of(at(f"t/{name}.mp4"))[0] - turn(frames)).mean()     # it turns before it makes RGB of halved chroma
            check(apart <= 4, f"{name}: ffmpeg shows it otherwise, {apart:.1f} levels on average")
    matrix = b"\0\0\xb5\5" * 2 + zero + b"\xff\xff\x4a\xfb" + b"\0\0\xb5\5" + zero
    open(at("t/tilted.mp4"), "wb").write(plain[:place] + matrix + plain[place + 24:])
    data.refused(at("t/tilted.mp4"), ALL, "only quarter turns", kind="clips")


def shown_at(times, rate, start=0.0, seconds=None):
    """Numbers of the frames that are shown in the middle of each output frame."""
    end = times[-1] + times[-1] / (len(times) - 1)
    end = min(end, start + seconds) if seconds else end
    middles = start + (np.arange(int((end - start) * rate + 1e-3)) + 0.5) / rate
    return np.searchsorted(times, middles + 6e-4, side="right") - 1


def times_of_frames():
    path = pattern(at("r/steady.mp4"), "-pix_fmt", "yuv420p", rate=24, seconds=2)
    frames, times = frames_of(path)
    shows(path, frames[shown_at(times, 10)], "at 10 a second", frame_rate=10)
    shows(path, frames[shown_at(times, 60)], frame_rate=60)
    shows(path, frames[12:36], **{"from": 0.5, "seconds": 1})
    shows(path, frames[shown_at(times, 8, 0.75, 0.5)], frame_rate=8, **{"from": 0.75, "seconds": 0.5})
    data.refused(path, ALL, "lasts 2.00 s, and data.from is 3.00 s", kind="clips", **{"from": 3})
    path = at("r/uneven.mkv")
    ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x48:rate=30:duration=2", "-vf", "select='lt(n,20)+not(mod(n,5))'", "-vsync", "vfr",
           "-c:v", "ffv1", path)
    frames, times = frames_of(path)
    steps = np.diff(times)
    check(steps.max() > 3 * steps.min(), "frames should be uneven")
    rate = len(times) / (times[-1] + times[-1] / (len(times) - 1))
    shows(path, frames[shown_at(times, rate)], "without a steady frame rate")
    shows(path, frames[shown_at(times, 30)], frame_rate=30)


def alpha():
    shots = []
    for k in range(4):
        a = np.zeros((48, 64, 4), np.uint8)
        a[8:40, 8 + 8 * k:30 + 8 * k] = (255, 40 * k, 90, 255)
        shots.append(Image.fromarray(a))
    shots[0].save(at("a/alpha.gif"), save_all=True, append_images=shots[1:], duration=100, disposal=2)
    frames = np.array([np.asarray(p)[..., :3].astype(np.int64) for p in shots])
    shows(at("a/alpha.gif"), frames)


def captions():
    """Beside videos, and the part that a clip is."""
    os.makedirs(at("c/folder"))
    texts = ["a wave", "bars, and a clock"]
    for k, text in enumerate(texts):
        pattern(at(f"c/clip{k}.mp4"), "-pix_fmt", "yuv420p", size=("96x40", "40x64")[k])
        open(at(f"c/clip{k}.txt"), "w").write(text + "\n")
    for i in range(5):
        Image.fromarray(np.full((HEIGHT, WIDTH, 3), 40 * i, np.uint8)).save(at(f"c/folder/{i}.png"))
    open(at("c/folder.txt"), "w").write("shades")
    arrays, said, about = data.run(at("c"), CLIP, kind="captioned-clips")
    check(about == texts + ["shades"] and "2 videos of 50 frames, 3 frames each (the first of 3 longer)" in said, f"{about} {said}")
    for k in range(2):
        want = fitted(frames_of(at(f"c/clip{k}.mp4"))[0][:FRAMES], True)
        check(np.abs((arrays["clip"][k] + 1) * 127.5 - want).max() <= 1.001, "the middle of a frame")
    arrays, said, _ = data.run(at("c"), CLIP, kind="captioned-clips", excerpt="any", draws=40)
    clips = (arrays["clip"].reshape(40, 3, FRAMES, HEIGHT, WIDTH, 3) + 1) * 127.5
    for k in range(2):
        frames = fitted(frames_of(at(f"c/clip{k}.mp4"))[0], True)
        starts = []
        for clip in clips[:, k]:
            apart = [np.abs(frames[i:i + FRAMES] - clip).max() for i in range(len(frames) - FRAMES + 1)]
            check(min(apart) <= 1.001, "any part of a clip is frames that follow each other")
            starts.append(int(np.argmin(apart)))
        check(len(set(starts)) > 10 and min(starts) < 5 and max(starts) > 17, f"parts begin at {sorted(set(starts))}")
    shades = {int(clip[0, 0, 0, 0] + 0.5) for clip in clips[:, 2]}
    check(shades == {0, 40, 80}, f"parts of frames in a folder: {shades}")
    arrays, _, _ = data.run(at("c"), CLIP, kind="captioned-clips", pattern="clip1*")
    check(len(arrays["clip"]) == 1, "a pattern chooses clips")
    for k in range(2):
        np.save(at(f"c/clip{k}.text.npy"), np.full(8, k, np.float32))
    data.refused(at("c"), CLIP, "folder.text.npy is missing", kind="captioned-clips")
    arrays, _, _ = data.run(at("c"), CLIP, kind="captioned-clips", pattern="*.mp4")
    check((arrays["text"] == [[0] * 8, [1] * 8]).all(), "embeddings beside videos")
    os.remove(at("c/clip1.txt"))
    data.refused(at("c"), CLIP, "clip1.txt is missing", kind="captioned-clips")


def either(path, feeds, **keys):
    """Read, or refused with one sentence: data.run checks that."""
    try:
        data.run(path, feeds, **keys)
    except Refused:
        pass
    check(True, path)


def damaged_video():
    whole = {name: open(at(f"v/{name}"), "rb").read() for name in ("h264.mp4", "fast.mp4", "odd.mkv", "odd.avi", "p.gif", "vp9.webm", "m4.avi")
             if os.path.exists(at(f"v/{name}"))}
    for name, bytes_ in whole.items():
        path = at(f"d/{name}")
        for share in (0, 0.02, 0.3, 0.5, 0.8, 0.95):
            open(path, "wb").write(bytes_[:int(share * len(bytes_))])
            data.refused(path, ALL, name, kind="clips")
            check(True, name)
        for _ in range(12):
            changed = bytearray(bytes_)
            for place in rng.integers(0, len(changed), rng.integers(1, 20)):
                changed[place] = rng.integers(0, 256)
            open(path, "wb").write(changed)
            either(path, ALL, kind="clips")
    secret = pattern(at("d/secret.mp4"), "-pix_fmt", "yuv420p")
    foreign = {"text.mp4": b"no video", "list.mp4": f"ffconcat version 1.0\nfile '{secret}'\n".encode(), "play.mp4":
               f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{secret}\n#EXT-X-ENDLIST\n".encode(), "image.gif": b"GIF89a",
               "wave.mkv": b"RIFF\0\0\0\0WAVEfmt "}
    for name, bytes_ in foreign.items():
        open(at(f"d/{name}"), "wb").write(bytes_)
        data.refused(at(f"d/{name}"), ALL, "is not a video that is read", kind="clips")
        check(True, name)
    ffmpeg("-f", "lavfi", "-i", "sine", "-t", "1", at("d/audio.mp4"))
    data.refused(at("d/audio.mp4"), ALL, "holds no video", kind="clips")
    data.refused(at("v/h264.mp4"), ALL, "--loader-memory", kind="clips", memory=100000, cache=at("d/cache"))


# ---- audio ----

TOKENS = {"tokens": ("I32", (400,)), "target": ("I32", (400,))}


def audio_of(path, rate, channels=1, levels=65536):
    """The single entry of a fresh cache: frames by channels, in [-1,1]."""
    shutil.rmtree(at("audio_cache"), ignore_errors=True)
    _, said, _ = data.run(path, TOKENS, kind="audio", cache=at("audio_cache"), rate=rate, channels=channels, levels=levels)
    entry, = glob.glob(at("audio_cache") + "/*.npy")
    x = np.load(entry)
    return x.astype(np.float64) / (32768 if x.dtype == np.int16 else 1), said, x.dtype


def wave(rate, seconds=1.0, shift=0.0):
    t = np.arange(int(rate * seconds)) / rate
    return 0.3 * np.sin(2 * np.pi * 440 * t + shift) + 0.2 * np.sin(2 * np.pi * 1730 * t) + 0.1 * np.sin(2 * np.pi * 2900 * t)


def coded(name, x, rate, *options):
    raw = at("s/raw.f32")
    np.asarray(x, "<f4").tofile(raw)
    channels = 1 if x.ndim == 1 else x.shape[1]
    ffmpeg("-f", "f32le", "-ar", str(rate), "-ac", str(channels), "-i", raw, *options, at(f"s/{name}"))
    return at(f"s/{name}")


def decoded(path, channels=1):
    return np.frombuffer(ffmpeg("-i", path, "-f", "f32le", "-"), "<f4").reshape(-1, channels)


def audio():
    mono, stereo = wave(16000), np.stack([wave(16000), wave(16000, shift=1.3)], 1)
    for bits, codec in ((16, "s16"), (24, "s32")):
        path = coded(f"{bits}.flac", mono, 16000, "-sample_fmt", codec)
        got, said, kind = audio_of(path, 16000)
        check("1 file, 1.0 s of audio, 1 decoded" in said and "converted" not in said, said)
        check(kind == (np.int16 if bits == 16 else np.float32), f"{path}: {kind}")
        check(np.abs(got - decoded(path)).max() == 0, f"{path} is not exact")
    wav = coded("16.wav", mono, 16000, "-c:a", "pcm_s16le")
    a, b = (data.run(path, TOKENS, kind="audio", rate=16000, channels=1, levels=65536)[0] for path in (wav, at("s/16.flac")))
    check((a["target"] == b["target"]).all(), "FLAC and WAV of the same audio give the same levels")
    for name, options in (("a.ogg", ("-c:a", "libvorbis", "-q:a", "6")), ("a.mp3", ("-b:a", "192k")), ("a.opus", ("-b:a", "96k"))):
        if name == "a.mp3" and not has("libmp3lame") or name == "a.ogg" and not has("libvorbis") or name == "a.opus" and not has("libopus"):
            skipped.append(f"no encoder for {name}")
            continue
        path = coded(name, mono, 48000 if name == "a.opus" else 16000, *options)
        rate = 48000 if name == "a.opus" else 16000
        got, _, _ = audio_of(path, rate)
        want = decoded(path)
        n = min(len(got), len(want))
        check(len(got) in (len(want), 16000 * rate // 16000) and np.abs(got[:n] - want[:n]).max() <= 2e-3,
              f"{path}: {len(got)} and {len(want)} frames, {np.abs(got[:n] - want[:n]).max()} apart")
    for rate, name in ((44100, "pcm_s24le"), (8000, "pcm_f32le"), (48000, "pcm_s16le"), (22050, "pcm_u8")):
        path = coded(f"{name}.wav", wave(rate) if rate > 8000 else wave(rate), rate, "-c:a", name)
        got, said, _ = audio_of(path, 16000)
        want, edge = wave(16000), 400
        loss = 1 / 128 if name == "pcm_u8" else 2e-3
        check(len(got) == 16000 and f"converted from {rate} to 16000" in said, f"{path}: {len(got)} frames; {said}")
        check(np.abs(got[edge:-edge, 0] - want[edge:-edge]).max() <= loss, f"{path}: {np.abs(got[edge:-edge, 0] - want[edge:-edge]).max()}")
    path = coded("stereo.flac", stereo, 16000, "-sample_fmt", "s16")
    both, _, _ = audio_of(path, 16000, 2)
    check(np.abs(both - decoded(path, 2)).max() == 0, "two channels stay two")
    mean, _, _ = audio_of(path, 16000, 1)
    check(np.abs(mean[:, 0] - both.mean(1)).max() < 1e-6, "one channel is the mean of two")
    arrays, _, _ = data.run(at("s/16.flac"), TOKENS, kind="audio", rate=16000, channels=2, levels=256)
    check((arrays["target"][:, ::2] == arrays["target"][:, 1::2]).all(), "one channel is copied to two")
    path = coded("six.flac", np.stack([wave(16000)] * 6, 1), 16000, "-sample_fmt", "s16")
    data.refused(path, TOKENS, "has 6 channels, the model 2", kind="audio", rate=16000, channels=2, levels=256)


def damaged_audio():
    names = [n for n in ("16.flac", "a.ogg", "a.mp3", "a.opus") if os.path.exists(at(f"s/{n}"))]
    keys = {"kind": "audio", "rate": 16000, "channels": 1, "levels": 256}
    for name in names:
        bytes_, path = open(at(f"s/{name}"), "rb").read(), at(f"d/{name}")
        for share in (0, 0.001, 0.5, 0.9):
            open(path, "wb").write(bytes_[:int(share * len(bytes_))])
            if name == "16.flac" or share < 0.01:      # others are streams, whole wherever they end
                data.refused(path, TOKENS, name, **keys)
            else:
                either(path, TOKENS, **keys)
            check(True, name)
        for _ in range(12):
            changed = bytearray(bytes_)
            for place in rng.integers(0, len(changed), rng.integers(1, 20)):
                changed[place] = rng.integers(0, 256)
            open(path, "wb").write(changed)
            either(path, TOKENS, **keys)
    odd = wave(8000).astype("<f4")
    odd[77] = np.nan
    coded("nan.wav", odd, 8000, "-c:a", "pcm_f32le")
    data.refused(at("s/nan.wav"), TOKENS, "frame 77 is not a finite number", **keys)


# ---- the cache ----

def entries(folder):
    return {os.path.basename(p): os.stat(p).st_mtime_ns for p in glob.glob(folder + "/*")}


def cache(path, feeds, keys, change):
    folder = at("kept")
    shutil.rmtree(folder, ignore_errors=True)
    keys = dict(keys, cache=folder)
    first, _, _ = data.run(path, feeds, **keys)
    made = entries(folder)
    check(len(made) == 1, f"{made}")
    again, _, _ = data.run(path, feeds, **keys)
    check(entries(folder) == made, "what is in the cache is not decoded again")
    moved = at("moved/" + os.path.basename(path))
    shutil.copy(path, moved)
    data.run(moved, feeds, **keys)
    check(entries(folder) == made, "nor if the file has moved")
    entry = os.path.join(folder, *made)
    whole = open(entry, "rb").read()
    for bad in (whole[:-1], whole[:60], b""):
        open(entry, "wb").write(bad)
        again, _, _ = data.run(path, feeds, **keys)
        check(open(entry, "rb").read() == whole, "a damaged entry is decoded again")
    open(os.path.join(folder, ".plimsoll-999999999-1.tmp"), "wb").write(whole[:100])
    data.run(path, feeds, **keys)
    change(path)
    other, _, _ = data.run(path, feeds, **keys)
    check(len(entries(folder)) == 2, "a file that has changed is decoded anew")
    check(any((first[f] != again[f]).any() for f in first) is False, "the cache gives the same")
    check(any(first[f].shape != other[f].shape or (first[f] != other[f]).any() for f in first), "and the changed file something else")


def without_plugins():
    """The program alone: a sentence says what is missing, and what was decoded before can still be read."""
    alone = at("alone/compare_data")
    shutil.copy(program, alone)
    os.environ["LD_LIBRARY_PATH"] = ":".join(glob.glob(beside + "/glibc-hwcaps/*") or [beside + "/kernels"])
    there, data.program = data.program, alone
    try:
        says = "make media"
        data.refused(at("v/odd.mkv"), ALL, says, kind="clips", cache=at("none"))
        data.run(at("v/odd.mkv"), ALL, kind="clips")
        data.refused(at("s/16.flac"), TOKENS, says, kind="audio", rate=16000, channels=1, levels=256, cache=at("none"))
        data.refused(at("s/pcm_s24le.wav"), TOKENS, "44100 samples a second, the model 16000", kind="audio", rate=16000, channels=1, levels=256,
                     cache=at("none"))
        check(not os.path.exists(at("none")), "nothing is left of a refused run")
    finally:
        data.program = there
        del os.environ["LD_LIBRARY_PATH"]


# ---- range arrays ----

RANGES = {"observed": ("F32", (2, 64, 128, 1)), "future": ("F32", (1, 64, 128, 1)), "mask": ("U8", (1, 64, 128))}


def levels_of(metres, low, high, height=64, width=128):
    rows = np.floor((np.arange(height) + 0.5) * metres.shape[0] / height).astype(int)
    columns = np.floor(np.arange(width) * metres.shape[1] / width + 0.5).astype(int) % metres.shape[1]
    r = metres[rows][:, columns].astype(np.float64)
    good = (r > 0) & np.isfinite(r)
    level = np.where(good, np.floor(255 * np.clip((np.where(good, r, low) - low) / (high - low), 0, 1)), 0)
    return level / 255 * 2 - 1, good


def ranges():
    scans = rng.uniform(1, 80, (7, 64, 265, 4)).astype(np.float32)
    scans[rng.random(scans.shape) < 0.1] = -1
    scans[0, 0, 0, 2], scans[1, 1, 1, 2] = np.nan, np.inf
    for name, save in (("folder", None), ("npz", np.savez), ("packed", np.savez_compressed)):
        for k, scan in enumerate(scans):
            if save:
                save(at(f"g/{name}/{k}.npz"), points=scan, other=np.zeros(3))
            else:
                np.save(at(f"g/{name}/{k}.npy"), scan)
    np.save(at("g/all/scans.npy"), scans)
    np.savez_compressed(at("g/allz/scans.npz"), scans=scans)
    np.save(at("g/flat/scans.npy"), np.ascontiguousarray(scans[..., 2]).astype(np.float64))
    keys = {"kind": "clips", "low": 2, "high": 70, "range_channel": 2}
    for name in ("folder", "npz", "packed", "all", "allz", "flat"):
        more = {"array": "points"} if name in ("npz", "packed") else {}
        more.update({"range_channel": -1} if name == "flat" else {})
        arrays, said, _ = data.run(at(f"g/{name}"), RANGES, **dict(keys, **more))
        check("range images of 64 x 265" in said and "nearest rows and columns of 64 x 128" in said, said)
        check(("channel 2 of 4" in said) == (name != "flat"), said)
        for clip in range(2):
            for k, frame in enumerate((arrays["observed"][clip, 0], arrays["observed"][clip, 1], arrays["future"][clip, 0])):
                want, good = levels_of(scans[clip * 3 + k, ..., 2], 2, 70)
                check(np.abs(frame[..., 0] - want).max() < 1e-6, f"{name}: clip {clip}, frame {k}")
            check((arrays["mask"][clip, 0] == good).all(), "the mask says which beams returned")
    data.refused(at("g/folder"), RANGES, "4 channels; say which one holds the metres", **dict(keys, range_channel=-1))
    data.refused(at("g/folder"), RANGES, "data.range_channel is 4", **dict(keys, range_channel=4))
    data.refused(at("g/npz"), RANGES, "holds 2 arrays", **keys)
    data.refused(at("g/npz"), RANGES, "has no array x", array="x", **keys)
    data.refused(at("g/packed"), RANGES, "--loader-memory", array="points", memory=200000, **dict(keys, cache=at("g/cache")))
    np.save(at("g/bad/0.npy"), np.ones((2, 3, 4, 5, 6), np.float32))
    data.refused(at("g/bad"), RANGES, "a range image is (height, width)", **keys)


_refused = data.refused


def refused_below(path, *rest, **keys):
    """Data in a folder is refused by the name of a file in it."""
    if os.path.isdir(path):
        path = path + "/"
    _refused(path, *rest, **keys)


data.refused = refused_below
def part_run(part, *arguments):
    if len(sys.argv) <= 3 or part.__name__ in sys.argv[3:]:
        part(*arguments)


part_run(ranges)
tool = shutil.which("ffmpeg") and shutil.which("ffprobe")
video = tool and os.path.exists(beside + "/libplimsoll_video.so")
if video:
    for part in (formats, upright, times_of_frames, alpha, captions, damaged_video):
        part_run(part)
    part_run(cache, pattern(at("k/a.mp4"), "-pix_fmt", "yuv420p"), ALL, {"kind": "clips"},
          lambda path: pattern(path, "-pix_fmt", "yuv420p", seconds=2))
else:
    skipped.append("video (ffmpeg or its plugin is not here: make media)")
if tool and os.path.exists(beside + "/libplimsoll_audio.so"):
    part_run(audio)
    part_run(damaged_audio)
    part_run(cache, coded("kept.flac", wave(16000), 16000), TOKENS, {"kind": "audio", "rate": 16000, "channels": 1, "levels": 256},
          lambda path: coded("kept.flac", wave(16000, 2), 16000))
    if video:
        part_run(without_plugins)
else:
    skipped.append("audio (ffmpeg or the plugin is not here: make media)")
print(f"{passed} passed" + (f", {len(skipped)} skipped: {'; '.join(skipped)}" if skipped else ""))
