#!/usr/bin/env python3
"""check_words.py finds what the list refuses, in files, their names and the program's output, and nothing else."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SCRIPT = os.path.join(ROOT, "scripts/check_words.py")

LIST = """# a comment
{cards?}\tGPU
{scratch}\tworkspace
\\b(?:made|run) again\\b\trecomputed
\\bMOST_|_MOST\\b\tMAX
{replays?|replayed}\tlaunch\tsrc/device/* !src/device/checks/*
{sounds?}(?! bound)\taudio
exempt\tdocs/notes/*
exempt\tsrc/data/keys.c\t"card noise"
"""

CLEAN = {
    "scripts/words.txt": None,                    # the list itself: exempt by its own last line
    "src/plan/plan.c": "/* A discarded value is recomputed; a sound bound. */\nint max_steps, cardinal, unsound, dnnl_scratchpad;\n",
    "docs/GLOSSARY.md": "| word | meaning | replaces |\n|---|---|---|\n| GPU | an NVIDIA device | card |\n",
    "docs/notes/2026-01-01-cards.md": "The card was slow, so each sound was made again in scratch.\n",
    "CHANGELOG.md": "# Changes\n## 0.2\nFaster.\n## 0.1\nRuns on a card.\n",
    "README.md": "Fits a model on a GPU.\n",
}


