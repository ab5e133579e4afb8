#!/usr/bin/env python3
"""`plimsoll replay` on files of the form that torch.cuda.memory._dump_snapshot writes, computed by hand.

    snapshot_file.py PLIMSOLL FOLDER
"""
import copy
import json
import os
import pickle
import subprocess
import sys

MIB = 1 << 20
SMALL, LARGE, SECOND, THIRD = 0x7f0000000000, 0x7f0010000000, 0x7f0020000000, 0x7f0030000000
FRAMES = [{"name": "empty", "filename": "??", "line": 0},
          {"name": "forward", "filename": "/x/site-packages/torch/nn/modules/linear.py", "line": 7},
          {"name": "forward", "filename": "/home/u/net.py", "line": 12},
          {"name": "<module>", "filename": "/home/u/train.py", "line": 3}]


def event(action, address, size):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1, "frames": FRAMES}


def block(address, size, requested, state):
    return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": FRAMES}


def segment(address, size, kind, blocks):
    return {"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": kind,
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks}


EVENTS = [
    event("segment_alloc", SMALL, 2 * MIB), event("alloc", SMALL, 1000),
    event("segment_alloc", LARGE, 30 * MIB), event("alloc", LARGE, 30 * MIB),
    event("segment_alloc", SECOND, 20 * MIB), event("alloc", SECOND, 5 * MIB),
    event("free_requested", LARGE, 30 * MIB), event("free_completed", LARGE, 30 * MIB),
    event("alloc", LARGE, 18 * MIB),
    event("segment_alloc", THIRD, 26 * MIB), event("alloc", THIRD, 25 * MIB),
]
SNAPSHOT = {
    "segments": [
        segment(SMALL, 2 * MIB, "small", [block(SMALL, 1024, 1000, "active_allocated"),
                                          block(SMALL + 1024, 2 * MIB - 1024, 0, "inactive")]),
        segment(LARGE, 30 * MIB, "large", [block(LARGE, 18 * MIB, 18 * MIB, "active_allocated"),
                                           block(LARGE + 18 * MIB, 12 * MIB, 0, "inactive")]),
        segment(SECOND, 20 * MIB, "large", [block(SECOND, 5 * MIB, 5 * MIB, "active_allocated"),
                                            block(SECOND + 5 * MIB, 15 * MIB, 0, "inactive")]),
        segment(THIRD, 26 * MIB, "large", [block(THIRD, 26 * MIB, 25 * MIB, "active_allocated")]),
    ],
    "device_traces": [EVENTS + [event("snapshot", 0, 1)]],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
                           "garbage_collection_threshold": 0.0, "expandable_segments": False,
                           "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}},
    "external_annotations": [],
}


class Test:
    def __init__(self, program, folder):
        self.program, self.path, self.failed, self.n = program, os.path.join(folder, "s.pickle"), 0, 0

    def check(self, what, got, wanted):
        self.n += 1
        if got != wanted:
            self.failed += 1
            print("%s: %r, not %r" % (what, got, wanted))

    def run(self, snapshot, *options, protocol=4):
        with open(self.path, "wb") as f:
            f.write(snapshot if isinstance(snapshot, bytes) else pickle.dumps(snapshot, protocol))
        return subprocess.run([self.program, "replay", self.path, *options], capture_output=True, text=True)

    def json(self, snapshot, *options, **how):
        done = self.run(snapshot, "--json", *options, **how)
        self.check("exit of replay" + done.stderr, done.returncode, 0)
        return json.loads(done.stdout)


