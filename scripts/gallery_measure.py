#!/usr/bin/env python3
"""Measures what the gallery promises of the small recipes' results: one sentence for a recipe.

    gallery_measure.py RECIPE RUN

Reads RUN/measure, where gallery.sh drew results as arrays, the captions that `sample` printed (about.txt), and what `evaluate`
wrote (evaluation.json). Needs NumPy and PIL.
"""
import colorsys
import glob
import json
import os
import re
import sys
import wave

import numpy as np
from PIL import Image

HUES = {"red": 0, "yellow": 1, "green": 2, "cyan": 3, "blue": 4, "magenta": 5}
SCALE = np.array([400, 450, 500, 600, 2000 / 3])            # of the generated audio, in hertz
NEAR = 3                                                    # metres: an object is nearer than the street by more


def arrays(folder, name):
    return [np.load(path) for path in sorted(glob.glob(os.path.join(folder, name + "-*.npy")))]


def captions(folder):
    with open(os.path.join(folder, "about.txt")) as f:
        return [m.group(1) for m in re.finditer(r"^ *\d+: (.*)$", f.read(), re.M)]


def colour(pixels):
    """The nearest named colour of the bright pixels; None: there are none."""
    rgb = (pixels.reshape(-1, 3) + 1) / 2
    rgb = rgb[rgb.max(1) > 0.5]
    if len(rgb) < 8:
        return None
    hue = 6 * colorsys.rgb_to_hsv(*rgb.mean(0))[0]
    return min(HUES, key=lambda name: min(abs(hue - HUES[name]), 6 - abs(hue - HUES[name])))


def colours(folder, name, each):
    wanted = [caption.split()[0] for caption in captions(folder) for _ in range(each)]
    got = [colour(a) for a in arrays(folder, name)]
    assert len(got) == len(wanted) > 0, (len(got), len(wanted))
    return sum(a == b for a, b in zip(got, wanted)), len(got)


def dit3d(folder):
    return "colours of {} of {} captions right".format(*colours(folder, "clip", 1))


def lag(folder):
    return "colours of {} of {} images right".format(*colours(folder, "sample", 3))


def stablesr(folder):
    with open(os.path.join(folder, "evaluation.json")) as f:
        quality = json.load(f)["images"]
    return f"PSNR {quality['result']['psnr']:.2f} dB, input {quality['input']['psnr']:.2f} dB"


def pitch(x, rate):
    """By autocorrelation: the first lag that nearly is the strongest, between its neighbours. And how strong it is."""
    x = x - x.mean()
    c = np.correlate(x, x, "full")[len(x) - 1:]
    low, high = rate // 900, rate // 250
    most = c[low:high].max()
    k = next(k for k in range(low, high) if c[k] > 0.93 * most and c[k] >= c[k - 1] and c[k] >= c[k + 1])
    return rate / (k + (c[k - 1] - c[k + 1]) / (2 * (c[k - 1] - 2 * c[k] + c[k + 1]))), most / c[0]


def sashimi(folder):
    tuned, windows = 0, 0
    for path in sorted(glob.glob(os.path.join(folder, "audio-*.wav"))):
        with wave.open(path) as w:
            rate, x = w.getframerate(), np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(float)
        for at in range(0, len(x) - 300, 300):
            hertz, strength = pitch(x[at:at + 300], rate)
            tuned += strength > 0.5 and np.min(np.abs(hertz / SCALE - 1)) < 0.02
            windows += 1
    return f"{100 * tuned / windows:.0f} % of the time within 2 % of a note of the scale"


def objects(clip):
    """Pixels nearer than the street of the generated clips."""
    y = (np.arange(clip.shape[1]) + 0.5) / clip.shape[1]
    street = np.where(y > 0.28, 4.8 / (y - 0.28), np.inf)
    return clip < np.minimum(street, 60)[None, :, None] - NEAR


def last_observed(folder, n, height, width, metres=60, gap=2):
    """In metres, from the sheet of observed frames: a row for each clip, frames from left to right."""
    sheet = np.asarray(Image.open(os.path.join(folder, "input-observed.png")).convert("L"), float)
    scale = (sheet.shape[0] - gap) // n // height
    top = [gap + i * (height * scale + gap) for i in range(n)]
    left = sheet.shape[1] - gap - width * scale
    return [sheet[y:y + height * scale:scale, left:left + width * scale:scale][None] * metres / 255 for y in top]


def stdiff(folder):
    """Intersection over union of object pixels, over all predicted frames; a missing return (0) is no object."""
    guesses, truths = arrays(folder, "clip"), [t[..., 0] for t in arrays(folder, "truth")]
    before = last_observed(folder, len(truths), *truths[0].shape[1:])
    counts = np.zeros(4)
    for guess, true, last in zip(guesses, truths, before):
        valid, b = true > 0, objects(true)
        a, c = objects(guess[..., 0]), objects(np.repeat(last, len(true), 0)) & (np.repeat(last, len(true), 0) > 0)
        counts += [(m & valid).sum() for m in (a & b, a | b, c & b, c | b)]
    return f"objects overlap the true ones by {counts[0] / counts[1]:.2f}; if they stood still: {counts[2] / counts[3]:.2f}"


measures = {"dit3d-small": dit3d, "lag-small": lag, "stablesr-small": stablesr, "sashimi-small": sashimi, "stdiff-small": stdiff}
recipe, run = sys.argv[1:3]
print(measures[recipe](os.path.join(run, "measure")) if recipe in measures else "")
