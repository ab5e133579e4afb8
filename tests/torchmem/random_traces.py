#!/usr/bin/env python3
"""The model of PyTorch's allocator against allocator_model.py, which shares no code with it, on random requests under many settings.

    random_traces.py LIBPLIMSOLL PLIMSOLL FOLDER [--traces N] [--seed N]

By plimsoll_torch_replay: the segment, offset and size of each block, the peaks, and which request fails. By `plimsoll replay` on a
recording that the other model made: every event, every block at the end, and the peaks under other settings.
"""
import argparse
import json
import os
import pickle
import random
import subprocess
import sys

from allocator_model import MIB, Allocator, OutOfMemory, Segment, parsed

parser = argparse.ArgumentParser()
parser.add_argument("library")
parser.add_argument("program")
parser.add_argument("folder")
parser.add_argument("--traces", type=int, default=3)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
os.environ["PLIMSOLL_LIBRARY"] = os.path.abspath(options.library)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from plimsoll import DoesNotFit, replay  # noqa: E402

ALLOC, FREE, MARK, EMPTY = range(4)
SETTINGS = [
    "", "max_split_size_mb:64", "max_split_size_mb:20", "roundup_power2_divisions:8", "large_segment_size_mb:40",
    "max_split_size_mb:128,max_non_split_rounding_mb:64", "max_split_size_mb:100,roundup_power2_divisions:[16:4,128:2,>:1]",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
    "expandable_segments:True", "expandable_segments:True,max_split_size_mb:40", "expandable_segments:True,large_segment_size_mb:64",
    "expandable_segments:True,roundup_power2_divisions:4,max_split_size_mb:200"]


def random_size(rng):
    kind = rng.random()
    if kind < 0.4:
        return rng.randint(1, MIB + 1000)
    return rng.randint(MIB, 12 * MIB) if kind < 0.75 else rng.randint(10 * MIB, rng.choice([40, 120, 400]) * MIB)


def random_trace(rng):
    sizes, many, live, events = [random_size(rng) for _ in range(12)], rng.choice([8, 30, 100]), [], []
    for i in range(rng.choice([200, 500, 1200])):
        kind = rng.random()
        if kind < 0.01:
            events.append((EMPTY if kind < 0.004 else MARK, 0, 0))
        elif live and rng.random() < len(live) / (2 * many):
            events.append((FREE, live.pop(rng.randrange(len(live))), 0))
        else:
            live.append(i)
            events.append((ALLOC, i, rng.choice(sizes) if rng.random() < 0.7 else random_size(rng)))
    return events


def by_the_other_model(events, settings, capacity, bases=None):
    """Peaks, blocks and the request that failed, if any; and the allocator."""
    model, live, peaks, blocks = Allocator(settings, capacity, capacity, bases), {}, [(0, 0)], []
    for i, (action, number, size) in enumerate(events):
        block = (-1, 0, 0)
        if action == ALLOC:
            try:
                live[number] = got = model.malloc(size)
            except OutOfMemory:
                return peaks, blocks, i, model
            block = (got.segment.ordinal, got.start - got.segment.base, got.size)
        elif action == FREE:
            model.free(live.pop(number))
        elif action == MARK:
            peaks.append((model.allocated, model.reserved))
        else:
            model.empty_cache()
        peaks[-1] = (max(peaks[-1][0], model.allocated), max(peaks[-1][1], model.reserved))
        blocks.append(block)
    return peaks, blocks, None, model


def compared(events, settings, capacity):
    """A text if the two differ."""
    peaks, blocks, failed, _ = by_the_other_model(events, settings, capacity)
    if failed is not None:
        try:
            replay(events, settings, capacity)
            return "event %d does not fail" % failed
        except DoesNotFit as error:
            if "event %d asks" % failed not in str(error):
                return "event %d fails: %s" % (failed, error)
        events = events[:failed]
        peaks = by_the_other_model(events, settings, capacity)[0]
    try:
        found, placed = replay(events, settings, capacity)
    except DoesNotFit as error:
        return str(error)
    for i, (ours, theirs) in enumerate(zip(placed, blocks)):
        if (ours.segment, ours.offset, ours.bytes) != theirs:
            return "event %d %s: %s, by the other model %s" % (i, events[i], ours, theirs)
    if [(p.allocated_bytes, p.reserved_bytes) for p in found] != peaks:
        return "peaks %s, by the other model %s" % (found, peaks)
    return ""


