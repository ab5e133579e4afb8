#!/usr/bin/env python3
"""Writes docs/user/seeds/*.md and docs/TORCH_MEMORY.md from what the tool says.

    make_docs.py PLIMSOLL [CACHE]     CACHE: a folder that keeps the tool's answers between calls

Takes some minutes: every lever of every seed is re-planned.
"""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from seed_claims import SEEDS, WITH_WHAT_IF, Report, both, count, size

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM, CACHE = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
WHAT_IF = ["--what-if", "--time-limit", "600"]


def ask(*words):
    """The tool's JSON; None where nothing fits."""
    kept = CACHE and os.path.join(CACHE, re.sub(r"[^\w.=-]|--set_", "_", "_".join(words))[-200:] + ".json")
    if kept and os.path.exists(kept):
        with open(kept) as f:
            return json.load(f)
    done = subprocess.run([PROGRAM, *words], capture_output=True, cwd=HERE)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr.decode())
    if kept:
        with open(kept, "wb") as f:
            f.write(done.stdout)
    return json.loads(done.stdout)


def explain(recipe, *options):
    return Report(ask("explain", recipe, "--threads", "2", *options, "--json"))


def half_way(recipe, ours, goal, *options):
    """What it costs to come down to `goal` bytes by running nodes twice, nothing else changed."""
    if ours.peak <= goal:
        return "as it is"
    r = ask("fit", recipe, "--threads", "2", *options, "--allow", "none", "--effort", "2000", "--budget", str(int(goal)), "--json")
    return f"{100 * (r['time']['slowdown'] - 1):+.1f} %" if r["fits"] else "no plan"


def write(path, text):
    with open(os.path.join(HERE, path), "w") as f:
        f.write(text)
    print("wrote", path)


def more(slowdown):
    percent = 100 * (slowdown - 1)
    return f"{percent if abs(percent) >= 0.05 else 0:+.1f} %"


def what_if(r):
    out = ["| change | saves | peak then | time | effort | how |", "|---|---|---|---|---|---|"]
    for w in r.json["what_if"]:
        note = f" ({w['note']})" if w["note"] else ""
        if w["failed"]:
            out.append(f"| {w['name']} | | | | {w['effort']} | {w['note']} |")
        else:
            out.append(f"| {w['name']} | {size(w['saved_bytes'])} | {size(w['peak_bytes'])} | {more(w['slowdown'])} | {w['effort']} | "
                       f"`{w['how']}`{note} |")
    return out


def seed(name, title, recipe, others, claims):
    R = {recipe: explain(recipe, *WHAT_IF)}
    for other in others:
        R[other] = explain(other, *(WHAT_IF if other in WITH_WHAT_IF else []))
    r = R[recipe]
    p = r.json["plan"]
    out = [f"# {title}", "",
           f"Recipe `{recipe}`: {count(r.json['parameters']['count'])} parameters, batch {p['micro_batch']} x {p['accumulate']}, {p['precision']}. "
           f"One training step needs **{both(r.peak)}** with everything kept; the minimum budget is at most {both(r.json['minimum_bytes'])} ({r.json['minimum_how']}; `fit` searches longer).", "",
           "The figures in the middle column come from `plimsoll explain --json`; plain words and zeros there are typed. `scripts/make_docs.py` generates this page.", "",
           "| the document said | true figure | why |", "|---|---|---|"]
    out += [f"| {said} | {so} | {why} |" for said, so, why in claims(R)]
    out += ["", "## Where the memory goes", "", "| class | bytes | | share |", "|---|---|---|---|"]
    out += [f"| {k if k != 'gaps' else '(gaps)'} | {count(v)} | {size(v)} | {100 * v / r.peak:.1f} % |" for k, v in r.classes.items() if v]
    out += [f"| **= peak** | **{count(r.peak)}** | **{size(r.peak)}** | **100 %** |", "", "## Bottlenecks, ranked", ""]
    for i, b in enumerate(r.json["bottlenecks"][:8]):
        each = f"{b['buffers']} x {size(b['each_bytes'])} = " if b["each_bytes"] else ""
        out.append(f"{i + 1}. {b['what']} in `{b['where']}`: {each}{size(b['bytes'])} ({100 * b['bytes'] / r.peak:.1f} %)")
    out += ["", "## What would help, each re-planned", "", *what_if(r), "",
            f"Time by {r.json['time']['source']} of {r.json['device']['name']}, {r.json['device']['threads']} threads: good for ratios only.", "",
            "## Does it fit?", "", "| budget | verdict | largest batch, everything kept | largest found, re-planned |", "|---|---|---|---|"]
    words = {"fits": "fits", "replanned": "fits re-planned", "no": "no plan found"}
    out += [f"| {size(b['budget_bytes'])} | {words[b['verdict']]} | {b['largest_batch'] or 'none'} | {b.get('largest_batch_replanned', '') or 'none'} |" for b in r.json["budgets"]]
    out += ["", "## Believed, but not so", ""]
    out += [f"- *{b['belief']}* {b['truth']}" for b in r.json["beliefs"]]
    write(f"docs/user/seeds/{name}.md", "\n".join(out) + "\n")


