"""compress and decompress as a user runs them: 20 files of a second or more, of 8 and 16 bits, come back byte for byte, and the payload
is within 1 % of what the model's own probabilities cost.

    round_trip.py PLIMSOLL WORK_FOLDER

Python's standard library is enough."""
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
RATE, MARGIN = 8000, 0.01
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)


def plimsoll(*words):
    done = subprocess.run([program, *words, "--threads", "2", "--backend", "builtin"], capture_output=True, text=True, cwd=work)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def samples_of(kind, n, rng):
    """A second or more of something, in [-1,1]."""
    x, phase = 0.0, 0.0
    for i in range(n):
        t = i / RATE
        if kind == "note":
            yield 0.7 * math.exp(-3 * (t % 0.5)) * math.sin(2 * math.pi * 330 * t)
        elif kind == "chord":
            yield sum(math.sin(2 * math.pi * f * t) for f in (220, 277, 330)) / 3.2
        elif kind == "sweep":
            phase += (100 + 3000 * t) / RATE
            yield 0.9 * math.sin(2 * math.pi * phase)
        elif kind == "walk":
            x = max(-1.0, min(1.0, x + rng.gauss(0, 0.01)))
            yield x
        elif kind == "voice":                                # a buzz through a slowly moving resonance
            yield 0.4 * math.tanh(3 * math.sin(2 * math.pi * 110 * t) ** 9) + 0.1 * math.sin(2 * math.pi * (500 + 300 * math.sin(6 * t)) * t)
        elif kind == "clipped":
            yield max(-1.0, min(1.0, 1.6 * math.sin(2 * math.pi * 200 * t)))
        elif kind == "steps":
            yield (i // 400 % 5 - 2) / 2.5
        elif kind == "hum":
            yield 0.02 * math.sin(2 * math.pi * 50 * t) + rng.gauss(0, 0.002)
        elif kind == "quiet":
            yield rng.gauss(0, 0.0005) if i > n // 2 else 0.0
        else:
            yield rng.gauss(0, 0.15)                         # noise


def wav(path, bits, values):
    top = 1 << (bits - 1)
    levels = [max(-top, min(top - 1, round(v * top))) for v in values]
    data = b"".join(struct.pack("<h", v) for v in levels) if bits == 16 else bytes(v + 128 for v in levels)
    with open(path, "wb") as f:
        f.write(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, RATE, RATE * bits // 8, bits // 8, bits))
        f.write(b"data" + struct.pack("<I", len(data)) + data)


kinds = ["note", "chord", "sweep", "walk", "voice", "clipped", "steps", "hum", "quiet", "noise"]
worst, count = 0, 0
for bits in 8, 16:
    plimsoll("train", "sashimi-small", "--steps", "60", "--out", f"run{bits}", "--quiet", "--set", "data.scaling=none", "--set", f"model.bits={bits}",
             "--set", "model.length=256", "--set", "model.width=8", "--set", "model.layers=1", "--set", "validate.every=0")
    for number, kind in enumerate(kinds):
        rng = random.Random(100 * bits + number)
        name, n = os.path.join(work, f"{kind}{bits}.wav"), RATE + 100 * number
        wav(name, bits, samples_of(kind, n, rng))
        said = json.loads(plimsoll("compress", f"run{bits}", name, "-o", "x.plz", "--json"))
        plimsoll("decompress", f"run{bits}", "x.plz", "-o", "back.wav", "--quiet")
        with open(name, "rb") as a, open(os.path.join(work, "back.wav"), "rb") as b:
            assert a.read() == b.read(), f"{name} came back as another file"
        off = (8 * said["payload_bytes"] - 16 * said["blocks"]) / said["nll_bits"] - 1
        assert said["samples"] == n and off <= MARGIN, f"{name}: payload {off:+.2%} of the nll"
        worst, count = max(worst, off), count + 1
        print(f"{kind:8} {bits:2} bits: {said['wav_bytes']:6} -> {said['file_bytes']:6} bytes, payload {off:+.3%} of the nll")
print(f"{count} files came back byte for byte; payload at most {worst:+.3%} above the nll")
