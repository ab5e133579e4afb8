#!/usr/bin/env python3
"""Holds the order of the rooms: a file sees its own room and the rooms on earlier lines of src/ROOMS.

    check_rooms.py [--root FOLDER] [--build FOLDER]

Refused, one line each ("file:line: sentence", exit status 1):
  includes    of a later or sibling room, in any spelling; one that a macro names; one that is not
              written from src/
  internals   *_int.h of another room (its own tests in tests/<room>/ may include it)
  prototypes  of functions or extern variables outside a header, and headers that declare what another
              room defines: a hand-written declaration hides a dependency from the include rule
  names       of types, and of files, that are used twice within src/
  src/ROOMS   a line without a folder, a folder without a line
  symbols     with --build: what an object uses and only a later or sibling room defines. This sees what
              the text does not show: declarations made by macros, and calls through them.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

from c_source import HEADERS, SUFFIXES, Source

NM_AT_ONCE = 200                                  # objects for one call of nm


class Tree:
    """The rooms, their order, and every C file below src/, tests/ and bench/."""

    def __init__(self, root):
        self.root = root
        self.findings = []
        self.rank = {}                            # room -> its line of src/ROOMS
        rooms = os.path.join(root, "src", "ROOMS")
        if not os.path.isfile(rooms):
            sys.exit("check_rooms.py: %s is not there" % rooms)
        with open(rooms) as f:
            for number, line in enumerate(f, 1):
                for room in line.split():
                    if room in self.rank:
                        self.say("src/ROOMS", number, "room %s is listed twice" % room)
                    self.rank.setdefault(room, number)
        self.sources = {path: self.read(path) for path in self.files("src")}

    def files(self, top):
        for folder, folders, names in os.walk(os.path.join(self.root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
            return Source(path, f.read())

    def say(self, path, line, sentence):
        self.findings.append((path, line, sentence))

    def exists(self, path):
        return os.path.isfile(os.path.join(self.root, path))

    def sees(self, room, other):
        return other == room or self.rank.get(other, 0) < self.rank.get(room, 0)


def room_of(path):
    """The room of src/<room>/...; None for another path."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def check_list(tree):
    """(e) src/ROOMS and the folders say the same."""
    src = os.path.join(tree.root, "src")
    folders = {name for name in os.listdir(src) if os.path.isdir(os.path.join(src, name))}
    for room, line in tree.rank.items():
        if room not in folders:
            tree.say("src/ROOMS", line, "room %s has no folder src/%s" % (room, room))
    for folder in sorted(folders - set(tree.rank)):
        tree.say("src/ROOMS", 1, "folder src/%s is on no line" % folder)
    for path in tree.sources:
        if room_of(path) is None:
            tree.say(path, 1, "lies in no room")


def find_include(tree, path, target):
    """Where an include leads: a path from the root, or None if it is no file of this tree.

    A file that the build writes is not there: its first folder then says the room."""
    name = target[1:-1]
    from_src = os.path.normpath(os.path.join("src", name))
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    for place in [beside, from_src] if target[0] == '"' else [from_src]:
        if not place.startswith("..") and tree.exists(place):
            return place
    return from_src if room_of(from_src) in tree.rank else None


def check_include(tree, path, line, target):
    """(a), (b) of one include of a file in a room."""
    room = room_of(path)
    if not target or target[0] not in '<"':
        tree.say(path, line, "the include's file is named by a macro (%s): write the file" % target)
        return
    to = find_include(tree, path, target)
    if to is None:
        if target[0] == '"':
            tree.say(path, line, "%s is no file below src/: write it from src/, or in <> if it is a library's" % target)
        return
    other = room_of(to)
    if other is None:
        tree.say(path, line, "%s lies outside src/" % to)
    elif not tree.sees(room, other):
        tree.say(path, line, "room %s may not see room %s (%s)" % (room, other, to))
    elif other != room and to.endswith("_int.h"):
        tree.say(path, line, "%s is internal to room %s" % (to, other))
    elif target != '"%s"' % to[len("src/"):]:
        tree.say(path, line, 'write this include as "%s"' % to[len("src/"):])


def check_includes(tree):
    for path, source in tree.sources.items():
        if room_of(path) is None:
            continue
        for line, target in source.includes:
            check_include(tree, path, line, target)
    for top in ("tests", "bench"):                # these see every room, but nobody's internals
        for path in tree.files(top):
            for line, target in tree.read(path).includes:
                to = find_include(tree, path, target) if target[:1] in ('"', "<") else None
                if to and to.endswith("_int.h") and room_of(to) and not path.startswith("tests/%s/" % room_of(to)):
                    tree.say(path, line, "%s is internal to room %s; tests/%s may include it"
                             % (to, room_of(to), room_of(to)))


