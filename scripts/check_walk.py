#!/usr/bin/env python3
"""Holds the names in docs/dev/*.md to the tree.

    check_walk.py [--root FOLDER]

In backticks:
  `src/plan/engine.c: engine_choose`   the function, macro or type is declared or defined in that file;
                                       several names are separated by commas
  `src/plan/engine.c`, `src/plan/`     the file or folder exists (so do paths below tests, scripts, docs,
                                       bench, recipes, profiles, cmake); `src/ops/*/cases_*.c` finds something
  `engine_choose()`                    some C file below src, tests or bench declares or defines it

docs/dev/WALK.md must have a section "A newcomer's questions" with a table question | answer of at least
15 rows, each of whose answers names a file and a function in the first form. Code blocks are not looked at.
Prints "file:line: sentence" for every name that is not there, and exits with 1.
"""
import argparse
import glob
import os
import re
import sys

from c_source import SUFFIXES, Source

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WALK = "docs/dev/WALK.md"
TITLE = "A newcomer's questions"
QUESTIONS = 15
FOLDERS = ("src", "tests", "scripts", "docs", "bench", "recipes", "profiles", "cmake", ".ci")

PATH = r"(?:%s)/[\w./*<>{},-]*" % "|".join(re.escape(f) for f in FOLDERS)
NAMES = r"[A-Za-z_]\w*(?:\(\))?(?:, *[A-Za-z_]\w*(?:\(\))?)*"


class Tree:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self._names = {}

    def say(self, path, line, sentence):
        self.findings.append((path, line, sentence))

    def names(self, path):
        """What a file declares or defines: functions, variables, types, macros, enum values; scripts' functions."""
        if path not in self._names:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
                self._names[path] = names_in(path, f.read())
        return self._names[path]

    def everywhere(self):
        """The names of all C files."""
        if None not in self._names:
            found = set()
            for top in ("src", "tests", "bench"):
                for folder, _, names in os.walk(os.path.join(self.root, top)):
                    for name in names:
                        if name.endswith(SUFFIXES):
                            found |= self.names(os.path.relpath(os.path.join(folder, name), self.root))
            self._names[None] = found
        return self._names[None]


def names_in(path, text):
    if not path.endswith(SUFFIXES):               # Python, JavaScript, shell
        found = re.findall(r"(?m)^\s*(?:async\s+)?(?:def|class|function)\s+(\w+)|^\s*(?:const|let|var)\s+(\w+)\s*=|^(\w+)\s*\(\)", text)
        return {name for names in found for name in names if name}
    source = Source(path, text)
    found = {name for _, name, _, _ in source.declarations()} | {name for name, _ in source.types()}
    found |= set(re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)", source.code))
    code = re.sub(r"(?m)^[ \t]*#(?:\\\n|[^\n])*", "", source.code)
    found |= set(re.findall(r"(?m)^static\s[^;={}()]*?(\w+)\s*\(", code))                     # declared ahead
    found |= set(re.findall(r"(?m)^(?:static\s+|const\s+|extern\s+)*\w[\w\s*]*?[\s*](\w+)\s*(?:\[[^\]]*\]\s*)*=", code))   # tables
    for body in re.findall(r"\benum\b[^;{}]*\{([^}]*)\}", code):
        found |= set(re.findall(r"(?:^|,)\s*(\w+)", body))
    for body in re.findall(r"\b(?:struct|union)\b[^;{}()]*\{([^}]*)\}", code):                # function pointers of a table
        found |= set(re.findall(r"\(\s*\*\s*(\w+)\s*\)\s*\(", body))
    return found


