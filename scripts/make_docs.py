#!/usr/bin/env python3
"""Writes docs/user/seeds/*.md from what the program says.

    make_docs.py PLIMSOLL [CACHE]     CACHE: a folder that keeps the program's answers between calls

Takes some minutes: every lever of every seed is re-planned.
"""
import os
import sys

from ask import HERE, Tool
from seed_claims import SEEDS, WITH_WHAT_IF, Report, both, count, size

TOOL = Tool(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
WHAT_IF = ["--what-if", "--time-limit", "600"]


def explain(recipe, *options):
    return Report(TOOL.ask("explain", recipe, "--threads", "2", *options, "--json"))


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


os.makedirs(os.path.join(HERE, "docs/user/seeds"), exist_ok=True)
for one in SEEDS:
    seed(*one)
