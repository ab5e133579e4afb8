"""Each rule of scripts/docs_check.py fails when it should, and says where: a small document tree and a program
that is a few lines of shell. Nothing of the real documents or the real program is needed.

    docs_check.py
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "docs_check.py")

PROGRAM = """#!/bin/sh
case "$*" in
--help) printf '  plimsoll explain MODEL\\n      explains\\n  plimsoll fit MODEL --budget B\\n      fits\\n' ;;
"explain --help") printf '  --json    as JSON\\n  --budget B   bytes\\n' ;;
"fit --help") printf '  --budget B   bytes\\n  --effort N   moves\\n  -o FILE    plan\\n' ;;
"explain tiny --json") echo '{"peak_bytes": 1694681312, "phases": [{"name": "micro", "arena_bytes": 2048}]}' ;;
"explain tiny") printf 'One step needs 1,694,681,312 bytes.\\nmore\\nand more\\n  optimizer 268,683,184    12 s\\n' ;;
"fit tiny --budget 1") echo "plimsoll: tiny does not fit" >&2; exit 3 ;;
"fit tiny --budget 9 -o p") echo kept > p; echo "9 nodes, $(nproc) cores, $PLIMSOLL_ISA: 5.9 s/step, time +0.7 %" ;;
*) echo "plimsoll: what is '$*'?" >&2; exit 2 ;;
esac
"""
RESULTS = """{
  "format": "plimsoll-bench-1", "date": "2026-11-16", "machine": {"name": "toy", "cpu": "a toy"}, "command": "bench",
  "rows": [
    {"work": "tiny", "variant": "ours", "ms": 12.30, "bytes": 2048},
    {"work": "tiny", "variant": "theirs", "ms": 24.6, "bytes": 4096},
    {"work": "tiny", "variant": "theirs, slower", "ms": [30, 1500]}
  ]
}
"""
TABLES = """{
  "toy": {
    "from": "*-toy-steps.json", "by": ["work"],
    "pick": {"ours": {"variant": "ours"}, "best": {"variant": ["theirs", "theirs, slower"], "min": "ms"}},
    "columns": {"work": "work", "ms": "ours.ms", "speedup": "ratio best.ms ours.ms | 2", "memory": "ours.bytes | size"}
  }
}
"""
README = """# Toy

<!-- table: toy -->
| work | ms | speedup | memory |
|---|---:|---:|---|
| tiny | 12.30 | 2.00 | 2.00 KiB |
<!-- end table -->

```console
$ plimsoll explain tiny
One step needs 1,694,681,312 bytes.
...
  optimizer 268,683,184 <time>
$ plimsoll fit tiny --budget 1
plimsoll: tiny does not fit
# exit 3
$ plimsoll fit tiny \\
    --budget 9 -o p
9 nodes, 2 cores, v3: <time>/step, time <time>
```

It needs <!-- bytes: plimsoll explain tiny --json peak_bytes -->1,694,681,312<!-- /bytes --> bytes,
<!-- bytes: explain tiny -json phases[name=micro].arena_bytes -->2.00 KiB<!-- /bytes --> of them now.
"""
USER = """# Use

```console
$ test ! -e p && echo a folder of its own
a folder of its own
```

```console skip="needs a GPU"
$ plimsoll explain tiny --json
```

`plimsoll fit MODEL --budget B` takes 24.6 ms, at most 1.5 s; `fit --effort 3` more, `plimsoll COMMAND --help` helps.

    plimsoll fit tiny -o plan.json     keeps --nothing
"""
COMMANDS = """# Commands

## Common options

| `--budget B` | bytes |
"""
EXPLAIN = """# explain

