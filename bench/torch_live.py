"""What was live at the peak of a step on the GPU that is here, beside what plimsoll.explain thinks was: requests that only one of them has.

    torch_live.py MODELS_FILE [--models NAME,...] [--precision fp32,bf16] [--rows N]

Every model is a process of its own: two steps with AdamW (foreach) under torch.cuda.memory._record_memory_history. For each step, the
sizes that are live more often on one side are listed, largest first, with the operator (predicted) or the line (measured).
"""
import argparse
import collections
import subprocess
import sys

import torch_models
import torch_peaks


def live_at_peak(events):
    """events: (id, bytes, label), bytes None for a free. Labels of the live requests by size, when their sum is largest."""
    live, now, most, at = {}, 0, -1, -1
    for i, (number, size, _) in enumerate(events):
        now += size if size is not None else -live.pop(number, 0)
        if size is not None:
            live[number] = size
        if now > most:
            most, at = now, i
    held = {}
    for number, size, label in events[:at + 1]:
        if size is None:
            held.pop(number, None)
        else:
            held[number] = (size, label)
    found = collections.defaultdict(list)
    for size, label in held.values():
        found[size].append(label)
    return most, found


def differences(predicted, measured, rows):
    """Lines about the sizes that are not equally often live."""
    lines = []
    for size in sorted({*predicted, *measured}, reverse=True):
        ours, theirs = predicted.get(size, []), measured.get(size, [])
        if len(ours) != len(theirs):
            more = collections.Counter(theirs if len(theirs) > len(ours) else ours).most_common(2)
            lines.append((abs(len(ours) - len(theirs)) * size, "  %15s bytes: predicted %d, measured %d; %s" % (
                f"{size:,}", len(ours), len(theirs), "; ".join("%d of %s" % (n, label) for label, n in more))))
    return [line for _, line in sorted(lines, reverse=True)[:rows]]


def predicted_events(path, name, precision, version):
    """For each of two steps: what is there before it, then its requests and frees."""
    from plimsoll import _native, capture, explaining, training

    model, loss_fn, batch = torch_models.made(path, name, "meta")
    made = capture.capture(model, loss_fn, batch, training.StepForm("adamw", precision), explaining.find_rules("h200", version))
    events = []
    for action, number, size in made.events:
        a = made.allocations[number]
        if action in (_native.ALLOC, _native.FREE):
            events.append((number, size if action == _native.ALLOC else None, "%s %s %s" % (a.kind, a.op, a.module)))
        else:
            events.append(None)
    return steps_of(events)


def steps_of(events):
    """What lies between the marks (None), each with what was live before it in front."""
    marks = [i for i, e in enumerate(events) if e is None] + [len(events)]
    for begin, end in zip(marks, marks[1:]):
        live = {}
        for event in events[:begin]:
            if event and event[1] is not None:
                live[event[0]] = event
            elif event:
                live.pop(event[0], None)
        yield [*live.values(), *events[begin + 1:end]]


def measured_events(path, name, precision):
    """The same of the GPU, with the whole set-up measured."""
    import torch

    torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python")
    step = torch_peaks.training_step(path, name, precision, "adamw")
    counts = []
    for _ in range(2):
        torch.cuda.synchronize()
        counts.append(len(trace(torch)))
        step()
    torch.cuda.synchronize()
    events = [as_event(e) for e in trace(torch) if e["action"] in ("alloc", "free_requested")]
    for i, count in enumerate(counts):
        events.insert(count + i, None)
    return steps_of(events)


def trace(torch):
    return [e for e in torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
            if e["action"] in ("alloc", "free_requested")]


def as_event(e):
    outside = [f for f in e.get("frames", []) if "/torch/" not in f["filename"]]
    where = "%s:%d %s" % (outside[0]["filename"], outside[0]["line"], outside[0]["name"]) if outside else "no line"
    return e["addr"], e["size"] if e["action"] == "alloc" else None, where


def compare(options):
    import torch

    measured = list(measured_events(options.models_file, options.models, options.precision))
    predicted = predicted_events(options.models_file, options.models, options.precision, torch.__version__)
    for number, (ours, theirs) in enumerate(zip(predicted, measured), 1):
        (a, live_a), (b, live_b) = live_at_peak(ours), live_at_peak(theirs)
        print("%s %s, step %d: predicted %d, measured %d requested bytes at the peak (%+.2f %%)" % (
            options.models, options.precision, number, a, b, torch_peaks.off(a, b)))
        print("\n".join(differences(live_a, live_b, options.rows)), flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("models_file")
    parser.add_argument("--models")
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        return compare(options)
    for name in options.models.split(",") if options.models else torch_models.load(options.models_file, "cpu"):
        for precision in options.precision.split(","):
            done = subprocess.run([sys.executable, "-u", __file__, options.models_file, "--here", "--models", name, "--precision", precision,
                                   "--rows", str(options.rows)], capture_output=True, text=True)
            print(done.stdout if done.returncode == 0 else "%s %s: %s" % (name, precision, done.stderr.strip()[-300:]), flush=True)


if __name__ == "__main__":
    main()