MIB = 1 << 20
EMA = ["--set", "ema.rule=constant", "--set", "accumulate=1"]
# PyTorch 2.11 on an H200: max_memory_allocated in MiB, fp32 (tf32 allowed) and bf16 autocast
GPU = [
    ("STDiff 64x2048, N=2", "stdiff-64x2048", [], 118389, 80656),
    ("STDiff 64x512, N=2", "stdiff-64x512", [], 32038, 22913),
    ("STDiff 64x512, N=1", "stdiff-64x512", ["--batch", "1"], 17670, 13320),
    ("few-shot lag, 32 sets x 6", "lag-32x6", [], 26674, 20387),
    ("few-shot lag, 4 sets x 3", "lag-4x3", [], 2263, 1924),
    ("SaShiMi L=24576", "sashimi-24576", [], 15472, 15124),
    ("SaShiMi L=16384", "sashimi-24576", ["--set", "model.length=16384"], 10368, 10141),
    ("DiT3D-Tiny, batch 1", "dit3d-tiny", [], 280, 280),
    ("DiT3D-S, batch 8", "dit3d-s", [], 6522, 4280),
    ("DiT3D-XL, batch 4", "dit3d-xl", [], 30954, 24172),
    ("StableSR with latents given, batch 2: ours whole, PyTorch's UNet and edge processor", "stablesr-latent", [], 7392 + 1232, 8101 + 674),
]
# PyTorch 2.13 on a processor, 2 threads: resident MiB above the bare process
SMALL_STDIFF = [w for s in ("model.image=[32,64]", "model.observed=3", "model.predicted=3", "model.channels=[32,64,64]", "model.groups=8",
                            "model.head_width=32", "model.motion_channels=16") for w in ("--set", s)]
CPU = [
    ("STDiff small, 32x64, N=1", "stdiff-64x2048", ["--batch", "1", *SMALL_STDIFF], 406, 290),
    ("few-shot lag, 4 sets x 3", "lag-4x3", [], 2904, 2006),
    ("SaShiMi small, L=4096", "sashimi-24576", ["--set", "model.length=4096", "--set", "model.width=32", "--set", "model.layers=2"], 969, 986),
    ("DiT3D-Tiny, batch 4", "dit3d-tiny", ["--batch", "4"], 437, 343),
    ("DiT3D-S, 512 tokens, batch 1", "dit3d-s", ["--batch", "1", "--set", "model.patch=[2,4,4]"], 917, 876),
]