| `--json` | as JSON; see [use](../use.md#use) and [the others](README.md#common-options) |
"""
FIT = """# fit

`--effort N` are moves.

| `-o FILE` | the plan |
"""
TREE = {"README.md": README, "docs/user/use.md": USER, "docs/user/commands/README.md": COMMANDS, "docs/user/commands/explain.md": EXPLAIN,
        "docs/user/commands/fit.md": FIT, "docs/dev/dev.md": "It takes 12.3 ms.\n", "docs/notes/old.md": "It took 99 ms once.\n",
        "bench/results/2026-11-16-toy-steps.json": RESULTS, "bench/results/tables.json": TABLES, "build/plimsoll": PROGRAM}

failed = 0


def check(what, changes, rule, *said):
    """The tree with each (file, old text, new text) applied: nothing is wrong, or rule and words are said."""
    global failed
    with tempfile.TemporaryDirectory() as root:
        for path, text in TREE.items():
            for _, old, new in (c for c in changes if c[0] == path):
                assert old in text, f"{what}: no '{old}' in {path}"
                text = text.replace(old, new)
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as f:
                f.write(text)
        os.chmod(os.path.join(root, "build/plimsoll"), 0o755)
        done = subprocess.run([sys.executable, SCRIPT, os.path.join(root, "build"), "--root", root], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if re.match(rf"(\S+:\d+: )?{rule}: ", line)] if rule else []
    good = (done.returncode == (1 if rule else 0) and (not rule or len(lines) == 1)
            and all(word in (lines[0] if rule else done.stdout) for word in said))
    if not good:
        failed += 1
        print(f"{what}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


check("as it is", [], None, "1 tables, 2 console blocks run and 1 skipped, 2 figures", "3 times; nothing wrong",
      "skipped: use.md:8: needs a GPU")

# tables
check("a table that was edited", [("README.md", "| tiny | 12.30", "| tiny | 12.3")], "tables", "README.md:6", "'| tiny | 12.30 | 2.00 | 2.00 KiB |'")
check("data that changed", [("bench/results/2026-11-16-toy-steps.json", "24.6", "27.6")], "tables", "2.24")
check("a table that has no end", [("README.md", "<!-- end table -->", "")], "tables", "end table")
check("a table that is not defined", [("README.md", "<!-- table: toy -->", "<!-- table: toi -->")], "tables", "'toi'")
check("a file without a command or an origin", [("bench/results/2026-11-16-toy-steps.json", '"bench"', '""')], "tables", "origin")
check("a file under another date", [("bench/results/2026-11-16-toy-steps.json", "2026-11-16", "2026-11-17")], "tables", "should be named")
check("a pick that is not there", [("bench/results/tables.json", "ours.ms |", "our.ms |")], "tables", "'our'")

# console
check("bytes in output", [("README.md", "1,694,681,312 bytes.", "1,694,658,848 bytes.")], "console", "README.md:10", "1,694,658,848", "1,694,681,312")
check("a count in output", [("README.md", "9 nodes", "8 nodes")], "console", "README.md:17", "'8 nodes")
check("lines left out without a word", [("README.md", "...\n", "")], "console", "'more'")
check("output that goes on", [("README.md", "...\n  optimizer 268,683,184 <time>\n", "more\n")], "console", "the end of the output", "and more")
check("<time> for bytes", [("README.md", "268,683,184 <time>", "<time>    12 s")], "console", "268,683,184")
check("<time> for a count", [("README.md", "9 nodes", "<time> nodes")], "console", "9 nodes")
check("an exit code that was not declared", [("README.md", "# exit 3\n", "")], "console", "exit code 3, not 0")
check("an exit code that did not come", [("README.md", "$ plimsoll fit tiny --budget 1\nplimsoll: tiny does not fit", "$ true")], "console", "exit code 0, not 3")
check("a skip without a reason", [("docs/user/use.md", 'console skip="needs a GPU"', "console skip")], "console", "use.md:8", "reason")
check("a folder that another document used", [("docs/user/use.md", "test ! -e p", "test -e p")], "console", "exit code 1")

# bytes
check("a figure in a sentence", [("README.md", "1,694,681,312<!-- /", "1,694,658,848<!-- /")], "bytes", "README.md:22", "1,694,681,312")
check("a figure with a unit", [("README.md", "2.00 KiB<!-- /", "2.10 KiB<!-- /")], "bytes", "2.00 KiB")
check("a path that is not there", [("README.md", "--json peak_bytes", "--json peak")], "bytes", "has no peak")
check("a phase that is not there", [("README.md", "name=micro", "name=macro")], "bytes", "macro")
check("a command that fails", [("README.md", "plimsoll explain tiny --json peak_bytes", "plimsoll explain big --json peak_bytes")], "bytes", "exit code 2")
check("a figure without its end", [("README.md", "1,694,681,312<!-- /bytes -->", "1,694,681,312")], "bytes", "/bytes")

# commands
check("a command that does not exist", [("docs/user/use.md", "`plimsoll fit MODEL", "`plimsoll squeeze MODEL")], "commands", "use.md:12", "'squeeze'")
check("an option that does not exist", [("docs/user/use.md", "--budget B`", "--bugdet B`")], "commands", "'--bugdet'")
check("an option of another command", [("docs/user/use.md", "fit --effort 3", "explain --effort 3")], "commands", "explain has no option '--effort'")
check("an option in a code block", [("docs/user/use.md", "tiny -o plan", "tiny -q plan")], "commands", "use.md:14", "'-q'")

# options
check("an option that no page names", [("docs/user/commands/fit.md", "`--effort N` are moves.", "Moves.")], "options", "fit.md:1", "--effort")
check("an option that a longer one hides", [("docs/user/commands/fit.md", "--effort N", "--effort-of N")], "options", "'--effort'")
check("an option that the command has not", [("docs/user/commands/explain.md", "| `--json`", "| `--jsno FILE` | x |\n| `--json`")], "options", "explain.md:3", "--jsno")
check("an option that only all commands share", [("docs/user/commands/README.md", "| `--budget B` | bytes |", ""),
                                                 ("docs/user/commands/fit.md", "moves.", "moves, `--budget B` bytes.")], "options", "explain.md", "--budget")

# links
check("a link to a file that is not there", [("docs/user/commands/explain.md", "../use.md#use", "../usage.md")], "links", "explain.md:3", "../usage.md")
check("a link to a heading that is not there", [("docs/user/commands/explain.md", "#common-options", "#options")], "links", "#options")
check("a link outside", [("docs/dev/dev.md", "It takes", "[Here](https://example.org/x) it takes")], None)

# times
check("a time that nobody measured", [("docs/user/use.md", "24.6 ms", "24.7 ms")], "times", "use.md:12", "24.7 ms")
check("a time in a developer's document", [("docs/dev/dev.md", "12.3 ms", "12.4 ms")], "times", "dev.md:1")
check("a time of another unit", [("docs/user/use.md", "1.5 s", "1.5 ms")], "times", "1.5 ms")
check("a time in a block that is skipped", [("docs/user/use.md", "$ plimsoll explain tiny --json\n", "$ plimsoll explain tiny --json\n7 s\n")], "times", "7 s")

# blanks
check("a table that was never made", [("docs/notes/old.md", "once.\n", "once.\n\nOLD_TABLE\n")], "blanks", "old.md:3", "'OLD_TABLE'")
check("a constant in a code block", [("docs/notes/old.md", "once.\n", "once.\n\n```\nMAX_INPUTS\n```\n")], None, "nothing wrong")

if failed:
    sys.exit(f"{failed} checks of docs_check failed")
print("docs_check fails where it should")