def spans(text):
    """Yields (offset, content) of what stands in backticks; code blocks, fenced or indented, are left out."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r"(?ms)^[ \t]*(```|~~~).*?^[ \t]*\1[ \t]*$", blank, text)
    text = re.sub(r"(?m)(?:(?<=\n\n)|\A)(?:(?: {4,}|\t)[^\n`]*(?:\n|\Z))+", blank, text)
    for m in re.finditer(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", text, re.S):
        if "\n\n" not in m.group(2):
            yield m.start(2), " ".join(m.group(2).split())


def exists(tree, path):
    path = re.sub(r"<[^<>]*>|\{[^{}]*\}|NAME", "*", path.rstrip("."))      # src/ops/<family>/NAME.c: any
    if "*" in path:
        return bool(glob.glob(os.path.join(tree.root, path)))
    return os.path.exists(os.path.join(tree.root, path))


def check_span(tree, page, line, text):
    """Checks one text in backticks. Returns how many names of the tree it holds."""
    named = re.fullmatch(r"(%s):\s*(%s)" % (PATH, NAMES), text)
    if named:
        path, names = named.group(1), [n.strip().removesuffix("()") for n in named.group(2).split(",")]
        if not os.path.isfile(os.path.join(tree.root, path)):
            tree.say(page, line, "there is no file %s" % path)
            return 1
        for name in names:
            if name not in tree.names(path):
                tree.say(page, line, "%s neither declares nor defines %s" % (path, name))
        return 1 + len(names)
    path = re.fullmatch(r"(%s)(?::\d+)?" % PATH, text)
    if path:
        if not exists(tree, path.group(1)):
            tree.say(page, line, "there is no %s" % path.group(1))
        return 1
    if re.match(r"(?:%s)/\S*:\s" % "|".join(re.escape(f) for f in FOLDERS), text):
        tree.say(page, line, "`%s` is not of the form `file: name`" % text)
    elif re.fullmatch(r"[A-Za-z_]\w*\(\)", text):
        if text[:-2] not in tree.everywhere():
            tree.say(page, line, "nothing declares or defines %s" % text)
        return 1
    return 0


def check_questions(tree, text):
    """The table of WALK.md's last section."""
    heading = re.search(r"(?m)^#+[ \t]+%s[ \t]*$" % re.escape(TITLE), text)
    if not heading:
        tree.say(WALK, 1, 'there is no section "%s"' % TITLE)
        return
    start = text.count("\n", 0, heading.start()) + 1
    section = re.split(r"(?m)^#+\s", text[heading.end():])[0]
    rows = [(start + i, line) for i, line in enumerate(section.splitlines()) if line.lstrip().startswith("|")]
    rows = [(line, re.split(r"(?<!\\)\|", row.strip().strip("|"))) for line, row in rows]
    table = rows[2:]                              # below the heads and their line
    if not rows or [cell.strip().lower() for cell in rows[0][1]] != ["question", "answer"]:
        tree.say(WALK, start, 'the section "%s" has no table question | answer' % TITLE)
        return
    seen = set()
    for line, cells in table:
        if len(cells) != 2 or not cells[0].strip() or not cells[1].strip():
            tree.say(WALK, line, "a row has a question and an answer")
            continue
        question = " ".join(cells[0].split()).lower()
        if question in seen:
            tree.say(WALK, line, "this question was asked before")
        seen.add(question)
        if not any(re.fullmatch(r"%s:\s*%s" % (PATH, NAMES), span) for _, span in spans(cells[1])):
            tree.say(WALK, line, "the answer names no `file: function`")
    if len(seen) < QUESTIONS:
        tree.say(WALK, start, "%d questions; there must be at least %d" % (len(seen), QUESTIONS))


def main():
    parser = argparse.ArgumentParser(description="Holds the names in docs/dev/*.md to the tree.")
    parser.add_argument("--root", default=HERE, help="the tree to check (default: this one)")
    tree = Tree(os.path.abspath(parser.parse_args().root))
    pages = sorted(glob.glob(os.path.join(tree.root, "docs/dev/**/*.md"), recursive=True))
    count = 0
    for page in pages:
        name = os.path.relpath(page, tree.root)
        with open(page, encoding="utf-8") as f:
            text = f.read()
        for offset, span in spans(text):
            count += check_span(tree, name, text.count("\n", 0, offset) + 1, span)
        if name == WALK:
            check_questions(tree, text)
    if not os.path.isfile(os.path.join(tree.root, WALK)):
        tree.say(WALK, 1, "this page is not there")
    for path, line, sentence in sorted(set(tree.findings)):
        print("%s:%d: %s" % (path, line, sentence))
    if not tree.findings:
        print("walk: %d names in %d pages, all in the tree" % (count, len(pages)))
    return 1 if tree.findings else 0


if __name__ == "__main__":
    sys.exit(main())