def check_declarations(tree):
    """(c) Declarations stand in headers, and a header declares what its room defines."""
    declared, defined = [], collections.defaultdict(set)
    for path, source in tree.sources.items():
        for kind, name, line, _ in source.declarations():
            if kind == "define":
                defined[name].add(path)
            elif kind in ("declare", "extern"):
                declared.append((kind, name, path, line))
        if not path.endswith(HEADERS):
            for line in source.macros_that_declare():
                tree.say(path, line, "a macro of this file declares functions or variables: declare them in a header")
    for kind, name, path, line in declared:
        rooms = {room_of(p) for p in defined[name]}
        if path.endswith(HEADERS):
            if kind == "declare" and rooms and room_of(path) not in rooms:
                tree.say(path, line, "declares %s, which %s defines" % (name, sorted(defined[name])[0]))
        elif kind == "extern":
            tree.say(path, line, "declares %s by hand: declare it in a header" % name)
        elif path in defined[name]:
            tree.say(path, line, "declares %s and defines it: make it static, or declare it in a header" % name)
        else:
            tree.say(path, line, "declares %s by hand: include the header that declares it" % name)


def check_names(tree):
    """(f) A name of a type or of a file leads to one place."""
    types, files = collections.defaultdict(list), collections.defaultdict(list)
    for path, source in tree.sources.items():
        for name, line in source.types():
            if re.match(r"[A-Z]\w*[a-z]", name):
                types[name].append((path, line))
    for folder, _, names in os.walk(os.path.join(tree.root, "src")):
        for name in names:
            files[name].append(os.path.relpath(os.path.join(folder, name), tree.root))
    for name, places in sorted(types.items()):
        first = {}
        for path, line in places:
            first.setdefault(path, line)
        for path in sorted(first)[1:]:
            there = sorted(first)[0]
            tree.say(path, first[path], "type %s is also in %s:%d" % (name, there, first[there]))
    for name, paths in sorted(files.items()):
        for path in sorted(paths)[1:]:
            tree.say(path, 1, "file name %s is also %s" % (name, sorted(paths)[0]))


def objects_below(tree, build):
    """{object: (room, source)} of the rooms' objects; those whose source is gone are left out."""
    found = {}
    top = os.path.join(build, "CMakeFiles")
    for folder, _, names in os.walk(top):
        for name in names:
            if not name.endswith(".o"):
                continue
            path = os.path.join(folder, name)
            target, _, rest = os.path.relpath(path, top).partition(os.sep)
            source = rest[:-len(".o")]
            made = re.fullmatch(r"room_(\w+)\.dir", target)
            if room_of(source):
                if tree.exists(source):
                    found[path] = room_of(source), source
            elif made and made.group(1) in tree.rank:
                found[path] = made.group(1), source         # written by the build
    return found


def read_symbols(objects):
    """Yields (object, name, letter) of every global symbol; nm's letters: U, w and v are used, not defined."""
    paths = sorted(objects)
    for i in range(0, len(paths), NM_AT_ONCE):
        done = subprocess.run(["nm", "-A", "-g", "-P", *paths[i:i + NM_AT_ONCE]], capture_output=True, text=True)
        if done.returncode:
            sys.exit("check_rooms.py: nm: %s" % (done.stderr.strip().splitlines() or ["failed"])[0])
        for line in done.stdout.splitlines():
            path, _, rest = line.partition(": ")
            words = rest.split()
            if len(words) >= 2:
                yield path, words[0], words[1]


def line_of(tree, source, name):
    """The first line of a source that names a symbol, or 1."""
    if source in tree.sources:
        parts = re.findall(r"\d+([A-Za-z_]\w*?)(?=\d|E|$)", name) if name.startswith("_Z") else []   # C++: its parts
        for part in [name, *parts]:
            m = re.search(r"\b%s\b" % re.escape(part), tree.sources[source].code)
            if m:
                return tree.sources[source].line(m.start())
    return 1


def check_symbols(tree, build):
    """(d) An object uses only what its room or an earlier one defines. Returns how many were looked at."""
    objects = objects_below(tree, build)
    if not objects:
        sys.exit("check_rooms.py: no objects of rooms below %s: build first" % os.path.join(build, "CMakeFiles"))
    homes, uses = collections.defaultdict(set), set()
    for path, name, letter in read_symbols(objects):
        room, source = objects[path]
        if letter in "Uwv":
            uses.add((source, room, name))
        else:
            homes[name].add((room, source))
    for source, room, name in sorted(uses):
        there = homes.get(name)
        if there and not any(tree.sees(room, other) for other, _ in there):
            other, at = sorted(there)[0]
            tree.say(source, line_of(tree, source, name), "room %s uses %s, which room %s defines (%s)" % (room, name, other, at))
    return len({source for _, source in objects.values()})


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description="Holds the order of the rooms (src/ROOMS).")
    parser.add_argument("--root", default=here, help="the tree to check (default: this one)")
    parser.add_argument("--build", help="a build folder, whose objects are checked too")
    options = parser.parse_args()
    tree = Tree(os.path.abspath(options.root))
    check_list(tree)
    check_includes(tree)
    check_declarations(tree)
    check_names(tree)
    built = check_symbols(tree, os.path.abspath(options.build)) if options.build else 0
    for path, line, sentence in sorted(set(tree.findings)):
        print("%s:%d: %s" % (path, line, sentence))
    if tree.findings:
        return 1
    compiled = [p for p in tree.sources if p.endswith((".c", ".cu", ".cpp"))]
    print("rooms: %d files in order%s" % (len(tree.sources), "; symbols of %d of %d sources, as many as were built"
                                          % (built, len(compiled)) if built else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
