#!/usr/bin/env python3
"""Finds words that docs/GLOSSARY.md replaces, by the patterns of scripts/words.txt.

    check_words.py [--program build/plimsoll] [--count [DEPTH]] [--root FOLDER] [PATH ...]

Looks at names of files and at their text in src, tests, bench, scripts, docs, recipes, profiles, cmake and
the files at the top; with --program also at what the program prints: every --help, and text and JSON of
explain, compare, fit, plan, layout and train on small inputs. PATHs limit the search to files or folders.
Prints "file:line: ..." for every word found and exits with 1; --count prints a table instead, pattern by
folder (DEPTH folders deep, 1 unless said), so that the work can be divided.

The last column of the glossary's tables names the old words, and is not looked at; nor are the sections
of CHANGELOG.md below the first.
"""
import argparse
import bisect
import collections
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACES = ["src", "tests", "bench", "scripts", "docs", "recipes", "profiles", "cmake", ".ci",
          "README.md", "CHANGELOG.md", "CMakeLists.txt", "Makefile"]
SKIPPED_FOLDERS = {".git", "__pycache__", "node_modules"}
TEXT_LIMIT = 8 << 20                              # no source is longer

# A space of a pattern: also where a line of a comment, a paragraph or a table ends.
SPACE = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:\*|//|#|;|>)?[ \t]*)"

# Small inputs for `plan` and `layout`: see docs on formats.
GRAPH = """{"format": "plimsoll-graph-1", "finals": ["loss"], "values": [
 {"id": "w", "bytes": 64, "persistent": true}, {"id": "a", "bytes": 400}, {"id": "b", "bytes": 400},
 {"id": "c", "bytes": 400}, {"id": "loss", "bytes": 40}],
 "nodes": [
 {"id": "n0", "cost": 10, "inputs": ["w"], "outputs": ["a"]}, {"id": "n1", "cost": 10, "inputs": ["a"], "outputs": ["b"]},
 {"id": "n2", "cost": 10, "inputs": ["b"], "outputs": ["c"]}, {"id": "n3", "cost": 10, "inputs": ["c", "a"], "outputs": ["loss"]}]}
"""
BUFFERS = "id,lower,upper,size\na,0,3,64\nb,1,4,128\nc,3,6,64\n"


def expand(pattern):
    """{word|words}: these in prose, or as a part of a name in any of the usual spellings."""
    def spellings(m):
        words = [word.replace(" ", "[ _]") for word in m.group(1).split("|")]
        capital = [word[0].upper() + word[1:] for word in words]
        upper = [word.upper() for word in words]
        return r"(?:(?<![A-Za-z])(?:%s)(?![a-z])|(?<![A-Z])(?:%s)(?![a-z])|(?<![A-Za-z])(?:%s)(?![A-Za-z]))" % (
            "|".join(words), "|".join(capital), "|".join(upper))

    pattern = re.sub(r"\{([a-z][a-z ?_|]*)\}", spellings, pattern)
    return re.sub(r"\[ ([^]]*)\]| ", lambda m: "(?:[%s]|%s)" % (m.group(1), SPACE) if m.group(1) else SPACE, pattern)


def stems(pattern):
    """Of a pattern that is one {...}: texts of which one must be there. Saves most of the searching."""
    m = re.match(r"\{([a-z?|]+)\}(?:\(\?!.*\))?$", pattern)
    return [re.sub(r".\?", "", word) for word in m.group(1).split("|")] if m else None


