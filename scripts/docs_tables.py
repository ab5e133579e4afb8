#!/usr/bin/env python3
"""Writes the tables of the documents from the figures in bench/results.

    docs_tables.py [--root DIR]             rewrite every table in README.md and docs/
    docs_tables.py --check [--root DIR]     change nothing; fail where a table differs from its data
    docs_tables.py --print NAME             one table, to look at

A table stands between `<!-- table: NAME -->` and `<!-- end table -->`. bench/results/tables.json says which
rows and columns it has; bench/results/README.md describes both formats.
"""
import argparse
import fnmatch
import json
import os
import re
import sys
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal

FORMAT = "plimsoll-bench-1"
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join("bench", "results")
MIB = 2 ** 20
BLOCK = re.compile(r"^<!-- table: (\S+) -->\n(.*?)^<!-- end table -->$", re.M | re.S)
OPENING = re.compile(r"^<!-- table: (.*?) -->$", re.M)
NUMBER = re.compile(r"[-+]?[\d,]*\d(\.\d+)?( %)?$")


class Wrong(Exception):
    """What is wrong with a file, in one sentence."""


# ---- data ----

def load_json(path):
    # Decimal keeps the digits as they are written: 12.30 ms stays 12.30, which says how exactly it was measured.
    with open(path) as f:
        try:
            return json.load(f, parse_float=Decimal)
        except json.JSONDecodeError as e:
            raise Wrong(f"{path}: {e}")


def check_result(name, result):
    """A results file says what was measured, when, where and by which command."""
    for key in ("format", "date", "machine", "command", "rows"):
        if key not in result:
            raise Wrong(f"{name}: no '{key}'")
    if result["format"] != FORMAT:
        raise Wrong(f"{name}: format '{result['format']}', expected '{FORMAT}'")
    try:
        date.fromisoformat(result["date"])
    except ValueError:
        raise Wrong(f"{name}: '{result['date']}' is not a date")
    machine = result["machine"]
    if "name" not in machine or not ("cpu" in machine or "gpu" in machine):
        raise Wrong(f"{name}: the machine needs a name and a cpu or gpu")
    if not name.startswith(f"{result['date']}-{machine['name']}"):
        raise Wrong(f"{name}: should be named {result['date']}-{machine['name']}-KIND.json")
    if not result["command"] and not result.get("origin"):
        raise Wrong(f"{name}: neither a command nor an origin says where the figures come from")
    for i, row in enumerate(result["rows"]):
        if not row.get("work"):
            raise Wrong(f"{name}: row {i + 1} has no 'work'")


def load_results(root):
    """{file name: contents} of every results file, each checked."""
    folder, results = os.path.join(root, RESULTS), {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json") and name != "tables.json":
            results[name] = load_json(os.path.join(folder, name))
            check_result(name, results[name])
    return results


# ---- one table ----

def matches(row, where):
    return all(row.get(key) in (want if isinstance(want, list) else [want]) for key, want in where.items())


def lowest(value):
    return min(value) if isinstance(value, list) else value


def picked(rows, how):
    """The row of a group that `how` describes; of several the first, or the one with the smallest `min`."""
    how = dict(how)
    least = how.pop("min", None)
    found = [r for r in rows if matches(r, how) and (not least or least in r)]
    return (min(found, key=lambda r: lowest(r[least])) if least else found[0]) if found else {}


def number(n):
    return f"{n:,}"


def shown(value):
    if value is None:
        return ""
    if isinstance(value, list):
        return " to ".join(shown(v) for v in value)
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    return number(value)


def rounded(value, places):
    return number(value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN))


def size(bytes_):
    """Bytes with three digits, as the program prints them."""
    n = Decimal(bytes_)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return rounded(n, 0 if unit == "B" or n >= 100 else 1 if n >= 10 else 2) + " " + unit
        n /= 1024


def any_size(row):
    """A row's memory, in the unit in which it is known; nothing where it is not."""
    return (size(row["bytes"]) if "bytes" in row else f"{shown(row['mib'])} MiB" if "mib" in row
            else f"{shown(row['gib'])} GiB" if "gib" in row else "")


def signed_percent(n):
    return ("+" if n >= 0 else "") + f"{n} %"


def planned(row):
    """A row's plan in one cell: its memory, what it costs in time and how it is done."""
    if not row:
        return ""
    size_ = "fits" if row.get("fits") else ("minimum " if row.get("min") else "") + any_size(row)
    extra = f", {signed_percent(row['extra_percent'])}" if "extra_percent" in row else ""
    return size_ + extra + (f" ({row['levers']})" if "levers" in row else "")


FORMATS = {
    "size": size,
    "of mib": lambda n: size(n * MIB),
    "gib": lambda n: f"{shown(n)} GiB",
    "+%": signed_percent,
    "above": lambda n: rounded(n, 2) if n >= 0 else "below S",
    "ratio": lambda n: rounded(n, 2 if n < 10 else 1),
    "bold": lambda n: f"**{shown(n)}**",
    **{str(places): lambda n, places=places: rounded(Decimal(n), places) for places in range(4)},
}
WHOLE_ROWS = {"size": any_size, "plan": planned}
FUNCTIONS = {                        # of numbers; a cell is empty where one of them is missing
    "ratio": lambda a, b: Decimal(a) / Decimal(b),
    "above": lambda ours, theirs, s: (Decimal(ours) - s) / (Decimal(theirs) - s),
    "above_mib": lambda ours, theirs_mib, s: (Decimal(ours) - s) / (theirs_mib * MIB - s),
    "of_mib": lambda ours, theirs_mib: Decimal(ours) / (theirs_mib * MIB),
    "join": lambda *all_: ", ".join(shown(a) for a in all_),
    "pair": lambda a, b: f"{shown(a)} / {shown(b)}",
    "rate": lambda a, b: f"{shown(a)} ({shown(b)})",
}


