#!/usr/bin/env python3
"""Runs what the documents say and compares: `make docs-check`.

    docs_check.py BUILD [--root DIR] [--only RULE[,RULE]] [FILE ...]

    tables     every generated table is what bench/results gives (scripts/docs_tables.py)
    console    ```console blocks of README.md and docs/user: commands are run, their output is compared
    bytes      <!-- bytes: COMMAND --json PATH -->1,234<!-- /bytes --> is what the command says; options may
               have one hyphen, for renderers whose comments may not hold two
    commands   every plimsoll command line in them has a command and options that exist
    options    the page of a command names every option of the command and no other; shared ones may be in commands/README.md
    links      every link to a file of the tree leads to one, and every #heading to a heading
    times      a time in README.md, docs/user or docs/dev is in a generated table or in bench/results
    blanks     no line of README.md or docs is a word in capitals alone (FIT_TABLE), left to be filled in

A console block: lines that begin with `$ ` are commands, run by bash one after the other in one temporary
folder for each document; what follows is what a terminal shows. `...` alone on a line stands for any lines,
`<time>` for a time or a percentage of time and for nothing else, `# exit 3` declares an exit code.
```console skip="needs a GPU" is not run; skips are counted and printed.

Documents describe one machine, whatever runs this: two cores, kernels for x86-64-v3, no measured profile.
"""
import argparse
import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from decimal import Decimal

import docs_tables

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.M | re.S)
SKIP = re.compile(r'console skip="([^"]+)"$')
EXIT = re.compile(r"# exit (\d+)$")
TIME = r"(?:\d[\d,]*(?:\.\d+)? ?(?:ns|us|ms|s|min|h)|[+-]\d[\d,]*(?:\.\d+)? ?%)(?!\w)"
BYTES = re.compile(r"<!-- bytes: (.*?) -->(.*?)<!-- /bytes -->", re.S)
BYTES_OPENING = re.compile(r"<!-- bytes:")
STATED_TIME = re.compile(r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)[ \u00a0]?(ns|us|µs|ms|s|seconds?|minutes?)(?!\w)")
OPTION_CELL = re.compile(r"^\| `(--?[a-z][\w-]*)", re.M)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
BLANK = re.compile(r"^ {0,3}([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)[ \t]*$", re.M)
SECONDS = {"ns": Decimal("1e-9"), "us": Decimal("1e-6"), "µs": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "second": Decimal(1),
           "seconds": Decimal(1), "minute": Decimal(60), "minutes": Decimal(60)}
ISA, CORES, LIMIT_S = "v3", 2, 900


# ---- running ----

class Machine:
    """Runs commands as the documents' machine would, and remembers what they said."""

    def __init__(self, build):
        self.build, self.answers = os.path.abspath(build), {}

    def environment(self, home):
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("PLIMSOLL_", "OMP_", "GOMP_", "XDG_"))}
        return {**keep, "PATH": self.build + os.pathsep + keep.get("PATH", ""), "HOME": home, "XDG_CONFIG_HOME": os.path.join(home, ".config"),
                "PLIMSOLL_ISA": ISA, "OMP_WAIT_POLICY": "passive", "LC_ALL": "C.UTF-8"}

    def run(self, command, folder, home, errors=subprocess.STDOUT):
        """(exit code, what a terminal shows)."""
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=self.environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=errors, timeout=LIMIT_S, preexec_fn=few_cores, errors="replace", text=True)
        return done.returncode, done.stdout

    def ask(self, words):
        """The JSON of a command, once for all documents."""
        key = tuple(words)
        if key not in self.answers:
            with tempfile.TemporaryDirectory() as folder:
                code, text = self.run(shlex.join(words), folder, folder, errors=subprocess.DEVNULL)
            if code not in (0, 3):
                raise docs_tables.Wrong(f"'{shlex.join(words)}' ends with exit code {code}")
            try:
                self.answers[key] = json.loads(text)
            except json.JSONDecodeError:
                raise docs_tables.Wrong(f"'{shlex.join(words)}' prints no JSON")
        return self.answers[key]


def few_cores():
    # The number of threads decides about workspaces, and so about bytes.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


# ---- documents ----

def line_of(text, at):
    return text[:at].count("\n") + 1


def documents(root, folders):
    found = [os.path.join(root, "README.md")]
    for folder in folders:
        for where, _, names in sorted(os.walk(os.path.join(root, "docs", folder))):
            found += [os.path.join(where, n) for n in sorted(names) if n.endswith(".md")]
    return [f for f in found if os.path.exists(f)]


def read(path):
    with open(path) as f:
        return f.read()


# ---- console blocks ----

class Command:
    def __init__(self, words, line):
        self.text, self.line, self.expected, self.code = words, line, [], 0