class Words:
    """The list: patterns, and what is exempt."""

    def __init__(self, path):
        self.patterns = []                        # (text, compiled, instead, globs, globs left out, stems)
        self.exempt = []                          # (glob, string or None)
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                line = line.rstrip("\n")
                if not line.strip() or line.startswith("#"):
                    continue
                fields = line.split("\t")
                if fields[0] == "exempt":
                    self.exempt.append((fields[1], fields[2] if len(fields) > 2 else None))
                    continue
                if len(fields) < 2:
                    sys.exit("%s:%d: a pattern needs a tab and what to write instead" % (path, number))
                where = fields[2].split() if len(fields) > 2 else []
                try:
                    compiled = re.compile(expand(fields[0]))
                except re.error as error:
                    sys.exit("%s:%d: %s" % (path, number, error))
                self.patterns.append((fields[0], compiled, fields[1], [g for g in where if g[0] != "!"],
                                      [g[1:] for g in where if g[0] == "!"], stems(fields[0])))

    def skips(self, path):
        return any(string is None and fnmatch.fnmatch(path, glob) for glob, string in self.exempt)

    def find(self, path, text):
        """Yields (offset, length, pattern, instead) of every word found in a text, from left to right."""
        for glob, string in self.exempt:
            if string and fnmatch.fnmatch(path, glob):
                text = text.replace(string, " " * len(string))
        taken = []                                # a word that two patterns refuse is one finding
        small = text.lower()
        for pattern, compiled, instead, where, left_out, needed in self.patterns:
            if needed and not any(stem in small for stem in needed):
                continue
            if where and not any(fnmatch.fnmatch(path, g) for g in where) or any(fnmatch.fnmatch(path, g) for g in left_out):
                continue
            for m in compiled.finditer(text):
                if m.group() and not any(a < m.end() and m.start() < b for a, b in taken):
                    taken.append((m.start(), m.end()))
                    yield m.start(), m.end() - m.start(), pattern, instead


def prepare(path, text):
    """A file's text without what is not looked at; lines stay where they are."""
    name = os.path.basename(path)
    if name == "GLOSSARY.md":
        return re.sub(r"(?m)^(\|.*\|)[^|\n]*\|[ \t]*$", r"\1", text)
    if name == "CHANGELOG.md":
        sections = [m.start() for m in re.finditer(r"(?m)^## ", text)]
        return text[:sections[1]] if len(sections) > 1 else text
    return text


def files(root, places):
    for place in places:
        top = os.path.join(root, place)
        if os.path.isfile(top):
            yield place
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
            for name in sorted(names):
                yield os.path.relpath(os.path.join(folder, name), root)


def texts(root, places):
    """Yields (path, text); a file that is no text has its name alone."""
    for path in files(root, places):
        with open(os.path.join(root, path), "rb") as f:
            data = f.read(TEXT_LIMIT)
        yield path, "" if b"\0" in data else data.decode("utf-8", errors="replace")


def outputs(program):
    """Yields (name, text) of what the program says and writes on small inputs."""
    program = os.path.abspath(program)
    if not os.access(program, os.X_OK):
        sys.exit("check_words.py: %s is not there: build first" % program)

    def run(words, expect=(0,), cwd=None):
        done = subprocess.run([program, *words], capture_output=True, text=True, errors="replace", cwd=cwd, timeout=600)
        if done.returncode not in expect:
            sys.exit("check_words.py: plimsoll %s: %s" % (" ".join(words), (done.stderr.strip() or "status %d" % done.returncode)[:500]))
        return done.stdout + done.stderr

    usage = run(["--help"])
    yield "--help", usage
    commands = sorted(set(re.findall(r"^ +plimsoll ([a-z]\w*)\b", usage, re.M)))
    if not commands:
        sys.exit("check_words.py: plimsoll --help names no command")
    for command in commands:
        yield command + " --help", run([command, "--help"])
    if "help" in commands:
        yield "help recipe", run(["help", "recipe"])
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("graph.json", GRAPH), ("buffers.csv", BUFFERS)):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        quick = ["--effort", "200"]
        budget = ["--budget", "80%"]
        for words, written in (
                (["explain", "unet-small", *quick], []), (["explain", "unet-small", "--json", *quick], []),
                (["explain", "unet-small", "--what-if", "--md", "explain.md", "--html", "explain.html", *quick, *budget], ["explain.md", "explain.html"]),
                (["compare", "unet-small", *quick], []), (["compare", "unet-small", "--json", "--md", "compare.md", *quick], ["compare.md"]),
                (["fit", "unet-small", *budget, *quick, "-o", "fit.json"], ["fit.json"]),
                (["fit", "unet-small", *budget, *quick, "--json", "--prove", "--curve", "--what-if"], []),
                (["fit", "unet-small", "--budget", "64KiB", *quick], []),
                (["plan", "graph.json", "--budget", "1000", "-o", "plan.json"], ["plan.json"]),
                (["plan", "graph.json", "--budget", "1000", "--json", "--curve", "--prove"], []),
                (["plan", "graph.json", "--budget", "1000", "--layout"], []),
                (["layout", "buffers.csv", "-o", "layout.csv"], ["layout.csv"]), (["layout", "buffers.csv", "--json"], []),
                (["train", "unet-small", "--steps", "1", "--json", "--out", "run"], ["run/log.jsonl"])):
            yield " ".join(words), run(words, (0, 3), folder)
            for name in written:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                    yield "%s, %s" % (words[0], name), f.read()