def snapshot(model, settings):
    """As torch.cuda.memory._dump_snapshot writes it."""
    def block(b):
        state = "inactive" if b.free else "active_allocated"
        return {"address": b.start, "size": b.size, "requested_size": b.asked, "state": state, "frames": []}
    segments = []
    for s in model.segments:
        run = []
        for b in [*s.blocks(), None]:
            if b and b.mapped:
                run.append(block(b))
            elif run:
                segments.append({"device": 0, "address": run[0]["address"], "total_size": sum(x["size"] for x in run), "stream": 0,
                                 "segment_type": "small" if s.small else "large", "segment_pool_id": (0, 0),
                                 "is_expandable": bool(s.page), "frames": [], "blocks": run})
                run = []
    trace = [{"action": a, "addr": at, "size": n, "stream": 0, "time_us": i, "frames": []} for i, (a, at, n) in enumerate(model.events)]
    return {"segments": sorted(segments, key=lambda s: s["address"]), "device_traces": [trace], "external_annotations": [],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": settings}}


def replayed(events, settings, others, bases=None):
    """Texts of what `plimsoll replay` says otherwise of a recording under these settings. No empty_cache: where it had nothing to
    release, the recording does not tell that it was called."""
    events = [e for e in events if e[0] != EMPTY]
    model = by_the_other_model(events, settings, 0, bases)[3]
    path = os.path.join(options.folder, "random.pickle")
    with open(path, "wb") as f:
        pickle.dump(snapshot(model, settings), f)
    done = subprocess.run([options.program, "replay", path, "--json"] + [x for o in others for x in ("--conf", o)],
                          capture_output=True, text=True)
    if done.returncode:
        return [done.stderr]
    found = json.loads(done.stdout)
    wrong = [] if found["check"]["all_equal"] and found["check"]["end_equal"] else ["%s: %s" % (settings, found["check"])]
    for run, other in zip(found["runs"], [settings, *others]):
        peaks = by_the_other_model(events, other, 0, bases)[0]
        wanted = max(p[0] for p in peaks), max(p[1] for p in peaks)
        if (run["allocated_peak_bytes"], run["reserved_peak_bytes"]) != wanted:
            wrong.append("%s recorded, %s: %d and %d, by the other model %s" % (
                settings, other, run["allocated_peak_bytes"], run["reserved_peak_bytes"], wanted))
    return wrong


os.makedirs(options.folder, exist_ok=True)
wrong, n, failures = [], 0, 0
for seed in range(options.seed, options.seed + options.traces):
    rng = random.Random(seed)
    events = random_trace(rng)
    top = max(p[1] for p in by_the_other_model(events, "", 0)[0])
    for settings in SETTINGS:
        for capacity in (0, int(top * rng.uniform(0.5, 1.2))):
            said = compared(events, settings, capacity)
            failures += by_the_other_model(events, settings, capacity)[2] is not None
            n += 1
            if said:
                wrong.append("seed %d, %r within %d: %s" % (seed, settings, capacity, said))
        if parsed(settings)["per_process_memory_fraction"] == 1.0:
            n += 3
            wrong += ["seed %d: %s" % (seed, w) for w in replayed(events, settings, rng.sample(SETTINGS, 3))]
            bases = [(1 << 46) + (i << 42) for i in rng.sample(range(4000), 2000)]
            wrong += ["seed %d, bases in no order: %s" % (seed, w) for w in replayed(events, settings, [], bases)]
            Segment.oldest_first = True
            wrong += ["seed %d, the oldest first: %s" % (seed, w) for w in replayed(events, settings, SETTINGS[:1], bases)]
            Segment.oldest_first = False
print("\n".join(wrong[:20]))
print("%d comparisons, %d of them run out of memory, %d differ" % (n, failures, len(wrong)))
sys.exit(bool(wrong))