def look_up(word, rows, picks):
    name, _, key = word.rpartition(".")
    row = picks[name] if name else next((r for r in rows if key in r), {})
    return row.get(key)


def cell(text, rows, picks):
    """'KEY', 'PICK.KEY', 'FUNCTION ARGUMENT...' or 'size PICK', 'plan PICK'; after a bar the format."""
    text, _, form = (part.strip() for part in text.partition("|"))
    words = text.split()
    if words[0] in WHOLE_ROWS:
        return WHOLE_ROWS[words[0]](picks[words[1]])
    if len(words) == 1:
        value = look_up(text, rows, picks)
    else:
        values = [look_up(w, rows, picks) for w in words[1:]]
        value = None if any(v is None for v in values) else FUNCTIONS[words[0]](*values)
    return shown(value) if value is None or not form else FORMATS[form](value)


def grouped(rows, keys):
    """Rows that agree in all keys, in the order in which each group first appears."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row.get(k) for k in keys), []).append(row)
    return list(groups.values())


def aligned(cells):
    return "---:" if all(NUMBER.match(c.strip("*")) for c in cells if c) and any(cells) else "---"


def newest(pattern, results):
    """The file of that name, or the newest of a pattern such as *-h200-steps.json: names begin with their dates."""
    found = fnmatch.filter(results, pattern)
    if not found:
        raise Wrong(f"tables.json: no results file is named {pattern}")
    return max(found)


def table(name, tables, results):
    """The Markdown of a table, ending with a newline."""
    if name not in tables:
        raise Wrong(f"tables.json has no table '{name}'")
    t = tables[name]
    files = t["from"] if isinstance(t["from"], list) else [t["from"]]
    try:
        rows = [r for f in files for r in results[newest(f, results)]["rows"] if matches(r, t.get("where", {}))]
        groups = grouped(rows, t["by"]) if "by" in t else [[r] for r in rows]
        lines = []
        for group in groups:
            picks = {pick: picked(group, how) for pick, how in t.get("pick", {}).items()}
            if all(picks.get(p) for p in t.get("needs", [])):
                lines.append([cell(text, group, picks) for text in t["columns"].values()])
    except KeyError as e:
        raise Wrong(f"tables.json: table '{name}' names {e}, which is not there")
    if not lines:
        raise Wrong(f"tables.json: table '{name}' has no rows")
    out = [" | ".join(t["columns"]), "|".join(aligned(column) for column in zip(*lines))]
    return "".join(f"| {line} |\n" if i != 1 else f"|{line}|\n" for i, line in enumerate(out + [" | ".join(line) for line in lines]))


# ---- documents ----

def documents(root):
    found = [os.path.join(root, "README.md")]
    for folder, _, names in sorted(os.walk(os.path.join(root, "docs"))):
        found += [os.path.join(folder, n) for n in sorted(names) if n.endswith(".md")]
    return [f for f in found if os.path.exists(f)]


def rewritten(text, path, tables, results):
    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        raise Wrong(f"{path}: a table has no '<!-- end table -->'")
    return BLOCK.sub(lambda m: f"<!-- table: {m[1]} -->\n{table(m[1], tables, results)}<!-- end table -->", text)


def differences(path, old, new):
    """One sentence for each table of a document that is not what its data gives."""
    for was, now in zip(BLOCK.finditer(old), BLOCK.finditer(new)):
        if was[0] != now[0]:
            a, b = was[2].splitlines(), now[2].splitlines()
            line = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            yield (f"{path}:{old[:was.start(2)].count(chr(10)) + 1 + line}: table {was[1]} says '{a[line] if line < len(a) else ''}', "
                   f"the data '{b[line] if line < len(b) else ''}'")


def run(root, check):
    """Sentences of what is wrong; without `check` the documents are mended."""
    wrong, n = [], 0
    try:
        results, tables = load_results(root), load_json(os.path.join(root, RESULTS, "tables.json"))
        for name in tables:                              # also those that no document shows
            table(name, tables, results)
        for path in documents(root):
            with open(path) as f:
                old = f.read()
            new = rewritten(old, os.path.relpath(path, root), tables, results)
            n += len(BLOCK.findall(new))
            if check:
                wrong += differences(os.path.relpath(path, root), old, new)
            elif new != old:
                with open(path, "w") as f:
                    f.write(new)
                print("wrote", os.path.relpath(path, root))
    except Wrong as e:
        wrong.append(str(e))
    return wrong, n


def main():
    parser = argparse.ArgumentParser(description="tables of the documents from bench/results")
    parser.add_argument("--root", default=HERE)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--print", metavar="NAME")
    args = parser.parse_args()
    if args.print:
        try:
            print(table(args.print, load_json(os.path.join(args.root, RESULTS, "tables.json")), load_results(args.root)), end="")
        except Wrong as e:
            sys.exit(f"docs_tables: {e}")
        return 0
    wrong, n = run(args.root, args.check)
    for sentence in wrong:
        print(f"docs_tables: {sentence}", file=sys.stderr)
    if args.check and not wrong:
        print(f"docs_tables: {n} tables are what the data gives")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