def torch_rows(cases):
    out = ["| work | parameters | S | fp32: ours | PyTorch | above S | of all | bf16: ours | PyTorch | above S | of all | half, fp32 | half, bf16 | least, fp32 |",
           "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    worst, prices = [], []
    for name, recipe, options, fp32, bf16 in cases:
        full, half = (explain(recipe, *options, *EMA, "--precision", p) for p in ("fp32", "bf16"))
        w = full.json["parameters"]
        s = 4 * (w["count"] - w["trainable"]) + 20 * w["trainable"]
        cells = []
        for ours, theirs in ((full, fp32 * MIB), (half, bf16 * MIB)):
            above = (ours.peak - s) / (theirs - s) if theirs > s else None
            cells += [size(ours.peak), size(theirs), f"**{above:.2f}**" if above is not None else "-", f"{ours.peak / theirs:.2f}"]
            if above is not None:
                worst.append((above, name))
        halves = [half_way(recipe, ours, s + (theirs * MIB - s) / 2, *options, *EMA, "--precision", p) if theirs * MIB > s else "-"
                  for ours, theirs, p in ((full, fp32, "fp32"), (half, bf16, "bf16"))]
        prices += [float(h.rstrip(" %")) for h in halves if h.endswith("%")]
        out.append(f"| {name} | {count(w['count'])} | {size(s)} | " + " | ".join(cells + halves) + f" | {size(full.json['minimum_bytes'])} |")
    kept = f"{sum(a <= 0.5 for a, _ in worst)} of {len(worst)} figures are at half of PyTorch's or less with everything kept"
    more = f"; {len(prices)} come there by running nodes twice, at {max(prices):+.1f} % of the predicted time at most" if prices else ""
    return out + ["", kept + more + "."]


def torch_page():
    gpu, cpu = torch_rows(GPU), torch_rows(CPU)
    write("docs/TORCH_MEMORY.md", "\n".join([
        "# Memory beside PyTorch", "",
        "Our peaks with everything kept, from `plimsoll explain`, beside what PyTorch was measured to use for the same work: AdamW, an EMA of all",
        "trained weights, one micro-batch. `scripts/make_docs.py` makes this page.", "",
        "- **S** is what any fp32 training must hold: parameters, gradients, Adam's two moments and the EMA of the trained weights, and the frozen",
        "  weights. Both sides hold it, so the figure that compares the rest is (ours - S) / (PyTorch - S), the column *above S*; *of all* is the plain ratio.",
        "- Ours is the arena: planned, placed, and equal to what a run uses. In bf16 it holds bf16 weights and their fp32 masters. A negative figure",
        "  means that ours is below S: gradients that are used as soon as they are complete need not all be there at once.",
        "- *half*: what it costs in predicted time to be at half of PyTorch's bytes above S, by running nodes a second time and changing no number",
        "  (`fit --allow none`). *least*: the least arena that a short search finds, micro-batches of one sample included.",
        "", "## PyTorch 2.11 on an H200 (max_memory_allocated)", "",
        "Ours as planned for the processor, its workspaces included. Every training step of ours keeps fewer tensors than autograd does: norms",
        "and activations are one operator that keeps its input, attention keeps one number a row instead of scores, the Cauchy sums are streamed,",
        "concatenations and casts are not kept twice, and buffers are placed without fragmentation.", "", *gpu, "",
        "StableSR: PyTorch was measured with the UNet alone (7,392 and 8,101 MiB) and with the edge processor alone (1,232 and 674 MiB); no recipe here",
        "is either, so our whole system, with its struct encoder and every weight of the recipe, stands beside their sum; S is ours and larger than theirs.",
        "Not in this table: the edge processor \"before\" alone, and PyTorch with checkpointing, which is to be compared with a plan within a budget.", "",
        "## PyTorch 2.13 on two threads of a processor (resident bytes above the bare process)", "", *cpu, ""]))


if CACHE:
    os.makedirs(CACHE, exist_ok=True)
os.makedirs(os.path.join(HERE, "docs/user/seeds"), exist_ok=True)
for one in SEEDS:
    seed(*one)
torch_page()