def look(words, places, root, program, only):
    """Yields (path, line, text found, pattern, instead)."""
    sources = ((path, text) for path, text in texts(root, places)
               if not only or any(path == p or path.startswith(p.rstrip("/") + "/") for p in only))
    for path, text in sources:
        if words.skips(path):
            continue
        for at, n, pattern, instead in words.find(path, path):
            yield path, 0, path[at:at + n], pattern, instead
        yield from look_in(words, path, prepare(path, text))
    if program:
        for name, text in outputs(program):
            yield from look_in(words, "output/" + name, text)


def look_in(words, path, text):
    starts = [0] + [m.end() for m in re.finditer("\n", text)]
    for at, n, pattern, instead in words.find(path, text):
        start = at - len(re.search(r"\w*$", text[max(0, at - 80):at]).group())       # the whole name
        end = at + n + len(re.match(r"\w*", text[at + n:at + n + 80]).group())
        yield path, bisect.bisect_right(starts, at), " ".join(text[start:end].split()), pattern, instead


def print_table(found, depth):
    table, total = collections.defaultdict(collections.Counter), collections.Counter()
    for path, _, _, pattern, _ in found:
        folder = "/".join(path.split("/")[:-1][:depth]) or "top"
        table[pattern][folder] += 1
        total[folder] += 1
    folders = sorted(total)
    width = [max(6, len(f)) for f in folders]

    def row(name, counts):
        print("%6d %s  %s" % (sum(counts.values()), " ".join("%*s" % (w, counts[f] or "." if f in counts else ".") for f, w in zip(folders, width)), name))

    print("%6s %s  pattern" % ("hits", " ".join("%*s" % (w, f) for f, w in zip(folders, width))))
    for pattern, counts in sorted(table.items(), key=lambda item: -sum(item[1].values())):
        row(pattern if len(pattern) <= 60 else pattern[:57] + "...", counts)
    row("all", total)


def main():
    parser = argparse.ArgumentParser(description="Finds words that docs/GLOSSARY.md replaces.")
    parser.add_argument("--root", default=HERE, help="the tree to look at (default: this one)")
    parser.add_argument("--words", help="the list (default: scripts/words.txt of the tree)")
    parser.add_argument("--program", help="the built program, whose output is looked at too")
    parser.add_argument("--count", nargs="?", type=int, const=1, metavar="DEPTH", help="a table, pattern by folder")
    parser.add_argument("paths", nargs="*", help="only these files and folders, from the root")
    options = parser.parse_args()
    root = os.path.abspath(options.root)
    words = Words(options.words or os.path.join(root, "scripts/words.txt"))
    found = look(words, PLACES, root, options.program, options.paths)
    if options.count:
        found = list(found)
        print_table(found, options.count)
        return 1 if found else 0
    n = 0
    for path, line, text, _, instead in found:
        n += 1
        where = "%s:%d" % (path, line) if line else "%s:1" % path
        print("%s: '%s'%s: write %s" % (where, text, "" if line else " in the file's name", instead))
    if not n:
        print("words: none that the glossary replaces")
    return 1 if n else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(1)