def commands_of(block, first_line):
    """The commands of a block, each with the output that is expected of it."""
    found, lines = [], block.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("$ "):
            found.append(Command(line[2:], first_line + i))
        elif found and found[-1].text.endswith("\\") and not found[-1].expected:
            found[-1].text = found[-1].text[:-1].rstrip() + " " + line.lstrip("> ").strip()
        elif found and EXIT.match(line):
            found[-1].code = int(EXIT.match(line)[1])
        elif found:
            found[-1].expected.append(line.rstrip())
        elif line.strip():
            raise docs_tables.Wrong(f"line {first_line + i}: output without a command: '{line}'")
    for c in found:
        while c.expected and not c.expected[-1]:
            c.expected.pop()
    return found


def line_pattern(line):
    """Literal text but for <time>, whose width may move what is aligned beside it."""
    parts = [re.escape(p) for p in line.split("<time>")]
    for i in range(len(parts) - 1):
        parts[i] = re.sub(r"(\\ )+$", " +", parts[i])
        parts[i + 1] = re.sub(r"^(\\ )+", " +", parts[i + 1])
    return re.compile(TIME.join(parts) + "$")


def segments_of(expected):
    """The lines between one `...` and the next, as patterns."""
    segments = [[]]
    for line in expected:
        if line.strip() == "...":
            segments.append([])
        else:
            segments[-1].append(line)
    return segments


def agreeing(segment, got, at):
    """How many lines of a segment agree with the output from `at` on."""
    for i, line in enumerate(segment):
        if at + i >= len(got) or not line_pattern(line).match(got[at + i]):
            return i
    return len(segment)


def first_difference(expected, got):
    """None, or (expected line, what came instead). The first and last segments are anchored, those between are found in order."""
    end, segments, at = "the end of the output", segments_of(expected), 0
    for n, segment in enumerate(segments):
        first, last = n == 0, n == len(segments) - 1
        starts = [at] if first else [max(at, len(got) - len(segment))] if last else range(at, len(got) + 1)
        best = max(starts, key=lambda k: agreeing(segment, got, k), default=at)      # of equals the earliest
        i = agreeing(segment, got, best)
        if i < len(segment):
            alike = [] if i or first or last else difflib.get_close_matches(segment[0], got[at:], 1)   # where it was meant to be
            return segment[i], alike[0] if alike else got[best + i] if best + i < len(got) else end
        at = best + len(segment)
    return None if at == len(got) else (end, got[at])


def run_block(machine, block, first_line, folder, home):
    for c in commands_of(block, first_line):
        try:
            code, text = machine.run(c.text, folder, home)
        except subprocess.TimeoutExpired:
            yield c.line, f"'{c.text}' did not end within {LIMIT_S} s"
            continue
        got = [line.rstrip() for line in text.splitlines()]
        while got and not got[-1]:
            got.pop()
        if code != c.code:
            yield c.line, f"'{c.text}' ends with exit code {code}, not {c.code}" + (f": {got[-1]}" if got else "")
            continue
        wrong = first_difference(c.expected, got)
        if wrong:
            yield c.line, f"'{c.text}' should say '{wrong[0]}' and says '{wrong[1]}'"


def check_console(machine, paths, count):
    for path in paths:
        text = read(path)
        with tempfile.TemporaryDirectory() as home:
            folder = os.path.join(home, "work")
            os.mkdir(folder)
            for m in FENCE.finditer(text):
                info, line = m[1].strip(), line_of(text, m.start())
                if not re.match(r"console\b", info):
                    continue
                if info != "console":
                    if not SKIP.match(info):
                        yield path, line, f"'{info}': a block is skipped as console skip=\"reason\""
                    else:
                        count["skipped"].append(f"{os.path.basename(path)}:{line}: {SKIP.match(info)[1]}")
                    continue
                count["blocks"] += 1
                try:
                    for at, sentence in run_block(machine, m[2], line + 1, folder, home):
                        yield path, at, sentence
                except docs_tables.Wrong as e:
                    yield path, line, str(e)


# ---- bytes ----

def at_path(value, path):
    """value.key[2].key, and [name=micro] for the element of a list."""
    for word in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        if word.startswith("["):
            key, equals, want = word[1:-1].partition("=")
            value = next(v for v in value if str(v.get(key)) == want) if equals else value[int(key)]
        else:
            value = value[word]
    return value


def with_two(word):
    """--json of -json: before CommonMark 0.31 a comment within a line may not hold two hyphens."""
    return "-" + word if re.match(r"-[a-z]{2}", word) else word


def as_stated(stated, value):
    """How the document should put it: with its unit if it has one, else every digit."""
    return docs_tables.size(value) if re.search(r"[KMGT]iB$", stated) else docs_tables.shown(value)


