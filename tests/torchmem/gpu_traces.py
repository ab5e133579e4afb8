#!/usr/bin/env python3
"""Compares the model of PyTorch's caching allocator with the allocator itself. Needs a CUDA GPU and PyTorch.

    gpu_traces.py PLIMSOLL [--keep FOLDER] [--traces N] [--jobs N] [--seed N]

Under each of several settings, in a process of its own, random requests and frees (several streams,
record_stream, empty_cache, running out of memory) and short training runs are recorded with
torch.cuda.memory._record_memory_history. `plimsoll replay` must then reproduce every recorded event in
order with its address, every block of every segment at the end, and torch.cuda.memory_stats. Some
recordings begin in the middle of a run; there a block's rest of up to 1 MiB may not be known, so a few of
them may differ, and they are counted apart. One line per setting is printed, and the first difference;
--keep stores the recording of the first difference of each setting. Exit status: 0, all equal; 1, a
difference; 77, no GPU.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
SETTINGS = [                                      # text, share of the GPU's memory
    ("", 1.0),
    ("max_split_size_mb:64", 1.0),
    ("roundup_power2_divisions:8", 1.0),
    ("expandable_segments:True", 1.0),
    ("expandable_segments:True", 0.02),
    ("garbage_collection_threshold:0.6", 0.02),
    ("max_split_size_mb:100,roundup_power2_divisions:[16:4,128:2,>:1]", 0.02),
]
STATS = ["allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
         "active_bytes", "inactive_split_bytes", "requested_bytes"]
COUNTERS = ["num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free"]


class Trace:
    """Random requests; `live` holds what the program has."""

    def __init__(self, torch, rng):
        self.torch, self.rng, self.live = torch, rng, []
        self.streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        self.sizes = [self.size() for _ in range(12)]
        self.many = rng.choice([8, 30, 100])          # live at the same time, about
        self.one_stream = rng.random() < 0.6

    def size(self):
        kind = self.rng.random()
        if kind < 0.4:
            return self.rng.randint(1, MIB + 1000)
        if kind < 0.75:
            return self.rng.randint(MIB, 12 * MIB)
        return self.rng.randint(10 * MIB, self.rng.choice([40, 120, 400]) * MIB)

    def step(self):
        torch, rng = self.torch, self.rng
        if rng.random() < 0.004:
            torch.cuda.empty_cache()
        if self.live and rng.random() < len(self.live) / (2 * self.many):
            self.live.pop(rng.randrange(len(self.live)))
            return
        size = rng.choice(self.sizes) if rng.random() < 0.7 else self.size()
        stream = self.streams[0 if self.one_stream or rng.random() < 0.7 else rng.randint(1, 2)]
        try:
            with torch.cuda.stream(stream):
                block = torch.empty(size, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            del self.live[:len(self.live) // 2]
            return
        self.live.append(block)
        if not self.one_stream and rng.random() < 0.15:
            other = rng.choice([s for s in self.streams if s != stream])
            if rng.random() < 0.3:
                with torch.cuda.stream(other):
                    torch.cuda._sleep(2_000_000)
            block.record_stream(other)


def train(torch, seed, steps):
    """A few steps of a small model, with a batch that varies."""
    torch.manual_seed(seed)
    nn = torch.nn
    if seed % 3 == 0:
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 4)
        shape = (128, 512)
    elif seed % 3 == 1:
        model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.SiLU(),
                              nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.SiLU(),
                              nn.Conv2d(128, 128, 3, padding=1), nn.Flatten(1), nn.AdaptiveAvgPool1d(64))
        shape = (3, 64, 64)
    else:
        model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(2048, 2048), nn.GELU())])
        shape = (2048,)
    model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rng = random.Random(seed)
    try:
        for _ in range(steps):
            x = torch.randn(rng.randint(4, 24), *shape, device="cuda")
            model(x).float().pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    except torch.OutOfMemoryError:
        pass
    return model, optimizer


def stats_now(torch):
    stats = torch.cuda.memory_stats()
    return {key: stats.get(key, 0) for key in COUNTERS}, stats


def start_recording(torch, frames):
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history(enabled="all", context="all" if frames else None,
                                             stacks="python")
    return stats_now(torch)[0]


def compare(torch, args, conf, share, counters, path):
    """'' if all is equal, else the first difference; and the number of events."""
    stats = stats_now(torch)
    torch.cuda.memory._dump_snapshot(path)
    recorded = ",".join(filter(None, [conf, "per_process_memory_fraction:%r" % share if share < 1 else ""]))
    command = [args.plimsoll, "replay", path, "--json", "--recorded", recorded, "--conf", recorded,
               "--memory", str(torch.cuda.get_device_properties(0).total_memory)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return "replay failed: " + done.stderr.strip(), 0
    result = json.loads(done.stdout)
    check, ours = result["check"], result["runs"][0]["stats"]
    if not check["all_equal"]:
        return "event %d of %d: recorded %s, model %s" % (
            check["events_equal"], check["events"], json.dumps(check["first_recorded"]),
            json.dumps(check["first_replayed"])), check["events"]
    if not check["end_equal"]:
        return "at the end: " + check["end_difference"], check["events"]
    for stat in STATS:
        for pool in ("all", "small_pool", "large_pool"):
            for which in ("current", "peak"):
                key = "%s.%s.%s" % (stat, pool, which)
                if stats[1].get(key, 0) != ours[key]:
                    return "%s: %d in torch, %d in the model" % (key, stats[1].get(key, 0), ours[key]), check["events"]
    for key in COUNTERS:
        if stats[0][key] - counters[key] != ours[key]:
            return "%s: %d in torch, %d in the model" % (key, stats[0][key] - counters[key], ours[key]), check["events"]
    return "", check["events"]


def clean(torch):
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.empty_cache()


def child(args, number):
    conf, share = SETTINGS[number]
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
    import torch
    torch.cuda.init()
    if share < 1:
        torch.cuda.set_per_process_memory_fraction(share)
    totals = {"recordings": 0, "events": 0, "different": 0, "from the middle": 0, "different from the middle": 0, "trainings": 0, "ooms": 0}
    first, kept = "", None
    path = os.path.join(args.folder, "%d.pickle" % number)
    ages = "garbage" in conf                          # ages of blocks before the recording are not in it
    for k in range(args.traces + args.trainings):
        seed = args.seed + 1000 * number + k
        rng = random.Random(seed)
        middle = not ages and rng.random() < 0.4
        if k < args.traces:
            kind, trace = "trace", Trace(torch, rng)
            for _ in range(400 if middle else 0):
                trace.step()
            counters = start_recording(torch, False)
            for _ in range(rng.choice([100, 400, 1200])):
                trace.step()
            keep = trace
        else:
            kind, middle = "training", k % 2 == 1 and not ages
            keep = train(torch, k, 2) if middle else None
            counters = start_recording(torch, True)
            keep = [keep, train(torch, k, 3)]
            totals["trainings"] += 1
        difference, events = compare(torch, args, conf, share, counters, path)
        totals["recordings"] += 1
        totals["events"] += events
        totals["different"] += bool(difference) and not middle
        totals["different from the middle"] += bool(difference) and middle
        totals["from the middle"] += middle
        totals["ooms"] += stats_now(torch)[0]["num_ooms"] - counters["num_ooms"]
        if difference and (not first or ("from the middle" in first and not middle)):
            first = "%s %d%s: %s" % (kind, seed, ", from the middle" if middle else "", difference)
            kept = shutil.copy(path, os.path.join(args.keep, "first-%d.pickle" % number)) if args.keep else None
        del keep
        trace = None
        clean(torch)
    print(json.dumps({"conf": conf, "share": share, "totals": totals, "first": first, "kept": kept}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("--keep", help="folder for recordings that differ")
    parser.add_argument("--traces", type=int, default=30, help="random traces per setting")
    parser.add_argument("--trainings", type=int, default=3, help="training runs per setting")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is not None:
        return child(args, args.child)
    import torch
    if not torch.cuda.is_available():
        print("no CUDA GPU: skipped")
        return 77
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    start, failed, waiting, running = time.time(), 0, list(range(len(SETTINGS))), {}
    print("PyTorch %s, %s" % (torch.__version__, torch.cuda.get_device_properties(0).name))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, os.path.abspath(__file__)] + sys.argv[1:] + ["--folder", folder]
        while waiting or running:
            while waiting and len(running) < args.jobs:
                k = waiting.pop(0)
                running[k] = subprocess.Popen(command + ["--child", str(k)], text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            k = next(iter(running))
            out, err = running.pop(k).communicate()
            try:
                result = json.loads(out.strip().splitlines()[-1])
            except (IndexError, ValueError):
                failed += 1
                print("%s: it failed: %s" % (SETTINGS[k], err.strip()[-600:]))
                continue
            totals = result["totals"]
            failed += totals["different"]
            print("%s, share %g: %s" % (result["conf"] or "defaults", result["share"],
                                        ", ".join("%d %s" % (v, n) for n, v in totals.items())))
            if result["first"]:
                print("  first:", result["first"])
    print("%d differ, %.0f s" % (failed, time.time() - start))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
