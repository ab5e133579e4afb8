"""TensorBoard's own reader on the events of a run that is killed twice and resumed: every step once, with the numbers of the log;
the images and audio that were sampled, byte for byte.

    tensorboard_reads.py PLIMSOLL FOLDER

Skipped, with a message, where TensorBoard cannot be installed (scripts/setup_tensorboard.sh).
"""
import glob
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

program, folder = sys.argv[1:3]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if len(sys.argv) == 3:
    found = subprocess.run([os.path.join(root, "scripts/setup_tensorboard.sh")], capture_output=True, text=True)
    if found.returncode:
        print("skipped: TensorBoard is not installed:", found.stderr.strip().split("\n")[-1])
        sys.exit(77)
    sys.exit(subprocess.run([os.path.join(root, found.stdout.strip()), __file__, program, folder, "here"]).returncode)

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # noqa: E402

failed = 0


def check(what, ok, *seen):
    global failed
    if not ok:
        failed += 1
        print("failed:", what, *seen)


def command(recipe, out, resume, *more):
    return [program, "train", *(["--resume", out] if resume else [recipe, "--out", out]), "--backend", "builtin", "--threads", "1",
            "--quiet", *more]


def killed(recipe, out, resume, lines, *more):
    """Runs until the log has so many lines, then kills it."""
    p = subprocess.Popen(command(recipe, out, resume, *more), stdout=subprocess.DEVNULL)
    log = os.path.join(out, "log.jsonl")
    for _ in range(1200):
        if p.poll() is not None or (os.path.exists(log) and open(log).read().count("\n") >= lines):
            break
        time.sleep(0.05)
    check("it was killed while it ran", p.poll() is None)
    p.send_signal(signal.SIGKILL)
    p.wait()


def read(out):
    events = EventAccumulator(os.path.join(out, "tensorboard"), size_guidance={"scalars": 0, "images": 0, "audio": 0})
    events.Reload()
    return events


def scalars(out):
    """Each scalar has every step of the log once, with the log's number as fp32."""
    log = [json.loads(line) for line in open(os.path.join(out, "log.jsonl"))]
    events = read(out)
    for tag, key in (("loss", "loss"), ("learning_rate", "lr"), ("step_ms", "ms"), ("gradient_norm", "grad_norm"),
                     ("validation/loss", "val_loss")):
        want = [(e["step"], e[key]) for e in log if e.get(key) is not None]
        got = [(e.step, e.value) for e in events.Scalars(tag)] if tag in events.Tags()["scalars"] else []
        check(f"{tag}: every step once, in order", [s for s, _ in got] == [s for s, _ in want], [s for s, _ in got])
        for (step, a), (_, b) in zip(got, want):
            check(f"{tag} at {step}", math.isclose(a, struct.unpack("f", struct.pack("f", b))[0], rel_tol=1e-6, abs_tol=0.0006 if key == "ms" else 0), a, b)
    times = [e.wall_time for e in events.Scalars("loss")]
    check("wall times rise and are those of the log", times == sorted(times) and
          all(abs(a - e["time"]) < 0.5 for a, e in zip(times, log)))
    # Without the reader's own help against repeated steps: what the files themselves hold.
    raw = [e.step for path in sorted(glob.glob(os.path.join(out, "tensorboard", "*"))) for e in EventFileLoader(path).Load()
           if e.HasField("summary") and e.summary.value[0].tag == "loss"]
    check("the files themselves hold each step once", raw == [e["step"] for e in log], raw)
    return events


def images():
    out = os.path.join(folder, "unet")
    sets = ["--set", "batch=2", "--set", "accumulate=1", "--set", "model.widths=[8, 16]", "--set", "model.groups=4", "--set",
            "sample.every=10", "--set", "sample.n=2", "--set", "sampler.steps=2", "--set", "validate.every=5", "--set",
            "data.holdout=0.1", "--set", "save.every=7", "--set", "save.minutes=0"]
    killed("unet-small", out, False, 12, "--steps", "100000", *sets)
    check("samples of a step are there before the kill", os.path.exists(os.path.join(out, "samples/000010/samples.png")))
    killed("unet-small", out, True, 26, "--steps", "100000", *sets)
    with open(sorted(glob.glob(os.path.join(out, "tensorboard", "*")))[-1], "ab") as f:
        f.write(b"\x10\0\0\0half a record")            # a kill within a write
    last = json.loads(open(os.path.join(out, "log.jsonl")).read().strip().split("\n")[-1])["step"]
    subprocess.run(command("unet-small", out, True, "--steps", str(last + 8), *sets), check=True, stdout=subprocess.DEVNULL)
    events = scalars(out)
    check("images have a tag", events.Tags()["images"] == ["samples/samples"], events.Tags()["images"])
    got = events.Images("samples/samples")
    check("one image every ten steps", [e.step for e in got] == list(range(10, last + 9, 10)), [e.step for e in got])
    for e in got:
        file = open(os.path.join(out, f"samples/{e.step:06}/samples.png"), "rb").read()
        check(f"the image of step {e.step} is the file", e.encoded_image_string == file)
        check("its size is the file's", (e.width, e.height) == struct.unpack(">II", file[16:24]), e.width, e.height)


def audio():
    out = os.path.join(folder, "sashimi")
    subprocess.run(command("sashimi-small", out, False, "--steps", "2", "--set", "batch=1", "--set", "model.length=64", "--set",
                           "sampler.length=32", "--set", "sample.every=2", "--set", "sample.n=2", "--set", "validate.every=0"),
                   check=True, stdout=subprocess.DEVNULL)
    events = scalars(out)
    check("audio have a tag each", events.Tags()["audio"] == ["samples/audio-000", "samples/audio-001"], events.Tags()["audio"])
    for name in ("000", "001"):
        e, = events.Audio(f"samples/audio-{name}")
        file = open(os.path.join(out, f"samples/000002/audio-{name}.wav"), "rb").read()
        check("audio is the file", e.step == 2 and e.encoded_audio_string == file and e.content_type == "audio/wav")
        rate, = struct.unpack("<I", file[24:28])
        channels, = struct.unpack("<H", file[22:24])
        check("its rate and length are the file's", e.sample_rate == rate and e.length_frames == (len(file) - 44) // (2 * channels),
              e.sample_rate, e.length_frames)


shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
images()
audio()
print("failed" if failed else "passed")
sys.exit(failed != 0)