def check_bytes(machine, paths, count):
    for path in paths:
        text = read(path)
        if len(BYTES_OPENING.findall(text)) != len(BYTES.findall(text)):
            yield path, 1, "a '<!-- bytes: ... -->' has no '<!-- /bytes -->'"
            continue
        for m in BYTES.finditer(text):
            line, words, stated = line_of(text, m.start()), [with_two(w) for w in shlex.split(m[1])], m[2].strip()
            if len(words) < 3 or words[-2] != "--json":
                yield path, line, f"'{m[1]}' does not end in --json PATH"
                continue
            command = (["plimsoll"] if words[0] != "plimsoll" else []) + words[:-1]
            count["figures"] += 1
            try:
                value = at_path(machine.ask(command), words[-1])
            except docs_tables.Wrong as e:
                yield path, line, str(e)
                continue
            except (KeyError, IndexError, TypeError, StopIteration, ValueError):
                yield path, line, f"'{shlex.join(command)}' has no {words[-1]}"
                continue
            if stated not in (as_stated(stated, value), str(value)):
                yield path, line, f"'{stated}' should be {as_stated(stated, value)} ({shlex.join(command)} {words[-1]})"


# ---- command lines ----

class Grammar:
    """The commands and options that the program's --help names."""

    def __init__(self, machine):
        with tempfile.TemporaryDirectory() as folder:
            told = machine.run("plimsoll --help", folder, folder)[1]
            self.options = {c: set(re.findall(r"^\s+(--?[a-z][\w-]*)", machine.run(f"plimsoll {c} --help", folder, folder)[1], re.M))
                            for c in sorted(set(re.findall(r"^\s+plimsoll ([a-z]+)", told, re.M)))}

    def wrong(self, words):
        """What is wrong with a command line without its first word, or None."""
        if not words or words[0].startswith("-") or not re.fullmatch(r"[a-z]+", words[0]):
            return None                              # plimsoll --version, plimsoll COMMAND, the word alone
        if words[0] == "help":
            return None
        if words[0] not in self.options:
            return f"plimsoll has no command '{words[0]}'"
        for word in words[1:]:
            name = word.split("=")[0]
            if re.match(r"--?[a-z]", name) and name not in self.options[words[0]] | {"--help"}:
                return f"plimsoll {words[0]} has no option '{name}'"
        return None

    def command_line(self, text):
        """The words after `plimsoll` where a text is a command line of ours, also without that word (`fit --prove`)."""
        words = re.split(r"\s+", re.split(r"  +|\s[|>;&#]|\s&&", text.strip())[0].strip())
        if words[0].endswith("plimsoll"):
            return words[1:]
        return words if words[0] in self.options and any(w.startswith("-") for w in words[1:]) else None


def code_of(text):
    """(line number, text) of every code span, and every line of a code block."""
    fenced = [(m.start(2), m.end(2)) for m in FENCE.finditer(text)]
    at = 0
    for line in text.splitlines(keepends=True):
        number = line_of(text, at)
        if any(a <= at < b for a, b in fenced) or line.startswith("    "):
            yield number, re.sub(r"^\$ ", "", line.strip())
        else:
            for m in re.finditer(r"`([^`\n]+)`", line):
                yield number, m[1]
        at += len(line)


def check_commands(machine, paths, count):
    grammar = Grammar(machine)
    if not grammar.options:
        yield paths[0], 1, "plimsoll --help names no commands"
        return
    for path in paths:
        for line, text in code_of(read(path)):
            words = grammar.command_line(text) if text else None
            if words is None:
                continue
            count["commands"] += 1
            sentence = grammar.wrong(words)
            if sentence:
                yield path, line, f"{sentence}: '{text}'"


# ---- options ----

def check_options(machine, root):
    """Each page docs/user/commands/COMMAND.md against what `plimsoll COMMAND --help` lists."""
    folder = os.path.join(root, "docs/user/commands")
    pages = {os.path.join(folder, f"{c}.md"): options for c, options in Grammar(machine).options.items()}
    shared = set(OPTION_CELL.findall(read(os.path.join(folder, "README.md"))))
    for path, options in pages.items():
        if not os.path.exists(path):
            yield path, 1, "this command has no page"
            continue
        text = read(path)
        for option in sorted(options - shared - set(re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", text))):
            yield path, 1, f"the page does not name the option '{option}'"
        for m in OPTION_CELL.finditer(text):
            if m[1] not in options:
                yield path, line_of(text, m.start()), f"the command has no option '{m[1]}'"


# ---- links ----

def anchors_of(text):
    """The names that a renderer gives to the headings."""
    found = set()
    for title in re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        found.add(name if name not in found else next(f"{name}-{i}" for i in range(1, 99) if f"{name}-{i}" not in found))
    return found


def check_links(paths, count):
    for path in paths:
        text = FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), read(path))
        for m in LINK.finditer(re.sub(r"`[^`\n]*`", lambda c: " " * len(c[0]), text)):
            count["links"] += 1
            name, _, anchor = m[1].partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(to):
                yield path, line_of(text, m.start()), f"the link to '{m[1]}' leads nowhere"
            elif anchor and anchor not in anchors_of(read(to)):
                yield path, line_of(text, m.start()), f"'{name or os.path.basename(path)}' has no heading #{anchor}"