def by_hand(t):
    for protocol in (2, 4, 5):
        r = t.json(SNAPSHOT, "--conf", "expandable_segments:True", "--conf", "max_split_size_mb:20", protocol=protocol)
        t.check("check", r["check"], {"events": 11, "events_equal": 11, "all_equal": True, "end_equal": True})
    recorded, expandable, split = r["runs"]
    t.check("reserved", recorded["reserved_peak_bytes"], 78 * MIB)
    t.check("allocated", recorded["allocated_peak_bytes"], 49 * MIB + 1024)
    t.check("peak", recorded["reserved_peak_event"], 10)
    t.check("unused", recorded["unused_at_peak_bytes"], 29 * MIB - 1024)
    t.check("gap", (recorded["fragmentation"][0]["free_bytes"], recorded["fragmentation"][0]["largest_offset"]),
            (15 * MIB, 5 * MIB))
    t.check("line", recorded["live_at_peak"], [{"line": "/home/u/net.py:12 forward", "bytes": 49 * MIB + 1024,
                                                "blocks": 4, "largest_bytes": 26 * MIB}])
    t.check("expandable", (expandable["reserved_peak_bytes"], expandable["saved_bytes"]), (62 * MIB, 16 * MIB))
    # 30 MiB is not split for 18 MiB, which get a segment of their own; 25 MiB take it whole
    t.check("max_split", split["reserved_peak_bytes"], (2 + 30 + 20 + 18) * MIB)


def from_the_middle(t):
    late = dict(SNAPSHOT, device_traces=[EVENTS[6:]])
    r = t.json(late)
    t.check("start", r["reserved_at_start_bytes"], 52 * MIB)
    t.check("late check", (r["check"]["all_equal"], r["check"]["end_equal"]), (True, True))


def failures(t):
    events = EVENTS + [{"action": "oom", "device_free": 25 * MIB, "size": 28 * MIB, "stream": 0, "time_us": 1}]
    r = t.json(dict(SNAPSHOT, device_traces=[events]), "--conf", "expandable_segments:True")
    t.check("capacity", r["capacity_bytes"], 103 * MIB)
    t.check("avoided", [run["ooms_avoided"] for run in r["runs"]], [0, 1])
    r = t.json(SNAPSHOT, "--capacity", "60MiB", "--conf", "roundup_power2_divisions:8")
    t.check("fits", [run["fits"] for run in r["runs"]], [False, False])
    t.check("request", r["runs"][1]["oom_request_bytes"], 25 * MIB)


def differences(t):
    wrong = copy.deepcopy(SNAPSHOT)
    wrong["device_traces"][0][8]["addr"] += 512
    r = t.json(wrong)
    t.check("first", (r["check"]["events_equal"], r["check"]["first_recorded"]["address"],
                      r["check"]["first_replayed"]["address"]), (8, LARGE + 512, LARGE))


def refusals(t):
    for snapshot, says in [
            (b"", "ends early"), (pickle.dumps([1]), "it is no dictionary"),
            (dict(SNAPSHOT, device_traces=[[]]), "it has no events"),
            (dict(SNAPSHOT, segments=None), "it has no list of segments"),
            (dict(SNAPSHOT, segments=[segment(SMALL, 4096, "small", [block(SMALL, 512, 1, "inactive")])]),
             "the blocks of a segment do not fill it")]:
        done = t.run(snapshot)
        t.check("exit", done.returncode, 1)
        t.check("says %r" % done.stderr, says in done.stderr, True)
    done = t.run(SNAPSHOT, "--conf", "expandable_segments:1")
    t.check("usage", (done.returncode, "True or False" in done.stderr), (2, True))


def pages(t):
    html = t.path + ".html"
    done = t.run(SNAPSHOT, "--html", html)
    t.check("text", "The model reproduces the recording" in done.stdout and "net.py:12" in done.stdout, True)
    t.check("columns", [line for line in done.stdout.splitlines() if len(line) > 100], [])
    with open(html) as f:
        page = f.read()
    t.check("page", all(s in page for s in ("</html>", "78.0 MiB", "expandable_segments:True", "net.py:12")), True)
    t.check("offline", "http" in page.replace("http://www.w3.org", ""), False)


def main():
    os.makedirs(sys.argv[2], exist_ok=True)
    t = Test(sys.argv[1], sys.argv[2])
    for part in (by_hand, from_the_middle, failures, differences, refusals, pages):
        part(t)
    print("%d checks, %d failed" % (t.n, t.failed))
    return 1 if t.failed else 0


if __name__ == "__main__":
    sys.exit(main())
