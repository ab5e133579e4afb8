#!/usr/bin/env python3
"""ranks.py -- a simulation: DiT3D-XL on 8 to 1,024 GPUs, and the same model of time against published FSDP runs.

    ranks.py PLIMSOLL [--json FILE]

Nothing runs: bytes and times are what `explain --ranks` predicts for the profile h200 and the wire profile
nvlink4+ib-ndr400. Each GPU has one micro-batch of four samples a step, so a step has 32 to 4,096 samples.

For FSDP, Llama 3.1 8B of torchtitan: moved in a step are two gathers of bf16 parameters and one exchange of fp32
gradients (of fp8 parameters where those are gathered), layer by layer. The time that the profile does not hide, and
the first gather and the last exchange, are added to a step of the smaller run. Bytes: 16 for each parameter, divided.
"""
import argparse
import json
import os
import subprocess
import sys

import results_file

RANKS, PER_NODE, LEVELS = (8, 16, 32, 64, 128, 256, 512, 1024), 8, (0, 1, 3)
MODEL = ["dit3d-xl", "--device", "h200", "--precision", "bf16", "--effort", "-1"]
GIB = 2 ** 30
PARAMETERS, LAYERS, TOKENS = 8.03e9, 32, 2 * 8192
# GPUs, tokens a second and GPU, GiB, bytes of a gathered parameter
PUBLISHED = {"8 -> 128 H100, bf16": ((8, 5762, 82.4), (128, 5605, 67.0), 2),
             "32 -> 64 H200, float8": ((32, 10938, 47.96), (64, 10753, 46.97), 1)}


def explain(program, words):
    done = subprocess.run([program, "explain", *MODEL, *words, "--json"], capture_output=True, text=True,
                          env={**os.environ, "XDG_CONFIG_HOME": "/nonexistent"})
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def simulated(program):
    alone = explain(program, ["--set", "accumulate=1"])["time"]["step_ms"]
    for ranks in RANKS:
        found = explain(program, ["--set", f"accumulate={ranks}", "--ranks", str(ranks), "--per-node", str(PER_NODE)])["ranks"]
        for row in found["levels"]:
            if row["shard"] in LEVELS:
                state = row["state"]
                kept = sum(state.get(name, 0) for name in ("parameters", "gradients", "optimizer", "ema", "master"))
                yield {"work": f"{ranks:,}", "variant": str(row["shard"]), "ms": round(row["step_ms"], 1), "gib": round(row["peak_bytes"] / GIB, 2),
                       "state_gib": round(kept / GIB, 2), "held_gib": round(found["held_bytes"] / GIB, 2),
                       "sent_gib": round(row["sent_bytes"] / GIB, 2), "moving_ms": round(row["moving_ms"], 1),
                       "waiting_ms": round(row["waiting_ms"], 1), "efficiency_percent": round(100 * alone / row["step_ms"])}


def wire_s(wire, ranks, part_bytes):
    """wire_transfer_ns of src/profile/wire.c, with the messages of a transfer left out: they are long here."""
    inside, between = min(ranks, PER_NODE) - 1, max(ranks - PER_NODE, 0)
    return max(inside * part_bytes / wire["inside"]["bytes_per_s"] + wire["inside"]["latency_us"] * 1e-6,
               between * part_bytes / wire["between"]["bytes_per_s"] + (wire["between"]["latency_us"] * 1e-6 if between else 0))


def not_hidden_s(wire, ranks, gathered):
    layer = PARAMETERS / LAYERS / ranks
    gather, exchange = wire_s(wire, ranks, layer * gathered), wire_s(wire, ranks, layer * 4)
    moving, hidden = LAYERS * (2 * gather + exchange), wire["hidden"]["share"]
    return (1 - hidden) * moving + hidden * (gather + exchange), moving


def published(root):
    with open(f"{root}/profiles/wires/nvlink4+ib-ndr400.json") as file:
        wire = json.load(file)
    for work, (small, large, gathered) in PUBLISHED.items():
        step = TOKENS / small[1]
        few, many = (not_hidden_s(wire, n, gathered)[0] for n in (small[0], large[0]))
        rate = TOKENS / (step - few + many)
        freed = 16 * PARAMETERS * (1 / small[0] - 1 / large[0]) / GIB
        yield {"work": work, "variant": "FSDP", "reported_percent": round(100 * (large[1] / small[1] - 1), 1),
               "simulated_percent": round(100 * (rate / small[1] - 1), 1), "reported_gib": round(small[2] - large[2], 2),
               "simulated_gib": round(freed, 2)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    results_file.add_option(parser)
    o = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rows = list(simulated(o.program)) + list(published(root))
    for row in rows:
        print(json.dumps(row))
    results_file.write(o.json, rows, "bench/ranks.py BUILD/plimsoll",
                       "Simulated, not run: predictions of explain --ranks by the profile h200 and the wire profile nvlink4+ib-ndr400, "
                       "8 GPUs in a node, one micro-batch of 4 samples for each GPU, bf16. gib: the arena of a rank; state_gib: of that, "
                       "parameters, gradients, optimizer and master copies that it keeps; held_gib: of NCCL, outside it; waiting_ms: not "
                       "hidden; efficiency: the step of one GPU alone, in parts of this one. FSDP: torchtitan's reports of Llama 3.1 8B, "
                       "and what the same model of the links gives (the head of bench/ranks.py says how).",
                       gpu="NVIDIA H200, by its profile")


main()