# ---- times ----

def measured_times(results):
    """Every time in bench/results, in seconds. The last word of a key is its unit."""
    found = set()

    def add(value, unit):
        if isinstance(value, list):
            for v in value:
                add(v, unit)
        elif isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            found.add(value * SECONDS[unit])

    for result in results.values():
        for row in result["rows"]:
            for key, value in row.items():
                unit = key.rpartition("_")[2]
                if unit in SECONDS:
                    add(value, unit)
    return found


def without_checked(text):
    """The text with everything that other rules compare blanked out, line by line."""
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])
    text = docs_tables.BLOCK.sub(blank, text)
    text = FENCE.sub(lambda m: blank(m) if m[1].strip() == "console" else m[0], text)
    return re.sub(r"<!--.*?-->", blank, text, flags=re.S)


def check_times(root, paths, count):
    known = measured_times(docs_tables.load_results(root))
    for path in paths:
        text = without_checked(read(path))
        for m in STATED_TIME.finditer(text):
            count["times"] += 1
            if Decimal(m[1].replace(",", "")) * SECONDS[m[2]] not in known:
                yield path, line_of(text, m.start()), f"'{m[0]}' is in no file of bench/results"


# ---- blanks ----

def check_blanks(paths):
    for path in paths:
        text = FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), read(path))
        for m in BLANK.finditer(text):
            yield path, line_of(text, m.start()), f"'{m[1]}' is a place that was never filled in"


# ---- all ----

def check_tables(root, count):
    wrong, count["tables"] = docs_tables.run(root, check=True)
    for sentence in wrong:
        yield None, 0, sentence


def main():
    parser = argparse.ArgumentParser(description="what the documents say against what the program does")
    parser.add_argument("build")
    parser.add_argument("files", nargs="*", help="only these documents, for all rules but tables")
    parser.add_argument("--root", default=docs_tables.HERE)
    parser.add_argument("--only", default="tables,console,bytes,commands,options,links,times,blanks")
    args = parser.parse_args()
    root, machine = os.path.abspath(args.root), Machine(args.build)
    if not os.access(os.path.join(args.build, "plimsoll"), os.X_OK):
        sys.exit(f"docs_check: no program at {args.build}/plimsoll; build it first")
    chosen = {os.path.abspath(f) for f in args.files}
    user, stated = ([p for p in documents(root, folders) if not chosen or p in chosen] for folders in (["user"], ["user", "dev"]))
    linked = [p for p in documents(root, [""]) + [os.path.join(root, n) for n in ("CHANGELOG.md", "examples/README.md", "bench/results/README.md")]
              if os.path.exists(p) and (not chosen or p in chosen)]
    count = {"tables": 0, "blocks": 0, "figures": 0, "commands": 0, "links": 0, "times": 0, "skipped": []}
    rules = {"tables": lambda: check_tables(root, count), "console": lambda: check_console(machine, user, count),
             "bytes": lambda: check_bytes(machine, stated, count), "commands": lambda: check_commands(machine, user, count),
             "options": lambda: check_options(machine, root), "links": lambda: check_links(linked, count),
             "times": lambda: check_times(root, stated, count),
             "blanks": lambda: check_blanks([p for p in documents(root, [""]) if not chosen or p in chosen])}
    failed = 0
    for name in args.only.split(","):
        if name not in rules:
            sys.exit(f"docs_check: no rule '{name}'; there are {', '.join(rules)}")
        try:
            for path, line, sentence in rules[name]():
                failed += 1
                print(f"{f'{os.path.relpath(path, root)}:{line}: ' if path else ''}{name}: {sentence}")
        except docs_tables.Wrong as e:
            failed += 1
            print(f"{name}: {e}")
    for skip in count["skipped"]:
        print(f"skipped: {skip}")
    print(f"docs_check: {count['tables']} tables, {count['blocks']} console blocks run and {len(count['skipped'])} skipped, {count['figures']} "
          f"figures, {count['commands']} command lines, {count['links']} links, {count['times']} times; {failed or 'nothing'} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