class CheckWords(unittest.TestCase):
    def check(self, files, *options, program=None):
        with tempfile.TemporaryDirectory() as root:
            tree = {path: text for path, text in {**CLEAN, **files}.items() if text is not None}
            tree["scripts/words.txt"] = LIST + "exempt\tscripts/words.txt\n"
            for path, text in tree.items():
                path = os.path.join(root, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(text if isinstance(text, bytes) else text.encode())
            if program:
                path = os.path.join(root, "plimsoll")
                with open(path, "w") as f:
                    f.write(program)
                os.chmod(path, 0o755)
                options = (*options, "--program", path)
            done = subprocess.run([sys.executable, SCRIPT, "--root", root, *options], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")
            return done.returncode, done.stdout.splitlines()

    def refused(self, where, files, *options):
        status, lines = self.check(files, *options)
        self.assertEqual((status, len(lines)), (1, 1), lines)
        self.assertTrue(lines[0].startswith(where + ": "), lines)

    def test_clean(self):
        self.assertEqual(self.check({}), (0, ["words: none that the glossary replaces"]))

    def test_spellings(self):
        for text in ("card", "Cards", "CARD_TRY", "on_card", "cuda_cards_left", "probeCard", "CardInfo", "a card.", "card's"):
            with self.subTest(text):
                self.refused("src/plan/new.c:2", {"src/plan/new.c": "\n%s\n" % text})
        for text in ("cardinal", "discard", "CARDINAL", "Cardboard", "wildcard"):
            with self.subTest(text):
                self.assertEqual(self.check({"src/plan/new.c": text})[0], 0)

    def test_the_whole_name_is_shown(self):
        _, lines = self.check({"src/plan/new.c": "int NORM_MOST;\n"})
        self.assertEqual(lines, ["src/plan/new.c:1: 'NORM_MOST': write MAX"])

    def test_phrase_over_a_line_end(self):
        self.refused("src/plan/new.c:1", {"src/plan/new.c": "/* The value is made\n * again. */\n"})
        self.refused("docs/new.md:1", {"docs/new.md": "The value is run\nagain.\n"})

    def test_every_place(self):
        for path in ("src/a/b.cu", "tests/a.py", "bench/a.c", "scripts/a.sh", "docs/a.md", "recipes/a.yaml", "README.md", "Makefile"):
            with self.subTest(path):
                self.refused(path + ":1", {path: "scratch\n"})

    def test_names_of_files(self):
        self.refused("tests/sounds/a.bin:1", {"tests/sounds/a.bin": b"\0card"})

    def test_scope(self):
        self.refused("src/device/a.c:1", {"src/device/a.c": "replays\n"})
        self.assertEqual(self.check({"src/plan/a.c": "replays\n", "src/device/checks/a.c": "replays\n"})[0], 0)

    def test_exempt_string(self):
        self.assertEqual(self.check({"src/data/keys.c": 'key("card noise");\n'})[0], 0)
        self.refused("src/data/keys.c:1", {"src/data/keys.c": 'key("card noise"); card();\n'})
        self.refused("src/data/other.c:1", {"src/data/other.c": 'key("card noise");\n'})

    def test_glossary_and_changelog(self):
        self.refused("docs/GLOSSARY.md:1", {"docs/GLOSSARY.md": "| GPU | a card | |\n"})
        self.refused("CHANGELOG.md:2", {"CHANGELOG.md": "## 0.2\nA card.\n## 0.1\nA card.\n"})

    def test_paths(self):
        files = {"src/plan/a.c": "card\n", "src/exec/a.c": "card\n"}
        self.refused("src/plan/a.c:1", files, "src/plan")
        self.assertEqual(self.check(files, "src/pla")[0], 0)

    def test_count(self):
        status, lines = self.check({"src/plan/a.c": "card card\n", "docs/a.md": "cards, scratch\n"}, "--count")
        self.assertEqual(status, 1)
        self.assertEqual(lines[0].split(), ["hits", "docs", "src", "pattern"])
        self.assertIn(["3", "1", "2", "{cards?}"], [line.split() for line in lines])
        self.assertEqual(lines[-1].split(), ["4", "2", "2", "all"])
        status, lines = self.check({"src/plan/a.c": "card card\n"}, "--count", "2")
        self.assertEqual(lines[0].split(), ["hits", "src/plan", "pattern"])

    def test_program(self):
        """A program that names a card in one command's JSON only."""
        program = '''#!/bin/sh
case "$*" in
--help) echo "  plimsoll fit MODEL"; echo "  plimsoll plan GRAPH" ;;
"fit --help") echo "fits a model" ;;
"fit unet-small --budget 80% --effort 200 --json"*) echo '{"card": "h200"}' ;;
esac
for word; do case $word in *.md|*.html|fit.json|plan.json|layout.csv) echo none > $word ;; run) mkdir run; echo "{}" > run/log.jsonl ;; esac; done
exit 0
'''
        status, lines = self.check({}, program=program)
        self.assertEqual((status, len(lines)), (1, 1), lines)
        self.assertRegex(lines[0], r"^output/fit unet-small .*--json.*:1: 'card': write GPU")
        self.assertEqual(self.check({}, program=program.replace('"card"', '"GPU"').replace("MODEL", "MODEL --on-card"))[0], 1)
        self.assertEqual(self.check({}, program=program.replace('"card"', '"GPU"'))[0], 0)

    def test_committed_list(self):
        """Each row of the real list compiles, and refuses the words that the glossary replaces."""
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src/ops"))
            words = ("card recording scratch hosted stamp maker turned provider picture sound judge lots regions pieces "
                     "MOST_INPUTS NORM_MOST least_peak search_least OffloadLeast blas_own OwnPrim PART_MICRO recipe_cut n_stays").split()
            phrases = ["at home on the host", "is made again", "runs again", "is run twice", "copy engine", "phase convolution",
                       "own kernels", "--backend own", '"own"', '"stays"', "the least budget", "how far from the best possible"]
            fine = ["its own", "at most", "at least", "most of it", "lines of the file", "a part of", "cut off by the time limit",
                    "stays within the budget", "columns of the matrix", "in turn", "partial", "apart", "returned", "a lot of",
                    "build_at_most", "first_stage_model", "cudaEventRecord", "timestamp", "unsound", "dnnl_query_scratchpad_md"]
            for text, expected in [(w, 1) for w in words + phrases] + [(w, 0) for w in fine]:
                with open(os.path.join(root, "src/ops/a.c"), "w") as f:
                    f.write("x %s\n" % text)
                done = subprocess.run([sys.executable, SCRIPT, "--root", root, "--words", os.path.join(ROOT, "scripts/words.txt")],
                                      capture_output=True, text=True)
                with self.subTest(text):
                    self.assertEqual(done.returncode, expected, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
