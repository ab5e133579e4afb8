#!/usr/bin/env python3
"""check_walk.py accepts pages whose names are in the tree and refuses one wrong name, wherever it stands."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/check_walk.py")

QUESTION = "| Who does %d? | `src/plan/engine.c: engine_choose` |\n"
WALK = ("# The walk\n\n1. A recipe is read (`src/plan/engine.h`, `src/plan/`, `src/*/engine.c`, `src/<room>/engine.c`).\n"
        "2. `src/plan/engine.h: Engine, ENGINE_MAX, engine_choose()` and `engine_solve()` go on:\n\n"
        "    `code`, such as src/gone.c, is not looked at\n\n```\n`src/gone.c`\n```\n\n"
        "## A newcomer's questions\n\n| question | answer |\n|---|---|\n" + "".join(QUESTION % i for i in range(15)))
CLEAN = {
    "src/plan/engine.h": "#define ENGINE_MAX 3\ntypedef struct Engine { int n; } Engine;\nint engine_choose(Engine *e);\n"
                         "enum { KEEP, DROP };\n",
    "src/plan/engine.c": "#include \"plan/engine.h\"\nstatic int engine_solve(int n) { return n; }\n"
                         "static const int table[] = { 1 };\n/* engine_gone() was here */\n"
                         "int engine_choose(Engine *e)\n{\n    return engine_solve(e->n) + table[0];\n}\n",
    "docs/dev/WALK.md": WALK,
    "docs/dev/TESTS.md": "`tests/plan/engine.py: check`, `src/plan/engine.c: table`, `src/plan/engine.h: DROP`, `make test`.\n",
    "tests/plan/engine.py": "def check():\n    pass\n",
}


class CheckWalk(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **files}.items():
                if text is not None:
                    path = os.path.join(root, path)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "w") as f:
                        f.write(text)
            done = subprocess.run([sys.executable, SCRIPT, "--root", root], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout.splitlines()

    def refused(self, where, says, files):
        status, lines = self.check(files)
        self.assertEqual((status, len(lines)), (1, 1), lines)
        self.assertTrue(lines[0].startswith(where + ": "), lines)
        self.assertIn(says, lines[0])

    def test_clean(self):
        status, lines = self.check({})
        self.assertEqual((status, lines), (0, ["walk: 45 names in 2 pages, all in the tree"]))

    def test_names(self):
        for text, says in (("`src/plan/gone.c`", "there is no src/plan/gone.c"),
                           ("`src/plan/gone.c: engine_choose`", "there is no file src/plan/gone.c"),
                           ("`src/plan/engine.c: engine_gone`", "neither declares nor defines engine_gone"),
                           ("`src/plan/engine.c:\nengine_gone`", "neither declares nor defines engine_gone"),
                           ("`src/plan/engine.c: engine_choose, engine_gone()`", "engine_gone"),
                           ("`src/plan/engine.h: engine_solve`", "engine_solve"),
                           ("`engine_gone()`", "nothing declares or defines engine_gone()"),
                           ("`docs/gone.md`", "there is no docs/gone.md"), ("`src/none/*.c`", "there is no src/none/*.c"),
                           ("`src/plan/engine.c: the choice`", "not of the form"),
                           ("`tests/plan/engine.py: gone`", "gone")):
            with self.subTest(text):
                self.refused("docs/dev/TESTS.md:3", says, {"docs/dev/TESTS.md": "# Tests\n\nSee %s.\n" % text})

    def test_page(self):
        self.refused("docs/dev/WALK.md:1", "not there", {"docs/dev/WALK.md": None})
        self.refused("docs/dev/WALK.md:1", "no section", {"docs/dev/WALK.md": "# The walk\n"})

    def test_questions(self):
        line = WALK.count("\n") + 1
        table = WALK.count("\n") - 18
        self.refused("docs/dev/WALK.md:%d" % table, "14 questions", {"docs/dev/WALK.md": WALK.replace(QUESTION % 3, "")})
        self.refused("docs/dev/WALK.md:%d" % line, "names no `file: function`", {"docs/dev/WALK.md": WALK + "| Where? | in `src/plan/engine.c` |\n"})
        self.refused("docs/dev/WALK.md:%d" % line, "a question and an answer", {"docs/dev/WALK.md": WALK + "| Where? | |\n"})
        self.refused("docs/dev/WALK.md:%d" % line, "asked before", {"docs/dev/WALK.md": WALK + QUESTION % 3})
        self.refused("docs/dev/WALK.md:%d" % line, "engine_gone", {"docs/dev/WALK.md": WALK + "| Where? | `src/plan/engine.c: engine_gone` |\n"})
        self.refused("docs/dev/WALK.md:%d" % table, "no table", {"docs/dev/WALK.md": WALK.replace("| question | answer |", "| name | place |")})


if __name__ == "__main__":
    unittest.main()
