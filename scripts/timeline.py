#!/usr/bin/env python3
"""The figure of the README: live bytes over one training step, before and after planning, with the budget as a line.

    timeline.py PLIMSOLL RECIPE BUDGET OUT.svg [explain options]

Runs `plimsoll explain RECIPE --budget BUDGET --json` and draws its `timeline` (everything kept) and
`plan.timeline` over predicted time. Python's standard library is enough.
"""
import json
import subprocess
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 360, 76, 20, 44, 46


def curve(timeline, accumulate):
    """[(ns, bytes)] of one step: its micro-batches one after another, then the update."""
    points, now = [], 0.0
    for phase in timeline:
        repeat = {"micro": accumulate, "update": 1}.get(phase["phase"], 0)
        for _ in range(repeat):
            for ns, live in zip(phase["ns"], phase["live_bytes"]):
                points.append((now, live))
                now += ns
    return points, now


def thin(points, total, pixels):
    """The highest point of every pixel: a curve of thousands of runs as a path of hundreds."""
    best = {}
    for ns, live in points:
        x = min(pixels - 1, int(ns / total * pixels))
        best[x] = max(best.get(x, 0), live)
    last, out = points[0][1], []
    for x in range(pixels):
        last = best.get(x, last)
        out.append(last)
    return out


def gib(n):
    return f"{n / 2**30:.2f} GiB" if n >= 2**30 else f"{n / 2**20:.0f} MiB"


def main():
    program, recipe, budget, out, *options = sys.argv[1:]
    report = json.loads(subprocess.check_output(
        [program, "explain", recipe, "--budget", budget, "--json", *options], text=True))
    plan = report["plan"]
    before, before_ns = curve(report["timeline"], report["recipe"]["accumulate"])
    after, after_ns = curve(plan["timeline"], plan["accumulate"])
    total, top = max(before_ns, after_ns), report["peak_bytes"] * 1.06
    plot_w, plot_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    y = lambda live: TOP + plot_h * (1 - live / top)
    base = TOP + plot_h

    def path(points, ns):
        pixels = max(2, int(plot_w * ns / total))
        line = " ".join(f"{LEFT + x},{y(live):.1f}" for x, live in enumerate(thin(points, ns, pixels)))
        return f"M{LEFT},{base} L{line} L{LEFT + pixels - 1},{base} Z"

    line = report["budget_bytes"]
    ticks = [i * 2**28 for i in range(1, 64) if i * 2**28 < top]
    while len(ticks) > 6:
        ticks = ticks[1::2]
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="system-ui,sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>',
           f'<text x="{LEFT}" y="24" font-size="15" font-weight="600" fill="#222">{recipe}: live memory over one training step</text>']
    for tick in ticks:
        svg.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e6e6e6"/>'
                   f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end" fill="#666">{gib(tick)}</text>')
    svg += [f'<path d="{path(before, before_ns)}" fill="#c9ced6"/>',
            f'<path d="{path(after, after_ns)}" fill="#2f6fb3" fill-opacity="0.85"/>',
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(line):.1f}" y2="{y(line):.1f}" stroke="#c0392b" stroke-width="2"/>',
            f'<text x="{WIDTH - RIGHT - 6}" y="{y(line) - 7:.1f}" text-anchor="end" fill="#c0392b" font-weight="600">budget {gib(line)}</text>',
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}" stroke="#888"/>',
            f'<text x="{LEFT}" y="{base + 18}" fill="#666">0</text>',
            f'<text x="{WIDTH - RIGHT}" y="{base + 18}" text-anchor="end" fill="#666">predicted time</text>',
            f'<rect x="{LEFT}" y="{base + 26}" width="12" height="12" fill="#c9ced6"/>',
            f'<text x="{LEFT + 18}" y="{base + 37}" fill="#333">everything kept: {gib(report["peak_bytes"])}</text>',
            f'<rect x="{LEFT + 230}" y="{base + 26}" width="12" height="12" fill="#2f6fb3"/>',
            f'<text x="{LEFT + 248}" y="{base + 37}" fill="#333">this plan: {gib(plan["peak_bytes"])}, '
            f'{100 * (plan["slowdown"] - 1):+.1f} % time</text>', "</svg>"]
    with open(out, "w") as file:
        file.write("\n".join(svg) + "\n")


main()
