#!/usr/bin/env python3
"""check_rooms.py accepts a clean tree and refuses one with a single fault, whatever the fault is."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/check_rooms.py")
CC = os.environ.get("CC", "cc")

CLEAN = {
    "src/ROOMS": "base\nlayout import\nplan\ncli\n",
    "src/base/pool.h": "#pragma once\ntypedef struct Pool Pool;\nPool *pool_new(void);\n",
    "src/base/pool_int.h": "#pragma once\n#include \"base/pool.h\"\nstruct Pool { int bytes; };\n",
    "src/base/pool.c": "#include \"base/pool_int.h\"\n#include <stddef.h>\nPool *pool_new(void) { return NULL; }\n",
    "src/layout/layout.h": "#pragma once\ntypedef struct Layout { int n; } Layout;\nint layout_solve(Layout *layout);\n",
    "src/layout/layout.c": "/* #include \"plan/plan.h\" in a comment counts for nothing */\n"
                           "#include \"layout/layout.h\"\n#include <stdio.h>\n"
                           "static int twice(int n);\n"
                           "typedef int (*Rule)(int);\n"
                           "static int twice(int n) { return 2 * n; }\n"
                           "int layout_solve(Layout *layout) { Rule rule = twice; puts(\"#include <plan/plan.h>\"); return rule(layout->n); }\n",
    "src/import/onnx.h": "#pragma once\nint onnx_read(void);\n",
    "src/import/onnx.c": "#include \"import/onnx.h\"\nint onnx_read(void) { return 0; }\n",
    "src/plan/plan.h": "#pragma once\nextern const int plan_steps;\nint plan_solve(int budget);\n",
    "src/plan/plan_int.h": "#pragma once\nint chain_solve(int budget);\n",
    "src/plan/plan.c": "#include \"plan/plan.h\"\n#include \"plan/plan_int.h\"\n#include \"layout/layout.h\"\n"
                       "const int plan_steps = 3;\n"
                       "int plan_solve(int budget) { return layout_solve(&(Layout){ chain_solve(budget) }); }\n",
    "src/plan/solvers/chain.c": "#include \"plan/plan_int.h\"\nint chain_solve(int budget) { return budget; }\n",
    "src/cli/main.c": "#include \"plan/plan.h\"\nint main(void) { return plan_solve(plan_steps); }\n",
    "tests/plan/chain.c": "#include \"plan/plan_int.h\"\nint main(void) { return chain_solve(0); }\n",
}


class CheckRooms(unittest.TestCase):
    def check(self, files, *options):
        """Writes the clean tree with these files changed (None: without) and returns (status, lines)."""
        with tempfile.TemporaryDirectory() as root:
            tree = {path: text for path, text in {**CLEAN, **files}.items() if text is not None}
            for path, text in tree.items():
                path = os.path.join(root, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as f:
                    f.write(text)
            if options:
                self.compile(root, [path for path in tree if path.startswith("src/") and path.endswith(".c")])
            done = subprocess.run([sys.executable, SCRIPT, "--root", root, *[o.format(root=root) for o in options]],
                                  capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout.splitlines()

    def compile(self, root, sources):
        """Objects where CMake puts them: plan's kernels in a library of their own, the rest by room."""
        for source in sources:
            room = source.split("/")[1]
            target = "plimsoll_kernels_v3" if room == "base" else "room_" + room
            out = os.path.join(root, "build/CMakeFiles/%s.dir" % target, source + ".o")
            os.makedirs(os.path.dirname(out), exist_ok=True)
            subprocess.run([CC, "-w", "-I", os.path.join(root, "src"), "-c", os.path.join(root, source), "-o", out], check=True)

    def refused(self, where, says, files, *options):
        status, lines = self.check(files, *options)
        self.assertEqual((status, len(lines)), (1, 1), lines)
        self.assertTrue(lines[0].startswith(where + ": "), lines)
        self.assertIn(says, lines[0])

    def with_line(self, path, line):
        return {path: line + "\n" + CLEAN[path]}

    def test_clean(self):
        status, lines = self.check({})
        self.assertEqual((status, lines), (0, ["rooms: 12 files in order"]))

    def test_clean_with_symbols(self):
        status, lines = self.check({}, "--build", "{root}/build")
        self.assertEqual(status, 0, lines)
        self.assertIn("symbols of 6 of 6 sources", lines[0])

    def test_includes_of_a_later_room(self):
        for line in ('#include "plan/plan.h"', '# include "plan/plan.h"', '    #include "plan/plan.h"', '\t#\tinclude\t"plan/plan.h"',
                     "#include <plan/plan.h>", "#  include <plan/plan.h>", '#include"plan/plan.h"', '#/* */include "plan/plan.h"',
                     '/* */ #include "plan/plan.h"', '#include "../plan/plan.h"', '#include "../../src/plan/plan.h"',
                     "#include <../src/plan/plan.h>", '#include "plan//plan.h"', '%:include "plan/plan.h"',
                     '#include_next "plan/plan.h"', '#include "plan/written_by_the_build.h"', '#ifdef X\n#include "plan/plan.h"\n#endif'):
            with self.subTest(line):
                self.refused("src/layout/layout.h:%d" % (2 if "ifdef" in line else 1), "room layout may not see room plan",
                             self.with_line("src/layout/layout.h", line))

    def test_continued_line(self):
        self.refused("src/layout/layout.c:1", "room layout may not see room plan", self.with_line("src/layout/layout.c", '#include \\\n"plan/plan.h"'))

    def test_every_kind_of_file(self):
        for name in ("list.def", "rows.inc", "kernel.cu", "glue.cpp", "deep/inner.h"):
            with self.subTest(name):
                self.refused("src/base/%s:1" % name, "room base may not see room plan", {"src/base/" + name: '#include "plan/plan.h"\n'})

    def test_sibling(self):
        self.refused("src/import/onnx.c:1", "room import may not see room layout", self.with_line("src/import/onnx.c", '#include "layout/layout.h"'))

    def test_macro(self):
        self.refused("src/cli/main.c:2", "macro", self.with_line("src/cli/main.c", '#define PAGE "plan/plan.h"\n#include PAGE'))

    def test_not_from_src(self):
        self.refused("src/plan/solvers/chain.c:1", 'write this include as "plan/plan.h"', self.with_line("src/plan/solvers/chain.c", '#include "../plan.h"'))
        self.refused("src/cli/main.c:1", 'write this include as "plan/plan.h"', self.with_line("src/cli/main.c", "#include <plan/plan.h>"))
        self.refused("src/cli/main.c:1", "no file below src/", self.with_line("src/cli/main.c", '#include "stdio.h"'))

    def test_internal_header(self):
        self.refused("src/cli/main.c:1", "internal to room plan", self.with_line("src/cli/main.c", '#include "plan/plan_int.h"'))
        self.refused("tests/cli/main.c:1", "internal to room plan", {"tests/cli/main.c": "# include <plan/plan_int.h>\n"})
        self.refused("bench/plan.c:1", "internal to room plan", {"bench/plan.c": '#include "plan/plan_int.h"\n'})

    def test_prototypes(self):
        for line in ("int plan_solve(int budget);", "extern int plan_solve(int budget);", "const char *plan_solve(int budget);",
                     "int\nplan_solve(int budget);", "struct Plan *plan_solve(void);", "int (plan_solve)(int);",
                     "void (*plan_solve(int))(int);", "int plan_solve(int budget) __attribute__((pure));",
                     "extern const int plan_steps;", "extern int plan_steps[3];"):
            with self.subTest(line):
                self.refused("src/base/pool.c:1", "by hand", self.with_line("src/base/pool.c", line))

    def test_prototype_in_a_function(self):
        self.refused("src/base/pool.c:3", "plan_solve by hand",
                     {"src/base/pool.c": '#include "base/pool_int.h"\nPool *pool_new(void) {\n    int plan_solve(int budget);\n    return 0; }\n'})
        self.refused("src/base/pool.c:3", "plan_solve by hand",
                     {"src/base/pool.c": '#include "base/pool_int.h"\nPool *pool_new(void) {\n    extern int plan_solve(int budget);\n    return 0; }\n'})

    def test_prototype_in_cpp(self):
        self.refused("src/base/glue.cpp:1", "plan_solve by hand", {"src/base/glue.cpp": 'extern "C" int plan_solve(int budget);\n'})
        self.refused("src/base/glue.cu:2", "plan_solve by hand", {"src/base/glue.cu": 'extern "C" {\nint plan_solve(int budget);\n}\n'})
        status, lines = self.check({"src/base/glue.cu": 'extern "C" {\n#include "base/pool.h"\n}\nnamespace {\nint inner(int);\n}\n'
                                                        "__global__ static void run(int n) { extern __shared__ float memory[]; dim3 grid(n); }\n"})
        self.assertEqual(status, 0, lines)

    def test_prototype_of_its_own(self):
        self.refused("src/base/pool.c:1", "make it static", self.with_line("src/base/pool.c", "int pool_count(int n);\nint pool_count(int n) { return n; }"))

    def test_prototype_by_macro(self):
        self.refused("src/base/pool.c:1", "a macro of this file", self.with_line("src/base/pool.c", "#define NEED(x) extern int x;\nNEED(plan_steps)"))
        self.refused("src/base/pool.c:1", "a macro of this file", self.with_line("src/base/pool.c", "#define NEED(x) \\\n    int plan_##x(int n);\nNEED(solve)"))
        status, lines = self.check(self.with_line("src/base/pool.c", "#define ZERO(x) do { if (x) return pool_new(); } while (0)\n"
                                                           "#define PAGE(x) int pool_##x(int n) { return n; }"))
        self.assertEqual(status, 0, lines)

    def test_prototype_in_a_strange_header(self):
        self.refused("src/base/pool.h:1", "declares plan_solve, which src/plan/plan.c defines", self.with_line("src/base/pool.h", "int plan_solve(int budget);"))

    def test_symbol(self):
        """A declaration that only the compiler sees."""
        hidden = "#define JOIN(a, b) a##b\n#define CALL(name, n) ({ __typeof__(int(int)) JOIN(plan_, name); JOIN(plan_, name)(n); })\n" \
                 "int base_count(int n) { return CALL(solve, n); }\n"
        status, lines = self.check({"src/base/count.c": hidden})
        self.assertEqual(status, 0, lines)
        self.refused("src/base/count.c:1", "room base uses plan_solve, which room plan defines (src/plan/plan.c)",
                     {"src/base/count.c": hidden}, "--build", "{root}/build")

    def test_symbol_of_a_sibling(self):
        hidden = "#define JOIN(a, b) a##b\nint import_count(void) { __typeof__(int(void *)) JOIN(layout_, solve); return JOIN(layout_, solve)(0); }\n"
        self.refused("src/import/count.c:1", "room import uses layout_solve, which room layout defines",
                     {"src/import/count.c": hidden}, "--build", "{root}/build")

    def test_no_objects(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([sys.executable, SCRIPT, "--build", empty], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("build first", done.stderr)

    def test_rooms_file(self):
        self.refused("src/ROOMS:5", "room torch has no folder", {"src/ROOMS": CLEAN["src/ROOMS"] + "torch\n"})
        self.refused("src/ROOMS:1", "folder src/torch is on no line", {"src/torch/torch.h": "#pragma once\n"})
        self.refused("src/stray.c:1", "in no room", {"src/stray.c": "static int x;\n"})

    def test_names(self):
        self.refused("src/plan/step.c:1", "type Layout is also in src/layout/layout.h:2", {"src/plan/step.c": "typedef struct { int n; } Layout;\n"})
        self.refused("src/plan/step.c:1", "type Rule is also in src/layout/layout.c:5", {"src/plan/step.c": "enum Rule { A };\n"})
        self.refused("src/plan/pool.h:1", "file name pool.h is also src/base/pool.h", {"src/plan/pool.h": "#pragma once\n"})


if __name__ == "__main__":
    unittest.main()
